// One polling session, `polling → ws → dead`: what its requests are to it, its upgrade and its end. Its GETs and its POSTs
// are served by files of their own. Knows nothing of calls, nor of the frames that follow an upgrade.
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
import type { LegacyAnswer } from './polling-answer.js';
import { CLOSE, type GetSession, PollingGets } from './polling-gets.js';
import { PollingPosts, type PostSession } from './polling-post.js';
import { Presence } from './polling-presence.js';
import { SessionTraffic } from './polling-traffic.js';
import type { Handshake, PacketOwner, Transport } from './transport.js';
import type { Upstream } from './upstreams.js';

/** As long as engine.io waits for the GET that takes its goodbye; milliseconds. */
const FAREWELL = 30_000;

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

/** The session's WebSocket once the browser's `5` has passed. */
export interface Successor {
  readonly transport: Transport;
  /** The legacy's GET has ended: what nobody fetched of it. `handOver` has to follow. Called once. */
  take(unfetched: LegacyAnswer | null): void;
}

export class PollingSession implements Transport, GetSession, PostSession {
  readonly kind = 'polling';
  readonly sid: string;
  readonly upstream: Upstream;
  readonly owner: PacketOwner;
  readonly clock: Clock;
  readonly handshake: Handshake;
  readonly maxPayload: number;
  readonly gets: PollingGets;
  readonly posts: PollingPosts;

  state: 'polling' | 'ws' | 'dead' = 'polling';
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
  #successor: Successor | null = null;
  /** The owner has its new transport. */
  #handedOver = false;
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
    const path = `${request.url ?? '/'}&sid=${encodeURIComponent(handshake.sid)}`;
    this.gets = new PollingGets(this, answer);
    this.posts = new PollingPosts(this, { path, headers: this.headers(request) }, answer);
    this.traffic = new SessionTraffic(parts.owner, handshake.maxPayload, parts.signals.counters);
    const waits = (): boolean => this.gets.pending !== null;
    this.#presence = new Presence(clock, handshake, parts.slack, waits, () => this.die('browser'));
    this.upstream.sessions++;
  }

  // ---- the browser's requests

  get(request: IncomingMessage, response: ServerResponse): void {
    if (this.state === 'dead') {
      this.#sayGoodbye(response, this.#farewell ?? CLOSE);
      return;
    }
    this.#presence.asked();
    this.gets.take(request, response);
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

  // ---- what GETs tell

  known(): void {
    this.#presence.known();
  }

  answerCame(): void {
    if (this.#left) this.gone = true;
  }

  answered(): void {
    this.#presence.answered();
  }

  /** What the legacy said, as it passes. */
  scan(text: Buffer): void {
    this.scanned(this.traffic.scanPassing(text));
  }

  scanned({ gone, ping }: Scanned): void {
    if (this.state !== 'polling') return;
    if (ping) this.#presence.pinged();
    if (gone) this.goodbye(undefined);
  }

  goodbye(cause: DropCause | undefined): void {
    this.gone = true;
    this.#cause ??= cause ?? (this.#presence.late ? 'browser' : 'legacy');
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
    if (!this.gets.put(packets)) this.#overflow();
  }

  #overflow(): void {
    this.#parts.signals.bound('inject-overflow', { transport: 'polling', bytes: this.gets.ownBytes });
    this.gets.cutOff();
    if (this.state === 'ws') {
      this.#successor?.transport.end(1011, 'too much unfetched');
      return;
    }
    this.brokenOff('browser');
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
    this.#farewell = this.gets.sayGoodbye();
    this.die('drain');
  }

  #sayGoodbye(response: ServerResponse, goodbye: Buffer): void {
    this.#farewell = null;
    this.gets.answerOwn({ response }, goodbye);
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
      if (this.#left && !this.gets.pending) this.die('browser');
      return;
    }
    this.goodbye(status === 0 || status >= 500 ? 'legacy' : undefined);
    if (this.gets.busy) return;
    if (status === 0) this.#endAtLegacy();
    this.die('legacy');
  }

  get swallows(): boolean {
    return this.gone && this.gets.held?.status === 200;
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
    this.gets.leave();
  }

  legacyGetOver(unfetched: LegacyAnswer | null): void {
    this.#successor?.take(unfetched);
  }

  /** Its WebSocket is gone. Before the browser's `5` the session goes on polling. */
  lost(cause: DropCause): void {
    this.upgrading = false;
    if (this.state === 'polling') {
      this.gets.pump();
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
    return this.gets.takeOwn();
  }

  // ---- the end

  brokenOff(by: DropCause): void {
    this.#endAtLegacy();
    this.die(by);
  }

  /** The legacy ends its session at once: it sees its GET broken off, or the browser's goodbye. */
  #endAtLegacy(): void {
    const seen = this.gets.abort();
    // Ten times a second a GET is answered while an upgrade is tried; an abort that crosses such an answer says nothing.
    if (!seen || this.upgradeTried) this.posts.close();
  }

  die(cause: DropCause): void {
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
    this.gets.end();
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
