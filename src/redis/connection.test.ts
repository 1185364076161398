// The link to Redis in all the trouble that a Redis can have: what fails, how soon, whether it may have been executed all the same,
// and that it is back by itself.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect as connectTo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { findRedis } from '../../scripts/redis.mjs';
import { cert, key } from '../../test/bed/tls.js';
import { until } from '../../test/redis/cluster.js';
import { freePort } from '../../test/redis/port.js';
import { startSentinel } from '../../test/redis/sentinel.js';
import { launch, type RedisServer, startRedis } from '../../test/redis/server.js';
import { connectRedis } from './connection.js';
import { redisPlace } from './place.js';
import { type Redis, RedisAway, RedisRefused, type Script } from './redis.js';

const closing: (() => Promise<unknown> | undefined)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function server(args: readonly string[] = []): Promise<RedisServer> {
  const started = await startRedis({ args });
  closing.push(() => started.close());
  return started;
}

interface Told {
  readonly told: [boolean, string][];
  readonly trips: string[];
}

async function connect(url: string): Promise<Redis & Told> {
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
}

const turns = async (redis: Redis, well: boolean): Promise<void> => {
  if (redis.well() === well) return;
  await new Promise<void>((resolve) => {
    const stop = redis.onWell((now) => {
      if (now !== well) return;
      stop();
      resolve();
    });
  });
};

const failure = (answer: Promise<unknown>): Promise<unknown> =>
  answer.then(
    (value) => Promise.reject(new Error(`it was answered: ${JSON.stringify(value)}`)),
    (error: unknown) => error,
  );
const away = async (answer: Promise<unknown>): Promise<RedisAway> => {
  const error = await failure(answer);
  expect(error).toBeInstanceOf(RedisAway);
  return error as RedisAway;
};

const add: Script = { name: 'add', lua: "return redis.call('INCRBY', KEYS[1], ARGV[1])" };

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

  it('says why it can not be used without its password, and never the password', async () => {
    const one = await server(['--requirepass', 'geheim']);
    const without = await connect(one.url);
    expect(without.well()).toBe(false);
    expect((await away(without.call('PING'))).message).toMatch(/NOAUTH/);
    const wrong = await connect(one.url.replace('://', '://:falsch@'));
    expect((await away(wrong.call('PING'))).message).toMatch(/WRONGPASS/);
    const right = await connect(one.url.replace('://', '://:geheim@'));
    expect(await right.call('PING')).toBe('PONG');
    expect(JSON.stringify([without, wrong, right].map(({ shown }) => shown))).not.toMatch(/geheim|falsch/);
  });

  it('does not use database 0 in the place of one that is not there, and uses that one once it is', async () => {
    const one = await server(['--databases', '2']);
    const redis = await connect(`${one.url}/2`);
    expect(redis.well()).toBe(false);
    const started = performance.now();
    for (let i = 0; i < 3; i++) {
      const said = [
        await away(redis.call('SET', redis.key('k', 'a'), '1', 'PX', 10_000)),
        await away(redis.waiting('XREAD', 'BLOCK', 1, 'STREAMS', redis.key('s', 'a'), '$')),
      ];
      expect(said[0]).toMatchObject({ sent: false, message: expect.stringMatching(/it has no database 2 /) });
    }
    expect(performance.now() - started).toBeLessThan(5_000);
    expect(redis.told).toEqual([[false, expect.stringMatching(/it has no database 2 .*--redis-prefix/)]]);
    expect(await one.ask('DBSIZE')).toBe(0);
    const there = await connect(`${one.url}/1`);
    expect(await there.call('CLIENT', 'INFO')).toMatch(/ db=1 /);
  });

  it('is not reached as the user of a server that has none, says so, and no line that is not ours', async () => {
    const lines: unknown[] = [];
    const { warn } = console;
    console.warn = (...args: unknown[]) => void lines.push(args);
    closing.push(async () => {
      console.warn = warn;
    });
    const one = await server(['--user', 'u', 'on', '>geheim', '~*', '&*', '+@all', '-@admin', '-@dangerous']);
    const needless = await connect(one.url.replace('://', '://:geheim@'));
    expect(needless.told).toEqual([[true, 'answers, and asks for no password though one is given']]);
    const uninformed = await connect(one.url.replace('://', '://u:geheim@'));
    expect(uninformed.told).toEqual([[true, 'answers']]);
    await uninformed.waiting('XREAD', 'BLOCK', 1, 'STREAMS', uninformed.key('s', 'a'), '$');
    expect(lines).toEqual([]);
    console.warn('of others');
    expect(lines).toEqual([['of others']]);
  });

  it('is reached over TLS by whom its certificate is known to, as a user with no more rights than needed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sigfig-redis-tls-'));
    closing.push(() => rm(folder, { recursive: true, force: true }));
    const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
    await Promise.all([writeFile(certFile, cert), writeFile(keyFile, key)]);
    const port = await freePort();
    const tls = ['--tls-port', `${port}`, '--tls-cert-file', certFile, '--tls-key-file', keyFile];
    await server([
      ...tls,
      '--tls-ca-cert-file',
      certFile,
      '--tls-auth-clients',
      'no',
      '--user',
      'u',
      'on',
      '>geheim',
      '~x:*',
      '&*',
      '+@all',
      '-@admin',
      '-@dangerous',
      '+info',
    ]);
    const place = (url: string) => redisPlace([url.replace('PORT', `${port}`)]);
    const trusted = await connectRedis({ place: place('rediss://u:geheim@127.0.0.1:PORT/3'), prefix: 'x', ca: cert });
    closing.push(() => trusted.close());
    expect(await trusted.call('SET', trusted.key('k', 'a'), '1', 'PX', 1_000)).toBe('OK');
    expect(await trusted.call('CLIENT', 'INFO')).toMatch(/ db=3 .* user=u /);
    expect(await trusted.run(add, [trusted.key('n', 'a')], [2])).toBe(2);
    expect(await trusted.waiting('XREAD', 'BLOCK', 1, 'STREAMS', trusted.key('s', 'a'), '$')).toBeNull();
    expect(trusted.shown).toBe(`rediss://127.0.0.1:${port}/3`);
    const untrusted = await connectRedis({ place: place('rediss://u:geheim@127.0.0.1:PORT'), prefix: 'x' });
    closing.push(() => untrusted.close());
    expect((await away(untrusted.call('PING'))).message).toMatch(/self.signed certificate/);
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

describe('Sentinel', () => {
  it('is given the password of the server, whether it asks for one or not', async () => {
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
});

/** A wire to a server whose packets are counted and can be held, as when a network goes silent. */
async function wire(port: number) {
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
  closing.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => proxy.close(resolve));
  });
  const address = proxy.address();
  return {
    url: `redis://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    packets: () => packets,
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
