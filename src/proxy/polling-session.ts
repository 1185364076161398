// One polling session, `polling → ws → dead`. The browser's GET and the legacy's GET are two things: an injection
// answers the browser's at once, the legacy's stays open and serves the browser's next one. Knows nothing of calls,
// nor of the frames that follow an upgrade.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock } from '../base/clock.js';
import type { DropCause } from '../base/service.js';
import type { Scanned } from '../protocol/answer-scanner.js';
import type { Incomplete } from '../protocol/frames.js';
import type { Outgoing } from '../protocol/packet.js';
import type { Filtered } from '../protocol/post-filter.js';
import type { Signals } from '../telemetry/signals.js';
import { requestHeaders, type Trust } from './headers.js';
import { forward } from './http.js';
import { answerWhole, type LegacyAnswer, LegacyGet, refuseLike, streamAnswer } from './polling-answer.js';
import { endWith, repeated } from './polling-headers.js';
import { AnswerHold, withBody } from './polling-hold.js';
import { Outbox } from './polling-outbox.js';
import { PollingPosts, type PostSession } from './polling-post.js';
import { Presence } from './polling-presence.js';
import { SessionTraffic } from './polling-traffic.js';
import type { Handshake, PacketOwner, Transport } from './transport.js';
import type { Upstream } from './upstreams.js';

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
  /** The legacy's GET has ended: what nobody fetched of it. `handOver` has to follow. Called once. */
  take(unfetched: LegacyAnswer | null): void;
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
  /** What the legacy answered and nobody may fetch yet. */
  readonly #hold = new AnswerHold();
  /** A large answer is on its way to the browser: nothing of ours may get in between. */
  streaming = false;
  /** Our own packets, waiting for a GET. */
  readonly own = new Outbox();
  /** Those that waited already when the legacy answered: they go before `held`. */
  readonly #ahead = new Outbox();
  /** What passed: attachments outstanding from the legacy (`open`), a taken header and the attachments that it lacks. */
  readonly traffic: SessionTraffic;
  /** The legacy has said goodbye, or answered as to a stranger. */
  gone = false;
  /** A WebSocket got its 101 and may succeed to this session; changes nothing before the browser's `5`. */
  upgrading = false;
  /** An upgrade has begun at some time. */
  upgradeTried = false;

  /** Why the session ends, where that is known ahead of its end. */
  #cause: DropCause | undefined;
  /** The browser has said `1`. */
  #left = false;
  /** For the browser's next GET: what waited for it, and `1`. */
  #farewell: Buffer | null = null;
  #pumping = false;
  #successor: Successor | null = null;
  /** The owner has its new transport. */
  #handedOver = false;
  /** Headers of the legacy's last answer to a GET, for answers of our own. */
  #answerHeaders: readonly string[];
  readonly #presence: Presence;
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
    this.#answerHeaders = answer;
    const path = `${request.url ?? '/'}&sid=${encodeURIComponent(handshake.sid)}`;
    this.posts = new PollingPosts(this, { path, headers: this.headers(request) }, answer);
    this.traffic = new SessionTraffic(parts.owner, handshake.maxPayload, parts.signals.counters);
    const waits = (): boolean => this.pending !== null;
    this.#presence = new Presence(clock, handshake, parts.slack, waits, () => this.#die('browser'));
    this.upstream.sessions++;
  }

  // ---- the browser's requests

  get(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'dead') {
      this.#sayGoodbye(response, this.#farewell ?? CLOSE);
      return;
    }
    this.#presence.asked();
    if (this.pending && this.#hold.answer) {
      // The legacy has answered the first: this one comes behind it, as it would there.
      this.#hold.behind(() => this.#next(request, response));
      return;
    }
    if (this.pending) {
      // Two at once: the legacy sees both, and ends the session.
      this.broken();
      this.pass(request, response);
      return;
    }
    if (!this.held && !this.#hold.answer && !this.legacyGet) this.#openLegacyGet(request);
    const get: BrowserGet = { request, response };
    this.pending = get;
    response.on('close', () => this.#browserGone(get));
    this.#pump();
  }

  #next(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'ws') this.pass(request, response);
    else if (!response.destroyed) this.get(request, response);
    else if (this.state === 'polling') {
      this.#endAtLegacy();
      this.#die('browser');
    }
  }

  post(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'dead') {
      request.resume();
      this.posts.ok(response);
      return;
    }
    this.#presence.asked();
    this.posts.take(request, response);
  }

  /** Whether requests with this sid are the session's business, and not the legacy's alone. */
  get serves(): boolean {
    return this.state === 'polling' || this.#farewell !== null;
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
    if (this.state === 'polling' && answer.status === 200 && this.#mayOwn()) this.#ahead.add(this.own.take());
    if (answer.status === 200) {
      this.#answerHeaders = answer.rawHeaders;
      this.#presence.known();
      const scanned = answer.text && this.traffic.scan(answer.text);
      if (scanned instanceof Promise) {
        const over = (now: LegacyAnswer, seen: Scanned | null): void => {
          if (seen) this.#scanned(seen);
          this.#fetchable(now);
        };
        this.#hold.begin(answer, scanned, over, (error) => this.fault(error));
        return;
      }
      if (scanned) {
        this.#scanned(scanned);
        this.#fetchable(withBody(answer, scanned.body));
        return;
      }
    } else if (this.state === 'polling') this.#goodbye(answer.status >= 500 ? 'legacy' : undefined);
    this.#fetchable(answer);
  }

  #fetchable(answer: LegacyAnswer): void {
    if (this.#left) this.gone = true;
    if (this.state === 'ws') {
      this.#legacyGetOver(answer);
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
    if (this.state === 'ws') {
      this.#legacyGetOver(null);
      return;
    }
    // Broken off is not ended: the legacy may be well, and its session alive.
    this.#endAtLegacy();
    this.#die('legacy');
  }

  /** What the legacy said, as it passes. */
  scan(text: Buffer): void {
    this.#scanned(this.traffic.scanPassing(text));
  }

  #scanned({ gone, ping }: Scanned): void {
    if (this.state !== 'polling') return;
    if (ping) this.#presence.pinged();
    if (gone) this.#goodbye(undefined);
  }

  #goodbye(cause: DropCause | undefined): void {
    this.gone = true;
    this.#cause ??= cause ?? (this.#presence.late ? 'browser' : 'legacy');
  }

  // ---- answers to the browser's GET

  /** Called whenever anything changed. */
  #pump(): void {
    const get = this.pending;
    if (!get || this.state !== 'polling') return;
    if (this.held && !this.#ahead.empty && (this.held.encoded || this.held.rest)) {
      this.#answerOwn(get, this.#ahead.takePayload()); // nothing can be put before it: it waits for the next GET
    } else if (this.held) this.#answer(get, this.held);
    else if (this.#mayOwn()) this.#answerOwn(get, this.own.takePayload());
  }

  #answer(get: BrowserGet, answer: LegacyAnswer): void {
    this.pending = null;
    this.held = null;
    this.#presence.answered();
    const { response } = get;
    if (answer.rest) {
      this.streaming = true;
      this.#stream(answer, response, (broken) => this.#streamed(broken));
      return;
    }
    const merge = answer.status === 200 && !answer.encoded && this.#mayOwn();
    const before = this.#ahead.empty ? [] : [this.#ahead.takePayload(), SEPARATOR];
    const after = merge ? [SEPARATOR, this.own.takePayload()] : [];
    const merged = before.length + after.length > 0;
    answerWhole(answer, response, merged ? Buffer.concat([...before, answer.body, ...after]) : answer.body);
    if (this.gone) this.#die('legacy');
  }

  #stream(answer: LegacyAnswer, response: ServerResponse, over: (broken: DropCause | undefined) => void): void {
    streamAnswer(answer, response, { scan: (text) => this.scan(text), over });
  }

  #streamed(broken: DropCause | undefined): void {
    this.streaming = false;
    this.legacyGet = null;
    if (this.state === 'ws') {
      this.#legacyGetOver(null);
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
    return !this.own.empty && this.traffic.open === 0 && !this.gone && !this.streaming && !this.#hold.answer;
  }

  #answerOwn(get: Pick<BrowserGet, 'response'>, body: Buffer): void {
    this.pending = null;
    this.#presence.answered();
    get.response.writeHead(200, [
      ...repeated(this.#answerHeaders),
      'Content-Type',
      'text/plain; charset=UTF-8',
      'Content-Length',
      String(body.length),
    ]);
    endWith(get.response, body);
  }

  // ---- Transport

  get live(): boolean {
    return this.state !== 'dead';
  }

  send(packets: readonly Outgoing[]): void {
    if (this.state === 'dead' || this.gone) return;
    if (this.#handedOver) {
      this.#successor?.transport.send(packets);
      return;
    }
    if (!this.own.add(packets)) {
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
    this.#parts.signals.bound('inject-overflow', { transport: 'polling', bytes: this.own.bytes });
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
    const said = get ? this.#hold.drop()?.text : undefined;
    const before = said ? [said, SEPARATOR] : [];
    const own = this.#mayOwn() ? [this.own.takePayload(), SEPARATOR] : [];
    const goodbye = Buffer.concat([...before, ...own, CLOSE]);
    if (get) this.#answerOwn(get, goodbye);
    else this.#farewell = goodbye;
    this.#die('drain');
  }

  #sayGoodbye(response: ServerResponse, goodbye: Buffer): void {
    this.#farewell = null;
    this.#answerOwn({ response }, goodbye);
    this.#parts.forget(this);
  }

  // ---- what POSTs tell

  filter(body: Buffer): Filtered {
    if (endsWithClose(body)) {
      this.#left = true;
      this.broken();
    }
    return this.traffic.filter(body);
  }

  broken(): void {
    this.#cause ??= 'browser';
  }

  posted(status: number): void {
    if (this.state !== 'polling') return;
    if (status === 200) {
      this.#presence.known();
      // It left, and waits for no answer any more.
      if (this.#left && !this.pending) this.#die('browser');
      return;
    }
    this.#goodbye(status === 0 || status >= 500 ? 'legacy' : undefined);
    if (this.pending || this.legacyGet || this.held || this.#hold.answer) return;
    if (status === 0) this.#endAtLegacy();
    this.#die('legacy');
  }

  get swallows(): boolean {
    return this.gone && this.held?.status === 200;
  }

  incomplete(): Incomplete | undefined {
    return this.traffic.takeIncomplete();
  }

  fault(error: unknown): void {
    this.#parts.signals.internalError('polling', error);
  }

  // ---- the upgrade

  /** The browser's `5` has passed: everything goes by the WebSocket, once the legacy's GET has ended. */
  succeed(successor: Successor): void {
    if (this.state !== 'polling') return;
    this.state = 'ws';
    this.#presence.stop();
    this.posts.end();
    this.#successor = successor;
    const { held } = this;
    this.held = null;
    if (held || (!this.legacyGet && !this.#hold.answer)) this.#legacyGetOver(held);
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

  /** Our own packets that nobody fetched; from here on they go to the WebSocket itself. */
  handOver(): readonly Outgoing[] {
    this.#handedOver = true;
    return [...this.#ahead.take(), ...this.own.take()];
  }

  #legacyGetOver(answer: LegacyAnswer | null): void {
    // A large answer can still be aborted.
    if (!answer?.rest) this.legacyGet = null;
    const get = this.pending;
    this.pending = null;
    let unfetched = answer;
    if (get) {
      unfetched = null;
      if (!answer) this.pass(get.request, get.response);
      else if (answer.rest) this.#stream(answer, get.response, () => undefined);
      else answerWhole(answer, get.response, answer.body);
    } else if (answer && answer.status !== 200) {
      // What is not a payload says nothing to a browser that has left polling.
      unfetched = null;
      answer.rest?.destroy();
    }
    this.#successor?.take(unfetched);
  }

  // ---- the end

  /** The legacy ends its session at once: it sees its GET broken off, or the browser's goodbye. */
  #endAtLegacy(): void {
    const get = this.legacyGet?.sent && !this.streaming ? this.legacyGet : null;
    get?.abort();
    // Ten times a second a GET is answered while an upgrade is tried; an abort that crosses such an answer says nothing.
    if (!get || this.upgradeTried) this.posts.close();
  }

  #die(cause: DropCause): void {
    if (this.state !== 'polling') return;
    this.#over();
    this.owner.closed(this.#cause ?? cause);
  }

  #over(): void {
    this.state = 'dead';
    this.upstream.sessions--;
    this.#presence.stop();
    this.#successor = null;
    this.posts.end();
    if (!this.streaming) this.legacyGet?.abort();
    this.legacyGet = null;
    this.held = null;
    this.#hold.drop();
    this.#ahead.take();
    this.own.take();
    if (this.#farewell) {
      this.clock.after(FAREWELL, () => {
        this.#farewell = null;
        this.#parts.forget(this);
      });
    } else this.#parts.forget(this);
  }
}

/** Whether the browser says `1`: nothing comes after it. */
const endsWithClose = (body: Buffer): boolean => body.at(-1) === 0x31 && (body.length === 1 || body.at(-2) === 0x1e);
