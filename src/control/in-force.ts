// The table in force and its version, and who is told when another one is. Knows no log: whoever puts one in force does.

import type { Change, RouteVersion } from '../routing/change.js';
import { LONGEST_ACTOR, LONGEST_REASON } from '../routing/check.js';
import { type RouteTable, routeTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { Author } from './control.js';

export type Listener = (version: RouteVersion) => void;

export const NOTHING: RouteTable = routeTable(new Map());

export class InForce {
  table: RouteTable = NOTHING;
  /** The highest number that anybody was told of. It is never another version's, or a compare-and-set would take one for the other. */
  told = 0;
  readonly #signals: Pick<Signals, 'routesChanged' | 'internalError'>;
  readonly #listeners = new Set<Listener>();
  #version: RouteVersion | undefined;

  constructor(signals: Pick<Signals, 'routesChanged' | 'internalError'>) {
    this.#signals = signals;
  }

  get version(): RouteVersion {
    if (!this.#version) throw new Error('the routes were not started');
    return this.#version;
  }

  put(version: RouteVersion, table: RouteTable): void {
    this.table = table;
    this.says(version);
    const { version: number, kind, actor, reason } = version;
    this.#signals.routesChanged({ version: number, kind, actor, reason, summary: table.summary });
    for (const listener of this.#listeners) {
      try {
        listener(version);
      } catch (error) {
        this.#signals.internalError('routes listener', error);
      }
    }
  }

  /** The same table, of which something else is said: what it was made from. */
  says(version: RouteVersion): void {
    this.#version = version;
    this.told = Math.max(this.told, version.version);
  }

  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** The version that a change makes of it. `fileHash`: of the routes file as it was last taken over. */
  next(
    { kind }: Change,
    { actor, via, reason }: Author,
    table: RouteTable,
    { number, now, fileHash }: { readonly number: number; readonly now: number; readonly fileHash: string | undefined },
  ): RouteVersion {
    return {
      version: number,
      at: new Date(now).toISOString(),
      actor: actor.slice(0, LONGEST_ACTOR),
      via,
      kind,
      reason: reason.slice(0, LONGEST_REASON),
      before: this.#version?.after ?? NOTHING.toJSON(),
      after: table.toJSON(),
      ...(fileHash === undefined ? {} : { fileHash }),
    };
  }
}
