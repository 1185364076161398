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

type Counts = Record<Fault, number>;
const none = (): Counts => ({ errors: 0, refusals: 0, slow: 0 });

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

  /** Over all slots of a window. Takes as long as there are names in it, so it is asked only where a limit seems crossed. */
  static loudest(slots: readonly Blame[]): Loudest {
    const most = none();
    for (const names of [slots.map((slot) => slot.#users), slots.map((slot) => slot.#conversations)]) {
      const sums = new Map<string, Counts>();
      for (const slot of names) {
        for (const [name, counts] of slot) {
          const sum = sums.get(name) ?? none();
          sums.set(name, sum);
          for (const fault of faults) {
            sum[fault] += counts[fault];
            most[fault] = Math.max(most[fault], sum[fault]);
          }
        }
      }
    }
    return most;
  }
}

const faults: readonly Fault[] = ['errors', 'refusals', 'slow'];

function count(names: Map<string, Counts>, name: string, fault: Fault): void {
  let counts = names.get(name);
  if (!counts) {
    if (names.size >= MOST) return;
    counts = none();
    names.set(name, counts);
  }
  counts[fault]++;
}
