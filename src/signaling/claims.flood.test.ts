// Threat: one browser that claims more conversations for the legacy than anybody calls, to make others' calls be forgotten.
import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, Namespace, SocketId, UserId } from '../base/ids.js';
import type { InboundEvent, Peer } from '../base/service.js';
import { alone } from '../cluster/alone.js';
import { parseRouteTable } from '../routing/table.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import { BegunBy } from './begun.js';
import { maxAge, maxClaimsOfOne } from './claims.js';
import { Signaling } from './signaling.js';

const ns = '/' as Namespace;

function bench() {
  const parsed = parseRouteTable('namespaces: { /: { ice-candidate: new } }', 'routes.yaml');
  if (!parsed.ok) throw new Error(parsed.problems.join());
  const clock = manualClock(0);
  let ids = 0;
  const delivery = { emit: () => true, socketsOf: () => [], isConnected: () => true };
  const signaling = new Signaling({
    store: memorySessionStore(),
    clock,
    signals: recordedSignals(),
    newId: () => `call-${++ids}`,
    routes: () => parsed.table,
    memberships: {
      cached: () => undefined,
      own: () => undefined,
      ask: () => Promise.reject(new Error('not asked')),
    },
    delivery,
    cluster: alone(delivery, 'test'),
  });
  const toLegacy: string[] = [];
  const sends = (peer: Peer, name: string, conversationId: string, body: object): string => {
    const forward = () => void toLegacy.push(`${name} of ${conversationId}`);
    const event: InboundEvent = {
      ...{ peer, name, args: [{ conversationId, ...body }], ackRequested: false, size: 100 },
      ...{ digest: () => name, ack: () => undefined, forward },
    };
    const { decision, serve } = signaling.route(event);
    serve?.();
    return decision.because;
  };
  return {
    clock,
    signaling,
    toLegacy,
    peer: (user: string, connection: number): Peer => ({
      ref: { ns, id: `s-${user}` as SocketId, connection: connection as ConnectionNumber },
      user: user as UserId,
      token: undefined,
    }),
    offers: (peer: Peer, conversationId: string) => sends(peer, 'call-offer', conversationId, { offer: 'o' }),
    rings: (peer: Peer, conversationId: string, fromUserId: string) =>
      signaling.passed({ peer, name: 'call-offer', args: [{ conversationId, offer: 'o', fromUserId }] }),
    /** Answers why it went where it did: `peeled` where it is kept here until the answer. */
    candidate: (peer: Peer, conversationId: string) =>
      sends(peer, 'ice-candidate', conversationId, { iceCandidate: 'c' }),
    live: () => signaling.legacyCalls.counts.legacy,
    has: (conversationId: string) =>
      [...signaling.legacyCalls.calls()].some((call) => call.conversationId === conversationId),
  };
}

it('a flood of one browser’s offers makes its own calls be forgotten, oldest first, and nobody else’s', () => {
  const b = bench();
  const [alice, bob, mallory] = [b.peer('alice', 1), b.peer('bob', 2), b.peer('mallory', 3)];
  b.offers(alice, 'dm:alice:bob');
  b.rings(bob, 'dm:alice:bob', 'alice');
  expect(b.candidate(alice, 'dm:alice:bob')).toBe('peeled');
  for (let n = 0; n < maxClaimsOfOne + 3; n++) b.offers(mallory, `made-up-${n}`);
  expect(b.live()).toBe(maxClaimsOfOne + 1);
  expect([0, 2, 3].map((n) => b.has(`made-up-${n}`))).toEqual([false, false, true]);
  expect(b.candidate(alice, 'dm:alice:bob')).toBe('peeled');
  expect(b.toLegacy).toEqual([]);
});

it('whoever is rung by many keeps the calls that they began', () => {
  const b = bench();
  const alice = b.peer('alice', 1);
  b.offers(alice, 'dm:alice:bob');
  for (let n = 0; n < maxClaimsOfOne + 3; n++) {
    b.offers(b.peer(`m${n}`, 10 + n), `made-up-${n}`);
    b.rings(alice, `made-up-${n}`, `m${n}`);
  }
  b.offers(alice, 'dm:alice:carol');
  expect(b.live()).toBe(maxClaimsOfOne + 5);
  expect(b.has('dm:alice:bob')).toBe(true);
});

it.each(['bound', 'max-age'])(
  'what was kept of a call that is forgotten (%s) goes to the legacy, which has it still',
  (why) => {
    const b = bench();
    const [alice, bob] = [b.peer('alice', 1), b.peer('bob', 2)];
    b.offers(alice, 'dm:alice:bob');
    b.rings(bob, 'dm:alice:bob', 'alice');
    b.candidate(alice, 'dm:alice:bob');
    expect(b.toLegacy).toEqual([]);
    if (why === 'max-age') {
      b.clock.advance(maxAge + 1);
      b.offers(bob, 'dm:alice:bob');
    } else for (let n = 0; n < maxClaimsOfOne; n++) b.offers(alice, `dm:alice:${n}`);
    expect(b.toLegacy).toEqual(['ice-candidate of dm:alice:bob']);
  },
);

it('knows the oldest of each socket, from so many on', () => {
  const begun = new BegunBy<string>();
  for (const call of ['a', 'b', 'c']) begun.add('one', call);
  begun.add('two', 'd');
  expect([begun.oldest('one', 3), begun.oldest('one', 4), begun.oldest('none', 1)]).toEqual([
    'a',
    undefined,
    undefined,
  ]);
  begun.delete('a');
  begun.delete('never');
  expect([begun.oldest('one', 2), begun.oldest('one', 3), begun.oldest('two', 1)]).toEqual(['b', undefined, 'd']);
});
