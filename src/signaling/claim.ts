// One call that the legacy has, as far as it was seen: who its parties are, and whether what passes about its conversation is
// about it, or about one that was there before. Knows no other call, and neither clock nor store.
import type { SocketRef, UserId } from '../base/ids.js';
import { sameSocket } from '../base/ids.js';
import type { Decision, InboundEvent, LegacyEvent, Peer } from '../base/service.js';
import type { CallKey, Role, State } from '../call/session.js';
import type { Parties } from '../telemetry/signals.js';
import { digestOf } from './asked.js';
import type { ObservedCall } from './observed.js';

/** A `call-offer` on its way to the legacy. */
export interface Offered {
  readonly peer: Peer;
  readonly decision: Decision;
  /** Digest of its description. */
  readonly description: string;
  /** Its acknowledgement has not passed yet; false where none was asked for. */
  due: boolean;
}

/** A call that the legacy has. Built only from what passed; the legacy itself is never asked. */
export interface LegacyClaim {
  readonly key: string;
  readonly call: CallKey;
  /** Names this one call for operators. */
  readonly id: string;
  readonly decision: Decision;
  readonly at: number;
  /** As far as it was seen, and since when. */
  state: State | 'UNKNOWN';
  since: number;
  /** What was forwarded and made us believe that the legacy has this call; undefined where it told a browser so itself. */
  begun: { readonly event: string; readonly peer: Peer } | undefined;
  /** The forwarded offer that opened it, or is to; null where there was none. */
  own: Offered | null;
  /** True once the legacy was seen to act on it. */
  confirmed: boolean;
  answered: boolean;
  /** Null where it is not known, or not behind this proxy. */
  readonly seats: Record<Role, Peer | null>;
  readonly lost: Set<Role>;
  /** Users and sockets that the legacy itself treated as parties. `caller`: in its own words, for operators only. */
  caller: string | undefined;
  callee: UserId | undefined;
  /** Set where its relays are served here, or wait until the legacy has accepted it. */
  readonly observed: ObservedCall | null;
  /** Forwarded offers of which it is not known what became; at most `maxAsking`. */
  offering: Offered[];
  /** Who sent the last forwarded answers and rejoin offers: a seat, if the legacy relays it. At most `maxAsking` each. */
  answering: Peer[];
  rejoining: Peer[];
  /** Sockets that the legacy was seen to have in this very call, by `socketKey`. */
  readonly told: Set<string>;
  /** It was claimed when an earlier call ended: a refusal of its offer may have been about that one. */
  follows: boolean;
  /** Under which name other instances know of it; null where they don't. */
  shared: string | null;
  /** Connected sockets that have to do with it, by `socketKey`; with the last of them the claim goes. */
  readonly sockets: Set<string>;
}

/** Refusals of a `call-offer` that say that a call is there: the claim stays. */
const stillThere = new Set(['Call already in progress', 'Call is recovering, rejoin instead']);
/** Of any other event: the only refusals that do not say so. */
const noneThere = /^(No such call|Malformed )/;
/** What the legacy delivers, and the state that it is in then. */
export const states: Readonly<Record<string, State>> = {
  'call-offer': 'OFFERING',
  'call-answer': 'CONNECTED',
  'call-peer-disconnected': 'AWAITING_REJOIN',
  'call-rejoin-offer': 'OFFERING',
  'call-rejoin-answer': 'CONNECTED',
};
/** Devices that offer, answer or rejoin at once; the oldest is forgotten, which at worst keeps a claim until its call ends. */
const maxAsking = 8;

export function newClaim(
  of: Pick<LegacyClaim, 'key' | 'call' | 'id' | 'decision' | 'at' | 'begun' | 'observed'>,
): LegacyClaim {
  const { call, at, begun } = of;
  return {
    ...of,
    call: { ns: call.ns, conversationId: call.conversationId },
    state: 'UNKNOWN',
    since: at,
    own: null,
    confirmed: begun === undefined,
    answered: false,
    seats: { offerer: begun?.event === 'call-offer' ? begun.peer : null, answerer: null },
    lost: new Set(),
    caller: undefined,
    callee: undefined,
    offering: [],
    answering: [],
    rejoining: [],
    follows: false,
    told: new Set(),
    shared: null,
    sockets: new Set(),
  };
}

/** Another offer is forwarded while this call is there, or is to begin. */
export function offers(claim: LegacyClaim, { peer, args, ackRequested }: InboundEvent, decision: Decision): Offered {
  const description = digestOf((args[0] as Record<string, unknown>).offer);
  const offered: Offered = { peer, decision, description, due: ackRequested };
  add(claim.offering, offered);
  // The one before it was refused over a call that was not seen: who offers now may open the next.
  if (!claim.confirmed && claim.own === null) opensWith(claim, offered);
  return offered;
}

/** Somebody asks for a seat. */
export function asks(claim: LegacyClaim, event: 'call-answer' | 'call-rejoin-offer', peer: Peer): void {
  add(event === 'call-answer' ? claim.answering : claim.rejoining, peer);
}

function add<T>(all: T[], one: T): void {
  all.push(one);
  if (all.length > maxAsking) all.shift();
}

function opensWith(claim: LegacyClaim, offered: Offered): void {
  claim.own = offered;
  claim.begun = { event: 'call-offer', peer: offered.peer };
  claim.seats.offerer = offered.peer;
}

/** The legacy delivers an offer, which need not be the one that was forwarded first. */
export function offeredBy(claim: LegacyClaim, { fromUserId: user, offer }: Record<string, unknown>): void {
  const { seats, own, offering } = claim;
  if (typeof user !== 'string') return;
  const description = digestOf(offer);
  const all = own ? [own, ...offering] : offering;
  const same = all.filter((o) => o.description === description);
  const accepted = sentBy(same, user) ?? sentBy(offering, user);
  seats.offerer = accepted?.peer ?? (seats.offerer?.user === user ? seats.offerer : null);
  claim.own = accepted;
  claim.offering = offering.filter((o) => o !== accepted);
}

/** The legacy relays an answer in this user's name. */
export function answeredBy(claim: LegacyClaim, user: unknown): void {
  if (claim.answered) return;
  claim.answered = true;
  const peer = sentBy(claim.answering, user);
  claim.seats.answerer = peer;
  if (peer) claim.told.add(socketKey(peer.ref));
}

/** The legacy relays the last forwarded rejoin offer: that user's seat moved to the socket it came from. */
export function rejoinedBy(claim: LegacyClaim, user: unknown): void {
  const peer = sentBy(claim.rejoining, user);
  if (!peer) return;
  const role = peer.user !== undefined && peer.user === claim.seats.offerer?.user ? 'offerer' : 'answerer';
  claim.seats[role] = peer;
  claim.told.add(socketKey(peer.ref));
  claim.lost.delete(role);
}

/**
 * Somebody ends it: what that very socket offered before is over too, however late its acknowledgement passes. Answers those
 * offers whose acknowledgement, and so perhaps a refusal, is still to pass.
 */
export function endedBy(claim: LegacyClaim, { ref }: Peer): readonly Offered[] {
  const over = claim.offering.filter(({ peer }) => sameSocket(peer.ref, ref));
  claim.offering = claim.offering.filter((offered) => !over.includes(offered));
  return over.filter(({ due }) => due);
}

/** An `error` about its conversation passes. True: the legacy has no such call, and of what was forwarded nothing opens one. */
export function isRefuted(claim: LegacyClaim, peer: Peer, payload: Record<string, unknown>): boolean {
  const { begun, confirmed } = claim;
  const message = String(payload.message);
  if (payload.event !== 'call-offer') {
    if (!begun || confirmed || begun.event !== payload.event || !sameSocket(begun.peer.ref, peer.ref)) return false;
    return noneThere.test(message);
  }
  // A malformed offer claims nothing, so that refusal is about another one.
  const refused = message.startsWith('Malformed ')
    ? undefined
    : claim.offering.find((o) => sameSocket(o.peer.ref, peer.ref));
  if (!refused) return false;
  claim.offering = claim.offering.filter((o) => o !== refused);
  if (refused !== claim.own || confirmed) return false;
  claim.own = null;
  // There is another call, which was not seen to begin.
  if (stillThere.has(message) && !claim.follows) return false;
  const [next] = claim.offering;
  if (next === undefined) return true;
  // Another offer is on its way, about which the legacy has not decided.
  opensWith(claim, next);
  return false;
}

/**
 * Whether what passes is about an earlier call of the conversation, as far as that can be told. `ended`: one was seen to end
 * within the last minute.
 */
export function isOfEarlier(claim: LegacyClaim, { peer, name, args }: LegacyEvent, ended: boolean): boolean {
  const { own, offering, sockets, told, answered } = claim;
  switch (name) {
    case 'call-answer':
      // It goes to whoever offered.
      if (own) return ![own, ...offering].some((o) => sameSocket(o.peer.ref, peer.ref));
      return ended && isGuess(claim);
    case 'call-peer-disconnected':
    case 'call-rejoin-offer':
    case 'call-rejoin-answer':
      // Nobody drops out of a call, or comes back, before its answer has passed to whoever offered, and is here.
      return own ? !answered : ended && isGuess(claim);
    case 'call-ended':
      if (!own || (args[0] as Record<string, unknown>).reason === 'answered-elsewhere') return false;
      // Its offerer is not told of it before its offer is acknowledged, nor anybody else who was never told of this call:
      // the offerer, who is here, is told of its own end.
      if (sameSocket(own.peer.ref, peer.ref)) return own.due;
      return !told.has(socketKey(peer.ref)) && sockets.has(socketKey(own.peer.ref));
    default:
      return false;
  }
}

export function isParty({ seats: { offerer, answerer }, begun, callee }: LegacyClaim, peer: Peer): boolean {
  const all = [offerer, answerer, begun?.peer ?? null];
  for (const seat of all) if (seat && sameSocket(seat.ref, peer.ref)) return true;
  if (peer.user === undefined) return false;
  return all.some((seat) => seat?.user === peer.user) || peer.user === callee;
}

/** As far as they were seen. */
export const partiesOf = ({ seats, caller, callee }: LegacyClaim): Parties => ({
  offerer: seats.offerer?.user ?? caller ?? null,
  answerer: seats.answerer?.user ?? callee ?? null,
});

/** A claim from an event of a live call that nobody is known to own, which the legacy has not confirmed. */
export const isGuess = ({ begun, confirmed }: LegacyClaim): boolean =>
  begun !== undefined && !confirmed && begun.event !== 'call-offer';

export const socketKey = (ref: SocketRef): string => `${ref.connection} ${ref.ns}`;

/** The last of them that this user sent; users are unknown where their tokens could not be verified. */
function sentBy<T extends Peer | Offered>(all: readonly T[], user: unknown): T | null {
  const userOf = (one: Peer | Offered): UserId | undefined => ('peer' in one ? one.peer.user : one.user);
  return all.findLast((one) => userOf(one) === user) ?? all.findLast((one) => userOf(one) === undefined) ?? null;
}
