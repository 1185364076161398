// Calls of which one party is not behind this proxy, as in a rollout by halves: they are the legacy's, and whole there.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack, until } from '../harness.js';
import { transports } from './tap.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

describe.each(['websocket', 'polling'])('a call half direct, over %s', (transport) => {
  test.each(['caller', 'callee'])('the %s is behind the proxy', async (who) => {
    const url = (side: string) => (side === who ? stack.proxy.url : stack.legacy.url);
    const options = transports[transport]!;
    const [a, b] = await Promise.all([
      connect(url('caller'), `half-${transport}-${who}-a`, options),
      connect(url('callee'), `half-${transport}-${who}-b`, options),
    ]);
    const conversationId = `dm:${a.user}:${b.user}`;
    const ok = { ok: true };
    expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual(ok);
    expect(await b.next('call-offer')).toMatchObject({ fromUserId: a.user });
    expect(await b.ask('ice-candidate', { conversationId, iceCandidate: 'before the answer' })).toEqual(ok);
    expect(await a.next('ice-candidate')).toBe('before the answer');
    expect(await a.ask('ice-candidate', { conversationId, iceCandidate: 'buffered' })).toEqual(ok);
    expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual(['buffered']);
    expect(await a.next('call-answer')).toMatchObject({ fromUserId: b.user });
    for (const [from, to] of [
      [a, b],
      [b, a],
    ] as const) {
      expect(await from.ask('ice-candidate', { conversationId, iceCandidate: 'after it' })).toEqual(ok);
      expect(await to.next('ice-candidate')).toBe('after it');
      expect(await from.ask('call-renegotiate-offer', { conversationId, offer: 'r' })).toEqual(ok);
      expect(await to.next('call-renegotiate-offer')).toMatchObject({ fromUserId: from.user });
      expect(await to.ask('call-renegotiate-answer', { conversationId, answer: 'r' })).toEqual(ok);
      await from.next('call-renegotiate-answer');
    }
    const [lost, survivor] = who === 'caller' ? [a, b] : [b, a];
    lost.socket.io.engine.close();
    expect(await survivor.next('call-peer-disconnected')).toMatchObject({ userId: lost.user });
    const back = await connect(stack.proxy.url, lost.user, options);
    expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual(ok);
    await survivor.next('call-rejoin-offer');
    expect(await back.ask('ice-candidate', { conversationId, iceCandidate: 'of the rejoin' })).toEqual(ok);
    expect(await survivor.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual(['of the rejoin']);
    await back.next('call-rejoin-answer');
    expect(await survivor.ask('call-end', { conversationId })).toEqual(ok);
    await back.next('call-ended');
    expect([...a.got, ...b.got, ...back.got].filter(({ event }) => event === 'error')).toEqual([]);
    for (const client of [survivor, back]) client.close();

    // The next one, with both behind the proxy, is ours.
    const both = await Promise.all([a, b].map(({ user }) => connect(stack.proxy.url, user, options)));
    expect(await both[0]!.ask('call-offer', { conversationId, offer: 'o' })).toEqual(ok);
    expect(stack.legacy.calls.size).toBe(0);
    expect(await both[0]!.ask('call-end', { conversationId })).toEqual(ok);
    await until(async () => (await stack.proxy.metric('sigfig_calls')) === 0, 'no call is left');
    for (const client of both) client.close();
  });
});

test('a rejoin of a call that began before this proxy: its candidates go to the legacy with it', async () => {
  const [a, first] = await Promise.all([
    connect(stack.legacy.url, 'before-a', transports.websocket),
    connect(stack.legacy.url, 'before-b', transports.websocket),
  ]);
  const conversationId = 'dm:before-a:before-b';
  await a.ask('call-offer', { conversationId, offer: 'o' });
  await first.ask('call-answer', { conversationId, answer: 'a' });
  first.socket.io.engine.close();
  await a.next('call-peer-disconnected');
  const b = await connect(stack.proxy.url, 'before-b', transports.websocket);
  expect(await b.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
  expect(await b.ask('ice-candidate', { conversationId, iceCandidate: 'c' })).toEqual({ ok: true });
  expect(await a.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual(['c']);
  await b.next('call-rejoin-answer');
  expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
  for (const client of [a, b]) client.close();
});

test('a rejoin of a call that is none claims nothing: the next call is ours', async () => {
  const [a, b] = await Promise.all(
    ['none-a', 'none-b'].map((user) => connect(stack.proxy.url, user, transports.websocket)),
  );
  const conversationId = 'dm:none-a:none-b';
  for (const event of ['call-rejoin-offer', 'call-answer', 'call-renegotiate-offer'])
    await a!.ask(event, { conversationId, offer: 'o', answer: 'a' });
  expect(await a!.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
  await b!.next('call-offer');
  expect(stack.legacy.calls.state('/', conversationId)).toBeUndefined();
  expect(await a!.ask('call-end', { conversationId })).toEqual({ ok: true });
  for (const client of [a!, b!]) client.close();
});
