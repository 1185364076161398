// Offers that the new path is accepting at this moment: from when an offer is taken until it is stored, refused or given to
// the legacy, its conversation belongs to the new path. Knows no store, ticket or transport.
import type { CallKey } from '../call/session.js';
import { keyOf } from './calls.js';

/** An offer that the new path is accepting. */
export interface Accepting extends CallKey {
  readonly settled: Promise<void>;
  /** Resolves when every offer for this conversation that came before this one is settled. */
  earlierSettled(): Promise<void>;
  done(): void;
}

export class AcceptingOffers {
  /** By call, in the order in which they came; at most as many as events that wait in lanes. */
  readonly #byCall = new Map<string, Set<Accepting>>();

  has(key: string): boolean {
    return this.#byCall.has(key);
  }

  *[Symbol.iterator](): Iterator<Accepting> {
    for (const all of this.#byCall.values()) yield* all;
  }

  /** Until its `done`. */
  add({ ns, conversationId }: CallKey): Accepting {
    const key = keyOf({ ns, conversationId });
    const all = this.#byCall.get(key) ?? new Set<Accepting>();
    this.#byCall.set(key, all);
    const earlier = [...all];
    let settle!: () => void;
    const settled = new Promise<void>((resolve) => (settle = resolve));
    const mine: Accepting = {
      ns,
      conversationId,
      settled,
      earlierSettled: () => Promise.all(earlier.map((a) => a.settled)).then(() => undefined),
      done: () => {
        if (!all.delete(mine)) return;
        if (all.size === 0) this.#byCall.delete(key);
        settle();
      },
    };
    all.add(mine);
    return mine;
  }
}
