import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { io as connect } from 'socket.io-client';
import { afterEach, describe, expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { dial, httpLegacy, proxyBed, raw, untilEnd } from '../../test/bed/proxy-bed.js';
import { type Stage, stage, upgradeRequest } from '../../test/bed/socket-io.js';
import { cert, key } from '../../test/bed/tls.js';
import { engineRequest } from './listener.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function onStage(): Promise<Stage> {
  const at = await stage();
  at.io.on('connection', (socket) => socket.on('echo', (value, answer) => answer(value)));
  cleanups.push(() => at.close());
  return at;
}

describe('which requests are of Engine.IO', () => {
  test.each([
    ['/socket.io/?EIO=4&transport=polling', { revision: '4', transport: 'polling', sid: undefined }],
    ['/socket.io/?EIO=4&transport=websocket&sid=a', { revision: '4', transport: 'websocket', sid: 'a' }],
    ['/socket.io?EIO=3', { revision: '3', transport: undefined, sid: undefined }],
    ['/socket.io/deeper?EIO=4', { revision: '4', transport: undefined, sid: undefined }],
    ['/socket.io/?EIO=4&EIO=3', undefined],
    ['/socket.iox/?EIO=4', undefined],
    ['/', undefined],
    ['http://other/socket.io/?EIO=4', undefined],
  ])('%s', (url, expected) => {
    expect(engineRequest(url, '/socket.io/')).toEqual(expected);
  });
});

describe('going out of service', () => {
  test('new sessions are refused, known ones go on, plain requests too, and new ones are taken again', async () => {
    const at = await onStage();
    const clients = ['polling', 'websocket'].map((transport) =>
      connect(at.bed.url, { transports: [transport], reconnection: false, forceNew: true }),
    );
    for (const client of clients) expect(await client.emitWithAck('echo', 1)).toBe(1);
    at.bed.listener.refuseNew(true);

    const refused = await fetch(`${at.bed.url}/socket.io/?EIO=4&transport=polling`);
    expect([refused.status, refused.headers.get('connection'), await refused.json()]).toEqual([
      503,
      'close',
      { error: 'going away' },
    ]);
    expect(await raw(at.bed.port, upgradeRequest('/socket.io/?EIO=4&transport=websocket'))).toMatch(/^HTTP\/1.1 503 /);
    expect((await fetch(`${at.bed.url}/x`)).status).toBe(404);
    for (const client of clients) expect(await client.emitWithAck('echo', 2)).toBe(2);
    at.bed.listener.refuseNew(false);
    expect((await fetch(`${at.bed.url}/socket.io/?EIO=4&transport=polling`)).status).toBe(200);
    for (const client of clients) client.close();
  });

  test('what is about to be closed is told first, and closing can be stopped', async () => {
    const at = await onStage();
    const clients = Array.from({ length: 6 }, (_, i) =>
      connect(at.bed.url, { transports: [i < 3 ? 'polling' : 'websocket'], reconnection: false, forceNew: true }),
    );
    for (const client of clients) expect(await client.emitWithAck('echo', 1)).toBe(1);
    for (const [i, { owner }] of at.bed.owned.entries()) owner.sockets = () => [{ id: `s${i}` } as never];
    const told: string[] = [];
    const stop = new AbortController();
    await at.bed.listener.closeConnections(60_000, {
      signal: stop.signal,
      before: async (sockets) => {
        told.push(...sockets.map(({ id }) => id));
        expect(at.bed.owned.flatMap(({ causes }) => causes)).toEqual([]);
        stop.abort();
      },
    });
    expect(told).toHaveLength(1);
    await expect.poll(() => at.bed.owned.flatMap(({ causes }) => causes)).toEqual(['drain']);
    expect(at.bed.listener.open).toBe(5);
    for (const client of clients) client.close();
  });

  test('connections are closed over the time given, all of them, and the port goes last', async () => {
    const at = await onStage();
    const gone: string[] = [];
    const clients = Array.from({ length: 20 }, (_, i) =>
      connect(at.bed.url, { transports: [i < 3 ? 'polling' : 'websocket'], reconnection: false, forceNew: true }),
    );
    for (const client of clients) {
      expect(await client.emitWithAck('echo', 1)).toBe(1);
      client.on('disconnect', (reason) => gone.push(reason));
    }
    const closing = at.bed.listener.closeConnections(400);
    await expect.poll(() => gone.length).toBeGreaterThan(0);
    expect(gone.length).toBeLessThan(20);
    await closing;
    await at.bed.listener.close();
    await expect.poll(() => gone.length).toBe(20);
    expect(new Set(at.bed.owned.flatMap(({ causes }) => causes))).toEqual(new Set(['drain']));
    await expect(dial(at.bed.port)).rejects.toThrow('ECONNREFUSED');
    await expect.poll(() => at.io.engine.clientsCount).toBe(0);
  });
});

test('upgrades on other paths are tunnelled untouched, extensions included', async () => {
  const server = http.createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: true });
  sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(data)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bed = await proxyBed([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  cleanups.push(
    () => server.close(),
    () => bed.close(),
  );
  const browser = new WebSocket(`ws://127.0.0.1:${bed.port}/graphql`, ['v1']);
  await once(browser, 'open');
  expect([browser.protocol, browser.extensions]).toEqual(['v1', 'permessage-deflate']);
  browser.send('x'.repeat(10_000));
  const [echo] = (await once(browser, 'message')) as [Buffer];
  expect(echo.length).toBe(10_000);
  expect(bed.owned).toEqual([]);
  const closed = once(browser, 'close');
  await bed.listener.closeConnections(0);
  await closed;
});

test('the port closes in time though a legacy never answers an upgrade', async () => {
  const server = http.createServer();
  server.on('upgrade', (_request, socket) => socket.on('error', () => socket.destroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bed = await proxyBed([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  cleanups.push(() => server.close());
  const browser = await dial(bed.port);
  const asked = once(server, 'upgrade');
  browser.write(upgradeRequest('/socket.io/?EIO=4&transport=websocket'));
  await asked;
  await bed.close();
  await untilEnd(browser);
});

test('an upgrade sent ahead of an answer can not put its bytes into that answer', async () => {
  const legacy = await httpLegacy((_request, response) => response.write('slow'));
  const bed = await proxyBed([legacy.url]);
  cleanups.push(
    () => legacy.server.closeAllConnections(),
    () => legacy.server.close(),
    () => bed.close(),
  );
  const browser = await dial(bed.port);
  const answer = untilEnd(browser);
  browser.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${upgradeRequest('/socket.io/?EIO=4&transport=websocket')}`);
  expect(await answer).not.toMatch(/101/);
});

test('TLS: browsers reach it over https and wss, and the legacy is told so', async () => {
  const legacy = await httpLegacy((request, response) => response.end(request.headers['x-forwarded-proto']));
  const bed = await proxyBed([legacy.url], { tls: { key, cert } });
  cleanups.push(
    () => legacy.server.close(),
    () => legacy.server.closeAllConnections(),
    () => bed.close(),
  );
  const request = https.get(`https://localhost:${bed.port}/`, { ca: cert, agent: false });
  const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
  let body = '';
  for await (const part of answer) body += part;
  expect(body).toBe('https');
});

test('wss to a legacy with TLS: frames, codes and resets pass', async () => {
  const server = https.createServer({ key, cert });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (socket) => {
    socket.on('error', () => socket.terminate());
    socket.on('message', (data) => socket.send(data.toString()));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const legacyUrl = `https://localhost:${(server.address() as AddressInfo).port}`;
  const bed = await proxyBed([legacyUrl], { tls: { key, cert } }, cert);
  cleanups.push(
    () => server.close(),
    () => bed.close(),
  );
  for (const path of ['/socket.io/?EIO=4&transport=websocket', '/else']) {
    const open = async () => {
      const browser = new WebSocket(`wss://localhost:${bed.port}${path}`, { ca: cert });
      await once(browser, 'open');
      return browser;
    };
    const browser = await open();
    browser.send('hello');
    expect(String((await once(browser, 'message'))[0])).toBe('hello');
    const closed = once(browser, 'close');
    for (const client of sockets.clients) client.close(4001, 'why');
    expect((await closed)[0]).toBe(4001);
    const second = await open();
    const broken = once(second, 'close');
    for (const client of sockets.clients) client.terminate();
    expect((await broken)[0]).toBe(1006);
  }
  expect(bed.owned.map(({ causes }) => causes)).toEqual([['legacy'], ['legacy']]);
});

test('a port that is taken is an error with its reason', async () => {
  const at = await onStage();
  const taken = proxyBed([at.bed.url], { port: at.bed.port });
  await expect(taken).rejects.toThrow('EADDRINUSE');
});
