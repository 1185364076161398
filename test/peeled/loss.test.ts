// Peeled calls while the legacy goes away under them and comes back: it has forgotten them, and nothing that was observed
// of them may outlive that.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Legacy, startLegacy } from '../../legacy-stub/server.js';
import { transports } from '../cases/tap.js';
import { type Client, connect, startProxy, until } from '../harness.js';

const peeled = 'namespaces:\n  /: { ice-candidate: new, call-renegotiation: new }\n';
const jwtSecret = 'a secret for tests only, long enough for HS256';
const ok = { ok: true };

let legacy: Legacy;
let proxy: Awaited<ReturnType<typeof startProxy>>;
beforeAll(async () => {
  legacy = await startLegacy({ jwtSecret });
  proxy = await startProxy(legacy.url, { routes: peeled });
});
afterAll(async () => {
  await proxy.close();
  await legacy.close();
});

async function restarted(clients: readonly Client[]): Promise<void> {
  const gone = clients.map(({ socket }) => new Promise((resolve) => socket.once('disconnect', resolve)));
  const { port } = legacy;
  await legacy.close();
  await Promise.all(gone);
  legacy = await startLegacy({ jwtSecret, port });
  await until(async () => {
    const answer = await fetch(`${proxy.url}/api/health`).catch(() => null);
    return answer !== null && answer.status < 500;
  }, 'the legacy is reached again');
}

const observed = async (): Promise<number> => proxy.metric('sigfig_held', { what: 'observed-bytes' });

test.each(['websocket', 'polling'])(
  'the legacy is restarted in peeled calls of every state, over %s',
  async (transport) => {
    const states = ['ringing', 'connected', 'renegotiating', 'recovering', 'rejoining'] as const;
    const options = transports[transport];
    const calls = await Promise.all(
      states.map(async (state) => {
        const [a, first] = (await Promise.all(
          ['a', 'b'].map((side) => connect(proxy.url, `${state}-${transport}-${side}`, options)),
        )) as [Client, Client];
        let b = first;
        const conversationId = `dm:${a.user}:${b.user}`;
        await a.ask('call-offer', { conversationId, offer: 'o' });
        await b.next('call-offer');
        await a.ask('ice-candidate', { conversationId, iceCandidate: 'c1' });
        if (state === 'ringing') return { state, conversationId, a, b };
        expect(await b.ask('call-answer', { conversationId, answer: 's' })).toEqual(['c1']);
        if (state === 'renegotiating') await a.ask('call-renegotiate-offer', { conversationId, offer: 'r' });
        if (state === 'recovering' || state === 'rejoining') {
          b.socket.io.engine.close();
          await a.next('call-peer-disconnected');
          b = await connect(proxy.url, b.user, options);
        }
        if (state === 'rejoining') {
          await b.ask('call-rejoin-offer', { conversationId, offer: 'j' });
          await b.ask('ice-candidate', { conversationId, iceCandidate: 'd1' });
        }
        return { state, conversationId, a, b };
      }),
    );
    expect(await observed()).toBeGreaterThanOrEqual(states.length * 1024);
    await restarted(calls.flatMap(({ a, b }) => [a, b]));

    await Promise.all(
      calls.map(async ({ conversationId, ...before }) => {
        const [a, b] = (await Promise.all(
          [before.a, before.b].map(({ user }) => connect(proxy.url, user, options)),
        )) as [Client, Client];
        // The legacy knows of no call, and neither does anybody else.
        expect(await a.ask('ice-candidate', { conversationId, iceCandidate: 'late' })).toEqual(ok);
        const none = { ok: false, error: 'No such call' };
        expect(await a.ask('call-renegotiate-answer', { conversationId, answer: 't' })).toEqual(none);
        expect(await b.ask('call-rejoin-offer', { conversationId, offer: 'j' })).toEqual(none);
        // The next one is like the first.
        await a.ask('call-offer', { conversationId, offer: 'o2' });
        await b.next('call-offer');
        await a.ask('ice-candidate', { conversationId, iceCandidate: 'c2' });
        expect(await b.ask('call-answer', { conversationId, answer: 's2' })).toEqual(['c2']);
        await a.next('call-answer');
        await b.ask('ice-candidate', { conversationId, iceCandidate: 'd2' });
        expect(await a.next('ice-candidate')).toBe('d2');
        await a.ask('call-end', { conversationId });
        for (const client of [a, b]) client.close();
      }),
    );
    await until(async () => (await observed()) === 0, 'nothing is observed any more');
  },
);
