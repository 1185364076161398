// Who is in a canary's share: a stable hash, so that both parties and every instance agree, and so that raising the share
// never takes anybody out. Knows nothing of routes or calls.
import { createHash } from 'node:crypto';

/** Hundredths of a percent. */
const PARTS = 10_000;

/**
 * A conversation's place in the cohort, 0 to 9,999: the first four bytes (big-endian) of the SHA-1 of salt, newline and
 * conversation id in UTF-8, modulo 10,000. The same on every machine and in every version.
 */
export function placeOf(salt: string, conversationId: string): number {
  return createHash('sha1').update(`${salt}\n${conversationId}`, 'utf8').digest().readUInt32BE(0) % PARTS;
}

/** `percent`: 0 to 100, two decimals. */
export function inShare(salt: string, conversationId: string, percent: number): boolean {
  if (percent <= 0) return false;
  return percent >= 100 || placeOf(salt, conversationId) < Math.round(percent * 100);
}
