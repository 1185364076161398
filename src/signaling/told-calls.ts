// Calls of the new path that this instance was told of without having a seat in them: they ring here, or have. Says whose an event
// is where what is shared can't be asked. Knows nothing of what a call is.

/** About 200 bytes each. A call that was forgotten is asked for. */
const most = 50_000;

export class ToldCalls {
  readonly #calls = new Map<string, string>();

  add(key: string, callId: string): void {
    this.#calls.delete(key);
    this.#calls.set(key, callId);
    if (this.#calls.size > most) this.#calls.delete(this.#calls.keys().next().value as string);
  }

  /** That call is over; a later one of its conversation is not. */
  ended(key: string, callId: string): void {
    if (this.#calls.get(key) === callId) this.#calls.delete(key);
  }

  /** Nothing stands there, whichever call it was. */
  forget(key: string): void {
    this.#calls.delete(key);
  }

  last(key: string): string | null {
    return this.#calls.get(key) ?? null;
  }

  get size(): number {
    return this.#calls.size;
  }
}
