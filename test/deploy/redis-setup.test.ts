// What docs/scale-out.md says of setting Redis up: the rights of a user for sigfig alone are enough and none is missed, and the size that
// it says is the size that it has.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Client,
  callsNew,
  connect,
  type Stack,
  type Proxy as Started,
  startProxy,
  startStack,
  until,
} from '../harness.js';
import { type RedisServer, startRedis } from '../redis/server.js';
import { textOf } from './files.js';

const page = textOf('docs/scale-out.md');

let redis: RedisServer;
let stack: Stack;
let proxies: [Started, Started];
beforeAll(async () => {
  redis = await startRedis();
  const [, rights = '', keys = ''] = /A user for sigfig alone needs `([^`]+)` on `([^`]+)`/.exec(page) ?? [];
  expect(rights).not.toBe('');
  await redis.ask('ACL', 'SETUSER', 'sigfig', 'on', '>a-password', keys, ...rights.split(' '));
  await redis.ask('ACL', 'LOG', 'RESET');
  stack = await startStack();
  const url = redis.url.replace('redis://', 'redis://sigfig:a-password@');
  const start = (instance: string) =>
    startProxy(stack.legacy.url, { routes: callsNew, flags: { redis: [url], instance } });
  proxies = [await start('a'), await start('b')];
  await until(async () => (await proxies[0].metric('sigfig_instances')) === 2, 'both know of one another');
});
afterAll(async () => {
  for (const proxy of proxies ?? []) await proxy.close();
  await stack?.close();
  await redis?.close();
});

const conversation = (a: Client, b: Client) => `dm:${a.user}:${b.user}`;

/** What browsers really send: a description of some 4 KB on either side, and candidates. */
const description = { type: 'offer', sdp: 'a=rtpmap:111 opus/48000/2\r\n'.repeat(150) };

describe('Redis', () => {
  const here = async () => ((await redis.ask('KEYS', 'sigfig:presence:*')) as string[]).length;

  it('needs no more rights than the page says', async () => {
    const [a, b] = await Promise.all([connect(proxies[0].url, 'acl-a'), connect(proxies[1].url, 'acl-b')]);
    await until(async () => (await here()) === 2, 'both are told of');
    const conversationId = conversation(a, b);
    expect(await a.ask('call-offer', { conversationId, offer: description })).toEqual({ ok: true });
    await b.next('call-offer');
    await b.ask('call-answer', { conversationId, answer: description });
    await a.next('call-answer');
    await a.ask('ice-candidate', { conversationId, iceCandidate: 'c' });
    await b.next('ice-candidate');
    b.close();
    await a.next('call-peer-disconnected');
    await a.ask('call-end', { conversationId });
    const set = await fetch(`${proxies[0].adminUrl}/api/routes/set`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ target: 'calls', mode: 'canary', percent: 100, reason: 'rights' }),
    });
    expect(set.status, await set.text()).toBe(200);
    await until(
      async () =>
        (await proxies[1].metric('sigfig_routes_version')) === (await proxies[0].metric('sigfig_routes_version')),
      'both have it',
    );
    a.close();
    expect(await redis.ask('ACL', 'LOG')).toEqual([]);
    for (const proxy of proxies) expect(proxy.log()).not.toContain('a-password');
  });

  it('holds as much as the page says, whatever the size of descriptions', async () => {
    const said = (what: RegExp) => Number(what.exec(page)?.[1]?.replace(',', ''));
    const [ofCall, ofUser] = [
      said(/at most ([\d,]+) bytes for each live call/),
      said(/([\d,]+) bytes for each connected user/),
    ];
    /** Bytes of all keys of these kinds. */
    const held = async (...kinds: string[]) => {
      let sum = 0;
      for (const key of (await redis.ask('KEYS', '*')) as string[]) {
        if (kinds.includes(key.split(':')[1] as string)) sum += Number(await redis.ask('MEMORY', 'USAGE', key));
      }
      return sum;
    };
    const calls = 20;
    const pairs = await Promise.all(
      Array.from({ length: calls }, (_, i) =>
        Promise.all([connect(proxies[0].url, `size-${i}-a`), connect(proxies[1].url, `size-${i}-b`)]),
      ),
    );
    await until(async () => (await here()) === 2 * calls, 'all are told of');
    for (const [a, b] of pairs) {
      const conversationId = conversation(a, b);
      await a.ask('call-offer', { conversationId, offer: description });
      await b.next('call-offer');
      await b.ask('call-answer', { conversationId, answer: description });
      await a.next('call-answer');
    }
    const perCall = (await held('session', 'due', 'seats', 'awaiting', 'claim')) / calls;
    const perUser = (await held('presence', 'sockets')) / (2 * calls);
    expect(perCall).toBeLessThan(ofCall);
    expect(perUser).toBeLessThan(ofUser);
    // No overstatement either: somebody buys memory by it.
    expect(perCall).toBeGreaterThan(ofCall / 4);
    expect(perUser).toBeGreaterThan(ofUser / 4);
    for (const client of pairs.flat()) client.close();
  });
});
