// A log that several instances share holds other versions than it did: Redis was emptied, or an older copy took its place. What to
// write to it again, and what to take from it. A pure function of what both hold.
import { isDeepStrictEqual } from 'node:util';
import type { RouteVersion } from '../routing/change.js';

export interface Reconciled {
  /** To be written to the log, behind what it holds. */
  readonly missing: readonly RouteVersion[];
  /** What the log holds then, as far as it is kept in memory. */
  readonly history: readonly RouteVersion[];
  /** Was in force here and goes back in force, as a version of its own behind what others wrote. */
  readonly again: RouteVersion | undefined;
  /** One line for operators; null: nothing is lost. */
  readonly told: string | null;
}

/**
 * Whoever knows the highest number has what was there; with others of the same or a higher number in the log, those count. But what
 * took calls back to the legacy, and was in force here, wins over them, as it does over all that others write meanwhile.
 *
 * `mine`: what was in the log, oldest first. `theirs`: what it holds now, and its highest number.
 */
export function reconciled(mine: readonly RouteVersion[], theirs: readonly RouteVersion[], last: number): Reconciled {
  const newest = mine.at(-1);
  if (newest && last < newest.version) {
    const missing = mine.filter(({ version }) => version > last);
    const told =
      missing.length === 1
        ? `has lost version ${newest.version}; it is written to it again`
        : `has lost versions ${missing[0]?.version} to ${newest.version}; they are written to it again`;
    return { missing, history: [...theirs, ...missing], again: undefined, told };
  }
  const there = new Map(theirs.map((version) => [version.version, version] as const));
  const from = theirs[0]?.version ?? last;
  const lost = mine.filter((one) => one.version >= from && !isDeepStrictEqual(there.get(one.version), one));
  const [first] = lost;
  const wins = newest && lost.includes(newest) && (newest.kind === 'legacy' || newest.kind === 'rollback');
  return {
    ...{ missing: [], history: theirs },
    again: wins ? newest : undefined,
    told: first
      ? `has lost version ${first.version} by ${first.actor} (${first.kind}), and holds others since; "sigfig routes history" shows what there is`
      : null,
  };
}
