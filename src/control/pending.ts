// A version that is in force and not in the log yet: what it is once others have written to the log. Knows no log.
import { type Change, plan, type RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import { known, same } from './history.js';

export interface Pending {
  readonly change: Change;
  version: RouteVersion;
  table: RouteTable;
  written: boolean;
  /** Others have appended since it was made. */
  overtaken: boolean;
  /** Others have begun the log that it was to begin. */
  yielded?: true;
  /** Not needed any more: the newest version of the log says the same. */
  dropped?: true;
}

export const pendingOf = (change: Change, version: RouteVersion, table: RouteTable): Pending => ({
  ...{ change, version, table },
  ...{ written: false, overtaken: false },
});

/**
 * The same behind `base`, the newest version of the log, with another number where its own is taken. Null: it is not needed any
 * more, since the guard of another instance that shares the log has taken the same back.
 */
export function rebased(
  { version, change, table, overtaken }: Pending,
  base: RouteVersion | undefined,
  number: number,
  shared: boolean,
): { readonly version: RouteVersion; readonly table: RouteTable } | null {
  if (!base || (version.version === number && version.before === base.after)) {
    return { version: version.version === number ? version : { ...version, version: number }, table };
  }
  let next = table;
  // A rollback says where to; what the others say depends on what they find.
  if (overtaken && (change.kind === 'guard' || change.kind === 'legacy')) {
    const inForce = known(base);
    const again = plan({ version: base, table: inForce, find: () => undefined }, change);
    if (again.ok) next = again.table;
    if (shared && change.kind === 'guard' && again.ok && same(next, inForce)) return null;
  }
  return { version: { ...version, version: number, before: base.after, after: next.toJSON() }, table: next };
}
