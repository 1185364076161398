// The legacies behind the proxy: which of them gets a new session, and how a byte or a request reaches it.
// Knows nothing of what is sent. Requests are never repeated here: a repeated GET hides lost data, a repeated POST
// doubles events.
import http from 'node:http';
import net from 'node:net';
import type { Duplex } from 'node:stream';
import tls from 'node:tls';
import { type Clock, systemClock, type Timer } from '../base/clock.js';
import type { Signals } from '../telemetry/signals.js';

/** A legacy that does not take a connection within this is as good as down; milliseconds. */
const CONNECT_TIMEOUT = 10_000;
const PROBE_EVERY = 1_000;
/** An idle socket is kept this long where the legacy gives no `Keep-Alive` hint (some close at 5 s without saying so). */
const IDLE_WITHOUT_HINT = 4_000;
/** Given up this long before the legacy would close it, so that no request runs into its FIN. */
const IDLE_MARGIN = 1_000;
/** A connect that fails for want of descriptors, memory or ports here says nothing of the legacy. */
const OURS: ReadonlySet<string | undefined> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL']);
/** Largest head of a legacy's answer; bytes. Browsers take more than Node's 16 KiB. */
const MAX_ANSWER_HEAD = 65_536;

export interface UpstreamsOptions {
  /** `http://host:port` or `https://host:port`, at least one. A path is not allowed. */
  readonly urls: readonly string[];
  /** PEM; used instead of the system's for https legacies. */
  readonly ca?: string | Buffer | undefined;
  readonly signals: Pick<Signals, 'legacyDown' | 'legacyUp' | 'bound'>;
  readonly clock?: Clock;
}

/** All legacies. `pick` for a new session, `stick` for what belongs to none. */
export class Upstreams {
  readonly all: readonly Upstream[];
  #next = 0;

  /** Throws a `TypeError` where a URL can't be used. */
  constructor(options: UpstreamsOptions) {
    if (options.urls.length === 0) throw new TypeError('at least one legacy URL is needed');
    this.all = options.urls.map((url) => new Upstream(url, options));
  }

  /** Round robin among the living. Where none is, the next one all the same: trying it is the quickest probe. */
  pick(): Upstream {
    const count = this.all.length;
    for (let i = 0; i < count; i++) {
      const candidate = this.all[(this.#next + i) % count]!;
      if (candidate.up) {
        this.#next = (this.#next + i + 1) % count;
        return candidate;
      }
    }
    const candidate = this.all[this.#next]!;
    this.#next = (this.#next + 1) % count;
    return candidate;
  }

  /** The first living one: the same for every plain request as long as it lives. */
  stick(): Upstream {
    return this.all.find((upstream) => upstream.up) ?? this.all[0]!;
  }

  anyUp(): boolean {
    return this.all.some((upstream) => upstream.up);
  }

  /** Whether one was reached and has not been lost since. */
  anyReached(): boolean {
    return this.all.some((upstream) => upstream.up && upstream.reached);
  }

  /** From now on looks after each of them also where nobody asks for it. */
  watch(): void {
    for (const upstream of this.all) upstream.watch();
  }

  /** Ends probes and idle sockets; sockets in use live on. */
  close(): void {
    for (const upstream of this.all) upstream.close();
  }
}

export interface UpstreamRequest {
  readonly method: string;
  /** As on the request line. */
  readonly path: string;
  /** Names and values in turn, in the order and case they are to have. With Host. */
  readonly headers: readonly string[];
}

/** One legacy. */
export class Upstream {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
  /** `host:port`, as in a URL. */
  readonly address: string;
  /** For requests that bring no Host themselves. */
  readonly hostHeader: string;
  /** Engine.IO sessions that live there; whoever opens one counts it up and down. */
  sessions = 0;
  #up = true;
  /** A connect got through once. */
  #reached = false;
  #watched = false;
  #closed = false;
  #probe: Timer | undefined;
  #tlsSession: Buffer | undefined;
  readonly #ca: string | Buffer | undefined;
  readonly #signals: Pick<Signals, 'legacyDown' | 'legacyUp' | 'bound'>;
  readonly #clock: Clock;
  /** Keeps sockets to this legacy, TLS or not; for requests by `http.request`. */
  readonly agent: http.Agent;

  constructor(url: string, options: Omit<UpstreamsOptions, 'urls'>) {
    const parsed = new URL(url);
    if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') throw new TypeError(`${url}: not http or https`);
    if (parsed.pathname !== '/' || parsed.search) throw new TypeError(`${url}: a legacy has no path`);
    this.url = parsed.origin;
    this.secure = parsed.protocol === 'https:';
    this.host = parsed.hostname.replace(/^\[|\]$/g, '');
    this.hostHeader = parsed.host;
    this.port = parsed.port ? Number(parsed.port) : this.secure ? 443 : 80;
    this.address = `${parsed.hostname}:${this.port}`;
    this.#ca = options.ca;
    this.#signals = options.signals;
    this.#clock = options.clock ?? systemClock;
    this.agent = new KeptAgent(() => this.connect());
  }

  /** False from a failed connect until a probe gets through. */
  get up(): boolean {
    return this.#up;
  }

  get reached(): boolean {
    return this.#reached;
  }

  /** Connects now and then, so that a legacy's going away is noticed before a browser notices it. */
  watch(): void {
    this.#watched = true;
    this.#tryNow();
  }

  /** A request on a kept socket. The caller writes the body, ends it, and listens for `error`. */
  request(options: UpstreamRequest): http.ClientRequest {
    return this.#request(options, { agent: this.agent });
  }

  /** A request on a socket of its own, for upgrades: see `upgrade` of `http.ClientRequest`. */
  requestUpgrade(options: UpstreamRequest): http.ClientRequest {
    return this.#request(options, { createConnection: () => this.connect() });
  }

  /**
   * A socket to the legacy, connecting; what is written is sent once it is connected. A connect that fails is
   * reported here; it reaches the caller as `error`. Half-open: the caller ends it after the legacy's FIN.
   */
  connect(): net.Socket {
    const socket = this.#open();
    const connected = this.secure ? 'secureConnect' : 'connect';
    const timer = setTimeout(() => socket.destroy(timedOut(this.url)), CONNECT_TIMEOUT);
    timer.unref();
    const failed = (error: NodeJS.ErrnoException) => {
      if (OURS.has(error.code)) this.#signals.bound('sockets', { why: error.code ?? '' });
      else this.reportFailure(error.code ?? error.message);
    };
    socket.once('error', failed);
    socket.once('close', () => clearTimeout(timer));
    socket.once(connected, () => {
      clearTimeout(timer);
      socket.removeListener('error', failed);
      if (!this.#up || !this.#reached) this.#recovered();
    });
    return socket;
  }

  /** No new sessions from now on, until a probe gets through. */
  reportFailure(why: string): void {
    if (!this.#up || this.#closed) return;
    this.#up = false;
    this.#signals.legacyDown(this.url, why);
    this.#probeLater();
  }

  close(): void {
    this.#closed = true;
    this.#probe?.cancel();
    this.agent.destroy();
  }

  #request(options: UpstreamRequest, over: http.RequestOptions): http.ClientRequest {
    const request = http.request({
      ...over,
      host: this.host,
      port: this.port,
      method: options.method,
      path: options.path,
      headers: options.headers,
      maxHeaderSize: MAX_ANSWER_HEAD,
    });
    // Node drops headers over 2,000 without a word.
    request.maxHeadersCount = 0;
    return request;
  }

  #open(): net.Socket {
    const address = { host: this.host, port: this.port, noDelay: true, allowHalfOpen: true, autoSelectFamily: true };
    if (!this.secure) return net.connect(address);
    const options: tls.ConnectionOptions = { ...address, ALPNProtocols: ['http/1.1'] };
    if (net.isIP(this.host) === 0) options.servername = this.host;
    if (this.#ca !== undefined) options.ca = this.#ca;
    if (this.#tlsSession) options.session = this.#tlsSession;
    const socket = tls.connect(options);
    socket.setNoDelay(true);
    socket.on('session', (session: Buffer) => {
      this.#tlsSession = session;
    });
    return socket;
  }

  #probeLater(): void {
    if (this.#closed) return;
    this.#probe?.cancel();
    this.#probe = this.#clock.after(PROBE_EVERY, () => {
      if (!this.#closed && (this.#watched || !this.#up)) this.#tryNow();
    });
  }

  #tryNow(): void {
    const socket = this.connect();
    // What failed is told by `connect`; only the next probe is due.
    socket.once('error', () => socket.destroy());
    socket.once(this.secure ? 'secureConnect' : 'connect', () => socket.destroy());
    socket.once('close', () => {
      if (this.#watched || !this.#up) this.#probeLater();
    });
  }

  #recovered(): void {
    if (this.#closed) return;
    this.#up = true;
    this.#reached = true;
    if (!this.#watched) this.#probe?.cancel();
    this.#signals.legacyUp(this.url);
  }
}

/** Keeps idle sockets only as long as the legacy surely does. */
class KeptAgent extends http.Agent {
  readonly #connect: () => net.Socket;

  constructor(connect: () => net.Socket) {
    super({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY, maxFreeSockets: 256, scheduling: 'lifo' });
    this.#connect = connect;
  }

  override createConnection(): net.Socket {
    const socket: net.Socket & { _httpMessage?: http.ClientRequest | null } = this.#connect();
    // A kept socket that the legacy has closed must not be used again: half-open, it would swallow the next request.
    socket.once('end', () => {
      if (socket._httpMessage) socket.end();
      else socket.destroy();
    });
    return socket;
  }

  override keepSocketAlive(socket: Duplex): boolean {
    const kept = socket as net.Socket & { _httpMessage?: http.ClientRequest & { res?: http.IncomingMessage } };
    const { method = 'GET', res } = kept._httpMessage ?? {};
    // Who refuses a body may close behind the answer without saying so (Engine.IO's 413 does): the next request, somebody
    // else's, would run into that.
    if (method !== 'GET' && method !== 'HEAD' && (res?.statusCode ?? 500) >= 400) return false;
    const announced = res?.headers['keep-alive'];
    const hint = /\btimeout=(\d+)/.exec(String(announced))?.[1];
    const idle = hint === undefined ? IDLE_WITHOUT_HINT : Number(hint) * 1_000 - IDLE_MARGIN;
    if (idle <= 0) return false;
    kept.setKeepAlive(true, 1_000);
    kept.unref();
    kept.setTimeout(idle);
    return true;
  }

  override reuseSocket(socket: Duplex, request: http.ClientRequest): void {
    (socket as net.Socket).setTimeout(0);
    super.reuseSocket(socket, request);
  }
}

function timedOut(url: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${url}: no connection within ${CONNECT_TIMEOUT} ms`), { code: 'ETIMEDOUT' });
}
