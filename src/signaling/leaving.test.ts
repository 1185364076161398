// Threat: a browser with thousands of calls that leaves: ending them must not keep everybody else waiting.
import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, Namespace, SocketId, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { alone } from '../cluster/alone.js';
import { parseRouteTable } from '../routing/table.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import { Signaling } from './signaling.js';

it('a socket with many calls leaves: the event loop turns while they end', async () => {
  const parsed = parseRouteTable('namespaces: { /: { calls: { mode: new, sole: true } } }', 'routes.yaml');
  if (!parsed.ok) throw new Error(parsed.problems.join());
  const store = memorySessionStore();
  const peer: Peer = {
    ref: { ns: '/' as Namespace, id: 'a' as SocketId, connection: 1 as ConnectionNumber },
    user: 'alice' as UserId,
    token: undefined,
  };
  let here = true;
  const delivery = { emit: () => true, socketsOf: () => [], isConnected: () => here };
  const signaling = new Signaling({
    store,
    clock: manualClock(),
    signals: recordedSignals(),
    newId: () => `${Math.random()}`,
    routes: () => parsed.table,
    memberships: {
      cached: (user, conversationId) => ({ participants: [user, `of ${conversationId}` as UserId] }),
      own: () => undefined,
      ask: () => Promise.reject(new Error('not asked')),
    },
    delivery,
    cluster: alone(delivery, 'test'),
  });
  signaling.connected(peer);
  const calls = 640;
  for (let n = 0; n < calls; n++) {
    const { serve } = signaling.route({
      ...{ peer, name: 'call-offer', args: [{ conversationId: `c-${n}`, offer: 'o' }], ackRequested: false, size: 50 },
      digest: () => `${n}`,
      ack: () => undefined,
      forward: () => undefined,
    });
    serve?.();
    // As many conversations as one connection may have under way.
    if (n % 100 === 99) await new Promise((resolve) => setImmediate(resolve));
  }
  const live = async () => Object.values(await store.count()).reduce((sum, n) => sum + n, 0);
  await expect.poll(live).toBe(calls);
  here = false;
  signaling.disconnected(peer, 'browser');
  const seen: number[] = [];
  while ((await live()) > 0) {
    seen.push(await live());
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(seen.length).toBeGreaterThanOrEqual(calls / 64);
});
