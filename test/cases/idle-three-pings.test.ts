import { io as connect } from 'socket.io-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage({ pingInterval: 300, pingTimeout: 200 });
});
afterAll(() => at.close());

test.each(['polling', 'websocket'])(
  'idle-three-pings: a %s connection idle for three ping periods is open',
  async (transport) => {
    const client = connect(at.bed.url, { transports: [transport], reconnection: false, forceNew: true });
    let pings = 0;
    client.io.on('ping', () => pings++);
    await expect.poll(() => pings, { timeout: 5_000 }).toBe(3);
    expect(client.connected).toBe(true);
    client.close();
  },
);
