import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
});
afterAll(() => at.close());

const headers = {
  origin: 'https://shop.test',
  host: 'shop.test',
  'x-forwarded-proto': 'https',
  'x-forwarded-for': '192.0.2.1',
};

test('origin-scheme: Origin, Host and X-Forwarded-Proto reach the legacy as they came, on a poll and on an upgrade', async () => {
  const seen: unknown[] = [];
  at.io.engine.on('initial_headers', (_headers: unknown, request: { headers: Record<string, string> }) => {
    const { origin, host } = request.headers;
    seen.push([origin, host, request.headers['x-forwarded-proto'], request.headers['x-forwarded-for']]);
  });
  const { request } = await import('node:http');
  const poll = request(`${at.bed.url}/socket.io/?EIO=4&transport=polling`, { headers }).end();
  await once(poll, 'response');
  const socket = new WebSocket(`ws://127.0.0.1:${at.bed.port}/socket.io/?EIO=4&transport=websocket`, { headers });
  await once(socket, 'open');
  const expected = ['https://shop.test', 'shop.test', 'https', '192.0.2.1, 127.0.0.1'];
  expect(seen).toEqual([expected, expected]);
  socket.terminate();
});
