import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { recordedSignals } from '../telemetry/signals.js';
import { passUpgrade, tunnel, type Upgraded } from './tunnel.js';
import { Upstreams } from './upstreams.js';

const cleanups: (() => void)[] = [];
afterEach(() => {
  for (const cleanup of cleanups.splice(0)) cleanup();
});

const HANDSHAKE = 'GET /x?a=1 HTTP/1.1\r\nhOsT: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';

test('the request head reaches the legacy in its order and case, without extensions', async () => {
  const heads: string[] = [];
  const { browser } = await path((socket) => {
    socket.once('data', (chunk) => {
      heads.push(chunk.toString('latin1'));
      socket.end('HTTP/1.1 418 Teapot\r\nX-Why: \xe4\r\nContent-Length: 2\r\n\r\nno', 'latin1');
    });
  });
  browser.write(`${HANDSHAKE}Sec-WebSocket-Extensions: permessage-deflate\r\nX-B: 1\r\nx-b: 2\r\n\r\n`);
  const answer = await all(browser);
  expect(heads[0]).toBe(
    `${HANDSHAKE}X-B: 1\r\nx-b: 2\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: shop.test\r\n\r\n`,
  );
  expect(answer).toBe('HTTP/1.1 418 Teapot\r\nX-Why: \xe4\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno');
});

test('bytes that came along with the request and with the 101 belong to the stream', async () => {
  const { browser } = await path((socket) => {
    let got = '';
    socket.write('HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello');
    socket.on('data', (chunk) => {
      got += chunk.toString('latin1');
      if (got.endsWith('early')) socket.end(' bye');
    });
  });
  browser.write(`${HANDSHAKE}\r\nearly`);
  const answer = await all(browser);
  expect(answer).toBe('HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello bye');
});

test('a browser that resets during the handshake takes the legacy along', async () => {
  let closed: Promise<unknown> | undefined;
  const { browser, legacyGot } = await path((socket) => {
    closed = once(socket, 'close');
    socket.resume();
  });
  browser.write(`${HANDSHAKE}\r\n`);
  await legacyGot;
  browser.resetAndDestroy();
  await closed;
});

test('a legacy that breaks off within its refusal breaks it off for the browser, and the process lives', async () => {
  const { browser } = await path((socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\n\r\npart', () => socket.resetAndDestroy());
    });
  });
  browser.on('error', () => undefined);
  browser.write(`${HANDSHAKE}\r\n`);
  browser.resume();
  await new Promise((resolve) => browser.once('close', resolve));
  expect(browser.bytesRead).toBeLessThan(200);
});

test('a legacy that is away is answered for with 502, one that hangs with 504', async () => {
  const away = await path(undefined);
  away.browser.write(`${HANDSHAKE}\r\n`);
  expect(await all(away.browser)).toMatch(/^HTTP\/1.1 502 .*\{"error":"legacy is not reachable"\}$/s);
  const hung = await path((socket) => socket.resume(), 50);
  hung.browser.write(`${HANDSHAKE}\r\n`);
  expect(await all(hung.browser)).toMatch(/^HTTP\/1.1 504 /);
});

test('a reset of either side is seen as a reset by the other, a FIN as a FIN', async () => {
  for (const side of ['browser', 'legacy'] as const) {
    for (const how of ['resetAndDestroy', 'end'] as const) {
      let legacy: net.Socket | undefined;
      const { browser, legacyGot } = await path((socket) => {
        legacy = socket;
        socket.once('data', () => socket.write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
      });
      browser.write(`${HANDSHAKE}\r\n`);
      await Promise.all([legacyGot, once(browser, 'data')]);
      const [near, far] = side === 'browser' ? [browser, legacy!] : [legacy!, browser];
      const errors: string[] = [];
      near.on('error', () => undefined);
      far.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code ?? ''));
      far.resume();
      const closed = once(far, 'close');
      near[how]();
      await closed.catch(() => undefined);
      expect(errors).toEqual(how === 'end' ? [] : ['ECONNRESET']);
    }
  }
});

test('a side that does not read stops the other one from writing', async () => {
  let legacy: net.Socket | undefined;
  const { browser, upgraded } = await path((socket) => {
    legacy = socket;
    socket.once('data', () => socket.write('HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'));
  });
  browser.write(`${HANDSHAKE}\r\n`);
  await once(browser, 'data');
  browser.pause();
  const pair = await upgraded;
  const chunk = Buffer.alloc(1 << 20);
  for (let sent = 0; sent < 64; sent++) legacy!.write(chunk);
  await expect.poll(() => pair!.legacy.isPaused()).toBe(true);
  expect(pair!.browser.writableLength).toBeLessThan(1 << 20);
  let got = 0;
  browser.on('data', (part: Buffer) => {
    got += part.length;
  });
  browser.resume();
  await expect.poll(() => got, { timeout: 10_000 }).toBe(64 << 20);
});

interface Path {
  readonly browser: net.Socket;
  readonly legacyGot: Promise<unknown>;
  readonly upgraded: Promise<Upgraded | null>;
}

async function path(legacy: ((socket: net.Socket) => void) | undefined, timeout = 5_000): Promise<Path> {
  const server = net.createServer((socket) => {
    socket.on('error', () => undefined);
    legacy?.(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const legacyPort = (server.address() as AddressInfo).port;
  if (!legacy) server.close();
  const upstreams = new Upstreams({ urls: [`http://127.0.0.1:${legacyPort}`], signals: recordedSignals() });
  const proxy = http.createServer();
  const upgraded = new Promise<Upgraded | null>((resolve) => {
    proxy.on('upgrade', async (request, socket, head) => {
      const pair = await passUpgrade(request, socket as net.Socket, head, upstreams.pick(), {
        stripExtensions: true,
        trust: () => true,
        timeout,
      });
      if (pair) tunnel(pair);
      resolve(pair);
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const browser = net.connect((proxy.address() as AddressInfo).port, '127.0.0.1');
  cleanups.push(() => {
    browser.destroy();
    upstreams.close();
    server.close();
    proxy.close();
  });
  const legacyGot = legacy
    ? once(server, 'connection').then(([socket]) => once(socket as net.Socket, 'data'))
    : Promise.resolve();
  await once(browser, 'connect');
  return { browser, legacyGot, upgraded };
}

async function all(socket: net.Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  await once(socket, 'end');
  return text;
}
