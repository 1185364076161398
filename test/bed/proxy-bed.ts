// A proxy's front door before a legacy of the test's own, with a service that answers every `serve-…` event itself.
// Knows nothing of calls.
import { once } from 'node:events';
import http from 'node:http';
import net, { type AddressInfo } from 'node:net';
import type { DropCause } from '../../src/base/service.js';
import { type Outgoing, type Packet, PacketType } from '../../src/protocol/packet.js';
import { encodeAck } from '../../src/protocol/socketio.js';
import { Listener, type ListenerOptions } from '../../src/proxy/listener.js';
import { PollingSessions } from '../../src/proxy/polling.js';
import type { Connections, PacketOwner, Passing, Transport } from '../../src/proxy/transport.js';
import { Upstreams } from '../../src/proxy/upstreams.js';
import { recordedSignals } from '../../src/telemetry/signals.js';

export interface Owned {
  readonly owner: PacketOwner;
  transport: Transport | undefined;
  /** Texts of what was shown. */
  readonly fromBrowser: string[];
  readonly fromLegacy: string[];
  readonly causes: DropCause[];
  foreign: boolean;
  /** The acknowledgement that it waits for, and what becomes of it. */
  awaited: { readonly id: number; passing(packet: Packet): Passing } | undefined;
}

export interface Bed {
  readonly url: string;
  readonly port: number;
  readonly listener: Listener;
  readonly upstreams: Upstreams;
  readonly polling: PollingSessions;
  readonly signals: ReturnType<typeof recordedSignals>;
  /** One for each Engine.IO session. */
  readonly owned: Owned[];
  close(): Promise<void>;
}

export async function proxyBed(
  legacyUrls: readonly string[],
  options: Partial<ListenerOptions> = {},
  ca?: string,
): Promise<Bed> {
  const signals = recordedSignals();
  const upstreams = new Upstreams({ urls: legacyUrls, ca, signals });
  const owned: Owned[] = [];
  const connections: Connections = {
    open() {
      const one = fakeOwner();
      owned.push(one);
      return one.owner;
    },
  };
  const trust = () => true;
  const polling = new PollingSessions({ upstreams, connections, trust, signals, slack: 100 });
  const listener = new Listener({
    host: '127.0.0.1',
    port: 0,
    socketPath: '/socket.io/',
    upstreams,
    connections,
    polling,
    trust,
    legacyTimeoutMs: 5_000,
    signals,
    ...options,
  });
  const { port } = await listener.listen();
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    listener,
    upstreams,
    polling,
    signals,
    owned,
    async close() {
      upstreams.close();
      await listener.close();
    },
  };
}

/** Serves `serve-…` by an acknowledgement `["served"]`; everything else passes. */
export function fakeOwner(): Owned {
  const one: Owned = {
    transport: undefined,
    fromBrowser: [],
    fromLegacy: [],
    causes: [],
    foreign: false,
    awaited: undefined,
    owner: {
      interest: { event: (_ns, name) => name.startsWith('serve-') },
      legacyInterest: {
        event: (_ns, name) => name === 'watched',
        awaiting: () => one.awaited !== undefined,
        acknowledgement: (_ns, id) => id === one.awaited?.id,
      },
      sockets: () => [],
      watching: () => true,
      fromBrowser(packet: Packet) {
        one.fromBrowser.push(packet.text);
        if (packet.name === undefined) return 'pass';
        return () => {
          if (packet.id !== undefined) one.transport?.send([encodeAck(packet.ns, packet.id, ['served'])]);
        };
      },
      fromLegacy(packet: Packet) {
        one.fromLegacy.push(packet.text);
        if (packet.type !== PacketType.ACK && packet.type !== PacketType.BINARY_ACK) return undefined;
        const { awaited } = one;
        one.awaited = undefined;
        return awaited?.passing(packet);
      },
      foreign() {
        one.foreign = true;
      },
      attach(transport: Transport) {
        one.transport = transport;
      },
      closed(cause: DropCause) {
        one.causes.push(cause);
      },
    },
  };
  return one;
}

export const event = (...args: unknown[]): Outgoing => ({ text: `42${JSON.stringify(args)}`, attachments: [] });

/** A legacy of plain sockets: each connection is handed over with its error listener in place. */
export async function rawLegacy(onSocket: (socket: net.Socket) => void): Promise<{ url: string; close(): void }> {
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    onSocket(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}

export async function httpLegacy(handler: http.RequestListener): Promise<{ url: string; server: http.Server }> {
  const server = http.createServer(handler);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

/** A browser's bare TCP connection. */
export async function dial(port: number): Promise<net.Socket> {
  const socket = net.connect(port, '127.0.0.1');
  socket.on('error', () => socket.destroy());
  await once(socket, 'connect');
  return socket;
}

/** Everything up to the other side's FIN or reset, as single-byte characters. */
export async function untilEnd(socket: net.Socket): Promise<string> {
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
  });
  await new Promise<void>((resolve) => {
    socket.once('end', resolve);
    socket.once('close', resolve);
  });
  return text;
}

/** Sends a request as bytes and returns the answer up to the end. */
export async function raw(port: number, request: string): Promise<string> {
  const socket = await dial(port);
  const answer = untilEnd(socket);
  socket.write(request, 'latin1');
  const text = await answer;
  socket.destroy();
  return text;
}
