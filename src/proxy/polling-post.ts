// The POSTs of one polling session, on their way to the legacy one after another: gathered, served events taken out,
// the rest sent on. Knows nothing of the session's GETs or WebSocket.
import type http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Clock, Timer } from '../base/clock.js';
import type { Outgoing } from '../protocol/packet.js';
import { itemsOf, joinPayload } from '../protocol/payload.js';
import type { Filtered } from '../protocol/post-filter.js';
import { refuse, writeAnswerHead } from './answer.js';
import { answerHeaders } from './headers.js';
import { refuseLike } from './polling-answer.js';
import { endWith, repeated, withLength } from './polling-headers.js';
import type { Upstream } from './upstreams.js';

/** A slower body goes on as it comes: engine.io gives up on a body after 30 s; milliseconds. */
const GATHER_TIME = 20_000;
/** A browser waits for the answer to its POST. What posts on without one is gathered up to this many payloads. */
const MOST_WAITING = 2;

/** What the POSTs ask and tell their session. */
export interface PostSession {
  readonly upstream: Upstream;
  readonly clock: Clock;
  /** Bytes; from the handshake. */
  readonly maxPayload: number;
  /** The legacy has said goodbye and the browser has not fetched that yet: what it sends now is swallowed. */
  readonly swallows: boolean;
  /** Headers for the legacy. */
  headers(request: IncomingMessage): string[];
  /** Passes a request on untouched. */
  pass(request: IncomingMessage, response: ServerResponse): void;
  filter(body: Buffer): Filtered;
  /** A taken event that lacks attachments; it is no longer taken then. */
  incomplete(): Outgoing | undefined;
  /** The browser does what makes the legacy end the session. */
  broken(): void;
  /** The legacy answered a POST with this status; 0 where it did not answer. */
  posted(status: number): void;
  /** A fault of ours. */
  fault(error: unknown): void;
}

interface Exchange {
  answer(answer: IncomingMessage): void;
  /** With the legacy's status, or 0 and what went wrong. */
  over(status: number, error?: NodeJS.ErrnoException): void;
}

/** A browser's POST whose body is still coming. */
interface Gathering {
  /** Stops gathering and lets everything go on as it comes. */
  giveUp(): void;
}

/** Where a POST went, as the sample for one of our own. */
export interface Sample {
  readonly path: string;
  readonly headers: readonly string[];
}

export class PollingPosts {
  readonly #session: PostSession;
  #gathering: Gathering | null = null;
  /** POSTs of one session go on one after another. */
  readonly #waiting: (() => Promise<void>)[] = [];
  /** What was taken from earlier ones and goes to the legacy after all: before what the browser posted later. */
  readonly #after: (() => Promise<void>)[] = [];
  /** Resolves once all that waits is through; undefined where nothing does. */
  #running: Promise<void> | undefined;
  /** Of bodies gathered and not answered yet. */
  #bytes = 0;
  #sample: Sample;
  /** Headers of the legacy's last answer to a POST, for answers of our own. */
  #answerHeaders: readonly string[];
  #ended = false;

  constructor(session: PostSession, sample: Sample, answer: readonly string[]) {
    this.#session = session;
    this.#sample = sample;
    this.#answerHeaders = answer;
  }

  /** A POST of the browser's. */
  take(request: IncomingMessage, response: ServerResponse): void {
    const first = this.#gathering;
    if (first) {
      // Two bodies at once: the legacy has to see both, in this order.
      this.#session.broken();
      first.giveUp();
      setImmediate(() => this.#session.pass(request, response));
      return;
    }
    if (this.#bytes > MOST_WAITING * this.#session.maxPayload) {
      this.#session.broken();
      this.#session.pass(request, response);
      return;
    }
    const type = request.headers['content-type'];
    const length = request.headers['content-length'];
    const tooLong = length !== undefined && Number(length) > this.#session.maxPayload;
    if (tooLong || type === 'application/octet-stream' || request.headers['content-encoding'] !== undefined) {
      if (request.headers['content-encoding'] === undefined) this.#session.broken();
      this.#session.pass(request, response);
      return;
    }
    this.#gather(request, response);
  }

  /** A packet that was taken goes to the legacy after all, in a POST of our own. */
  forward(packet: Outgoing): void {
    const body = joinPayload(itemsOf(packet));
    this.#after.push(() => this.#ownPost(body));
    this.#run();
  }

  /** Whether a body is still coming. */
  get gathering(): boolean {
    return this.#gathering !== null;
  }

  /** Resolves once no POST is under way; undefined where none is. */
  get idle(): Promise<void> | undefined {
    return this.#running;
  }

  /**
   * Tells the legacy that the browser closes. Not queued: whatever is under way ends with the session. Saying so twice
   * is harmless, so it is said again where a kept socket proved to be closed.
   */
  close(tries = 3): void {
    const { path, headers } = this.#sample;
    const up = this.#session.upstream.request({ method: 'POST', path, headers: withLength(headers, 1) });
    up.on('error', () => {
      up.destroy();
      // A legacy that is away has no session left to end.
      if (up.reusedSocket && tries > 1) this.close(tries - 1);
    });
    up.on('response', (answer) => answer.resume());
    up.setTimeout(GATHER_TIME, () => up.destroy());
    up.end('1');
  }

  /** Answers a POST in the legacy's place. */
  ok(response: ServerResponse): void {
    response.writeHead(200, [...repeated(this.#answerHeaders), 'Content-Type', 'text/html', 'Content-Length', '2']);
    response.end('ok', 'latin1');
  }

  /** The session is over: nothing more is sent. What the legacy has not answered yet gets its answer. */
  end(): void {
    this.#ended = true;
    this.#gathering?.giveUp();
  }

  #gather(request: IncomingMessage, response: ServerResponse): void {
    const chunks: Buffer[] = [];
    let size = 0;
    let timer: Timer | null = null;
    const stop = (): void => {
      timer?.cancel();
      request.off('data', data).off('end', end).off('close', aborted);
      this.#gathering = null;
    };
    const data = (chunk: Buffer): void => {
      chunks.push(chunk);
      size += chunk.length;
      if (size <= this.#session.maxPayload) return;
      this.#session.broken();
      giveUp();
    };
    const end = (): void => {
      stop();
      const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size);
      this.#bytes += size;
      this.#enqueue(() =>
        this.#whole(request, response, body)
          .catch((error: unknown) => this.#unsent(response, error))
          .finally(() => {
            this.#bytes -= size;
          }),
      );
    };
    const aborted = (): void => {
      stop();
      this.#session.broken();
      this.#enqueue(() => this.#cut(request, Buffer.concat(chunks, size)));
    };
    const giveUp = (): void => {
      stop();
      request.pause();
      if (size > 0) request.unshift(Buffer.concat(chunks, size));
      // The rest of a taken event may be in there.
      this.#enqueue(() => {
        const begun = this.#ended ? undefined : this.#session.incomplete();
        return begun ? this.#ownPost(joinPayload(itemsOf(begun))) : Promise.resolve();
      });
      this.#enqueue(
        () =>
          new Promise((resolve) => {
            response.on('close', resolve);
            if (response.destroyed) resolve();
            else this.#session.pass(request, response);
          }),
      );
    };
    timer = this.#session.clock.after(GATHER_TIME, giveUp);
    this.#gathering = { giveUp };
    request.on('data', data).on('end', end).on('close', aborted);
  }

  /** The whole body is there: filtered, sent on, answered, served, in this order. */
  async #whole(request: IncomingMessage, response: ServerResponse, body: Buffer): Promise<void> {
    const headers = this.#session.headers(request);
    const path = request.url ?? '/';
    this.#sample = { path, headers };
    const { rest, serve } = this.#ended ? { rest: body, serve: [] } : this.#session.filter(body);
    const counts = (): void => {
      for (const start of serve.splice(0)) start();
    };
    if (rest === null || this.#session.swallows) {
      this.ok(response);
      counts();
    } else await this.#roundTrip(path, withLength(headers, rest.length), rest, response, counts);
  }

  /** Node's client refuses a few request lines and header bytes that its server lets through. */
  #unsent(response: ServerResponse, error: unknown): void {
    refuse(response, 400, error instanceof Error ? error.message : 'bad request', true);
    this.#session.fault(error);
  }

  /** `counts` is called where the legacy answered 200, or where the browser did not wait for it. */
  #roundTrip(
    path: string,
    headers: readonly string[],
    body: Buffer,
    response: ServerResponse,
    counts: () => void,
  ): Promise<void> {
    return new Promise((resolve) => {
      const up = this.#send(path, headers, body, {
        answer: (answer) => {
          if (answer.statusCode === 200) this.#answerHeaders = answer.rawHeaders;
          const headers = answerHeaders(answer.rawHeaders);
          if (writeAnswerHead(response, answer.statusCode, answer.statusMessage, headers)) answer.pipe(response);
          else answer.resume();
        },
        over: (status, error) => {
          if (response.destroyed) return;
          if (error) refuseLike(response, error);
          // What the browser said before its goodbye comes before its going.
          if (status === 200) counts();
          this.#session.posted(status);
          resolve();
        },
      });
      response.on('close', () => {
        if (response.writableFinished) return;
        // The legacy has the whole body: what is in it counts, there and here, though nobody waits for the answer.
        if (up.writableFinished) up.destroy();
        else up.once('finish', () => up.destroy());
        counts();
        resolve();
      });
    });
  }

  #ownPost(body: Buffer): Promise<void> {
    if (this.#ended) return Promise.resolve();
    const { path, headers } = this.#sample;
    return new Promise((resolve) => {
      this.#send(path, withLength(headers, body.length), body, {
        answer: (answer) => answer.resume(),
        over: (status) => {
          this.#session.posted(status);
          resolve();
        },
      });
    });
  }

  /** The browser gave up in mid-body: the legacy sees what there is, and then the same. */
  #cut(request: IncomingMessage, begun: Buffer): Promise<void> {
    return new Promise((resolve) => {
      const up = this.#session.upstream.request({
        method: 'POST',
        path: request.url ?? '/',
        headers: this.#session.headers(request),
      });
      const broken = (): void => void up.destroy();
      up.on('error', broken);
      up.on('close', resolve);
      up.on('response', (answer) => answer.resume());
      up.write(begun.length > 0 ? begun : '', broken);
    });
  }

  #send(path: string, headers: readonly string[], body: Buffer, to: Exchange): http.ClientRequest {
    const up = this.#session.upstream.request({ method: 'POST', path, headers });
    let status = 0;
    let over = false;
    const finish = (error?: NodeJS.ErrnoException): void => {
      if (over) return;
      over = true;
      to.over(error ? 0 : status, error);
    };
    up.on('error', finish);
    // A 101 that nobody asked for ends the request without an error.
    up.on('close', () => finish(new Error('the legacy gave no answer')));
    up.on('response', (answer) => {
      answer.on('error', finish);
      answer.on('end', () => {
        status = answer.statusCode ?? 502;
        finish(answer.complete ? undefined : Object.assign(new Error('broken off'), { code: 'ECONNRESET' }));
      });
      answer.on('close', () => finish(Object.assign(new Error('broken off'), { code: 'ECONNRESET' })));
      to.answer(answer);
    });
    endWith(up, body);
    return up;
  }

  #enqueue(run: () => Promise<void>): void {
    this.#waiting.push(run);
    this.#run();
  }

  #run(): void {
    this.#running ??= this.#each().finally(() => {
      this.#running = undefined;
      // Something may have come while this was told.
      if (this.#waiting.length + this.#after.length > 0) this.#run();
    });
  }

  async #each(): Promise<void> {
    // Not within the call that brought the first one: its caller is not done with it.
    await Promise.resolve();
    for (;;) {
      const next = this.#after.shift() ?? this.#waiting.shift();
      if (!next) return;
      await next().catch((error: unknown) => this.#session.fault(error));
    }
  }
}
