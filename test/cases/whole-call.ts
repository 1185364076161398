// One call from its first offer to its end, with a renegotiation, a drop and a rejoin in it, in which a test may do something
// at each moment. What both parties see must be the contract's, whatever that was. Knows nothing of routes.
import { expect } from 'vitest';
import { type Client, connect } from '../harness.js';
import { settled, transports } from './tap.js';

export const moments = [
  'before the offer',
  'between offer and answer',
  'between answer and end',
  'in a renegotiation',
  'while awaiting a rejoin',
  'between rejoin offer and answer',
  'at the end',
] as const;
export type Moment = (typeof moments)[number];

const callEnds = ['call-ended', 'error'];
const ok = { ok: true };

/** `at` is called at each moment and awaited, but for `at the end`: then it and the end are under way together. */
export async function wholeCall(
  url: string,
  name: string,
  transport: string,
  ns: string,
  at: (moment: Moment, conversationId: string) => Promise<void>,
): Promise<{ a: Client; b: Client; conversationId: string }> {
  const options = { ...transports[transport], ns };
  const [first, b] = await Promise.all([connect(url, `${name}-a`, options), connect(url, `${name}-b`, options)]);
  let a = first;
  await Promise.all([settled(a, transport), settled(b, transport)]);
  const conversationId = `dm:${a.user}:${b.user}`;
  const candidate = (n: number) => ({ conversationId, iceCandidate: { candidate: String(n) } });

  await at('before the offer', conversationId);
  expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual(ok);
  expect(await b.next('call-offer')).toEqual({ conversationId, offer: 'o', fromUserId: a.user });
  expect(await a.ask('ice-candidate', candidate(1))).toEqual(ok);
  await at('between offer and answer', conversationId);
  expect(await a.ask('ice-candidate', candidate(2))).toEqual(ok);
  expect(await b.ask('call-offer', { conversationId, offer: 'too' })).toMatchObject({ ok: false });
  expect(await b.next('error')).toMatchObject({ message: 'Call already in progress' });
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([{ candidate: '1' }, { candidate: '2' }]);
  expect(await a.next('call-answer')).toEqual({ conversationId, answer: 'a', fromUserId: b.user });

  await at('between answer and end', conversationId);
  expect(await b.ask('ice-candidate', candidate(3))).toEqual(ok);
  expect(await a.next('ice-candidate')).toEqual({ candidate: '3' });

  expect(await b.ask('call-renegotiate-offer', { conversationId, offer: 'r' })).toEqual(ok);
  expect(await a.next('call-renegotiate-offer')).toEqual({ conversationId, offer: 'r', fromUserId: b.user });
  await at('in a renegotiation', conversationId);
  expect(await a.ask('call-renegotiate-answer', { conversationId, answer: 's' })).toEqual(ok);
  expect(await b.next('call-renegotiate-answer')).toEqual({ conversationId, answer: 's', fromUserId: a.user });

  a.socket.io.engine.close();
  expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
  await at('while awaiting a rejoin', conversationId);
  a = await connect(url, a.user, options);
  await settled(a, transport);
  expect(await a.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual(ok);
  expect(await b.next('call-rejoin-offer')).toEqual({ conversationId, offer: 'again', fromUserId: a.user });
  expect(await a.ask('ice-candidate', candidate(4))).toEqual(ok);
  await at('between rejoin offer and answer', conversationId);
  expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([{ candidate: '4' }]);
  expect(await a.next('call-rejoin-answer')).toEqual({ conversationId, answer: 'back', fromUserId: b.user });
  expect(await b.ask('ice-candidate', candidate(5))).toEqual(ok);
  expect(await a.next('ice-candidate')).toEqual({ candidate: '5' });
  expect([...a.got, ...b.got].filter(({ event }) => callEnds.includes(event))).toHaveLength(1);

  const [ended] = await Promise.all([b.ask('call-end', { conversationId }), at('at the end', conversationId)]);
  expect(ended).toEqual(ok);
  expect(await a.next('call-ended')).toEqual({ conversationId, reason: 'hangup', userId: b.user });
  return { a, b, conversationId };
}
