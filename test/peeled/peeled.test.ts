// Peeled relays in the whole system: the legacy owns a call, sigfig serves its candidates and renegotiations. What both
// parties see must be the contract's, and the legacy must not see a relay.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { transports } from '../cases/tap.js';
import { type Client, callsNew, connect, type Stack, startProxy, startStack, until } from '../harness.js';

const peeled = 'namespaces:\n  /: { ice-candidate: new, call-renegotiation: new }\n';
const candidatesOnly = 'namespaces:\n  /: { ice-candidate: new }\n';
const nothing = 'namespaces: {}\n';
const ok = { ok: true };

let stack: Stack;
/** Relay events that reached the legacy. */
const atLegacy: string[] = [];
beforeAll(async () => {
  stack = await startStack({ routes: peeled });
  noteRelays(stack);
});
afterAll(() => stack.close());

function noteRelays({ legacy }: Pick<Stack, 'legacy'>): void {
  legacy.io.on('connection', (socket) => {
    socket.onAny((event: string) => {
      if (event === 'ice-candidate' || event.startsWith('call-renegotiate')) atLegacy.push(event);
    });
  });
}

const pair = (name: string, transport = 'websocket', url = stack.proxy.url): Promise<Client[]> =>
  Promise.all(['a', 'b'].map((side) => connect(url, `${name}-${side}`, transports[transport])));
const events = (client: Client): string[] => client.got.map(({ event }) => event);
const reason = (because: string, event = 'ice-candidate'): Promise<number> =>
  stack.proxy.metric('sigfig_events_decided_total', { event, because });

describe.each(['websocket', 'polling', 'upgrade'])('a peeled call over %s', (transport) => {
  test('from the offer to the end, with a drop and a rejoin: no relay reaches the legacy', async () => {
    const [first, b] = (await pair(`whole-${transport}`, transport)) as [Client, Client];
    let a = first;
    const conversationId = `dm:${a.user}:${b.user}`;
    const say = (from: Client, event: string, body: object): Promise<unknown> =>
      from.ask(event, { conversationId, ...body });
    atLegacy.length = 0;
    expect(await say(a, 'call-offer', { offer: 'o' })).toEqual(ok);
    await b.next('call-offer');
    const candidates = [1, 2].map((n) => ({ candidate: String(n), bytes: Buffer.from([n]) }));
    for (const iceCandidate of candidates) expect(await say(a, 'ice-candidate', { iceCandidate })).toEqual(ok);
    expect(await say(b, 'ice-candidate', { iceCandidate: 'd0' })).toEqual(ok);
    expect(await a.next('ice-candidate')).toBe('d0');
    expect(stack.legacy.calls.state('/', conversationId)).toBe('OFFERING');
    expect(await say(b, 'call-answer', { answer: 's' })).toEqual(candidates);
    expect(await a.next('call-answer')).toEqual({ conversationId, answer: 's', fromUserId: b.user });

    expect(await say(a, 'ice-candidate', { iceCandidate: 'c3' })).toEqual(ok);
    expect(await b.next('ice-candidate')).toBe('c3');
    const glare = await Promise.all([a, b].map((c) => say(c, 'call-renegotiate-offer', { offer: `r of ${c.user}` })));
    expect(glare.filter((answer) => (answer as { ok: boolean }).ok)).toHaveLength(1);
    const [winner, loser] = (glare[0] as { ok: boolean }).ok ? [a, b] : [b, a];
    expect(await loser.next('error')).toMatchObject({ message: 'Renegotiation in progress, retry later' });
    expect(await loser.next('call-renegotiate-offer')).toMatchObject({ offer: `r of ${winner.user}` });
    expect(await say(loser, 'call-renegotiate-answer', { answer: 't' })).toEqual(ok);
    expect(await winner.next('call-renegotiate-answer')).toMatchObject({ answer: 't', fromUserId: loser.user });

    a.socket.io.engine.close();
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
    expect(await say(b, 'call-renegotiate-offer', { offer: 'x' })).toMatchObject({
      error: 'Cannot renegotiate from state AWAITING_REJOIN',
    });
    a = await connect(stack.proxy.url, a.user, transports[transport]);
    expect(await say(a, 'call-rejoin-offer', { offer: 'again' })).toEqual(ok);
    await b.next('call-rejoin-offer');
    expect(await say(a, 'ice-candidate', { iceCandidate: 'c4' })).toEqual(ok);
    expect(await say(b, 'call-rejoin-answer', { answer: 'back' })).toEqual(['c4']);
    await a.next('call-rejoin-answer');
    expect(await say(b, 'ice-candidate', { iceCandidate: 'd5' })).toEqual(ok);
    expect(await a.next('ice-candidate')).toBe('d5');
    expect(atLegacy).toEqual([]);

    expect(await say(a, 'call-end', {})).toEqual(ok);
    expect(await b.next('call-ended')).toEqual({ conversationId, reason: 'hangup', userId: a.user });
    for (const client of [a, b]) client.close();
  });

  test('all at once, without an acknowledgement: each hears what the other said in its order', async () => {
    const [a, b] = (await pair(`burst-${transport}`, transport)) as [Client, Client];
    const conversationId = `dm:${a.user}:${b.user}`;
    const say = (from: Client, event: string, body: object): unknown =>
      from.socket.emit(event, { conversationId, ...body });
    say(a, 'call-offer', { offer: 'o' });
    for (const n of [1, 2]) say(a, 'ice-candidate', { iceCandidate: n });
    // Its acknowledgement says that all of them are here.
    expect(await a.ask('ice-candidate', { conversationId, iceCandidate: 3 })).toEqual(ok);
    await b.next('call-offer');
    say(b, 'call-answer', { answer: 's' });
    for (const n of [4, 5]) say(b, 'ice-candidate', { iceCandidate: n });
    say(b, 'call-renegotiate-offer', { offer: 'r' });
    say(b, 'call-end', {});
    await a.next('call-ended');
    await until(() => events(b).length === 4, 'the callee has the candidates');
    expect(events(a)).toEqual([
      'call-answer',
      'ice-candidate',
      'ice-candidate',
      'call-renegotiate-offer',
      'call-ended',
    ]);
    expect(b.got.slice(1).map(({ args }) => args[0])).toEqual([1, 2, 3]);
    for (const client of [a, b]) client.close();
  });

  test('threat: an outsider who answers gets no candidate; the callee gets them all', async () => {
    const [a, b] = (await pair(`threat-${transport}`, transport)) as [Client, Client];
    const mallory = await connect(stack.proxy.url, `threat-${transport}-m`, transports[transport]);
    const conversationId = `dm:${a.user}:${b.user}`;
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.next('call-offer');
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
    const [stolen, answered] = await Promise.all([
      mallory.ask('call-answer', { conversationId, answer: 's' }),
      b.ask('call-answer', { conversationId, answer: 's' }),
    ]);
    expect([stolen, answered]).toEqual([[], ['c1']]);
    expect(await mallory.ask('ice-candidate', { conversationId, iceCandidate: 'x' })).toEqual({
      ok: false,
      error: 'Not a participant',
    });
    await b.ask('call-end', { conversationId });
    expect(events(mallory)).toEqual(['error', 'error']);
    for (const client of [a, b, mallory]) client.close();
  });
});

describe('a call of which the legacy has to have all', () => {
  test('the callee answers directly at the legacy: the candidates that were kept go there, once', async () => {
    const [a, ringing] = (await pair('direct')) as [Client, Client];
    const direct = await connect(stack.legacy.url, ringing.user, transports.websocket);
    const conversationId = `dm:${a.user}:${ringing.user}`;
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await direct.next('call-offer');
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c2' });
    expect(await direct.ask('call-answer', { conversationId, answer: 's' })).toEqual([]);
    expect([await direct.next('ice-candidate'), await direct.next('ice-candidate')]).toEqual(['c1', 'c2']);
    await a.next('call-answer');
    const claimed = await reason('claimed');
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c3' });
    expect(await direct.next('ice-candidate')).toBe('c3');
    expect(await reason('claimed')).toBe(claimed + 1);
    await direct.ask('call-renegotiate-offer', { conversationId, offer: 'r' });
    await a.next('call-renegotiate-offer');
    expect(await a.ask('call-renegotiate-answer', { conversationId, answer: 't' })).toEqual(ok);
    await direct.next('call-renegotiate-answer');
    await a.ask('call-end', { conversationId });
    expect(direct.got.filter(({ event }) => event === 'ice-candidate')).toHaveLength(3);
    for (const client of [a, ringing, direct]) client.close();
  });

  test('nobody of the callee’s is here: candidates wait half a second, and are in the legacy’s list', async () => {
    const a = await connect(stack.proxy.url, 'absent-a', transports.websocket);
    const b = await connect(stack.legacy.url, 'absent-b', transports.websocket);
    const conversationId = 'dm:absent-a:absent-b';
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.next('call-offer');
    expect(await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' })).toEqual(ok);
    expect(await b.ask('call-answer', { conversationId, answer: 's' })).toEqual(['c1']);
    await a.ask('call-end', { conversationId });
    for (const client of [a, b]) client.close();
  });

  test('it began before the proxy did', async () => {
    const [a, b] = (await pair('before', 'websocket', stack.legacy.url)) as [Client, Client];
    const conversationId = `dm:${a.user}:${b.user}`;
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.ask('call-answer', { conversationId, answer: 's' });
    const later = await startProxy(stack.legacy.url, { routes: peeled });
    // One after the other they come back through the proxy, as in a deploy.
    b.socket.io.engine.close();
    await a.next('call-peer-disconnected');
    const b2 = await connect(later.url, b.user, transports.websocket);
    await b2.ask('call-rejoin-offer', { conversationId, offer: 'j' });
    await a.next('call-rejoin-offer');
    expect(await b2.ask('ice-candidate', { conversationId, iceCandidate: 'd1' })).toEqual(ok);
    expect(await a.ask('call-rejoin-answer', { conversationId, answer: 'k' })).toEqual(['d1']);
    a.socket.io.engine.close();
    await b2.next('call-peer-disconnected');
    const a2 = await connect(later.url, a.user, transports.websocket);
    await a2.ask('call-rejoin-offer', { conversationId, offer: 'j' });
    await b2.next('call-rejoin-offer');
    await a2.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
    expect(await b2.ask('call-rejoin-answer', { conversationId, answer: 'k' })).toEqual(['c1']);
    await b2.ask('ice-candidate', { conversationId, iceCandidate: 'd2' });
    expect(await a2.next('ice-candidate')).toBe('d2');
    await a2.ask('call-renegotiate-offer', { conversationId, offer: 'r' });
    expect(await b2.ask('call-renegotiate-answer', { conversationId, answer: 't' })).toEqual(ok);
    expect(await later.metric('sigfig_events_decided_total', { because: 'peeled' })).toBe(0);
    // The next one is peeled.
    await a2.ask('call-end', { conversationId });
    await a2.ask('call-offer', { conversationId, offer: 'o2' });
    await b2.next('call-offer');
    await a2.ask('ice-candidate', { conversationId, iceCandidate: 'c2' });
    expect(await b2.ask('call-answer', { conversationId, answer: 's2' })).toEqual(['c2']);
    expect(await later.metric('sigfig_events_decided_total', { because: 'peeled' })).toBe(1);
    for (const client of [a2, b2]) client.close();
    await later.close();
  });
});

test.each(['websocket', 'polling'])('routes flip in a peeled call, over %s: its relays stay', async (transport) => {
  const tables = { peeled, candidatesOnly, nothing, callsNew };
  for (const [to, table] of Object.entries(tables)) {
    await stack.proxy.setRoutes(`${peeled}# before ${to} over ${transport}\n`);
    const [a, b] = (await pair(`flip-${to}-${transport}`, transport)) as [Client, Client];
    const conversationId = `dm:${a.user}:${b.user}`;
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.next('call-offer');
    atLegacy.length = 0;
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
    await stack.proxy.setRoutes(`${table}# to ${to} over ${transport}\n`);
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c2' });
    expect(await b.ask('call-answer', { conversationId, answer: 's' })).toEqual(['c1', 'c2']);
    await a.next('call-answer');
    await b.ask('call-renegotiate-offer', { conversationId, offer: 'r' });
    await a.next('call-renegotiate-offer');
    await stack.proxy.setRoutes(`${peeled}# again, after ${to} over ${transport}\n`);
    expect(await a.ask('call-renegotiate-answer', { conversationId, answer: 't' })).toEqual(ok);
    expect(atLegacy).toEqual([]);
    await b.ask('call-end', { conversationId });
    for (const client of [a, b]) client.close();
  }
});

test.each([
  ['nothing', nothing],
  ['candidates alone', candidatesOnly],
])('a call that began with %s peeled stays so', async (what, table) => {
  await stack.proxy.setRoutes(`${table}# at the start\n`);
  const [a, b] = (await pair(`began-${what.replace(' ', '-')}`)) as [Client, Client];
  const conversationId = `dm:${a.user}:${b.user}`;
  await a.ask('call-offer', { conversationId, offer: 'o' });
  await b.next('call-offer');
  await stack.proxy.setRoutes(`${peeled}# after ${what}\n`);
  atLegacy.length = 0;
  await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
  expect(await b.ask('call-answer', { conversationId, answer: 's' })).toEqual(['c1']);
  await b.ask('call-renegotiate-offer', { conversationId, offer: 'r' });
  await a.ask('call-renegotiate-answer', { conversationId, answer: 't' });
  const renegotiation = ['call-renegotiate-offer', 'call-renegotiate-answer'];
  expect(atLegacy).toEqual(table === nothing ? ['ice-candidate', ...renegotiation] : renegotiation);
  await b.ask('call-end', { conversationId });
  for (const client of [a, b]) client.close();
});
