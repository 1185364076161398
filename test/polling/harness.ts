// A real socket.io legacy, an HTTP server that lets polling sessions through, and an owner that takes some events and
// injects packets. Everything on 127.0.0.1 and port 0.
import http from 'node:http';
import type net from 'node:net';
import type { AddressInfo } from 'node:net';
import { Server, type ServerOptions, type Socket as ServerSocket } from 'socket.io';
import { type Socket as ClientSocket, io, type ManagerOptions, type SocketOptions } from 'socket.io-client';
import type { Clock } from '../../src/base/clock.js';
import type { SocketRef } from '../../src/base/ids.js';
import type { DropCause } from '../../src/base/service.js';
import type { Interest, LegacyInterest, Outgoing, Packet, Verdict } from '../../src/protocol/packet.js';
import { PacketType } from '../../src/protocol/packet.js';
import { decodeArgs, encodeAck, encodeEvent } from '../../src/protocol/socketio.js';
import { forward } from '../../src/proxy/http.js';
import { engineRequest } from '../../src/proxy/listener.js';
import { PollingSessions } from '../../src/proxy/polling.js';
import type { PacketOwner, Passing, Transport } from '../../src/proxy/transport.js';
import { passUpgrade, tunnel } from '../../src/proxy/tunnel.js';
import { type Upstream, Upstreams } from '../../src/proxy/upstreams.js';
import { recordedSignals } from '../../src/telemetry/signals.js';

/** Takes the events named `served…`, answers acknowledgements, and keeps what it saw. */
export class TestOwner implements PacketOwner {
  readonly taken: unknown[][] = [];
  readonly fromLegacySeen: string[] = [];
  readonly fromBrowserSeen: string[] = [];
  transport!: Transport;
  readonly kinds: string[] = [];
  cause: DropCause | undefined;
  closings = 0;
  /** What becomes of a taken event; default: acknowledged. */
  serve: (packet: Packet, args: unknown[]) => void = (packet, args) => {
    if (packet.id !== undefined) this.transport.send([encodeAck(packet.ns, packet.id, [{ served: args[0] }])]);
  };
  readonly interest: Interest = { event: (_ns, name) => name.startsWith('served') };
  /** The acknowledgement that it waits for, and what becomes of it. */
  awaited: { readonly id: number; passing(packet: Packet): Passing } | undefined;
  readonly legacyInterest: LegacyInterest = {
    event: (_ns, name) => name.startsWith('watched'),
    awaiting: () => this.awaited !== undefined,
    acknowledgement: (_ns, id) => id === this.awaited?.id,
  };
  sockets(): readonly SocketRef[] {
    return [];
  }
  watching(): boolean {
    return true;
  }
  fromBrowser(packet: Packet): Verdict {
    this.fromBrowserSeen.push(packet.text);
    if (packet.name === undefined) return 'pass';
    return () => {
      const args = decodeArgs(packet) ?? [];
      this.taken.push([packet.name, ...args]);
      this.serve(packet, args);
    };
  }
  fromLegacy(packet: Packet): Passing {
    this.fromLegacySeen.push(packet.text);
    if (packet.type !== PacketType.ACK && packet.type !== PacketType.BINARY_ACK) return undefined;
    const { awaited } = this;
    this.awaited = undefined;
    return awaited?.passing(packet);
  }
  foreign(): void {
    this.fromBrowserSeen.push('foreign');
  }
  attach(transport: Transport): void {
    this.transport = transport;
    this.kinds.push(transport.kind);
  }
  closed(cause: DropCause): void {
    this.cause = cause;
    this.closings++;
    for (const waiter of this.#waiting.splice(0)) waiter(cause);
  }
  readonly #waiting: ((cause: DropCause) => void)[] = [];
  whenClosed(): Promise<DropCause> {
    if (this.cause) return Promise.resolve(this.cause);
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
  inject(name: string, ...args: unknown[]): void {
    this.transport.send([encodeEvent('/', name, args)]);
  }
  injectPackets(packets: readonly Outgoing[]): void {
    this.transport.send(packets);
  }
}

export interface Stage {
  readonly legacy: Server;
  readonly legacyUrl: string;
  readonly legacyPort: number;
  readonly url: string;
  readonly port: number;
  readonly sessions: PollingSessions;
  readonly upstream: Upstream;
  readonly owners: TestOwner[];
  readonly signals: ReturnType<typeof recordedSignals>;
  client(options?: Partial<ManagerOptions & SocketOptions>): ClientSocket;
  /** The legacy's side of the next socket. */
  nextSocket(): Promise<ServerSocket>;
  /** From here on nothing listens there. */
  stopLegacy(): void;
  close(): Promise<void>;
}

export interface StageOptions {
  readonly legacy?: Partial<ServerOptions>;
  readonly clock?: Clock;
  readonly slack?: number;
  readonly setUp?: (legacy: Server) => void;
  /** Sees every request before the legacy does. */
  readonly tap?: (request: http.IncomingMessage) => void;
  /** Stands in for a socket.io legacy. */
  readonly bare?: http.RequestListener;
}

export async function stage(options: StageOptions = {}): Promise<Stage> {
  const backend = http.createServer(options.bare);
  const legacy = new Server(options.bare ? undefined : backend, {
    cors: { origin: true, credentials: true },
    ...options.legacy,
  });
  if (options.tap) backend.prependListener('request', options.tap);
  options.setUp?.(legacy);
  const legacyPort = await listen(backend);
  const legacyUrl = `http://127.0.0.1:${legacyPort}`;
  const signals = recordedSignals();
  const upstreams = new Upstreams({ urls: [legacyUrl], signals });
  const trust = (): boolean => true;
  const owners: TestOwner[] = [];
  const sessions = new PollingSessions({
    upstreams,
    trust,
    signals,
    connections: {
      open() {
        const owner = new TestOwner();
        owners.push(owner);
        return owner;
      },
    },
    ...(options.clock ? { clock: options.clock } : {}),
    ...(options.slack === undefined ? {} : { slack: options.slack }),
  });
  const server = http.createServer((request, response) => {
    const engine = engineRequest(request.url ?? '', '/socket.io/');
    if (engine?.revision === '4' && engine.transport === 'polling' && sessions.handle(request, response)) return;
    forward(request, response, upstreams.stick(), { trust, timeout: 0 });
  });
  server.requestTimeout = 0;
  server.on('upgrade', (request, socket, head) => {
    const engine = engineRequest(request.url ?? '', '/socket.io/');
    const browser = socket as net.Socket;
    if (engine?.sid !== undefined && sessions.upgrade(request, browser, head)) return;
    void passUpgrade(request, browser, head, upstreams.stick(), { stripExtensions: false, trust }).then((up) => {
      if (up) tunnel(up);
    });
  });
  const port = await listen(server);
  const clients: ClientSocket[] = [];
  const sockets = new Set<net.Socket>();
  for (const one of [server, backend]) one.on('connection', (socket: net.Socket) => sockets.add(socket));
  const url = `http://127.0.0.1:${port}`;
  return {
    legacy,
    legacyUrl,
    legacyPort,
    url,
    port,
    sessions,
    upstream: upstreams.stick(),
    owners,
    signals,
    client(more = {}) {
      const client = io(url, { transports: ['polling'], reconnection: false, forceNew: true, ...more });
      clients.push(client);
      return client;
    },
    nextSocket: () => new Promise((resolve) => legacy.once('connection', resolve)),
    stopLegacy() {
      backend.close();
      backend.closeAllConnections();
    },
    async close() {
      for (const client of clients) client.disconnect();
      legacy.disconnectSockets(true);
      for (const socket of sockets) socket.destroy();
      await Promise.all([new Promise((r) => server.close(r)), new Promise((r) => backend.close(r))]);
      upstreams.close();
    },
  };
}

async function listen(server: http.Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, resolve));
  return (server.address() as AddressInfo).port;
}

/** One event, as its arguments. */
export function once(
  emitter: { once(name: string, run: (...args: never[]) => void): unknown },
  name: string,
): Promise<unknown[]> {
  return new Promise((resolve) => emitter.once(name, (...args: unknown[]) => resolve(args)));
}

/** Waits until it holds; the test's own timeout bounds it. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2));
}

export interface Answer {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly bytes: Buffer;
}

export interface RawRequest {
  readonly answer: Promise<Answer>;
  readonly request: http.ClientRequest;
}

/** A request with a connection of its own. `port` says whether it goes through the proxy or straight to the legacy. */
export function raw(
  port: number,
  method: string,
  path: string,
  body?: string | Buffer,
  headers: http.OutgoingHttpHeaders = {},
): RawRequest {
  const request = http.request({ host: '127.0.0.1', port, method, path, headers, agent: false });
  const answer = new Promise<Answer>((resolve, reject) => {
    request.on('error', reject);
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const bytes = Buffer.concat(chunks);
        const { statusCode = 0, headers: answered, rawHeaders } = response;
        resolve({ status: statusCode, headers: answered, rawHeaders, body: bytes.toString('utf8'), bytes });
      });
    });
  });
  answer.catch(() => 'the test looks at it, or broke it off itself');
  if (body !== undefined || method !== 'POST') request.end(body);
  return { answer, request };
}

export const base = '/socket.io/?EIO=4&transport=polling';

/** A session by hand: `get` and `post` are what a browser would send. */
export class HandSession {
  readonly sid: string;
  readonly handshake: Record<string, unknown>;
  readonly port: number;
  readonly #headers: http.OutgoingHttpHeaders;
  private constructor(port: number, handshake: Record<string, unknown>, headers: http.OutgoingHttpHeaders) {
    this.port = port;
    this.handshake = handshake;
    this.sid = handshake.sid as string;
    this.#headers = headers;
  }
  /** `headers` go with every request. */
  static async open(port: number, connect = true, headers: http.OutgoingHttpHeaders = {}): Promise<HandSession> {
    const { body } = await raw(port, 'GET', base, undefined, headers).answer;
    const session = new HandSession(port, JSON.parse(body.slice(1)) as Record<string, unknown>, headers);
    if (connect) {
      await session.post('40').answer;
      await session.get().answer;
    }
    return session;
  }
  get path(): string {
    return `${base}&sid=${this.sid}`;
  }
  get(headers?: http.OutgoingHttpHeaders): RawRequest {
    return raw(this.port, 'GET', this.path, undefined, { ...this.#headers, ...headers });
  }
  post(body: string | Buffer, headers: http.OutgoingHttpHeaders = {}): RawRequest {
    const type = { 'Content-Type': 'text/plain;charset=UTF-8' };
    return raw(this.port, 'POST', this.path, body, { ...type, ...this.#headers, ...headers });
  }
}

/** An upgrade by hand: frames are written and read as text. */
export class HandSocket {
  readonly socket: net.Socket;
  readonly frames: { readonly op: number; readonly payload: Buffer }[] = [];
  closed = false;
  #buffer = Buffer.alloc(0);
  constructor(socket: net.Socket, first: Buffer) {
    this.socket = socket;
    socket.on('data', (chunk) => this.#read(chunk));
    socket.on('close', () => {
      this.closed = true;
    });
    socket.on('error', () => socket.destroy());
    this.#read(first);
  }
  static open(port: number, sid: string): Promise<HandSocket> {
    return new Promise((resolve, reject) => {
      const request = http.request({
        host: '127.0.0.1',
        port,
        path: `/socket.io/?EIO=4&transport=websocket&sid=${sid}`,
        headers: {
          Connection: 'Upgrade',
          Upgrade: 'websocket',
          'Sec-WebSocket-Version': '13',
          'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ==',
        },
      });
      request.on('upgrade', (_answer, socket, head) => resolve(new HandSocket(socket as net.Socket, head)));
      request.on('response', (answer) => reject(new Error(`status ${answer.statusCode}`)));
      request.on('error', reject);
      request.end();
    });
  }
  send(text: string | Buffer): void {
    const payload = Buffer.from(text);
    const op = typeof text === 'string' ? 0x81 : 0x82;
    const head =
      payload.length < 126 ? [op, 0x80 | payload.length] : [op, 0xfe, payload.length >> 8, payload.length & 255];
    this.socket.write(Buffer.concat([Buffer.from(head), Buffer.alloc(4), payload]));
  }
  get texts(): string[] {
    return this.frames.filter((f) => f.op === 1).map((f) => f.payload.toString('utf8'));
  }
  #read(chunk: Buffer): void {
    this.#buffer = Buffer.concat([this.#buffer, chunk]);
    for (;;) {
      const b = this.#buffer;
      if (b.length < 2) return;
      let size = 2;
      let length = b[1]! & 127;
      if (length === 126) {
        if (b.length < 4) return;
        length = b.readUInt16BE(2);
        size = 4;
      } else if (length === 127) {
        if (b.length < 10) return;
        length = Number(b.readBigUInt64BE(2));
        size = 10;
      }
      if (b.length < size + length) return;
      this.frames.push({ op: b[0]! & 15, payload: Buffer.from(b.subarray(size, size + length)) });
      this.#buffer = b.subarray(size + length);
    }
  }
}
