// The link to Redis in all the trouble that a Redis can have: what fails, how soon, whether it may have been executed all the same,
// and that it is back by itself.
import { describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import { add, away, failure, links, turns } from './connection.fixture.js';
import { RedisAway, RedisRefused, type Script } from './redis.js';

const { server, connect, wire } = links();

describe('while all is well', () => {
  it('runs commands and scripts, and tells each round trip by its name', async () => {
    const redis = await connect((await server()).url);
    expect(redis.well()).toBe(true);
    expect(redis.shown).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
    const key = redis.key('n', 'a');
    expect(await redis.run(add, [key], [2])).toBe(2);
    expect(await redis.run(add, [key], ['3'])).toBe(5);
    expect(await redis.call('GET', key)).toBe('5');
    expect(redis.trips).toEqual(['add', 'add', 'get']);
    expect(redis.told).toEqual([[true, 'answers']]);
  });

  it('sends a script once, and again where Redis has forgotten it', async () => {
    const one = await server();
    const redis = await connect(one.url);
    const key = redis.key('n', 'a');
    await redis.run(add, [key], [1]);
    await redis.run(add, [key], [1]);
    const calls = async (): Promise<string> => String(await one.ask('INFO', 'commandstats'));
    expect(await calls()).toMatch(/cmdstat_eval:calls=1,/);
    expect(await calls()).toMatch(/cmdstat_evalsha:calls=1,/);
    await one.ask('SCRIPT', 'FLUSH');
    expect(await redis.run(add, [key], [1])).toBe(3);
  });

  it('executes in the order of asking, also a script that Redis does not have yet', async () => {
    const redis = await connect((await server()).url);
    expect(redis.ordered).toBe(true);
    const key = redis.key('list', 'a');
    const push: Script = { name: 'push', lua: "return redis.call('RPUSH', KEYS[1], ARGV[1])" };
    await Promise.all(
      Array.from({ length: 50 }, (_, i) => (i % 3 ? redis.run(push, [key], [i]) : redis.call('RPUSH', key, i))),
    );
    expect(await redis.call('LRANGE', key, 0, -1)).toEqual(Array.from({ length: 50 }, (_, i) => String(i)));
  });

  it('puts what is asked in one turn of the event loop into one packet', async () => {
    const one = await server();
    const cut = await wire(one.port);
    const redis = await connect(cut.url);
    await redis.call('PING');
    const before = cut.packets();
    await Promise.all(Array.from({ length: 100 }, (_, i) => redis.call('SET', redis.key('k', `${i}`), i, 'PX', 1_000)));
    expect(cut.packets() - before).toBe(1);
  });

  it('does not hold a command back until an earlier one is answered', async () => {
    const one = await server();
    const cut = await wire(one.port);
    const redis = await connect(cut.url);
    await redis.call('PING');
    cut.hold();
    const first = redis.call('PING');
    await new Promise((resolve) => setImmediate(resolve));
    const second = redis.call('PING');
    await cut.arrives(2);
    cut.release();
    expect(await Promise.all([first, second])).toEqual(['PONG', 'PONG']);
  });

  it('waits at the server on a connection of its own', async () => {
    const one = await server();
    const redis = await connect(one.url);
    const key = redis.key('stream', 'a');
    const read = redis.waiting('XREAD', 'BLOCK', 10_000, 'STREAMS', key, '$');
    await until(async () => String(await one.ask('INFO', 'clients')).includes('blocked_clients:1'));
    expect(await redis.call('PING')).toBe('PONG');
    await redis.call('XADD', key, '*', 'a', '1');
    expect(await read).toEqual([[key, [[expect.any(String), ['a', '1']]]]]);
    expect(await redis.waiting('XREAD', 'BLOCK', 1, 'STREAMS', key, '$')).toBeNull();
  });

  it('tells a key of another type from a Redis that is away', async () => {
    const redis = await connect((await server()).url);
    const key = redis.key('n', 'a');
    await redis.call('LPUSH', key, 'x');
    for (const refused of [redis.call('GET', key), redis.run(add, [key], [1])]) {
      const error = await failure(refused);
      expect(error).toBeInstanceOf(RedisRefused);
      expect((error as Error).message).toMatch(/WRONGTYPE/);
    }
    const unknown = await failure(redis.call('NOSUCH', 'a secret'));
    expect(unknown).toBeInstanceOf(RedisRefused);
    expect((unknown as Error).message).not.toContain('secret');
    expect(redis.well()).toBe(true);
  });
});

describe('away', () => {
  it('is there within a second although Redis is not, and uses it as soon as it is', async () => {
    const one = await server();
    await one.kill();
    const started = performance.now();
    const redis = await connect(one.url);
    expect(performance.now() - started).toBeLessThan(1_500);
    expect(redis.well()).toBe(false);
    expect((await away(redis.call('PING'))).sent).toBe(false);
    await one.restart({ keepData: true });
    await turns(redis, true);
    expect(await redis.call('PING')).toBe('PONG');
    expect(redis.told.map(([well]) => well)).toEqual([false, true]);
    expect(redis.told[0]?.[1]).toMatch(/ECONNREFUSED/);
  });

  it('fails at once what was asked, and what is asked then, when Redis is killed; and is back by itself', async () => {
    const one = await server();
    const redis = await connect(one.url);
    await one.freeze();
    const asked = away(redis.call('SET', redis.key('k', 'a'), '1'));
    await new Promise((resolve) => setImmediate(resolve));
    await one.kill();
    expect((await asked).sent).toBe(true);
    const started = performance.now();
    expect((await away(redis.call('PING'))).sent).toBe(false);
    expect(performance.now() - started).toBeLessThan(100);
    await one.restart({ keepData: true });
    const back = performance.now();
    await turns(redis, true);
    expect(performance.now() - back).toBeLessThan(2_000);
    expect(await redis.call('PING')).toBe('PONG');
    expect(redis.trips).not.toHaveLength(0);
  });

  it('gives a frozen Redis a second, and does not execute later what it was not given', async () => {
    const one = await server();
    const redis = await connect(one.url);
    const key = redis.key('n', 'a');
    await redis.run(add, [key], [1]);
    await one.freeze();
    const started = performance.now();
    expect((await away(redis.run(add, [key], [10]))).sent).toBe(true);
    expect(performance.now() - started).toBeGreaterThan(900);
    expect(performance.now() - started).toBeLessThan(1_700);
    expect((await away(redis.run(add, [key], [100]))).sent).toBe(false);
    await one.thaw();
    await turns(redis, true);
    // The one that was sent may have been executed; the other never.
    expect(['1', '11']).toContain(await redis.call('GET', key));
  });

  it('is not taken for away by a process that was itself held up', async () => {
    const redis = await connect((await server()).url);
    await redis.call('PING');
    const answer = redis.call('PING');
    const waits = redis.waiting('XREAD', 'BLOCK', 1, 'STREAMS', redis.key('s', 'a'), '$');
    await until(async () => redis.told.length > 0);
    const over = performance.now() + 2_700;
    while (performance.now() < over);
    expect(await answer).toBe('PONG');
    expect(await waits).toBeNull();
    // And of what was asked just before it, too.
    const more = Array.from({ length: 20 }, () => redis.call('PING'));
    await new Promise((resolve) => setImmediate(resolve));
    for (const until = performance.now() + 1_700; performance.now() < until; );
    expect(new Set(await Promise.all(more))).toEqual(new Set(['PONG']));
    expect(redis.told).toEqual([[true, 'answers']]);
  });

  it('bounds what waits for its answer', async () => {
    const one = await server();
    const redis = await connect(one.url);
    await one.freeze();
    const mega = 'x'.repeat(1024 * 1024);
    const answers = await Promise.allSettled(Array.from({ length: 100 }, () => redis.call('ECHO', mega)));
    const refused = answers.filter(
      (answer) => answer.status === 'rejected' && answer.reason instanceof RedisAway && !answer.reason.sent,
    );
    expect(refused.length).toBeGreaterThanOrEqual(100 - 64);
    await one.thaw();
    await turns(redis, true);
  });

  it('finds half a connection within 3 s, the waiting one too', async () => {
    const one = await server();
    const cut = await wire(one.port);
    const redis = await connect(cut.url);
    const key = redis.key('stream', 'a');
    const read = failure(redis.waiting('XREAD', 'BLOCK', 300, 'STREAMS', key, '$'));
    await until(async () => String(await one.ask('INFO', 'clients')).includes('blocked_clients:1'));
    // Nothing arrives any more, and nobody says so.
    cut.hold();
    const started = performance.now();
    await away(redis.call('PING'));
    expect(await read).toBeInstanceOf(RedisAway);
    expect(performance.now() - started).toBeLessThan(3_000);
    cut.forget();
    await turns(redis, true);
    expect(await redis.call('PING')).toBe('PONG');
    expect(await redis.waiting('XREAD', 'BLOCK', 1, 'STREAMS', key, '$')).toBeNull();
  });

  it('says that it is away while it is full, which nothing was executed of, and is back once it is not', async () => {
    const one = await server(['--maxmemory', '3mb', '--maxmemory-policy', 'noeviction']);
    const redis = await connect(one.url);
    const key = redis.key('n', 'a');
    await redis.run(add, [key], [1]);
    await one.ask('CONFIG', 'SET', 'maxmemory', 1);
    expect(await away(redis.run(add, [key], [1]))).toMatchObject({
      sent: false,
      message: expect.stringMatching(/^OOM/),
    });
    expect(redis.well()).toBe(false);
    await one.ask('CONFIG', 'SET', 'maxmemory', 0);
    await turns(redis, true);
    expect(await redis.run(add, [key], [1])).toBe(2);
  });

  it('tells each change once', async () => {
    const one = await server();
    const heard: boolean[] = [];
    const redis = await connect(one.url);
    redis.onWell((well) => heard.push(well));
    for (let i = 0; i < 2; i++) {
      await one.kill();
      await turns(redis, false);
      await one.restart({ keepData: true });
      await turns(redis, true);
    }
    expect(heard).toEqual([false, true, false, true]);
  });
});
