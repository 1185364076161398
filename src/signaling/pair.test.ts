// Calls whose parties are on two instances: the order, the effects and the conflicts, over a real Redis.
import { describe, expect, it } from 'vitest';
import { acked, answer, connected, hears, key, offer, present, usePair } from './pair.fixture.js';

const two = usePair();

describe('a call between two instances', () => {
  it('is offered, answered with the buffered candidates, renegotiated and ended', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    const tablet = b.connect('bob', 'bob-2');
    await present(two, alice, bob, tablet);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    for (const candidate of ['c1', 'c2']) {
      expect(await acked(alice.emit('ice-candidate', { iceCandidate: { candidate } }))).toEqual({ ok: true });
    }
    await hears(bob, 'call-offer');
    await hears(tablet, 'call-offer');
    expect(bob.heard[0]?.arg).toEqual({ conversationId: key().conversationId, ...offer, fromUserId: 'alice' });

    expect(await acked(bob.emit('call-answer', answer))).toEqual([{ candidate: 'c1' }, { candidate: 'c2' }]);
    await hears(alice, 'call-answer');
    await hears(tablet, 'call-offer', 'call-ended');

    await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }));
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
    await acked(bob.emit('call-renegotiate-answer', { answer: 'again' }));
    await hears(alice, 'call-answer', 'call-renegotiate-answer');

    expect(await acked(bob.emit('call-end'))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-renegotiate-answer', 'call-ended');
    expect(await a.session()).toBeNull();
    expect(a.toLegacy).toEqual([]);
    expect(b.toLegacy).toEqual([]);
    // What trails in is this path's, on either instance.
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: false, error: 'No such call' });
    expect(await acked(bob.emit('call-renegotiate-answer', answer))).toEqual({ ok: false, error: 'No such call' });
  });

  it('is over for whoever ended it, so that the very same offer begins another one', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    for (let round = 0; round < 3; round++) {
      alice.names.length = 0;
      bob.names.length = 0;
      expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
      await hears(bob, 'call-offer');
      expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
      await hears(alice, 'call-answer');
      expect(await acked((round % 2 ? bob : alice).emit('call-end'))).toEqual({ ok: true });
      await hears(round % 2 ? alice : bob, round % 2 ? 'call-answer' : 'call-offer', 'call-ended');
    }
    expect([a, b].map(({ signaling }) => signaling.sizes['told-calls']?.())).toEqual([0, 0]);
  });

  it('has its candidates after the answer delivered with one send, and nothing asked of the store', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    a.asked.length = 0;
    b.asked.length = 0;
    for (let n = 0; n < 20; n++) alice.emit('ice-candidate', { iceCandidate: { candidate: `c${n}` } });
    await expect.poll(() => bob.names.length).toBe(21);
    expect(bob.heard.slice(1).map(({ arg }) => (arg as { candidate: string }).candidate)).toEqual(
      Array.from({ length: 20 }, (_, n) => `c${n}`),
    );
    expect(a.asked).toEqual(Array(20).fill('send'));
    expect(b.asked).toEqual([]);
    bob.emit('ice-candidate', { iceCandidate: { candidate: 'back' } });
    await hears(alice, 'call-answer', 'ice-candidate');
    expect(b.asked).toEqual(['send']);
  });

  it('costs two sequential waits for an event at most', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    await expect.poll(() => b.asked).toContain('awaiting');
    a.asked.length = 0;
    b.asked.length = 0;
    await acked(alice.emit('call-offer', offer));
    expect(a.asked).toEqual(['create', 'send']);
    await hears(bob, 'call-offer');
    await acked(bob.emit('call-answer', answer));
    expect(b.asked).toEqual(['replace', 'send']);
    await hears(alice, 'call-answer');
    a.asked.length = 0;
    await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }));
    expect(a.asked).toEqual(['replace', 'send']);
    await hears(bob, 'call-offer', 'call-renegotiate-offer');
    a.asked.length = 0;
    await acked(alice.emit('call-end'));
    expect(a.asked).toEqual(['delete', 'send']);
  });

  it('carries bytes', async () => {
    const { alice, bob } = await connected(two);
    const bytes = { candidate: Buffer.from([0, 1, 255]), list: [Buffer.from('x')] };
    alice.emit('ice-candidate', { iceCandidate: bytes });
    await hears(bob, 'call-offer', 'ice-candidate');
    expect(bob.heard[1]?.arg).toEqual(bytes);
  });

  it('of two renegotiations at once relays one and refuses one', async () => {
    const { alice, bob } = await connected(two);
    for (let round = 0; round < 10; round++) {
      alice.names.length = 0;
      bob.names.length = 0;
      const one = alice.emit('call-renegotiate-offer', { offer: `alice ${round}` });
      const other = bob.emit('call-renegotiate-offer', { offer: `bob ${round}` });
      const acks = [await acked(one), await acked(other)];
      expect(acks).toContainEqual({ ok: true });
      expect(acks).toContainEqual({ ok: false, error: 'Renegotiation in progress, retry later' });
      const [winner, loser] = (acks[0] as { ok: boolean }).ok ? [alice, bob] : [bob, alice];
      await expect.poll(() => [...loser.names].sort()).toEqual(['call-renegotiate-offer', 'error']);
      await acked(loser.emit('call-renegotiate-answer', { answer: `${round}` }));
      await hears(winner, 'call-renegotiate-answer');
    }
  });

  it('of two offers at once makes one call', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    const acks = await Promise.all([alice.emit('call-offer', offer), bob.emit('call-offer', offer)].map(acked));
    expect(acks).toContainEqual({ ok: true });
    expect(acks).toContainEqual({ ok: false, error: 'Call already in progress' });
    const [winner, loser] = (acks[0] as { ok: boolean }).ok ? [alice, bob] : [bob, alice];
    await expect.poll(() => [...loser.names].sort()).toEqual(['call-offer', 'error']);
    expect(winner.names).toEqual([]);
    expect([a.toLegacy, b.toLegacy]).toEqual([[], []]);
  });

  it('is answered by one of two devices on two instances', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const phone = a.connect('bob', 'bob-1');
    const tablet = b.connect('bob', 'bob-2');
    await present(two, alice, phone, tablet);
    await acked(alice.emit('call-offer', offer));
    await hears(phone, 'call-offer');
    await hears(tablet, 'call-offer');
    const acks = await Promise.all([phone, tablet].map((device) => acked(device.emit('call-answer', answer))));
    expect(acks).toEqual([[], []]);
    await hears(alice, 'call-answer');
    const heard = [phone, tablet].map(({ names }) => names);
    await expect.poll(() => heard.map((names) => names.length).sort()).toEqual([1, 3]);
    expect(heard.find((names) => names.length === 3)?.sort()).toEqual(['call-ended', 'call-offer', 'error']);
  });

  it('waits for whoever drops, who comes back on the other instance', async () => {
    const { a } = two;
    const { alice, bob } = await connected(two);
    bob.drop();
    await hears(alice, 'call-answer', 'call-peer-disconnected');
    const again = a.connect('bob', 'bob-2');
    expect(await acked(again.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-peer-disconnected', 'call-rejoin-offer');
    expect(await acked(alice.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    await hears(again, 'call-rejoin-answer');
    again.emit('ice-candidate', { iceCandidate: 'c' });
    await expect.poll(() => alice.names.at(-1)).toBe('ice-candidate');
  });

  it('moves a seat whose old socket is not known to be dead to another instance', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const again = a.connect('bob', 'bob-2');
    expect(await acked(again.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-rejoin-offer');
    await acked(alice.emit('call-rejoin-answer', { answer: 'again' }));
    await hears(again, 'call-rejoin-answer');
    // The late end of the old one changes nothing.
    bob.drop();
    await expect.poll(() => b.store.knownOf('/', 'bob')).toEqual([]);
    expect((await a.session())?.state).toBe('CONNECTED');
    expect(await acked(again.emit('call-end'))).toEqual({ ok: true });
  });

  it('ends when both drop at once, and nobody is left to tell', async () => {
    const { a, b } = two;
    for (let round = 0; round < 5; round++) {
      const { alice, bob } = await connected(two);
      alice.drop();
      bob.drop();
      await expect.poll(() => a.session(), { timeout: 5_000 }).toBeNull();
      await expect.poll(() => [a, b].map(({ store }) => store.knownOf('/', 'alice').length)).toEqual([0, 0]);
    }
  });

  it('stops ringing on every instance when its offerer leaves', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    await acked(alice.emit('call-offer', offer));
    await hears(bob, 'call-offer');
    alice.drop();
    await hears(bob, 'call-offer', 'call-ended');
    expect(bob.heard[1]?.arg).toMatchObject({ reason: 'offerer-left' });
    expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    await hears(bob, 'call-offer', 'call-ended', 'error');
  });

  it('is refused to a device that is not its seat, wherever it is', async () => {
    const { a } = two;
    await connected(two);
    const tablet = a.connect('bob', 'bob-2');
    expect(await acked(tablet.emit('call-renegotiate-offer', { offer: 'x' }))).toEqual({
      ok: false,
      error: 'Not the active device',
    });
    const mallory = a.connect('mallory', 'mallory-1');
    expect(await acked(mallory.emit('call-end'))).toEqual({ ok: false, error: 'Not a participant' });
    expect((await a.session())?.state).toBe('CONNECTED');
  });
});
