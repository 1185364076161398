// Whether anything of the new path can exist in a namespace, as far as instances tell of themselves: where it can't, no event of the
// legacy's waits for what they share. Knows a table and a few figures, and asks nobody.
import type { Clock } from '../base/clock.js';
import type { Liveness } from '../cluster/cluster.js';
import type { RouteTable } from '../routing/route.js';

export interface QuietDeps {
  readonly cluster: { readonly liveness: Pick<Liveness, 'living'> };
  readonly routes: () => RouteTable;
  readonly clock: Pick<Clock, 'now'>;
}

/** Longer than a lease, than an offer under way, and than a call that was lost with its instances waits for its users. */
const QUIET_MS = 90_000;

export class Quiet {
  readonly #deps: QuietDeps;
  #table: RouteTable | undefined;
  #since = 0;

  constructor(deps: QuietDeps) {
    this.#deps = deps;
  }

  /**
   * True where the table in force has all calls of the namespace on the legacy, and every living instance has told for 90 s, without
   * another word between, that it has that version too and no call of the new path.
   */
  in(ns: string): boolean {
    const { cluster, routes, clock } = this.#deps;
    const table = routes();
    const now = clock.now();
    const all = cluster.liveness.living();
    const version = all.find(({ self }) => self)?.info.routesVersion;
    const quiet =
      typeof version === 'number' && all.every(({ info }) => info.routesVersion === version && callsOf(info) === 0);
    if (table !== this.#table || !quiet) {
      this.#table = table;
      this.#since = now;
      return false;
    }
    return now - this.#since >= QUIET_MS && table.mode(ns, 'call-offer') === 'legacy';
  }
}

/** Of the new path; undefined where that instance does not say. */
const callsOf = ({ calls }: Readonly<Record<string, unknown>>): unknown =>
  typeof calls === 'object' && calls !== null ? (calls as Record<string, unknown>).new : undefined;
