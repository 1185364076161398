// What tests of peeled relays need: a signaling service between browsers and a legacy of which each test says what it does, and
// when that passes here. Knows no test.
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, Namespace, SocketId, UserId } from '../base/ids.js';
import type { Acknowledged, Because, InboundEvent, Peer } from '../base/service.js';
import { alone } from '../cluster/alone.js';
import { parseRouteTable, type RouteTable } from '../routing/table.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { Delivery } from './deliver.js';
import { Signaling } from './signaling.js';

export const conversationId = 'dm:alice:bob';
export const peeled = 'namespaces: { /: { ice-candidate: new, call-renegotiation: new } }';

/** What became of one event of a browser's. */
export interface Emitted {
  readonly because: Because;
  readonly acks: unknown[];
  /** Whoever wants to see the legacy's acknowledgement, once it was forwarded. */
  acknowledged: Acknowledged | undefined;
}

function tableOf(yaml: string): RouteTable {
  const parsed = parseRouteTable(yaml, 'routes.yaml');
  if (!parsed.ok) throw new Error(parsed.problems.join());
  return parsed.table;
}

export function bench(routes = peeled) {
  const clock = manualClock();
  const signals = recordedSignals();
  const peers = new Map<number, Peer>();
  const happened: string[] = [];
  const breaks = new Set<string>();
  let table = tableOf(routes);
  let ids = 0;
  const delivery: Delivery = {
    emit: (to, event, arg) => {
      if (breaks.has(event)) throw new Error('the delivery is broken');
      const there = peers.get(to.connection)?.ref === to;
      if (there) happened.push(`${to.id} gets ${event} ${JSON.stringify(arg)}`);
      return there;
    },
    socketsOf: (ns, user) => [...peers.values()].filter((p) => p.user === user && p.ref.ns === ns).map((p) => p.ref),
    isConnected: (ref) => peers.get(ref.connection)?.ref === ref,
  };
  const signaling = new Signaling({
    store: memorySessionStore(),
    clock,
    signals,
    memberships: {
      cached: () => ({ participants: ['alice', 'bob'] as [UserId, UserId] }),
      own: () => undefined,
      ask: () => Promise.reject(new Error('not asked')),
    },
    newId: () => `call-${++ids}`,
    routes: () => table,
    delivery,
    cluster: alone(delivery, 'test'),
  });
  const self = {
    clock,
    signals,
    signaling,
    /** What breaks: events that we deliver, or `ack`, once. */
    breaks,
    flip: (to: string) => {
      table = tableOf(to);
    },
    connect(user: string | undefined, id: string): Peer {
      const connection = (peers.size + 1 + ids++) as ConnectionNumber;
      const peer: Peer = {
        ref: { ns: '/' as Namespace, id: id as SocketId, connection },
        user: user as UserId | undefined,
        token: 'token',
      };
      peers.set(connection, peer);
      signaling.connected(peer);
      return peer;
    },
    drop(peer: Peer) {
      peers.delete(peer.ref.connection);
      signaling.disconnected(peer, 'browser');
    },
    emit(peer: Peer, name: string, body: object = {}, { ack = true, size = 100 } = {}): Emitted {
      const payload = { conversationId, ...body };
      const emitted: { because: Because; acks: unknown[]; acknowledged: Acknowledged | undefined } = {
        because: 'default',
        acks: [],
        acknowledged: undefined,
      };
      const forwarded = (acknowledged?: Acknowledged): void => {
        emitted.acknowledged = acknowledged;
        const [said] = Object.values(body) as unknown[];
        happened.push(`legacy gets ${name}${said === undefined ? '' : ` ${String(said)}`} of ${peer.ref.id}`);
      };
      const event: InboundEvent = {
        peer,
        name,
        args: [payload],
        ackRequested: ack,
        size,
        digest: () => JSON.stringify(payload),
        ack: (arg) => {
          if (breaks.delete('ack')) throw new Error('the acknowledgement is broken');
          if (ack && emitted.acks.length === 0) emitted.acks.push(arg);
        },
        forward: forwarded,
      };
      const { decision, serve, acknowledged } = signaling.route(event);
      emitted.because = decision.because;
      if (serve) serve();
      else forwarded(acknowledged);
      return emitted;
    },
    candidate: (peer: Peer, iceCandidate: unknown, options?: { ack?: boolean; size?: number }) =>
      self.emit(peer, 'ice-candidate', { iceCandidate }, options),
    /** The legacy emits something to a browser. */
    says(to: Peer, name: string, more: object = {}) {
      signaling.passed({ peer: to, name, args: [{ conversationId, ...more }] });
    },
    refuses: (to: Peer, event: string, message: string) => self.says(to, 'error', { event, message }),
    /** The legacy acknowledges; what the browser gets, or `held` while that is kept back. */
    acks(emitted: Emitted, ...args: unknown[]): { got: unknown } {
      const replaced = emitted.acknowledged?.(args);
      const result: { got: unknown } = { got: 'held' };
      if (replaced instanceof Promise) void replaced.then((r) => (result.got = (r ?? args)[0]));
      else result.got = (replaced ?? args)[0];
      return result;
    },
    /** What happened since it was asked last. */
    happened: () => happened.splice(0),
    /** What operators see of it. */
    live: () => [...signaling.legacyCalls.calls()].map(({ state, peeled: groups }) => `${state} ${groups.join('+')}`),
  };
  return self;
}

export type Bench = ReturnType<typeof bench>;

/** Lets every promise that is ready run on. */
export const settle = () => new Promise((resolve) => setImmediate(resolve));
export const ok = { ok: true };

/** The legacy has accepted alice's offer and bob's first device rings. */
export async function ringing(b: Bench): Promise<{ alice: Peer; bob: Peer }> {
  const alice = b.connect('alice', 'a');
  const bob = b.connect('bob', 'b');
  const offer = b.emit(alice, 'call-offer', { offer: 'o' });
  b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
  b.acks(offer, ok);
  await settle();
  b.happened();
  return { alice, bob };
}

export async function connected(b: Bench): Promise<{ alice: Peer; bob: Peer }> {
  const { alice, bob } = await ringing(b);
  const answer = b.emit(bob, 'call-answer', { answer: 's' });
  b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
  b.acks(answer, []);
  await settle();
  b.happened();
  return { alice, bob };
}
