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

/** They tell of themselves each second, and what they tell is put together for whoever asks. */
const LOOK_MS = 250;

export class Quiet {
  readonly #deps: QuietDeps;
  #table: RouteTable | undefined;
  #since = 0;
  #lookedAt = 0;

  constructor(deps: QuietDeps) {
    this.#deps = deps;
  }

  /**
   * True where the table in force has all calls of the namespace on the legacy, and every living instance has told for 90 s, without
   * another word between, that it has that version too and no call of the new path.
   */
  in(ns: string): boolean {
    const table = this.#deps.routes();
    if (table.mode(ns, 'call-offer') !== 'legacy') return false;
    const now = this.#deps.clock.now();
    if (table !== this.#table) {
      this.#table = table;
      this.#since = now;
    }
    if (Math.abs(now - this.#lookedAt) >= LOOK_MS) {
      this.#lookedAt = now;
      if (!this.#isQuiet()) this.#since = now;
    }
    return now - this.#since >= QUIET_MS;
  }

  #isQuiet(): boolean {
    const all = this.#deps.cluster.liveness.living();
    const version = all.find(({ self }) => self)?.info.routesVersion;
    return (
      typeof version === 'number' && all.every(({ info }) => info.routesVersion === version && callsOf(info) === 0)
    );
  }
}

/** Of the new path; undefined where that instance does not say. */
const callsOf = ({ calls }: Readonly<Record<string, unknown>>): unknown =>
  typeof calls === 'object' && calls !== null ? (calls as Record<string, unknown>).new : undefined;
