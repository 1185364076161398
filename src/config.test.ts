import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { trusts } from './config/values.js';
import { type Config, type Flags, loadConfig } from './config.js';

const folder = mkdtempSync(join(tmpdir(), 'config-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const put = (name: string, content: string) => {
  const path = join(folder, name);
  writeFileSync(path, content);
  return path;
};
const secret = put('secret', 'not so secret\n');
const rsa = (bits: number) => generateKeyPairSync('rsa', { modulusLength: bits });
const pem = (key: { export(options: { type: 'spki'; format: 'pem' }): string | Buffer }) =>
  key.export({ type: 'spki', format: 'pem' }).toString();
const NEEDED: Flags = { legacy: 'http://127.0.0.1:3000', 'jwt-secret-file': secret };

const loaded = (flags: Flags = {}, env: Record<string, string> = {}): Config => {
  const result = loadConfig({ ...NEEDED, ...flags }, env);
  if (!result.ok) throw new Error(result.problems.join('\n'));
  return result.config;
};
const problems = (flags: Flags, env: Record<string, string> = {}): readonly string[] => {
  const result = loadConfig({ ...NEEDED, ...flags }, env);
  return result.ok ? [] : result.problems;
};

describe('what comes out', () => {
  test('the defaults, typed, with what is needed', () => {
    expect(loaded()).toEqual({
      listen: { host: '127.0.0.1', port: 8080 },
      legacy: ['http://127.0.0.1:3000'],
      legacyCa: undefined,
      legacyTimeoutMs: 30_000,
      routes: undefined,
      admin: { host: '127.0.0.1', port: 9900 },
      metrics: { host: '127.0.0.1', port: 9464, path: '/metrics' },
      socketPath: '/socket.io/',
      tokenKey: { kind: 'secret', secret: Buffer.from('not so secret\n') },
      tokenFrom: [{ from: 'auth', name: 'token' }],
      userClaim: 'sub',
      membership: { kind: 'ticket', ticketUrl: '/api/calls/ticket', ticketsUrl: '/api/calls/tickets' },
      redis: undefined,
      instance: expect.stringMatching(/^[\w.-]{1,63}$/),
      rejoinTimeoutMs: 60_000,
      reapIntervalMs: 15_000,
      drainDelayMs: 5_000,
      drainMs: 10_000,
      trustProxy: true,
      tls: undefined,
      logLevel: 'info',
    });
  });

  test('a Redis that instances share, from one text or several', () => {
    const place = { username: undefined, password: undefined, tls: false };
    expect(loaded({ redis: 'redis://r:1/2', instance: 'sigfig-1' })).toMatchObject({
      redis: {
        place: { ...place, kind: 'single', nodes: [{ host: 'r', port: 1 }], db: 2 },
        ca: undefined,
        prefix: 'sigfig',
      },
      instance: 'sigfig-1',
    });
    const nodes = [
      { host: 'a', port: 1 },
      { host: 'b', port: 6379 },
    ];
    const cluster = { ...place, kind: 'cluster', nodes };
    for (const redis of [
      'redis-cluster://a:1,b',
      ['redis-cluster://a:1', 'b'],
      ['redis-cluster://a:1', 'redis-cluster://b'],
    ])
      expect(loaded({ redis, 'redis-prefix': 'eu:sigfig' }).redis).toMatchObject({
        place: cluster,
        prefix: 'eu:sigfig',
      });
    expect(loaded({}, { SIGFIG_REDIS: 'rediss://:p%40ss@r' }).redis?.place).toMatchObject({
      password: 'p@ss',
      tls: true,
    });
  });

  test('is frozen all the way down', () => {
    const config = loaded();
    expect(Object.isFrozen(config)).toBe(true);
    expect(Object.isFrozen(config.listen)).toBe(true);
    expect(Object.isFrozen(config.membership)).toBe(true);
    expect(Object.isFrozen(config.tokenFrom[0])).toBe(true);
  });

  test('flags win over the environment, that over the file, that over the defaults', () => {
    const config = put('order.yaml', 'listen: 127.0.0.1:1\nadmin: 127.0.0.1:2\nmetrics: 127.0.0.1:3\n');
    const env = { SIGFIG_LISTEN: '127.0.0.1:11', SIGFIG_ADMIN: '127.0.0.1:12' };
    const result = loaded({ config, listen: '127.0.0.1:21' }, env);
    expect([result.listen.port, result.admin.port, result.metrics.port]).toEqual([21, 12, 3]);
    expect(result.rejoinTimeoutMs).toBe(60_000);
  });

  test('everything can come from the environment, the config file too', () => {
    const config = put('env.yaml', `legacy: [http://a:1, http://b:2]\njwt-secret-file: ${secret}\ndrain: 0\n`);
    const result = loadConfig({}, { SIGFIG_CONFIG: config, SIGFIG_LOG_LEVEL: 'debug', SIGFIG_DRAIN_DELAY: '500ms' });
    expect(result).toMatchObject({
      ok: true,
      config: { legacy: ['http://a:1', 'http://b:2'], logLevel: 'debug', drainMs: 0, drainDelayMs: 500 },
    });
  });

  test('what Kubernetes sets for a service called sigfig is left alone', () => {
    const env = { SIGFIG_SERVICE_HOST: '10.0.0.1', SIGFIG_PORT: 'tcp://10.0.0.1:8080' };
    expect(problems({}, env)).toEqual([]);
  });

  test('lists are repeated or hold commas', () => {
    const config = loaded(
      { legacy: ['http://a:1', 'https://b'], 'token-from': 'auth.token, header.Authorization' },
      { SIGFIG_TRUST_PROXY: 'loopback,10.0.0.0/8' },
    );
    expect(config.legacy).toEqual(['http://a:1', 'https://b']);
    expect(config.tokenFrom).toEqual([
      { from: 'auth', name: 'token' },
      { from: 'header', name: 'authorization' },
    ]);
    expect(config.trustProxy).toEqual(['127.0.0.0/8', '::1/128', '10.0.0.0/8']);
  });

  test('files named in the config file are relative to it', () => {
    mkdirSync(join(folder, 'sub'));
    put('sub/key', 'secret of the sub folder');
    const config = put('sub/sigfig.yaml', 'legacy: http://a:1\njwt-secret-file: key\nroutes: key\n');
    expect(loadConfig({ config }, {})).toMatchObject({ ok: true, config: { routes: join(folder, 'sub/key') } });
  });

  test('addresses, durations and paths', () => {
    const config = loaded({ listen: '[::1]:0', metrics: '0.0.0.0:1', 'socket-path': '/rt', 'rejoin-timeout': '1.5m' });
    expect(config.listen).toEqual({ host: '::1', port: 0 });
    expect(config.metrics).toEqual({ host: '0.0.0.0', port: 1, path: '/metrics' });
    expect(config.socketPath).toBe('/rt/');
    expect(config.rejoinTimeoutMs).toBe(90_000);
  });

  test('membership by an endpoint of the legacy instead of tickets', () => {
    const url = '/api/conversations/{conversationId}';
    const token = put('service-token', ' abc \n');
    expect(loaded({ 'membership-url': url, 'membership-token-file': token }).membership).toEqual({
      kind: 'rest',
      url,
      participants: '/participants/*/id',
      token: 'abc',
      cacheMs: 60_000,
    });
    expect(loaded({ 'tickets-url': 'none' }).membership).toMatchObject({ ticketsUrl: null });
  });

  test('a public key or a JWKS in place of the secret', () => {
    const key = rsa(2048).publicKey;
    const none = { 'jwt-secret-file': undefined };
    const file = put('public.pem', pem(key));
    expect(loaded({ ...none, 'jwt-public-key-file': file }).tokenKey).toMatchObject({ kind: 'public-key' });
    const set = put('jwks.json', JSON.stringify({ keys: [key.export({ format: 'jwk' })] }));
    expect(loaded({ ...none, jwks: set }).tokenKey).toEqual({ kind: 'jwks', at: set });
    const url = 'https://issuer.example/jwks.json';
    expect(loaded({ ...none, jwks: url }).tokenKey).toEqual({ kind: 'jwks', at: url });
  });

  test('whom to trust', () => {
    expect(loaded({ 'trust-proxy': true }).trustProxy).toBe(true);
    expect(loaded({ 'trust-proxy': 'false' }).trustProxy).toBe(false);
    const trust = trusts(['127.0.0.0/8', '::1/128', '10.0.0.0/8']);
    expect(['127.0.0.1', '::ffff:10.1.2.3', '::1'].map(trust)).toEqual([true, true, true]);
    expect(['11.0.0.1', '::2', undefined, ''].map(trust)).toEqual([false, false, false, false]);
    expect(trusts(false)('127.0.0.1')).toBe(false);
  });
});

describe('what is wrong is one line each, saying what to do', () => {
  const empty = put('empty', '\n');
  const weak = put('weak.pem', pem(rsa(1024).publicKey));
  const privateKey = put('private.pem', rsa(2048).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString());
  const none = { 'jwt-secret-file': undefined };
  const cases: [Flags, string][] = [
    [{ listen: '8080' }, '--listen: "8080" is no address; write host:port, such as 127.0.0.1:8080'],
    [{ listen: '127.0.0.1:99999' }, '--listen: "127.0.0.1:99999" is no address'],
    [{ listen: '::1:80' }, '--listen: "::1:80" is no address'],
    [{ listen: ['127.0.0.1:1', '127.0.0.1:2'] }, '--listen: is given more than once; give it once'],
    [{ legacy: undefined }, '--legacy: not given; write where the legacy backend is'],
    [{ legacy: 'ws://a' }, '--legacy: "ws://a" is no http or https URL; write http://127.0.0.1:3000'],
    [{ legacy: 'http://a/api' }, '--legacy: "http://a/api" has a path; write http://a'],
    [{ legacy: 'http://user:pw@a' }, '--legacy: a URL here takes no user or password'],
    [{ legacy: 'http://a,,http://b' }, '--legacy: has no value'],
    [{ 'rejoin-timeout': '60' }, '--rejoin-timeout: "60" is no duration; write a number with ms, s, m or h'],
    [{ 'rejoin-timeout': '0s' }, '--rejoin-timeout: 0 is too short'],
    [{ drain: '48h' }, '--drain: "48h" is too long; write at most 24h'],
    [{ routes: join(folder, 'gone') }, `--routes: can't read ${join(folder, 'gone')} (ENOENT); name a file`],
    [{ 'legacy-ca': empty }, `--legacy-ca: ${empty} is empty; put its content there`],
    [{ 'legacy-ca': secret }, `--legacy-ca: ${secret} is no list of certificates (-----BEGIN CERTIFICATE-----); give`],
    [{ 'socket-path': 'socket.io' }, '--socket-path: "socket.io" is no path; write /socket.io/'],
    [{ 'token-from': 'body.token' }, '--token-from: "body.token" is no place of a token; write auth.NAME'],
    [{ 'trust-proxy': '10.0.0.0/64' }, '--trust-proxy: "10.0.0.0/64" is no range of addresses; write true, loopback'],
    [{ 'log-level': 'loud' }, '--log-level: "loud" is unknown; write one of trace, debug, info'],
    [{ metrics: '127.0.0.1:1/a?b' }, '--metrics: "127.0.0.1:1/a?b" has no plain path'],
    [{ ...none }, '--jwt-secret-file: no key is given to verify tokens with; give exactly one of'],
    [{ jwks: 'https://a/b' }, '--jwt-secret-file: --jwt-secret-file and --jwks are given; give exactly one of'],
    [{ 'jwt-secret-file': empty }, `--jwt-secret-file: ${empty} is empty`],
    [{ 'jwt-secret-file': weak }, '--jwt-secret-file: '],
    [{ ...none, 'jwt-public-key-file': weak }, '--jwt-public-key-file: '],
    [{ ...none, 'jwt-public-key-file': privateKey }, '--jwt-public-key-file: '],
    [{ ...none, 'jwt-public-key-file': secret }, '--jwt-public-key-file: '],
    [{ ...none, jwks: secret }, '--jwks: '],
    [{ 'tls-cert': weak }, '--tls-key: not given; --tls-cert and --tls-key go together'],
    [{ 'tls-cert': weak, 'tls-key': weak }, '--tls-cert: does not go with --tls-key'],
    [{ 'membership-url': '/api/x' }, '--membership-url: "/api/x" does not say where the conversation goes'],
    [{ 'membership-url': 'http://{conversationId}/' }, '--membership-url: '],
    [{ 'membership-url': '/a/../{conversationId}' }, '--membership-url: "/a/../{conversationId}" would not be sent as'],
    [
      { 'membership-url': 'http://a/ö/{conversationId}' },
      '--membership-url: "http://a/ö/{conversationId}" would not be',
    ],
    [
      { 'membership-url': '/{conversationId}', 'membership-token-file': secret },
      `--membership-token-file: ${secret} holds more than one word; put the token alone there`,
    ],
    [{ redis: 'localhost:6379' }, '--redis: is no address of a Redis; write redis://HOST:PORT, redis-sentinel://'],
    [{ redis: 'redis://a,b' }, '--redis: names several servers; write redis-sentinel:// or redis-cluster://'],
    [{ redis: 'redis://a', 'redis-prefix': 'a{b}' }, '--redis-prefix: "a{b}" is no prefix; write up to 64 letters'],
    [{ 'redis-prefix': 'a' }, '--redis-prefix: does nothing without --redis'],
    [{ instance: 'a' }, '--instance: does nothing without --redis; give that too or remove this'],
    [{ redis: 'redis://a', 'routes-log': '/l' }, '--routes-log: does nothing with --redis, where instances keep'],
    [{ redis: 'rediss://a', 'redis-ca': secret }, `--redis-ca: ${secret} is no list of certificates`],
    [{ redis: 'redis://a', instance: 'a b' }, '--instance: "a b" is no name; write up to 63 letters'],
    [{ 'membership-cache': '1s' }, '--membership-cache: does nothing without --membership-url'],
    [
      { 'membership-url': '/c/{conversationId}', 'ticket-url': '/t' },
      '--ticket-url: does nothing with --membership-url',
    ],
    [{ config: join(folder, 'gone.yaml') }, `--config: can't read ${join(folder, 'gone.yaml')} (ENOENT)`],
  ];
  test.each(cases)('%j', (flags, start) => {
    const found = problems(flags);
    expect(found).toHaveLength(1);
    expect(found[0]).toContain(start);
    expect(found[0]).toMatch(/^[^\n]+; [^\n]+$/);
  });

  test('a line names where the value came from', () => {
    expect(problems({}, { SIGFIG_LISTEN: 'x' })[0]).toMatch(/^SIGFIG_LISTEN: "x" is no address/);
    const config = put('wrong.yaml', '# comment\nlisten: x\n');
    expect(problems({ config })[0]).toMatch(new RegExp(`^${config}:2: listen: "x" is no address`));
  });

  test('a config file with unknown or misshapen settings, or none at all', () => {
    const config = put('unknown.yaml', 'lisen: 127.0.0.1:1\nadmin: { host: a }\n--drain: 1s\n');
    const found = problems({ config });
    expect(found).toContainEqual(`${config}:2: admin: neither a value nor a list of values; write "NAME: VALUE"`);
    expect(found).toContainEqual(expect.stringContaining(`${config}:1: lisen: no such setting; `));
    expect(found).toContainEqual(expect.stringContaining(`${config}:3: --drain: no such setting; `));
    expect(problems({ config: put('list.yaml', '- a') })[0]).toContain('list.yaml:1: not a map of settings; write');
    expect(problems({ config: put('bad.yaml', 'a: [') })[0]).toContain('bad.yaml:1: not valid YAML');
    expect(problems({ config: put('nothing.yaml', '# all defaults\n') })).toEqual([]);
    const meant = put('meant.yaml', 'lisen: 127.0.0.1:1\nlegacy: http://127.0.0.1:2\njwks: https://a/b\n');
    const lines = loadConfig({ config: meant }, {});
    expect(lines.ok ? [] : lines.problems, 'not that what stands in it is missing').toHaveLength(1);
  });

  test('all of them at once, and never a secret', () => {
    const found = problems({ listen: 'x', admin: 'y', 'jwt-secret-file': put('pem-secret', pem(rsa(2048).publicKey)) });
    expect(found).toHaveLength(3);
    expect(found.join()).not.toContain('BEGIN');
  });
});
