// What tests of calls across instances need: signaling services in one process, each with its own link to one real Redis, browsers
// on either, and a legacy that only notes what it gets. What is asked of the store is counted, and can be made to fail.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { systemClock } from '../base/clock.js';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Because, InboundEvent, Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import type { Cluster } from '../cluster/cluster.js';
import { redisCluster } from '../cluster/redis.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import type { Redis } from '../redis/redis.js';
import { parseRouteTable, type RouteTable } from '../routing/table.js';
import { redisSessionStore } from '../store/redis.js';
import type { SessionStore } from '../store/store.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { Delivery } from './deliver.js';
import { dueAt } from './reaper.js';
import { callsNew } from './signaling.fixture.js';
import { Signaling } from './signaling.js';

export const ns = '/' as Namespace;
/** Alice's and Bob's, in the test that runs: each has one of its own. */
let conversationId = 'dm:alice:bob:1';
export const key = (): CallKey => ({ ns, conversationId: conversationId as ConversationId });

/** A browser on one of the instances, and all that it heard, with its acknowledgements. */
export interface Browser {
  readonly peer: Peer;
  readonly heard: { readonly event: string; readonly arg: unknown }[];
  /** Names of what it heard. */
  readonly names: string[];
  emit(name: string, payload?: object, how?: { readonly ack?: boolean }): Emitted;
  drop(): void;
}

export interface Emitted {
  readonly because: Because;
  readonly acks: unknown[];
}

export interface Instance {
  readonly signaling: Signaling;
  readonly cluster: Cluster;
  readonly store: SessionStore;
  readonly signals: ReturnType<typeof recordedSignals>;
  /** Methods of the store that were called, and sends of the broker, in order. */
  readonly asked: string[];
  readonly toLegacy: string[];
  /** The next calls of that method answer this, or throw it; `ticket`: tickets are not cached, and are asked for. */
  readonly breaks: Map<string, (made: () => Promise<unknown>) => Promise<unknown>>;
  /** Calls of that method wait, until the returned function is called. */
  hangs(method: string): () => void;
  /** Whether its lease is over, and Redis away, as far as it can tell. */
  away: boolean;
  connect(user: string | undefined, id: string): Browser;
  flip(routes: string): void;
  /** The legacy emits something to that browser. */
  legacySays(browser: Browser, name: string, payload: unknown): void;
  session(): Promise<Session | null>;
  reset(): void;
  close(): Promise<void>;
}

export interface Instances {
  readonly a: Instance;
  readonly b: Instance;
  readonly prefix: string;
  /** For the next test: nobody is connected, nothing is left or fails, and the conversation is another one. */
  reset(): Promise<void>;
  close(): Promise<void>;
}

/** The same for all tests of a file, over a Redis of its own; anew for each test. */
export function usePair(routes = callsNew): Instances & { readonly server: RedisServer } {
  let server: RedisServer;
  let two: Instances;
  beforeAll(async () => {
    server = await startRedis();
    two = await pair(server.url, routes);
  });
  afterAll(async () => {
    await two.close();
    await server.close();
  });
  beforeEach(() => two.reset());
  return {
    get server() {
      return server;
    },
    get a() {
      return two.a;
    },
    get b() {
      return two.b;
    },
    get prefix() {
      return two.prefix;
    },
    reset: () => two.reset(),
    close: () => two.close(),
  };
}

export async function pair(url: string, routes = callsNew): Promise<Instances> {
  const prefix = `test-${randomUUID()}`;
  const [a, b] = await Promise.all([start(url, prefix, 'a', routes), start(url, prefix, 'b', routes)]);
  // Each must have seen the other.
  await Promise.all([a, b].map(({ cluster }) => cluster.liveness.renew()));
  await Promise.all([a, b].map(({ cluster }) => cluster.liveness.renew()));
  return {
    a,
    b,
    prefix,
    async reset() {
      for (const one of [a, b]) one.reset();
      // Whoever is still told of an end must be gone.
      await expect.poll(() => a.session(), { timeout: 5_000, interval: 5 }).toBeNull();
      for (const user of ['alice', 'bob']) await absent({ a, b }, user);
      for (const one of [a, b]) one.reset();
      const n = Number(conversationId.split(':').at(-1)) + 1;
      conversationId = `dm:alice:bob:${n}`;
    },
    close: async () => {
      await Promise.all([a.close(), b.close()]);
    },
  };
}

export async function start(url: string, prefix: string, name: string, routes = callsNew): Promise<Instance> {
  const redis: Redis = await connectRedis({ place: redisPlace([url]), prefix });
  const signals = recordedSignals();
  const browsers = new Map<number, { readonly peer: Peer; hear(event: string, arg: unknown): void; drop(): void }>();
  const isHere = (ref: SocketRef): boolean => browsers.get(ref.connection)?.peer.ref.id === ref.id;
  const delivery: Delivery = {
    emit: (to, event, arg) => {
      if (!isHere(to)) return false;
      browsers.get(to.connection)?.hear(event, arg);
      return true;
    },
    socketsOf: (inNs, user) =>
      [...browsers.values()]
        .map(({ peer }) => peer)
        .filter((p) => p.user === user && p.ref.ns === inNs)
        .map((p) => p.ref),
    isConnected: isHere,
  };
  const cluster = await redisCluster({ redis, name, sockets: delivery, signals });
  const { liveness } = cluster;
  const asked: string[] = [];
  const breaks: Instance['breaks'] = new Map();
  const state = { away: false };
  const mayAct = (): boolean => !state.away && liveness.mayAct();
  const real = redisSessionStore({
    redis,
    address: liveness.address,
    id: () => liveness.id,
    mayAct,
    isLivingId: (id) => liveness.isLivingId(id),
    dueAt: dueAt(60_000),
    signals,
  });
  const watched = new Set(['get', 'look', 'create', 'replace', 'delete', 'claim', 'keep', 'awaiting', 'bySocket']);
  const store = new Proxy(real, {
    get(of, what) {
      const method = of[what as keyof SessionStore] as (...args: unknown[]) => unknown;
      if (!watched.has(String(what))) return method.bind(of);
      return async (...args: unknown[]) => {
        asked.push(String(what));
        const make = async () => method.apply(of, args);
        return breaks.get(String(what))?.(make) ?? make();
      };
    },
  });
  const { broker } = cluster;
  const send: Cluster['broker']['send'] = (to, message) => {
    asked.push('send');
    broker.send(to, message);
  };
  let table = tableOf(routes);
  const signaling = new Signaling({
    store,
    delivery,
    signals,
    clock: systemClock,
    cluster: {
      presence: cluster.presence,
      broker: { send, sendAll: (m) => broker.sendAll(m), on: (t, l) => broker.on(t, l) },
      liveness: new Proxy(liveness, {
        get(of, what) {
          if (what === 'mayAct') return mayAct;
          if (what === 'well') return () => !state.away && of.well();
          const value = of[what as keyof typeof of] as unknown;
          return typeof value === 'function' ? value.bind(of) : value;
        },
      }),
      close: () => cluster.close(),
    },
    memberships: {
      cached: (_user, id) => (breaks.has('ticket') ? undefined : membershipOf(id)),
      own: () => undefined,
      async ask(_token, _user, id) {
        await breaks.get('ticket')?.(async () => undefined);
        return { kind: 'granted', membership: membershipOf(id) };
      },
    },
    newId: randomUUID,
    routes: () => table,
  });
  const toLegacy: string[] = [];
  let connections = Math.floor(Math.random() * 2 ** 20) * 2 ** 32;
  return {
    signaling,
    cluster,
    store,
    signals,
    asked,
    toLegacy,
    breaks,
    hangs(method) {
      let go!: () => void;
      const slow = new Promise<void>((resolve) => (go = resolve));
      breaks.set(method, (make) => slow.then(make));
      return () => {
        breaks.delete(method);
        go();
      };
    },
    get away() {
      return state.away;
    },
    set away(away) {
      state.away = away;
    },
    connect(user, id) {
      const connection = ++connections as ConnectionNumber;
      const ref: SocketRef = { ns, id: id as SocketId, connection, at: liveness.address };
      const peer: Peer = { ref, user: user as UserId | undefined, token: 'token' };
      const heard: Browser['heard'] = [];
      const names: string[] = [];
      const drop = (): void => {
        if (!browsers.delete(connection)) return;
        signaling.disconnected(peer, 'browser');
      };
      browsers.set(connection, {
        peer,
        hear: (event, arg) => {
          heard.push({ event, arg });
          names.push(event);
        },
        drop,
      });
      signaling.connected(peer);
      return {
        peer,
        heard,
        names,
        drop,
        emit(event, payload = {}, { ack = true } = {}) {
          const acks: unknown[] = [];
          const inbound: InboundEvent = {
            peer,
            name: event,
            args: [{ conversationId, ...payload }],
            ackRequested: ack,
            size: 100,
            digest: () => JSON.stringify(payload),
            ack: (arg) => {
              if (ack && acks.length === 0) acks.push(arg);
            },
            forward: () => void toLegacy.push(`${id} ${event}`),
          };
          const { decision, serve } = signaling.route(inbound);
          if (serve) serve();
          else toLegacy.push(`${id} ${event}`);
          return { because: decision.because, acks };
        },
      };
    },
    legacySays: ({ peer }, event, payload) => signaling.passed({ peer, name: event, args: [payload] }),
    flip(to) {
      table = tableOf(to);
    },
    reset() {
      state.away = false;
      breaks.clear();
      for (const { drop } of [...browsers.values()]) drop();
      table = tableOf(routes);
      toLegacy.length = 0;
      asked.length = 0;
    },
    session: () => real.get(key()),
    async close() {
      await real.close();
      await cluster.close();
      await redis.close();
    },
  };
}

const membershipOf = (id: string) => ({ participants: id.split(':').slice(1, 3) as [UserId, UserId] });

function tableOf(yaml: string): RouteTable {
  const parsed = parseRouteTable(yaml, 'routes.yaml');
  if (!parsed.ok) throw new Error(parsed.problems.join());
  return parsed.table;
}

export const fails =
  (why = 'away') =>
  async (): Promise<never> => {
    throw new Unavailable(why);
  };

/** Once it is acknowledged: with what. */
export async function acked({ acks }: Emitted): Promise<unknown> {
  await expect.poll(() => acks.length, { timeout: 5_000, interval: 2 }).toBe(1);
  return acks[0];
}

/** Once this browser has heard these, in this order, and nothing else. */
export const hears = async ({ names }: Browser, ...events: string[]): Promise<void> => {
  await expect.poll(() => names, { timeout: 5_000, interval: 2 }).toEqual(events);
};

/** These are everybody who is connected, as every instance knows. */
export async function present({ a, b }: Instances, ...browsers: Browser[]): Promise<void> {
  const all = browsers.map(({ peer }) => peer.ref.connection).sort();
  for (const { presence } of [a.cluster, b.cluster]) {
    const known = async () => {
      const users = [...new Set(browsers.map(({ peer }) => peer.user as UserId))];
      const sockets = await Promise.all(users.map((user) => presence.socketsOf(ns, user)));
      return sockets
        .flat()
        .map(({ connection }) => connection)
        .sort();
    };
    await expect.poll(known, { timeout: 5_000, interval: 5 }).toEqual(all);
  }
}

export async function absent({ a, b }: Pick<Instances, 'a' | 'b'>, user: string): Promise<void> {
  for (const { cluster } of [a, b]) {
    await expect
      .poll(() => cluster.presence.socketsOf(ns, user as UserId), { timeout: 5_000, interval: 5 })
      .toEqual([]);
  }
}

export const offer = { offer: { sdp: 'offer' } };
export const answer = { answer: { sdp: 'answer' } };

/** Alice on `a` and Bob on `b` in a call. */
export async function connected(two: Instances): Promise<{ readonly alice: Browser; readonly bob: Browser }> {
  const alice = two.a.connect('alice', 'alice-1');
  const bob = two.b.connect('bob', 'bob-1');
  await present(two, alice, bob);
  expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
  await hears(bob, 'call-offer');
  expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
  await hears(alice, 'call-answer');
  return { alice, bob };
}
