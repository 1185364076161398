// The GETs of one polling session. The browser's and the legacy's are two things: an injection answers the browser's at
// once, the legacy's stays open and serves the browser's next one. Knows nothing of POSTs, nor of what packets mean.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DropCause } from '../base/service.js';
import type { Scanned } from '../protocol/answer-scanner.js';
import type { Outgoing } from '../protocol/packet.js';
import { answerWhole, type LegacyAnswer, LegacyGet, refuseLike, streamAnswer } from './polling-answer.js';
import { endWith, repeated } from './polling-headers.js';
import { AnswerHold, withBody } from './polling-hold.js';
import { Outbox } from './polling-outbox.js';
import type { SessionTraffic } from './polling-traffic.js';
import type { Upstream } from './upstreams.js';

const SEPARATOR = Buffer.from('\x1e');
/** Engine.IO's `1`. */
export const CLOSE = Buffer.from('1');

/** What the GETs ask and tell their session. */
export interface GetSession {
  readonly upstream: Upstream;
  readonly traffic: SessionTraffic;
  readonly state: 'polling' | 'ws' | 'dead';
  /** The legacy has said goodbye, or answered as to a stranger. */
  readonly gone: boolean;
  /** Headers for the legacy. */
  headers(request: IncomingMessage): string[];
  /** Passes a request on untouched. */
  pass(request: IncomingMessage, response: ServerResponse): void;
  /** A GET that had to wait for another begins now. */
  get(request: IncomingMessage, response: ServerResponse): void;
  /** The browser does what makes the legacy end the session. */
  broken(): void;
  /** The legacy has answered a GET as one that knows the session. */
  known(): void;
  /** What the legacy said in an answer. */
  scanned(scanned: Scanned): void;
  /** The same in an answer that goes on as it comes. */
  scan(text: Buffer): void;
  /** The legacy says goodbye with the answer that comes now; `cause` where that is known. */
  goodbye(cause: DropCause | undefined): void;
  /** The legacy's answer is here, and seen through. */
  answerCame(): void;
  /** The browser's GET gets its answer. */
  answered(): void;
  /** A GET broke off: the legacy is told, and the session is over. */
  brokenOff(by: DropCause): void;
  /** The session is over. */
  die(cause: DropCause): void;
  /** The legacy's GET has ended after the browser's `5`: what nobody fetched of it. */
  legacyGetOver(unfetched: LegacyAnswer | null): void;
  /** A fault of ours. */
  fault(error: unknown): void;
}

interface BrowserGet {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

export class PollingGets {
  /** The browser's GET. While it is set, the legacy has one too or has answered. */
  pending: BrowserGet | null = null;
  /** The legacy's GET, until its answer is whole. */
  legacyGet: LegacyGet | null = null;
  /** What the legacy answered and nobody fetched yet. */
  held: LegacyAnswer | null = null;
  /** What the legacy answered and nobody may fetch yet. */
  readonly #hold = new AnswerHold();
  /** A large answer is on its way to the browser: nothing of ours may get in between. */
  #streaming = false;
  /** Our own packets, waiting for a GET. */
  readonly #own = new Outbox();
  /** Those that waited already when the legacy answered: they go before `held`. */
  readonly #ahead = new Outbox();
  #pumping = false;
  /** Headers of the legacy's last answer to a GET, for answers of our own. */
  #answerHeaders: readonly string[];
  readonly #session: GetSession;

  constructor(session: GetSession, answer: readonly string[]) {
    this.#session = session;
    this.#answerHeaders = answer;
  }

  // ---- the browser's GET

  /** A GET of the browser's. */
  take(request: IncomingMessage, response: ServerResponse): void {
    if (this.pending && this.#hold.answer) {
      // The legacy has answered the first: this one comes behind it, as it would there.
      this.#hold.behind(() => this.#next(request, response));
      return;
    }
    if (this.pending) {
      // Two at once: the legacy sees both, and ends the session.
      this.#session.broken();
      this.#session.pass(request, response);
      return;
    }
    if (!this.held && !this.#hold.answer && !this.legacyGet) this.#openLegacyGet(request);
    const get: BrowserGet = { request, response };
    this.pending = get;
    response.on('close', () => this.#browserGone(get));
    this.pump();
  }

  #next(request: IncomingMessage, response: ServerResponse): void {
    const session = this.#session;
    if (session.state === 'ws') session.pass(request, response);
    else if (!response.destroyed) session.get(request, response);
    else if (session.state === 'polling') session.brokenOff('browser');
  }

  #browserGone(get: BrowserGet): void {
    // Answered already: the heartbeat finds a lost answer, as direct.
    if (this.pending !== get) return;
    this.pending = null;
    if (this.#session.state === 'polling') this.#session.brokenOff('browser');
  }

  // ---- the legacy's GET

  #openLegacyGet(request: IncomingMessage): void {
    const { upstream } = this.#session;
    const path = request.url ?? '/';
    const get = new LegacyGet(upstream.request({ method: 'GET', path, headers: this.#session.headers(request) }), {
      answered: (answer) => this.#legacyAnswered(answer),
      failed: (error) => this.#legacyFailed(error),
    });
    this.legacyGet = get;
  }

  #legacyAnswered(answer: LegacyAnswer): void {
    const session = this.#session;
    if (!answer.rest) this.legacyGet = null;
    if (session.state === 'polling' && answer.status === 200 && this.#mayOwn()) this.#ahead.add(this.#own.take());
    if (answer.status === 200) {
      this.#answerHeaders = answer.rawHeaders;
      session.known();
      const scanned = answer.text && session.traffic.scan(answer.text);
      if (scanned instanceof Promise) {
        const over = (now: LegacyAnswer, seen: Scanned | null): void => {
          if (seen) session.scanned(seen);
          this.#fetchable(now);
        };
        this.#hold.begin(answer, scanned, over, (error) => session.fault(error));
        return;
      }
      if (scanned) {
        session.scanned(scanned);
        this.#fetchable(withBody(answer, scanned.body));
        return;
      }
    } else if (session.state === 'polling') session.goodbye(answer.status >= 500 ? 'legacy' : undefined);
    this.#fetchable(answer);
  }

  #fetchable(answer: LegacyAnswer): void {
    this.#session.answerCame();
    if (this.#session.state === 'ws') {
      this.#legacyGetOver(answer);
      return;
    }
    this.held = answer;
    this.pump();
  }

  #legacyFailed(error: NodeJS.ErrnoException): void {
    this.legacyGet = null;
    const get = this.pending;
    this.pending = null;
    if (get) refuseLike(get.response, error);
    if (this.#session.state === 'ws') {
      this.#legacyGetOver(null);
      return;
    }
    // Broken off is not ended: the legacy may be well, and its session alive.
    this.#session.brokenOff('legacy');
  }

  // ---- answers to the browser's GET

  /** Called whenever anything changed. */
  pump(): void {
    const get = this.pending;
    if (!get || this.#session.state !== 'polling') return;
    if (this.held && !this.#ahead.empty && (this.held.encoded || this.held.rest)) {
      this.answerOwn(get, this.#ahead.takePayload()); // nothing can be put before it: it waits for the next GET
    } else if (this.held) this.#answer(get, this.held);
    else if (this.#mayOwn()) this.answerOwn(get, this.#own.takePayload());
  }

  #answer(get: BrowserGet, answer: LegacyAnswer): void {
    this.pending = null;
    this.held = null;
    this.#session.answered();
    const { response } = get;
    if (answer.rest) {
      this.#streaming = true;
      this.#stream(answer, response, (broken) => this.#streamed(broken));
      return;
    }
    const merge = answer.status === 200 && !answer.encoded && this.#mayOwn();
    const before = this.#ahead.empty ? [] : [this.#ahead.takePayload(), SEPARATOR];
    const after = merge ? [SEPARATOR, this.#own.takePayload()] : [];
    const merged = before.length + after.length > 0;
    answerWhole(answer, response, merged ? Buffer.concat([...before, answer.body, ...after]) : answer.body);
    if (this.#session.gone) this.#session.die('legacy');
  }

  #stream(answer: LegacyAnswer, response: ServerResponse, over: (broken: DropCause | undefined) => void): void {
    streamAnswer(answer, response, { scan: (text) => this.#session.scan(text), over });
  }

  #streamed(broken: DropCause | undefined): void {
    this.#streaming = false;
    this.legacyGet = null;
    if (this.#session.state === 'ws') {
      this.#legacyGetOver(null);
      return;
    }
    if (this.#session.state === 'dead') return;
    // What the browser broke off is found by the heartbeat, as direct.
    if (broken === 'legacy' || this.#session.gone) {
      this.#session.die('legacy');
      return;
    }
    if (this.pending && !this.held) this.#openLegacyGet(this.pending.request);
    this.pump();
  }

  #mayOwn(): boolean {
    const { traffic, gone } = this.#session;
    return !this.#own.empty && traffic.open === 0 && !gone && !this.#streaming && !this.#hold.answer;
  }

  /** Answers a GET without the legacy. */
  answerOwn({ response }: Pick<BrowserGet, 'response'>, body: Buffer): void {
    this.pending = null;
    this.#session.answered();
    response.writeHead(200, [
      ...repeated(this.#answerHeaders),
      'Content-Type',
      'text/plain; charset=UTF-8',
      'Content-Length',
      String(body.length),
    ]);
    endWith(response, body);
  }

  // ---- our own packets

  /** Packets for the browser's next answer. False where nobody fetches them, and there is too much of it now. */
  put(packets: readonly Outgoing[]): boolean {
    if (!this.#own.add(packets)) return false;
    if (this.#pumping) return true;
    // The packets of one turn go together.
    this.#pumping = true;
    queueMicrotask(() => {
      this.#pumping = false;
      this.pump();
    });
    return true;
  }

  /** Of our own packets that wait. */
  get ownBytes(): number {
    return this.#own.bytes;
  }

  /** Our own packets that nobody fetched. */
  takeOwn(): readonly Outgoing[] {
    return [...this.#ahead.take(), ...this.#own.take()];
  }

  // ---- the upgrade

  /** The browser's `5` has passed: `legacyGetOver` is told once the legacy's GET has ended, which may be now. */
  leave(): void {
    const { held } = this;
    this.held = null;
    if (held || (!this.legacyGet && !this.#hold.answer)) this.#legacyGetOver(held);
  }

  #legacyGetOver(answer: LegacyAnswer | null): void {
    // A large answer can still be aborted.
    if (!answer?.rest) this.legacyGet = null;
    const get = this.pending;
    this.pending = null;
    let unfetched = answer;
    if (get) {
      unfetched = null;
      if (!answer) this.#session.pass(get.request, get.response);
      else if (answer.rest) this.#stream(answer, get.response, () => undefined);
      else answerWhole(answer, get.response, answer.body);
    } else if (answer && answer.status !== 200) {
      // What is not a payload says nothing to a browser that has left polling.
      unfetched = null;
      answer.rest?.destroy();
    }
    this.#session.legacyGetOver(unfetched);
  }

  // ---- the end

  /** A GET is open, or an answer waits for one. */
  get busy(): boolean {
    return !!(this.pending || this.legacyGet || this.held || this.#hold.answer);
  }

  /** Breaks the legacy's GET off. False: there is none that it knows of, so this tells it nothing. */
  abort(): boolean {
    const get = this.legacyGet?.sent && !this.#streaming ? this.legacyGet : null;
    get?.abort();
    return get !== null;
  }

  /** The browser's GET finds its connection closed. */
  cutOff(): void {
    const get = this.pending;
    this.pending = null;
    get?.response.destroy();
  }

  /** Answers the browser's GET with what there is and `1`. Where it has none: what its next one is to get. */
  sayGoodbye(): Buffer | null {
    const get = this.pending;
    const said = get ? this.#hold.drop()?.text : undefined;
    const before = said ? [said, SEPARATOR] : [];
    const own = this.#mayOwn() ? [this.#own.takePayload(), SEPARATOR] : [];
    const goodbye = Buffer.concat([...before, ...own, CLOSE]);
    if (!get) return goodbye;
    this.answerOwn(get, goodbye);
    return null;
  }

  /** The session is over: nobody fetches anything any more, but for the rest of a large answer. */
  end(): void {
    if (!this.#streaming) this.legacyGet?.abort();
    this.legacyGet = null;
    this.held = null;
    this.#hold.drop();
    this.#ahead.take();
    this.#own.take();
  }
}
