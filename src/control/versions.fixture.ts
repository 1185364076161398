// Versions of a route table for tests of the log and of the control.
import type { RouteVersion } from '../routing/change.js';
import { type RouteInput, type RouteTable, routeTable } from '../routing/route.js';

export const tableWith = (input: RouteInput, ns = '/'): RouteTable =>
  routeTable(
    new Map([[ns, { 'call-lifecycle': input, 'ice-candidate': input, 'call-renegotiation': input }] as const]),
  );
export const allLegacy = routeTable(new Map());
export const allNew = tableWith({ mode: 'new' });
export const canary = (percent: number) => tableWith({ mode: 'canary', canary: { percent } });

export const versionOf = (
  version: number,
  table: RouteTable = canary(version % 100),
  actor = 'alice',
): RouteVersion => ({
  version,
  at: '2026-01-02T03:04:05.678Z',
  actor,
  via: 'cli',
  kind: 'set',
  reason: `number ${version}`,
  before: allLegacy.toJSON(),
  after: table.toJSON(),
});
