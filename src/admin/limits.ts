// How often somebody may ask: a token bucket for each actor or address, in a bounded memory. Knows nothing of what is asked.
import { type Clock, systemClock } from '../base/clock.js';

export interface Limit {
  /** False: too often. `cost`: for how many it counts. */
  take(key: string, cost?: number): boolean;
}

/** Actors are few; addresses are whatever connects. At the bound the one that was quiet longest is forgotten. */
const MOST_KEYS = 1_024;

/** `burst` at once, and `perSecond` in the long run. */
export function limit(
  { burst, perSecond }: { readonly burst: number; readonly perSecond: number },
  clock: Pick<Clock, 'now'> = systemClock,
): Limit {
  const buckets = new Map<string, { left: number; at: number }>();
  return {
    take(key, cost = 1) {
      const now = clock.now();
      const bucket = buckets.get(key) ?? { left: burst, at: now };
      // Behind what is used again: the map's first key is the quietest.
      buckets.delete(key);
      buckets.set(key, bucket);
      if (buckets.size > MOST_KEYS) buckets.delete(buckets.keys().next().value as string);
      bucket.left = Math.min(burst, bucket.left + ((now - bucket.at) / 1_000) * perSecond);
      bucket.at = now;
      if (bucket.left < cost) return false;
      bucket.left -= cost;
      return true;
    },
  };
}
