// Calls that ended on the new path within the last minute: what trails in for them is answered here, not by a legacy that
// never knew them (docs/routes.md, rule 4). Knows nothing of sessions beyond their key.
import type { Clock } from '../base/clock.js';

const rememberFor = 60_000;
/** An entry is under 200 bytes. */
const most = 100_000;

export class EndedCalls {
  readonly #ended = new Map<string, { readonly callId: string; readonly at: number }>();
  readonly #clock: Clock;
  readonly #onEnd: (key: string, callId: string) => void;

  /** `onEnd` is told of each. */
  constructor(clock: Clock, onEnd: (key: string, callId: string) => void = () => undefined) {
    this.#clock = clock;
    this.#onEnd = onEnd;
  }

  add(key: string, callId: string): void {
    this.#ended.delete(key);
    this.#ended.set(key, { callId, at: this.#clock.now() });
    if (this.#ended.size > most) this.sweep(1);
    this.#onEnd(key, callId);
  }

  /** The id of the last call that ended here within the last 60 s. */
  last(key: string): string | null {
    const entry = this.#ended.get(key);
    return entry && this.#clock.now() - entry.at < rememberFor ? entry.callId : null;
  }

  get size(): number {
    return this.#ended.size;
  }

  /** Entries are in the order of their ends, so only the expired ones (and `atLeast` of the oldest) are looked at. */
  sweep(atLeast = 0): void {
    const now = this.#clock.now();
    let n = atLeast;
    for (const [key, { at }] of this.#ended) {
      if (now - at < rememberFor && n-- <= 0) break;
      this.#ended.delete(key);
    }
  }
}
