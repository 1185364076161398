// How long an answer of Redis may take. A process that was held up (a busy machine, a pause) finds its timers over and the answers lying
// there: those are read before anything counts as late. Knows nothing of commands.

/** Milliseconds that a command may take. */
export const TIMEOUT = 1_000;
/** Milliseconds without any answer, while one is due, until a connection counts as dead. */
export const SILENCE = 1_500;
const LOOK_EVERY = 50;

export interface Deadlines {
  /** Rejects with `Command timed out` where the answer does not come within `TIMEOUT`. */
  within<T>(answer: Promise<T>): Promise<T>;
  /** The connection is another, or gone: nothing more is due of it. */
  reset(): void;
}

interface Due {
  readonly at: number;
  readonly late: (error: Error) => void;
}

/** `silent`: nothing was answered for `SILENCE` although something is due. */
export function deadlines(silent: () => void): Deadlines {
  // In the order of asking, so that the first is due first.
  const pending = new Set<Due>();
  let timer: NodeJS.Timeout | undefined;
  /** Since when something is due and nothing comes. */
  let since: number | undefined;

  function look(): void {
    timer = undefined;
    // After the timers the event loop reads what has come, then this runs.
    setImmediate(() => {
      const now = performance.now();
      for (const due of pending) {
        if (due.at > now) break;
        pending.delete(due);
        due.late(new Error('Command timed out'));
      }
      if (since !== undefined && now - since > SILENCE) {
        since = undefined;
        silent();
      }
      watch();
    });
  }

  function watch(): void {
    if (timer || (pending.size === 0 && since === undefined)) return;
    timer = setTimeout(look, LOOK_EVERY);
    timer.unref();
  }

  return {
    within(answer) {
      return new Promise((resolve, reject) => {
        const now = performance.now();
        const due: Due = { at: now + TIMEOUT, late: reject };
        pending.add(due);
        since ??= now;
        watch();
        const came = (): void => {
          pending.delete(due);
          since = pending.size > 0 ? performance.now() : undefined;
        };
        answer.then(
          (value) => {
            came();
            resolve(value);
          },
          (error: unknown) => {
            came();
            reject(error);
          },
        );
      });
    },
    reset() {
      since = undefined;
    },
  };
}
