// Which headers go on, and what a proxy must add (RFC 9110 section 7.6). Works on raw header lists, so that order,
// case and duplicates stay as they came. Knows nothing of sockets or bodies.
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

/** Names and values in turn, as `rawHeaders` of Node's messages. */
export type RawHeaders = readonly string[];

/** Whether a peer's own `X-Forwarded-Proto` and `X-Forwarded-Host` are believed, by its address (`--trust-proxy`). */
export type Trust = (address: string | undefined) => boolean;

/** RFC 9110 section 7.6.1, and the framing that each hop makes anew. */
const HOP_BY_HOP = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'te',
  'transfer-encoding',
  'upgrade',
  'http2-settings',
]);

/** `Connection: x` can't take these away: they say how long a message is, for whom it is, or who sent it. */
const NOT_NAMEABLE = new Set([
  'content-length',
  'host',
  'cookie',
  'authorization',
  'origin',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
]);

/** The headers meant for the far end: without hop-by-hop ones, also those that `Connection` names. */
export function endToEnd(raw: RawHeaders): string[] {
  const named = namedByConnection(raw);
  return without(raw, (name) => HOP_BY_HOP.has(name) || (named?.has(name) ?? false));
}

/**
 * What goes to the legacy for a plain request: end-to-end headers, `X-Forwarded-*`, and the framing of the body.
 * Host stays the browser's; a request without one (HTTP/1.0) gets `host`.
 */
export function requestHeaders(request: IncomingMessage, trust: Trust, host: string): string[] {
  const headers = endToEnd(request.rawHeaders);
  if (request.headers.host === undefined) headers.unshift('Host', host);
  addForwarded(headers, request, trust);
  if (request.headers['transfer-encoding'] !== undefined) {
    headers.push('Transfer-Encoding', 'chunked');
    return headers;
  }
  if (request.headers['content-length'] === undefined && hasBodyByDefault(request.method)) {
    headers.push('Content-Length', '0');
  }
  return withoutTrailer(headers);
}

/** `Trailer` announces fields behind a chunked body (RFC 9110 section 6.6.2); with any other Node throws over it. */
export const withoutTrailer = (headers: RawHeaders): string[] => without(headers, (name) => name === 'trailer');

/**
 * What goes to the legacy for an upgrade: everything as it came, and `X-Forwarded-*`. `stripExtensions` leaves
 * `Sec-WebSocket-Extensions` out, so that no compression is negotiated and frames can be read.
 */
export function upgradeHeaders(
  request: IncomingMessage,
  trust: Trust,
  host: string,
  stripExtensions: boolean,
): string[] {
  const headers = without(
    request.rawHeaders,
    (name) =>
      name === 'proxy-connection' ||
      name === 'http2-settings' ||
      name === 'trailer' ||
      (stripExtensions && name === 'sec-websocket-extensions'),
  );
  if (request.headers.host === undefined) headers.unshift('Host', host);
  addForwarded(headers, request, trust);
  return headers;
}

/** What a browser gets of an answer's headers. Trailers announced by `Trailer` follow the body. */
export const answerHeaders = endToEnd;

/**
 * `X-Forwarded-For` gets the peer's address appended, whoever the peer is. `X-Forwarded-Proto` and `X-Forwarded-Host` of
 * a trusted peer are kept as they came and set only where absent; of any other they are set from the connection
 * and the Host header, whatever came.
 */
function addForwarded(headers: string[], request: IncomingMessage, trust: Trust): void {
  const address = request.socket.remoteAddress;
  const keep = trust(address);
  const proto = 'encrypted' in request.socket && request.socket.encrypted ? 'https' : 'http';
  if (address !== undefined) append(headers, 'X-Forwarded-For', unmapped(address));
  set(headers, 'X-Forwarded-Proto', proto, keep);
  const host = request.headers.host;
  if (host !== undefined) set(headers, 'X-Forwarded-Host', host, keep);
}

/** Behind the last one of that name, in its own case; lists may be split over several lines (RFC 9110 section 5.3). */
function append(headers: string[], name: string, value: string): void {
  const lower = name.toLowerCase();
  for (let i = headers.length - 2; i >= 0; i -= 2) {
    if (headers[i]!.toLowerCase() === lower) {
      headers[i + 1] = headers[i + 1] ? `${headers[i + 1]}, ${value}` : value;
      return;
    }
  }
  headers.push(name, value);
}

function set(headers: string[], name: string, value: string, keep: boolean): void {
  const lower = name.toLowerCase();
  let found = false;
  for (let i = headers.length - 2; i >= 0; i -= 2) {
    if (headers[i]!.toLowerCase() !== lower) continue;
    found = true;
    if (!keep) headers.splice(i, 2);
  }
  if (!found || !keep) headers.push(name, value);
}

function namedByConnection(raw: RawHeaders): Set<string> | undefined {
  let named: Set<string> | undefined;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.length !== 10 || raw[i]!.toLowerCase() !== 'connection') continue;
    for (const token of raw[i + 1]!.split(',')) {
      const name = token.trim().toLowerCase();
      if (name === '' || name === 'keep-alive' || name === 'close' || NOT_NAMEABLE.has(name)) continue;
      named ??= new Set();
      named.add(name);
    }
  }
  return named;
}

function without(raw: RawHeaders, drop: (lowerName: string) => boolean): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (!drop(raw[i]!.toLowerCase())) kept.push(raw[i]!, raw[i + 1]!);
  }
  return kept;
}

function hasBodyByDefault(method: string | undefined): boolean {
  return method === 'POST' || method === 'PUT' || method === 'PATCH';
}

/** `::ffff:10.0.0.1` is how a dual-stack listener shows an IPv4 peer. */
function unmapped(address: string): string {
  return address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}
