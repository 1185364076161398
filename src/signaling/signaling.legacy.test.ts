// Which calls the service leaves to the legacy, or keeps there.
import { describe, expect, it } from 'vitest';
import type { UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { answer, bench, callsNew, callsSole, conversationId, offer, settle } from './signaling.fixture.js';

describe('what goes back to the legacy', () => {
  it('an offer whose callee has no socket here, with the candidates that ran ahead of it', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    expect(b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c0' })).toEqual({
      because: 'early',
      acks: [{ ok: true }],
    });
    b.emit(alice, 'call-offer', offer);
    b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c1' });
    await settle();
    expect(b.toLegacy).toEqual(['a call-offer', 'a ice-candidate', 'a ice-candidate']);
    expect(b.emit(b.connect('bob', 'b'), 'call-answer', answer).because).toBe('claimed');
  });

  it('an offer whose token has expired', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    b.asks[0]!.answer({ kind: 'token-expired' });
    await settle();
    expect(b.toLegacy).toEqual(['a call-offer']);
    expect(b.signals.events.filter((e) => e.what === 'decided').at(-1)?.args).toEqual([
      'call-offer',
      { path: 'legacy', because: 'token-expired' },
      '/',
      { user: 'alice', conversationId },
    ]);
  });

  it('an expired token follows the path of the offer that won meanwhile', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    const second = b.emit(bob, 'call-offer', offer);
    b.asks[1]!.answer({ kind: 'token-expired' });
    await settle();
    expect(b.toLegacy).toEqual([]);
    b.asks[0]!.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    await settle();
    expect(second.acks).toEqual([{ ok: false, error: 'Call already in progress' }]);
    expect(b.toLegacy).toEqual([]);
  });

  it('two expired tokens: both offers reach the legacy, in their order', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    b.emit(bob, 'call-offer', offer);
    b.asks[1]!.answer({ kind: 'token-expired' });
    b.asks[0]!.answer({ kind: 'token-expired' });
    await settle();
    expect(b.toLegacy).toEqual(['a call-offer', 'b call-offer']);
  });

  const canary = (more: string) => `namespaces: { /: { calls: { mode: canary, ${more} } } }`;
  describe.each([
    ['offers while the callee whom it excludes', canary('percent: 100, exclude: { users: [bob] }'), 'excluded'],
    ['offers while a user of its list, and is not in it,', canary('percent: 0, users: [alice]'), 'token-expired'],
  ])('an offer of whoever a canary leaves to the legacy, who %s', (_who, routes, because) => {
    it('does not get onto the new path by the other one’s offer', async () => {
      const b = bench(routes);
      b.knows('bob');
      const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
      b.emit(alice, 'call-offer', offer);
      expect(b.emit(bob, 'call-offer', offer).because).toBe('claimed');
      await settle();
      expect([b.live(), b.toLegacy]).toEqual([null, []]);
      b.asks[0]!.answer(
        because === 'excluded'
          ? { kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } }
          : { kind: 'token-expired' },
      );
      await settle();
      expect(b.live()).toBeNull();
      expect(b.toLegacy).toEqual(['a call-offer', 'b call-offer']);
      const paths = b.signals.events.filter(({ what }) => what === 'decided').map(({ args }) => args[1]);
      expect(paths).toEqual([
        { path: 'legacy', because },
        { path: 'legacy', because: 'canary' },
      ]);
    });
  });

  it('an offer that waited for one that is refused: the table decides of it, as it is by then', async () => {
    const b = bench(canary('percent: 0, users: [alice]'));
    b.knows('bob');
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    b.emit(alice, 'call-offer', offer);
    const second = b.emit(bob, 'call-offer', offer);
    b.asks[0]!.answer({ kind: 'not-participant' });
    await settle();
    expect([b.live(), b.toLegacy, second.acks]).toEqual([null, ['b call-offer'], []]);
  });

  it('an offer that waited for one that is accepted is refused over it', async () => {
    const b = bench(canary('percent: 0, users: [alice]'));
    b.knows('bob');
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    const first = b.emit(alice, 'call-offer', offer);
    const second = b.emit(bob, 'call-offer', offer);
    b.asks[0]!.answer({ kind: 'granted', membership: { participants: ['alice', 'bob'] as [UserId, UserId] } });
    await settle();
    expect([first.acks, second.acks]).toEqual([[{ ok: true }], [{ ok: false, error: 'Call already in progress' }]]);
    expect(b.toLegacy).toEqual([]);
  });

  it('everything of a sender that we could not verify', async () => {
    const b = bench();
    const stranger = b.connect(undefined, 's');
    expect(b.emit(stranger, 'call-offer', offer).because).toBe('unverified');
    const alice = b.connect('alice', 'a');
    expect(b.emit(alice, 'call-offer', offer).because).toBe('claimed');
  });

  it('with sole nothing: an absent callee is rung all the same, an unknown call is refused here', async () => {
    const b = bench(callsSole);
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const unknown = b.emit(alice, 'call-answer', answer);
    await settle();
    expect(unknown).toEqual({ because: 'sole', acks: [[]] });
    const malformed = b.emit(alice, 'call-end', 7);
    expect(malformed).toEqual({
      because: 'sole',
      acks: [{ ok: false, error: 'Malformed call-end: payload must be an object' }],
    });
    expect(b.emit(b.connect(undefined, 's'), 'call-end', { conversationId }).acks).toEqual([
      { ok: false, error: 'Not a participant' },
    ]);
    b.emit(alice, 'call-offer', offer);
    await settle();
    expect(b.live()?.state).toBe('OFFERING');
    expect(b.toLegacy).toEqual([]);
  });
});

describe('a call stays on the path that accepted its offer', () => {
  it('flip-in-call: legacy → new between offer and answer, and between answer and end', async () => {
    const b = bench('{}');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    b.legacySays(bob, 'call-offer', { conversationId, fromUserId: 'alice' });
    b.flip(callsNew);
    expect(b.emit(alice, 'ice-candidate', { conversationId, iceCandidate: 'c' }).because).toBe('claimed');
    expect(b.emit(bob, 'call-answer', answer).because).toBe('claimed');
    b.legacySays(alice, 'call-answer', { conversationId, fromUserId: 'bob' });
    expect(b.emit(alice, 'call-offer', offer).because).toBe('claimed');
    b.legacySays(alice, 'error', { event: 'call-offer', conversationId, message: 'Call already in progress' });
    expect(b.emit(bob, 'call-end', { conversationId }).because).toBe('claimed');
    b.knows('alice');
    expect(b.emit(alice, 'call-offer', offer).because).toBe('route');
    await settle();
    expect(b.live()?.state).toBe('OFFERING');
  });

  it('flip-in-call: new → legacy', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.emit(alice, 'call-offer', offer);
    await settle();
    b.flip('{}');
    expect(b.emit(bob, 'call-answer', answer).because).toBe('owned');
    await settle();
    expect(b.emit(bob, 'call-end', { conversationId }).because).toBe('owned');
    await settle();
    expect(b.emit(alice, 'call-end', { conversationId }).because).toBe('ended-here');
    b.clock.advance(60_001);
    expect(b.emit(alice, 'call-end', { conversationId }).because).toBe('default');
  });

  const ends: [string, (b: ReturnType<typeof bench>, alice: Peer, bob: Peer) => void][] = [
    [
      'its offer is refused',
      (b, alice) => b.legacySays(alice, 'error', { event: 'call-offer', conversationId, message: 'Not a participant' }),
    ],
    [
      'the legacy ends it',
      (b, alice, bob) => {
        b.legacyAcknowledges(alice, { ok: true });
        b.legacySays(bob, 'call-offer', { conversationId });
        b.legacySays(alice, 'call-ended', { conversationId, reason: 'hangup' });
      },
    ],
    [
      'the callee declines',
      (b, _alice, bob) => {
        b.legacySays(bob, 'call-offer', { conversationId });
        b.emit(bob, 'call-end', { conversationId });
      },
    ],
    ['the offerer is lost before the answer', (b, alice) => b.drop(alice)],
    [
      'both seats are lost',
      (b, alice, bob) => {
        b.legacySays(bob, 'call-offer', { conversationId });
        b.emit(bob, 'call-answer', answer);
        b.legacySays(alice, 'call-answer', { conversationId, fromUserId: 'bob' });
        b.drop(bob);
        b.drop(alice);
      },
    ],
    ['six hours pass', (b) => b.clock.advance(6 * 3_600_000 + 1)],
  ];
  for (const [why, end] of ends) {
    it(`the legacy’s claim is dropped when ${why}`, () => {
      const b = bench('{}');
      const alice = b.connect('alice', 'a');
      const bob = b.connect('bob', 'b');
      b.emit(alice, 'call-offer', offer);
      b.flip(callsNew);
      expect(b.emit(b.connect('alice', 'a2'), 'call-answer', answer).because).toBe('claimed');
      end(b, alice, bob);
      expect(b.emit(b.connect('alice', 'a3'), 'call-offer', offer).because).toBe('route');
    });
  }

  const stays: [string, (b: ReturnType<typeof bench>, alice: Peer, bob: Peer) => void][] = [
    ['an outsider sends call-end', (b) => b.emit(b.connect('mallory', 'm'), 'call-end', { conversationId })],
    [
      'other devices stop ringing',
      (b, _alice, bob) => b.legacySays(bob, 'call-ended', { conversationId, reason: 'answered-elsewhere' }),
    ],
    [
      'another browser’s offer is refused',
      (b) => {
        const mallory = b.connect('mallory', 'm');
        b.emit(mallory, 'call-offer', offer);
        b.legacySays(mallory, 'error', { event: 'call-offer', conversationId, message: 'Not a participant' });
      },
    ],
    ['a callee’s device drops before the answer', (b, _alice, bob) => b.drop(bob)],
    [
      'one seat is lost, rejoins, and its old connection’s close comes late',
      (b, alice, bob) => {
        b.legacySays(bob, 'call-offer', { conversationId });
        b.emit(bob, 'call-answer', answer);
        b.legacySays(alice, 'call-answer', { conversationId, fromUserId: 'bob' });
        b.drop(bob);
        const again = b.connect('bob', 'b2');
        b.emit(again, 'call-rejoin-offer', offer);
        b.legacySays(alice, 'call-rejoin-offer', { conversationId, fromUserId: 'bob' });
        b.drop(alice);
      },
    ],
  ];
  for (const [why, happen] of stays) {
    it(`the legacy’s claim stays when ${why}`, () => {
      const b = bench('{}');
      const alice = b.connect('alice', 'a');
      const bob = b.connect('bob', 'b');
      b.emit(alice, 'call-offer', offer);
      b.flip(callsNew);
      happen(b, alice, bob);
      expect(b.emit(b.connect('alice', 'a3'), 'call-offer', offer).because).toBe('claimed');
    });
  }
});

describe('a malformed offer beside a call of the legacy’s', () => {
  it('claims nothing, and its refusal does not drop the claim of the one before', () => {
    const b = bench('{}');
    const alice = b.connect('alice', 'a');
    b.emit(alice, 'call-offer', { conversationId });
    expect(b.signaling.sizes['legacy-claims']?.()).toBe(0);
    b.emit(alice, 'call-offer', offer);
    b.emit(alice, 'call-offer', { conversationId });
    b.legacySays(alice, 'error', {
      event: 'call-offer',
      conversationId,
      message: 'Malformed call-offer: offer is missing',
    });
    b.flip(callsNew);
    expect(b.emit(b.connect('bob', 'b'), 'call-answer', answer).because).toBe('claimed');
  });
});

describe('a call of the legacy’s that did not begin here', () => {
  const candidate = { conversationId, iceCandidate: 'c' };

  it('is known by the offer that the legacy delivers', () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.legacySays(bob, 'call-offer', { conversationId, fromUserId: 'alice' });
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('claimed');
    expect(b.emit(bob, 'call-end', { conversationId }).because).toBe('claimed');
    expect(b.emit(alice, 'call-offer', offer).because).toBe('route');
  });

  it('is forgotten with the last socket that has to do with it', () => {
    const b = bench();
    const bob = b.connect('bob', 'b');
    b.legacySays(bob, 'call-offer', { conversationId, fromUserId: 'alice' });
    const again = b.connect('bob', 'b2');
    b.emit(again, 'call-rejoin-offer', offer);
    b.drop(bob);
    expect(b.signaling.sizes['legacy-claims']?.()).toBe(1);
    b.drop(again);
    expect(b.signaling.sizes['legacy-claims']?.()).toBe(0);
  });

  it('is known by a rejoin, until the legacy knows of none or that socket leaves', () => {
    const b = bench();
    const bob = b.connect('bob', 'b');
    const rejoin = { conversationId, offer: 'o' };
    expect(b.emit(bob, 'call-rejoin-offer', rejoin).because).toBe('default');
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('claimed');
    b.legacySays(bob, 'error', { event: 'call-rejoin-offer', conversationId, message: 'Nothing to rejoin' });
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('claimed');
    b.legacySays(bob, 'error', { event: 'call-rejoin-offer', conversationId, message: 'No such call' });
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('early');
    expect(b.emit(bob, 'call-rejoin-offer', rejoin).because).toBe('default');
    b.drop(bob);
    expect(b.emit(b.connect('bob', 'b2'), 'ice-candidate', candidate).because).toBe('early');
  });

  it('has its trailing candidates at the legacy, not in the next call', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    b.legacySays(bob, 'call-offer', { conversationId, fromUserId: 'alice' });
    b.emit(bob, 'call-end', { conversationId });
    expect(b.emit(alice, 'ice-candidate', candidate).because).toBe('default');
    b.emit(alice, 'call-offer', offer);
    await settle();
    const answered = b.emit(bob, 'call-answer', answer);
    await settle();
    expect(answered.acks).toEqual([[]]);
  });

  it('a guess does not keep an offer from the path that the table says', async () => {
    const b = bench();
    b.knows('alice');
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    expect(b.emit(b.connect('mallory', 'm'), 'call-answer', answer).because).toBe('default');
    expect(b.emit(alice, 'call-offer', offer).because).toBe('route');
    await settle();
    b.emit(bob, 'call-end', { conversationId });
    await settle();
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('ended-here');
  });

  it('is no guess any more once an offer of its own is forwarded', () => {
    const b = bench('{}');
    const bob = b.connect('bob', 'b');
    b.emit(bob, 'call-answer', answer);
    b.emit(bob, 'call-offer', offer);
    b.flip(callsNew);
    b.legacySays(bob, 'error', { event: 'call-answer', conversationId, message: 'No such call' });
    expect(b.emit(bob, 'ice-candidate', candidate).because).toBe('claimed');
  });
});
