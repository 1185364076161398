// For tests of what becomes of calls when instances come and go: one instance's calls over a store in memory, with sockets that are
// connected here or on others, a lease that a test takes away, and the index of seats that Redis has.
import { manualClock } from '../base/clock.js';
import type { Address, ConnectionNumber, ConversationId, InstanceId, SocketRef, UserId } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import { baseSession, socketOf, userOf } from '../call/call.fixtures.js';
import type { CallKey, Session } from '../call/session.js';
import type { Cluster, Liveness, Message } from '../cluster/cluster.js';
import { memorySessionStore } from '../store/memory.js';
import type { SessionStore } from '../store/store.js';
import { recordedSignals } from '../telemetry/signals.js';
import { Calls } from './calls.js';
import type { Delivery } from './deliver.js';
import { EndedCalls } from './ended.js';
import { dueAt } from './reaper.js';

export const here = 'here' as Address;
export const life = 'here.1' as InstanceId;
export const REJOIN_TIMEOUT = 60_000;

/** `O1@here`: that socket (`call.fixtures.ts`) on that instance. */
export function at(name: string): SocketRef {
  const [socket = '', address] = name.split('@');
  const [letter = '', number = ''] = socket;
  const connection = (letter.charCodeAt(0) * 100 + Number(number)) as ConnectionNumber;
  return Object.freeze({ ...socketOf(socket), connection, at: address as Address });
}

/** A call whose seats are `O1@a` and `A1@b`; `-`: the answerer has none yet. */
export const call = (
  conversation: string,
  offerer: string,
  answerer: string,
  more: Partial<Session> = {},
): Session => ({
  ...baseSession,
  conversationId: conversation as ConversationId,
  callId: `call-${conversation}`,
  version: 1,
  createdAt: 1_700_000_000_000,
  since: 1_700_000_000_000,
  seats: { offerer: at(offerer), answerer: answerer === '-' ? null : at(answerer) },
  ...more,
});

export function several() {
  const clock = manualClock();
  const signals = recordedSignals();
  const memory = memorySessionStore(dueAt(REJOIN_TIMEOUT));
  const connected = new Map<string, SocketRef>();
  const seated = new Map<string, CallKey[]>();
  /** What was done to the store, and what was said to whom, in order. */
  const log: string[] = [];
  const state = { mayAct: true, leads: true, dropped: false, living: [here] as Address[] };
  const listeners: {
    dead?: Parameters<Liveness['onDead']>[0];
    fenced?: Parameters<Liveness['onFenced']>[0];
    back?: Parameters<Liveness['onBack']>[0];
  } = {};
  const nameOf = ({ id, at: address }: SocketRef): string => `${id}@${address}`;

  const guarded = <T>(work: () => T): T => {
    if (!state.mayAct) throw new Unavailable('the lease is over');
    return work();
  };
  const store: SessionStore = {
    ...memory,
    get: async (key) => guarded(() => memory.get(key)),
    replace: async (before, after) => guarded(() => memory.replace(before, after)),
    delete: async (before) => guarded(() => memory.delete(before)),
    async *seatedAt(instance) {
      yield* guarded(() => seated.get(instance) ?? []);
    },
    async forget(instance) {
      guarded(() => null);
      seated.delete(instance);
      log.push(`forget ${instance}`);
    },
    async keep(session, role, { event }) {
      log.push(`keep ${event} for ${session.users[role]}`);
      return { kept: true, session };
    },
    bySocket: async (ref) => guarded(() => (state.dropped ? [] : memory.bySocket(ref))),
    knownOf: (ns, user) => (state.dropped ? [] : memory.knownOf(ns, user)),
    drop() {
      state.dropped = true;
      log.push('drop');
    },
    async restore(what = 'all') {
      guarded(() => null);
      log.push(`restore ${what}`);
    },
  };
  const delivery: Delivery = {
    emit(to, event) {
      log.push(`${event} > ${nameOf(to)}`);
      return true;
    },
    socketsOf: (ns, user) =>
      [...connected.values()].filter((ref) => ref.at === here && ref.ns === ns && userOf(ref.id) === user),
    isConnected: (ref) => ref.at === here && connected.has(nameOf(ref)),
  };
  const everywhere = (user: UserId): SocketRef[] => [...connected.values()].filter(({ id }) => userOf(id) === user);
  const cluster: Cluster = {
    presence: {
      add: () => undefined,
      remove: () => undefined,
      peek: () => undefined,
      socketsOf: async (_ns, user) => guarded(() => everywhere(user)),
      isConnected: async (ref) => guarded(() => connected.has(nameOf(ref))),
    },
    broker: {
      send(to: Address, { body }: Message) {
        const { emits } = body as { emits: readonly { event: string; sockets?: readonly [string, number][] }[] };
        for (const { event, sockets = [] } of emits) for (const [id] of sockets) log.push(`${event} > ${id}@${to}`);
      },
      sendAll: () => undefined,
      on: () => undefined,
    },
    liveness: {
      address: here,
      id: life,
      mayAct: () => state.mayAct,
      well: () => true,
      leads: () => state.leads,
      living: () =>
        state.living.map((address) => ({
          id: `${address}.1` as InstanceId,
          address,
          self: address === here,
          info: {},
          leaseAgeMs: 0,
        })),
      isLiving: (address) => state.living.includes(address),
      isLivingId: () => true,
      describe: () => undefined,
      renew: async () => undefined,
      onDead(recover) {
        listeners.dead = recover;
      },
      onFenced(listener) {
        listeners.fenced = listener;
      },
      onBack(listener) {
        listeners.back = listener;
      },
      leave: async () => undefined,
    },
    close: async () => undefined,
  };
  const calls = new Calls({ store, delivery, cluster, signals, clock, ended: new EndedCalls(clock) });
  return {
    clock,
    signals,
    store,
    delivery,
    cluster,
    calls,
    log,
    state,
    listeners,
    connect: (...names: string[]) => {
      for (const name of names) connected.set(name, at(name));
    },
    disconnect: (...names: string[]) => {
      for (const name of names) connected.delete(name);
    },
    /** Stored, and in the index of every instance that has a seat of it. */
    async seat(...sessions: Session[]) {
      for (const session of sessions) {
        await memory.create(session);
        for (const seat of Object.values(session.seats)) {
          if (!seat?.at) continue;
          const instance = `${seat.at}.1`;
          seated.set(instance, [...(seated.get(instance) ?? []), session]);
        }
      }
    },
    session: (conversation: string) =>
      memory.peek({ ns: baseSession.ns, conversationId: conversation as ConversationId }) ?? null,
    /** Runs what is due, until all that was awaited meanwhile has run on. */
    async advance(ms: number) {
      clock.advance(ms);
      for (let i = 0; i < 20; i++) await new Promise((resolve) => setImmediate(resolve));
    },
  };
}
