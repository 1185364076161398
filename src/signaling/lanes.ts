// Order: what one browser sends about one conversation is served one after another, while everything else flows on.
// An idle lane runs its task at once. Knows nothing of events.

/** Bytes of events that may wait for each connection while a ticket is fetched (2 s at most). */
const mostBytes = 4 * 1024 * 1024;
const mostWaiting = 1024;

type Task = () => void | Promise<void>;

interface Lane {
  readonly waiting: { readonly task: Task; readonly size: number }[];
  readonly over: Promise<void>;
  end(): void;
}

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #byConnection = new Map<number, Set<Lane>>();
  /** Bytes that wait, by connection. */
  readonly #bytes = new Map<number, number>();

  busy(connection: number, key: string): boolean {
    return this.#lanes.size > 0 && this.#lanes.has(`${connection}\n${key}`);
  }

  /** Resolves once all that waits or runs for this connection is done; null where nothing does. */
  idle(connection: number): Promise<unknown> | null {
    const lanes = this.#byConnection.get(connection);
    return lanes ? Promise.all([...lanes].map((lane) => lane.over)) : null;
  }

  /** Runs the task now, or after those before it in this lane; false where the bound is reached. Tasks must not throw. */
  run(connection: number, key: string, size: number, task: Task): boolean {
    const id = `${connection}\n${key}`;
    const lane = this.#lanes.get(id);
    if (lane) {
      const bytes = (this.#bytes.get(connection) ?? 0) + size;
      if (lane.waiting.length >= mostWaiting || bytes > mostBytes) return false;
      this.#bytes.set(connection, bytes);
      lane.waiting.push({ task, size });
      return true;
    }
    const running = task();
    if (running) {
      const opened = this.#open(connection, id);
      void running.then(() => this.#next(connection, id, opened));
    }
    return true;
  }

  #open(connection: number, id: string): Lane {
    let end!: () => void;
    const over = new Promise<void>((resolve) => (end = resolve));
    const lane: Lane = { waiting: [], over, end };
    this.#lanes.set(id, lane);
    const lanes = this.#byConnection.get(connection);
    if (lanes) lanes.add(lane);
    else this.#byConnection.set(connection, new Set([lane]));
    return lane;
  }

  #next(connection: number, id: string, lane: Lane): void {
    for (;;) {
      const next = lane.waiting.shift();
      if (!next) {
        this.#lanes.delete(id);
        const lanes = this.#byConnection.get(connection);
        if (lanes?.delete(lane) && lanes.size === 0) this.#byConnection.delete(connection);
        lane.end();
        return;
      }
      const left = (this.#bytes.get(connection) ?? 0) - next.size;
      if (left > 0) this.#bytes.set(connection, left);
      else this.#bytes.delete(connection);
      const running = next.task();
      if (running) {
        void running.then(() => this.#next(connection, id, lane));
        return;
      }
    }
  }
}
