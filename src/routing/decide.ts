// Which path serves an event, and why: the six ownership rules of docs/routes.md in their order, as a pure function.
// Knows no store, socket or table; it is told the facts. Two reasons can only be found later, once the ticket is here:
// `callee-not-here` and `token-expired` (see signaling/offers.ts).
import type { Decision } from '../base/service.js';
import type { Wanted } from './route.js';

export interface Facts {
  /** The event opens a call (`call-offer`). */
  readonly opens: boolean;
  /** The event is a candidate, which may run ahead of its offer. */
  readonly candidate: boolean;
  /** We verified the sender's token ourselves. */
  readonly verified: boolean;
  /** Rule 1 and 2: the new path has a session, an offer for it is being accepted there, or the legacy has a claim. */
  readonly owner: 'session' | 'claimed-new' | 'claimed-legacy' | null;
  /** Rule 4: a call of this conversation ended on the new path within the last 60 s. */
  readonly endedHere: boolean;
  /**
   * Where the table in force would have a call that begins now with this event; only asked for a `call-offer` and a
   * candidate, and only where rules 1 and 2 leave it open.
   */
  offer(): Wanted;
  /** A relay of a call that the legacy owns, whose relays are served here. */
  readonly peeled: boolean;
  /** The group of this event is `sole`: its legacy handlers are gone. */
  readonly sole: boolean;
}

const decisions = {
  owned: { path: 'new', because: 'owned' },
  claimedNew: { path: 'new', because: 'claimed' },
  claimedLegacy: { path: 'legacy', because: 'claimed' },
  peeled: { path: 'new', because: 'peeled' },
  endedHere: { path: 'new', because: 'ended-here' },
  early: { path: 'new', because: 'early' },
  sole: { path: 'new', because: 'sole' },
  unverified: { path: 'legacy', because: 'unverified' },
  default: { path: 'legacy', because: 'default' },
} as const satisfies Record<string, Decision>;

export function decide(facts: Facts): Decision {
  if (facts.owner === 'claimed-legacy') {
    return facts.peeled && facts.verified ? decisions.peeled : decisions.claimedLegacy;
  }
  // A sender that we can't verify is never served; with `sole` it gets its refusal here.
  if (!facts.verified) return facts.sole ? decisions.sole : decisions.unverified;
  if (facts.owner === 'session') return decisions.owned;
  if (facts.owner === 'claimed-new') return decisions.claimedNew;
  if (facts.opens) return facts.offer();
  if (facts.endedHere) return decisions.endedHere;
  if (facts.candidate && facts.offer().path === 'new') return decisions.early;
  if (facts.sole) return decisions.sole;
  return decisions.default;
}
