// Events of conversations in which this instance has no seat, where what is shared can't be asked, or not for each of them: the legacy
// goes on as if nothing were, and nobody is told that something arrived which did not.
import { beforeEach, describe, expect, it } from 'vitest';
import { acked, answer, type Browser, fails, hears, key, offer, present, usePair } from './pair.fixture.js';

const toLegacy = 'namespaces: { /: { calls: legacy } }';
const unavailable = { ok: false, error: 'Signaling is unavailable, try again' };

const two = usePair();
let alice: Browser;
let bob: Browser;
beforeEach(async () => {
  alice = two.a.connect('alice', 'alice-1');
  bob = two.b.connect('bob', 'bob-1');
  await present(two, alice, bob);
});

// First: for some seconds after this events are held no longer.
describe('what is shared does not answer', () => {
  it('holds one offer of the legacy’s for a second, and those after it no longer than an answer takes', async () => {
    const { b } = two;
    b.flip(toLegacy);
    b.breaks.set('claim', () => new Promise(() => undefined));
    const took = async (conversationId: string): Promise<number> => {
      const before = b.toLegacy.length;
      const started = performance.now();
      bob.emit('call-offer', { ...offer, conversationId });
      await expect.poll(() => b.toLegacy.length, { interval: 2, timeout: 3_000 }).toBe(before + 1);
      return performance.now() - started;
    };
    expect(await took('dm:bob:carol:1')).toBeGreaterThan(900);
    for (const n of [2, 3, 4]) expect(await took(`dm:bob:carol:${n}`)).toBeLessThan(600);
  });
});

describe('the end of a call that this instance does not know, from a device that has ended one before', () => {
  const talk = async (): Promise<void> => {
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await expect.poll(() => bob.names.at(-1)).toBe('call-offer');
    expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    await expect.poll(() => alice.names.at(-1)).toBe('call-answer');
  };
  let tablet: Browser;
  beforeEach(async () => {
    const { a, b } = two;
    bob.drop();
    tablet = b.connect('alice', 'alice-2');
    bob = a.connect('bob', 'bob-2');
    await present(two, alice, bob, tablet);
    await talk();
    expect(await acked(tablet.emit('call-end'))).toEqual({ ok: true });
    await expect.poll(() => bob.names.at(-1)).toBe('call-ended');
  });

  it('ends it, and is a repeat only once nothing is there', async () => {
    await talk();
    expect(await acked(tablet.emit('call-end'))).toEqual({ ok: true });
    for (const one of [alice, bob]) await expect.poll(() => one.names.at(-1)).toBe('call-ended');
    expect(await two.a.session()).toBeNull();
    expect(await acked(tablet.emit('call-end'))).toEqual({ ok: true });
    expect([alice, bob].map(({ names }) => names.filter((name) => name === 'call-ended').length)).toEqual([2, 2]);
  });

  it('is refused while nobody can say what is there', async () => {
    await talk();
    two.b.away = true;
    expect(await acked(tablet.emit('call-end'))).toEqual(unavailable);
    two.b.away = false;
    expect(await acked(tablet.emit('call-end'))).toEqual({ ok: true });
    for (const one of [alice, bob]) await expect.poll(() => one.names.at(-1)).toBe('call-ended');
  });
});

it('refuses an outsider whose candidate came before the call, too, on an instance that no party is on', async () => {
  const { a, b } = two;
  bob.drop();
  const here = a.connect('bob', 'bob-2');
  const carol = b.connect('carol', 'carol-1');
  await present(two, alice, here, carol);
  expect(await acked(carol.emit('ice-candidate', { iceCandidate: 'before' }))).toEqual({ ok: true });
  expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
  const refused = { ok: false, error: 'Not a participant' };
  expect(await acked(carol.emit('ice-candidate', { iceCandidate: 'in it' }))).toEqual(refused);
});

describe('an offer that the table gives to the legacy, while Redis is away', () => {
  it('goes there although a call rang here that another device has answered, and that is over', async () => {
    const { a, b } = two;
    const phone = a.connect('bob', 'bob-2');
    await present(two, alice, bob, phone);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    expect(await acked(phone.emit('call-answer', answer))).toEqual([]);
    await hears(bob, 'call-offer', 'call-ended');
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
    b.flip(toLegacy);
    b.away = true;
    const again = bob.emit('call-offer', { offer: 'fresh' });
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-offer']);
    expect(again.acks).toEqual([]);
    // Nor does anything else of that call stay here.
    expect(b.signaling.sizes['told-calls']?.()).toBe(0);
  });

  it('goes there also where only its own conversation can not be reached', async () => {
    const { a, b } = two;
    const phone = a.connect('bob', 'bob-2');
    await present(two, alice, bob, phone);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    expect(await acked(phone.emit('call-answer', answer))).toEqual([]);
    await hears(bob, 'call-offer', 'call-ended');
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
    b.flip(toLegacy);
    for (const what of ['get', 'look', 'claim', 'create']) b.breaks.set(what, () => new Promise(() => undefined));
    const again = bob.emit('call-offer', { offer: 'fresh' });
    await expect.poll(() => b.toLegacy, { timeout: 1_500 }).toEqual(['bob-1 call-offer']);
    expect(again.acks).toEqual([]);
  });

  it('goes there although a call rings here, whose end it may not have heard', async () => {
    const { b } = two;
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    b.flip(toLegacy);
    b.away = true;
    // What can only be about that call is refused.
    expect(await acked(bob.emit('call-end'))).toEqual(unavailable);
    bob.emit('call-offer', { offer: 'fresh' });
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-offer']);
  });
});

describe('candidates of a call that nobody has', () => {
  const candidates = (n: number) => Array.from({ length: n }, (_, i) => bob.emit('ice-candidate', { iceCandidate: i }));

  it('are asked for once, and go to the legacy in their order', async () => {
    const { b } = two;
    b.flip(toLegacy);
    candidates(20);
    await expect.poll(() => b.toLegacy).toEqual(Array(20).fill('bob-1 ice-candidate'));
    candidates(1);
    expect(b.toLegacy).toHaveLength(21);
    expect(b.asked.filter((what) => what === 'look')).toHaveLength(1);
    // Anything else may be of a call that has begun elsewhere.
    bob.emit('call-end');
    await expect.poll(() => b.toLegacy).toHaveLength(22);
    expect(b.asked.filter((what) => what === 'look')).toHaveLength(2);
  });

  it('are asked for again once a call of that conversation was told of', async () => {
    const { a, b } = two;
    b.flip(toLegacy);
    candidates(1);
    await expect.poll(() => b.toLegacy).toHaveLength(1);
    // With what it holds its session is not sent along.
    expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'early' }))).toEqual({ ok: true });
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    expect((await a.session())?.candidates).toEqual(['early']);
    await hears(bob, 'call-offer');
    expect(b.store.peek(key())).toBeUndefined();
    const [candidate] = candidates(1);
    await expect.poll(() => candidate?.acks).toHaveLength(1);
    expect(b.toLegacy).toHaveLength(1);
  });

  it('are no early ones where that is not known', async () => {
    const { b } = two;
    b.breaks.set('look', fails());
    b.breaks.set('get', fails());
    const all = candidates(2);
    for (const one of all) expect(await acked(one)).toEqual(unavailable);
    expect(b.toLegacy).toEqual([]);
  });

  it('are early ones where their offer goes to the legacy then, and follow it', async () => {
    const { b } = two;
    b.flip('namespaces: { /: { calls: { mode: new, fallback: legacy } } }');
    for (const what of ['look', 'get', 'create', 'claim']) b.breaks.set(what, fails());
    for (const one of candidates(2)) expect(await acked(one)).toEqual({ ok: true });
    bob.emit('call-offer', offer);
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-offer', 'bob-1 ice-candidate', 'bob-1 ice-candidate']);
  });
});
