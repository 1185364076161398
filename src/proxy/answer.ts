// An answer on its way to the browser: the legacy's, streamed as it comes, or a short refusal of our own.
// Knows nothing of requests or of what an answer means.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { answerHeaders, type RawHeaders, withoutTrailer } from './headers.js';

const NOTHING = Buffer.alloc(0);

/** A body in memory at a stalled browser is at most what the socket and one chunk hold: the legacy is paused instead. */
export function relayAnswer(answer: IncomingMessage, response: ServerResponse): void {
  if (response.destroyed || response.headersSent) {
    answer.destroy();
    return;
  }
  if (!writeAnswerHead(response, answer.statusCode, answer.statusMessage, answerHeaders(answer.rawHeaders))) {
    answer.destroy();
    return;
  }
  // Heads of event streams must not wait for the first byte of the body. (`flushHeaders` would write UTF-8 where
  // header bytes over 0x7f are to stay single bytes.)
  response.write(NOTHING);
  answer.on('data', (chunk: Buffer) => {
    if (!response.write(chunk)) answer.pause();
  });
  response.on('drain', () => answer.resume());
  answer.on('end', () => {
    if (answer.rawTrailers.length > 0) response.addTrailers(pairs(answer.rawTrailers));
    response.end();
  });
  // The legacy died within the body: a truncated answer must not look whole.
  answer.on('error', () => response.destroy());
  answer.on('aborted', () => response.destroy());
  response.on('close', () => {
    if (!response.writableFinished) answer.destroy();
  });
}

/**
 * The head of the legacy's answer. False, and a 502 for the browser, where Node's client read what its server can't write:
 * a status below 100, control characters in the reason. Never throws: that would take every other connection along.
 */
export function writeAnswerHead(
  response: ServerResponse,
  status: number | undefined,
  reason: string | undefined,
  headers: RawHeaders,
): boolean {
  response.sendDate = false;
  try {
    // `Trailer` is refused by Node where the answer is not chunked: no body, a known length, an HTTP/1.0 browser.
    const chunked = response.req.httpVersion === '1.1' && response.req.method !== 'HEAD' && hasBody(status);
    const list = chunked && !hasLength(headers) ? [...headers] : withoutTrailer(headers);
    response.writeHead(status ?? 502, reason, list);
    return true;
  } catch (error) {
    response.statusMessage = '';
    refuse(response, 502, error instanceof RangeError ? 'legacy answered no status' : 'legacy answered an odd head');
    return false;
  }
}

const hasBody = (status: number | undefined): boolean => status !== 204 && status !== 304;
const hasLength = (headers: RawHeaders): boolean =>
  headers.some((name, i) => i % 2 === 0 && name.toLowerCase() === 'content-length');

/** `{"error":"…"}`; where the answer has begun already, its connection is broken off instead. */
export function refuse(response: ServerResponse, status: number, error: string, close = false): void {
  if (response.destroyed) return;
  if (response.headersSent) {
    if (!response.writableEnded) response.destroy();
    return;
  }
  const body = JSON.stringify({ error });
  response.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(body),
    ...(close ? { Connection: 'close' } : {}),
  });
  response.end(body);
}

/** As `addTrailers` wants them. */
export function pairs(raw: readonly string[]): [string, string][] {
  const list: [string, string][] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) list.push([raw[i]!, raw[i + 1]!]);
  return list;
}
