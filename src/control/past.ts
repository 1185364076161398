// Versions of the route table that are no longer in force: those that wait for the log, those that are kept in memory, and older ones
// from the log. Knows nothing of what is in force.
import type { Change, RouteVersion } from '../routing/change.js';
import type { Signals } from '../telemetry/signals.js';
import type { RouteLog } from './control.js';
import type { History } from './history.js';

export interface PastOptions {
  readonly log: RouteLog;
  readonly history: History;
  readonly signals: Pick<Signals, 'routesLog'>;
  /** In force or overruled, and not in the log yet; oldest first. */
  pending(): readonly RouteVersion[];
}

export class Past {
  readonly #options: PastOptions;

  constructor(options: PastOptions) {
    this.#options = options;
  }

  /** Of what is in memory. */
  find(number: number): RouteVersion | undefined {
    const { history, pending } = this.#options;
    return history.find(number) ?? pending().find(({ version }) => version === number);
  }

  /** Newest first, at most `limit` of those below `before`. */
  async page(limit: number, before: number): Promise<readonly RouteVersion[]> {
    const { history } = this.#options;
    const pending = this.#options.pending().filter(({ version }) => version < before);
    const found = [...pending.reverse(), ...history.below(before, limit)].slice(0, limit);
    const oldest = found.at(-1)?.version ?? Math.min(before, history.oldest?.version ?? 1);
    if (found.length === limit || oldest <= 1) return found;
    return [...found, ...(await this.#older(limit - found.length, oldest))];
  }

  /** The version that a rollback names, where it is no longer in memory. */
  async target(change: Change): Promise<RouteVersion | undefined> {
    if (change.kind !== 'rollback' || change.to === undefined || this.find(change.to)) return undefined;
    return (await this.#older(1, change.to + 1)).find(({ version }) => version === change.to);
  }

  /** Nothing where the log can't be read: what is in memory is shown all the same. */
  async #older(limit: number, before: number): Promise<readonly RouteVersion[]> {
    const { log, signals } = this.#options;
    try {
      return await log.older(limit, before);
    } catch (error) {
      const mend = log.mend === undefined ? '; make it readable' : '';
      signals.routesLog(`the log ${log.where} can't be read (${reasonOf(error)})${mend}`);
      return [];
    }
  }
}

/** The system's error, or what was thrown. */
export const reasonOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error));
