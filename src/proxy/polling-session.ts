// One polling session, `polling → ws → dead`. The browser's GET and the legacy's GET are two things: an injection
// answers the browser's at once, the legacy's stays open and serves the browser's next one. Knows nothing of calls,
// nor of the frames that follow an upgrade.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, Timer } from '../base/clock.js';
import type { DropCause } from '../base/service.js';
import { type Outgoing, type Packet, PacketType } from '../protocol/packet.js';
import { AnswerScanner, type Filtered, itemsOf, joinPayload, PostFilter } from '../protocol/payload.js';
import type { Signals } from '../telemetry/signals.js';
import { requestHeaders, type Trust } from './headers.js';
import { forward } from './http.js';
import { answerWhole, type LegacyAnswer, LegacyGet, refuseLike, streamAnswer } from './polling-answer.js';
import { repeated } from './polling-headers.js';
import { PollingPosts, type PostSession } from './polling-post.js';
import type { Handshake, PacketOwner, Transport } from './transport.js';
import type { Upstream } from './upstreams.js';

/** What we inject to a browser that doesn't fetch it: over this the session is ended, at the legacy too. Bytes. */
export const MAX_OWN = 1024 * 1024;
/** As long as engine.io waits for the GET that takes its goodbye; milliseconds. */
const FAREWELL = 30_000;
const SEPARATOR = Buffer.from('\x1e');
/** Engine.IO's `1`. */
const CLOSE = Buffer.from('1');

export interface SessionParts {
  readonly handshake: Handshake;
  readonly upstream: Upstream;
  readonly owner: PacketOwner;
  readonly trust: Trust;
  readonly signals: Signals;
  readonly clock: Clock;
  /** Added to `pingInterval + pingTimeout` before a silent session is given up; milliseconds. */
  readonly slack: number;
  /** Nothing is asked of the session any more. */
  forget(session: PollingSession): void;
}

interface BrowserGet {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** The session's WebSocket once the browser's `5` has passed. */
export interface Successor {
  readonly transport: Transport;
  /** The legacy's GET has ended: what nobody fetched of it, and our own packets that nobody fetched. Called once. */
  take(unfetched: LegacyAnswer | null, own: readonly Outgoing[]): void;
}

export class PollingSession implements Transport, PostSession {
  readonly kind = 'polling';
  readonly sid: string;
  readonly upstream: Upstream;
  readonly owner: PacketOwner;
  readonly clock: Clock;
  readonly handshake: Handshake;
  readonly maxPayload: number;
  readonly posts: PollingPosts;

  state: 'polling' | 'ws' | 'dead' = 'polling';
  /** The browser's GET. While it is set, the legacy has one too or has answered. */
  pending: BrowserGet | null = null;
  /** The legacy's GET, until its answer is whole. */
  legacyGet: LegacyGet | null = null;
  /** What the legacy answered and nobody fetched yet. */
  held: LegacyAnswer | null = null;
  /** A large answer is on its way to the browser: nothing of ours may get in between. */
  streaming = false;
  /** Our own packets, waiting for a GET. */
  own: Outgoing[] = [];
  ownBytes = 0;
  /** What passed from the legacy: attachments outstanding (`open`), packets to show. */
  readonly scanner: AnswerScanner;
  /** What passed from the browser: a taken header and the attachments that it lacks. */
  readonly filterer: PostFilter;
  /** The legacy has said goodbye, or answered as to a stranger. */
  gone = false;
  /** A WebSocket got its 101 and may succeed to this session; changes nothing before the browser's `5`. */
  upgrading = false;
  /** Socket.IO sockets that the legacy accepted on this session. */
  sockets = 0;

  /** Why the session ends, where that is known ahead of its end. */
  #cause: DropCause | undefined;
  /** The browser has said `1`. */
  #left = false;
  #farewell = false;
  #pumping = false;
  #successor: Successor | null = null;
  /** The owner has its new transport. */
  #handedOver = false;
  /** When the browser was last heard of, or got an answer. */
  #seen: number;
  /** The browser came back after a silence in which a heartbeat must have failed. */
  #late = false;
  #idle: Timer;
  /** Headers of the legacy's last answer to a GET, for answers of our own. */
  #answerHeaders: readonly string[];
  readonly #life: number;
  readonly #pingTimeout: number;
  readonly #parts: SessionParts;

  /** The handshake and its answer, which the session's own requests and answers follow until there are others. */
  constructor(parts: SessionParts, request: IncomingMessage, answer: readonly string[]) {
    const { handshake, clock } = parts;
    this.#parts = parts;
    this.sid = handshake.sid;
    this.handshake = handshake;
    this.upstream = parts.upstream;
    this.owner = parts.owner;
    this.clock = clock;
    this.maxPayload = handshake.maxPayload;
    this.#pingTimeout = handshake.pingTimeout;
    this.#life = handshake.pingInterval + handshake.pingTimeout + parts.slack;
    this.#answerHeaders = answer;
    const path = `${request.url ?? '/'}&sid=${encodeURIComponent(handshake.sid)}`;
    this.posts = new PollingPosts(this, { path, headers: this.headers(request) }, answer);
    const { owner } = parts;
    const { counters } = parts.signals;
    this.scanner = new AnswerScanner(
      {
        packet: (packet) => {
          this.#count(packet);
          owner.fromLegacy(packet);
        },
      },
      owner.legacyInterest,
      () => owner.watching(),
      counters,
    );
    this.filterer = new PostFilter(
      {
        packet: (packet) => {
          if (packet.type === PacketType.DISCONNECT) this.sockets--;
          return owner.fromBrowser(packet);
        },
        foreign: () => owner.foreign(),
      },
      owner.interest,
      handshake.maxPayload,
      counters,
    );
    this.#seen = clock.now();
    this.#idle = clock.after(this.#life, () => this.#stillThere());
    this.upstream.sessions++;
  }

  // ---- the browser's requests

  get(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'dead') {
      this.#sayGoodbye(response);
      return;
    }
    this.#touch();
    if (this.pending) {
      // Two at once: the legacy sees both, and ends the session.
      this.broken();
      this.pass(request, response);
      return;
    }
    const get: BrowserGet = { request, response };
    this.pending = get;
    response.on('close', () => this.#browserGone(get));
    if (!this.held && !this.legacyGet) this.#openLegacyGet(request);
    this.#pump();
  }

  post(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'dead') {
      request.resume();
      this.posts.ok(response);
      return;
    }
    this.#touch();
    this.posts.take(request, response);
  }

  /** Whether requests with this sid are the session's business, and not the legacy's alone. */
  get serves(): boolean {
    return this.state === 'polling' || this.#farewell;
  }

  pass(request: IncomingMessage, response: ServerResponse): void {
    forward(request, response, this.upstream, { trust: this.#parts.trust, timeout: 0 });
  }

  headers(request: IncomingMessage): string[] {
    return requestHeaders(request, this.#parts.trust, this.upstream.hostHeader);
  }

  #browserGone(get: BrowserGet): void {
    // Answered already: the heartbeat finds a lost answer, as direct.
    if (this.pending !== get) return;
    this.pending = null;
    if (this.state !== 'polling') return;
    this.#endAtLegacy();
    this.#die('browser');
  }

  // ---- the legacy's GET

  #openLegacyGet(request: IncomingMessage): void {
    const path = request.url ?? '/';
    const get = new LegacyGet(this.upstream.request({ method: 'GET', path, headers: this.headers(request) }), {
      answered: (answer) => this.#legacyAnswered(answer),
      failed: (error) => this.#legacyFailed(error),
    });
    this.legacyGet = get;
  }

  #legacyAnswered(answer: LegacyAnswer): void {
    if (!answer.rest) this.legacyGet = null;
    if (answer.status === 200) {
      this.#answerHeaders = answer.rawHeaders;
      if (answer.text) this.scan(answer.text);
    } else if (this.state === 'polling') this.#goodbye(answer.status >= 500 ? 'legacy' : undefined);
    if (this.#left) this.gone = true;
    if (this.state === 'ws') {
      this.#handOver(answer);
      return;
    }
    this.held = answer;
    this.#pump();
  }

  #legacyFailed(error: NodeJS.ErrnoException): void {
    this.legacyGet = null;
    const get = this.pending;
    this.pending = null;
    if (get) refuseLike(get.response, error);
    if (this.state === 'ws') this.#handOver(null);
    else this.#die('legacy');
  }

  /** What the legacy said, before it passes. */
  scan(text: Buffer): void {
    const { gone } = this.scanner.scan(text);
    if (gone && this.state === 'polling') this.#goodbye(undefined);
  }

  #goodbye(cause: DropCause | undefined): void {
    this.gone = true;
    this.#cause ??= cause ?? (this.#late ? 'browser' : 'legacy');
  }

  // ---- answers to the browser's GET

  /** Called whenever anything changed. */
  #pump(): void {
    const get = this.pending;
    if (!get || this.state !== 'polling') return;
    if (this.held) this.#answer(get, this.held);
    else if (this.#mayOwn()) this.#answerOwn(get, this.#takeOwn());
  }

  #answer(get: BrowserGet, answer: LegacyAnswer): void {
    this.pending = null;
    this.held = null;
    this.#seen = this.clock.now();
    const { response } = get;
    if (answer.rest) {
      this.streaming = true;
      streamAnswer(answer, response, {
        scan: (text) => this.scan(text),
        over: (broken) => this.#streamed(broken),
      });
      return;
    }
    const merge = answer.status === 200 && !answer.encoded && this.#mayOwn();
    answerWhole(answer, response, merge ? Buffer.concat([answer.body, SEPARATOR, this.#takeOwn()]) : answer.body);
    if (this.gone) this.#die('legacy');
  }

  #streamed(broken: DropCause | undefined): void {
    this.streaming = false;
    this.legacyGet = null;
    if (this.state === 'ws') {
      this.#handOver(null);
      return;
    }
    if (this.state === 'dead') return;
    // What the browser broke off is found by the heartbeat, as direct.
    if (broken === 'legacy' || this.gone) {
      this.#die('legacy');
      return;
    }
    if (this.pending && !this.held) this.#openLegacyGet(this.pending.request);
    this.#pump();
  }

  #mayOwn(): boolean {
    return this.own.length > 0 && this.scanner.attachmentsDue === 0 && !this.gone && !this.streaming;
  }

  #takeOwn(): Buffer {
    const body = joinPayload(this.own.flatMap(itemsOf));
    this.own = [];
    this.ownBytes = 0;
    return body;
  }

  #answerOwn(get: Pick<BrowserGet, 'response'>, body: Buffer): void {
    this.pending = null;
    this.#seen = this.clock.now();
    get.response.writeHead(200, [
      ...repeated(this.#answerHeaders),
      'Content-Type',
      'text/plain; charset=UTF-8',
      'Content-Length',
      String(body.length),
    ]);
    get.response.end(body);
  }

  // ---- Transport

  send(packets: readonly Outgoing[]): void {
    if (this.state === 'dead' || this.gone) return;
    if (this.#handedOver) {
      this.#successor?.transport.send(packets);
      return;
    }
    for (const packet of packets) {
      this.own.push(packet);
      this.ownBytes += sizeOf(packet);
    }
    if (this.ownBytes > MAX_OWN) {
      this.#overflow();
      return;
    }
    if (this.#pumping) return;
    // The packets of one turn go together.
    this.#pumping = true;
    queueMicrotask(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  #overflow(): void {
    this.#parts.signals.bound('inject-overflow', { transport: 'polling', bytes: this.ownBytes });
    const get = this.pending;
    this.pending = null;
    get?.response.destroy();
    if (this.state === 'ws') {
      this.#successor?.transport.end(1011, 'too much unfetched');
      return;
    }
    this.#endAtLegacy();
    this.#die('browser');
  }

  forward(packet: Outgoing): void {
    if (this.state === 'polling') this.posts.forward(packet);
    else this.#successor?.transport.forward(packet);
  }

  /** The browser learns it from `1`, by its pending GET or by its next one; as when engine.io closes. */
  end(code: number, reason: string): void {
    if (this.state === 'ws') this.#successor?.transport.end(code, reason);
    if (this.state !== 'polling') return;
    this.#endAtLegacy();
    const get = this.pending;
    if (get) {
      const last = this.#mayOwn() ? Buffer.concat([this.#takeOwn(), SEPARATOR, CLOSE]) : CLOSE;
      this.#answerOwn(get, last);
    } else this.#farewell = true;
    this.#die('drain');
  }

  #sayGoodbye(response: ServerResponse): void {
    this.#farewell = false;
    this.#answerOwn({ response }, CLOSE);
    this.#parts.forget(this);
  }

  #count(packet: Packet): void {
    if (packet.type === PacketType.CONNECT) this.sockets++;
    else if (packet.type === PacketType.DISCONNECT) this.sockets--;
  }

  // ---- what POSTs tell

  filter(body: Buffer): Filtered {
    if (endsWithClose(body)) {
      this.#left = true;
      this.broken();
    }
    return this.filterer.filter(body);
  }

  broken(): void {
    this.#cause ??= 'browser';
  }

  posted(status: number): void {
    if (this.state !== 'polling') return;
    if (status !== 200) this.#goodbye(status === 0 || status >= 500 ? 'legacy' : undefined);
    else if (!this.#left) return;
    if (!this.pending && !(this.legacyGet && !this.#left) && !this.held) this.#die('legacy');
  }

  fault(error: unknown): void {
    this.#parts.signals.internalError('polling', error);
  }

  // ---- the upgrade

  /** The browser's `5` has passed: everything goes by the WebSocket, once the legacy's GET has ended. */
  succeed(successor: Successor): void {
    if (this.state !== 'polling') return;
    this.state = 'ws';
    this.#idle.cancel();
    this.#successor = successor;
    const { held } = this;
    this.held = null;
    if (held || !this.legacyGet) this.#handOver(held);
  }

  /** Its WebSocket is gone. Before the browser's `5` the session goes on polling. */
  lost(cause: DropCause): void {
    this.upgrading = false;
    if (this.state === 'polling') {
      this.#pump();
      return;
    }
    if (this.state === 'dead') return;
    const told = this.#handedOver;
    this.#over();
    if (!told) this.owner.closed(cause);
  }

  #handOver(answer: LegacyAnswer | null): void {
    this.legacyGet = null;
    const get = this.pending;
    this.pending = null;
    let unfetched = answer;
    if (get && answer) {
      unfetched = null;
      if (answer.rest) streamAnswer(answer, get.response, { scan: () => undefined, over: () => undefined });
      else answerWhole(answer, get.response, answer.body);
    }
    // What is not a payload says nothing to a browser that has left polling.
    const { own } = this;
    this.own = [];
    this.#handedOver = true;
    this.#successor?.take(unfetched?.status === 200 ? unfetched : null, own);
  }

  // ---- the end

  #touch(): void {
    const now = this.clock.now();
    this.#late = !this.pending && now - this.#seen > this.#pingTimeout;
    this.#seen = now;
  }

  #stillThere(): void {
    const left = this.pending ? this.#life : this.#seen + this.#life - this.clock.now();
    if (left <= 0) {
      this.#die('browser');
      return;
    }
    this.#idle = this.clock.after(left, () => this.#stillThere());
  }

  /** The legacy ends its session at once: it sees its GET broken off, or the browser's goodbye. */
  #endAtLegacy(): void {
    if (this.legacyGet?.sent && !this.streaming) this.legacyGet.abort();
    else this.posts.close();
  }

  #die(cause: DropCause): void {
    if (this.state !== 'polling') return;
    this.#over();
    this.owner.closed(this.#cause ?? cause);
  }

  #over(): void {
    this.state = 'dead';
    this.upstream.sessions--;
    this.#idle.cancel();
    this.#successor = null;
    this.posts.end();
    if (!this.streaming) this.legacyGet?.abort();
    this.legacyGet = null;
    this.held = null;
    this.own = [];
    if (this.#farewell) {
      this.#idle = this.clock.after(FAREWELL, () => {
        this.#farewell = false;
        this.#parts.forget(this);
      });
    } else this.#parts.forget(this);
  }
}

/** What a packet of ours weighs in a payload; bytes. */
const sizeOf = (packet: Outgoing): number =>
  packet.attachments.reduce((sum, bytes) => sum + bytes.length * 1.4, Buffer.byteLength(packet.text));

/** Whether the browser says `1`: nothing comes after it. */
const endsWithClose = (body: Buffer): boolean => body.at(-1) === 0x31 && (body.length === 1 || body.at(-2) === 0x1e);
