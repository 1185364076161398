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

  const isOpen = (name: string, claim: string): boolean => claims.get(name)?.id === claim;

  function drop(key: CallKey, claim: string): void {
    const by = id();
    tidying.run(`release ${keyText(key)} ${claim}`, () =>
      redis.run(scripts.release, [call.keys(key).claim], [by, claim]),
    );
  }

  return {
    async claim(key, claim) {
      const name = keyText(key);
      const [oldest] = claims.keys();
      if (claims.size >= MOST && oldest !== undefined) claims.delete(oldest);
      claims.set(name, { key, id: claim });
      try {
        const session = await trying.run(async () => (isOpen(name, claim) ? write(key, claim) : null));
        // It was released while it was on its way.
        if (!isOpen(name, claim)) drop(key, claim);
        else if (session) claims.delete(name);
        return session;
      } catch (error) {
        // Written when Redis is back, unless it was released meanwhile.
        if (error instanceof Unavailable)
          tidying.run(`claim ${name}`, async () => {
            if (isOpen(name, claim)) await write(key, claim);
            if (!isOpen(name, claim)) drop(key, claim);
          });
        throw error;
      }
    },

    release(key, claim) {
      const name = keyText(key);
      if (isOpen(name, claim)) claims.delete(name);
      drop(key, claim);
    },

    async restore(atOnce) {
      const all = [...claims.values()];
      for (let i = 0; i < all.length; i += atOnce)
        await Promise.all(all.slice(i, i + atOnce).map((one) => trying.run(() => write(one.key, one.id))));
    },

    close: () => claims.clear(),
  };
}
