// Relays of calls that the legacy owns, where its parties are on two instances: neither sees all that the legacy delivers, so those
// relays are the legacy's, at once and in order.
import { describe, expect, it } from 'vitest';
import { acked, answer, hears, key, offer, present, usePair } from './pair.fixture.js';

const peeled = 'namespaces: { /: { ice-candidate: new, call-renegotiation: new } }';

const two = usePair(peeled);

const rings = () => ({ conversationId: key().conversationId, ...offer, fromUserId: 'alice' });

describe('peeled relays', () => {
  it('go to the legacy at once where presence says that the callee is elsewhere', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = b.connect('bob', 'bob-1');
    await present(two, alice, bob);
    const started = performance.now();
    alice.emit('call-offer', offer);
    for (const n of [1, 2]) alice.emit('ice-candidate', { iceCandidate: n });
    await expect.poll(() => a.toLegacy.length).toBe(3);
    expect(performance.now() - started).toBeLessThan(450);
    expect(a.toLegacy).toEqual(['alice-1 call-offer', 'alice-1 ice-candidate', 'alice-1 ice-candidate']);
    b.legacySays(bob, 'call-offer', rings());
    bob.emit('call-answer', answer);
    bob.emit('ice-candidate', { iceCandidate: 3 });
    await expect.poll(() => b.toLegacy).toEqual(['bob-1 call-answer', 'bob-1 ice-candidate']);
  });

  it('go to the legacy once it rings the callee on another instance, too', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    await present(two, alice, bob);
    alice.emit('call-offer', offer);
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer']);
    a.legacySays(bob, 'call-offer', rings());
    expect(await acked(alice.emit('ice-candidate', { iceCandidate: 1 }))).toEqual({ ok: true });
    expect(a.toLegacy).toEqual(['alice-1 call-offer']);
    const tablet = b.connect('bob', 'bob-2');
    b.legacySays(tablet, 'call-offer', rings());
    // What was kept for the answer follows.
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer', 'alice-1 ice-candidate']);
    alice.emit('ice-candidate', { iceCandidate: 2 });
    await expect.poll(() => a.toLegacy.length).toBe(3);
  });

  it('are served where both parties are on one instance', async () => {
    const { a } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    await present(two, alice, bob);
    alice.emit('call-offer', offer);
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer']);
    a.legacySays(bob, 'call-offer', rings());
    bob.emit('call-answer', answer);
    a.legacySays(alice, 'call-answer', { conversationId: key().conversationId, ...answer, fromUserId: 'bob' });
    await expect.poll(() => a.toLegacy).toEqual(['alice-1 call-offer', 'bob-1 call-answer']);
    alice.emit('ice-candidate', { iceCandidate: 1 });
    await hears(bob, 'ice-candidate');
    expect(a.toLegacy).toHaveLength(2);
  });
});
