// Engine.IO sessions that began by polling: which request belongs to which of them, and their handshakes. Knows nothing
// of what a session does with its requests.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { type Clock, systemClock } from '../base/clock.js';
import { readOpen, withoutWebtransport } from '../protocol/engineio.js';
import { splitPayload } from '../protocol/payload.js';
import type { Signals } from '../telemetry/signals.js';
import { refuse } from './answer.js';
import { requestHeaders, type Trust } from './headers.js';
import type { PollingSessions as Port } from './listener.js';
import { answerWhole, type LegacyAnswer, LegacyGet, refuseLike, streamAnswer } from './polling-answer.js';
import { withoutHeader } from './polling-headers.js';
import { PollingSession } from './polling-session.js';
import { upgradeSession } from './polling-upgrade.js';
import type { Connections } from './transport.js';
import type { Upstream, Upstreams } from './upstreams.js';

/** A silent session is over this long after its heartbeat must have failed; milliseconds. */
const SLACK = 5_000;

export interface PollingOptions {
  readonly upstreams: Upstreams;
  readonly connections: Connections;
  readonly trust: Trust;
  readonly signals: Signals;
  readonly clock?: Clock;
  /** Milliseconds beyond `pingInterval + pingTimeout`; 5,000 where absent. */
  readonly slack?: number;
}

/** The listener hands it every request with `EIO=4`, and passes on what is not handled. */
export class PollingSessions implements Port {
  readonly #options: PollingOptions;
  readonly #clock: Clock;
  /** By sid. Bounded by what the legacy accepts: only its handshakes make an entry, and silence removes it. */
  readonly #sessions = new Map<string, PollingSession>();

  constructor(options: PollingOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /** A request with `transport=polling`. False: it is for none of the sessions, pass it on untouched. */
  handle(request: IncomingMessage, response: ServerResponse): boolean {
    // A browser that vanishes within an answer; `close` follows and tells whoever has to know.
    response.on('error', () => response.destroy());
    try {
      return this.#handle(request, response);
    } catch (error) {
      // Node's client refuses a few request lines and header bytes that its server lets through.
      refuse(response, 400, error instanceof Error ? error.message : 'bad request', true);
      return true;
    }
  }

  #handle(request: IncomingMessage, response: ServerResponse): boolean {
    const { method } = request;
    if (method !== 'GET' && method !== 'POST') return false;
    const params = query(request);
    const sid = params.get('sid');
    if (!sid) {
      // JSONP (`j`) is not looked into.
      if (method === 'POST' || params.has('j')) return false;
      this.#handshake(request, response);
      return true;
    }
    const session = this.#sessions.get(sid);
    if (!session?.serves) return false;
    if (method === 'GET') session.get(request, response);
    else session.post(request, response);
    return true;
  }

  /** A WebSocket upgrade with a sid. False: it is for none of the sessions, pass it on as a raw tunnel. */
  upgrade(request: IncomingMessage, browser: Socket, head: Buffer): boolean {
    const sid = query(request).get('sid');
    const session = sid ? this.#sessions.get(sid) : undefined;
    if (!session?.serves) return false;
    const { trust, signals } = this.#options;
    upgradeSession(session, request, browser, head, { trust, signals }).catch((error: unknown) => {
      signals.internalError('upgrade from polling', error);
      browser.destroy();
    });
    return true;
  }

  /** Where a session lives, so that whatever names it reaches the same legacy. */
  upstreamOf(sid: string): Upstream | undefined {
    return this.#sessions.get(sid)?.upstream;
  }

  /** All that live, on polling or upgraded; not those that only have a goodbye left to say. */
  live(): Iterable<PollingSession> {
    return [...this.#sessions.values()].filter(({ live }) => live);
  }

  get size(): number {
    return this.#sessions.size;
  }

  #handshake(request: IncomingMessage, response: ServerResponse): void {
    const { upstreams, trust } = this.#options;
    const upstream = upstreams.pick();
    // Read here, so it must not be compressed.
    const headers = withoutHeader(requestHeaders(request, trust, upstream.hostHeader), 'accept-encoding');
    const get = new LegacyGet(upstream.request({ method: 'GET', path: request.url ?? '/', headers }), {
      answered: (answer) => this.#answered(request, response, upstream, answer),
      failed: (error) => refuseLike(response, error),
    });
    response.on('close', () => {
      if (!response.writableFinished) get.abort();
    });
  }

  #answered(request: IncomingMessage, response: ServerResponse, upstream: Upstream, answer: LegacyAnswer): void {
    if (answer.rest) {
      streamAnswer(answer, response, { scan: () => undefined, over: () => undefined });
      return;
    }
    let { body } = answer;
    if (answer.status === 200 && answer.text) {
      const [first = body] = splitPayload(answer.text);
      const text = first.toString('utf8');
      const open = readOpen(text);
      if (open) {
        const offered = withoutWebtransport(text);
        if (offered !== text) body = Buffer.concat([Buffer.from(offered), body.subarray(first.length)]);
        this.#open(open, request, upstream, answer, answer.text.subarray(first.length + 1));
      }
    }
    answerWhole(answer, response, body);
  }

  #open(
    handshake: NonNullable<ReturnType<typeof readOpen>>,
    request: IncomingMessage,
    upstream: Upstream,
    answer: LegacyAnswer,
    more: Buffer,
  ): void {
    const { connections, trust, signals, slack = SLACK } = this.#options;
    const owner = connections.open(request);
    const session = new PollingSession(
      {
        handshake,
        upstream,
        owner,
        trust,
        signals,
        clock: this.#clock,
        slack,
        forget: (over) => {
          if (this.#sessions.get(over.sid) === over) this.#sessions.delete(over.sid);
        },
      },
      request,
      answer.rawHeaders,
    );
    this.#sessions.set(handshake.sid, session);
    owner.attach(session);
    // A legacy may send packets along with its handshake.
    if (more.length > 0) session.scan(more);
  }
}

/** For who composes: the same as the constructor. */
export const createPollingSessions = (options: PollingOptions): PollingSessions => new PollingSessions(options);

function query(request: IncomingMessage): URLSearchParams {
  const url = request.url ?? '';
  return new URLSearchParams(url.slice(url.indexOf('?') + 1));
}
