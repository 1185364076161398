// Calls of the legacy that began on this instance, as the others are told of them. Knows nothing of sessions but that one is in the way.
import type { InstanceId } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import type { Redis } from '../redis/redis.js';
import type { Attempts, Background } from './attempts.js';
import { keyText } from './known.js';
import type { RedisCall } from './redis-call.js';
import * as scripts from './redis-scripts.js';
import type { SessionStore } from './store.js';

/** As the service drops its own. */
const CLAIM_MS = 6 * 3_600_000;
/** The service bounds them lower. Over it the oldest are not told again after a loss. */
const MOST = 200_000;

export interface Claims extends Pick<SessionStore, 'claim' | 'release'> {
  /** All of them again, under the id that this instance has now. @throws Unavailable */
  restore(atOnce: number): Promise<void>;
  close(): void;
}

export function redisClaims(
  redis: Redis,
  call: RedisCall,
  trying: Attempts,
  tidying: Background,
  id: () => InstanceId,
): Claims {
  const claims = new Map<string, { readonly key: CallKey; readonly id: string }>();

  async function write(key: CallKey, claim: string): Promise<Session | null> {
    const keys = call.keys(key);
    const [word, format, text] = await call.run(
      scripts.claim,
      key,
      [keys.session, keys.claim],
      [id(), claim, CLAIM_MS],
    );
    return word === 'there' ? call.inForce(key, format, text) : null;
  }

  return {
    async claim(key, claim) {
      const name = keyText(key);
      const [oldest] = claims.keys();
      if (claims.size >= MOST && oldest !== undefined) claims.delete(oldest);
      claims.set(name, { key, id: claim });
      try {
        const session = await trying.run(() => write(key, claim));
        if (session && claims.get(name)?.id === claim) claims.delete(name);
        return session;
      } catch (error) {
        // Written when Redis is back, unless it was released meanwhile.
        if (error instanceof Unavailable)
          tidying.run(`claim ${name}`, async () => {
            if (claims.get(name)?.id === claim) await write(key, claim);
          });
        throw error;
      }
    },

    release(key, claim) {
      const name = keyText(key);
      if (claims.get(name)?.id === claim) claims.delete(name);
      const by = id();
      tidying.run(`release ${name} ${claim}`, () => redis.run(scripts.release, [call.keys(key).claim], [by, claim]));
    },

    async restore(atOnce) {
      const all = [...claims.values()];
      for (let i = 0; i < all.length; i += atOnce)
        await Promise.all(all.slice(i, i + atOnce).map((one) => trying.run(() => write(one.key, one.id))));
    },

    close: () => claims.clear(),
  };
}
