// Order: what one browser sends about one conversation is served one after another, while everything else flows on.
// An idle lane runs its task at once; something urgent behind a task cuts its wait short. Knows nothing of events.

/** Bytes of events that may be under way for each connection while tickets are fetched (2 s at most). */
const mostBytes = 4 * 1024 * 1024;
const mostWaiting = 1024;
/** Conversations under way for each connection: a browser has one or two, and each may cost the legacy a lookup. */
const mostLanes = 256;

type Task = () => void | Promise<void>;

interface Lane {
  readonly waiting: { readonly task: Task; readonly size: number; readonly urgent: boolean }[];
  readonly over: Promise<void>;
  /** Until then what is in it waited for nothing of ours; by somebody's clock. */
  heldUntil: number;
  end(): void;
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #byConnection = new Map<number, Set<Lane>>();
  /** How many are taken and not run yet, by connection and lane; a POST has few. */
  readonly #expected = new Map<number, Map<string, number>>();
  /** What makes the task that runs stop waiting, by lane. */
  readonly #hurries = new Map<string, () => void>();
  /** Bytes that run or wait, by connection. */
  readonly #bytes = new Map<number, number>();

  busy(connection: number, key: string): boolean {
    if (this.#lanes.size === 0 && this.#expected.size === 0) return false;
    const id = `${connection}\n${key}`;
    return this.#lanes.has(id) || this.#expected.get(connection)?.has(id) === true;
  }

  /** Resolves once all that waits or runs for this connection is done; null where nothing does. */
  idle(connection: number): Promise<unknown> | null {
    const lanes = this.#byConnection.get(connection);
    return lanes ? Promise.all([...lanes].map((lane) => lane.over)) : null;
  }

  /**
   * Runs the task now, or after those before it in this lane; false where the bound is reached. Tasks must not throw.
   * `urgent`: it makes the one before it hurry.
   */
  run(connection: number, key: string, size: number, task: Task, urgent = false): boolean {
    const id = `${connection}\n${key}`;
    const lane = this.#lanes.get(id);
    const before = this.#bytes.get(connection) ?? 0;
    if (before > 0 && before + size > mostBytes) return false;
    if (lane) {
      if (lane.waiting.length >= mostWaiting) return false;
      this.#bytes.set(connection, before + size);
      lane.waiting.push({ task, size, urgent });
      if (urgent) this.#hurries.get(id)?.();
      return true;
    }
    if ((this.#byConnection.get(connection)?.size ?? 0) >= mostLanes) return false;
    const running = task();
    if (running) {
      const opened = this.#open(connection, id);
      this.#bytes.set(connection, (this.#bytes.get(connection) ?? 0) + size);
      void running.then(() => this.#next(connection, id, opened, size));
    }
    return true;
  }

  /**
   * The task of this lane that runs is about to wait: `hurry` is called, once at most, where something urgent is behind it or
   * comes in behind it before the returned function is called.
   */
  waits(connection: number, key: string, hurry: () => void): () => void {
    const id = `${connection}\n${key}`;
    const over = (): void => {
      this.#hurries.delete(id);
    };
    const once = (): void => {
      over();
      hurry();
    };
    if (this.#lanes.get(id)?.waiting.some(({ urgent }) => urgent)) hurry();
    else this.#hurries.set(id, once);
    return over;
  }

  /** The task that runs has waited until now for what is nobody's fault, and so has all that is behind it. */
  held(connection: number, key: string, now: number): void {
    const lane = this.#lanes.get(`${connection}\n${key}`);
    if (lane) lane.heldUntil = now;
  }

  /** Until when it was `held`; 0: it was not. */
  heldUntil(connection: number, key: string): number {
    return this.#lanes.get(`${connection}\n${key}`)?.heldUntil ?? 0;
  }

  /**
   * An event was taken for this lane and is run later (a POST is answered first): the lane is busy until the returned function
   * is called, so that nothing overtakes it.
   */
  expect(connection: number, key: string): () => void {
    const id = `${connection}\n${key}`;
    const expected = this.#expected.get(connection) ?? new Map<string, number>();
    this.#expected.set(connection, expected.set(id, (expected.get(id) ?? 0) + 1));
    return () => {
      const left = (expected.get(id) ?? 1) - 1;
      if (left > 0) expected.set(id, left);
      else if (expected.delete(id) && expected.size === 0 && this.#expected.get(connection) === expected) {
        this.#expected.delete(connection);
      }
    };
  }

  /** What was taken on this connection is not run any more. */
  disconnected(connection: number): void {
    this.#expected.delete(connection);
  }

  #open(connection: number, id: string): Lane {
    let end!: () => void;
    const over = new Promise<void>((resolve) => (end = resolve));
    const lane: Lane = { waiting: [], over, heldUntil: 0, end };
    this.#lanes.set(id, lane);
    const lanes = this.#byConnection.get(connection);
    if (lanes) lanes.add(lane);
    else this.#byConnection.set(connection, new Set([lane]));
    return lane;
  }

  /** `done`: bytes of the event that is over. */
  #next(connection: number, id: string, lane: Lane, done: number): void {
    this.#release(connection, done);
    for (;;) {
      const next = lane.waiting.shift();
      if (!next) {
        this.#lanes.delete(id);
        const lanes = this.#byConnection.get(connection);
        if (lanes?.delete(lane) && lanes.size === 0) this.#byConnection.delete(connection);
        lane.end();
        return;
      }
      const running = next.task();
      if (running) {
        void running.then(() => this.#next(connection, id, lane, next.size));
        return;
      }
      this.#release(connection, next.size);
    }
  }

  #release(connection: number, size: number): void {
    const left = (this.#bytes.get(connection) ?? 0) - size;
    if (left > 0) this.#bytes.set(connection, left);
    else this.#bytes.delete(connection);
  }
}
