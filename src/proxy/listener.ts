// The port that browsers connect to: which of polling, splice, tunnel and plain HTTP a request is for, and how the port
// goes out of service. Knows nothing of packets.
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import https from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SocketRef } from '../base/ids.js';
import type { Signals } from '../telemetry/signals.js';
import { refuse } from './answer.js';
import type { Trust } from './headers.js';
import { forward } from './http.js';
import { PlainHttp } from './plain.js';
import type { Connections, PacketOwner } from './transport.js';
import { endSoon, passUpgrade, refuseUpgrade, tunnel, type Upgraded } from './tunnel.js';
import type { Upstream, Upstreams } from './upstreams.js';
import { SplicedWebSocket } from './websocket.js';

/** Clients that open a connection per request overflow Node's 511. */
const BACKLOG = 4_096;
/** For a request's head: against clients that send it byte by byte; milliseconds. */
const HEAD_TIMEOUT = 60_000;
/** Longer than the idle time of common load balancers (60 s), which must be the first to close; milliseconds. */
const KEEP_ALIVE = 65_000;
/** Connections are closed in this many steps at most, so that browsers don't all come back at once. */
const CLOSING_STEPS = 50;
/** A WebSocket ends at the next whole packet, after 250 ms at the latest: rounds that wait for that, and milliseconds of each. */
const LAST_ROUNDS = 20;
const LAST_ROUND = 25;
/** Answers under way when the port closes get this long; milliseconds. */
const LAST_ANSWERS = 2_000;

/** Polling sessions and the upgrades out of them. */
export interface PollingSessions {
  /** A request with `EIO=4` and `transport=polling`. False: it is for none of its sessions, pass it on untouched. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  /** A WebSocket upgrade with a `sid`. False: of none of its sessions, pass it on as a raw tunnel. */
  upgrade(request: IncomingMessage, browser: Socket, head: Buffer): boolean;
  /** Where a session lives, so that whatever names it reaches the same legacy. */
  upstreamOf(sid: string): Upstream | undefined;
  /** All that live, on polling or upgraded, to be ended when the port closes. */
  live(): Iterable<Endable>;
}

export interface Endable {
  end(code: number, reason: string): void;
  /** Whose sockets go with it; none where nothing is looked into. */
  readonly owner?: Pick<PacketOwner, 'sockets'>;
}

/** How connections are closed in a drain. */
export interface Closing {
  /** Of the next few that are closed; they wait for it. Must not reject. */
  before?(sockets: readonly SocketRef[]): Promise<void>;
  /** Stops it. */
  readonly signal?: AbortSignal;
}

export interface ListenerOptions {
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
  /** PEM. */
  readonly tls?: { readonly cert: string; readonly key: string } | undefined;
  /** With its leading and trailing slash. */
  readonly socketPath: string;
  readonly upstreams: Upstreams;
  readonly connections: Connections;
  readonly polling: PollingSessions;
  readonly trust: Trust;
  /** Until a plain HTTP answer begins; milliseconds. */
  readonly legacyTimeoutMs: number;
  readonly signals: Signals;
}

export class Listener {
  readonly #options: ListenerOptions;
  readonly #server: http.Server;
  readonly #plain: PlainHttp;
  readonly #spliced = new Set<SplicedWebSocket>();
  readonly #tunnels = new Set<Upgraded>();
  /** Node's server forgets a socket once it is upgraded. */
  readonly #upgrades = new Set<Socket>();
  readonly #underWay = new WeakMap<Socket, number>();
  #draining = false;
  #closing = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#plain = new PlainHttp({ trust: options.trust, timeout: options.legacyTimeoutMs });
    const settings: http.ServerOptions = {
      noDelay: true,
      headersTimeout: HEAD_TIMEOUT,
      requestTimeout: 0,
      keepAliveTimeout: KEEP_ALIVE,
      insecureHTTPParser: false,
    };
    this.#server = options.tls
      ? https.createServer({ ...settings, ...options.tls, ALPNProtocols: ['http/1.1'] })
      : http.createServer(settings);
    // Node drops headers over 2,000 without a word.
    this.#server.maxHeadersCount = 0;
    const onRequest = (request: IncomingMessage, response: ServerResponse) => {
      try {
        this.#request(request, response);
      } catch (error) {
        options.signals.internalError('request', error);
        refuse(response, 500, 'internal error', true);
      }
    };
    this.#server.on('request', onRequest);
    this.#server.on('checkContinue', onRequest);
    this.#server.on('checkExpectation', onRequest);
    this.#server.on('upgrade', (request, duplex, head) => {
      const browser = duplex as Socket;
      this.#upgrades.add(browser);
      browser.once('close', () => this.#upgrades.delete(browser));
      try {
        this.#upgrade(request, browser, head);
      } catch (error) {
        options.signals.internalError('upgrade', error);
        browser.destroy();
      }
    });
    this.#server.on('clientError', (error, socket) => answerBroken(error, socket as Socket));
  }

  /** Rejects where the port can't be had. */
  listen(): Promise<AddressInfo> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ host: this.#options.host, port: this.#options.port, backlog: BACKLOG }, () => {
        this.#server.removeListener('error', reject);
        this.#server.on('error', (error) => this.#options.signals.internalError('listener', error));
        resolve(this.#server.address() as AddressInfo);
      });
    });
  }

  /** New sessions are refused with 503 (known ones go on), or taken again. */
  refuseNew(refuse: boolean): void {
    this.#draining = refuse;
  }

  /** Open connections that sockets or tunnels live on. */
  get open(): number {
    return this.#live().length;
  }

  /**
   * Ends all connections (1001), a few at a time, over `ms` milliseconds; no new ones are taken. Resolves once none is left, where
   * `signal` stops it, or where some can't be ended in time.
   */
  async closeConnections(ms: number, { before, signal }: Closing = {}): Promise<void> {
    this.#draining = true;
    const steps = Math.max(1, Math.min(CLOSING_STEPS, Math.floor(ms / 20)));
    for (let step = 0; step < steps + LAST_ROUNDS && !signal?.aborted; step++) {
      const live = this.#live();
      if (live.length === 0) return;
      const some = pickSome(live, Math.ceil(live.length / Math.max(1, steps - step)));
      const began = performance.now();
      await before?.(some.flatMap(({ owner }) => owner?.sockets() ?? []));
      for (const one of some) one.end(1001, 'going away');
      if (this.#live().length === 0) return;
      const spent = performance.now() - began;
      await pause(step < steps - 1 ? Math.max(0, (ms / steps) * (0.5 + Math.random()) - spent) : LAST_ROUND, signal);
    }
  }

  /** Stops listening; answers under way get a moment. */
  async close(): Promise<void> {
    this.#draining = true;
    this.#closing = true;
    const closed = new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
    for (const one of this.#live()) one.end(1001, 'going away');
    this.#server.closeIdleConnections();
    const timer = setTimeout(() => {
      this.#server.closeAllConnections();
      for (const browser of this.#upgrades) browser.destroy();
    }, LAST_ANSWERS);
    await closed;
    clearTimeout(timer);
  }

  #live(): Endable[] {
    const tunnels: Endable[] = [...this.#tunnels].map((pair) => ({ end: () => endBoth(pair) }));
    return [...this.#spliced, ...this.#options.polling.live(), ...tunnels];
  }

  #request(request: IncomingMessage, response: ServerResponse): void {
    this.#count(request.socket, response);
    if (this.#draining) response.shouldKeepAlive = false;
    const coding = request.headers['transfer-encoding'];
    if (coding !== undefined && coding.trim().toLowerCase() !== 'chunked') {
      // Codings before `chunked` would have to be passed on hop by hop; whoever sends them tries to be read in two ways.
      refuse(response, 400, 'transfer coding is not supported', true);
      return;
    }
    const engine = engineRequest(request.url ?? '', this.#options.socketPath);
    if (engine?.revision === '4' && engine.transport === 'polling') {
      if (this.#draining && engine.sid === undefined && request.method !== 'OPTIONS') {
        refuse(response, 503, 'going away', true);
        return;
      }
      if (this.#options.polling.handle(request, response)) return;
    }
    const upstream = this.#upstreamFor(engine);
    // A waiting poll is as late as the legacy's heartbeat lets it be.
    if (engine) forward(request, response, upstream, { trust: this.#options.trust, timeout: 0 });
    else this.#plain.forward(request, response, upstream);
  }

  #upgrade(request: IncomingMessage, browser: Socket, head: Buffer): void {
    if ((this.#underWay.get(browser) ?? 0) > 0) {
      // Sent ahead of the answer to an earlier request: its bytes would end up in the middle of that answer.
      browser.destroy();
      return;
    }
    const framed = request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0);
    if (framed) {
      refuseUpgrade(request, browser, 400, 'an upgrade has no body');
      return;
    }
    if (/(^|,)\s*h2c\s*($|,)/i.test(request.headers.upgrade ?? '')) {
      refuseUpgrade(request, browser, 400, 'h2c is not offered');
      return;
    }
    const engine = engineRequest(request.url ?? '', this.#options.socketPath);
    if (this.#closing || (this.#draining && engine?.sid === undefined)) {
      refuseUpgrade(request, browser, 503, 'going away');
      return;
    }
    if (engine?.revision === '4' && engine.transport === 'websocket') {
      if (engine.sid === undefined) {
        this.#guard(this.#splice(request, browser, head));
        return;
      }
      if (this.#options.polling.upgrade(request, browser, head)) return;
    }
    this.#guard(this.#tunnel(request, browser, head, this.#upstreamFor(engine)));
  }

  async #splice(request: IncomingMessage, browser: Socket, head: Buffer): Promise<void> {
    const { upstreams, trust, connections, signals } = this.#options;
    const upgraded = await passUpgrade(request, browser, head, upstreams.pick(), { stripExtensions: true, trust });
    if (!upgraded) return;
    const spliced: SplicedWebSocket = new SplicedWebSocket(upgraded, connections.open(request), {
      signals,
      gone: () => this.#spliced.delete(spliced),
    });
    this.#spliced.add(spliced);
    spliced.start();
  }

  async #tunnel(request: IncomingMessage, browser: Socket, head: Buffer, upstream: Upstream): Promise<void> {
    const { trust } = this.#options;
    const upgraded = await passUpgrade(request, browser, head, upstream, { stripExtensions: false, trust });
    if (!upgraded) return;
    this.#tunnels.add(upgraded);
    upgraded.browser.once('close', () => this.#tunnels.delete(upgraded));
    tunnel(upgraded);
  }

  #upstreamFor(engine: EngineRequest | undefined): Upstream {
    const known = engine?.sid === undefined ? undefined : this.#options.polling.upstreamOf(engine.sid);
    return known ?? this.#options.upstreams.stick();
  }

  #guard(work: Promise<void>): void {
    work.catch((error: unknown) => this.#options.signals.internalError('upgrade', error));
  }

  /** Answers under way on a browser's socket. */
  #count(socket: Socket, response: ServerResponse): void {
    this.#underWay.set(socket, (this.#underWay.get(socket) ?? 0) + 1);
    response.once('close', () => this.#underWay.set(socket, (this.#underWay.get(socket) ?? 1) - 1));
  }
}

export interface EngineRequest {
  /** `EIO`, as it came; only `4` is looked into. */
  readonly revision: string | undefined;
  readonly transport: string | undefined;
  readonly sid: string | undefined;
}

/**
 * What a request on the Socket.IO path is about; undefined elsewhere, and where a parameter comes twice: what the
 * legacy makes of that is its own business. engine.io matches its path as a prefix.
 */
export function engineRequest(url: string, socketPath: string): EngineRequest | undefined {
  const bare = socketPath.slice(0, -1);
  if (!url.startsWith(bare)) return undefined;
  const next = url.charCodeAt(bare.length);
  if (next !== 0x2f && next !== 0x3f) return undefined;
  const query = url.indexOf('?');
  const params = new URLSearchParams(query < 0 ? '' : url.slice(query + 1));
  const names = ['EIO', 'transport', 'sid'] as const;
  if (names.some((name) => params.getAll(name).length > 1)) return undefined;
  const [revision, transport, sid] = names.map((name) => params.get(name) ?? undefined);
  return { revision, transport, sid: sid === '' ? undefined : sid };
}

function answerBroken(error: NodeJS.ErrnoException, socket: Socket): void {
  const answering = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage?.headersSent ?? false;
  if (error.code === 'ECONNRESET' || !socket.writable || answering) {
    socket.destroy();
    return;
  }
  const status =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? '431 Request Header Fields Too Large'
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? '408 Request Timeout'
        : '400 Bad Request';
  const body = JSON.stringify({ error: status.slice(4).toLowerCase() });
  socket.write(
    `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json; charset=utf-8\r\n` +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
  endSoon(socket);
}

function endBoth(pair: Upgraded): void {
  endSoon(pair.browser);
  endSoon(pair.legacy);
}

/** Resolves after `ms`, or as soon as `signal` says so. */
const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  sleep(ms, undefined, signal && { signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error;
  });

/** `count` of them, from anywhere in the list. */
function pickSome<T>(list: readonly T[], count: number): T[] {
  const pool = [...list];
  const some: T[] = [];
  while (some.length < count && pool.length > 0) {
    some.push(...pool.splice(Math.floor(Math.random() * pool.length), 1));
  }
  return some;
}
