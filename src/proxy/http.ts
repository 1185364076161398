// A request on its way to a legacy and its answer back: streamed both ways, broken off on one side where the other
// breaks. Nothing is repeated and nothing is looked into. Knows nothing of Socket.IO.
import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http';
import { pairs, refuse, relayAnswer } from './answer.js';
import { requestHeaders, type Trust } from './headers.js';
import type { Upstream } from './upstreams.js';

export interface ForwardOptions {
  readonly trust: Trust;
  /** Until the legacy's answer begins, counted from the request's last byte; then 504. 0: as long as it takes. */
  readonly timeout: number;
}

/**
 * Forwards a request as it came, with `X-Forwarded-*`. 502 where the legacy can't be reached or breaks off before its
 * answer, 504 where it is late. Never throws; errors of either side end here.
 */
export function forward(
  request: IncomingMessage,
  response: ServerResponse,
  upstream: Upstream,
  options: ForwardOptions,
): void {
  let passing: ClientRequest;
  try {
    passing = upstream.request({
      method: request.method ?? 'GET',
      path: request.url ?? '/',
      headers: requestHeaders(request, options.trust, upstream.hostHeader),
    });
  } catch (error) {
    // Node's client refuses a few request lines and header bytes that its server lets through.
    refuse(response, 400, error instanceof Error ? error.message : 'bad request', true);
    return;
  }
  accompany(passing, request, response, options.timeout);
  passing.on('response', (answer) => {
    if (!request.complete) keepSending(passing, answer);
    relayAnswer(answer, response);
  });
  passing.on('error', () => {
    refuse(response, 502, 'legacy is not reachable');
    // What the browser still sends is read, or it would not get to see the answer.
    request.unpipe(passing);
    request.resume();
  });
  response.on('error', () => passing.destroy());
  response.on('close', () => {
    if (!response.writableFinished) passing.destroy();
  });
  request.on('error', () => passing.destroy());
  request.on('end', () => passing.end());
  request.pipe(passing, { end: false });
}

/** What goes beside the body: interim answers, trailers of the request, and the time limit. Call it before piping. */
export function accompany(
  passing: ClientRequest,
  request: IncomingMessage,
  response: ServerResponse,
  timeout: number,
): void {
  let timer: NodeJS.Timeout | undefined;
  passing.on('continue', () => {
    if (!response.headersSent) response.writeContinue();
  });
  passing.on('information', (info) => {
    if (info.statusCode === 100 || response.headersSent || request.httpVersion !== '1.1') return;
    writeInformation(response, info);
  });
  request.on('end', () => {
    if (request.rawTrailers.length > 0) passing.addTrailers(pairs(request.rawTrailers));
    if (timeout <= 0 || response.headersSent || passing.destroyed) return;
    timer = setTimeout(() => {
      refuse(response, 504, 'legacy did not answer in time');
      passing.destroy();
    }, timeout);
    timer.unref();
  });
  let answered = false;
  passing.on('response', () => {
    answered = true;
    clearTimeout(timer);
  });
  passing.on('close', () => {
    clearTimeout(timer);
    // A 101 that nobody asked for ends the request without an error.
    if (!answered) refuse(response, 502, 'legacy gave no answer');
  });
}

/**
 * An answer may come before the request is whole (413). Whether the rest is taken is the legacy's decision; but Node's
 * client emits no `drain` after the answer's end.
 */
function keepSending(passing: ClientRequest, answer: IncomingMessage): void {
  const { socket } = passing;
  const onDrain = () => passing.emit('drain');
  answer.on('end', () => socket?.on('drain', onDrain));
  passing.on('close', () => socket?.removeListener('drain', onDrain));
}

function writeInformation(
  response: ServerResponse,
  info: { readonly statusCode: number; readonly statusMessage: string; readonly rawHeaders: readonly string[] },
): void {
  // Node's server has `writeEarlyHints` only for Link headers; an interim head is small and complete by itself.
  let head = `HTTP/1.1 ${info.statusCode} ${info.statusMessage}\r\n`;
  for (let i = 0; i + 1 < info.rawHeaders.length; i += 2)
    head += `${info.rawHeaders[i]}: ${info.rawHeaders[i + 1]}\r\n`;
  response.socket?.write(`${head}\r\n`, 'latin1');
}
