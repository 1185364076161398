// What a change makes of a route table: set a group, take over a whole table, go back to a version, everything to the legacy.
// A pure function from the table in force to the next one. Knows no log, no clock and nobody who asks.
import type { Group, GroupRoute, RouteInput, RouteTable, TableJson } from './route.js';

/** `target` names: a group, or `calls` for all three. */
export type Target = Group | 'calls';

export type Change =
  | { readonly kind: 'set'; readonly ns: string; readonly target: string; readonly route: RouteInput }
  | { readonly kind: 'apply'; readonly table: RouteTable }
  /** The watched file changed, or differs at the start from what was last logged. */
  | { readonly kind: 'file'; readonly table: RouteTable; readonly fileHash: string }
  /** To the table of that version; without one, to the table before the one in force. */
  | { readonly kind: 'rollback'; readonly to?: number }
  /** The big red switch. */
  | { readonly kind: 'legacy' }
  | { readonly kind: 'guard'; readonly ns: string; readonly group: Group }
  /** The first entry of a log. */
  | { readonly kind: 'start'; readonly table: RouteTable; readonly fileHash?: string };

/** One entry of the log, as plain JSON. */
export interface RouteVersion {
  /** From 1, without gaps. */
  readonly version: number;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly actor: string;
  readonly via: 'cli' | 'dashboard' | 'api' | 'file' | 'guard' | 'start';
  readonly kind: Change['kind'];
  readonly reason: string;
  readonly before: TableJson;
  readonly after: TableJson;
  /** SHA-256 (hex) of the routes file that this version came from, or that was last seen. */
  readonly fileHash?: string;
}

export interface Difference {
  readonly ns: string;
  readonly group: Group;
  readonly before: GroupRoute;
  readonly after: GroupRoute;
}

export type Planned =
  | { readonly ok: true; readonly table: RouteTable; readonly differences: readonly Difference[] }
  /** One line each: what is wrong, and the command that works. */
  | { readonly ok: false; readonly problems: readonly string[] };
