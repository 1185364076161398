// What is done one after the other, and what is waited for only so long. Knows nothing of what is done.
import type { Clock, Timer } from '../base/clock.js';

export class Turns {
  /** Those that have begun or wait. */
  waiting = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** Begins once all before it are done. */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.waiting++;
    const done = this.#last.then(work).finally(() => {
      this.waiting--;
    });
    // A fault is its caller's; the next one has its turn all the same.
    this.#last = done.catch(() => undefined);
    return done;
  }

  /** As `run`, but `late` is answered after `ms` milliseconds; what has not begun by then never does. */
  runWithin<T, L>(clock: Clock, ms: number, work: () => Promise<T>, late: (begun: boolean) => L): Promise<T | L> {
    let begun = false;
    let givenUp: { readonly answer: L } | undefined;
    const done = this.run(async (): Promise<T | L> => {
      if (givenUp) return givenUp.answer;
      begun = true;
      return work();
    });
    return within(clock, ms, done, () => {
      const answer = late(begun);
      if (!begun) givenUp = { answer };
      return answer;
    });
  }

  /** All that have begun or wait are done. */
  get idle(): Promise<unknown> {
    return this.#last;
  }
}

/** What `work` answers, or `late` once `ms` milliseconds have gone. */
export async function within<T, L>(clock: Clock, ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
  let timer: Timer | undefined;
  const tooLate = new Promise<L>((resolve) => {
    timer = clock.after(ms, () => resolve(late()));
  });
  return Promise.race([work, tooLate]).finally(() => timer?.cancel());
}
