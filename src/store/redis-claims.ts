// Calls of the legacy that began on this instance, as the others are told of them. Knows nothing of sessions but that one is in the way.
import type { InstanceId } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import { type Redis, RedisAway } from '../redis/redis.js';
import type { Attempts, Background } from './attempts.js';
import { keyText } from './known.js';
import { type RedisCall, VOID_MS } from './redis-call.js';
import * as scripts from './redis-scripts.js';
import type { SessionStore } from './store.js';

/** As the service drops its own. */
const CLAIM_MS = 6 * 3_600_000;
/** The service bounds them lower. Over it the oldest are not told again after a loss. */
const MOST = 200_000;

export interface Claims extends Pick<SessionStore, 'claim' | 'release'> {
  /** Those that were made within so many milliseconds again, under the id that this instance has now. @throws Unavailable */
  restore(atOnce: number, within: number): Promise<void>;
  close(): void;
}

interface Claim {
  readonly key: CallKey;
  readonly id: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** A try had no answer: the network may still bring it. */
  doubtful: boolean;
}

export interface ClaimParts {
  readonly redis: Redis;
  readonly call: RedisCall;
  readonly trying: Attempts;
  readonly tidying: Background;
  id(): InstanceId;
  now(): number;
}

export function redisClaims({ redis, call, trying, tidying, id, now }: ClaimParts): Claims {
  const claims = new Map<string, Claim>();

  async function write(claim: Claim): Promise<Session | null> {
    const { key } = claim;
    const keys = call.keys(key);
    const args = [id(), claim.id, CLAIM_MS];
    try {
      const [word, format, text] = await call.run(scripts.claim, key, [keys.session, keys.claim, keys.void], args);
      return word === 'there' ? call.inForce(key, format, text) : null;
    } catch (error) {
      if (error instanceof RedisAway && error.sent) claim.doubtful = true;
      throw error;
    }
  }

  const isOpen = (claim: Claim): boolean => claims.get(keyText(claim.key)) === claim;

  function drop(key: CallKey, claim: string, doubtful: boolean): void {
    const by = id();
    const keys = call.keys(key);
    tidying.run(`release ${keyText(key)} ${claim}`, () =>
      redis.run(scripts.release, [keys.claim, keys.void], [by, claim, doubtful ? VOID_MS : '']),
    );
  }

  return {
    async claim(key, name) {
      const claim: Claim = { key, id: name, at: now(), doubtful: false };
      const [oldest] = claims.keys();
      if (claims.size >= MOST && oldest !== undefined) claims.delete(oldest);
      claims.set(keyText(key), claim);
      try {
        const session = await trying.run(async () => (isOpen(claim) ? write(claim) : null));
        // It was released while it was on its way.
        if (!isOpen(claim)) drop(key, name, claim.doubtful);
        else if (session) claims.delete(keyText(key));
        return session;
      } catch (error) {
        // What hangs may still arrive.
        claim.doubtful = true;
        // Written when Redis is back, unless it was released meanwhile.
        if (error instanceof Unavailable)
          tidying.run(`claim ${keyText(key)}`, async () => {
            if (isOpen(claim)) await write(claim);
            if (!isOpen(claim)) drop(key, name, claim.doubtful);
          });
        throw error;
      }
    },

    release(key, name) {
      const claim = claims.get(keyText(key));
      const found = claim?.id === name ? claim : undefined;
      if (found) claims.delete(keyText(key));
      drop(key, name, found?.doubtful ?? false);
    },

    async restore(atOnce, within) {
      const since = now() - within;
      const all = [...claims.values()].filter(({ at }) => at > since);
      for (let i = 0; i < all.length; i += atOnce)
        await Promise.all(
          all.slice(i, i + atOnce).map((claim) => trying.run(async () => (isOpen(claim) ? write(claim) : null))),
        );
    },

    close: () => claims.clear(),
  };
}
