// What operators write for a Redis, and that a password is never in what they are told about it.
import { describe, expect, it, test } from 'vitest';
import { NoRedisPlace, type RedisPlace, redisPlace, shownPlace } from './place.js';

const plain = { username: undefined, password: undefined, tls: false };
const node = (host: string, port = 6379) => ({ host, port });

describe('is read', () => {
  const cases: [string, RedisPlace][] = [
    ['redis://h', { ...plain, kind: 'single', nodes: [node('h')], db: 0 }],
    ['redis://h:1/', { ...plain, kind: 'single', nodes: [node('h', 1)], db: 0 }],
    ['redis://10.0.0.1:1/15', { ...plain, kind: 'single', nodes: [node('10.0.0.1', 1)], db: 15 }],
    ['redis://[::1]:1', { ...plain, kind: 'single', nodes: [node('::1', 1)], db: 0 }],
    ['rediss://u:p@h', { kind: 'single', nodes: [node('h')], db: 0, username: 'u', password: 'p', tls: true }],
    ['redis://:p%40%2F%2C@h', { ...plain, kind: 'single', nodes: [node('h')], db: 0, password: 'p@/,' }],
    ['redis://p@h', { ...plain, kind: 'single', nodes: [node('h')], db: 0, password: 'p' }],
    [
      'redis-sentinel://u:p@a,b:2/the%20master/3',
      {
        ...{ kind: 'sentinel', username: 'u', password: 'p', tls: false, master: 'the master', db: 3 },
        nodes: [node('a', 26_379), node('b', 2)],
      },
    ],
    ['rediss-cluster://a:1,b:2', { ...plain, kind: 'cluster', nodes: [node('a', 1), node('b', 2)], tls: true }],
  ];
  test.each(cases)('%s', (text, place) => {
    expect(redisPlace([text])).toEqual(place);
    // As a setting gives it, which may hold commas.
    expect(redisPlace(text.split(','))).toEqual(place);
  });
});

describe('is refused, and says what to write', () => {
  const cases: [string, string][] = [
    ['', 'is no address of a Redis'],
    ['http://h', 'is no address of a Redis'],
    ['redis:h', 'is no address of a Redis'],
    ['redis://', 'is no address of a Redis'],
    ['redis://h:0', 'no host:port'],
    ['redis://h:70000', 'no host:port'],
    ['redis://h:1:2', 'no host:port'],
    ['redis://h/x', 'database'],
    ['redis://h/1/2', 'no database'],
    ['redis://h?db=1', 'is no address'],
    ['redis://a,b', 'names several servers'],
    ['redis-sentinel://a', 'what the Sentinels call the master'],
    ['redis-sentinel://a/m/1/2', 'what the Sentinels call the master'],
    ['redis-cluster://a/1', 'a Redis Cluster has none of'],
    ['redis://:%zz@h', 'not percent-encoded'],
  ];
  test.each(cases)('%s', (text, message) => {
    expect(() => redisPlace([text])).toThrow(NoRedisPlace);
    expect(() => redisPlace([text])).toThrow(message);
  });
});

describe('never tells a password', () => {
  it.each([
    'redis://u:geheim@h',
    'redis://u:ge@heim@h',
    'redis://u:geheim/@h:1',
    'redis://u:geheim#@h',
    'redis://u:geheim?@h',
    'redis://u:geheim%@h',
    'redis://:geheim:6379',
    'redis://geheim/heim@h',
    'redis-sentinel://u:geheim@h',
    'redis-sentinel://u:geheim@h/m',
    'redis-cluster://u:geheim@h,,x',
  ])('%s', (text) => {
    let said: string;
    try {
      said = shownPlace(redisPlace([text]));
    } catch (error) {
      said = (error as Error).message;
    }
    expect(said).not.toMatch(/heim/);
  });
});

it('shows itself as it is written, without the password', () => {
  for (const text of ['redis://h:1', 'rediss://[::1]:1/2', 'redis-sentinel://a:1,b:2/m', 'redis-cluster://a:1,b:2'])
    expect(shownPlace(redisPlace([text.replace('://', '://u:p@')]))).toBe(text);
});
