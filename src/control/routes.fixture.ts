// Route control that a test starts, with authors and changes to try on it; what was started is closed after each test.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect } from 'vitest';
import { type Clock, systemClock } from '../base/clock.js';
import type { Change, RouteVersion } from '../routing/change.js';
import type { RouteInput } from '../routing/route.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { Author, Outcome, RouteControl, RouteLog } from './control.js';
import { testLog } from './log.fixture.js';
import { createRoutes } from './routes.js';

export const open: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

export async function start(
  log: RouteLog = testLog(),
  { file, clock = systemClock }: { file?: string; clock?: Clock } = {},
) {
  const signals = recordedSignals();
  const routes = await createRoutes({ log, file, signals, clock });
  open.push(() => routes.close());
  const told = (what: string) => signals.events.filter((event) => event.what === what).map(({ args }) => args);
  return { routes, signals, told };
}
export async function folder() {
  const path = await mkdtemp(join(tmpdir(), 'routes-'));
  open.push(() => rm(path, { recursive: true, force: true }));
  return path;
}

export const alice: Author = { actor: 'alice', via: 'cli', reason: 'for a test' };
export const bob: Author = { ...alice, actor: 'bob' };
export const set = (target: string, route: RouteInput): Change => ({ kind: 'set', ns: '/', target, route });
export const toNew = set('calls', { mode: 'new' });
export const toLegacy = set('calls', { mode: 'legacy' });
export const share = (percent: number) => set('calls', { mode: 'canary', canary: { percent } });
export const red: Change = { kind: 'legacy' };
export const mode = (routes: RouteControl) => routes.table.mode('/', 'call-offer');
export const numberOf = (outcome: Outcome) => ('version' in outcome ? outcome.version.version : undefined);
export const kinds = (outcomes: readonly Outcome[]) => outcomes.map(({ kind }) => kind);
export const chained = (versions: readonly RouteVersion[]) => {
  for (const [i, version] of versions.entries()) {
    expect(version.version).toBeGreaterThan(versions[i - 1]?.version ?? 0);
    if (i > 0) expect(version.before, `before of ${version.version}`).toEqual(versions[i - 1]?.after);
  }
};
