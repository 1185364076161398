import { describe, expect, it } from 'vitest';
import type { UserId } from '../base/ids.js';
import { answer, bench, conversationId, offer, settle } from './signaling.fixture.js';

describe('a call on the new path', () => {
  it('rings every device, hands over buffered candidates with the answer, and ends', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b1');
    b.connect('bob', 'b2');
    const offered = b.emit(alice, 'call-offer', offer);
    await settle();
    expect(offered).toEqual({ because: 'route', acks: [{ ok: true }] });
    expect(b.sent.splice(0)).toEqual([
      { to: 'b1', event: 'call-offer', arg: { conversationId, offer: 'sdp-offer', fromUserId: 'alice' } },
      { to: 'b2', event: 'call-offer', arg: { conversationId, offer: 'sdp-offer', fromUserId: 'alice' } },
    ]);
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c1' });
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c2' });
    await settle();
    const answered = b.emit(bob, 'call-answer', answer);
    await settle();
    expect(answered.acks).toEqual([['c1', 'c2']]);
    expect(b.sent.splice(0).map((s) => `${s.to} ${s.event}`)).toEqual(['a call-answer', 'b2 call-ended']);
    const ended = b.emit(bob, 'call-end', { conversationId });
    await settle();
    expect(ended.acks).toEqual([{ ok: true }]);
    expect(b.sent.splice(0)).toEqual([
      { to: 'a', event: 'call-ended', arg: { conversationId, reason: 'hangup', userId: 'bob' } },
    ]);
    expect(b.live()).toBeNull();
    expect(b.toLegacy).toEqual([]);
  });

  it('serves a candidate after the answer at once, without a save', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    await settle();
    b.emit(bob, 'call-answer', answer);
    await settle();
    const { version } = b.live()!;
    b.sent.length = 0;
    b.emit(bob, 'ice-candidate', { conversationId, iceCandidate: 'c' });
    expect(b.sent).toEqual([{ to: 'a', event: 'ice-candidate', arg: 'c' }]);
    expect(b.live()!.version).toBe(version);
  });

  it('waits with one browser’s later events while its ticket is fetched, in order; nothing else waits', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    expect(b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c1' }).because).toBe('held');
    expect(b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c2' }).because).toBe('held');
    expect(b.emit(alice, 'call-end', { conversationId: 'dm:alice:carol' }).because).toBe('default');
    expect(b.toLegacy).toEqual(['a call-end']);
    expect(b.sent).toEqual([]);
    b.asks[0]!.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    await settle();
    const answered = b.emit(bob, 'call-answer', answer);
    await settle();
    expect(answered.acks).toEqual([['c1', 'c2']]);
  });

  it('refuses when the legacy can’t be asked, and forgets its claim', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    const refused = b.emit(alice, 'call-offer', offer);
    b.asks[0]!.answer({ kind: 'unavailable', why: 'late' });
    await settle();
    expect(refused.acks).toEqual([{ ok: false, error: 'Signaling is unavailable, try again' }]);
    b.flip('{}');
    expect(b.emit(alice, 'call-offer', offer).because).toBe('route');
    expect(b.toLegacy).toEqual(['a call-offer']);
  });

  it('accepts a ticket of the client’s own without asking', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    b.emit(alice, 'call-offer', { ...offer, ticket: `ticket alice ${conversationId}` });
    await settle();
    expect(b.asks).toEqual([]);
    expect(b.live()?.state).toBe('OFFERING');
  });

  it('does nothing for an offerer that went away while its ticket was fetched', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    b.drop(alice);
    b.asks[0]!.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    await settle();
    expect(b.live()).toBeNull();
    expect(b.sent).toEqual([]);
  });

  it('both-offer: both send call-offer at once: one call, the other gets one clear refusal', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    const first = b.emit(alice, 'call-offer', offer);
    const second = b.emit(bob, 'call-offer', offer);
    for (const ask of b.asks) {
      ask.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    }
    await settle();
    expect([first.acks, second.acks]).toEqual([[{ ok: true }], [{ ok: false, error: 'Call already in progress' }]]);
    // In this order, as at the legacy: whoever is refused has been rung before.
    expect(b.sent.map((s) => `${s.to} ${s.event}`)).toEqual(['b call-offer', 'b error']);
  });

  it('answers a failed call-answer with [] and an error', () => {
    const b = bench();
    const bob = b.connect('bob', 'b');
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    b.emit(alice, 'call-offer', offer);
    return settle().then(async () => {
      const refused = b.emit(alice, 'call-answer', answer);
      await settle();
      expect(refused.acks).toEqual([[]]);
      expect(b.sent.at(-1)).toEqual({
        to: 'a',
        event: 'error',
        arg: { event: 'call-answer', conversationId, message: 'Not allowed to answer' },
      });
      void bob;
    });
  });
});

describe('the same request again', () => {
  it('late-ack-retries: the effect happens once, every ack id is answered', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    const tries = [1, 2, 3].map(() => b.emit(alice, 'call-offer', offer));
    b.asks[0]!.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    await settle();
    expect(tries.map((t) => t.acks)).toEqual([[{ ok: true }], [{ ok: true }], [{ ok: true }]]);
    expect(b.sent.map((s) => s.event)).toEqual(['call-offer']);
    expect(b.asks.length).toBe(1);
  });

  it('late-ack-retries: a late refusal answers what was repeated meanwhile, without a lookup for each', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    const tries = [1, 2, 3].map(() => b.emit(alice, 'call-offer', offer));
    b.asks[0]!.answer({ kind: 'not-participant' });
    await settle();
    const refused = { ok: false, error: 'Not a participant' };
    expect(tries.map((t) => t.acks)).toEqual([[refused], [refused], [refused]]);
    expect(b.sent.map((s) => s.event)).toEqual(['error']);
    expect(b.asks.length).toBe(1);
    b.emit(alice, 'call-offer', offer);
    expect(b.asks.length).toBe(2);
  });

  it('a repeated answer gets the same candidates, a repeated end the same ok', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    await settle();
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c1' });
    await settle();
    b.emit(bob, 'call-answer', answer);
    await settle();
    expect(b.emit(bob, 'call-answer', answer).acks).toEqual([['c1']]);
    b.emit(alice, 'call-end', { conversationId });
    await settle();
    expect(b.emit(alice, 'call-end', { conversationId }).acks).toEqual([{ ok: true }]);
    expect(b.sent.map((s) => s.event)).toEqual(['call-offer', 'call-answer', 'call-ended']);
  });

  it('a refused request is a new try, and an offer after the end is a new call', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    await settle();
    b.emit(bob, 'call-answer', answer);
    await settle();
    b.emit(alice, 'call-renegotiate-offer', { conversationId, offer: 'r1' });
    await settle();
    const lost = b.emit(bob, 'call-renegotiate-offer', { conversationId, offer: 'r2' });
    await settle();
    expect(lost.acks).toEqual([{ ok: false, error: 'Renegotiation in progress, retry later' }]);
    b.emit(bob, 'call-renegotiate-answer', { conversationId, answer: 'r1' });
    await settle();
    const won = b.emit(bob, 'call-renegotiate-offer', { conversationId, offer: 'r2' });
    await settle();
    expect(won.acks).toEqual([{ ok: true }]);
    b.emit(bob, 'call-end', { conversationId });
    await settle();
    expect(b.emit(alice, 'call-offer', offer).acks.length).toBe(0);
    await settle();
    expect(b.live()?.callId).toBe('call-2');
  });

  it('without an acknowledgement id nothing is a repeat', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    await settle();
    b.emit(bob, 'call-answer', answer);
    await settle();
    b.sent.length = 0;
    b.emit(bob, 'ice-candidate', { conversationId, iceCandidate: 'c' }, { ack: false });
    b.emit(bob, 'ice-candidate', { conversationId, iceCandidate: 'c' }, { ack: false });
    expect(b.sent.length).toBe(2);
  });
});

describe('candidates ahead of their offer', () => {
  it('count as buffered once the offer comes within 10 s', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'old' });
    b.clock.advance(10_001);
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c0' });
    b.emit(bob, 'ice-candidate', { conversationId, iceCandidate: 'not the offerer’s' });
    b.emit(alice, 'call-offer', offer);
    await settle();
    const answered = b.emit(bob, 'call-answer', answer);
    await settle();
    expect(answered.acks).toEqual([['c0']]);
  });

  it('are bounded for each connection', () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    for (let i = 0; i < 300; i++) b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: i });
    expect(b.signals.events.filter((e) => e.what === 'candidateDropped').length).toBe(44);
  });
});

describe('a fault of our own', () => {
  it('is answered once with Internal error and stops nothing else', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    const create = b.store.create;
    b.store.create = () => Promise.reject(new Error('store is broken'));
    const failed = b.emit(alice, 'call-offer', offer);
    await settle();
    expect(failed.acks).toEqual([{ ok: false, error: 'Internal error' }]);
    b.store.create = create;
    const again = b.emit(alice, 'call-offer', offer);
    await settle();
    expect(again.acks).toEqual([{ ok: true }]);
  });

  describe('before anything was saved, where the route says `fallback: legacy`', () => {
    const canary = 'namespaces: { /: { call-lifecycle: { mode: canary, percent: 100 } } }';
    const broken = () => Promise.reject(new Error('store is broken'));

    it('leaves the offer to the legacy, with the candidates that ran ahead of it', async () => {
      const b = bench(canary);
      b.knows('alice');
      const alice = b.connect('alice', 'a');
      b.connect('bob', 'b');
      b.store.create = broken;
      b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c0' });
      const offered = b.emit(alice, 'call-offer', offer);
      b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c1' });
      await settle();
      expect(b.toLegacy).toEqual(['a call-offer', 'a ice-candidate', 'a ice-candidate']);
      expect(offered.acks).toEqual([]);
      expect(b.signals.events.filter((e) => e.what === 'internalError').length).toBe(1);
      const decided = b.signals.events.filter((e) => e.what === 'decided' && e.args[0] === 'call-offer');
      expect(decided.map(({ args }) => args[1])).toEqual([{ path: 'legacy', because: 'fallback' }]);
      expect(b.emit(alice, 'call-end', { conversationId }).because).toBe('claimed');
    });

    it('refuses where a session may have been saved', async () => {
      const b = bench(canary);
      b.knows('alice');
      const alice = b.connect('alice', 'a');
      b.connect('bob', 'b');
      const { create } = b.store;
      b.store.create = async (session) => {
        await create(session);
        throw new Error('the answer was lost');
      };
      const offered = b.emit(alice, 'call-offer', offer);
      await settle();
      expect(offered.acks).toEqual([{ ok: false, error: 'Internal error' }]);
      b.store.create = broken;
      b.store.get = broken;
      const carol = b.connect('carol', 'c');
      const unknown = b.emit(carol, 'call-offer', { conversationId: 'dm:carol:bob', offer: 'o' });
      b.asks[0]?.answer({ kind: 'granted', membership: { participants: ['carol', 'bob'] as [UserId, UserId] } });
      await settle();
      expect(unknown.acks).toEqual([{ ok: false, error: 'Internal error' }]);
      expect(b.toLegacy).toEqual([]);
    });
  });
});
