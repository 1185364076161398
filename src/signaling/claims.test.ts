// Claims where one call of a conversation follows another, and word of the first is still on its way: what is late must
// neither end the second, nor make it the legacy's for good. And claims that are forgotten though the legacy has the call.
import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, UserId } from '../base/ids.js';
import type { InboundEvent, Peer } from '../base/service.js';
import type { CallEvent, CallKey } from '../call/session.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { WantedRelays } from './asked.js';
import { keyOf } from './calls.js';
import { Claims, maxAge, maxClaimsOfOne } from './claims.js';
import { EndedCalls } from './ended.js';

const ns = '/' as Namespace;
const callOf = (id: string): CallKey => ({ ns, conversationId: id as ConversationId });
const dm = callOf('dm:alice:bob');
const everything: WantedRelays = { groups: ['ice-candidate', 'call-renegotiation'], excludes: () => false };

function bench() {
  const clock = manualClock();
  const here = new Set<number>();
  const ended = new EndedCalls(clock);
  let ids = 0;
  const signals = recordedSignals();
  const claims = new Claims({
    clock,
    signals,
    delivery: { emit: () => true, socketsOf: () => [], isConnected: ({ connection }) => here.has(connection) },
    newId: () => `call-${++ids}`,
    ended,
    shared: { claim: () => undefined, release: () => undefined },
  });
  const forwarded: string[] = [];
  const event = (
    peer: Peer,
    name: string,
    body: object,
    ack: boolean,
    forward = (): void => undefined,
  ): InboundEvent => ({
    ...{ peer, name, args: [body], ackRequested: ack, size: 100, digest: () => '', ack: () => undefined, forward },
  });
  const self = {
    clock,
    claims,
    signals,
    forwarded,
    connect(user: string | undefined, id: string): Peer {
      const connection = ++ids as ConnectionNumber;
      here.add(connection);
      return { ref: { ns, id: id as SocketId, connection }, user: user as UserId | undefined, token: undefined };
    },
    drop(peer: Peer) {
      here.delete(peer.ref.connection);
      claims.disconnected(peer.ref);
    },
    /** A browser's event goes to the legacy; what is returned is the legacy's acknowledgement. */
    send(
      peer: Peer,
      name: string,
      body: object = {},
      { ack = true, call = dm, wanted = null as WantedRelays | null } = {},
    ) {
      const acknowledged = claims.forwarded(
        call,
        event(peer, name, { conversationId: call.conversationId, ...body }, ack),
        { path: 'legacy', because: 'route' },
        wanted,
      );
      return (answer: unknown) => void acknowledged?.([answer]);
    },
    says(peer: Peer, name: string, payload: object = {}, call = dm) {
      claims.passed(call, { peer, name, args: [{ conversationId: call.conversationId, ...payload }] });
    },
    refuses: (peer: Peer, name: string, message: string) => self.says(peer, 'error', { event: name, message }),
    /** Whether the legacy is believed to have a call. */
    has: (call = dm) => claims.has(keyOf(call), true),
    shown: () => [...claims.calls()].map(({ id, state, offerer }) => `${id} ${state} of ${offerer}`),
    /** The offerer's candidate is served here, and kept until the answer. */
    keeps(peer: Peer, iceCandidate: string, call = dm) {
      const observed = claims.observed(keyOf(call), 'ice-candidate');
      if (!observed) throw new Error('its candidates are not served here');
      const original = event(peer, 'ice-candidate', { iceCandidate }, false, () => void forwarded.push(iceCandidate));
      const by = { user: peer.user as UserId, socket: peer.ref };
      const made: CallEvent = { type: 'ice-candidate', by, iceCandidate, size: 100 };
      observed.serve(original, made, original);
    },
  };
  return self;
}
type Bench = ReturnType<typeof bench>;

const ok = { ok: true };

/** A call of alice's that bob has answered. */
function talking(b: Bench): { alice: Peer; bob: Peer } {
  const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
  const accepts = b.send(alice, 'call-offer', { offer: 'o1' });
  b.says(bob, 'call-offer', { offer: 'o1', fromUserId: 'alice' });
  accepts(ok);
  b.send(bob, 'call-answer', { answer: 's1' });
  b.says(alice, 'call-answer', { answer: 's1', fromUserId: 'bob' });
  return { alice, bob };
}

/** That call is over, and alice's next offer is on its way. */
function redialled(b: Bench, { ack = true } = {}) {
  const { alice, bob } = talking(b);
  b.send(alice, 'call-end');
  const accepts = b.send(alice, 'call-offer', { offer: 'o2' }, { ack });
  return { alice, bob, accepts };
}

it('tells who its parties are, so that they are known once it has ended', () => {
  const b = bench();
  const { alice } = talking(b);
  b.send(alice, 'call-end');
  const observed = b.signals.events.filter(({ what }) => what === 'observed').map(({ args }) => args[0]);
  expect(observed.at(-1)).toMatchObject({ to: 'ENDED', users: { offerer: 'alice', answerer: 'bob' } });
});

describe('a call that is dialled while word of the one before is still on its way', () => {
  it('stays when the other party is told of the end of the one before', () => {
    const b = bench();
    const { bob } = redialled(b);
    b.says(bob, 'call-ended', { reason: 'hangup', userId: 'alice' });
    expect(b.has()).toBe(true);
  });

  it('ends when somebody is told of its end who was told of it', () => {
    const b = bench();
    const { bob, accepts } = redialled(b);
    accepts(ok);
    b.says(bob, 'call-offer', { offer: 'o2', fromUserId: 'alice' });
    b.says(bob, 'call-ended', { reason: 'hangup', userId: 'alice' });
    expect(b.has()).toBe(false);
  });

  it('stays when its own offerer is told of an end before its offer is acknowledged, and not after', () => {
    const b = bench();
    const { alice, accepts } = redialled(b);
    b.says(alice, 'call-ended', { reason: 'hangup', userId: 'bob' });
    expect(b.has()).toBe(true);
    accepts(ok);
    b.says(alice, 'call-ended', { reason: 'hangup', userId: 'bob' });
    expect(b.has()).toBe(false);
  });

  it('takes over from the one before when that is seen to end after its offer was forwarded', () => {
    const b = bench();
    const { alice, bob } = talking(b);
    const accepts = b.send(bob, 'call-offer', { offer: 'o2' });
    b.says(bob, 'call-ended', { reason: 'rejoin-timeout', userId: 'alice' });
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of bob$/)]);
    accepts(ok);
    b.says(alice, 'call-offer', { offer: 'o2', fromUserId: 'bob' });
    expect(b.has()).toBe(true);
  });

  it.each(['acknowledged', 'rung'] as const)('takes over when its offer is %s, though no end was seen', (how) => {
    const b = bench();
    const { alice, bob } = talking(b);
    const [before] = b.shown();
    const accepts = b.send(bob, 'call-offer', { offer: 'o2' });
    if (how === 'acknowledged') accepts(ok);
    else b.says(alice, 'call-offer', { offer: 'o2', fromUserId: 'bob' });
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of bob$/)]);
    expect(b.shown()).not.toEqual([before]);
  });

  it('does not take over when the legacy refuses it over the one before', () => {
    const b = bench();
    const { bob } = talking(b);
    const before = b.shown();
    const acknowledges = b.send(bob, 'call-offer', { offer: 'o2' });
    b.refuses(bob, 'call-offer', 'Call already in progress');
    acknowledges({ ok: false });
    expect(b.shown()).toEqual(before);
  });

  it('is none when, after the end of the one before, it is refused over it', () => {
    const b = bench();
    const { bob } = talking(b);
    b.send(bob, 'call-offer', { offer: 'o2' });
    b.says(bob, 'call-ended', { reason: 'rejoin-timeout', userId: 'alice' });
    b.refuses(bob, 'call-offer', 'Call is recovering, rejoin instead');
    expect(b.has()).toBe(false);
  });

  it('is none where only the ringing of one that is over comes late', () => {
    const b = bench();
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    b.send(alice, 'call-offer', { offer: 'o1' });
    b.send(alice, 'call-end');
    b.says(bob, 'call-offer', { offer: 'o1', fromUserId: 'alice' });
    expect(b.has()).toBe(false);
    b.says(bob, 'call-offer', { offer: 'of somebody elsewhere', fromUserId: 'alice' });
    expect(b.has()).toBe(true);
  });

  const late: readonly (readonly [string, object])[] = [
    ['call-answer', { answer: 's1', fromUserId: 'alice' }],
    ['call-peer-disconnected', { userId: 'alice' }],
    ['call-rejoin-offer', { offer: 'j', fromUserId: 'alice' }],
    ['call-rejoin-answer', { answer: 'k', fromUserId: 'alice' }],
  ];
  describe.each([true, false])('with an acknowledgement: %s', (ack) => {
    it.each(late)('is not confirmed by a late %s of the one before', (name, payload) => {
      const b = bench();
      const { alice, bob } = redialled(b, { ack });
      const before = b.shown();
      b.says(bob, name, payload);
      expect(b.shown()).toEqual(before);
      b.refuses(alice, 'call-offer', 'Not a participant');
      expect(b.has()).toBe(false);
    });
  });

  it.each(late.slice(1))('is not confirmed by a late %s to its own offerer either', (name, payload) => {
    const b = bench();
    const { alice } = redialled(b);
    b.says(alice, name, { ...payload, userId: 'bob', fromUserId: 'bob' });
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of alice$/)]);
    b.refuses(alice, 'call-offer', 'Not a participant');
    expect(b.has()).toBe(false);
  });

  it('follows drops and rejoins of its own', () => {
    const b = bench();
    const { alice, bob, accepts } = redialled(b);
    b.says(bob, 'call-offer', { offer: 'o2', fromUserId: 'alice' });
    accepts(ok);
    b.send(bob, 'call-answer', { answer: 's2' });
    b.says(alice, 'call-answer', { answer: 's2', fromUserId: 'bob' });
    b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
    expect(b.shown()).toEqual([expect.stringMatching(/ AWAITING_REJOIN of alice$/)]);
    b.says(alice, 'call-rejoin-offer', { offer: 'j', fromUserId: 'bob' });
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of alice$/)]);
  });
});

describe('right after a call was seen to end', () => {
  it('a late call-rejoin-offer of it claims nothing; a minute later it is of a call that nobody saw', () => {
    const b = bench();
    const { alice, bob } = talking(b);
    b.send(alice, 'call-end');
    b.says(bob, 'call-rejoin-offer', { offer: 'j', fromUserId: 'alice' });
    expect(b.has()).toBe(false);
    b.clock.advance(60_000);
    b.says(bob, 'call-rejoin-offer', { offer: 'j', fromUserId: 'alice' });
    expect(b.has()).toBe(true);
  });

  it.each([
    ['call-answer', { answer: 's', fromUserId: 'alice' }],
    ['call-peer-disconnected', { userId: 'alice' }],
    ['call-rejoin-answer', { answer: 'k', fromUserId: 'alice' }],
  ])('a stray relay is not made a call by a late %s', (name, payload) => {
    const b = bench();
    const { alice, bob } = talking(b);
    b.send(alice, 'call-end');
    b.send(bob, 'call-renegotiate-answer', { answer: 'r' });
    b.says(bob, name, payload);
    expect([b.has(), b.shown()]).toEqual([false, []]);
    b.refuses(bob, 'call-renegotiate-answer', 'No such call');
    expect(b.claims.size).toBe(0);
  });
});

describe('two offers at once', () => {
  it('the refusal of one leaves the other, whichever came first', () => {
    for (const loser of [0, 1]) {
      const b = bench();
      const peers = [b.connect('alice', 'a'), b.connect('bob', 'b')] as const;
      for (const peer of peers) b.send(peer, 'call-offer', { offer: `of ${peer.user}` });
      b.refuses(peers[loser] as Peer, 'call-offer', 'Not a participant');
      expect(b.has()).toBe(true);
      b.refuses(peers[1 - loser] as Peer, 'call-offer', 'Not a participant');
      expect(b.has()).toBe(false);
    }
  });

  it('one that is refused over a call that nobody saw keeps it at the legacy, whatever becomes of it', () => {
    const b = bench();
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    b.send(alice, 'call-offer', { offer: 'o1' });
    b.refuses(alice, 'call-offer', 'Call already in progress');
    expect(b.has()).toBe(true);
    // Then that one is over, and another begins.
    const accepts = b.send(bob, 'call-offer', { offer: 'o2' });
    accepts(ok);
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of bob$/)]);
    b.drop(bob);
    expect(b.has()).toBe(false);
  });

  it('one that opens the next call after such a refusal outlives the end of the call that nobody saw', () => {
    const b = bench();
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    b.send(alice, 'call-offer', { offer: 'o1' });
    b.refuses(alice, 'call-offer', 'Call already in progress');
    b.send(bob, 'call-offer', { offer: 'o2' }, { ack: false });
    b.says(alice, 'call-ended', { reason: 'hangup', userId: 'bob' });
    expect(b.has()).toBe(true);
  });

  it('one that its own socket has ended does not come back when it is acknowledged late', () => {
    const b = bench();
    const [first, second, third] = ['a1', 'a2', 'a3'].map((id) => b.connect('alice', id)) as [Peer, Peer, Peer];
    b.send(first, 'call-offer', { offer: 'o1' });
    const late = b.send(second, 'call-offer', { offer: 'o2' });
    b.send(second, 'call-end');
    b.refuses(first, 'call-offer', 'Call already in progress');
    b.send(third, 'call-offer', { offer: 'o3' })(ok);
    late(ok);
    b.drop(second);
    expect(b.has()).toBe(true);
  });

  it('the late refusal of one that its own socket has ended says nothing of what that socket offers next', () => {
    const b = bench();
    const { bob } = talking(b);
    const phone = b.connect('bob', 'b2');
    const refused = b.send(phone, 'call-offer', { offer: 'o2' });
    b.send(phone, 'call-end');
    const accepts = b.send(phone, 'call-offer', { offer: 'o3' });
    b.refuses(phone, 'call-offer', 'Call already in progress');
    b.says(bob, 'call-ended', { reason: 'hangup', userId: 'bob' });
    refused({ ok: false, error: 'Call already in progress' });
    expect(b.has(), 'the new call is the one that counts').toBe(true);
    accepts(ok);
    expect(b.has()).toBe(true);
    b.refuses(phone, 'call-offer', 'Call already in progress');
    expect(b.has()).toBe(true);
  });

  it('a refusal after that is about what was offered next', () => {
    const b = bench();
    talking(b);
    const phone = b.connect('bob', 'b2');
    const refused = b.send(phone, 'call-offer', { offer: 'o2' });
    b.send(phone, 'call-end');
    b.send(phone, 'call-offer', { offer: 'o3' });
    b.refuses(phone, 'call-offer', 'Call already in progress');
    refused({ ok: false, error: 'Call already in progress' });
    b.refuses(phone, 'call-offer', 'Not a participant');
    expect(b.has()).toBe(false);
  });

  it('the refusal of the second says nothing of the first', () => {
    const b = bench();
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    b.send(alice, 'call-offer', { offer: 'o1' });
    b.send(bob, 'call-offer', { offer: 'o2' });
    b.refuses(bob, 'call-offer', 'Not a participant');
    b.refuses(bob, 'call-offer', 'Not a participant');
    expect(b.shown()).toEqual([expect.stringMatching(/ OFFERING of alice$/)]);
    // Had it been over a call that nobody saw, an end of that one would end the claim.
    b.send(bob, 'call-offer', { offer: 'o3' }, { ack: false });
    b.refuses(bob, 'call-offer', 'Call already in progress');
    b.drop(bob);
    b.says(alice, 'call-ended', { reason: 'hangup', userId: 'bob' });
    expect(b.has()).toBe(true);
  });
});

describe('a claim that is forgotten though the legacy may have its call: what was kept goes to the legacy', () => {
  function keeping(b: Bench): Peer {
    const [alice, bob] = [b.connect('alice', 'a'), b.connect('bob', 'b')];
    const accepts = b.send(alice, 'call-offer', { offer: 'o' }, { wanted: everything });
    b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    accepts(ok);
    for (const candidate of ['c1', 'c2']) b.keeps(alice, candidate);
    expect(b.forwarded).toEqual([]);
    return alice;
  }

  it('by its age', () => {
    const b = bench();
    keeping(b);
    b.clock.advance(maxAge + 1);
    expect(b.has()).toBe(false);
    expect(b.forwarded).toEqual(['c1', 'c2']);
    expect(b.claims.observedBytes).toBe(0);
  });

  it('by their number', () => {
    const b = bench();
    const alice = keeping(b);
    for (let i = 0; i < maxClaimsOfOne; i++) {
      b.send(alice, 'call-offer', { offer: 'o' }, { call: callOf(`made up ${i}`) });
    }
    expect(b.has()).toBe(false);
    expect(b.forwarded).toEqual(['c1', 'c2']);
    expect(b.claims.observedBytes).toBe(0);
  });

  it('but nothing of a call that is over', () => {
    const b = bench();
    const alice = keeping(b);
    b.send(alice, 'call-end');
    expect(b.forwarded).toEqual([]);
    expect(b.claims.observedBytes).toBe(0);
  });
});
