// Threat: one user who makes everybody else pay: descriptions and candidates as large as the legacy takes, for as many
// devices as anybody can open. And a legacy that is away although nobody has asked for it yet.
import { afterEach, expect, it } from 'vitest';
import type { ConnectionNumber, Namespace, SocketId, UserId } from '../../src/base/ids.js';
import type { Peer } from '../../src/base/service.js';
import type { Outgoing } from '../../src/protocol/packet.js';
import { Registry } from '../../src/proxy/registry.js';
import { httpLegacy, proxyBed } from '../bed/proxy-bed.js';
import { type Client, callsNew, connect, type Stack, startStack, until } from '../harness.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function stackOf(options: Parameters<typeof startStack>[0]): Promise<Stack> {
  const stack = await startStack(options);
  cleanups.push(() => stack.close());
  return stack;
}

async function person(url: string, user: string): Promise<Client> {
  const client = await connect(url, user, { transports: ['websocket'] });
  cleanups.push(() => client.close());
  return client;
}

const conversationId = 'dm:alice:bob';

it('candidates far larger than any are dropped before the answer, with a warning, and relayed after it', async () => {
  const { proxy } = await stackOf({ routes: callsNew });
  const [alice, bob] = [await person(proxy.url, 'alice'), await person(proxy.url, 'bob')];
  await alice.ask('call-offer', { conversationId, offer: 'o' });
  const large = { candidate: 'x'.repeat(600_000) };
  expect(await alice.ask('ice-candidate', { conversationId, iceCandidate: large })).toEqual({ ok: true });
  await alice.ask('ice-candidate', { conversationId, iceCandidate: { candidate: '1' } });
  expect(await bob.ask('call-answer', { conversationId, answer: 'a' })).toEqual([{ candidate: '1' }]);
  expect(await proxy.metric('sigfig_candidates_dropped_total', { why: 'too-large' })).toBe(1);
  expect(proxy.log()).toContain('"level":"warn"');
  const another = { candidate: 'y'.repeat(100_000) };
  await alice.ask('ice-candidate', { conversationId, iceCandidate: another });
  expect(await bob.next('ice-candidate')).toEqual(another);
});

it('what goes to a thousand devices is encoded once', () => {
  const registry = new Registry();
  const packets = new Set<Outgoing>();
  const peers = Array.from(
    { length: 1000 },
    (_, i): Peer => ({
      ref: { ns: '/' as Namespace, id: `s${i}` as SocketId, connection: i as ConnectionNumber },
      user: 'bob' as UserId,
      token: undefined,
    }),
  );
  for (const [i, peer] of peers.entries()) {
    registry.open({
      number: i as ConnectionNumber,
      peer: () => peer,
      sockets: () => [peer.ref],
      recoverable: () => false,
      transport: {
        kind: 'websocket',
        send: (sent) => sent.forEach((packet) => void packets.add(packet)),
        forward: () => undefined,
        end: () => undefined,
      },
    });
    registry.add(peer);
  }
  const offer = { offer: 'o' };
  for (const ref of registry.socketsOf('/' as Namespace, 'bob' as UserId)) registry.emit(ref, 'call-offer', offer);
  registry.emit(peers[0]!.ref, 'call-offer', { offer: 'o' });
  expect([...packets].map(({ text }) => text)).toEqual(Array(2).fill('42["call-offer",{"offer":"o"}]'));
});

it('POSTs that nobody waits for are gathered up to a bound, then left to the legacy as they come', async () => {
  const open = '0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000}';
  let posts = 0;
  const legacy = await httpLegacy((request, response) => {
    if (request.method === 'POST') posts++;
    else response.end(open);
  });
  const bed = await proxyBed([legacy.url]);
  cleanups.push(
    () => legacy.server.close(),
    () => bed.close(),
    () => legacy.server.closeAllConnections(),
  );
  await fetch(`${bed.url}/socket.io/?EIO=4&transport=polling`);
  const body = `42["chat","${'x'.repeat(900)}"]`;
  const headers = { 'content-type': 'text/plain;charset=UTF-8' };
  const post = (): void =>
    void fetch(`${bed.url}/socket.io/?EIO=4&transport=polling&sid=a`, { method: 'POST', headers, body }).catch(
      () => undefined,
    );
  post();
  await expect.poll(() => posts).toBe(1);
  for (let i = 2; i <= 10; i++) {
    post();
    // The second and the third wait behind the first, which the legacy does not answer.
    if (i > 3) await expect.poll(() => posts).toBeGreaterThan(i - 4);
  }
});

it('/readyz tells that the legacy is away before any browser notices it', async () => {
  const { legacy, proxy } = await stackOf({});
  const ready = async () => (await fetch(`${proxy.adminUrl}/readyz`)).status;
  await until(async () => (await ready()) === 200, 'the legacy was reached');
  expect(await proxy.metric('sigfig_legacy_up')).toBe(1);
  await legacy.close();
  await until(async () => (await ready()) === 503, 'its absence is noticed');
  expect(await proxy.metric('sigfig_legacy_up')).toBe(0);
});
