// What goes wrong in production, with the built commands as processes: the legacy killed, frozen and restarted, browsers gone
// without a word, readers that stall, connections opened and killed by the thousand.
import { type Socket as TcpSocket, connect as tcp } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type Client, callsNew, connect, login, metric, until, within } from '../harness.js';
import { descriptors, type Processes, processes, resident } from '../processes.js';

let all: Processes;
beforeEach(async () => {
  all = await processes();
});
afterEach(() => all.close());

const websocket = { transports: ['websocket'] };
const polling = { transports: ['polling'] };
const reconnecting = { reconnection: true, reconnectionDelay: 50, reconnectionDelayMax: 200 };

/** Two users in a call that the new path serves. */
async function inCall(
  base: string,
  name: string,
  options: object,
): Promise<{ a: Client; b: Client; conversationId: string }> {
  const [a, b] = await Promise.all([connect(base, `${name}-a`, options), connect(base, `${name}-b`, options)]);
  const conversationId = `dm:${name}-a:${name}-b`;
  expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true });
  await b.next('call-offer');
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
  return { a, b, conversationId };
}

/** Browsers on both transports that ask the legacy something without a pause, whatever becomes of it. */
async function load(base: string, browsers: number): Promise<{ answered(): number; stop(): Promise<void> }> {
  const clients = await Promise.all(
    Array.from({ length: browsers }, (_, i) =>
      connect(base, `load-${i}`, { ...(i % 2 ? websocket : polling), ...reconnecting }),
    ),
  );
  let going = true;
  let answered = 0;
  const asking = clients.map(async ({ socket }) => {
    while (going) {
      await socket
        .timeout(500)
        .emitWithAck('whoami')
        .then(
          () => answered++,
          () => undefined,
        );
    }
  });
  return {
    answered: () => answered,
    async stop() {
      going = false;
      await Promise.all(asking);
      for (const client of clients) {
        client.socket.io.reconnection(false);
        client.close();
      }
    },
  };
}

describe('the legacy', () => {
  it('is killed and restarted under load and live calls: every call waits for both its users and is rejoined', async () => {
    const legacy = await all.legacy();
    const port = new URL(legacy.url).port;
    const proxy = await all.proxy(legacy.url, callsNew);
    const others = await load(proxy.url, 40);
    const calls = await Promise.all(
      Array.from({ length: 10 }, (_, i) =>
        inCall(proxy.url, `k${i}`, { ...(i % 2 ? websocket : polling), ...reconnecting }),
      ),
    );
    const back = calls.flatMap(({ a, b }) =>
      [a, b].map(({ socket }) =>
        within(20_000, 'a browser is back', new Promise<void>((resolve) => socket.io.on('reconnect', () => resolve()))),
      ),
    );
    await legacy.kill();
    await until(
      async () => (await metric(proxy.metrics, 'sigfig_calls', { state: 'AWAITING_REJOIN' })) === 10,
      'all calls wait',
    );
    await all.legacy(['--listen', `127.0.0.1:${port}`]);
    await Promise.all(back);
    for (const { a, b, conversationId } of calls) {
      expect(await a.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
      expect(await b.next('call-rejoin-offer')).toEqual({ conversationId, offer: 'again', fromUserId: a.user });
      expect(await b.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
      expect(await a.next('call-rejoin-answer')).toEqual({ conversationId, answer: 'back', fromUserId: b.user });
      expect([...a.got, ...b.got].filter(({ event }) => event === 'call-ended')).toEqual([]);
      for (const { socket } of [a, b]) socket.io.reconnection(false);
      a.close();
      b.close();
    }
    const before = others.answered();
    await until(() => others.answered() > before + 200, 'the others are answered again', 20_000);
    await others.stop();
    expect(proxy.stderr()).not.toMatch(/internal error/i);
  }, 60_000);

  it('is frozen under load: a served event is still served, a first offer is refused within 2 s, and all goes on when it thaws', async () => {
    const legacy = await all.legacy();
    const proxy = await all.proxy(legacy.url, callsNew);
    const others = await load(proxy.url, 40);
    const { a, b, conversationId } = await inCall(proxy.url, 'f', websocket);
    const c = await connect(proxy.url, 'f-c', websocket);
    legacy.signal('SIGSTOP');
    const started = Date.now();
    expect(await c.ask('call-offer', { conversationId: 'dm:f-b:f-c', offer: 'o' })).toEqual({
      ok: false,
      error: 'Signaling is unavailable, try again',
    });
    expect(Date.now() - started).toBeLessThan(2_000);
    a.socket.emit('ice-candidate', { conversationId, iceCandidate: 'c' });
    expect(await b.next('ice-candidate')).toBe('c');
    legacy.signal('SIGCONT');
    expect(await c.ask('call-offer', { conversationId: 'dm:f-b:f-c', offer: 'o' })).toEqual({ ok: true });
    const before = others.answered();
    await until(() => others.answered() > before + 200, 'the others are answered again', 20_000);
    await others.stop();
    for (const client of [a, b, c]) client.close();
  }, 60_000);

  it('is away: plain requests get 502 with a short JSON body, upgrades and handshakes too, and it comes back by itself', async () => {
    const legacy = await all.legacy();
    const port = new URL(legacy.url).port;
    const proxy = await all.proxy(legacy.url, callsNew);
    await legacy.kill();
    for (const path of ['/api/me', '/socket.io/?EIO=4&transport=polling']) {
      const response = await fetch(`${proxy.url}${path}`);
      expect(response.status).toBe(502);
      expect(await response.json()).toHaveProperty('error');
    }
    const refused = new WebSocket(`${proxy.url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`);
    const status = await new Promise((resolve) => {
      refused.on('unexpected-response', (_request, response) => resolve(response.statusCode));
      refused.on('error', () => undefined);
    });
    expect(status).toBe(502);
    await until(async () => (await fetch(`${proxy.admin}/readyz`)).status === 503, 'the proxy is not ready');
    await all.legacy(['--listen', `127.0.0.1:${port}`]);
    await until(async () => (await fetch(`${proxy.admin}/readyz`)).status === 200, 'the proxy is ready again');
    const client = await connect(proxy.url, 'again', websocket);
    client.close();
  });
});

/** A raw WebSocket client that never answers a ping, once it is told to go silent. */
function rawUpgrade(base: string, path: string): Promise<TcpSocket> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = tcp(Number(port), hostname, () => {
      socket.write(
        `GET ${path} HTTP/1.1\r\nHost: ${hostname}:${port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
          'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
    });
    socket.once('data', () => resolve(socket));
    socket.on('error', reject);
  });
}

describe('browsers', () => {
  const dropped: [string, (client: Client) => void][] = [
    ['a close frame', ({ socket }) => void socket.disconnect()],
    ['FIN', ({ socket }) => rawOf(socket).end()],
    ['RST', ({ socket }) => rawOf(socket).resetAndDestroy()],
  ];
  for (const [how, drop] of dropped) {
    it(`that go away by ${how} are noticed at once`, async () => {
      const legacy = await all.legacy();
      const proxy = await all.proxy(legacy.url, callsNew);
      const { a, b, conversationId } = await inCall(proxy.url, 'd', websocket);
      const started = Date.now();
      drop(a);
      expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
      expect(Date.now() - started).toBeLessThan(1_000);
      b.close();
    });
  }

  it('that vanish without a word are noticed by the legacy’s own heartbeat, over both transports', async () => {
    const legacy = await all.legacy(['--ping-interval', '300ms', '--ping-timeout', '300ms']);
    const proxy = await all.proxy(legacy.url, callsNew);
    for (const transport of ['websocket', 'polling']) {
      const { a, b, conversationId } = await inCall(proxy.url, `v-${transport}`, { transports: [transport] });
      const manager = a.socket.io as unknown as {
        engine: { transport: { doPoll?: () => void; onPacket: () => void } };
      };
      // From now on it neither answers pings nor polls, and its connection stays open.
      manager.engine.transport.onPacket = () => undefined;
      if (transport === 'polling') manager.engine.transport.doPoll = () => undefined;
      expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
      b.close();
      a.socket.io.engine.close();
    }
  });

  it('that stall while the legacy pushes 200 MB: memory stays bounded, others see nothing of it', async () => {
    const legacy = await all.legacy(['--ping-interval', '5m']);
    const proxy = await all.proxy(legacy.url, callsNew);
    const token = await login(proxy.url, 'stalled');
    const stalled = await rawUpgrade(proxy.url, '/socket.io/?EIO=4&transport=websocket');
    stalled.on('error', () => undefined);
    stalled.write(frame(`40${JSON.stringify({ token })}`));
    await new Promise<void>((resolve) => {
      stalled.on('data', (chunk) => {
        if (chunk.includes('40{"sid"')) resolve();
      });
    });
    const { a, b, conversationId } = await inCall(proxy.url, 's', websocket);
    const before = resident(proxy.pid);
    stalled.pause();
    stalled.write(frame('42["flood",{"bytes":200000000,"chunk":1000000}]'));
    for (let i = 0; i < 50; i++) {
      a.socket.emit('ice-candidate', { conversationId, iceCandidate: i });
      expect(await b.next('ice-candidate')).toBe(i);
      expect(await b.ask('whoami')).toMatchObject({ ok: true });
    }
    expect(resident(proxy.pid) - before).toBeLessThan(64_000_000);
    // Once it reads again it gets everything, and the proxy still holds no more than a little of it at a time.
    let bytes = 0;
    stalled.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
    stalled.resume();
    await until(() => bytes > 200_000_000, 'the reader has caught up', 60_000);
    expect(resident(proxy.pid) - before).toBeLessThan(96_000_000);
    stalled.destroy();
    for (const client of [a, b]) client.close();
  }, 90_000);

  it('connect-kill: 2,000 connections opened and killed leave no descriptor, session or heap behind', async () => {
    // A poll may be aborted before it was sent: then only the heartbeat tells, as direct.
    const legacy = await all.legacy(['--ping-interval', '1s', '--ping-timeout', '1s']);
    const proxy = await all.proxy(legacy.url, callsNew, [], ['--expose-gc']);
    const token = await login(proxy.url, 'killer');
    const warmUp = await connect(proxy.url, 'warm', websocket);
    warmUp.close();
    await until(async () => (await metric(proxy.metrics, 'sigfig_connections')) === 0, 'nothing is connected');
    const before = { descriptors: descriptors(proxy.pid), resident: resident(proxy.pid) };
    const round = async (i: number): Promise<void> => {
      if (i % 4 === 3) {
        const open = await fetch(`${proxy.url}/socket.io/?EIO=4&transport=polling`, {
          headers: { connection: 'close' },
        });
        const sid = (JSON.parse((await open.text()).slice(1)) as { sid: string }).sid;
        const aborted = new AbortController();
        const poll = fetch(`${proxy.url}/socket.io/?EIO=4&transport=polling&sid=${sid}`, {
          signal: aborted.signal,
        }).catch(() => undefined);
        if (i % 8 === 3) {
          const upgrading = await rawUpgrade(proxy.url, `/socket.io/?EIO=4&transport=websocket&sid=${sid}`);
          upgrading.write(frame('2probe'));
          upgrading.resetAndDestroy();
        }
        aborted.abort();
        await poll;
        return;
      }
      const socket = await rawUpgrade(proxy.url, '/socket.io/?EIO=4&transport=websocket');
      socket.on('error', () => undefined);
      socket.write(frame(`40${JSON.stringify({ token })}`));
      const gone = new Promise((resolve) => socket.once('close', resolve));
      if (i % 4 === 0) socket.end();
      else if (i % 4 === 1) socket.resetAndDestroy();
      else socket.write(closeFrame(1000));
      socket.resume();
      await gone;
    };
    for (let done = 0; done < 2_000; done += 50) {
      await within(20_000, 'a batch is gone', Promise.all(Array.from({ length: 50 }, (_, i) => round(done + i))));
    }
    await until(async () => (await metric(proxy.metrics, 'sigfig_connections')) === 0, 'nothing is connected');
    await until(
      async () => (await metric(proxy.metrics, 'sigfig_held', { what: 'connections' })) === 0,
      'nothing is tracked',
    );
    await until(() => descriptors(proxy.pid) <= before.descriptors + 40, 'descriptors are back', 15_000);
    expect(resident(proxy.pid) - before.resident).toBeLessThan(80_000_000);
    expect(proxy.stderr()).not.toMatch(/internal error/i);
  }, 120_000);
});

describe('shutdown', () => {
  it('SIGTERM: not ready at once, known sessions are served, new ones get 503, connections end with 1001, exit 0', async () => {
    const legacy = await all.legacy();
    const proxy = await all.proxy(legacy.url, callsNew, ['--drain-delay', '300ms', '--drain', '1s']);
    const { a, b, conversationId } = await inCall(proxy.url, 't', websocket);
    const p = await connect(proxy.url, 't-polling', polling);
    const closes = [a, b, p].map(
      ({ socket }) => new Promise<string>((resolve) => socket.on('disconnect', (reason) => resolve(reason))),
    );
    proxy.signal('SIGTERM');
    await until(async () => (await fetch(`${proxy.admin}/readyz`)).status === 503, 'not ready', 250);
    expect((await fetch(`${proxy.admin}/healthz`)).status).toBe(200);
    a.socket.emit('ice-candidate', { conversationId, iceCandidate: 'late' });
    expect(await b.next('ice-candidate')).toBe('late');
    await until(
      async () => (await fetch(`${proxy.url}/socket.io/?EIO=4&transport=polling`)).status === 503,
      'new sessions get 503',
    );
    expect(await p.ask('whoami')).toMatchObject({ ok: true });
    await Promise.all(closes);
    expect(await within(10_000, 'the proxy ends', proxy.exited)).toBe(0);
  });

  it('a second signal exits at once', async () => {
    const legacy = await all.legacy();
    const proxy = await all.proxy(legacy.url, callsNew, ['--drain-delay', '60s']);
    proxy.signal('SIGTERM');
    await until(async () => (await fetch(`${proxy.admin}/readyz`)).status === 503, 'not ready');
    proxy.signal('SIGTERM');
    expect(await within(2_000, 'the proxy ends', proxy.exited)).toBe(0);
  });
});

function rawOf(socket: Client['socket']): TcpSocket {
  const transport = socket.io.engine.transport as unknown as { ws: { _socket: TcpSocket } };
  return transport.ws._socket;
}

/** A masked text frame with a zero key. */
function frame(text: string): Buffer {
  const payload = Buffer.from(text);
  const head =
    payload.length < 126 ? [0x81, 0x80 | payload.length] : [0x81, 0xfe, payload.length >> 8, payload.length & 255];
  return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), payload]);
}

function closeFrame(code: number): Buffer {
  return Buffer.from([0x88, 0x82, 0, 0, 0, 0, code >> 8, code & 255]);
}
