// A JSON Web Key Set (RFC 7517) from a file or a URL, kept fresh in the background: whoever verifies never waits for it.
// Knows nothing of what tokens say.
import { createPublicKey, createSecretKey, type JsonWebKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Algorithm } from 'jsonwebtoken';
import type { Dispatcher } from 'undici';
import { z } from 'zod';
import type { Clock, Timer } from '../base/clock.js';
import { ask, faultOf } from './http.js';
import type { Keys } from './keys.js';
import { HMAC, type PinnedKey, pick, pinnedPublicKey } from './pinned.js';

export interface JwksOptions {
  readonly clock: Clock;
  /** Told in one line when a refresh fails; the last good set stays in force. Never a token. */
  readonly problem?: (line: string) => void;
  /** For a URL behind a CA of its own. */
  readonly dispatcher?: Dispatcher;
  /** Milliseconds from one refresh to the next; 10 minutes. */
  readonly refreshMs?: number;
  /** An unknown key id asks for a refresh at most once in this many milliseconds; 10 s. Anybody can send an unknown id. */
  readonly leastMs?: number;
}

const REFRESH_MS = 600_000;
const LEAST_MS = 10_000;
const FETCH_MS = 5_000;
/** Real sets are a few kilobytes. */
const MOST_BYTES = 256 * 1024;
const MOST_KEYS = 100;

/** @throws Error of one clear line where the first load fails: without keys nothing could ever be verified. */
export async function jwksKeys(at: string, options: JwksOptions): Promise<Keys> {
  const { clock, refreshMs = REFRESH_MS, leastMs = LEAST_MS } = options;
  const url = /^https?:\/\//i.test(at) ? new URL(at) : undefined;
  const shown = url ? url.origin + url.pathname : at;
  const load = async (): Promise<readonly PinnedKey[]> => {
    const text = url ? await fetchText(url, options.dispatcher) : await readFile(at, 'utf8');
    return parseJwks(text, { symmetric: !url });
  };

  let pinned: readonly PinnedKey[];
  try {
    pinned = await load();
  } catch (error) {
    throw new Error(`the JWKS ${shown} can't be used: ${faultOf(error)}`);
  }

  let loadedAt = clock.now();
  let loading = false;
  let closed = false;
  let timer: Timer | undefined;

  const refresh = async () => {
    if (loading || closed) return;
    loading = true;
    loadedAt = clock.now();
    try {
      pinned = await load();
    } catch (error) {
      options.problem?.(`the JWKS ${shown} could not be refreshed, the last good keys stay: ${faultOf(error)}`);
    } finally {
      loading = false;
    }
  };
  const repeat = () => {
    timer = clock.after(refreshMs, () => {
      if (closed) return;
      void refresh();
      repeat();
    });
  };
  repeat();

  return {
    find(alg, kid) {
      if (kid !== undefined && !pinned.some((p) => p.kid === kid || p.kid === undefined)) {
        if (clock.now() - loadedAt >= leastMs) void refresh();
        return { why: 'unknown key' };
      }
      const keys = pick(pinned, alg, kid);
      return keys.length > 0 ? { keys } : { why: 'algorithm not allowed' };
    },
    close() {
      closed = true;
      timer?.cancel();
    },
  };
}

const Jwk = z.looseObject({
  kty: z.string(),
  kid: z.string().optional(),
  use: z.string().optional(),
  key_ops: z.array(z.string()).optional(),
  alg: z.string().optional(),
  k: z.string().optional(),
});
const Jwks = z.object({ keys: z.array(z.unknown()) });

/**
 * The keys of a set that may verify tokens. What is for encryption, of an unknown kind or too weak is left out
 * (RFC 7517 section 5); none left over is an error. A secret (`oct`) counts in a file only: what a URL shows is public.
 */
export function parseJwks(text: string, allow: { readonly symmetric: boolean }): readonly PinnedKey[] {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The parser's message quotes the input, which may be a secret.
    throw new Error('it is not JSON');
  }
  const set = Jwks.safeParse(json);
  if (!set.success) throw new Error('it has no "keys" list');
  const pinned = set.data.keys.slice(0, MOST_KEYS).flatMap((one) => pinnedJwk(one, allow.symmetric));
  if (pinned.length === 0) throw new Error('it holds no key that can verify a token (RSA, EC; use: sig)');
  return pinned;
}

function pinnedJwk(value: unknown, symmetric: boolean): PinnedKey[] {
  const parsed = Jwk.safeParse(value);
  if (!parsed.success) return [];
  const jwk = parsed.data;
  if (jwk.use !== undefined && jwk.use !== 'sig') return [];
  if (jwk.key_ops !== undefined && !jwk.key_ops.includes('verify')) return [];
  let key: PinnedKey;
  try {
    if (jwk.kty === 'oct') {
      if (!symmetric || !jwk.k) return [];
      key = { key: createSecretKey(Buffer.from(jwk.k, 'base64url')), algorithms: HMAC };
    } else {
      key = pinnedPublicKey(createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' }), 'a key of the set');
    }
  } catch {
    return []; // Of a kind or strength that we can't use; its neighbours still count.
  }
  const algorithms = jwk.alg === undefined ? key.algorithms : key.algorithms.filter((a: Algorithm) => a === jwk.alg);
  if (algorithms.length === 0) return [];
  return [{ key: key.key, algorithms, ...(jwk.kid === undefined ? {} : { kid: jwk.kid }) }];
}

async function fetchText(url: URL, dispatcher: Dispatcher | undefined): Promise<string> {
  const answer = await ask(url, { mostBytes: MOST_BYTES, timeoutMs: FETCH_MS, dispatcher });
  if (answer.status !== 200) throw new Error(`it answered ${answer.status}`);
  return answer.body;
}
