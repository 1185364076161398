// Whom a Redis lets in: passwords, users and their rights, databases, TLS; and what is said where it does not.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { cert, key } from '../../test/bed/tls.js';
import { freePort } from '../../test/redis/port.js';
import { add, away, links } from './connection.fixture.js';
import { connectRedis } from './connection.js';
import { redisPlace } from './place.js';

const { closing, server, connect } = links();

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
  // Six answers, none later than a command's second and what a busy machine adds; it waits for the database with none of them.
  expect(performance.now() - started).toBeLessThan(9_000);
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
