// The catalogue of refusals: every text that a browser can be refused with, once. The texts are the legacy's own, letter
// for letter (docs/calls.md); `own` marks those that a legacy never gives. Knows nothing of when a refusal is due.
import type { Refusal, State } from './session.js';

const legacy = (code: string, message: string, retry = false): Refusal =>
  Object.freeze({ code, message, retry, own: false });
const own = (code: string, message: string, retry = false): Refusal =>
  Object.freeze({ code, message, retry, own: true });

export const refusals = Object.freeze({
  noSuchCall: legacy('no-such-call', 'No such call'),
  notParticipant: legacy('not-participant', 'Not a participant'),
  inProgress: legacy('in-progress', 'Call already in progress'),
  recovering: legacy('recovering', 'Call is recovering, rejoin instead'),
  notAllowedToAnswer: legacy('not-allowed-to-answer', 'Not allowed to answer'),
  noOffer: legacy('no-offer', 'No offer to answer'),
  glare: legacy('glare', 'Renegotiation in progress, retry later', true),
  noRenegotiation: legacy('no-renegotiation', 'No renegotiation to answer'),
  nothingToRejoin: legacy('nothing-to-rejoin', 'Nothing to rejoin'),
  noRejoin: legacy('no-rejoin', 'No rejoin to answer'),
  notActiveDevice: legacy('not-active-device', 'Not the active device'),
  /** Accepted difference 4: the other user's rejoin offer is already there and follows this refusal. */
  answerTheRejoin: own('answer-the-rejoin', 'Rejoin in progress, answer it'),
  /** The store, or the legacy that grants tickets, can't be reached now. */
  unavailable: own('unavailable', 'Signaling is unavailable, try again', true),
  /** One browser sent more at once than may wait for it. */
  overflow: own('overflow', 'Signaling is unavailable, try again', true),
  /** The browser's token was refused by the legacy, and no legacy handler is left to decide about it. */
  tokenExpired: own('token-expired', 'Token expired, sign in again'),
  internal: own('internal', 'Internal error'),
});

const fromState = (state: State): Refusal =>
  legacy('cannot-renegotiate', `Cannot renegotiate from state ${state}`, true);
const cannot: Readonly<Record<State, Refusal>> = Object.freeze({
  OFFERING: fromState('OFFERING'),
  CONNECTED: fromState('CONNECTED'),
  RENEGOTIATING: fromState('RENEGOTIATING'),
  AWAITING_REJOIN: fromState('AWAITING_REJOIN'),
});

export const cannotRenegotiate = (state: State): Refusal => cannot[state];

/** What a payload lacks, in the order in which it is checked. */
export type Malformed = 'payload' | 'conversationId' | 'offer' | 'answer' | 'iceCandidate';

const lacks: Readonly<Record<Malformed, string>> = {
  payload: 'payload must be an object',
  conversationId: 'conversationId must be a non-empty string of at most 256 characters',
  offer: 'offer is missing',
  answer: 'answer is missing',
  iceCandidate: 'iceCandidate is missing',
};

/** `Malformed call-offer: offer is missing`: the event's name is one of the vocabulary's, never a browser's own text. */
export const malformed = (event: string, what: Malformed): Refusal =>
  legacy('malformed', `Malformed ${event}: ${lacks[what]}`);
