// A guard over routes that are kept in an array, by a clock that a test moves. Knows nothing of logs or of other instances.
import { afterEach } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { Decision } from '../base/service.js';
import { type Change, plan, type RouteVersion } from '../routing/change.js';
import { type Group, type RouteInput, routeTable } from '../routing/table.js';
import { recordedSignals, type Whose } from '../telemetry/signals.js';
import type { Author, Outcome, RouteControl } from './control.js';
import { Guard } from './guard.js';

/** Makes guards for the tests of a file; each is closed with its test, and whatever else is put among `guards`. */
export function guardBeds() {
  const guards: Guard[] = [];
  afterEach(() => {
    for (const guard of guards.splice(0)) guard.close();
  });
  const bed = (named: Readonly<Record<string, Routes>> = { '/': allNew }, history: RouteVersion[] = []) =>
    guarded(guards, named, history);
  return { guards, bed };
}

/** The routes of one namespace, by group. */
export type Routes = Readonly<Partial<Record<Group, RouteInput>>>;

/** Those that the tests cross. */
export const limits = { windowMs: 60_000, minSamples: 50, maxErrors: 0.01, maxRefusals: 0.05, maxP99Ms: 500 };
/** Every group on the new path, guarded. */
export const allNew: Routes = {
  'call-lifecycle': { mode: 'new', guard: limits },
  'ice-candidate': { mode: 'new', guard: limits },
  'call-renegotiation': { mode: 'new', guard: limits },
};

/** A control that keeps its versions in an array, and can be made to fail. */
export function control(named: Readonly<Record<string, Routes>>, history: RouteVersion[] = []) {
  let table = routeTable(new Map(Object.entries(named)));
  const listeners = new Set<(version: RouteVersion) => void>();
  const versions = history;
  let failing: Outcome | null = null;
  const made = {
    get table() {
      return table;
    },
    async change(change: Change, author: Author): Promise<Outcome> {
      if (failing) return failing;
      const [current] = versions;
      const planned = plan({ version: current as RouteVersion, table, find: () => undefined }, change);
      if (!planned.ok) return { kind: 'refused', problems: planned.problems };
      if (planned.differences.length === 0) return { kind: 'unchanged', version: current as RouteVersion };
      const version: RouteVersion = {
        ...author,
        version: versions.length + 1,
        at: `2026-01-01T00:00:${String(versions.length).padStart(2, '0')}.000Z`,
        kind: change.kind,
        before: table.toJSON(),
        after: planned.table.toJSON(),
      };
      table = planned.table;
      versions.unshift(version);
      for (const listener of listeners) listener(version);
      return { kind: 'applied', version, confirmed: { instances: 1, of: 1 }, unwritten: null };
    },
    history: async (limit: number) => versions.slice(0, limit),
    onChange(listener: (version: RouteVersion) => void) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
  return {
    control: made as unknown as RouteControl,
    versions,
    fail: (outcome: Outcome | null) => {
      failing = outcome;
    },
    operator: (change: Change) => made.change(change, { actor: 'ann', via: 'cli', reason: 'r' }),
  };
}

async function guarded(guards: Guard[], named: Readonly<Record<string, Routes>>, history: RouteVersion[]) {
  const clock = manualClock();
  const guard = new Guard({ clock });
  guards.push(guard);
  const told = recordedSignals();
  const routes = control(named, history);
  await guard.watch(routes.control, told);
  const { signals } = guard;
  const state = (group: Group, ns = '/') => guard.states().find((one) => one.ns === ns && one.group === group);
  return {
    ...routes,
    guard,
    clock,
    told,
    state,
    mode: (group: Group, ns = '/') => routes.control.table.toJSON().namespaces[ns]?.[group].mode,
    /** Events of the new path, some of which end badly. */
    play(
      event: string,
      count: number,
      {
        ns = '/',
        errors = 0,
        refused = {} as Record<string, number>,
        ms = 1,
        because = 'route' as Decision['because'],
        // By default each is another user's.
        user = (i: number) => `user ${i}`,
      } = {},
    ) {
      const whose = (i: number): Whose => ({ user: user(i), conversationId: `c ${i}` });
      for (let i = 0; i < count; i++) {
        signals.decided?.(event, { path: because === 'fallback' ? 'legacy' : 'new', because }, ns);
        signals.served?.(event, ms, ns, whose(i));
      }
      for (let i = 0; i < errors; i++) {
        signals.internalError?.(`serving ${event}`, new Error('broken'), { event, ns, whose: whose(i) });
        signals.refused?.(event, 'internal', ns, whose(i));
      }
      for (const [code, times] of Object.entries(refused)) {
        for (let i = 0; i < times; i++) signals.refused?.(event, code, ns, whose(i));
      }
    },
    /** A second later it has looked, and what it did is done. */
    async second() {
      clock.advance(1_000);
      await Promise.resolve();
      await new Promise((resolve) => setImmediate(resolve));
    },
    trips: () => told.events.filter(({ what }) => what === 'guardTripped').map(({ args }) => args),
  };
}
