// The link to a Redis Cluster: a slot that moves under it, a master that dies, one that is away for good.
import { randomUUID } from 'node:crypto';
import { afterEach, expect, it } from 'vitest';
import { type RedisCluster, startRedisCluster, until } from '../../test/redis/cluster.js';
import type { RedisServer } from '../../test/redis/server.js';
import { connectRedis } from './connection.js';
import { redisPlace } from './place.js';
import { type Redis, RedisAway, type Script } from './redis.js';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function start(replicas: number): Promise<{ cluster: RedisCluster; redis: Redis }> {
  const cluster = await startRedisCluster({ replicas });
  closing.push(() => cluster.close());
  const redis = await connectRedis({ place: redisPlace(cluster.url.split(',')), prefix: `test-${randomUUID()}` });
  closing.push(() => redis.close());
  return { cluster, redis };
}

const both: Script = {
  name: 'both',
  lua: "redis.call('INCR', KEYS[1]) return redis.call('INCR', KEYS[2])",
};
/** Of 32 tags, so that every master has some. */
const tags = Array.from({ length: 32 }, (_, i) => String(i));
const pair = (redis: Redis, tag: string): [string, string] => [redis.key('n', tag), redis.key('m', tag)];
const other = (cluster: RedisCluster, than: RedisServer): RedisServer =>
  cluster.nodes.slice(0, 3).find((node) => node !== than) as RedisServer;

it('serves every slot from the beginning, and does not lose a script over a slot that moves', async () => {
  const { cluster, redis } = await start(0);
  expect(redis.ordered).toBe(false);
  expect(await Promise.all(tags.map((tag) => redis.run(both, pair(redis, tag), [])))).toEqual(tags.map(() => 1));

  const [first, second] = pair(redis, '7');
  await redis.run(both, [first, second], []);
  const from = await cluster.ownerOf(first);
  const to = other(cluster, from);
  const move = await cluster.beginMove(first, to);
  // Both keys are still here; then one of them is there (TRYAGAIN), then both (ASK), then all know (MOVED).
  expect(await redis.run(both, [first, second], [])).toBe(3);
  expect(await move.migrate(1)).toBe(1);
  const halfway = redis.run(both, [first, second], []);
  await until(async () => String(await from.ask('INFO', 'errorstats')).includes('errorstat_TRYAGAIN'));
  expect(await move.migrate()).toBe(1);
  expect(await halfway).toBe(4);
  expect(await redis.run(both, [first, second], [])).toBe(5);
  await move.finish();
  expect(await redis.run(both, [first, second], [])).toBe(6);
  expect(await redis.call('GET', first)).toBe('6');
  expect(redis.well()).toBe(true);
});

it('goes on waiting where the slot of its stream has moved', async () => {
  const { cluster, redis } = await start(0);
  const key = redis.key('stream', 'a');
  await redis.call('XADD', key, '1-1', 'a', '1');
  const read = (from: string, ms: number) => redis.waiting('XREAD', 'BLOCK', ms, 'STREAMS', key, from);
  expect(await read('0', 10_000)).toEqual([[key, [['1-1', ['a', '1']]]]]);
  const waits = read('1-1', 5_000).catch((error: unknown) => error);
  const from = await cluster.ownerOf(key);
  await until(async () => String(await from.ask('INFO', 'clients')).includes('blocked_clients:1'));
  await cluster.move(key, other(cluster, from));
  await redis.call('XADD', key, '2-1', 'a', '2');
  const answer = await waits;
  if (answer instanceof Error) expect(answer).toBeInstanceOf(RedisAway);
  expect(await read('1-1', 1_000)).toEqual([[key, [['2-1', ['a', '2']]]]]);
});

it('is well again within 5 s of a failover, and meanwhile serves what the others have', async () => {
  const { cluster, redis } = await start(1);
  await Promise.all(tags.map((tag) => redis.run(both, pair(redis, tag), [])));
  const dying = await cluster.ownerOf(redis.key('n', '0'));
  const replica = cluster.nodes[3 + cluster.nodes.indexOf(dying)] as RedisServer;
  await dying.ask('WAIT', 1, 1_000);
  await dying.kill();
  const failed = await redis.run(both, pair(redis, '0'), []).catch((error: unknown) => error);
  expect(failed).toBeInstanceOf(RedisAway);
  await until(async () => ((await replica.ask('ROLE')) as [string])[0] === 'master');
  const started = performance.now();
  for (const tag of tags) {
    await until(() =>
      redis.run(both, pair(redis, tag), []).then(
        () => true,
        (error: unknown) => {
          expect(error).toBeInstanceOf(RedisAway);
          return false;
        },
      ),
    );
  }
  expect(performance.now() - started).toBeLessThan(5_000);
  await until(async () => redis.well());
});

it('tells that another server took over, also where nobody noticed', async () => {
  const { cluster, redis } = await start(1);
  const told: boolean[] = [];
  redis.onWell((well) => told.push(well));
  const master = await cluster.ownerOf(redis.key('n', '0'));
  const replica = cluster.nodes[3 + cluster.nodes.indexOf(master)] as RedisServer;
  await until(async () => {
    // Refused while the replica is not yet connected.
    await replica.ask('CLUSTER', 'FAILOVER').catch(() => undefined);
    return ((await replica.ask('ROLE')) as [string])[0] === 'master';
  });
  await until(async () => told.length > 0);
  expect(told[0]).toBe(true);
});

it('fails within a second what a frozen master has, and goes on with the others', async () => {
  const { cluster, redis } = await start(0);
  await Promise.all(tags.map((tag) => redis.run(both, pair(redis, tag), [])));
  const frozen = await cluster.ownerOf(redis.key('n', '0'));
  const owners = await Promise.all(tags.map((tag) => cluster.ownerOf(redis.key('n', tag))));
  await frozen.freeze();
  const started = performance.now();
  const answers = await Promise.allSettled(tags.map((tag) => redis.run(both, pair(redis, tag), [])));
  expect(performance.now() - started).toBeLessThan(1_700);
  expect(answers.map(({ status }) => status)).toEqual(
    owners.map((owner) => (owner === frozen ? 'rejected' : 'fulfilled')),
  );
  await frozen.thaw();
  await until(() => redis.run(both, pair(redis, '0'), []).then(Boolean, () => false));
});
