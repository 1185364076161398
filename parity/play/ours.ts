// Scenarios run at the same time against one backend, and some events tell everybody of everybody: what they say of users of
// other scenarios is left out before anybody looks. Knows nothing of devices.
import type { Entry } from './transcript.js';

/** The entry, or what is left of it, or nothing. `onlyOurs` are the events that this is done to. */
export function ours(entry: Entry, onlyOurs: readonly string[], users: ReadonlySet<string>): Entry | undefined {
  if (entry.kind === 'disconnected' || entry.kind === 'response' || !onlyOurs.includes(entry.name)) return entry;
  const foreign = (value: unknown): boolean => {
    const id = (value as { userId?: unknown } | null)?.userId;
    return typeof id === 'string' && !users.has(id);
  };
  if (entry.args.some(foreign)) return undefined;
  const args = entry.args.map((arg) => {
    if (typeof arg !== 'object' || arg === null) return arg;
    const kept = Object.entries(arg).map(([key, value]) => [
      key,
      Array.isArray(value) ? value.filter((one) => !foreign(one)) : value,
    ]);
    return Object.fromEntries(kept) as unknown;
  });
  return { ...entry, args };
}
