// Who a token belongs to: signature, times, audience and the user's claim, checked offline. Knows nothing of where
// tokens come from, nor of tickets but that they are no logins.
import jwt from 'jsonwebtoken';
import type { Clock } from '../base/clock.js';
import type { UserId } from '../base/ids.js';
import type { TokenVerifier } from './identity.js';
import type { Keys } from './keys.js';

export interface VerifierOptions {
  readonly clock: Clock;
  /** The claim that names the user; `sub`. */
  readonly userClaim?: string;
  /** Where set, the token's `aud` must hold it. */
  readonly audience?: string;
  /** Where set, the token's `iss` must be it. */
  readonly issuer?: string;
}

/** `aud` of a call ticket. A ticket is signed by the same key as a login and names the same user, but it is no login. */
export const CALL_AUDIENCE = 'call';

/** Clocks of two machines differ a little (RFC 7519 section 4.1.4 allows for it). Seconds. */
export const TOLERANCE_S = 5;
/** Node takes no more in all headers together by default. */
const MOST_TOKEN_LENGTH = 16 * 1024;
const MOST_USER_LENGTH = 256;

/** Verifies login tokens against `keys`. Keeps no cache: with a KeyObject a verification costs about 12 µs. */
export function createTokenVerifier(keys: Keys, options: VerifierOptions): TokenVerifier {
  const { clock, userClaim = 'sub', audience, issuer } = options;
  return {
    verify(token) {
      const read = readClaims(keys, token, clock, { audience, issuer });
      if (!read.ok) return read;
      if (hasAudience(read.claims.aud, CALL_AUDIENCE)) return { ok: false, why: 'a call ticket is not a login token' };
      const user = userIdOf(Object.hasOwn(read.claims, userClaim) ? read.claims[userClaim] : undefined);
      return user === undefined ? { ok: false, why: 'no usable user claim' } : { ok: true, user };
    },
  };
}

export type Claims = Readonly<Record<string, unknown>>;
export type ReadClaims = { readonly ok: true; readonly claims: Claims } | { readonly ok: false; readonly why: string };

/** The claims of a token whose signature, times, audience and issuer hold. `why` is one of a few fixed texts. */
export function readClaims(
  keys: Keys,
  token: string,
  clock: Clock,
  must: { readonly audience?: string | undefined; readonly issuer?: string | undefined },
): ReadClaims {
  if (token.length > MOST_TOKEN_LENGTH) return { ok: false, why: 'token too long' };
  const header = readHeader(token);
  if (!header) return { ok: false, why: 'malformed token' };
  // RFC 7515 section 4.1.11: extensions marked critical must be understood; we understand none.
  if (header.crit !== undefined) return { ok: false, why: 'unknown critical extension' };
  const { alg, kid } = header;
  if (typeof alg !== 'string') return { ok: false, why: 'algorithm not allowed' };
  const found = keys.find(alg, typeof kid === 'string' ? kid : undefined);
  if ('why' in found) return { ok: false, why: found.why };
  let why = 'unknown key';
  for (const key of found.keys) {
    try {
      const claims: unknown = jwt.verify(token, key, {
        algorithms: [alg as jwt.Algorithm], // `find` gave keys of this very algorithm only
        clockTimestamp: Math.floor(clock.now() / 1000),
        clockTolerance: TOLERANCE_S,
        ...(must.audience === undefined ? {} : { audience: must.audience }),
        ...(must.issuer === undefined ? {} : { issuer: must.issuer }),
      });
      if (typeof claims !== 'object' || claims === null || Array.isArray(claims)) {
        return { ok: false, why: 'malformed token' };
      }
      return { ok: true, claims: claims as Claims };
    } catch (error) {
      why = whyOf(error);
      if (why !== BAD_SIGNATURE) break; // The signature held: another key would change nothing.
    }
  }
  return { ok: false, why };
}

/**
 * A user's id as tokens, tickets and REST answers give it: a string of 1 to 256 characters, or a whole number turned
 * into one. Larger numbers than JSON carries exactly are refused: two users could become one.
 */
export function userIdOf(value: unknown): UserId | undefined {
  if (Number.isSafeInteger(value)) return String(value) as UserId;
  if (typeof value !== 'string' || value === '' || value.length > MOST_USER_LENGTH) return undefined;
  return value as UserId;
}

export const hasAudience = (aud: unknown, wanted: string): boolean =>
  Array.isArray(aud) ? aud.includes(wanted) : aud === wanted;

function readHeader(token: string): Claims | undefined {
  const dot = token.indexOf('.');
  if (dot <= 0) return undefined;
  try {
    const header: unknown = JSON.parse(Buffer.from(token.slice(0, dot), 'base64url').toString('utf8'));
    return typeof header === 'object' && header !== null ? (header as Claims) : undefined;
  } catch {
    return undefined; // Not JSON: the token is malformed, which is the answer.
  }
}

const BAD_SIGNATURE = 'signature does not match';

function whyOf(error: unknown): string {
  if (error instanceof jwt.TokenExpiredError) return 'expired';
  if (error instanceof jwt.NotBeforeError) return 'not yet valid';
  if (error instanceof jwt.JsonWebTokenError) {
    if (error.message === 'invalid signature') return BAD_SIGNATURE;
    if (error.message.startsWith('jwt audience')) return 'wrong audience';
    if (error.message.startsWith('jwt issuer')) return 'wrong issuer';
  }
  return 'malformed token';
}
