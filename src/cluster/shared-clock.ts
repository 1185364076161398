// The time that all instances agree on: Redis's, as the renewals of the lease tell it. What one instance writes down and another one
// judges (how long a seat is held, when a call is over) goes by it. Knows nothing of leases.
import type { Clock, Timer } from '../base/clock.js';
import type { ClusterSignals } from './told.js';

/** Milliseconds. A clock that is not further off is taken as it is: it shall not jump with each renewal. */
const CLOSE = 500;
/** Operators are told from here on; what goes by this machine's own clock (tickets, the log) is off by as much. */
const APART = 2_000;
/** An answer that took longer says too little of when it was given. */
const PROMPT = 1_000;

export class SharedClock implements Clock {
  readonly #own: Clock;
  readonly #signals: Pick<ClusterSignals, 'clock'>;
  #ahead = 0;
  #taken = 0;
  #apart = false;

  constructor(own: Clock, signals: Pick<ClusterSignals, 'clock'>) {
    this.#own = own;
    this.#signals = signals;
  }

  now(): number {
    return this.#own.now() - this.#taken;
  }

  after(ms: number, run: () => void): Timer {
    return this.#own.after(ms, run);
  }

  /** By how many milliseconds this machine's clock is ahead of Redis's; negative: behind. 0 until that is known. */
  ahead(): number {
    return this.#ahead;
  }

  /** Redis's time in an answer, and what this machine's clock (`ownNow`) showed when it was asked for and when it came. */
  learn(redisTime: number, asked: number, answered = this.ownNow()): void {
    const unsure = (answered - asked) / 2;
    if (unsure < 0 || unsure > PROMPT / 2) return;
    this.#ahead = Math.round(asked + unsure - redisTime);
    if (Math.abs(this.#ahead - this.#taken) > CLOSE + unsure)
      this.#taken = Math.abs(this.#ahead) > CLOSE ? this.#ahead : 0;
    const apart = Math.abs(this.#ahead) - unsure > APART;
    if (apart !== this.#apart) this.#signals.clock(this.#ahead, apart);
    this.#apart = apart;
  }

  ownNow(): number {
    return this.#own.now();
  }
}
