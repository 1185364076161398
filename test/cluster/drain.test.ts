// A planned move: an instance is drained while calls are live, and neither party sees anything of it but a connection that is made anew.
// docs/calls.md, accepted difference 6.
import { io } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Legacy, startLegacy } from '../../legacy-stub/server.js';
import { type Client, callsNew, connect, type Proxy as Instance, login, startProxy, until } from '../harness.js';
import { type RedisServer, startRedis } from '../redis/server.js';
import { conversationOf, heard, inCall, rejoin, talk } from './bed.js';

const secret = 'a secret for tests only, long enough for HS256';
let legacy: Legacy;
let redis: RedisServer;
const proxies: Instance[] = [];

const start = async (name: string): Promise<Instance> => {
  const proxy = await startProxy(legacy.url, {
    routes: callsNew,
    flags: { redis: [redis.url], instance: name, 'drain-delay': '0s', drain: '50ms' },
  });
  proxies.push(proxy);
  return proxy;
};

interface InstanceShown {
  readonly id: string;
  readonly self: boolean;
  readonly draining: boolean;
  readonly connections: number;
}
const instances = async ({ adminUrl }: Instance): Promise<readonly InstanceShown[]> =>
  ((await (await fetch(`${adminUrl}/api/status`)).json()) as { instances: readonly InstanceShown[] }).instances;

async function drain({ adminUrl }: Instance, more: object = {}, id = 'self'): Promise<void> {
  const answer = await fetch(`${adminUrl}/api/instances/${id}/drain`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ reason: 'a planned move', ...more }),
  });
  expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)]);
}
const ready = async ({ adminUrl }: Instance): Promise<number> => (await fetch(`${adminUrl}/readyz`)).status;

/** A browser that does not come back by itself: the test says when and where. */
const on = (proxy: Instance, user: string, transport = 'websocket'): Promise<Client> =>
  connect(proxy.url, user, { transports: [transport], reconnection: false });

const closed = (client: Client): Promise<void> => until(() => !client.socket.connected, `${client.user} is closed`);

let first: Instance;
let second: Instance;

beforeAll(async () => {
  [legacy, redis] = await Promise.all([startLegacy({ jwtSecret: secret }), startRedis()]);
  [first, second] = (await Promise.all([start('first'), start('second')])) as [Instance, Instance];
  await until(async () => (await instances(first)).length === 2, 'the instances know each other', 10_000);
});
afterAll(async () => {
  await Promise.all(proxies.map((proxy) => proxy.close()));
  await Promise.all([legacy.close(), redis.close()]);
});

describe('a drain with live calls', () => {
  it.each(['websocket', 'polling'])(
    'moves a %s browser: its peer sees nothing, and nothing is lost',
    async (transport) => {
      const [a, b] = await Promise.all([on(first, `m-a-${transport}`, transport), on(second, `m-b-${transport}`)]);
      const conversationId = await inCall(a, b);
      await talk(conversationId, a, b);
      await drain(first);
      await closed(a);
      // While it is away.
      const sent = Array.from({ length: 20 }, (_, n) => `kept ${n}`);
      for (const iceCandidate of sent) {
        expect(await b.ask('ice-candidate', { conversationId, iceCandidate })).toEqual({ ok: true });
      }
      expect(await b.ask('call-renegotiate-offer', { conversationId, offer: 'more' })).toEqual({ ok: true });
      const back = await on(second, a.user, transport);
      for (const iceCandidate of sent) expect(await back.next('ice-candidate')).toBe(iceCandidate);
      expect(await back.next('call-renegotiate-offer')).toEqual({ conversationId, offer: 'more', fromUserId: b.user });
      expect(await back.ask('call-renegotiate-answer', { conversationId, answer: 'yes' })).toEqual({ ok: true });
      expect(await b.next('call-renegotiate-answer')).toEqual({ conversationId, answer: 'yes', fromUserId: a.user });
      await talk(conversationId, back, b);
      expect(heard(b)).not.toContain('call-peer-disconnected');
      expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
      expect(await back.next('call-ended')).toMatchObject({ reason: 'hangup' });
      await drain(first, { cancel: true });
    },
  );

  it('moves both parties at once, and a caller whose call is answered meanwhile', async () => {
    const [a, b, caller, callee] = await Promise.all([
      on(first, 'both-a'),
      on(first, 'both-b'),
      on(first, 'rings-a'),
      on(second, 'rings-b'),
    ]);
    const conversationId = await inCall(a, b);
    const rings = conversationOf(caller, callee);
    expect(await caller.ask('call-offer', { conversationId: rings, offer: 'o' })).toEqual({ ok: true });
    await callee.next('call-offer');
    await drain(first);
    await Promise.all([a, b, caller].map(closed));
    expect(await callee.ask('call-answer', { conversationId: rings, answer: 'a' })).toEqual([]);
    const [a2, b2, caller2] = await Promise.all([on(second, a.user), on(second, b.user), on(second, caller.user)]);
    expect(await caller2.next('call-answer')).toEqual({ conversationId: rings, answer: 'a', fromUserId: callee.user });
    await talk(rings, caller2, callee);
    await talk(conversationId, a2, b2);
    for (const party of [a2, b2, callee]) expect(heard(party)).not.toContain('call-peer-disconnected');
    await drain(first, { cancel: true });
  });

  it('gives a seat to what its browser sends in the very moment in which it is back', async () => {
    const names = Array.from({ length: 10 }, (_, n) => `${n}`);
    const pairs = await Promise.all(
      names.map(async (n) => {
        const [a, b] = await Promise.all([on(first, `quick-a${n}`), on(second, `quick-b${n}`)]);
        return { a, b, conversationId: await inCall(a, b) };
      }),
    );
    await drain(first);
    await Promise.all(
      pairs.map(async ({ a, b, conversationId }) => {
        await closed(a);
        const token = await login(second.url, a.user);
        const socket = io(second.url, {
          forceNew: true,
          reconnection: false,
          transports: ['websocket'],
          auth: { token },
        });
        const answer = socket.emitWithAck('ice-candidate', { conversationId, iceCandidate: 'at once' });
        expect(await answer).toEqual({ ok: true });
        expect(await b.next('ice-candidate')).toBe('at once');
        socket.disconnect();
      }),
    );
    await drain(first, { cancel: true });
  });

  it('lets a browser that takes its move for a loss offer a rejoin from its new seat', async () => {
    const [a, b] = await Promise.all([on(first, 're-a'), on(second, 're-b')]);
    const conversationId = await inCall(a, b);
    await drain(first);
    await closed(a);
    const back = await on(second, a.user);
    await rejoin(conversationId, back, b);
    await talk(conversationId, back, b);
    expect(heard(b)).not.toContain('call-peer-disconnected');
    await drain(first, { cancel: true });
  });

  it('tells a browser on the move of a call that ended meanwhile', async () => {
    const [a, b] = await Promise.all([on(first, 'end-a'), on(second, 'end-b')]);
    const conversationId = await inCall(a, b);
    await drain(first);
    await closed(a);
    expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
    const back = await on(second, a.user);
    expect(await back.next('call-ended')).toEqual({ conversationId, reason: 'hangup', userId: b.user });
    await drain(first, { cancel: true });
  });

  it('tells the peer after 10 s of a browser that did not come, and the call can still be rejoined', async () => {
    const [a, b] = await Promise.all([on(first, 'late-a'), on(second, 'late-b')]);
    const conversationId = await inCall(a, b);
    await drain(first);
    await closed(a);
    const gone = performance.now();
    await drain(first, { cancel: true });
    await until(() => heard(b).includes('call-peer-disconnected'), 'the peer is told', 14_000);
    expect(performance.now() - gone).toBeGreaterThan(9_000);
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
    const back = await on(first, a.user);
    await rejoin(conversationId, back, b);
  });
});

describe('the instance itself', () => {
  it('is shown as draining everywhere, takes nobody, and is ready again once that is taken back', async () => {
    const drained = async (seenFrom: Instance) => (await instances(seenFrom)).filter(({ draining }) => draining).length;
    const [there] = (await instances(second)).filter(({ self }) => !self);
    await drain(second, {}, there?.id);
    await until(async () => (await ready(first)) === 503, 'it is not ready');
    await until(async () => (await drained(second)) === 1, 'the other one sees it');
    await until(
      async () => (await fetch(`${first.url}/socket.io/?EIO=4&transport=polling`)).status === 503,
      'it refuses new connections',
    );
    await drain(second, { cancel: true }, there?.id);
    await until(async () => (await ready(first)) === 200, 'it is ready');
    await until(async () => (await drained(second)) === 0, 'the other one sees that');
    (await on(first, 'again')).close();
  });

  it('that stops hands its calls over, and the others know at once that it is gone', async () => {
    const third = await start('third');
    await until(async () => (await instances(first)).length === 3, 'the third is known');
    const [a, b, c, d] = await Promise.all([
      on(third, 'stop-a'),
      on(second, 'stop-b'),
      on(third, 'stop-c'),
      on(third, 'stop-d'),
    ]);
    const [one, two] = await Promise.all([inCall(a, b), inCall(c, d)]);
    await third.running.drain();
    // With their next renewal, and not when its lease is over.
    await until(async () => (await instances(second)).length === 2, 'the others know that it is gone', 2_000);
    const [a2, c2, d2] = await Promise.all([on(first, a.user), on(second, c.user), on(first, d.user)]);
    await rejoin(one, a2, b);
    await talk(one, a2, b);
    await rejoin(two, c2, d2);
    for (const party of [b, d2]) expect(heard(party)).not.toContain('call-peer-disconnected');
    proxies.splice(proxies.indexOf(third), 1);
  });

  it('that stops while Redis hangs is not kept from it, and its calls are found by the others', async () => {
    const third = await start('third');
    await until(async () => (await instances(first)).length === 3, 'the third is known');
    const [a, b] = await Promise.all([on(third, 'hangs-a'), on(second, 'hangs-b')]);
    const conversationId = await inCall(a, b);
    await redis.freeze();
    const began = performance.now();
    await third.running.drain();
    proxies.splice(proxies.indexOf(third), 1);
    expect(performance.now() - began).toBeLessThan(10_000);
    await closed(a);
    await redis.thaw();
    // Nobody's lease is over before Redis has been back for 5 s.
    await until(() => heard(b).includes('call-peer-disconnected'), 'the peer is told', 20_000);
    const back = await on(first, a.user);
    expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
    await rejoin(conversationId, back, b);
  }, 40_000);
});
