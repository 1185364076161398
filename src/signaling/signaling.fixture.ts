import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Acknowledged, Because, InboundEvent, Peer } from '../base/service.js';
import { alone } from '../cluster/alone.js';
import type { MembershipAnswer, Memberships } from '../identity/identity.js';
import { parseRouteTable } from '../routing/table.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { Delivery } from './deliver.js';
import { Signaling } from './signaling.js';

export const conversationId = 'dm:alice:bob';
export const callsNew = 'namespaces: { /: { calls: new } }';
export const callsSole = 'namespaces: { /: { calls: { mode: new, sole: true } } }';

export interface Sent {
  readonly to: string;
  readonly event: string;
  readonly arg: unknown;
}

/** One signaling service with peers whose sockets a test connects and drops, and a legacy that only notes what it gets. */
export function bench(routes = callsNew) {
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
  const delivery: Delivery = {
    emit: (to, event, arg) => {
      const there = peers.get(to.connection)?.ref === to;
      if (there) sent.push({ to: to.id, event, arg });
      return there;
    },
    socketsOf: (ns, user) => [...peers.values()].filter((p) => p.user === user && p.ref.ns === ns).map((p) => p.ref),
    isConnected: (ref) => peers.get(ref.connection)?.ref === ref,
  };
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
    delivery,
    cluster: alone(delivery, 'test'),
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
export const settle = () => new Promise((resolve) => setImmediate(resolve));

export const offer = { conversationId, offer: 'sdp-offer' };
export const answer = { conversationId, answer: 'sdp-answer' };
