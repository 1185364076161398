// The servers that other tests rely on: a restart keeps or loses the data as asked, a frozen one answers later.
import { afterEach, expect, it } from 'vitest';
import { startRedisCluster, until } from './cluster.js';
import { startSentinel } from './sentinel.js';
import { type RedisServer, startRedis } from './server.js';

let server: RedisServer | undefined;
afterEach(() => server?.close());

it('keeps what it answered over a kill, and comes back empty where that is asked', async () => {
  server = await startRedis();
  await server.ask('SET', 'a', '1');
  await server.restart({ keepData: true });
  expect(await server.ask('GET', 'a')).toBe('1');
  await server.stop();
  expect(server.pid).toBeUndefined();
  await server.restart({ keepData: true });
  expect(await server.ask('GET', 'a')).toBe('1');
  await server.restart({ keepData: false });
  expect(await server.ask('GET', 'a')).toBeNull();
});

it('answers nothing while it is frozen, and all of it afterwards', async () => {
  server = await startRedis({ args: ['--maxmemory', '8mb'] });
  expect(await server.ask('CONFIG', 'GET', 'maxmemory')).toEqual(['maxmemory', String(8 * 1024 * 1024)]);
  await server.freeze();
  let answered = false;
  const answer = server.ask('PING').then((text) => {
    answered = true;
    return text;
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(answered).toBe(false);
  await server.thaw();
  expect(await answer).toBe('PONG');
});

it('runs many at once, each on a port of its own', async () => {
  const servers = await Promise.all(Array.from({ length: 4 }, () => startRedis()));
  try {
    expect(new Set(servers.map(({ port }) => port)).size).toBe(4);
    await Promise.all(servers.map((each, i) => each.ask('SET', 'n', i)));
    expect(await Promise.all(servers.map((each) => each.ask('GET', 'n')))).toEqual(['0', '1', '2', '3']);
  } finally {
    await Promise.all(servers.map((each) => each.close()));
  }
});

it('runs a Cluster, and moves a slot with what it holds', async () => {
  const cluster = await startRedisCluster();
  try {
    const key = 'a:{b}';
    const from = await cluster.ownerOf(key);
    await from.ask('SET', key, '1');
    const to = cluster.nodes.find((node) => node !== from) as RedisServer;
    await cluster.move(key, to);
    expect(await cluster.ownerOf(key)).toBe(to);
    expect(await to.ask('GET', key)).toBe('1');
    await expect(from.ask('GET', key)).rejects.toThrow(/MOVED/);
  } finally {
    await cluster.close();
  }
});

it('runs Sentinels that replace a master that was killed', async () => {
  const watched = await startSentinel();
  try {
    const before = await watched.master();
    await before.ask('SET', 'a', '1');
    await before.ask('WAIT', 1, 1_000);
    await before.kill();
    await until(async () => (await watched.master()) !== before);
    const after = await watched.master();
    await until(async () => ((await after.ask('ROLE')) as [string])[0] === 'master');
    expect(await after.ask('GET', 'a')).toBe('1');
  } finally {
    await watched.close();
  }
});
