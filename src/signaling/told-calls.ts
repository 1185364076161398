// Calls of the new path that this instance was told of without having a seat in them: they ring here, or did a moment ago. Says whose an
// event is where what is shared can't be asked. Knows nothing of what a call is.
import type { Clock } from '../base/clock.js';

/** About 200 bytes each. A call that was forgotten is asked for. */
const most = 50_000;
/** Longer than anything rings: of its end, an instance that has no seat in it is not told. */
export const rememberFor = 5 * 60_000;

export class ToldCalls {
  readonly #calls = new Map<string, { readonly callId: string; readonly until: number }>();
  readonly #clock: Pick<Clock, 'now'>;
  readonly #onCall: (key: string) => void;

  /** `onCall` is told of each that is added. */
  constructor(clock: Pick<Clock, 'now'>, onCall: (key: string) => void = () => undefined) {
    this.#clock = clock;
    this.#onCall = onCall;
  }

  add(key: string, callId: string): void {
    this.#calls.delete(key);
    this.#calls.set(key, { callId, until: this.#clock.now() + rememberFor });
    if (this.#calls.size > most) this.#calls.delete(this.#calls.keys().next().value as string);
    this.#onCall(key);
  }

  /** That call is over, or rings here no more; a later one of its conversation does. */
  ended(key: string, callId: string): void {
    if (this.#calls.get(key)?.callId === callId) this.#calls.delete(key);
  }

  last(key: string): string | null {
    const told = this.#calls.get(key);
    return told && told.until > this.#clock.now() ? told.callId : null;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Entries are in the order of their time, so only those that are too old are looked at. */
  sweep(): void {
    const now = this.#clock.now();
    for (const [key, { until }] of this.#calls) {
      if (until > now) return;
      this.#calls.delete(key);
    }
  }
}
