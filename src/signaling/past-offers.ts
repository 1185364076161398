// Offers of calls of the legacy's that are over here, of which something is still on its way: their ringing, their acknowledgement, their
// refusal. It is theirs, and says nothing of the call that its conversation has now. Knows no claims but what each has offered.
import type { Clock } from '../base/clock.js';
import { type SocketRef, sameSocket } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { digestOf } from './asked.js';
import type { LegacyClaim, Offered } from './claim.js';
import { EndedCalls } from './ended.js';

/** Offers of one conversation, made and ended by their own browsers within a round trip to the legacy. */
const maxLate = 8;

export class PastOffers {
  /** Descriptions of the offers of calls that were just dropped here, whose ringing may still be on its way. */
  readonly #former: EndedCalls;
  /** Offers that are over and whose acknowledgement is still to pass, by conversation; gone with it, or with their socket. */
  readonly #late = new Map<string, readonly Offered[]>();

  constructor(clock: Clock) {
    this.#former = new EndedCalls(clock);
  }

  /** Its call is dropped here. */
  dropped(key: string, { description }: Offered): void {
    this.#former.add(key, description);
  }

  /** Their own browser has ended them, and the legacy may still refuse them. */
  ended(key: string, offers: readonly Offered[]): void {
    if (offers.length > 0) this.#late.set(key, [...(this.#late.get(key) ?? []), ...offers].slice(-maxLate));
  }

  /** It is acknowledged, or refused. */
  settled(key: string, offered: Offered): void {
    const rest = this.#late.get(key)?.filter((o) => o !== offered) ?? [];
    if (rest.length > 0) this.#late.set(key, rest);
    else this.#late.delete(key);
  }

  /** A refusal of such an offer says nothing of one that the same socket made after it: they are answered in their order. */
  refused(key: string, peer: Peer, { event, message }: Record<string, unknown>): boolean {
    if (event !== 'call-offer' || String(message).startsWith('Malformed ')) return false;
    const refused = this.#late.get(key)?.find((o) => sameSocket(o.peer.ref, peer.ref));
    if (refused) this.settled(key, refused);
    return refused !== undefined;
  }

  /** Whether what rings is a call that was dropped here meanwhile. */
  rings(key: string, claim: LegacyClaim | undefined, args: readonly unknown[]): boolean {
    const former = this.#former.last(key);
    if (former === null || former !== digestOf((args[0] as Record<string, unknown>).offer)) return false;
    return claim?.own?.description !== former && !claim?.offering.some(({ description }) => description === former);
  }

  disconnected(ref: SocketRef): void {
    for (const [key, late] of this.#late) {
      for (const offered of late) if (sameSocket(offered.peer.ref, ref)) this.settled(key, offered);
    }
  }

  /** Forgets what is too old to matter. */
  sweep(): void {
    this.#former.sweep();
  }
}
