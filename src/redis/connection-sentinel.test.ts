// The link to a Redis that Sentinels watch: their passwords, and a failover under it.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { findRedis } from '../../scripts/redis.mjs';
import { until } from '../../test/redis/cluster.js';
import { freePort } from '../../test/redis/port.js';
import { startSentinel } from '../../test/redis/sentinel.js';
import { launch } from '../../test/redis/server.js';
import { add, away, links } from './connection.fixture.js';
import { RedisAway } from './redis.js';

const { closing, server, connect } = links();

it('gives Sentinels the password of the server, whether they ask for one or not', async () => {
  const one = await server(['--requirepass', 'geheim']);
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-sentinel-'));
  closing.push(() => rm(folder, { recursive: true, force: true }));
  const watch = async (name: string, more: readonly string[]): Promise<string> => {
    const at = await freePort();
    const file = join(folder, name);
    const lines = [`port ${at}`, 'bind 127.0.0.1', `dir ${folder}`, `sentinel monitor main 127.0.0.1 ${one.port} 1`];
    await writeFile(file, [...lines, 'sentinel auth-pass main geheim', ...more, ''].join('\n'));
    const child = await launch(findRedis() as string, at, [file, '--sentinel']);
    closing.push(async () => void child.kill('SIGKILL'));
    return `127.0.0.1:${at}`;
  };
  const open = await watch('open.conf', []);
  const asks = await watch('asks.conf', ['requirepass geheim']);
  for (const where of [open, asks]) {
    const redis = await connect(`redis-sentinel://:geheim@${where}/main`);
    expect(redis.told, where).toEqual([[true, 'answers']]);
    expect(await redis.call('PING')).toBe('PONG');
  }
  const without = await connect(`redis-sentinel://${asks}/main`);
  expect((await away(without.call('PING'))).message).toMatch(/^the Sentinels ask for a password; write /);
  const unknown = await connect(`redis-sentinel://:geheim@${open}/other`);
  expect((await away(unknown.call('PING'))).message).toMatch(/^the Sentinels know no master "other"; /);
});

it('goes to the new master, whether the old one became a replica or hangs', async () => {
  const watched = await startSentinel({ replicas: 2 });
  closing.push(() => watched.close());
  const redis = await connect(watched.url);
  const key = redis.key('n', 'a');
  const serves = async (): Promise<number> => {
    const started = performance.now();
    await until(async () => {
      const answer = redis.run(add, [key], [1]);
      return answer.then(
        () => true,
        (error: unknown) => {
          expect(error).toBeInstanceOf(RedisAway);
          return false;
        },
      );
    });
    return performance.now() - started;
  };
  await serves();

  const first = await watched.master();
  const second = await watched.failover();
  // As the Sentinels do some seconds later: connections stay open, writes are refused.
  await first.ask('REPLICAOF', '127.0.0.1', second.port);
  expect(await serves()).toBeLessThan(5_000);
  expect(Number(await second.ask('GET', key))).toBeGreaterThanOrEqual(1);

  await second.freeze();
  await until(async () => (await watched.master()) !== second);
  expect(await serves()).toBeLessThan(5_000);
  expect(redis.shown).toBe(watched.url);
});
