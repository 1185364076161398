// Whose doing it was that a connection went away, with a real Socket.IO server: calls are told different things.
import type { Socket as TcpSocket } from 'node:net';
import { io as connect, type Socket } from 'socket.io-client';
import { afterEach, expect, test } from 'vitest';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
afterEach(() => at.close());

const tcp = (client: Socket): TcpSocket =>
  (client.io.engine.transport as unknown as { ws: { _socket: TcpSocket } }).ws._socket;

/** As when the process is killed. */
function resetAll(): void {
  const { clients } = at.io.engine as unknown as {
    clients: Record<string, { transport: { socket: { _socket: TcpSocket } } }>;
  };
  for (const { transport } of Object.values(clients)) transport.socket._socket.resetAndDestroy();
}

const ends: Record<string, [(client: Socket) => unknown, 'browser' | 'legacy']> = {
  'the page closes its socket': [(client) => client.close(), 'browser'],
  'the browser vanishes with a reset': [(client) => tcp(client).resetAndDestroy(), 'browser'],
  'the browser stops answering pings': [(client) => tcp(client).pause(), 'browser'],
  'the legacy disconnects the socket': [() => at.io.disconnectSockets(true), 'browser'],
  'the legacy shuts down': [() => at.io.close(), 'legacy'],
  'the legacy dies': [() => resetAll(), 'legacy'],
};

for (const transports of [['websocket'], ['polling', 'websocket']]) {
  test.each(Object.entries(ends))(`%s, after ${transports.join(' and ')}`, async (_name, [end, cause]) => {
    at = await stage({ pingInterval: 400, pingTimeout: 300 });
    const client = connect(at.bed.url, { transports, reconnection: false, forceNew: true });
    await expect.poll(() => client.io.engine?.transport?.name === 'websocket' && client.connected).toBe(true);
    // An upgraded transport is the engine's before the legacy has read the `5`.
    await expect.poll(() => at.bed.owned[0]?.transport?.kind).toBe('websocket');
    end(client);
    await expect.poll(() => at.bed.owned[0]!.causes, { timeout: 5_000 }).toEqual([cause]);
    client.close();
  });
}
