// Whose a call is, where the legacy and the new path meet on two instances: claims are seen everywhere, a race has one winner, and
// where nobody can be asked the legacy goes on as if nothing happened.
import { beforeEach, describe, expect, it } from 'vitest';
import { absent, acked, answer, type Browser, fails, hears, offer, present, usePair } from './pair.fixture.js';

const toLegacy = 'namespaces: { /: { calls: legacy } }';

const two = usePair();
let alice: Browser;
let bob: Browser;
beforeEach(async () => {
  alice = two.a.connect('alice', 'alice-1');
  bob = two.b.connect('bob', 'bob-1');
  await present(two, alice, bob);
});

describe('the legacy has a call that another instance saw begin', () => {
  it('keeps offers from the new path until that is over', async () => {
    const { a, b } = two;
    a.flip(toLegacy);
    expect(alice.emit('call-offer', offer).because).toBe('held');
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer']);
    // Bob's instance has another table still, and has seen nothing of it.
    bob.emit('call-offer', offer);
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-offer']);
    expect(await a.session()).toBeNull();
    alice.emit('call-end');
    bob.emit('call-end');
    await expect.poll(() => a.toLegacy.length + b.toLegacy.length).toBe(4);
    // Both claims are released in the background.
    await expect
      .poll(async () => {
        bob.names.length = 0;
        const emitted = bob.emit('call-offer', offer);
        await expect.poll(() => emitted.acks.length + b.toLegacy.length - 2).toBeGreaterThan(0);
        if (emitted.acks.length > 0) return emitted.acks[0];
        bob.emit('call-end');
        b.toLegacy.length = 2;
        return 'legacy';
      })
      .toEqual({ ok: true });
  });

  it('has the other events of its conversation, in their order', async () => {
    const { a, b } = two;
    a.flip(toLegacy);
    alice.emit('call-offer', offer);
    await expect.poll(() => a.toLegacy.length).toBe(1);
    for (const name of ['call-answer', 'ice-candidate', 'call-end']) bob.emit(name, { ...answer, iceCandidate: 'c' });
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-answer', 'bob-1 ice-candidate', 'bob-1 call-end']);
    expect(b.asked.filter((what) => what === 'look')).toEqual(['look']);
  });

  it('is the only owner where both sides offer at once by different tables', async () => {
    const { a, b } = two;
    const ways = new Set<string>();
    for (let round = 0; round < 12; round++) {
      await two.reset();
      alice = a.connect('alice', 'alice-1');
      bob = b.connect('bob', 'bob-1');
      await present(two, alice, bob);
      a.flip(toLegacy);
      const [first, second] = round % 2 ? [alice, bob] : [bob, alice];
      const offers = [first, second].map((browser) => browser.emit('call-offer', offer));
      const settled = () => offers.flatMap(({ acks }) => acks).length + a.toLegacy.length + b.toLegacy.length;
      await expect.poll(settled).toBe(2);
      const session = await a.session();
      if (session) {
        expect(session.users.offerer).toBe('bob');
        expect([a.toLegacy, b.toLegacy]).toEqual([[], []]);
        ways.add('new');
      } else {
        expect([a.toLegacy, b.toLegacy]).toEqual([['alice-1 call-offer'], ['bob-1 call-offer']]);
        ways.add('legacy');
      }
    }
    expect(ways.size).toBeGreaterThan(0);
  });
});

describe('the new path has a call that began on another instance', () => {
  it('serves an offer there whose route says legacy', async () => {
    const { b } = two;
    await acked(alice.emit('call-offer', offer));
    await hears(bob, 'call-offer');
    b.flip(toLegacy);
    expect(await acked(bob.emit('call-offer', offer))).toEqual({ ok: false, error: 'Call already in progress' });
    // On a device that came after the ringing, too.
    const tablet = b.connect('bob', 'bob-2');
    expect(await acked(tablet.emit('call-offer', offer))).toEqual({ ok: false, error: 'Call already in progress' });
    expect(await acked(tablet.emit('call-answer', answer))).toEqual([]);
    await hears(alice, 'call-answer');
    expect(b.toLegacy).toEqual([]);
  });

  it('serves an answer of a device to which nothing was told', async () => {
    const { b } = two;
    bob.drop();
    await absent(two, 'bob');
    two.a.flip('namespaces: { /: { calls: { mode: new, sole: true } } }');
    await acked(alice.emit('call-offer', offer));
    bob = b.connect('bob', 'bob-2');
    const answered = bob.emit('call-answer', answer);
    expect(answered.because).toBe('held');
    expect(await acked(answered)).toEqual([]);
    await hears(alice, 'call-answer');
  });

  it('knows for a minute that it is over', async () => {
    const { b } = two;
    bob.drop();
    await absent(two, 'bob');
    two.a.flip('namespaces: { /: { calls: { mode: new, sole: true } } }');
    await acked(alice.emit('call-offer', offer));
    await acked(alice.emit('call-end'));
    bob = b.connect('bob', 'bob-2');
    expect(await acked(bob.emit('call-end'))).toEqual({ ok: false, error: 'No such call' });
    expect(b.toLegacy).toEqual([]);
  });
});

describe('nobody can be asked', () => {
  it('leaves to the legacy at once what is not known to be of the new path', async () => {
    const { a } = two;
    a.away = true;
    a.flip(toLegacy);
    for (const name of ['call-offer', 'call-answer', 'ice-candidate', 'call-end']) {
      alice.emit(name, { ...offer, ...answer, iceCandidate: 'c' });
    }
    expect(a.toLegacy).toEqual([
      'alice-1 call-offer',
      'alice-1 call-answer',
      'alice-1 ice-candidate',
      'alice-1 call-end',
    ]);
    expect(a.asked.filter((what) => what === 'look')).toEqual([]);
  });

  it('leaves it to the legacy when the answer does not come', async () => {
    const { a, b } = two;
    a.flip(toLegacy);
    a.breaks.set('claim', fails());
    b.breaks.set('look', () => new Promise(() => undefined));
    alice.emit('call-offer', offer);
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer']);
    const started = performance.now();
    bob.emit('call-answer', answer);
    bob.emit('call-end');
    await expect.poll(() => b.toLegacy, { timeout: 3_000 }).toEqual(['bob-1 call-answer', 'bob-1 call-end']);
    expect(performance.now() - started).toBeLessThan(1_800);
  });

  it('refuses what is of the new path, and says nothing to the legacy', async () => {
    const { a, b } = two;
    await connectedHere();
    for (const one of [a, b]) one.away = true;
    const gone = { ok: false, error: 'Signaling is unavailable, try again' };
    expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'c' }))).toEqual(gone);
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'x' }))).toEqual(gone);
    expect(await acked(bob.emit('call-rejoin-offer', { offer: 'x' }))).toEqual(gone);
    expect(await acked(bob.emit('call-offer', offer))).toEqual(gone);
    expect([a.toLegacy, b.toLegacy]).toEqual([[], []]);
    for (const one of [a, b]) one.away = false;
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
    await expect.poll(() => bob.names.at(-1)).toBe('call-ended');
  });

  it('gives offers of a canary to the legacy, but not those of whoever has a call here', async () => {
    const { a, b } = two;
    const canary = 'namespaces: { /: { calls: { mode: canary, percent: 100 } } }';
    for (const one of [a, b]) {
      one.flip(canary);
      one.away = true;
    }
    alice.emit('call-offer', offer);
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer']);
    await two.reset();
    alice = a.connect('alice', 'alice-1');
    bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    await connectedHere();
    for (const one of [a, b]) {
      one.flip(canary);
      one.away = true;
    }
    const tablet = a.connect('alice', 'alice-2');
    expect(await acked(tablet.emit('call-offer', { ...offer, conversationId: 'dm:alice:carol' }))).toEqual({
      ok: false,
      error: 'Signaling is unavailable, try again',
    });
    expect(a.toLegacy).toEqual([]);
  });

  async function connectedHere(): Promise<void> {
    await acked(alice.emit('call-offer', offer));
    await hears(bob, 'call-offer');
    await acked(bob.emit('call-answer', answer));
    await hears(alice, 'call-answer');
  }
});

it('a candidate ahead of its offer is asked for, held, and counts as buffered', async () => {
  const { a } = two;
  expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'early' }))).toEqual({ ok: true });
  await acked(alice.emit('call-offer', offer));
  await hears(bob, 'call-offer');
  expect(await acked(bob.emit('call-answer', answer))).toEqual(['early']);
  expect(a.toLegacy).toEqual([]);
});
