// Several instances in one process over one real Redis, for tests: each has its own connection, sockets and monotonic clock, and its
// connection can be stopped as a stopped process would be, cut, or made to lose its answers. Knows no call.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { RedisServer } from '../../test/redis/server.js';
import type { Clock } from '../base/clock.js';
import type { ConnectionNumber, InstanceId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import { type Redis, RedisAway } from '../redis/redis.js';
import { recordedSignals } from '../telemetry/signals.js';
import { redisCluster, type SharedCluster } from './redis.js';

export const ns = '/' as Namespace;
export const user = (name: string): UserId => name as UserId;

export interface Instance {
  readonly cluster: SharedCluster;
  readonly link: Link;
  readonly signals: ReturnType<typeof recordedSignals>;
  readonly sockets: Sockets;
  /** What came on the topic `t`. */
  readonly got: unknown[];
  readonly fenced: (readonly [was: InstanceId, now: InstanceId])[];
  readonly back: boolean[];
  readonly recovered: InstanceId[];
  /** Moves this instance's monotonic clock forward. */
  skip(ms: number): void;
  connect(name: string, id: string, connection?: number): Peer;
  disconnect(peer: Peer): void;
  /** Like a kill: the lease runs out. */
  kill(): Promise<void>;
}

/** `late`: done, up to 300 ms later, behind what is asked meanwhile; no answer either. */
export type Fate = 'done' | 'not done' | 'no answer' | 'late';

/** What comes between an instance and its Redis. */
export interface Link extends Redis {
  /** As SIGSTOP: nothing is asked and no answer arrives until `thaw`. */
  freeze(): void;
  thaw(): void;
  /** Only what waits for messages waits, until `hear`. */
  deafen(): void;
  hear(): void;
  /** Nothing reaches Redis. */
  cut(): void;
  mend(): void;
  /** Of the next calls by that name, the answer is lost: they are executed, and fail. */
  loseAnswers(name: string, count: number): void;
  /** What becomes of the next calls by that name, one after the other. */
  fate(name: string, fates: readonly Fate[]): void;
  /** Resolves once all that is late has been done. */
  settled(): Promise<void>;
  /** Names of what could not be asked, since the last `cut`. */
  readonly failed: string[];
  /** Names of what was asked, with its bytes. */
  readonly asked: { readonly name: string; readonly bytes: number }[];
}

export class Bed {
  readonly prefix = `test-${randomUUID().slice(0, 8)}`;
  readonly #url: string;
  readonly #running: Instance[] = [];

  constructor(url: string) {
    this.#url = url;
  }

  async redis(url = this.#url): Promise<Redis> {
    return connectRedis({ place: redisPlace([url]), prefix: this.prefix });
  }

  /** `recover`: what handles a dead one here; it is noted once that is done. */
  async start(
    name = 'i',
    {
      url = this.#url,
      recover = async () => undefined,
      clock,
    }: { url?: string; clock?: Clock; recover?: (dead: InstanceId) => Promise<void> } = {},
  ): Promise<Instance> {
    const link = linkOf(await this.redis(url));
    const sockets = new Sockets();
    const signals = recordedSignals();
    let skipped = 0;
    const cluster = await redisCluster({
      redis: link,
      name,
      sockets,
      signals,
      ...(clock && { clock }),
      monotonic: () => performance.now() + skipped,
    });
    const instance: Instance = {
      cluster,
      link,
      signals,
      sockets,
      got: [],
      fenced: [],
      back: [],
      recovered: [],
      skip: (ms) => {
        skipped += ms;
      },
      connect(who, id, connection = 1) {
        const at = cluster.liveness.address;
        const ref: SocketRef = { ns, id: id as SocketId, connection: connection as ConnectionNumber, at };
        const peer: Peer = { ref, user: user(who), token: undefined };
        sockets.add(peer);
        cluster.presence.add(peer);
        return peer;
      },
      disconnect(peer) {
        sockets.remove(peer);
        cluster.presence.remove(peer);
      },
      async kill() {
        await cluster.close();
        await link.close();
      },
    };
    cluster.broker.on('t', (body) => instance.got.push(body));
    cluster.liveness.onFenced((was, now) => instance.fenced.push([was, now]));
    cluster.liveness.onBack((lost) => instance.back.push(lost));
    cluster.liveness.onDead(async (dead) => {
      await recover(dead);
      instance.recovered.push(dead);
    });
    this.#running.push(instance);
    return instance;
  }

  /** So many that know of one another. */
  async several(count: number): Promise<Instance[]> {
    const all: Instance[] = [];
    for (let i = 0; i < count; i++) all.push(await this.start(`i${i}`));
    await Promise.all(
      all.map(async ({ cluster }) => {
        // The first contact with a Redis Cluster may need a second try.
        await until('a lease', () => cluster.liveness.mayAct());
        await cluster.liveness.renew();
      }),
    );
    return all;
  }

  /** Removes its keys from a Redis that may be somebody's. */
  async forget(nodes: readonly RedisServer['ask'][]): Promise<void> {
    for (const ask of nodes) {
      for (let cursor = '0'; ; ) {
        const [next, keys] = (await ask('SCAN', cursor, 'MATCH', `${this.prefix}:*`, 'COUNT', 1_000)) as [
          string,
          string[],
        ];
        for (const key of keys) await ask('DEL', key);
        cursor = next;
        if (cursor === '0') break;
      }
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#running.map((instance) => instance.kill()));
  }
}

/** What a registry of connections would answer. */
export class Sockets {
  readonly #all = new Map<string, Peer>();

  add(peer: Peer): void {
    this.#all.set(keyOf(peer.ref), peer);
  }
  remove(peer: Peer): void {
    this.#all.delete(keyOf(peer.ref));
  }
  socketsOf(of: Namespace, who: UserId): readonly SocketRef[] {
    return [...this.#all.values()].filter((peer) => peer.user === who && peer.ref.ns === of).map(({ ref }) => ref);
  }
  isConnected(ref: SocketRef): boolean {
    return this.#all.has(keyOf(ref));
  }
}

const keyOf = (ref: SocketRef): string => `${ref.ns}\n${ref.id}\n${ref.connection}`;

function gate(shut = false): { readonly open: Promise<void> | undefined; end(): void } {
  let end = (): void => undefined;
  const open = shut
    ? new Promise<void>((resolve) => {
        end = resolve;
      })
    : undefined;
  return { open, end };
}

function linkOf(redis: Redis): Link {
  let frozen = gate();
  let deaf = gate();
  let away = false;
  const fates = new Map<string, Fate[]>();
  const late = new Set<Promise<unknown>>();
  const failed: string[] = [];
  const asked: { name: string; bytes: number }[] = [];
  const listeners = new Set<(well: boolean) => void>();
  redis.onWell((well) => {
    if (!away) for (const listener of listeners) listener(well);
  });

  async function through(name: string, args: readonly unknown[], ask: () => Promise<unknown>): Promise<unknown> {
    await frozen.open;
    if (away) {
      failed.push(name);
      throw new RedisAway('cut', false);
    }
    asked.push({ name, bytes: args.reduce<number>((sum, arg) => sum + String(arg).length, 0) });
    const fate = fates.get(name)?.shift() ?? 'done';
    if (fate === 'not done') throw new RedisAway('cut', false);
    if (fate === 'late') {
      const after = new Promise((resolve) => setTimeout(resolve, Math.random() * 300));
      const done = after.then(ask).finally(() => late.delete(done));
      late.add(done);
      throw new RedisAway('the answer was lost', true);
    }
    const answer = await ask();
    await frozen.open;
    if (away) throw new RedisAway('cut', true);
    if (fate === 'no answer') throw new RedisAway('the answer was lost', true);
    return answer;
  }

  return {
    shown: redis.shown,
    ordered: redis.ordered,
    key: redis.key,
    run: (script, keys, args) => through(script.name, [...keys, ...args], () => redis.run(script, keys, args)),
    call: (command, ...args) => through(command, args, () => redis.call(command, ...args)),
    waiting: (command, ...args) =>
      through(command, args, async () => {
        const answer = await redis.waiting(command, ...args);
        await deaf.open;
        return answer;
      }),
    well: () => !away && redis.well(),
    onWell(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    close: () => redis.close(),
    asked,
    failed,
    freeze() {
      frozen = gate(true);
    },
    thaw: () => frozen.end(),
    deafen() {
      deaf = gate(true);
    },
    hear: () => deaf.end(),
    cut() {
      away = true;
      failed.length = 0;
      for (const listener of listeners) listener(false);
    },
    mend() {
      away = false;
      for (const listener of listeners) listener(redis.well());
    },
    loseAnswers: (name, count) => void fates.set(name, Array<Fate>(count).fill('no answer')),
    fate: (name, next) => void fates.set(name, [...next]),
    async settled() {
      await Promise.all(late);
    },
  };
}

export interface Proxy {
  readonly url: string;
  /** Breaks every connection, in the middle of whatever is on its way; new ones are taken. */
  cut(): void;
  close(): Promise<void>;
}

/** Between an instance and Redis, as a network that breaks, or takes that many milliseconds each way. */
export async function proxyTo(port: number, ms = 0): Promise<Proxy> {
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      // One side that breaks breaks the other.
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
      if (ms === 0) socket.pipe(other);
      else socket.on('data', (chunk) => setTimeout(() => other.write(chunk), ms));
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `redis://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut,
    async close() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}

/** Awaits a condition; fails with `what` after `ms`. */
export async function until(what: string, holds: () => boolean | Promise<boolean>, ms = 15_000): Promise<void> {
  const end = performance.now() + ms;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
