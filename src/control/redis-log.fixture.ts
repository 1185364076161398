// Several instances' controls of the routes over one real Redis, with the messages between them in this process, where a test can
// lose them.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { systemClock } from '../base/clock.js';
import type { Address, InstanceId } from '../base/ids.js';
import type { Cluster, InstanceInfo, LivingInstance, Message } from '../cluster/cluster.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import type { Redis } from '../redis/redis.js';
import type { RouteVersion } from '../routing/change.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { RouteControl } from './control.js';
import { redisRouteLog } from './redis-log.js';
import { folder, open as opened } from './routes.fixture.js';
import { createRoutes } from './routes.js';

/** Who lives, and what they send one another; what is sent arrives in a later turn, in order. */
export function hub() {
  const members = new Map<string, { info: () => InstanceInfo; topics: Map<string, (body: unknown) => void> }>();
  const made = {
    /** Messages are lost while it is set. */
    deaf: false,
    sent: 0,
    leader: undefined as string | undefined,
    /** Dies without a word, and stays on the list until `bury`. */
    kill(name: string) {
      members.get(name)?.topics.clear();
    },
    bury(name: string) {
      members.delete(name);
    },
    join(name: string): Pick<Cluster, 'broker' | 'liveness'> {
      const topics = new Map<string, (body: unknown) => void>();
      const me = { info: (): InstanceInfo => ({}), topics };
      members.set(name, me);
      made.leader ??= name;
      const send = (to: string, { topic, body }: Message): void => {
        made.sent++;
        const text = JSON.stringify(body);
        if (!made.deaf) setImmediate(() => members.get(to)?.topics.get(topic)?.(JSON.parse(text)));
      };
      const living = (): LivingInstance[] =>
        [...members].map(([other, { info }]) => ({
          ...{ id: other as InstanceId, address: other as Address, self: other === name, leaseAgeMs: 0 },
          info: JSON.parse(JSON.stringify(info())),
        }));
      return {
        broker: {
          send,
          sendAll: (message) => {
            for (const other of members.keys()) if (other !== name) send(other, message);
          },
          on: (topic, listener) => void topics.set(topic, listener),
        },
        liveness: {
          ...{ address: name as Address, id: name as InstanceId },
          ...{ mayAct: () => true, well: () => true, leads: () => made.leader === name },
          living,
          isLiving: (address: Address) => members.has(address),
          isLivingId: (id: InstanceId) => members.has(id),
          describe(info: () => InstanceInfo) {
            me.info = info;
          },
          ...{ renew: async () => undefined, leave: async () => undefined },
          ...{ onDead: () => undefined, onFenced: () => undefined, onBack: () => undefined },
        } as Cluster['liveness'],
      };
    },
  };
  return made;
}

export interface Instance {
  readonly name: string;
  readonly routes: RouteControl;
  readonly redis: Redis;
  readonly liveness: Cluster['liveness'];
  told(what: string): readonly (readonly unknown[])[];
  close(): Promise<void>;
}

/** One server for a file of tests; each test has a prefix of its own. */
export function redisBed(args: readonly string[] = []) {
  let server: RedisServer;
  let prefix = randomUUID();
  let between = hub();
  const open: (() => Promise<unknown>)[] = [];
  beforeAll(async () => {
    server = await startRedis({ args });
  }, 60_000);
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
    prefix = randomUUID();
    between = hub();
  });
  afterAll(async () => {
    await server?.close();
  });
  return {
    get server() {
      return server;
    },
    get hub() {
      return between;
    },
    get key() {
      return `${prefix}:routes:{live}`;
    },
    /** What the log holds, oldest first. */
    async logged(): Promise<RouteVersion[]> {
      const entries = (await server.ask('XRANGE', `${prefix}:routes:{live}`, '-', '+')) as [string, string[]][];
      return entries.map(([, fields]) => JSON.parse(String(fields[3])) as RouteVersion);
    },
    async link(url = server.url): Promise<Redis> {
      const redis = await connectRedis({ place: redisPlace([url]), prefix });
      open.push(() => redis.close());
      return redis;
    },
    /** `through`: another address of the same server, a proxy that a test cuts. */
    async instance(name: string, { file, through }: { file?: string; through?: string } = {}): Promise<Instance> {
      const redis = await this.link(through);
      const cluster = between.join(name);
      const signals = recordedSignals();
      const log = redisRouteLog({ redis, cluster, clock: systemClock, signals });
      const routes = await createRoutes({ log, file, signals, clock: systemClock });
      open.push(() => routes.close());
      return {
        ...{ name, routes, redis, liveness: cluster.liveness },
        told: (what) => signals.events.filter((event) => event.what === what).map(({ args: told }) => told),
        close: () => routes.close(),
      };
    },
  };
}

/** A TCP proxy in front of the server: cut, or silent towards us, so that what was done is not answered. */
export async function cuttable(port: number) {
  const sockets = new Set<Socket>();
  let [cut, mute] = [false, false];
  const server: Server = createServer((near) => {
    if (cut) return void near.destroy();
    const far = connect(port, '127.0.0.1');
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.on('data', (data) => far.write(data));
    far.on('data', (data) => void (mute || near.write(data)));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  opened.push(() => server.close());
  const drop = () => {
    for (const socket of sockets) socket.destroy();
  };
  opened.push(drop);
  return {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    cut() {
      cut = true;
      drop();
    },
    mute() {
      mute = true;
    },
    mend() {
      [cut, mute] = [false, false];
      drop();
    },
  };
}

export const within = { timeout: 4_000, interval: 10 };
export const inForce = (instances: readonly Instance[]) => instances.map(({ routes }) => routes.current.version);
export const yaml = (percent: number) => `namespaces:\n  /:\n    calls: { mode: canary, percent: ${percent} }\n`;
/** A routes file of a folder of its own. */
export async function file(percent: number): Promise<string> {
  const path = join(await folder(), 'routes.yaml');
  await writeFile(path, yaml(percent));
  return path;
}
export const percent = ({ routes }: Instance) => routes.table.route('/', 'call-offer').canary?.percent;
