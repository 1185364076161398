// One GET of a polling session at the legacy, from its request to the end of its answer: gathered whole where it is
// small, handed on while it still comes where it is large. Knows nothing of sessions or of what packets mean.
import type http from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import zlib from 'node:zlib';
import type { DropCause } from '../base/service.js';
import { refuse, writeAnswerHead } from './answer.js';
import { answerHeaders } from './headers.js';
import { endWith, withLength } from './polling-headers.js';
import { PayloadItems } from './polling-items.js';

/**
 * More of an answer is not gathered but streamed, and waits at the legacy until somebody fetches it. `maxPayload`
 * limits only POSTs, so an answer can be of any size; nearly all are below 1 KB. Bytes, before inflating.
 */
export const GATHER_ANSWER = 256 * 1024;
/** What a gathered answer may inflate to; what says more than that passes unseen. Bytes. */
const GATHER_INFLATED = 64 * 1024 * 1024;

/** What the legacy said, and nobody fetched yet. */
export interface LegacyAnswer {
  readonly status: number;
  readonly statusMessage: string;
  /** As received, names and values in turn. */
  readonly rawHeaders: readonly string[];
  /** The body as received: all of it, or its beginning where `rest` is set. */
  readonly body: Buffer;
  /** True where the body has a Content-Encoding: nothing may be merged into it. */
  readonly encoded: boolean;
  /** The decoded body; undefined where it is streamed or its encoding is unknown. */
  readonly text: Buffer | undefined;
  /** Set for a large answer: what is still to come, paused. */
  readonly rest: IncomingMessage | undefined;
}

export interface LegacyGetEvents {
  /** The answer is whole, or too large to wait for the end of it. Called at most once. */
  answered(answer: LegacyAnswer): void;
  /** No answer, or one that broke off before `answered`. */
  failed(error: NodeJS.ErrnoException): void;
}

/** The request must not have been ended yet. */
export class LegacyGet {
  readonly #request: http.ClientRequest;
  readonly #events: LegacyGetEvents;
  #over = false;

  constructor(request: http.ClientRequest, events: LegacyGetEvents) {
    this.#request = request;
    this.#events = events;
    request.on('error', (error) => this.#fail(error));
    request.on('response', (response) => this.#gather(response));
    // A 101 that nobody asked for ends the request without an error.
    request.on('close', () => this.#fail(new Error('the legacy gave no answer')));
    request.end();
  }

  /** Whether the legacy can know of this GET: only then does an abort tell it anything. */
  get sent(): boolean {
    return this.#request.writableFinished && this.#request.socket?.connecting === false;
  }

  /** The legacy sees its GET broken off; no event comes any more. */
  abort(): void {
    this.#over = true;
    this.#request.destroy();
  }

  #fail(error: NodeJS.ErrnoException): void {
    if (this.#over) return;
    this.#over = true;
    this.#request.destroy();
    this.#events.failed(error);
  }

  #gather(response: IncomingMessage): void {
    if (this.#over) {
      response.resume();
      return;
    }
    const chunks: Buffer[] = [];
    let size = 0;
    const take = (chunk: Buffer): void => {
      chunks.push(chunk);
      size += chunk.length;
      if (size > GATHER_ANSWER) large();
    };
    const end = (): void => {
      if (this.#over) return;
      if (!response.complete) {
        this.#fail(brokenOff());
        return;
      }
      const body = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size);
      const encoding = response.headers['content-encoding'];
      this.#answer(response, body, encoding === undefined ? body : inflate(body, encoding), undefined);
    };
    const large = (): void => {
      response.pause();
      response.off('data', take);
      response.off('end', end);
      if (!this.#over) this.#answer(response, Buffer.concat(chunks, size), undefined, response);
    };
    response.on('data', take);
    response.on('end', end);
    response.on('error', (error) => this.#fail(error));
  }

  #answer(response: IncomingMessage, body: Buffer, text: Buffer | undefined, rest: IncomingMessage | undefined): void {
    // A streamed answer can still be aborted; its errors go to whoever streams it.
    this.#over = true;
    this.#events.answered({
      status: response.statusCode ?? 502,
      statusMessage: response.statusMessage ?? '',
      rawHeaders: response.rawHeaders,
      body,
      encoded: response.headers['content-encoding'] !== undefined,
      text,
      rest,
    });
  }
}

/** Gives the browser an answer as it came, with this body. */
export function answerWhole(answer: LegacyAnswer, response: ServerResponse, body: Buffer): void {
  const headers = withLength(answerHeaders(answer.rawHeaders), body.length);
  if (writeAnswerHead(response, answer.status, answer.statusMessage, headers)) endWith(response, body);
}

export interface StreamEvents {
  /** Whole packets of the answer, before they pass; of what is over 1 MiB only the beginning. */
  scan(text: Buffer): void;
  /** The answer has passed, or was broken off by that side. Called exactly once. */
  over(broken: DropCause | undefined): void;
}

/** Gives the browser a large answer as it comes; a browser that stalls stops the legacy. */
export function streamAnswer(answer: LegacyAnswer, response: ServerResponse, events: StreamEvents): void {
  const rest = answer.rest!;
  const seen = new DecodedItems(answer, (items) => events.scan(items));
  let ended = false;
  const over = (broken: DropCause | undefined): void => {
    if (ended) return;
    ended = true;
    rest.destroy();
    if (broken) response.destroy();
    events.over(broken);
  };
  if (!writeAnswerHead(response, answer.status, answer.statusMessage, answerHeaders(answer.rawHeaders))) {
    over('legacy');
    return;
  }
  const pass = (chunk: Buffer): void => {
    seen.write(chunk);
    if (!response.write(chunk)) rest.pause();
  };
  response.on('drain', () => rest.resume());
  response.on('close', () => over(response.writableFinished ? undefined : 'browser'));
  rest.on('error', () => over('legacy'));
  rest.on('close', () => over(rest.complete ? undefined : 'legacy'));
  rest.on('data', pass);
  rest.on('end', () => {
    if (!rest.complete) return over('legacy');
    response.end();
    seen.end(() => over(undefined));
  });
  pass(answer.body);
  if (!response.writableNeedDrain) rest.resume();
}

/** The packets of a body that comes in chunks, decoded and whole. */
export class DecodedItems {
  readonly #items: PayloadItems;
  readonly #decoder: zlib.Gunzip | zlib.Inflate | undefined;

  constructor(answer: LegacyAnswer, whole: (items: Buffer) => void, limit?: number) {
    this.#items = new PayloadItems(whole, limit);
    this.#decoder = inflater(answer.rawHeaders);
    this.#decoder?.on('data', (chunk: Buffer) => this.#items.write(chunk));
    // Not what it says it is: it passes unseen, the browser decides.
    this.#decoder?.on('error', () => this.#decoder?.destroy());
  }

  write(chunk: Buffer): void {
    if (!this.#decoder) this.#items.write(chunk);
    else if (!this.#decoder.destroyed) this.#decoder.write(chunk);
  }

  end(done: () => void): void {
    const last = (): void => {
      this.#items.end();
      done();
    };
    if (!this.#decoder || this.#decoder.destroyed) {
      last();
      return;
    }
    this.#decoder.once('close', last);
    this.#decoder.end();
  }
}

/** Fails a request of the browser's as the legacy's failure did: refused with 502, or broken off. */
export function refuseLike(response: ServerResponse, error: NodeJS.ErrnoException): void {
  if (error.code === 'ECONNRESET' || error.code === 'EPIPE') response.destroy();
  else refuse(response, 502, 'legacy is not reachable');
}

function inflater(rawHeaders: readonly string[]): zlib.Gunzip | zlib.Inflate | undefined {
  const at = rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === 'content-encoding');
  if (at < 0) return undefined;
  const encoding = rawHeaders[at + 1];
  return encoding === 'gzip' ? zlib.createGunzip() : encoding === 'deflate' ? zlib.createInflate() : undefined;
}

function inflate(body: Buffer, encoding: string): Buffer | undefined {
  try {
    if (encoding === 'gzip') return zlib.gunzipSync(body, { maxOutputLength: GATHER_INFLATED });
    if (encoding === 'deflate') return zlib.inflateSync(body, { maxOutputLength: GATHER_INFLATED });
    return undefined;
  } catch (error) {
    // Not what it says it is, or far larger inside: it passes unseen, the browser decides.
    if (error instanceof Error) return undefined;
    throw error;
  }
}

function brokenOff(): NodeJS.ErrnoException {
  return Object.assign(new Error('the legacy broke off its answer'), { code: 'ECONNRESET' });
}
