// The driver over every kind of Redis, and through what happens to each: a server that is killed or stopped, a slot of a Cluster that
// moves, a master that Sentinel replaces. Knows what must hold in each: nothing doubled, nobody found dead who lives.
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type RedisCluster, startRedisCluster } from '../../test/redis/cluster.js';
import { type RedisWithSentinels, startSentinel } from '../../test/redis/sentinel.js';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { Bed, type Instance, ns, proxyTo, until, user } from './cluster.fixture.js';

// A machine that runs other tests besides can make all of it several times slower.
vi.setConfig({ testTimeout: 60_000 });

const alice = user('alice');

/** Sends numbers until told to stop; answers how many. */
function sending(from: Instance, to: Instance): () => number {
  let sent = 0;
  const timer = setInterval(() => {
    for (let i = 0; i < 5; i++) from.cluster.broker.send(to.cluster.liveness.address, { topic: 't', body: sent++ });
  }, 5);
  return () => {
    clearInterval(timer);
    return sent;
  };
}

const numbers = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const mayAct = ({ cluster }: Instance): boolean => cluster.liveness.mayAct();

async function bed(url: string, run: (bed: Bed) => Promise<void>): Promise<void> {
  const made = new Bed(url);
  try {
    await run(made);
  } finally {
    await made.close();
  }
}

/** What has to work whatever the kind. */
async function works(all: readonly Instance[]): Promise<void> {
  const [a, b] = all as readonly [Instance, Instance];
  await until('one leads', () => all.filter(({ cluster }) => cluster.liveness.leads()).length === 1);
  const peer = a.connect('bob', 's9');
  const seen = async () => (await b.cluster.presence.socketsOf(ns, user('bob'))).length;
  await until('seen', async () => (await seen()) === 1);
  const from = b.got.length;
  for (const i of numbers(500)) a.cluster.broker.send(b.cluster.liveness.address, { topic: 't', body: i });
  await until('all there', () => b.got.length === from + 500);
  expect(b.got.slice(from)).toEqual(numbers(500));
  a.disconnect(peer);
  await until('gone', async () => (await seen()) === 0);
  await until('trimmed', async () => {
    const redis = b.link;
    return (await redis.call('XLEN', redis.key('stream', b.cluster.liveness.address))) === 0;
  });
}

describe('a single server', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.close());

  it('that is killed and comes back with its data loses no message, and nobody is dead', () =>
    bed(server.url, async (made) => {
      const all = await made.several(3);
      const [a, b] = all as [Instance, Instance];
      const stop = sending(a, b);
      await until('some there', () => b.got.length > 100);
      await server.kill();
      await until('noticed', () => !a.cluster.liveness.well());
      await until('none may act', () => !all.some(mayAct));
      await server.restart({ keepData: true });
      const back = performance.now();
      await until('all act', () => all.every(mayAct));
      expect(performance.now() - back).toBeLessThan(5_000);
      const sent = stop();
      await until('all there', () => b.got.length >= sent);
      expect(b.got).toEqual(numbers(sent));
      for (const { fenced, recovered, back: told } of all) {
        expect([fenced, recovered]).toEqual([[], []]);
        expect(new Set(told)).toEqual(new Set([false]));
      }
    }));

  it('that is stopped for longer than a lease makes nobody dead and doubles nothing', () =>
    bed(server.url, async (made) => {
      const all = await made.several(3);
      const [a, b] = all as [Instance, Instance];
      const peer = b.connect('alice', 's1');
      await until('seen', async () => (await a.cluster.presence.socketsOf(ns, alice)).length === 1);
      const stop = sending(a, b);
      await until('some there', () => b.got.length > 100);
      const frozen = performance.now();
      await server.freeze();
      b.disconnect(peer);
      await until('3.5 s are over', () => performance.now() - frozen > 3_500);
      expect(all.some(mayAct)).toBe(false);
      await server.thaw();
      await until('all act', () => all.every(mayAct));
      const sent = stop();
      await until('all there', () => b.got.length >= sent);
      expect(b.got).toEqual(numbers(sent));
      await until('gone', async () => (await a.cluster.presence.socketsOf(ns, alice)).length === 0);
      expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
    }));

  it('that is full lets nobody act and makes nobody dead, and all goes on once it has room', () =>
    bed(server.url, async (made) => {
      const all = await made.several(2);
      const [a, b] = all as [Instance, Instance];
      await server.ask('CONFIG', 'SET', 'maxmemory', '1');
      const peer = b.connect('alice', 's1');
      const stop = sending(a, b);
      await until('none may act', () => !all.some(mayAct));
      await server.ask('CONFIG', 'SET', 'maxmemory', '0');
      const back = performance.now();
      await until('all act', () => all.every(mayAct));
      await until('seen', async () => (await a.cluster.presence.socketsOf(ns, alice)).length === 1);
      expect(performance.now() - back).toBeLessThan(5_000);
      const sent = stop();
      await until('all there', () => b.got.length >= sent);
      expect(b.got).toEqual(numbers(sent));
      b.disconnect(peer);
      expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
    }));

  it('that is 100 ms away each way makes nobody dead, and no message waits for the answer to another', async () => {
    const far = await proxyTo(server.port, 100);
    try {
      await bed(far.url, async (made) => {
        const all = await made.several(2);
        const [a, b] = all as [Instance, Instance];
        const stop = sending(a, b);
        await until('some there', () => b.got.length > 100);
        const before = b.got.length;
        const started = performance.now();
        await until('2 s are over', () => performance.now() - started > 2_000);
        // Five are given each 5 ms; one round trip at a time would bring them in lumps, and still all of them.
        expect(b.got.length - before).toBeGreaterThan(200);
        const sent = stop();
        const last = performance.now();
        await until('all there', () => b.got.length >= sent);
        // There, and back to whoever waits for it: 200 ms; besides it may have just missed a read, 200 ms more.
        expect(performance.now() - last).toBeLessThan(1_500);
        expect(b.got).toEqual(numbers(sent));
        await until('all act', () => all.every(mayAct));
        expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
      });
    } finally {
      await far.close();
    }
  });

  it('that comes back without its data has all that live again, each as it was', () =>
    bed(server.url, async (made) => {
      const all = await made.several(3);
      const [a, b] = all as [Instance, Instance];
      b.connect('alice', 's1');
      const ids = all.map(({ cluster }) => cluster.liveness.id);
      await server.restart({ keepData: false });
      await until('told', () => all.every(({ back }) => back.includes(true)));
      await until('seen', async () => (await a.cluster.presence.socketsOf(ns, alice)).length === 1);
      await until('all known', () => all.every(({ cluster }) => cluster.liveness.living().length === 3));
      expect(all.map(({ cluster }) => cluster.liveness.id)).toEqual(ids);
      await works(all);
      expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
    }));
});

describe('a Redis Cluster', () => {
  let redis: RedisCluster;
  beforeAll(async () => {
    redis = await startRedisCluster({ masters: 3 });
  });
  afterAll(() => redis.close());

  it('works as one server does, and a dead instance is found', () =>
    bed(redis.url, async (made) => {
      const all = await made.several(3);
      await works(all);
      const [a, b, c] = all as [Instance, Instance, Instance];
      c.connect('carol', 's2');
      await until('seen', async () => (await a.cluster.presence.socketsOf(ns, user('carol'))).length === 1);
      await c.kill();
      await until('handled', () => a.recovered.length + b.recovered.length === 1);
      await until('gone', async () => (await a.cluster.presence.socketsOf(ns, user('carol'))).length === 0);
    }));

  it('may move the slots of leases and of a stream while messages are sent', () =>
    bed(redis.url, async (made) => {
      const all = await made.several(2);
      const [a, b] = all as [Instance, Instance];
      const stop = sending(a, b);
      await until('some there', () => b.got.length > 50);
      for (const key of [a.link.key('leases', 'live'), b.link.key('stream', b.cluster.liveness.address)]) {
        const owner = await redis.ownerOf(key);
        const other = redis.nodes.find((node) => node !== owner) as RedisServer;
        const before = b.got.length;
        await redis.move(key, other);
        await until('some more there', () => b.got.length > before + 50);
        await until('both act', () => all.every(mayAct));
      }
      await until('both act', () => all.every(mayAct));
      const sent = stop();
      await until('all there', () => b.got.length >= sent);
      expect(b.got).toEqual(numbers(sent));
      await works(all);
      expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
    }));
});

describe('a master that Sentinel replaces', () => {
  let redis: RedisWithSentinels;
  beforeAll(async () => {
    redis = await startSentinel();
  });
  afterAll(() => redis.close());

  it('is followed within 5 s of the new one being there, and nobody is dead', () =>
    bed(redis.url, async (made) => {
      const all = await made.several(2);
      const [a, b] = all as [Instance, Instance];
      await works(all);
      const from = b.got.length;
      const stop = sending(a, b);
      await until('some there', () => b.got.length > from + 50);
      const master = await redis.master();
      await master.kill();
      await until('another master', async () => (await redis.master()) !== master, 15_000);
      const there = performance.now();
      await until('both act', () => all.every(mayAct), 10_000);
      expect(performance.now() - there).toBeLessThan(5_000);
      const sent = stop();
      await until('the last is there', () => b.got.at(-1) === sent - 1);
      // What was not copied to the replica is lost with the master; nothing comes twice or out of order.
      const got = b.got.slice(from) as number[];
      expect(got).toEqual([...new Set(got)].sort((x, y) => x - y));
      expect(all.flatMap(({ fenced, recovered }) => [...fenced, ...recovered])).toEqual([]);
      await works(all);
    }));
});
