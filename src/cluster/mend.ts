// What to do where Redis refuses: a key that holds another type than it must was written by something else. It is deleted, so that
// one bad key costs what stood there and nothing more. Knows nothing of what that was.
import { type Redis, RedisAway, type RedisRefused } from '../redis/redis.js';
import type { ClusterSignals } from './told.js';

/**
 * Resolves to true where the key was deleted. False: Redis is away by now and whoever asks next finds it again, or the key is not what
 * was refused, which is told as an internal error.
 */
export async function mend(
  redis: Redis,
  signals: ClusterSignals,
  {
    key,
    kind,
    error,
  }: { readonly key: string; readonly kind: 'hash' | 'set' | 'stream'; readonly error: RedisRefused },
): Promise<boolean> {
  try {
    const found = await redis.call('TYPE', key);
    if (found === kind || found === 'none') {
      signals.internalError('redis', error);
      return false;
    }
    signals.unreadable(key, `a ${String(found)} where a ${kind} must be; deleted`);
    await redis.call('DEL', key);
    return true;
  } catch (gone) {
    if (!(gone instanceof RedisAway)) signals.internalError('redis', gone);
    return false;
  }
}
