// Asks Redis until it answers, for as long as a browser can wait. Knows nothing of what is asked but that a change carries the id of its
// operation, so that it can be asked again when its reply was lost, and can be called off for ever.
import { type Late, Unavailable } from '../base/unavailable.js';
import { type Redis, RedisAway } from '../redis/redis.js';

/** Refused within 2 s, whatever hangs: what was asked then has 400 ms to be said. */
const LONGEST = 1_600;
const PAUSE = 60;

export interface Attempts {
  /**
   * `send` is called again, with `again`, while Redis is away. `settle`: of a change, whether it was executed, so that it never will be
   * where it was not, and what it answers.
   * @throws Unavailable; what `send` throws but RedisAway
   */
  run<T>(send: (again: boolean) => Promise<T>, settle?: () => Promise<boolean | Late>): Promise<T>;
  /** Resolves with whether it was executed, once Redis says so; false when all is over. */
  close(): void;
}

export function attempts(redis: Redis, mayAct: () => boolean): Attempts {
  const waiting = new Set<() => void>();
  let closed = false;
  const wake = (): void => {
    for (const done of [...waiting]) done();
  };
  const stop = redis.onWell((well) => {
    if (well) wake();
  });

  /** As many as were under way when Redis went away, which the connection bounds; the lease is over after 2 s of that. */
  async function late(settle: () => Promise<boolean | Late>): Promise<boolean | Late> {
    for (;;) {
      if (closed) return false;
      try {
        if (redis.well()) return await settle();
      } catch (error) {
        if (!(error instanceof RedisAway)) return false;
      }
      await pause(250);
    }
  }

  function pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer);
        waiting.delete(done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      timer.unref();
      waiting.add(done);
    });
  }

  return {
    async run(send, settle) {
      const until = performance.now() + LONGEST;
      // A change may be executed as long as one of its tries is under way.
      let sent = false;
      const unavailable = (why: string): Unavailable => new Unavailable(why, sent && settle ? late(settle) : undefined);
      for (let again = false; ; again = true) {
        if (closed) throw unavailable('it is closed');
        if (!mayAct()) throw unavailable('this instance has no lease now');
        let timer: NodeJS.Timeout | undefined;
        const over = new Promise<never>((_, reject) => {
          // Where this process was held up, the answer may lie there: it is read first.
          timer = setTimeout(
            () => setImmediate(() => reject(new RedisAway('no answer in time', true))),
            until - performance.now(),
          );
        });
        try {
          return await Promise.race([send(again), over]);
        } catch (error) {
          if (!(error instanceof RedisAway)) throw error;
          sent ||= error.sent;
          if (performance.now() + PAUSE >= until) throw unavailable(error.message);
        } finally {
          clearTimeout(timer);
        }
        // Thousands can wait here: while Redis is away none of them asks, and all are woken when it is back.
        await pause(redis.well() ? PAUSE : until - performance.now());
        if (performance.now() >= until) throw unavailable('it did not come back in time');
      }
    },
    close() {
      closed = true;
      stop();
      wake();
    },
  };
}

export interface Background {
  /** Done now, or as soon as Redis is back; `what` names it, so that a later one of the same name takes its place. */
  run(what: string, work: () => Promise<unknown>): void;
  close(): void;
}

/** What is waiting while Redis is away is only tidying, which times to live do as well: over this the oldest goes. */
const MOST_WAITING = 10_000;

export function background(redis: Redis, failed: (error: unknown) => void): Background {
  const waiting = new Map<string, () => Promise<unknown>>();

  async function attempt(what: string, work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof RedisAway)) return failed(error);
      const [oldest] = waiting.keys();
      if (waiting.size >= MOST_WAITING && oldest !== undefined) waiting.delete(oldest);
      waiting.set(what, work);
      // It may have come back in between.
      if (redis.well()) setTimeout(flush, 500).unref();
    }
  }

  function flush(): void {
    const due = [...waiting];
    waiting.clear();
    for (const [what, work] of due) void attempt(what, work);
  }

  const stop = redis.onWell((well) => {
    if (well) flush();
  });

  return {
    run(what, work) {
      waiting.delete(what);
      void attempt(what, work);
    },
    close() {
      stop();
      waiting.clear();
    },
  };
}
