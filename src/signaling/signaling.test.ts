import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Acknowledged, Because, InboundEvent, Peer } from '../base/service.js';
import type { MembershipAnswer, Memberships } from '../identity/identity.js';
import { parseRouteTable } from '../routing/table.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import { Signaling } from './signaling.js';

const conversationId = 'dm:alice:bob';
const callsNew = 'namespaces: { /: { calls: new } }';
const callsSole = 'namespaces: { /: { calls: { mode: new, sole: true } } }';

interface Sent {
  readonly to: string;
  readonly event: string;
  readonly arg: unknown;
}

/** One signaling service with peers whose sockets a test connects and drops, and a legacy that only notes what it gets. */
function bench(routes = callsNew) {
  const clock = manualClock();
  const signals = recordedSignals();
  const store = memorySessionStore();
  const sent: Sent[] = [];
  const toLegacy: string[] = [];
  const peers = new Map<number, Peer>();
  let table = routes;
  const asks: { user: string; answer: (a: MembershipAnswer) => void }[] = [];
  const known = new Set<string>();
  const dm = (id: ConversationId): [UserId, UserId] => id.split(':').slice(1) as [UserId, UserId];
  const memberships: Memberships = {
    cached: (user, id) => (known.has(`${user} ${id}`) ? { participants: dm(id) } : undefined),
    own: (ticket, user, id) => (ticket === `ticket ${user} ${id}` ? { participants: dm(id) } : undefined),
    ask: (_token, user) => new Promise((answer) => asks.push({ user, answer })),
  };
  let calls = 0;
  const signaling = new Signaling({
    store,
    clock,
    signals,
    memberships,
    newId: () => `call-${++calls}`,
    routes: () => {
      const parsed = parseRouteTable(table, 'routes.yaml');
      if (!parsed.ok) throw new Error(parsed.problems.join());
      return parsed.table;
    },
    delivery: {
      emit: (to, event, arg) => {
        const there = peers.get(to.connection)?.ref === to;
        if (there) sent.push({ to: to.id, event, arg });
        return there;
      },
      socketsOf: (ns, user) => [...peers.values()].filter((p) => p.user === user && p.ref.ns === ns).map((p) => p.ref),
      isConnected: (ref) => peers.get(ref.connection)?.ref === ref,
    },
  });
  let connections = 0;
  const awaited: { readonly peer: Peer; readonly acknowledged: Acknowledged }[] = [];
  const self = {
    clock,
    signals,
    store,
    signaling,
    sent,
    toLegacy,
    asks,
    flip: (to: string) => {
      table = to;
    },
    knows: (...users: string[]) => {
      for (const user of users) known.add(`${user} ${conversationId}`);
    },
    connect(user: string | undefined, id: string): Peer {
      const ref: SocketRef = {
        ns: '/' as Namespace,
        id: id as SocketId,
        connection: ++connections as ConnectionNumber,
      };
      const peer: Peer = { ref, user: user as UserId | undefined, token: 'token' };
      peers.set(ref.connection, peer);
      signaling.connected(peer);
      return peer;
    },
    drop(peer: Peer) {
      peers.delete(peer.ref.connection);
      signaling.disconnected(peer, 'browser');
    },
    /** What came of one event: why, and its acknowledgements so far. */
    emit(peer: Peer, name: string, payload: unknown, { ack = true } = {}): { because: Because; acks: unknown[] } {
      const acks: unknown[] = [];
      const event: InboundEvent = {
        peer,
        name,
        args: [payload],
        ackRequested: ack,
        size: 100,
        digest: () => JSON.stringify(payload),
        ack: (arg) => {
          if (ack && acks.length === 0) acks.push(arg);
        },
        forward: () => {
          toLegacy.push(`${peer.ref.id} ${name}`);
        },
      };
      const { decision, serve, acknowledged } = signaling.route(event);
      if (acknowledged) awaited.push({ peer, acknowledged });
      if (serve) serve();
      else toLegacy.push(`${peer.ref.id} ${name}`);
      return { because: decision.because, acks };
    },
    /** The legacy emits something to a browser. */
    legacySays(peer: Peer, name: string, payload: unknown) {
      signaling.passed({ peer, name, args: [payload] });
    },
    /** The legacy acknowledges the oldest event that this peer awaits an answer to. */
    legacyAcknowledges(peer: Peer, answer: unknown) {
      const i = awaited.findIndex((one) => one.peer === peer);
      void awaited.splice(i, 1)[0]?.acknowledged([answer]);
    },
    live: () => store.peek({ ns: '/' as Namespace, conversationId: conversationId as ConversationId }),
  };
  return self;
}

/** Lets every promise that is ready run on. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

const offer = { conversationId, offer: 'sdp-offer' };
const answer = { conversationId, answer: 'sdp-answer' };

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
