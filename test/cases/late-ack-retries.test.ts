// A client with `retries` sends an event again under a new acknowledgement id when the acknowledgement is late.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Client, callsNew, callsSole, connect, login, type Stack, startStack, until } from '../harness.js';
import { Polling, Ws } from '../transparency/clients.js';
import { idsOf, tap, transports } from './tap.js';

const retrying = { retries: 3, ackTimeout: 100 };
/** Whether a slow machine's client gave up is not the point; what is on the wire is. */
const ignored = () => undefined;

/** At least two ids were sent, and each got exactly one acknowledgement. */
async function everyIdIsAnswered({ sent, got }: ReturnType<typeof tap>): Promise<void> {
  const answered = () => idsOf(sent, 'event').length > 1 && idsOf(got, 'ack').length >= idsOf(sent, 'event').length;
  await until(answered, 'every id is answered');
  expect(idsOf(got, 'ack').toSorted()).toEqual(idsOf(sent, 'event').toSorted());
}

const events = (client: Client, name: string) => client.got.filter(({ event }) => event === name);

for (const [table, routes] of Object.entries({ new: callsNew, sole: callsSole })) {
  describe(`late-ack-retries, calls: ${table}`, () => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack({ routes, legacy: { membershipLatencyMs: 250 } });
    });
    afterAll(() => stack.close());

    test.each(Object.keys(transports))('the effect happens once and every id is answered, over %s', async (name) => {
      const options = transports[name]!;
      const [a, b] = await Promise.all([
        connect(stack.proxy.url, `late-${name}-a`, { ...options, ...retrying }),
        connect(stack.proxy.url, `late-${name}-b`, { ...options, ...retrying }),
      ]);
      const conversationId = `dm:${a.user}:${b.user}`;
      const tapped = tap(a);
      a.socket.emit('call-offer', { conversationId, offer: 'o' }, ignored);
      await everyIdIsAnswered(tapped);
      for (const answer of tapped.got.filter((p) => p.startsWith('3')))
        expect(answer).toMatch(/^3\d+\[\{"ok":true\}\]$/);
      await b.next('call-offer');
      expect(await b.socket.emitWithAck('call-answer', { conversationId, answer: 'a' })).toEqual([]);
      await a.next('call-answer');
      expect(await a.socket.emitWithAck('call-end', { conversationId })).toEqual({ ok: true });
      await b.next('call-ended');
      expect(events(b, 'call-offer')).toHaveLength(1);
      expect(events(a, 'error')).toEqual([]);
      for (const client of [a, b]) client.close();
    });

    test('a refusal that comes late answers every id too', async () => {
      const a = await connect(stack.proxy.url, 'late-refused', { ...transports.websocket, ...retrying });
      const tapped = tap(a);
      a.socket.emit('call-offer', { conversationId: 'dm:x:y', offer: 'o' }, ignored);
      await everyIdIsAnswered(tapped);
      for (const answer of tapped.got.filter((p) => p.startsWith('3')))
        expect(answer).toMatch(/^3\d+\[\{"ok":false,"error":"Not a participant"\}\]$/);
      a.close();
    });
  });
}

describe('late-ack-retries: the very same request again, whichever event it is', () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ routes: callsNew });
  });
  afterAll(() => stack.close());

  /** A socket by hand: sends a packet under several ids, and what it got so far. */
  async function byHand(transport: string, user: string) {
    const token = await login(stack.proxy.url, user);
    if (transport === 'websocket') {
      const ws = await Ws.open(stack.proxy.url);
      ws.send(`40${JSON.stringify({ token })}`);
      await ws.take(2);
      return {
        user,
        async send(packets: string[]) {
          ws.send(...packets);
        },
        take: (count: number) => ws.take(count),
        end: () => ws.socket.terminate(),
      };
    }
    const polling = await Polling.open(stack.proxy.url);
    await polling.post(`40${JSON.stringify({ token })}`);
    await polling.packets(1);
    return {
      user,
      async send(packets: string[]) {
        await polling.post(packets.join('\x1e'));
      },
      take: (count: number) => polling.packets(count),
      end: () => void polling.post('1'),
    };
  }

  test.each(['websocket', 'polling'])('over %s', async (transport) => {
    const a = await byHand(transport, `again-${transport}-a`);
    const b = await byHand(transport, `again-${transport}-b`);
    const conversationId = `dm:${a.user}:${b.user}`;
    let id = 0;
    /** Sends the event twice, at once and then once more, and expects the same acknowledgement for each id and `told` once. */
    async function thrice(from: typeof a, to: typeof a, event: string, fields: object, ack: string, told: string) {
      const data = JSON.stringify([event, { conversationId, ...fields }]);
      const ids = [++id, ++id];
      await from.send(ids.map((n) => `42${n}${data}`));
      expect(await from.take(2)).toEqual(ids.map((n) => `43${n}${ack}`));
      await from.send([`42${++id}${data}`]);
      expect(await from.take(1)).toEqual([`43${id}${ack}`]);
      expect(await to.take(1)).toEqual([`42${told}`]);
    }
    const ok = '[{"ok":true}]';
    const relayed = (event: string, field: string, from: typeof a) =>
      JSON.stringify([event, { conversationId, [field]: 'x', fromUserId: from.user }]);
    await thrice(a, b, 'call-offer', { offer: 'x' }, ok, relayed('call-offer', 'offer', a));
    await a.send([`42["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":{"n":1}}]`]);
    await a.send([`42${++id}["whoami"]`]);
    await a.take(1);
    await thrice(b, a, 'call-answer', { answer: 'x' }, '[[{"n":1}]]', relayed('call-answer', 'answer', b));
    await thrice(a, b, 'ice-candidate', { iceCandidate: { n: 2 } }, ok, '["ice-candidate",{"n":2}]');
    await thrice(b, a, 'call-renegotiate-offer', { offer: 'x' }, ok, relayed('call-renegotiate-offer', 'offer', b));
    await thrice(a, b, 'call-renegotiate-answer', { answer: 'x' }, ok, relayed('call-renegotiate-answer', 'answer', a));
    const ended = { conversationId, reason: 'hangup', userId: a.user };
    await thrice(a, b, 'call-end', {}, ok, JSON.stringify(['call-ended', ended]));
    // A new call is no repeat of the old one, although its offer is the same.
    await thrice(a, b, 'call-offer', { offer: 'x' }, ok, relayed('call-offer', 'offer', a));
    await a.send([`42${++id}["call-end",{"conversationId":"${conversationId}"}]`]);
    expect(await a.take(1)).toEqual([`43${id}${ok}`]);
    for (const one of [a, b]) one.end();
  });
});
