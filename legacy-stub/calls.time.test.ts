// Calls and time, namespaces and a slow or broken database: what the table of transitions does not show.
import { afterEach, describe, expect, it } from 'vitest';
import { createCalls } from './calls.js';
import { type Legacy, type LegacyOptions, startLegacy } from './server.js';
import { type Clients, clientsOf } from './test-clients.js';

let legacy: Legacy;
let clients: Clients;

async function start(options: LegacyOptions = {}): Promise<void> {
  legacy = await startLegacy(options);
  clients = clientsOf(legacy);
}

afterEach(async () => {
  clients.close();
  await legacy.close();
});

const conversationId = 'dm:alice:bob';
const offering = { conversationId, offer: 'o' };
const answering = { conversationId, answer: 'a' };
const OK = [{ ok: true }];

describe('the reaper', () => {
  it('ends a call that nobody rejoined, and tells the survivor', async () => {
    await start({ rejoinTimeoutMs: 150, reapIntervalMs: 20 });
    const [alice, bob] = [await clients.connect('alice'), await clients.connect('bob')];
    await alice.ask('call-offer', offering);
    await bob.ask('call-answer', answering);
    const dropped = Date.now();
    await alice.drop(legacy);
    expect((await bob.next())[0]).toBe('call-offer');
    expect(await bob.next()).toEqual(['call-peer-disconnected', { conversationId, userId: 'alice' }]);
    expect(await bob.next()).toEqual(['call-ended', { conversationId, reason: 'rejoin-timeout', userId: 'alice' }]);
    expect(Date.now() - dropped).toBeGreaterThanOrEqual(149);
    expect(legacy.calls.size).toBe(0);
  });

  it('counts from the last drop, and leaves a rejoin alone', async () => {
    await start({ rejoinTimeoutMs: 800, reapIntervalMs: 10 });
    const [alice, bob, again] = await Promise.all(['alice', 'bob', 'bob'].map((user) => clients.connect(user)));
    await alice!.ask('call-offer', offering);
    await bob!.ask('call-answer', answering);
    await bob!.drop(legacy);
    await again!.ask('call-rejoin-offer', offering);
    // Longer than the limit: only a call that waits for a rejoin is reaped.
    const until = Date.now() + 1_000;
    while (Date.now() < until) await alice!.settle();
    expect(legacy.calls.state('/', conversationId)).toBe('OFFERING');
    expect(await alice!.ask('call-rejoin-answer', answering)).toEqual([[]]);
  });

  it('drops a call that nothing changed for long, without a word', async () => {
    await start({ callLimitMs: 800, reapIntervalMs: 10 });
    const [alice, bob] = [await clients.connect('alice'), await clients.connect('bob')];
    await alice.ask('call-offer', offering);
    await bob.ask('call-answer', answering);
    await expect.poll(() => legacy.calls.size, { timeout: 5_000 }).toBe(0);
    await Promise.all([alice.settle(), bob.settle()]);
    expect(alice.take().map(([event]) => event)).toEqual(['call-answer']);
    expect(bob.take().map(([event]) => event)).toEqual(['call-offer']);
  });
});

describe('the membership of an offer', () => {
  it('is looked up on each of them', async () => {
    await start({ membershipLatencyMs: 30 });
    const alice = await clients.connect('alice');
    const started = performance.now();
    expect(await alice.ask('call-offer', offering)).toEqual(OK);
    expect(performance.now() - started).toBeGreaterThan(28);
    expect(legacy.membership.lookups).toBe(1);
    expect(await alice.ask('call-offer', offering)).toEqual([{ ok: false, error: 'Call already in progress' }]);
    expect(legacy.membership.lookups).toBe(2);
    await alice.ask('call-end', { conversationId });
    expect(legacy.membership.lookups).toBe(2);
  });

  it('keeps what its socket says about the conversation in order', async () => {
    await start({ membershipLatencyMs: 30 });
    const [alice, bob] = [await clients.connect('alice'), await clients.connect('bob')];
    alice.socket.emit('call-offer', offering);
    alice.socket.emit('ice-candidate', { conversationId, iceCandidate: 'c1' });
    await alice.ask('ice-candidate', { conversationId, iceCandidate: 'c2' });
    expect(await bob.ask('call-answer', answering)).toEqual([['c1', 'c2']]);
    await alice.ask('call-end', { conversationId });
    alice.socket.emit('call-offer', offering);
    expect(await alice.ask('call-end', { conversationId })).toEqual(OK);
    expect(legacy.calls.size).toBe(0);
  });

  it('lets exactly one of two simultaneous offers through', async () => {
    await start({ membershipLatencyMs: 10 });
    const [alice, bob] = [await clients.connect('alice'), await clients.connect('bob')];
    const answers = (await Promise.all([alice, bob].map((device) => device.ask('call-offer', offering)))).flat();
    const refused = { ok: false, error: 'Call already in progress' };
    expect(answers).toEqual(expect.arrayContaining([{ ok: true }, refused]));
  });

  it('rings nobody for a socket that left meanwhile', async () => {
    await start({ membershipLatencyMs: 1_000 });
    const [alice, bob] = [await clients.connect('alice'), await clients.connect('bob')];
    alice.socket.emit('call-offer', offering);
    await expect.poll(() => legacy.membership.lookups, { interval: 5 }).toBe(1);
    await alice.drop(legacy);
    // A later lookup of the same length has ended after that one.
    expect(await bob.ask('call-offer', offering)).toEqual(OK);
    expect(bob.take()).toEqual([]);
  });

  it('that fails is an internal error, and the next one works', async () => {
    await start();
    let broken = true;
    const lines: string[] = [];
    const calls = createCalls({
      membership: {
        participants: async () => (broken ? Promise.reject(new Error('database gone')) : ['alice', 'bob']),
      },
      rejoinTimeoutMs: 60_000,
      reapIntervalMs: 60_000,
      callLimitMs: 60_000,
      log: (line) => lines.push(line),
    });
    const namespace = legacy.io.of('/broken');
    namespace.use((socket, next) => {
      socket.data.user = { id: 'alice', name: 'alice' };
      next();
    });
    calls.attach(namespace);
    const alice = await clients.connect('alice', '/broken');
    expect(await alice.ask('call-offer', offering)).toEqual([{ ok: false, error: 'Internal error' }]);
    expect(alice.take()).toEqual([['error', { event: 'call-offer', conversationId, message: 'Internal error' }]]);
    expect(lines).toEqual(['call-offer failed: database gone']);
    broken = false;
    expect(await alice.ask('call-offer', offering)).toEqual(OK);
    calls.stop();
  });
});

describe('a namespace', () => {
  it('has calls of its own', async () => {
    await start();
    const [alice, bob, there] = await Promise.all([
      clients.connect('alice', '/calls'),
      clients.connect('bob'),
      clients.connect('bob', '/calls'),
    ]);
    expect(await alice.ask('call-offer', offering)).toEqual(OK);
    expect(await there.next()).toEqual(['call-offer', { ...offering, fromUserId: 'alice' }]);
    expect(await bob.ask('call-answer', answering)).toEqual([[]]);
    expect(bob.take()).toEqual([['error', { event: 'call-answer', conversationId, message: 'No such call' }]]);
    expect(await bob.ask('call-offer', offering)).toEqual(OK);
    expect(legacy.calls.size).toBe(2);
    expect(await there.ask('call-answer', answering)).toEqual([[]]);
    expect(await alice.next()).toEqual(['call-answer', { ...answering, fromUserId: 'bob' }]);
  });
});

describe('with recovery', () => {
  it('a recovered socket is not the seat that was lost: its user rejoins', async () => {
    await start({ recovery: true });
    const alice = await clients.connect('alice', '/', { reconnection: true, reconnectionDelay: 10 });
    const bob = await clients.connect('bob');
    await alice.ask('call-offer', offering); // its answer to nobody's event: no offset yet
    await bob.ask('call-answer', answering);
    expect((await alice.next())[0]).toBe('call-answer');
    const { id } = alice.socket;
    const back = new Promise((resolve) => alice.socket.once('connect', () => resolve(undefined)));
    alice.socket.io.engine.close();
    await back;
    expect([alice.socket.recovered, alice.socket.id]).toEqual([true, id]);
    expect((await bob.next())[0]).toBe('call-offer');
    expect((await bob.next())[0]).toBe('call-peer-disconnected');
    expect(await alice.ask('call-rejoin-offer', offering)).toEqual(OK);
    expect((await bob.next())[0]).toBe('call-rejoin-offer');
    expect(await bob.ask('call-rejoin-answer', answering)).toEqual([[]]);
    expect(legacy.calls.state('/', conversationId)).toBe('CONNECTED');
  });
});
