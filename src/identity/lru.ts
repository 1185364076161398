// A bounded map whose entries run out: what was used least recently goes first. Knows nothing of what it holds.
import type { Clock } from '../base/clock.js';

export interface Lru<V> {
  get(key: string): V | undefined;
  /** Keeps `value` until `until` (milliseconds since the epoch); an entry that would live longer is not replaced. */
  set(key: string, value: V, until: number): void;
  readonly size: number;
}

export function lru<V>(most: number, clock: Clock): Lru<V> {
  const entries = new Map<string, { readonly value: V; readonly until: number }>(); // in the order of their use
  return {
    get(key) {
      const entry = entries.get(key);
      if (!entry) return undefined;
      entries.delete(key);
      if (entry.until <= clock.now()) return undefined;
      entries.set(key, entry);
      return entry.value;
    },
    set(key, value, until) {
      if (until <= clock.now()) return;
      const before = entries.get(key);
      if (before && before.until > until) return;
      entries.delete(key);
      entries.set(key, { value, until });
      if (entries.size <= most) return;
      for (const oldest of entries.keys()) {
        entries.delete(oldest);
        break;
      }
    },
    get size() {
      return entries.size;
    },
  };
}
