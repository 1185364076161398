// The transition table as data: what each event does in each situation, by who sent it. `step.ts` looks the cell up and does
// what it names. Source: the table of docs/calls.md, read from top to bottom. Knows neither payloads nor effects.
import { cannotRenegotiate, refusals } from './refusals.js';
import type { CallEvent, Refusal, Role, Session, State } from './session.js';

/**
 * A state, told apart where the contract tells it apart. FIRST_OFFER and REJOIN_OFFER are OFFERING. BOTH_LOST is AWAITING_REJOIN
 * and BOTH_LOST_OFFER is OFFERING, of a call that lost both seats through no fault of its users (accepted difference 4).
 */
export type Situation =
  | 'IDLE'
  | 'FIRST_OFFER'
  | 'CONNECTED'
  | 'RENEGOTIATING'
  | 'AWAITING_REJOIN'
  | 'REJOIN_OFFER'
  | 'BOTH_LOST'
  | 'BOTH_LOST_OFFER';

/**
 * Who sends, seen from the situation. `own` is the side that the situation is about: the one that offers, or the one that was
 * lost; the offerer where it is about neither. `peer` is the other side. `Seat` and `Other`: on the seat's very socket or
 * on another one of that user.
 */
export type Place = 'ownSeat' | 'ownOther' | 'peerSeat' | 'peerOther' | 'outsider';

/** What a cell can name; `step.ts` has one function for each. */
export type Move =
  | 'open'
  | 'answer'
  | 'buffer'
  | 'relay'
  | 'drop-candidate'
  | 'renegotiate'
  | 'settle'
  | 'rejoin'
  | 'answer-rejoin'
  | 'show-kept'
  | 'end';

export type Cell =
  /** `to`: the state that follows; null where it stays. */
  | { readonly move: Move; readonly to: State | 'ENDED' | null; readonly because: string }
  | { readonly refuse: Refusal; readonly because: string };
export type Row = Readonly<Record<Place, Cell>>;
export type Command = Extract<CallEvent, { by: unknown }>['type'] & Exclude<CallEvent['type'], 'arrived'>;

const go = (move: Move, to: State | 'ENDED' | null, because: string): Cell => ({ move, to, because });
const no = (refuse: Refusal): Cell => ({ refuse, because: refuse.code });

const stranger = no(refusals.notParticipant);
const inactive = no(refusals.notActiveDevice);

const each = (ownSeat: Cell, ownOther: Cell, peerSeat: Cell, peerOther: Cell, outsider: Cell = stranger): Row =>
  Object.freeze({ ownSeat, ownOther, peerSeat, peerOther, outsider });
/** Any socket of either participant. */
const both = (cell: Cell, outsider?: Cell) => each(cell, cell, cell, cell, outsider);
/** One side or the other, on any socket. */
const sides = (own: Cell, peer: Cell, outsider?: Cell) => each(own, own, peer, peer, outsider);
/** The seats' own sockets, or another socket of a participant. */
const seats = (seat: Cell, other: Cell, outsider?: Cell) => each(seat, other, seat, other, outsider);
const anyone = (cell: Cell) => both(cell, cell);

const noCall = anyone(no(refusals.noSuchCall));
const inProgress = both(no(refusals.inProgress));
const recovering = both(no(refusals.recovering));
const noOffer = both(no(refusals.noOffer));
const noRenegotiation = both(no(refusals.noRenegotiation));
const noRejoin = both(no(refusals.noRejoin));
const lostCandidates = both(go('drop-candidate', null, 'awaiting-rejoin'));
const hangup = both(go('end', 'ENDED', 'hangup'));
/** The old socket's death has not been noticed yet: a seat's user comes on another socket. */
const moved = seats(no(refusals.nothingToRejoin), go('rejoin', 'OFFERING', 'seat-moved'));

export const transitions: Readonly<Record<Situation, Readonly<Record<Command, Row>>>> = {
  IDLE: {
    // Membership comes from the ticket, and no seat is taken: the sender is `ownOther` or an outsider.
    'call-offer': both(go('open', 'OFFERING', 'offered')),
    'call-answer': noCall,
    'ice-candidate': anyone(go('drop-candidate', null, 'no-call')),
    'call-renegotiate-offer': noCall,
    'call-renegotiate-answer': noCall,
    'call-rejoin-offer': noCall,
    'call-rejoin-answer': noCall,
    'call-end': noCall,
  },
  FIRST_OFFER: {
    'call-offer': inProgress,
    'call-answer': sides(
      no(refusals.notAllowedToAnswer),
      go('answer', 'CONNECTED', 'answered'),
      no(refusals.notAllowedToAnswer), // before `Not a participant`
    ),
    'ice-candidate': sides(go('buffer', null, 'awaiting-answer'), go('relay', null, 'relayed')),
    'call-renegotiate-offer': both(no(cannotRenegotiate('OFFERING'))),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': both(no(refusals.nothingToRejoin)),
    'call-rejoin-answer': noRejoin,
    'call-end': hangup,
  },
  CONNECTED: {
    'call-offer': inProgress,
    'call-answer': noOffer,
    'ice-candidate': seats(go('relay', null, 'relayed'), inactive),
    'call-renegotiate-offer': seats(go('renegotiate', 'RENEGOTIATING', 'renegotiate'), inactive),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': moved,
    'call-rejoin-answer': noRejoin,
    'call-end': hangup,
  },
  RENEGOTIATING: {
    'call-offer': inProgress,
    'call-answer': noOffer,
    'ice-candidate': seats(go('relay', null, 'relayed'), inactive),
    'call-renegotiate-offer': each(no(cannotRenegotiate('RENEGOTIATING')), inactive, no(refusals.glare), inactive),
    'call-renegotiate-answer': each(
      no(refusals.noRenegotiation),
      inactive,
      go('settle', 'CONNECTED', 'renegotiated'),
      inactive,
    ),
    'call-rejoin-offer': moved,
    'call-rejoin-answer': noRejoin,
    'call-end': hangup,
  },
  AWAITING_REJOIN: {
    'call-offer': recovering,
    'call-answer': noOffer,
    'ice-candidate': lostCandidates,
    'call-renegotiate-offer': both(no(cannotRenegotiate('AWAITING_REJOIN'))),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': sides(
      go('rejoin', 'OFFERING', 'rejoin'),
      no(refusals.nothingToRejoin),
      no(refusals.nothingToRejoin), // before `Not a participant`
    ),
    'call-rejoin-answer': noRejoin,
    'call-end': hangup,
  },
  REJOIN_OFFER: {
    'call-offer': inProgress,
    'call-answer': noOffer,
    'ice-candidate': each(go('buffer', null, 'awaiting-answer'), inactive, go('relay', null, 'relayed'), inactive),
    'call-renegotiate-offer': both(no(cannotRenegotiate('OFFERING'))),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': seats(no(refusals.nothingToRejoin), go('rejoin', 'OFFERING', 'rejoin-again')),
    'call-rejoin-answer': each(
      no(refusals.noRejoin),
      no(refusals.noRejoin),
      go('answer-rejoin', 'CONNECTED', 'rejoined'),
      inactive,
    ),
    'call-end': hangup,
  },
  BOTH_LOST: {
    'call-offer': recovering,
    'call-answer': noOffer,
    'ice-candidate': lostCandidates,
    'call-renegotiate-offer': both(no(cannotRenegotiate('AWAITING_REJOIN'))),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': both(go('rejoin', 'OFFERING', 'rejoin-kept'), no(refusals.nothingToRejoin)),
    'call-rejoin-answer': noRejoin,
    'call-end': hangup,
  },
  BOTH_LOST_OFFER: {
    'call-offer': inProgress,
    'call-answer': noOffer,
    // The other user's seat is whichever socket answers: none of its sockets is refused as inactive.
    'ice-candidate': each(
      go('buffer', null, 'awaiting-answer'),
      inactive,
      go('relay', null, 'relayed'),
      go('relay', null, 'relayed'),
    ),
    'call-renegotiate-offer': both(no(cannotRenegotiate('OFFERING'))),
    'call-renegotiate-answer': noRenegotiation,
    'call-rejoin-offer': each(
      no(refusals.nothingToRejoin),
      go('rejoin', 'OFFERING', 'rejoin-again'),
      go('show-kept', null, refusals.answerTheRejoin.code),
      go('show-kept', null, refusals.answerTheRejoin.code),
    ),
    'call-rejoin-answer': sides(no(refusals.noRejoin), go('answer-rejoin', 'CONNECTED', 'rejoined')),
    'call-end': hangup,
  },
};

/**
 * What a seat's drop does. `ring-off`: the call ends, the callee is told. `over`: it ends, nobody is left to tell. `await`: AWAITING_REJOIN,
 * the other seat is told. `await-both`: it waits for both. `forget-offer`: waits for both again. `away`: nothing but the loss is noted.
 */
export type Loss = 'none' | 'ring-off' | 'over' | 'await' | 'await-both' | 'forget-offer' | 'away';

/**
 * How the other seat stands when one drops. `here`: connected. `left`: gone, and one of the two causes is a browser's own.
 * `taken`: gone, and neither is.
 */
export type Other = 'here' | 'left' | 'taken';

interface Drops {
  readonly own: Readonly<Record<Other, Loss>>;
  readonly peer: Readonly<Record<Other, Loss>>;
}
const same = (loss: Loss): Readonly<Record<Other, Loss>> => ({ here: loss, left: loss, taken: loss });
const live: Readonly<Record<Other, Loss>> = { here: 'await', left: 'over', taken: 'await-both' };

/** A socket that holds no seat, or whose seat is lost already, changes nothing in any situation. */
export const drops: Readonly<Record<Situation, Drops>> = {
  IDLE: { own: same('none'), peer: same('none') },
  FIRST_OFFER: { own: same('ring-off'), peer: same('none') },
  CONNECTED: { own: live, peer: live },
  RENEGOTIATING: { own: live, peer: live },
  AWAITING_REJOIN: { own: same('none'), peer: live },
  REJOIN_OFFER: { own: live, peer: live },
  BOTH_LOST: { own: same('away'), peer: same('away') },
  BOTH_LOST_OFFER: { own: same('forget-offer'), peer: same('away') },
};

export function situation(session: Session | null): Situation {
  if (!session) return 'IDLE';
  switch (session.state) {
    case 'OFFERING':
      if (!session.rejoining) return 'FIRST_OFFER';
      return session.waitsForBoth ? 'BOTH_LOST_OFFER' : 'REJOIN_OFFER';
    case 'AWAITING_REJOIN':
      return session.waitsForBoth ? 'BOTH_LOST' : 'AWAITING_REJOIN';
    default:
      return session.state;
  }
}

export const opposite = (role: Role): Role => (role === 'offerer' ? 'answerer' : 'offerer');

/** The role that the situation is about: see `Place`. */
export function ownRole(session: Session): Role {
  if (session.offeredBy) return session.offeredBy;
  return session.state === 'AWAITING_REJOIN' && !session.waitsForBoth && session.lost.answerer ? 'answerer' : 'offerer';
}
