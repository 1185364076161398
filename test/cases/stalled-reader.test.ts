import { once } from 'node:events';
import type { Socket } from 'node:net';
import { io as connect } from 'socket.io-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
  at.io.on('connection', (socket) => {
    socket.on('echo', (value, answer) => answer(value));
    socket.on('flood', () => {
      const megabyte = Buffer.alloc(1 << 20);
      for (let i = 0; i < 200; i++) socket.emit('bytes', megabyte);
    });
  });
});
afterAll(() => at.close());

test('stalled-reader: memory stays bounded and others notice nothing', { timeout: 30_000 }, async () => {
  const stalled = new WebSocket(`ws://127.0.0.1:${at.bed.port}/socket.io/?EIO=4&transport=websocket`);
  await once(stalled, 'open');
  const other = connect(at.bed.url, { transports: ['websocket'], reconnection: false });
  expect(await other.emitWithAck('echo', 0)).toBe(0);
  stalled.send('40');
  stalled.send('42["flood"]');
  (stalled as unknown as { _socket: Socket })._socket.pause();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 1; i <= 200; i++) expect(await other.emitWithAck('echo', i)).toBe(i);
  // The legacy, in this same process, shares one buffer among its packets; what grows is the proxy's.
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 << 20);
  stalled.terminate();
  other.close();
});
