// Versions that are in force, or were, and not in the log yet; and what one is once others have written to the log. Knows no log.
import { type Change, plan, type RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
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

/** Operators and the guard together make a few changes a minute. */
const MOST_PENDING = 256;

/** In the order in which they are written; the last one is in force. */
export class PendingVersions {
  #all: Pending[] = [];
  readonly #signals: Pick<Signals, 'bound'>;

  constructor(signals: Pick<Signals, 'bound'>) {
    this.#signals = signals;
  }

  get size(): number {
    return this.#all.length;
  }

  get first(): Pending | undefined {
    return this.#all[0];
  }

  get last(): Pending | undefined {
    return this.#all.at(-1);
  }

  /** Oldest first. */
  get versions(): RouteVersion[] {
    return this.#all.map(({ version }) => version);
  }

  find(one: (pending: Pending) => boolean): Pending | undefined {
    return this.#all.find(one);
  }

  /** Over the bound the oldest one is given up. */
  add(pending: Pending): void {
    this.#all.push(pending);
    if (this.#all.length <= MOST_PENDING) return;
    this.#all.shift();
    this.#signals.bound('pending-route-versions', { most: MOST_PENDING });
  }

  /** It waits no longer. */
  written(pending: Pending): void {
    pending.written = true;
    this.#all = this.#all.filter((one) => one !== pending);
  }

  /** Others have appended to the log. */
  overtake(): void {
    for (const pending of this.#all) pending.overtaken = true;
  }
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
