// Which path serves an event, and why: the six ownership rules of docs/routes.md in their order, as a pure function.
// Knows no store, socket or table; it is told the facts. Two reasons can only be found later, once the ticket is here:
// `callee-not-here` and `token-expired` (see signaling/offers.ts).
import type { Decision } from '../base/service.js';

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
  /** What the table in force says of a `call-offer` in this namespace. */
  readonly offerMode: 'legacy' | 'new';
  /** The group of this event is `sole`: its legacy handlers are gone. */
  readonly sole: boolean;
}

const decisions = {
  owned: { path: 'new', because: 'owned' },
  claimedNew: { path: 'new', because: 'claimed' },
  claimedLegacy: { path: 'legacy', because: 'claimed' },
  routeNew: { path: 'new', because: 'route' },
  routeLegacy: { path: 'legacy', because: 'route' },
  endedHere: { path: 'new', because: 'ended-here' },
  early: { path: 'new', because: 'early' },
  sole: { path: 'new', because: 'sole' },
  unverified: { path: 'legacy', because: 'unverified' },
  default: { path: 'legacy', because: 'default' },
} as const satisfies Record<string, Decision>;

export function decide(facts: Facts): Decision {
  if (facts.owner === 'claimed-legacy') return decisions.claimedLegacy;
  // A sender that we can't verify is never served; with `sole` it gets its refusal here.
  if (!facts.verified) return facts.sole ? decisions.sole : decisions.unverified;
  if (facts.owner === 'session') return decisions.owned;
  if (facts.owner === 'claimed-new') return decisions.claimedNew;
  if (facts.opens) return facts.offerMode === 'new' ? decisions.routeNew : decisions.routeLegacy;
  if (facts.endedHere) return decisions.endedHere;
  if (facts.candidate && facts.offerMode === 'new') return decisions.early;
  if (facts.sole) return decisions.sole;
  return decisions.default;
}
