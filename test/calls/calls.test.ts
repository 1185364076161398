// One whole life of a call with unmodified clients, on each transport and each path: who serves it is the only difference.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allLegacy, type Client, callsNew, connect, type Stack, startStack, until } from '../harness.js';

const transports = {
  websocket: { transports: ['websocket'] },
  polling: { transports: ['polling'] },
  upgrade: { transports: ['polling', 'websocket'] },
};
const paths = { legacy: allLegacy, new: callsNew };

for (const [path, routes] of Object.entries(paths)) {
  describe(`calls on ${path}`, () => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack({ routes });
    });
    afterAll(() => stack.close());

    for (const [transport, options] of Object.entries(transports)) {
      describe(`over ${transport}`, () => {
        const users = (name: string) => [`${name}-${transport}-a`, `${name}-${transport}-b`] as const;
        async function pair(name: string): Promise<[Client, Client, string]> {
          const [a, b] = users(name);
          const clients = await Promise.all([
            connect(stack.proxy.url, a, options),
            connect(stack.proxy.url, b, options),
          ]);
          return [...clients, `dm:${a}:${b}`];
        }

        it('offer, candidates before and after the answer, renegotiation by either, end', async () => {
          const [a, b, conversationId] = await pair('life');
          expect(await a.ask('call-offer', { conversationId, offer: { sdp: 'o' } })).toEqual({ ok: true });
          expect(await b.next('call-offer')).toEqual({ conversationId, offer: { sdp: 'o' }, fromUserId: a.user });
          expect(await a.ask('ice-candidate', { conversationId, iceCandidate: { candidate: '1' } })).toEqual({
            ok: true,
          });
          a.socket.emit('ice-candidate', { conversationId, iceCandidate: { candidate: '2' } });
          expect(await a.ask('whoami')).toMatchObject({ ok: true });
          expect(await b.ask('call-answer', { conversationId, answer: { sdp: 'a' } })).toEqual([
            { candidate: '1' },
            { candidate: '2' },
          ]);
          expect(await a.next('call-answer')).toEqual({ conversationId, answer: { sdp: 'a' }, fromUserId: b.user });
          await b.ask('ice-candidate', { conversationId, iceCandidate: { candidate: '3' } });
          expect(await a.next('ice-candidate')).toEqual({ candidate: '3' });
          for (const [from, to] of [
            [a, b],
            [b, a],
          ] as const) {
            expect(await from.ask('call-renegotiate-offer', { conversationId, offer: 'r' })).toEqual({ ok: true });
            expect(await to.next('call-renegotiate-offer')).toEqual({
              conversationId,
              offer: 'r',
              fromUserId: from.user,
            });
            expect(await to.ask('call-renegotiate-answer', { conversationId, answer: 'r' })).toEqual({ ok: true });
            expect(await from.next('call-renegotiate-answer')).toEqual({
              conversationId,
              answer: 'r',
              fromUserId: to.user,
            });
          }
          expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
          expect(await a.next('call-ended')).toEqual({ conversationId, reason: 'hangup', userId: b.user });
          for (const client of [a, b]) client.close();
        });

        it('binary descriptions and candidates', async () => {
          const [a, b, conversationId] = await pair('binary');
          await a.ask('call-offer', { conversationId, offer: Buffer.from('o') });
          expect(await b.next('call-offer')).toEqual({ conversationId, offer: Buffer.from('o'), fromUserId: a.user });
          await a.ask('ice-candidate', {
            conversationId,
            iceCandidate: { data: Buffer.from('1'), more: [Buffer.from('2')] },
          });
          expect(await b.ask('call-answer', { conversationId, answer: Buffer.from('a') })).toEqual([
            { data: Buffer.from('1'), more: [Buffer.from('2')] },
          ]);
          expect(await a.next('call-answer')).toEqual({ conversationId, answer: Buffer.from('a'), fromUserId: b.user });
          a.socket.emit('call-end', { conversationId });
          await b.next('call-ended');
          for (const client of [a, b]) client.close();
        });

        it('a drop, a rejoin with the roles kept, and chat that goes on beside it', async () => {
          const [a, b, conversationId] = await pair('rejoin');
          await a.ask('call-offer', { conversationId, offer: 'o' });
          await b.ask('call-answer', { conversationId, answer: 'a' });
          a.close();
          expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
          const back = await connect(stack.proxy.url, a.user, options);
          await Promise.all([
            back.ask('join-conversation', { conversationId }),
            b.ask('join-conversation', { conversationId }),
          ]);
          expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
          expect(await b.next('call-rejoin-offer')).toEqual({ conversationId, offer: 'again', fromUserId: a.user });
          await back.ask('ice-candidate', { conversationId, iceCandidate: 'r1' });
          expect(await b.ask('chat-message', { conversationId, text: 'still there?' })).toMatchObject({ ok: true });
          expect(await back.next('chat-message')).toMatchObject({ text: 'still there?' });
          expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual(['r1']);
          expect(await back.next('call-rejoin-answer')).toEqual({ conversationId, answer: 'back', fromUserId: b.user });
          expect(await back.ask('call-end', { conversationId })).toEqual({ ok: true });
          await b.next('call-ended');
          for (const client of [back, b]) client.close();
        });

        it('refusals: an error event, and the acknowledgement', async () => {
          const [a, b, conversationId] = await pair('refused');
          expect(await a.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
          expect(await a.next('error')).toEqual({ event: 'call-answer', conversationId, message: 'No such call' });
          expect(await a.ask('call-offer', { conversationId })).toEqual({
            ok: false,
            error: 'Malformed call-offer: offer is missing',
          });
          expect(await a.ask('call-offer', { conversationId: 'dm:x:y', offer: 'o' })).toEqual({
            ok: false,
            error: 'Not a participant',
          });
          await a.ask('call-offer', { conversationId, offer: 'o' });
          expect(await b.ask('call-offer', { conversationId, offer: 'o' })).toEqual({
            ok: false,
            error: 'Call already in progress',
          });
          await a.ask('call-end', { conversationId });
          for (const client of [a, b]) client.close();
        });

        it('namespace-ack: the same on another namespace that the table names', async () => {
          const [ua, ub] = users('ns');
          const conversationId = `dm:${ua}:${ub}`;
          const a = await connect(stack.proxy.url, ua, { ...options, ns: '/calls' });
          const b = await connect(stack.proxy.url, ub, { ...options, ns: '/calls' });
          expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
          await b.next('call-offer');
          expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
          expect(await a.next('call-ended')).toMatchObject({ reason: 'hangup' });
          for (const client of [a, b]) client.close();
        });
      });
    }

    it('is served where the table says', async () => {
      const onNew = await stack.proxy.metric('sigfig_events_decided_total', { path: 'new' });
      const onLegacy = await stack.proxy.metric('sigfig_events_decided_total', { path: 'legacy', because: 'route' });
      if (path === 'new') expect(onLegacy).toBe(0);
      else expect(onNew).toBe(0);
      expect(onNew + onLegacy).toBeGreaterThan(15);
      await until(async () => (await stack.proxy.metric('sigfig_calls')) === 0, 'no call is left');
    });
  });
}
