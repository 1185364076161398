// The cases of the proxy's front door once more, through the whole proxy as it is composed: with its admin port, metrics and
// log, and with calls that go on meanwhile.
import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dial, raw, rawLegacy } from '../bed/proxy-bed.js';
import { type Client, callsNew, connect, type Stack, startProxy, startStack, until, within } from '../harness.js';
import { ask, frame, Polling, upgradeRequest, Ws } from '../transparency/clients.js';
import { transports } from './tap.js';

const SOCKET = '/socket.io/?EIO=4&transport=websocket';
const POLL = '/socket.io/?EIO=4&transport=polling';

let stack: Stack;
let port: number;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew, legacy: { pingIntervalMs: 400, pingTimeoutMs: 4_000 } });
  port = Number(new URL(stack.proxy.url).port);
});
afterAll(() => stack.close());

const noFault = (log: string) => expect(log).not.toMatch(/internal error/i);

async function inCall(
  name: string,
  transport = 'websocket',
): Promise<{ a: Client; b: Client; conversationId: string }> {
  const [a, b] = await Promise.all([
    connect(stack.proxy.url, `${name}-a`, transports[transport]),
    connect(stack.proxy.url, `${name}-b`, transports[transport]),
  ]);
  const conversationId = `dm:${a.user}:${b.user}`;
  expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
  return { a, b, conversationId };
}

async function stillWhole({ a, b, conversationId }: Awaited<ReturnType<typeof inCall>>): Promise<void> {
  expect(await a.ask('ice-candidate', { conversationId, iceCandidate: { still: 'whole' } })).toEqual({ ok: true });
  expect(await b.next('ice-candidate')).toEqual({ still: 'whole' });
  expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
  expect(await a.next('call-ended')).toMatchObject({ reason: 'hangup' });
  for (const client of [a, b]) client.close();
}

test('first-request-is-ws: 101, and served at once', async () => {
  const fresh = await startProxy(stack.legacy.url, { routes: callsNew });
  const ws = await Ws.open(fresh.url);
  expect(await ws.next()).toMatch(/^0\{"sid"/);
  ws.socket.terminate();
  await fresh.close();
});

test('refused-upgrade-reset: the process lives, nothing is unhandled', async () => {
  let asked = 0;
  const legacy = await rawLegacy((socket) => {
    socket.once('data', () => {
      asked++;
      socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 100000\r\n\r\nno');
    });
  });
  const proxy = await startProxy(legacy.url, { routes: callsNew });
  for (const path of [SOCKET, '/elsewhere']) {
    for (let i = 0; i < 20; i++) {
      const browser = await dial(Number(new URL(proxy.url).port));
      browser.write(upgradeRequest(path));
      if (i % 2) await new Promise((resolve) => browser.once('data', resolve));
      browser.resetAndDestroy();
    }
  }
  await until(() => asked >= 20, 'the legacy has refused');
  await until(async () => (await proxy.metric('sigfig_connections')) === 0, 'nothing is connected');
  noFault(proxy.log());
  await proxy.close();
  legacy.close();
});

test('unknown-sid-upgrade: status and body as direct', async () => {
  const shown = async (base: string) => {
    const ws = await Ws.open(base, { query: '&sid=nope' });
    return [ws.headers, await ws.rest()];
  };
  expect(await shown(stack.proxy.url)).toEqual(await shown(stack.legacy.url));
});

test('plain-get-as-websocket: 400 with code 3, and the session is served on', async () => {
  const call = await inCall('plain-get', 'polling');
  const sid = call.a.socket.io.engine.id;
  const answer = await ask(stack.proxy.url, `${SOCKET}&sid=${sid}`);
  expect([answer.status, answer.text]).toEqual([400, '{"code":3,"message":"Bad request"}']);
  await stillWhole(call);
});

test('h2c: never tunnelled, a reset harms nobody', async () => {
  const call = await inCall('h2c');
  const request =
    'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n';
  expect(await raw(port, request)).toMatch(/^HTTP\/1.1 400 /);
  for (let i = 0; i < 10; i++) {
    const browser = await dial(port);
    browser.write(request);
    browser.resetAndDestroy();
  }
  await stillWhole(call);
  noFault(stack.proxy.log());
});

test('origin-scheme: Origin, Host and X-Forwarded-Proto reach the legacy unchanged, on polls and upgrades alike', async () => {
  const seen: unknown[] = [];
  const note = (_: unknown, request: { headers: Record<string, unknown> }) => {
    const { origin, host, 'x-forwarded-proto': proto } = request.headers;
    seen.push({ origin, host, proto });
  };
  stack.legacy.io.engine.on('initial_headers', note);
  const headers = { origin: 'https://shop.example', host: 'shop.example', 'x-forwarded-proto': 'https' };
  const polling = await Polling.open(stack.proxy.url, '', headers);
  const ws = await Ws.open(stack.proxy.url, { headers });
  const expected = { origin: 'https://shop.example', host: 'shop.example', proto: 'https' };
  expect(seen).toEqual([expected, expected]);
  stack.legacy.io.engine.off('initial_headers', note);
  ws.socket.terminate();
  await polling.post('1');
});

test.each(Object.keys(transports))(
  'idle-three-pings: a call idle for three ping periods is whole, over %s',
  async (name) => {
    const call = await inCall(`idle-${name}`, name);
    let pings = 0;
    call.a.socket.io.on('ping', () => pings++);
    await until(() => pings >= 3, 'three pings came');
    expect(call.a.socket.connected).toBe(true);
    await stillWhole(call);
  },
);

test('stalled-reader: what we put in for a browser that does not read is bounded, its call waits for it', {
  timeout: 40_000,
}, async () => {
  const user = 'stalled-a';
  const stalled = await dial(port);
  stalled.write(upgradeRequest(SOCKET));
  await new Promise((resolve) => stalled.once('data', resolve));
  stalled.write(frame(1, `40${JSON.stringify({ token: stack.legacy.tokens.issue({ id: user, name: user }) })}`));
  await new Promise((resolve) => stalled.once('data', resolve));
  const b = await connect(stack.proxy.url, 'stalled-b', transports.websocket);
  const other = await inCall('stalled-other');
  const conversationId = 'dm:stalled-a:stalled-b';
  expect(await b.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
  stalled.write(frame(1, `42["call-answer",{"conversationId":"${conversationId}","answer":"a"}]`));
  await b.next('call-answer');
  stalled.pause();
  const before = process.memoryUsage().arrayBuffers;
  let gone = false;
  b.socket.once('call-peer-disconnected', () => {
    gone = true;
  });
  const large = 'x'.repeat(90_000);
  for (let n = 0; n < 1_000 && !gone; n++) await b.ask('ice-candidate', { conversationId, iceCandidate: { n, large } });
  expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: user });
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(64 << 20);
  expect(await stack.proxy.metric('sigfig_bounds_reached_total', { what: 'inject-overflow' })).toBe(1);
  const back = await connect(stack.proxy.url, user, transports.websocket);
  expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
  expect(await b.next('call-rejoin-offer')).toMatchObject({ offer: 'again' });
  await stillWhole(other);
  stalled.destroy();
  for (const client of [b, back]) client.close();
});

test('connect-kill-1000: 200 of every kind leave nothing behind', { timeout: 60_000 }, async () => {
  const call = await inCall('kill');
  await until(async () => (await stack.proxy.metric('sigfig_connections')) === 2, 'only the call is connected');
  const before = readdirSync('/proc/self/fd').length;
  const token = stack.legacy.tokens.issue({ id: 'killer', name: 'killer' });
  const kinds: ((i: number) => Promise<void>)[] = [
    // A WebSocket: in mid-handshake, connected, or in the middle of a served event with attachments.
    async (i) => {
      const socket = await dial(port);
      socket.write(upgradeRequest(SOCKET));
      if (i % 3 > 0) {
        await new Promise((resolve) => socket.once('data', resolve));
        socket.write(frame(1, `40${JSON.stringify({ token })}`));
        await new Promise((resolve) => socket.once('data', resolve));
      }
      if (i % 3 > 1)
        socket.write(
          frame(1, '451-["call-offer",{"conversationId":"dm:killer:kill-a","offer":{"_placeholder":true,"num":0}}]'),
        );
      if (i % 2) socket.resetAndDestroy();
      else socket.end();
      socket.resume();
    },
    // Polling with a GET pending, that is abandoned.
    async () => {
      const polling = await Polling.open(stack.proxy.url);
      await polling.post(`40${JSON.stringify({ token })}`);
      await polling.packets(1);
      const get = await dial(port);
      get.write(`GET ${POLL}&sid=${polling.sid} HTTP/1.1\r\nHost: a\r\n\r\n`);
      get.end();
      get.resume();
      await polling.post('1');
    },
    // In the middle of an upgrade.
    async (i) => {
      const polling = await Polling.open(stack.proxy.url);
      await polling.post(`40${JSON.stringify({ token })}`);
      await polling.packets(1);
      const ws = await Ws.open(stack.proxy.url, { query: `&sid=${polling.sid}` });
      ws.send('2probe');
      await ws.next();
      if (i % 2) ws.send('5');
      ws.socket.terminate();
      if (i % 2 === 0) await polling.post('1');
    },
  ];
  for (let round = 0; round < 10; round++) {
    await within(20_000, 'a round is over', Promise.all(Array.from({ length: 20 }, (_, i) => kinds[i % 3]!(i))));
  }
  await until(async () => (await stack.proxy.metric('sigfig_connections')) === 2, 'only the call is connected', 20_000);
  await until(() => stack.legacy.io.of('/').sockets.size === 2, 'the legacy sees nobody else', 20_000);
  await until(() => readdirSync('/proc/self/fd').length <= before + 20, 'descriptors are back', 20_000);
  await stillWhole(call);
  noFault(stack.proxy.log());
});
