// Threat: a browser that leaves in the middle of what it sent. What it sent counts (a legacy may lose what came in one piece
// with the leaving), its seat is given up after that, and no call is left behind that nobody holds.
import { afterEach, expect, it } from 'vitest';
import { startLegacy } from '../../legacy-stub/server.js';
import { type Client, callsNew, connect, type Stack, startProxy, startStack, until } from '../harness.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function stackOf(options: Parameters<typeof startStack>[0]): Promise<Stack> {
  const stack = await startStack(options);
  cleanups.push(() => stack.close());
  return stack;
}

async function person(url: string, user: string, transports: string[]): Promise<Client> {
  const client = await connect(url, user, { transports });
  cleanups.push(() => client.close());
  return client;
}

const conversationId = 'dm:alice:bob';
const ofCalls = ({ got }: Client) => got.filter(({ event }) => event.startsWith('call-')).map(({ args }) => args[0]);
const hangup = { conversationId, reason: 'hangup', userId: 'alice' };

/** Enough that polling gathers what follows in one POST, and that on the new path the first of them is being saved. */
function hangUpAndLeave(client: Client): void {
  for (let i = 0; i < 5; i++) client.socket.emit('ice-candidate', { conversationId, iceCandidate: { i } });
  client.socket.emit('call-end', { conversationId });
  client.socket.disconnect();
}

it.each(['websocket', 'polling'])('hanging up and leaving over %s is a hang-up', async (transport) => {
  const { proxy } = await stackOf({ routes: callsNew });
  const bob = await person(proxy.url, 'bob', ['websocket']);
  for (const answered of [false, true]) {
    const alice = await person(proxy.url, 'alice', [transport]);
    await alice.ask('call-offer', { conversationId, offer: 'o' });
    await bob.next('call-offer');
    if (answered) await bob.ask('call-answer', { conversationId, answer: 'a' });
    bob.forget();
    hangUpAndLeave(alice);
    await bob.next('call-ended');
    // Whatever else the leaving caused is sent by now: the next call is refused or rung after it.
    const again = await person(proxy.url, 'alice', ['websocket']);
    await again.ask('call-offer', { conversationId, offer: 'again' });
    await bob.next('call-offer');
    expect(ofCalls(bob)).toEqual([hangup, { conversationId, offer: 'again', fromUserId: 'alice' }]);
    await again.ask('call-end', { conversationId });
    await bob.next('call-ended');
    again.close();
  }
});

it('hanging up and closing the connection over polling is a hang-up', async () => {
  const { proxy } = await stackOf({ routes: callsNew });
  const bob = await person(proxy.url, 'bob', ['websocket']);
  const alice = await person(proxy.url, 'alice', ['polling']);
  await alice.ask('call-offer', { conversationId, offer: 'o' });
  await bob.ask('call-answer', { conversationId, answer: 'a' });
  bob.forget();
  alice.socket.emit('chat-message', { conversationId, text: 'bye' });
  alice.socket.emit('call-end', { conversationId });
  alice.socket.io.engine.close();
  expect(await bob.next('call-ended')).toEqual(hangup);
  expect(ofCalls(bob)).toEqual([hangup]);
});

it('an answer that waits behind a ticket, from a browser that leaves meanwhile, holds no seat', async () => {
  const { proxy } = await stackOf({ routes: callsNew, legacy: { membershipLatencyMs: 300 } });
  const alice = await person(proxy.url, 'alice', ['websocket']);
  await person(proxy.url, 'bob', ['websocket']);
  const bob = await person(proxy.url, 'bob', ['websocket']);
  await alice.ask('call-offer', { conversationId, offer: 'for the ticket' });
  await alice.ask('call-end', { conversationId });
  bob.forget();
  bob.socket.emit('call-offer', { conversationId, offer: 'at once' });
  alice.socket.emit('call-offer', { conversationId, offer: 'at once' });
  await bob.next('call-offer');
  bob.socket.emit('call-answer', { conversationId, answer: 'a' });
  await bob.ask('whoami');
  bob.close();
  expect(await alice.next('call-peer-disconnected')).toEqual({ conversationId, userId: 'bob' });
  expect(await proxy.metric('sigfig_calls', { state: 'CONNECTED' })).toBe(0);
});

it('a call that lost both seats ends when only one user comes back and offers the rejoin', async () => {
  const jwtSecret = 'a secret for tests only, long enough for HS256';
  let legacy = await startLegacy({ jwtSecret });
  const port = Number(new URL(legacy.url).port);
  const proxy = await startProxy(legacy.url, {
    routes: callsNew,
    flags: { 'rejoin-timeout': '500ms', 'reap-interval': '50ms' },
  });
  cleanups.push(
    () => legacy.close(),
    () => proxy.close(),
  );
  const alice = await person(proxy.url, 'alice', ['websocket']);
  const bob = await person(proxy.url, 'bob', ['websocket']);
  await alice.ask('call-offer', { conversationId, offer: 'o' });
  await bob.ask('call-answer', { conversationId, answer: 'a' });
  await legacy.close();
  await until(async () => (await proxy.metric('sigfig_calls', { state: 'AWAITING_REJOIN' })) === 1, 'both are lost');
  legacy = await startLegacy({ jwtSecret, port });
  const back = await person(proxy.url, 'alice', ['websocket']);
  expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'r' })).toEqual({ ok: true });
  expect(await back.next('call-ended')).toEqual({ conversationId, reason: 'rejoin-timeout', userId: 'bob' });
});
