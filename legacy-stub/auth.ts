// Who somebody is, for the legacy backend: signs and checks its HS256 tokens, and finds them in a handshake or request.
// The key is one KeyObject made at the start (a string secret costs about 600 µs per check, a KeyObject about 12 µs).
// Knows nothing of conversations, calls or routes.
import { createSecretKey, randomBytes } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import jwt from 'jsonwebtoken';

/** A user of the legacy: the id is the name that was typed at login. */
export interface User {
  readonly id: string;
  readonly name: string;
}

export interface Tokens {
  /** A login token whose `sub` is the user's id. */
  issue(user: User): string;
  /** The user of a login token, or undefined where it is absent, forged, expired or not a login token (a call ticket). */
  verify(token: unknown): User | undefined;
  /** Signs other claims with the same secret; `ttlMs` becomes `exp` (whole seconds). */
  sign(claims: object, ttlMs: number): string;
}

/** Longest name that may log in. */
export const MAX_NAME = 64;

export function createTokens(secret: string | Buffer | undefined, tokenTtlMs: number): Tokens {
  const bytes = secret === undefined ? randomBytes(32) : typeof secret === 'string' ? Buffer.from(secret) : secret;
  const key = createSecretKey(bytes);
  const sign = (claims: object, ttlMs: number): string =>
    jwt.sign({ ...claims, exp: Math.floor((Date.now() + ttlMs) / 1000) }, key, { algorithm: 'HS256' });
  return {
    sign,
    issue: (user) => sign({ sub: user.id, name: user.name }, tokenTtlMs),
    verify(token) {
      if (typeof token !== 'string' || token === '') return undefined;
      let claims: jwt.JwtPayload | string;
      try {
        claims = jwt.verify(token, key, { algorithms: ['HS256'] });
      } catch {
        return undefined; // forged, malformed or expired: all are "unauthorized" to the caller
      }
      if (typeof claims === 'string' || claims.aud !== undefined) return undefined;
      if (typeof claims.sub !== 'string' || claims.sub === '') return undefined;
      return { id: claims.sub, name: typeof claims.name === 'string' ? claims.name : claims.sub };
    },
  };
}

/** The token of an `Authorization: Bearer` header. */
export function bearer(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+)\s*$/i.exec(headers.authorization ?? '')?.[1];
}

/** The value of the `token` cookie. */
export function tokenCookie(headers: IncomingHttpHeaders): string | undefined {
  for (const part of (headers.cookie ?? '').split(';')) {
    const at = part.indexOf('=');
    if (at > 0 && part.slice(0, at).trim() === 'token') return part.slice(at + 1).trim();
  }
  return undefined;
}
