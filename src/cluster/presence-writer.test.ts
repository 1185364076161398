// What presence does with time: everything is written again before it expires. Over one real Redis, with a clock that is moved by hand.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { manualClock } from '../base/clock.js';
import { Bed, ns, until, user } from './cluster.fixture.js';
import { TTL } from './presence-scripts.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

it('is written again several times before it expires, a few users at a time', async () => {
  const bed = new Bed(server.url);
  const clock = manualClock();
  const a = await bed.start('a', { clock });
  const b = await bed.start('b');
  for (let i = 0; i < 100; i++) a.connect(`user${i}`, `u${i}`);
  await until('seen', async () => (await b.cluster.presence.socketsOf(ns, user('user99'))).length === 1);
  const keys = (await server.ask('KEYS', `${bed.prefix}:presence:*`)) as string[];
  expect(keys).toHaveLength(100);
  // As if most of their time were over; two of them have expired already.
  for (const key of keys) await server.ask('PEXPIRE', key, 100_000);
  await server.ask('DEL', keys[0] as string, keys[1] as string);

  const written = (): number => a.link.asked.filter(({ name }) => name === 'presence').length;
  const fresh = async (): Promise<number> => {
    const left = await Promise.all(keys.map((key) => server.ask('PTTL', key)));
    return left.filter((ms) => Number(ms) > TTL / 2).length;
  };
  const before = written();
  // A hundred users in a quarter of an hour: one each nine seconds.
  clock.advance(10_000);
  await until('one written', () => written() === before + 1);
  for (let seconds = 0; seconds < TTL / 4 / 1_000; seconds += 10) clock.advance(10_000);
  await until('all are fresh', async () => (await fresh()) === 100);
  expect(written() - before).toBeLessThan(110);
  expect(await b.cluster.presence.socketsOf(ns, user('user0'))).toHaveLength(1);
  await bed.close();
});
