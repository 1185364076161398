// Connection state recovery: the same Socket.IO id comes back on a new connection with what it missed, and what we put in
// between never spoils it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allLegacy, type Client, callsNew, connect, type Stack, startStack, until, within } from '../harness.js';
import { settled, transports } from './tap.js';

const back = { reconnection: true, reconnectionDelay: 100, reconnectionDelayMax: 100, randomizationFactor: 0 };

/** The connection is lost as by a bad network, and comes back by itself. */
async function lose(client: Client, meanwhile: () => Promise<void>): Promise<void> {
  const again = new Promise<void>((resolve) => client.socket.once('connect', resolve));
  const gone = new Promise<void>((resolve) => client.socket.once('disconnect', () => resolve()));
  client.socket.io.engine.close();
  await gone;
  await meanwhile();
  await within(10_000, `${client.user} is back`, again);
}

const ids = (client: Client, event: string) => client.got.filter((g) => g.event === event).map(({ args }) => args[0]);

for (const [table, routes] of Object.entries({ legacy: allLegacy, new: callsNew })) {
  describe(`recovery, calls: ${table}`, () => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack({ routes, legacy: { recovery: true } });
    });
    afterAll(() => stack.close());

    for (const transport of Object.keys(transports)) {
      const pair = async (name: string) => {
        const [a, b] = await Promise.all([
          connect(stack.proxy.url, `${name}-${transport}-a`, { ...transports[transport], ...back }),
          connect(stack.proxy.url, `${name}-${transport}-b`, transports[transport]),
        ]);
        await Promise.all([settled(a, transport), settled(b, transport)]);
        return { a, b, conversationId: `dm:${a.user}:${b.user}` };
      };

      test(`the same id on a new connection rejoins its call, over ${transport}`, async () => {
        const { a, b, conversationId } = await pair('same');
        const { id } = a.socket;
        // Socket.IO recovers only who has had an event of the legacy's.
        a.socket.emit('echo', 'first');
        await a.next('echo');
        expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
        await b.next('call-offer');
        expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
        await a.next('call-answer');
        await lose(a, async () => {
          expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
        });
        expect([a.socket.recovered, a.socket.id]).toEqual([true, id]);
        expect(await a.ask('ice-candidate', { conversationId, iceCandidate: {} })).toEqual({ ok: true });
        expect(await a.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
        expect(await b.next('call-rejoin-offer')).toMatchObject({ offer: 'again' });
        expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
        expect(await a.next('call-rejoin-answer')).toMatchObject({ answer: 'back' });
        expect(await b.ask('ice-candidate', { conversationId, iceCandidate: { n: 1 } })).toEqual({ ok: true });
        expect(await a.next('ice-candidate')).toEqual({ n: 1 });
        expect(await a.ask('call-end', { conversationId })).toEqual({ ok: true });
        await b.next('call-ended');
        for (const client of [a, b]) client.close();
      });

      test.each([
        ['an object', { n: 1 }],
        ['a text', 'candidate:1 1 udp'],
        ['an empty text', ''],
        ['bytes', Buffer.from([1])],
      ])(`what was missed comes, after a candidate that is %s, over ${transport}`, async (what, iceCandidate) => {
        const { a, b, conversationId } = await pair(`missed-${what.replaceAll(' ', '-')}`);
        await Promise.all([a, b].map((client) => client.ask('join-conversation', { conversationId })));
        await a.ask('call-offer', { conversationId, offer: 'o' });
        await b.ask('call-answer', { conversationId, answer: 'a' });
        expect(await b.ask('chat-message', { conversationId, text: 'before' })).toMatchObject({ ok: true });
        await a.next('chat-message');
        await b.ask('ice-candidate', { conversationId, iceCandidate });
        expect(await a.next('ice-candidate')).toEqual(iceCandidate);
        await lose(a, async () => {
          await b.next('call-peer-disconnected');
          expect(await b.ask('chat-message', { conversationId, text: 'missed' })).toMatchObject({ ok: true });
        });
        expect(a.socket.recovered).toBe(true);
        await until(() => ids(a, 'chat-message').length === 2, 'what was missed has come');
        expect(ids(a, 'chat-message')).toMatchObject([{ text: 'before' }, { text: 'missed' }]);
        for (const client of [a, b]) client.close();
      });
    }
  });
}
