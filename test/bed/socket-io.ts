// A real Socket.IO server as the legacy, and a proxy before it. Knows nothing of what a case does with them.
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, type ServerOptions } from 'socket.io';
import { type Bed, dial, proxyBed, untilEnd } from './proxy-bed.js';

export interface Stage {
  readonly bed: Bed;
  readonly io: Server;
  readonly legacy: http.Server;
  readonly legacyPort: number;
  close(): Promise<void>;
}

export async function stage(options: Partial<ServerOptions> = {}): Promise<Stage> {
  const legacy = http.createServer((_request, response) => response.writeHead(404).end());
  const io = new Server(legacy, options);
  legacy.listen(0, '127.0.0.1');
  await once(legacy, 'listening');
  const legacyPort = (legacy.address() as AddressInfo).port;
  const bed = await proxyBed([`http://127.0.0.1:${legacyPort}`]);
  return {
    bed,
    io,
    legacy,
    legacyPort,
    async close() {
      await bed.close();
      await io.close();
    },
  };
}

/** An upgrade as a browser asks for it. */
export const upgradeRequest = (path: string, more = ''): string =>
  `GET ${path} HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}\r\n`;

/** The same bytes sent to the legacy and to the proxy; status line, and the body where there is one. */
export async function bothWays(at: Stage, request: string): Promise<{ direct: string; proxied: string }> {
  const ask = async (port: number) => {
    const socket = await dial(port);
    const answer = untilEnd(socket);
    socket.write(request, 'latin1');
    const text = await answer;
    socket.destroy();
    const [head = '', body = ''] = text.split('\r\n\r\n');
    return `${head.split('\r\n')[0]}\n${body}`;
  };
  return { direct: await ask(at.legacyPort), proxied: await ask(at.bed.port) };
}

/** Open connections of a server. */
export const connections = (server: http.Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
