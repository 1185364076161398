import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { dial } from '../bed/proxy-bed.js';
import { connections, type Stage, stage, upgradeRequest } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage({ pingInterval: 1_000, pingTimeout: 500 });
});
afterAll(() => at.close());

const descriptors = () => readdirSync('/proc/self/fd').length;
/** Masked with a key of zeroes: 1000. */
const CLOSE = Buffer.from([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
const POLL = '/socket.io/?EIO=4&transport=polling';
const SOCKET = '/socket.io/?EIO=4&transport=websocket';

test('connect-kill-1000: opened and killed connections leave nothing behind', { timeout: 60_000 }, async () => {
  const before = descriptors();
  const kills = ['end', 'resetAndDestroy', 'destroy', 'close-frame'] as const;
  const one = async (i: number) => {
    const socket = await dial(at.bed.port);
    const kill = kills[i % kills.length]!;
    const moment = Math.floor(i / kills.length) % 4;
    const answered = new Promise((resolve) => {
      socket.once('data', resolve);
      socket.once('close', resolve);
    });
    if (moment === 3) socket.write(`GET ${POLL} HTTP/1.1\r\nHost: a\r\n\r\n`);
    else socket.write(upgradeRequest(moment === 2 ? `${SOCKET}&sid=none` : SOCKET));
    // Moment 0 is within the handshake.
    if (moment > 0) await answered;
    if (kill === 'close-frame') socket.write(CLOSE, () => socket.end());
    else socket[kill]();
    socket.resume();
  };
  for (let round = 0; round < 20; round++) {
    await Promise.all(Array.from({ length: 50 }, (_, i) => one(round * 50 + i)));
  }
  await expect.poll(() => at.io.of('/').sockets.size, { timeout: 10_000 }).toBe(0);
  // Polling sessions that nobody asks for any more are the heartbeat's to end, as direct.
  await expect.poll(() => at.io.engine.clientsCount, { timeout: 10_000 }).toBe(0);
  await expect.poll(() => connections(at.legacy), { timeout: 15_000 }).toBe(0);
  await expect.poll(descriptors, { timeout: 15_000 }).toBeLessThanOrEqual(before + 2);
  await expect.poll(() => at.bed.upstreams.all[0]!.sessions, { timeout: 10_000 }).toBe(0);
  expect([...at.bed.polling.live()]).toEqual([]);
  expect(at.bed.owned.filter(({ causes }) => causes.length !== 1)).toEqual([]);
  expect(at.bed.signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
});
