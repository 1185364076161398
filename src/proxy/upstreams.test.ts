import { once } from 'node:events';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { cert, key } from '../../test/bed/tls.js';
import { manualClock } from '../base/clock.js';
import { recordedSignals } from '../telemetry/signals.js';
import { type Upstream, Upstreams } from './upstreams.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function serve(server: http.Server, port = 0): Promise<number> {
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(
    () => server.close(),
    () => server.closeAllConnections(),
  );
  return (server.address() as AddressInfo).port;
}

function upstreamsAt(urls: string[], options: { ca?: string; clock?: ReturnType<typeof manualClock> } = {}) {
  const signals = recordedSignals();
  const upstreams = new Upstreams({ urls, signals, ...options });
  cleanups.push(() => upstreams.close());
  return { upstreams, told: () => signals.events.map(({ what }) => what) };
}

async function get(upstream: Upstream, path = '/'): Promise<string> {
  const request = upstream.request({ method: 'GET', path, headers: ['Host', 'a'] });
  request.end();
  const [answer] = (await once(request, 'response')) as [IncomingMessage];
  let body = '';
  for await (const part of answer) body += part;
  return body;
}

test('new sessions go round, none to a legacy that could not be reached, until it is there again', async () => {
  const clock = manualClock();
  const first = await serve(http.createServer((_request, response) => response.end('first')));
  const gone = http.createServer((_request, response) => response.end('back'));
  const second = await serve(gone);
  await new Promise((resolve) => gone.close(resolve));
  const { upstreams, told } = upstreamsAt([`http://127.0.0.1:${first}`, `http://127.0.0.1:${second}`], { clock });
  const ports = () => Array.from({ length: 4 }, () => upstreams.pick().port);
  expect(ports()).toEqual([first, second, first, second]);
  await expect(get(upstreams.all[1]!)).rejects.toThrow('ECONNREFUSED');
  expect(upstreams.all[1]!.up).toBe(false);
  expect(ports()).toEqual([first, first, first, first]);
  expect([upstreams.stick().port, upstreams.anyUp(), told()]).toEqual([first, true, ['legacyDown']]);

  await serve(
    http.createServer((_request, response) => response.end('back')),
    second,
  );
  clock.advance(1_000);
  await expect.poll(() => upstreams.all[1]!.up).toBe(true);
  expect(new Set(ports())).toEqual(new Set([first, second]));
  expect(told()).toEqual(['legacyDown', 'legacyUp']);
});

test('with all of them down one is tried all the same, and probing goes on', async () => {
  const clock = manualClock();
  const gone = http.createServer((_request, response) => response.end('back'));
  const port = await serve(gone);
  await new Promise((resolve) => gone.close(resolve));
  const { upstreams, told } = upstreamsAt([`http://127.0.0.1:${port}`], { clock });
  await expect(get(upstreams.pick())).rejects.toThrow();
  expect(upstreams.anyUp()).toBe(false);
  expect(upstreams.pick().port).toBe(port);
  clock.advance(1_000);
  await expect(get(upstreams.pick())).rejects.toThrow();
  expect(told()).toEqual(['legacyDown']);
  await serve(
    http.createServer((_request, response) => response.end('back')),
    port,
  );
  expect(await get(upstreams.pick())).toBe('back');
  expect([upstreams.anyUp(), told()]).toEqual([true, ['legacyDown', 'legacyUp']]);
});

test('a socket over which a body was refused is not kept: whoever refuses one may close behind the answer', async () => {
  const port = await serve(
    http.createServer((request, response) => {
      request.resume();
      if (request.method === 'POST') response.statusCode = Number(request.url?.slice(1));
      response.end(String(request.socket.remotePort));
    }),
  );
  const upstream = upstreamsAt([`http://127.0.0.1:${port}`]).upstreams.all[0]!;
  const post = async (status: number) => {
    const request = upstream.request({
      method: 'POST',
      path: `/${status}`,
      headers: ['Host', 'a', 'Content-Length', '1'],
    });
    request.end('x');
    const [answer] = (await once(request, 'response')) as [IncomingMessage];
    answer.resume();
    await once(request, 'close');
  };
  const first = await get(upstream);
  await post(200);
  expect(await get(upstream)).toBe(first);
  await post(413);
  expect(await get(upstream)).not.toBe(first);
});

test('sockets are kept, and given up a second before the legacy would', async () => {
  const sockets = new Set<Socket>();
  const server = http.createServer({ keepAliveTimeout: 2_000 }, (request, response) => {
    sockets.add(request.socket);
    response.end();
  });
  const port = await serve(server);
  const { upstreams } = upstreamsAt([`http://127.0.0.1:${port}`]);
  await get(upstreams.all[0]!);
  await expect.poll(() => get(upstreams.all[0]!).then(() => sockets.size)).toBe(1);
  const [socket] = sockets;
  const since = performance.now();
  await once(socket!, 'end');
  expect(performance.now() - since).toBeGreaterThan(800);
  expect(performance.now() - since).toBeLessThan(1_900);
});

test('a legacy with TLS is reached with its certificate and not without it', async () => {
  const port = await serve(https.createServer({ key, cert }, (_request, response) => response.end('secret')));
  const trusted = upstreamsAt([`https://localhost:${port}`], { ca: cert });
  expect(await get(trusted.upstreams.pick())).toBe('secret');
  const strange = upstreamsAt([`https://localhost:${port}`]);
  await expect(get(strange.upstreams.pick())).rejects.toThrow('self-signed certificate');
  expect(strange.told()).toEqual(['legacyDown']);
});

test.each(['ftp://a', 'http://a/path', 'nonsense'])('%s is no legacy', (url) => {
  expect(() => upstreamsAt([url])).toThrow(TypeError);
});
