// The texts on the wire, letter for letter as the legacy writes them.
import { expect, it } from 'vitest';
import { cannotRenegotiate, malformed, refusals } from './refusals.js';

it('says what the legacy says', () => {
  const all = [...Object.values(refusals), cannotRenegotiate('OFFERING'), malformed('call-offer', 'offer')];
  expect(all.map(({ message, retry, own }) => `${message}${retry ? ' (retry)' : ''}${own ? ' (own)' : ''}`)).toEqual([
    'No such call',
    'Not a participant',
    'Call already in progress',
    'Call is recovering, rejoin instead',
    'Not allowed to answer',
    'No offer to answer',
    'Renegotiation in progress, retry later (retry)',
    'No renegotiation to answer',
    'Nothing to rejoin',
    'No rejoin to answer',
    'Not the active device',
    'Rejoin in progress, answer it (own)',
    'Signaling is unavailable, try again (retry) (own)',
    'Signaling is unavailable, try again (retry) (own)',
    'Token expired, sign in again (own)',
    'Internal error (own)',
    'Cannot renegotiate from state OFFERING (retry)',
    'Malformed call-offer: offer is missing',
  ]);
  expect(new Set(all.map(({ code }) => code)).size).toBe(all.length);
});

it.each([
  ['payload', 'Malformed call-end: payload must be an object'],
  ['conversationId', 'Malformed call-end: conversationId must be a non-empty string of at most 256 characters'],
  ['offer', 'Malformed call-end: offer is missing'],
  ['answer', 'Malformed call-end: answer is missing'],
  ['iceCandidate', 'Malformed call-end: iceCandidate is missing'],
] as const)('malformed: %s', (what, message) => expect(malformed('call-end', what).message).toBe(message));
