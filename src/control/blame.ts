// How many of a window's faults are one user's or one conversation's, so that a guard can tell one browser's trouble from the
// path's. A record is two look-ups; what is kept is bounded. Knows no clock, no limits, and nothing of why something failed.
import type { Whose } from '../telemetry/signals.js';

/** Of each kind: the most that are one user's or one conversation's. */
export interface Loudest {
  readonly errors: number;
  readonly refusals: number;
  readonly slow: number;
}
export type Fault = keyof Loudest;

/**
 * Users, and conversations, told apart within one slot of a window. Where this many had a fault it is no single one's, and a
 * single one is found all the same unless it begins after all of them. In the worst case 12 slots take 2 MB for an event.
 */
const MOST = 256;

export const none = (): Counts => ({ errors: 0, refusals: 0, slow: 0 });

/** Those of one slot. */
export class Blame {
  readonly #users = new Map<string, Counts>();
  readonly #conversations = new Map<string, Counts>();

  add({ user, conversationId }: Whose, fault: Fault): void {
    count(this.#users, user, fault);
    if (conversationId !== undefined) count(this.#conversations, conversationId, fault);
  }

  clear(): void {
    this.#users.clear();
    this.#conversations.clear();
  }

  /**
   * The users, and the conversations, of all slots of a window, with their faults. Takes as long as there are names in it, so it is
   * asked only where a limit seems crossed, or once a second.
   */
  static named(slots: readonly Blame[]): Named {
    return [sumsOf(slots.map((slot) => slot.#users)), sumsOf(slots.map((slot) => slot.#conversations))];
  }
}

export type Counts = Record<Fault, number>;
/** Users and conversations, by name. */
export type Named = readonly [ReadonlyMap<string, Counts>, ReadonlyMap<string, Counts>];

/** Of each kind of fault the most that one of them has. */
export function loudestOf(named: Named): Loudest {
  const most = none();
  for (const names of named) {
    for (const counts of names.values()) {
      for (const fault of faults) most[fault] = Math.max(most[fault], counts[fault]);
    }
  }
  return most;
}

function sumsOf(slots: readonly ReadonlyMap<string, Counts>[]): Map<string, Counts> {
  const sums = new Map<string, Counts>();
  for (const names of slots) {
    for (const [name, counts] of names) {
      const sum = sums.get(name) ?? none();
      sums.set(name, sum);
      for (const fault of faults) sum[fault] += counts[fault];
    }
  }
  return sums;
}

export const faults: readonly Fault[] = ['errors', 'refusals', 'slow'];

function count(names: Map<string, Counts>, name: string, fault: Fault): void {
  let counts = names.get(name);
  if (!counts) {
    if (names.size >= MOST) return;
    counts = none();
    names.set(name, counts);
  }
  counts[fault]++;
}
