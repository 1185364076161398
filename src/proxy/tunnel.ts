// Upgrades: the handshake passed to the legacy and back, and raw tunnels for what is not spliced. Knows nothing of
// frames or packets. A pair of sockets lives and dies together: nothing here leaves one of them open alone.
import { type ClientRequest, type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { refuse, relayAnswer } from './answer.js';
import { type Trust, upgradeHeaders } from './headers.js';
import { Stall } from './stall.js';
import type { Upstream } from './upstreams.js';

/** Until the legacy has answered an upgrade; milliseconds. */
const HANDSHAKE_LIMIT = 30_000;
/** What a browser may send ahead of the 101; then it is not read until the tunnel stands. Bytes. */
const EARLY_LIMIT = 65_536;
/** TCP keep-alive, so that a peer that vanished without a word is noticed on raw tunnels too; milliseconds. */
const PROBE_AFTER = 60_000;
/** A side of a raw tunnel that takes nothing for so long has left; milliseconds. */
const STALLED = 120_000;
/** After one side's FIN the other has this long to take what is still on its way; milliseconds. */
export const LAST_BYTES = 5_000;

/** A 101 has passed. Both sockets are paused, with an error listener; listen for `data` and `end`, then `resume()`. */
export interface Upgraded {
  readonly request: IncomingMessage;
  readonly upstream: Upstream;
  readonly browser: Socket;
  readonly legacy: Socket;
  /** Belongs to the stream: what came before either side was listened to. */
  readonly browserHead: Buffer;
  readonly legacyHead: Buffer;
}

export interface UpgradeOptions {
  readonly stripExtensions: boolean;
  readonly trust: Trust;
  readonly timeout?: number;
}

/**
 * Passes an upgrade request to the legacy. A 101 is passed back and resolves with both sockets; call it with `await`
 * and listen in the same turn. Any other answer is passed back with its status, headers and body, both sockets are
 * closed, and it resolves with null, as it does where the browser or the legacy goes away. Never rejects.
 */
export function passUpgrade(
  request: IncomingMessage,
  browser: Socket,
  head: Buffer,
  upstream: Upstream,
  options: UpgradeOptions,
): Promise<Upgraded | null> {
  return new Promise((resolve) => {
    browser.setTimeout(0);
    browser.setNoDelay(true);
    browser.setKeepAlive(true, PROBE_AFTER);
    const early = listenEarly(browser, head, () => giveUp());
    let settled = false;
    const settle = (upgraded: Upgraded | null) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      resolve(upgraded);
    };
    let answering = false;
    let passing: ClientRequest | undefined;
    const refuseUpgrade = (status: number, error: string) => {
      if (settled) return;
      if (answering) return giveUp();
      refuse(answerOn(request, browser), status, error, true);
      passing?.destroy();
      settle(null);
    };
    const giveUp = () => {
      passing?.destroy();
      browser.destroy();
      settle(null);
    };
    const timer = setTimeout(
      () => refuseUpgrade(504, 'legacy did not answer in time'),
      options.timeout ?? HANDSHAKE_LIMIT,
    );
    timer.unref();

    try {
      passing = upstream.requestUpgrade({
        method: request.method ?? 'GET',
        path: request.url ?? '/',
        headers: upgradeHeaders(request, options.trust, upstream.hostHeader, options.stripExtensions),
      });
    } catch (error) {
      // Node's client refuses a few request lines and header bytes that its server lets through.
      refuseUpgrade(400, error instanceof Error ? error.message : 'bad request');
      return;
    }
    passing.on('error', () => refuseUpgrade(502, 'legacy is not reachable'));
    passing.on('information', (info) => {
      // Node hands 1xx answers over one by one; a 101 comes this way only where it names no protocol.
      if (info.statusCode === 101) refuseUpgrade(502, 'legacy switched to no protocol');
      else if (!browser.destroyed)
        browser.write(answerHead(info.statusCode, info.statusMessage, info.rawHeaders), 'latin1');
    });
    passing.on('response', (answer) => {
      if (settled) return answer.destroy();
      answering = true;
      const response = answerOn(request, browser);
      response.on('close', giveUp);
      answer.on('end', () => passing?.destroy());
      clearTimeout(timer);
      relayAnswer(answer, response);
    });
    passing.on('upgrade', (answer, legacy: Socket, legacyHead: Buffer) => {
      legacy.on('error', destroyIt);
      if (settled || browser.destroyed) {
        legacy.destroy();
        return settle(null);
      }
      if (options.stripExtensions && answer.headers['sec-websocket-extensions'] !== undefined) {
        legacy.destroy();
        return refuseUpgrade(502, 'legacy negotiated extensions that nobody offered');
      }
      legacy.setTimeout(0);
      legacy.setKeepAlive(true, PROBE_AFTER);
      legacy.pause();
      browser.write(answerHead(answer.statusCode!, answer.statusMessage!, answer.rawHeaders), 'latin1');
      settle({ request, upstream, browser, legacy, browserHead: early.take(), legacyHead });
    });
    passing.end();
  });
}

/** Carries bytes both ways until either side ends. */
export function tunnel({ browser, legacy, browserHead, legacyHead }: Upgraded): void {
  carry(browser, legacy, browserHead);
  carry(legacy, browser, legacyHead);
}

/** Refuses an upgrade that is not passed on: `{"error":"…"}`, and the socket is closed. */
export function refuseUpgrade(request: IncomingMessage, browser: Socket, status: number, error: string): void {
  browser.on('error', destroyIt);
  refuse(answerOn(request, browser), status, error, true);
}

/**
 * Ends a socket so that what was written to it still arrives, and makes sure that it is gone after that.
 */
export function endSoon(socket: Socket): void {
  if (socket.destroyed) return;
  socket.end();
  // What the other side still sends finds no reader; it must be read for its FIN to be seen.
  socket.resume();
  const timer = setTimeout(() => socket.destroy(), LAST_BYTES);
  timer.unref();
  socket.once('close', () => clearTimeout(timer));
}

/** A listener that holds on to nothing: it stays on the socket for its whole life. */
function destroyIt(this: Socket): void {
  this.destroy();
}

/** What the other side of a reset connection sees: a reset, where TLS allows it. */
export function breakOff(socket: Socket): void {
  if (socket.destroyed) return;
  if ('encrypted' in socket) socket.destroy();
  else socket.resetAndDestroy();
}

function carry(from: Socket, to: Socket, first: Buffer): void {
  if (first.length > 0) to.write(first);
  const stall = new Stall(to, () => {
    breakOff(to);
    breakOff(from);
  });
  from.on('data', (chunk: Buffer) => {
    if (!to.writable || to.write(chunk)) return;
    from.pause();
    stall.begin(STALLED);
  });
  to.on('drain', () => {
    stall.end();
    from.resume();
  });
  to.on('close', () => stall.end());
  from.on('end', () => {
    endSoon(to);
    endSoon(from);
  });
  from.on('close', (hadError: boolean) => {
    if (to.destroyed) return;
    // A reset is a reset for the other side too.
    if (hadError) breakOff(to);
    else endSoon(to);
  });
  from.resume();
}

interface Early {
  /** All that came so far; the socket is paused and nobody listens from now on. */
  take(): Buffer;
}

/** Reads the browser during the handshake, or its going away would not be seen. */
function listenEarly(browser: Socket, head: Buffer, gone: () => void): Early {
  const chunks: Buffer[] = head.length > 0 ? [head] : [];
  let size = head.length;
  const onData = (chunk: Buffer) => {
    chunks.push(chunk);
    size += chunk.length;
    if (size > EARLY_LIMIT) browser.pause();
  };
  browser.on('error', destroyIt);
  browser.on('data', onData);
  browser.once('end', gone);
  browser.once('close', gone);
  browser.resume();
  return {
    take() {
      browser.pause();
      browser.removeListener('data', onData);
      browser.removeListener('end', gone);
      browser.removeListener('close', gone);
      return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
    },
  };
}

/** After an upgrade Node's server leaves the socket to us; this puts an ordinary answer on it and closes it after. */
function answerOn(request: IncomingMessage, browser: Socket): ServerResponse {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(browser);
  browser.on('drain', () => response.emit('drain'));
  response.on('finish', () => {
    response.detachSocket(browser);
    endSoon(browser);
  });
  return response;
}

function answerHead(status: number, message: string, raw: readonly string[]): string {
  let text = `HTTP/1.1 ${status} ${message}\r\n`;
  for (let i = 0; i + 1 < raw.length; i += 2) text += `${raw[i]}: ${raw[i + 1]}\r\n`;
  return `${text}\r\n`;
}
