// Changes of calls between two instances whose replies are lost: who asked was refused in time, and what was made all the same is told to
// everybody else, once that is known, but for a call that began with it.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import { Unavailable } from '../base/unavailable.js';
import { Holds } from './holds.js';
import { acked, answer, connected, hears, key, offer, present, usePair } from './pair.fixture.js';

const unavailable = { ok: false, error: 'Signaling is unavailable, try again' };
const lost = (made: Promise<boolean>): Unavailable => new Unavailable('the reply is lost', made);

const two = usePair();

describe('a change whose reply is lost', () => {
  it('is refused in time, and told to the others once it is known to be made', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    let know!: (made: boolean) => void;
    a.breaks.set('replace', async (make) => {
      await make();
      throw new Unavailable('the reply is lost', new Promise((resolve) => (know = resolve)));
    });
    const asked = alice.emit('call-renegotiate-offer', { offer: 'again' });
    expect(await acked(asked)).toEqual(unavailable);
    expect(alice.names).toEqual(['call-answer', 'error']);
    a.breaks.clear();
    // Nothing else is decided on this call before that is known.
    const end = alice.emit('call-end');
    expect(bob.names).toEqual(['call-offer']);
    know(true);
    await hears(bob, 'call-offer', 'call-renegotiate-offer', 'call-ended');
    expect(await acked(end)).toEqual({ ok: true });
    expect(asked.acks).toEqual([unavailable]);
    expect(alice.names).toEqual(['call-answer', 'error']);
  });

  it('is told to nobody where it was not made', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    a.breaks.set('replace', async () => {
      throw new Unavailable('away', Promise.resolve(false));
    });
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }))).toEqual(unavailable);
    a.breaks.clear();
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
  });

  it('is told to nobody of a call that another instance has ended meanwhile', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    await present(two, alice, bob);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    let know!: (made: boolean) => void;
    a.breaks.set('replace', async (make) => {
      await make();
      throw new Unavailable('the reply is lost', new Promise((resolve) => (know = resolve)));
    });
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }))).toEqual(unavailable);
    a.breaks.clear();
    await b.signaling.calls.apply(key(), (session) => session && { type: 'operator-end' });
    // What was made here is waited for, but not for ever.
    await hears(bob, 'call-offer', 'call-ended');
    await hears(alice, 'call-answer', 'error', 'call-ended');
    know(true);
    // Nothing of this call is under way any more.
    await expect.poll(() => a.signaling.calls.settled(key())).toBeNull();
    expect(await acked(bob.emit('call-renegotiate-answer', { answer: 'x' }))).toMatchObject({ ok: false });
    expect(bob.names).toEqual(['call-offer', 'call-ended', 'error']);
  });

  it('is the end of its ringing for every other device, also of a call that is over meanwhile', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const phone = b.connect('bob', 'bob-1');
    const tablet = b.connect('bob', 'bob-2');
    await present(two, alice, phone, tablet);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(tablet, 'call-offer');
    let know!: (made: boolean) => void;
    b.breaks.set('replace', async (make) => {
      await make();
      throw new Unavailable('the reply is lost', new Promise((resolve) => (know = resolve)));
    });
    expect(await acked(phone.emit('call-answer', answer))).toEqual([]);
    expect(phone.names).toEqual(['call-offer', 'error']);
    b.breaks.clear();
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
    await hears(phone, 'call-offer', 'error', 'call-ended');
    expect(tablet.names).toEqual(['call-offer']);
    know(true);
    await hears(tablet, 'call-offer', 'call-ended');
    expect(tablet.heard[1]?.arg).toMatchObject({ reason: 'answered-elsewhere' });
    expect(alice.names).toEqual([]);
  });

  it('hands over what was kept for the seat that it gave to a new socket', async () => {
    const { b } = two;
    const { alice, bob } = await connected(two);
    const { store, cluster, signals, signaling } = b;
    await new Holds({ store, cluster, signals, clock: systemClock, calls: signaling.calls }).hold([bob.peer.ref]);
    bob.drop();
    for (const iceCandidate of ['one', 'two'])
      expect(await acked(alice.emit('ice-candidate', { iceCandidate }))).toEqual({ ok: true });
    await expect.poll(() => two.a.asked.filter((what) => what === 'keep')).toHaveLength(2);
    let know!: (made: { readonly kept: unknown }) => void;
    let kept: unknown;
    b.breaks.set('replace', async (make) => {
      b.breaks.clear();
      kept = ((await make()) as { readonly kept: unknown }).kept;
      throw new Unavailable('the reply is lost', new Promise((resolve) => (know = resolve)));
    });
    const back = b.connect('bob', 'bob-2');
    await expect.poll(() => kept).toMatchObject({ answerer: [{ arg: 'one' }, { arg: 'two' }] });
    expect(back.heard).toEqual([]);
    know({ kept });
    await hears(back, 'ice-candidate', 'ice-candidate');
    expect(back.heard.map(({ arg }) => arg)).toEqual(['one', 'two']);
  });
});

describe('an offer that was refused', () => {
  it.each([
    ['its reply was lost', (made: unknown) => Promise.reject(lost(Promise.resolve(Boolean(made))))],
    ['it was stored too late', (made: unknown) => new Promise((resolve) => setTimeout(() => resolve(made), 2_000))],
  ])('has begun no call where %s: nobody is rung, and the next one begins it', async (_, answers) => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    a.breaks.set('create', async (make) => answers(await make()));
    expect(await acked(alice.emit('call-offer', offer))).toEqual(unavailable);
    a.breaks.clear();
    await expect.poll(() => a.asked, { timeout: 5_000 }).toContain('delete');
    await expect.poll(() => a.session()).toBeNull();
    expect(bob.names).toEqual([]);
    expect(await acked(alice.emit('call-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    expect(bob.heard[0]?.arg).toMatchObject({ offer: 'again' });
  });

  it('is taken back as soon as what is shared answers', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    a.breaks.set('create', async (make) => {
      await make();
      throw lost(Promise.resolve(true));
    });
    let tries = 0;
    a.breaks.set('delete', async () => {
      tries += 1;
      throw lost(Promise.resolve(false));
    });
    expect(await acked(alice.emit('call-offer', offer))).toEqual(unavailable);
    await expect.poll(() => tries).toBeGreaterThan(1);
    a.breaks.clear();
    await expect.poll(() => a.session(), { timeout: 3_000 }).toBeNull();
    expect(await acked(alice.emit('call-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
  });
});
