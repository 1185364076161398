// What operators are told of a Redis that can't be used: what it is in place of what they wrote, and what to write then.
import { describe, expect, it, test } from 'vitest';
import { causeOf } from './causes.js';
import { redisPlace } from './place.js';

const cause = (url: string, message: string, known = false): string =>
  causeOf(message, { place: redisPlace(url.split(',')), known });
const unreachable = (last: string, ms = 454): string =>
  `All sentinels are unreachable. Retrying from scratch after ${ms}ms. Last error: ${last}`;

describe('says what stands there and what to write', () => {
  test.each([
    ['redis://h/99', 'ERR DB index is out of range', /it has no database 99 .*--redis-prefix/],
    ['redis-sentinel://h/main/7', 'ERR DB index is out of range', /it has no database 7 /],
    ['redis://h', 'Protocol error, got "H" as reply type byte. Please report this.', /is no Redis; .* rediss /],
    ['rediss://h', 'read ECONNRESET', /begins with redis instead of rediss$/],
    ['redis://h', 'read ECONNRESET', /begins with rediss instead of redis$/],
    ['rediss://h', 'connect ETIMEDOUT', /^connect ETIMEDOUT; .*begins with redis instead/],
    ['rediss://h', '80BC:error:0A00010B:SSL routines:ssl3_get_record:wrong version number:x', /^TLS can not be begun/],
    ['redis-cluster://h', 'ERR This instance has cluster support disabled', /single server .* redis:\/\/HOST:PORT/],
    ['redis-cluster://h', 'None of startup nodes is available', /^no node of the Cluster answers/],
    ['redis://h', 'CLUSTERDOWN Hash slot not served', /node of a Redis Cluster; write redis-cluster:/],
    ['redis://h', 'MOVED 866 10.0.0.1:6379', /node of a Redis Cluster; write redis-cluster:/],
    ['redis://h', "ERR unknown command 'set', with args beginning with: 'x'", /is a Sentinel.*redis-sentinel:/],
    ['redis-sentinel://h/m', unreachable('ERR No such master with that name'), /know no master "m"/],
    ['redis-sentinel://h/m', unreachable('NOAUTH Authentication required.'), /ask for a password; write/],
    ['redis-sentinel://h/m', unreachable('WRONGPASS invalid username-password pair'), /not the one in the address/],
    ['redis-sentinel://h/m', unreachable("ERR unknown command 'sentinel'"), /it is no Sentinel; write redis:/],
    ['rediss-sentinel://h/m', unreachable('Command timed out'), /^no Sentinel answers; .*begins with redis instead/],
    ['redis-sentinel://h/m', unreachable('Connection is closed.'), /^no Sentinel answers$/],
    [
      'redis://h',
      "NOPERM this user has no permissions to run the 'set' command",
      /docs\/scale-out\.md has the ACL line/,
    ],
  ])('%s: %s', (url, message, said) => {
    expect(cause(url, message)).toMatch(said);
  });
});

it('is the same text each time, so that what says it again is held back', () => {
  const [one, other] = [1, 454].map((ms) => cause('redis-sentinel://h/m', unreachable('connect ECONNREFUSED', ms)));
  expect(one).toBe(other);
});

it('suspects nothing of an address that has been reached', () => {
  expect(cause('redis://h', 'read ECONNRESET', true)).toBe('read ECONNRESET');
  expect(cause('rediss://h', 'connect ETIMEDOUT', true)).toBe('connect ETIMEDOUT');
});

it('leaves as it is what says enough, in one line', () => {
  expect(cause('redis://h', 'connect ECONNREFUSED 127.0.0.1:1\nat x')).toBe('connect ECONNREFUSED 127.0.0.1:1');
  expect(cause('redis://h', 'OOM command not allowed')).toBe('OOM command not allowed');
});
