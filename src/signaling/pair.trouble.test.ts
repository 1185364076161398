// Calls between two instances while what they share is in trouble: a browser is answered within two seconds, what was made all the
// same is told to everybody else, and nothing is lost that can be done later.
import { describe, expect, it } from 'vitest';
import { tagOf } from '../redis/keys.js';
import { acked, connected, fails, hears, key, offer, present, usePair } from './pair.fixture.js';

const unavailable = { ok: false, error: 'Signaling is unavailable, try again' };

const two = usePair();

describe('a store that does not answer', () => {
  it('has every event refused within two seconds, once, and what it does in the end is told', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    let go!: () => void;
    const slow = new Promise<void>((resolve) => (go = resolve));
    a.breaks.set('replace', (make) => slow.then(make));
    const started = performance.now();
    const asked = ['one', 'two'].map((what) => alice.emit('call-renegotiate-offer', { offer: what }));
    expect(await acked(asked[0] as (typeof asked)[0])).toEqual(unavailable);
    expect(performance.now() - started).toBeLessThan(2_200);
    a.breaks.clear();
    go();
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
    // The second one came on its turn: its own offer is there already.
    expect(await acked(asked[1] as (typeof asked)[0])).toMatchObject({ ok: false });
    expect(asked[0]?.acks).toEqual([unavailable]);
    expect(bob.names).toEqual(['call-offer', 'call-renegotiate-offer']);
  });

  it('has whatever waits behind a change refused within two seconds of its own coming', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    const go = a.hangs('replace');
    const started = performance.now();
    const asked = [
      alice.emit('call-renegotiate-offer', { offer: 'again' }),
      ...Array.from({ length: 20 }, (_, n) => alice.emit('ice-candidate', { iceCandidate: `${n}` })),
      alice.emit('call-end'),
    ];
    expect(await Promise.all(asked.map(acked))).toEqual(asked.map(() => unavailable));
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(bob.names).toEqual(['call-offer']);
    go();
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
  });

  it('has it refused as soon where the change is not of its own making', async () => {
    const { a } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    await present(two, alice, bob);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    expect(await acked(bob.emit('call-answer', { answer: 'yes' }))).toEqual([]);
    const go = a.hangs('replace');
    bob.drop();
    await expect.poll(() => a.asked.filter((what) => what === 'replace')).toHaveLength(2);
    const started = performance.now();
    const candidates = Array.from({ length: 20 }, (_, n) => alice.emit('ice-candidate', { iceCandidate: `${n}` }));
    const asked = [...candidates, alice.emit('call-end')];
    expect(await Promise.all(asked.map(acked))).toEqual(asked.map(() => unavailable));
    expect(performance.now() - started).toBeLessThan(2_000);
    go();
    await expect.poll(() => alice.names).toContain('call-peer-disconnected');
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
  });

  it('has it refused at once where this instance may not act', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    const go = a.hangs('replace');
    alice.emit('call-renegotiate-offer', { offer: 'again' });
    a.away = true;
    const tablet = a.connect('alice', 'alice-2');
    const started = performance.now();
    expect(await acked(tablet.emit('call-end'))).toEqual(unavailable);
    expect(performance.now() - started).toBeLessThan(500);
    a.away = false;
    go();
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
  });

  it('refuses nothing that only waits behind an offer whose ticket takes its time', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    a.breaks.set('ticket', () => new Promise((resolve) => setTimeout(resolve, 1_950)));
    const asked = [alice.emit('call-offer', offer), alice.emit('ice-candidate', { iceCandidate: 'c' })];
    expect(await Promise.all(asked.map(acked))).toEqual([{ ok: true }, { ok: true }]);
    expect(await acked(bob.emit('call-answer', { answer: 'yes' }))).toEqual(['c']);
  });

  it('has an offer refused that can not be stored', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    a.breaks.set('create', () => new Promise(() => undefined));
    const started = performance.now();
    expect(await acked(alice.emit('call-offer', offer))).toEqual(unavailable);
    expect(performance.now() - started).toBeLessThan(2_200);
    expect(a.toLegacy).toEqual([]);
  });
});

describe('a Redis that stops answering', () => {
  it('has what is of the new path refused within two seconds, the legacy served, and the call live when it is back', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const carol = b.connect('carol', 'carol-1');
    b.flip('namespaces: { /: { calls: legacy } }');
    await two.server.freeze();
    let thawed = false;
    try {
      const started = performance.now();
      const took = () => performance.now() - started;
      const renegotiated = alice.emit('call-renegotiate-offer', { offer: 'again' });
      const other = { ...offer, conversationId: 'dm:carol:dave' };
      carol.emit('call-offer', other);
      await expect.poll(() => b.toLegacy, { timeout: 3_000 }).toEqual(['carol-1 call-offer']);
      expect(took()).toBeLessThan(1_500);
      expect(await acked(renegotiated)).toEqual(unavailable);
      expect(took()).toBeLessThan(2_300);
      // Once it is known to be away nobody waits.
      await expect
        .poll(() => [a, b].map(({ cluster }) => cluster.liveness.mayAct()), { timeout: 5_000 })
        .toEqual([false, false]);
      const later = performance.now();
      expect(await acked(bob.emit('ice-candidate', { iceCandidate: 'c' }))).toEqual(unavailable);
      carol.emit('call-offer', { ...offer, conversationId: 'dm:carol:erin' });
      expect(b.toLegacy).toHaveLength(2);
      expect(performance.now() - later).toBeLessThan(500);
      await two.server.thaw();
      thawed = true;
      await expect
        .poll(() => [a, b].map(({ cluster }) => cluster.liveness.mayAct()), { timeout: 5_000 })
        .toEqual([true, true]);
      // Whatever became of the first one, the call goes on.
      expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'after' }))).toEqual({ ok: true });
      await expect.poll(() => bob.heard.map(({ arg }) => arg)).toContain('after');
      expect(await acked(bob.emit('call-end'))).toEqual({ ok: true });
      await expect.poll(() => alice.names).toContain('call-ended');
    } finally {
      if (!thawed) await two.server.thaw();
    }
  }, 30_000);
});

describe('sockets that come and go while nobody can be asked', () => {
  it('are made good when Redis is back: the survivor is told', async () => {
    const { b } = two;
    const { alice, bob } = await connected(two);
    b.away = true;
    bob.drop();
    await expect.poll(() => b.signaling.sizes['owed-drops']?.()).toBe(1);
    expect(alice.names).toEqual(['call-answer']);
    b.away = false;
    await hears(alice, 'call-answer', 'call-peer-disconnected');
    await expect.poll(() => b.signaling.sizes['owed-drops']?.()).toBe(0);
  });

  it('are tried again where a lookup fails', async () => {
    const { b } = two;
    const { alice, bob } = await connected(two);
    b.breaks.set('bySocket', fails());
    bob.drop();
    await expect.poll(() => b.signaling.sizes['owed-drops']?.()).toBe(1);
    b.breaks.clear();
    await hears(alice, 'call-answer', 'call-peer-disconnected');
  });
});

describe('a session that nobody can read', () => {
  it.each([
    ['of another type', 'its seat', (name: string) => ['SET', name, 'x']],
    ['cut short', 'a tablet', (name: string) => ['HSET', name, 'd', '{"conversationId":']],
    ['of a newer version', 'its seat', (name: string) => ['HSET', name, 'f', '99']],
  ])(
    '%s, found by %s: its call ends for both, with one clear line, and everything else goes on',
    async (_, who, command) => {
      const { a, b } = two;
      const { alice, bob } = await connected(two);
      const name = `${two.prefix}:session:{${tagOf(key().ns, key().conversationId)}}`;
      expect(await two.server.ask('EXISTS', name)).toBe(1);
      const [does, ...args] = command(name) as [string, ...string[]];
      await two.server.ask(does, ...args);
      // A seat's own change is written over what is cut short, and mends it.
      const finder = who === 'its seat' ? alice : a.connect('alice', 'alice-2');
      const found = await acked(finder.emit('call-renegotiate-offer', { offer: 'x' }));
      expect(found).toEqual({ ok: false, error: 'No such call' });
      await hears(bob, 'call-offer', 'call-ended');
      expect(bob.heard[1]?.arg).toEqual({ conversationId: key().conversationId, reason: 'operator' });
      await expect.poll(() => alice.names.filter((event) => event !== 'error')).toEqual(['call-answer', 'call-ended']);
      expect(a.signals.events.filter(({ what }) => what === 'unreadable').map(({ args: [where] }) => where)).toContain(
        name,
      );
      expect(await two.server.ask('EXISTS', name)).toBe(0);
      expect([a, b].map(({ store }) => store.knownOf('/', 'alice').length)).toEqual([0, 0]);
      // The conversation is free again.
      expect(await acked(bob.emit('call-offer', offer))).toEqual({ ok: true });
      await expect.poll(() => alice.names.at(-1)).toBe('call-offer');
    },
  );
});

it('what is no message of a call is not shown to a browser, and told', async () => {
  const { a, b } = two;
  const { bob } = await connected(two);
  const callId = (await a.session())?.callId;
  const told = { ...key(), callId, version: 2 };
  const to = [[bob.peer.ref.id, bob.peer.ref.connection]];
  for (const body of [
    null,
    {},
    { ...told, emits: 'x' },
    { ...told, emits: [{ sockets: to, event: 'chat-message', arg: {} }] },
    { ...told, emits: [{ sockets: [[1, 2]], event: 'call-ended', arg: {} }] },
    { ...told, emits: [{ sockets: to, event: 'call-ended', text: '45', attachments: ['x'] }] },
    { ...told, emits: [], session: 7 },
  ]) {
    a.cluster.broker.send(b.cluster.liveness.address, { topic: 'call', body });
  }
  a.cluster.broker.send(b.cluster.liveness.address, {
    topic: 'call',
    body: { ...told, emits: [{ sockets: to, event: 'call-ended', arg: { last: true } }] },
  });
  await hears(bob, 'call-offer', 'call-ended');
  expect(bob.heard[1]?.arg).toEqual({ last: true });
  expect(b.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(7);
});
