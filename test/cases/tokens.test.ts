// Who we can't verify is never served here: all of their events are the legacy's, and calls are whole there.
import { io, type ManagerOptions, type SocketOptions } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type Legacy, startLegacy } from '../../legacy-stub/server.js';
import {
  type Client,
  callsNew,
  clientOf,
  connect,
  type Proxy as RunningProxy,
  type Stack,
  startProxy,
  startStack,
  until,
} from '../harness.js';
import { hand } from './hand.js';
import { transports } from './tap.js';

const over = Object.keys(transports);

/** A whole call, and who of both saw what. */
async function call(a: Client, b: Client): Promise<void> {
  const conversationId = `dm:${a.user}:${b.user}`;
  expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
  expect(await b.next('call-offer')).toEqual({ conversationId, offer: 'o', fromUserId: a.user });
  await a.ask('ice-candidate', { conversationId, iceCandidate: 1 });
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([1]);
  await a.next('call-answer');
  expect(await b.ask('ice-candidate', { conversationId, iceCandidate: 2 })).toEqual({ ok: true });
  expect(await a.next('ice-candidate')).toBe(2);
  expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
  await a.next('call-ended');
  expect([...a.got, ...b.got].filter(({ event }) => event === 'error')).toEqual([]);
}

/** A client that brings its token where `options` say. */
async function opened(url: string, user: string, options: Partial<ManagerOptions & SocketOptions>): Promise<Client> {
  const socket = io(url, { forceNew: true, reconnection: false, ...options });
  const client = clientOf(socket, user);
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', reject);
  });
  return client;
}

const served = (proxy: RunningProxy) => proxy.metric('sigfig_events_decided_total', { path: 'new' });
const unverified = (proxy: RunningProxy) => proxy.metric('sigfig_events_decided_total', { because: 'unverified' });

describe('a token that only the legacy can verify', () => {
  let legacy: Legacy;
  let proxy: RunningProxy;
  beforeAll(async () => {
    legacy = await startLegacy({ jwtSecret: 'another secret than the proxy has, also long enough' });
    proxy = await startProxy(legacy.url, { routes: callsNew });
  });
  afterAll(async () => {
    await proxy.close();
    await legacy.close();
  });

  test.each(over)('all of its events go to the legacy, over %s', async (transport) => {
    const before = await unverified(proxy);
    const [a, b] = await Promise.all(
      ['a', 'b'].map((name) => connect(proxy.url, `foreign-${transport}-${name}`, transports[transport])),
    );
    await call(a!, b!);
    // The offer; what follows it is the legacy's because the call is.
    expect(await unverified(proxy)).toBe(before + 1);
    expect(await served(proxy)).toBe(0);
    expect(proxy.log()).not.toContain('eyJ');
    for (const client of [a!, b!]) client.close();
  });

  test('a token that nobody can verify is refused as direct, and nothing is served behind it', async () => {
    const shown = async (url: string, token: unknown) => {
      const one = await hand('websocket', url);
      await one.send(`40${JSON.stringify({ token })}`);
      const answers = [await one.next()];
      await one.send('421["call-offer",{"conversationId":"dm:a:b","offer":"o"}]');
      answers.push(await one.next());
      one.end();
      return answers;
    };
    const forged = `${legacy.tokens.issue({ id: 'a', name: 'a' }).slice(0, -4)}AAAA`;
    const expired = legacy.tokens.sign({ sub: 'a', name: 'a' }, -10_000);
    for (const token of [forged, expired, 'nonsense', '', 7, null, { token: 'x' }]) {
      expect(await shown(proxy.url, token)).toEqual(await shown(legacy.url, token));
    }
    expect(await served(proxy)).toBe(0);
  });
});

describe('one party that we can verify, and one that we can’t', () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ routes: callsNew });
  });
  afterAll(() => stack.close());

  /** The legacy finds the token in a cookie, where the proxy was not told to look. */
  const byCookie = async (user: string): Promise<Client> => {
    const token = stack.legacy.tokens.issue({ id: user, name: user });
    return opened(stack.proxy.url, user, {
      ...transports.websocket,
      extraHeaders: { cookie: `token=${token}` },
    });
  };

  test('who calls is not verified: the call is whole on the legacy', async () => {
    const a = await byCookie('half-a');
    const b = await connect(stack.proxy.url, 'half-b', transports.websocket);
    await call(a, b);
    expect(await served(stack.proxy)).toBe(0);
    for (const client of [a, b]) client.close();
  });

  test('who is called is not verified: the call is whole on the legacy', async () => {
    const a = await connect(stack.proxy.url, 'half-c', transports.websocket);
    const b = await byCookie('half-d');
    await call(a, b);
    expect(await stack.proxy.metric('sigfig_events_decided_total', { because: 'callee-not-here' })).toBe(1);
    expect(await served(stack.proxy)).toBe(0);
    for (const client of [a, b]) client.close();
  });
});

describe('a token that expires in mid-connection', () => {
  test('the next call is the legacy’s, the one that was served here stays whole', async () => {
    const stack = await startStack({ routes: callsNew, legacy: { tokenTtlMs: 4_000 } });
    const [a, b, c] = await Promise.all(
      ['exp-a', 'exp-b', 'exp-c'].map((user) => connect(stack.proxy.url, user, transports.websocket)),
    );
    const expired = Date.now() + 4_000;
    const conversationId = 'dm:exp-a:exp-b';
    expect(await a!.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
    await b!.next('call-offer');
    await until(() => Date.now() > expired, 'the tokens have expired');
    expect(await b!.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
    expect(await a!.next('call-answer')).toMatchObject({ answer: 'a' });
    await call(c!, b!);
    expect(await stack.proxy.metric('sigfig_events_decided_total', { because: 'token-expired' })).toBe(1);
    expect(await a!.ask('call-end', { conversationId })).toEqual({ ok: true });
    expect(await b!.next('call-ended')).toMatchObject({ reason: 'hangup' });
    for (const client of [a!, b!, c!]) client.close();
    await stack.close();
  });
});

describe('a token where --token-from says', () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({
      routes: callsNew,
      flags: { 'token-from': 'auth.token,query.token,cookie.token,header.authorization' },
    });
  });
  afterAll(() => stack.close());

  const places: [string, (token: string) => object][] = [
    ['auth', (token) => ({ auth: { token } })],
    ['query', (token) => ({ query: { token } })],
    ['cookie', (token) => ({ extraHeaders: { cookie: `a=b; token=${token}` } })],
  ];
  for (const transport of over) {
    test.each(places)(`in the %s is served, over ${transport}`, async (place, where) => {
      const before = await served(stack.proxy);
      const clients = await Promise.all(
        ['a', 'b'].map(async (name) => {
          const user = `from-${place}-${transport}-${name}`;
          const token = stack.legacy.tokens.issue({ id: user, name: user });
          return opened(stack.proxy.url, user, { ...transports[transport], ...where(token) });
        }),
      );
      await call(clients[0]!, clients[1]!);
      expect(await served(stack.proxy)).toBe(before + 5);
      for (const client of clients) client.close();
    });
  }
});

describe('a token in a header', () => {
  test.each(over)('is served, over %s', async (transport) => {
    const stack = await startStack({ routes: callsNew, flags: { 'token-from': 'header.authorization' } });
    const [a, b] = await Promise.all(
      ['a', 'b'].map(async (name) => {
        const user = `header-${transport}-${name}`;
        const token = stack.legacy.tokens.issue({ id: user, name: user });
        // The legacy itself finds it in a cookie.
        return opened(stack.proxy.url, user, {
          ...transports[transport],
          extraHeaders: { authorization: `Bearer ${token}`, cookie: `token=${token}` },
        });
      }),
    );
    await call(a!, b!);
    expect(await served(stack.proxy)).toBe(5);
    for (const client of [a!, b!]) client.close();
    await stack.close();
  });
});
