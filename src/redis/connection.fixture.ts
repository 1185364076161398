// A link to a Redis of its own for each test, and what is told of it; all is closed with the test. Knows no case.
import { randomUUID } from 'node:crypto';
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { connectRedis } from './connection.js';
import { redisPlace } from './place.js';
import { type Redis, RedisAway, type Script } from './redis.js';

/** Links and servers for the tests of a file. */
export function links() {
  const closing: (() => Promise<unknown> | undefined)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  return {
    /** Closed with the test, the last one first. */
    closing,
    async server(args: readonly string[] = []): Promise<RedisServer> {
      const started = await startRedis({ args });
      closing.push(() => started.close());
      return started;
    },
    async connect(url: string): Promise<Redis & Told> {
      const told: Told = { told: [], trips: [] };
      const redis = await connectRedis({
        place: redisPlace(url.split(',')),
        prefix: `test-${randomUUID()}`,
        signals: {
          redis: (well, why) => void told.told.push([well, why]),
          roundTrip: (name) => void told.trips.push(name),
        },
      });
      closing.push(() => redis.close());
      return Object.assign(redis, told);
    },
    async wire(port: number): Promise<Wire> {
      const made = await wireTo(port);
      closing.push(made.close);
      return made;
    },
  };
}

export interface Told {
  readonly told: [boolean, string][];
  readonly trips: string[];
}

export type Wire = Awaited<ReturnType<typeof wireTo>>;

export const turns = async (redis: Redis, well: boolean): Promise<void> => {
  if (redis.well() === well) return;
  await new Promise<void>((resolve) => {
    const stop = redis.onWell((now) => {
      if (now !== well) return;
      stop();
      resolve();
    });
  });
};

export const failure = (answer: Promise<unknown>): Promise<unknown> =>
  answer.then(
    (value) => Promise.reject(new Error(`it was answered: ${JSON.stringify(value)}`)),
    (error: unknown) => error,
  );
export const away = async (answer: Promise<unknown>): Promise<RedisAway> => {
  const error = await failure(answer);
  expect(error).toBeInstanceOf(RedisAway);
  return error as RedisAway;
};

export const add: Script = { name: 'add', lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" };

/** A wire to a server whose packets are counted and can be held, as when a network goes silent. */
async function wireTo(port: number) {
  let held = false;
  let packets = 0;
  let kept: (() => void)[] = [];
  const waiting: [number, () => void][] = [];
  const sockets = new Set<Socket>();
  const proxy: Server = createServer((browser) => {
    const server = connectTo(port, '127.0.0.1');
    for (const socket of [browser, server]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy()).on('close', () => sockets.delete(socket));
    }
    browser.on('data', (chunk: Buffer) => {
      packets += 1;
      for (const [count, resolve] of waiting) if (held && kept.length + 1 >= count) resolve();
      if (held) kept.push(() => server.write(chunk));
      else server.write(chunk);
    });
    server.on('data', (chunk: Buffer) => {
      if (!held) browser.write(chunk);
    });
    browser.on('close', () => server.destroy());
    server.on('close', () => browser.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const address = proxy.address();
  return {
    url: `redis://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    packets: () => packets,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => proxy.close(resolve));
    },
    hold: () => {
      held = true;
    },
    /** Resolves once so many packets are held. */
    arrives: (count: number) => new Promise<void>((resolve) => waiting.push([count, resolve])),
    release: () => {
      held = false;
      for (const send of kept) send();
      kept = [];
    },
    forget: () => {
      held = false;
      kept = [];
    },
  };
}
