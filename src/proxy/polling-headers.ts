// Heads and bodies of what a polling session sends by itself, or with another length than it came with. Works on raw
// header lists. Knows nothing of sessions.
import type { OutgoingMessage } from 'node:http';
import type { RawHeaders } from './headers.js';

/** Up to this a copy is cheaper than a second piece in a write; bytes. */
const ONE_PIECE = 16 * 1024;

/** Belong to the one answer they came with, or to its connection. */
const NOT_REPEATED = new Set([
  'connection',
  'keep-alive',
  'proxy-connection',
  'transfer-encoding',
  'te',
  'trailer',
  'upgrade',
  'content-length',
  'content-encoding',
  'content-type',
  'set-cookie',
  'date',
  'etag',
]);
const FRAMING = new Set(['content-length', 'transfer-encoding', 'trailer']);

/** What an answer of our own repeats of the legacy's last answer to the same method: CORS, Cache-Control and the like. */
export function repeated(raw: RawHeaders): string[] {
  return without(raw, NOT_REPEATED);
}

/** The same headers for a body of another length; bytes. */
export function withLength(headers: RawHeaders, length: number): string[] {
  const list = without(headers, FRAMING);
  list.push('Content-Length', String(length));
  return list;
}

/** Ends a message with this body; head and a small body go as one piece, byte for byte. */
export function endWith(message: OutgoingMessage, body: Buffer): void {
  if (body.length <= ONE_PIECE) message.end(body.toString('latin1'), 'latin1');
  else message.end(body);
}

export function withoutHeader(headers: RawHeaders, lowerName: string): string[] {
  return without(headers, new Set([lowerName]));
}

function without(raw: RawHeaders, drop: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    if (!drop.has(raw[i]!.toLowerCase())) kept.push(raw[i]!, raw[i + 1]!);
  }
  return kept;
}
