// Random changes by several hands while the log fails, hangs and is appended to by others: what is in force is what the last
// winner made, the log is a chain, no number is ever two versions, and whoever starts from it agrees.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { Change } from '../routing/change.js';
import { groupNames } from '../routing/route.js';
import { anyRoute, anyTable } from '../routing/tables.fixture.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { Outcome } from './control.js';
import { full, testLog } from './log.fixture.js';
import { createRoutes } from './routes.js';
import { canary, versionOf } from './versions.fixture.js';

type Step =
  | { readonly do: 'change'; readonly change: Change; readonly stale: number }
  | { readonly do: 'break' | 'mend' | 'hold' | 'release' | 'foreign' }
  | { readonly do: 'wait'; readonly ms: number };

const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({
    kind: fc.constant('set' as const),
    ns: fc.constantFrom('/', '/calls'),
    target: fc.constantFrom('calls', ...groupNames),
    route: anyRoute,
  }),
  anyTable.map((table) => ({ kind: 'apply' as const, table })),
  fc.constant({ kind: 'legacy' as const }),
  fc.record({ kind: fc.constant('rollback' as const) }),
  fc.record({ kind: fc.constant('rollback' as const), to: fc.integer({ min: 1, max: 8 }) }),
  fc.record({
    kind: fc.constant('guard' as const),
    ns: fc.constantFrom('/', '/calls'),
    group: fc.constantFrom(...groupNames),
  }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant('change' as const), change, stale: fc.integer({ min: -1, max: 2 }) }),
  },
  {
    weight: 3,
    arbitrary: fc.constantFrom<Step>(
      ...(['break', 'mend', 'hold', 'release', 'foreign'] as const).map((d) => ({ do: d })),
    ),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(0, 1_000, 6_000) }) },
);

const urgent = (kind: Change['kind']) => kind === 'legacy' || kind === 'rollback' || kind === 'guard';
const turns = async () => {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
};

test('whatever happens to the log, the last winner is in force and the log says so', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 25 }), async (steps) => {
      const clock = manualClock();
      const log = testLog();
      const signals = recordedSignals();
      const routes = await createRoutes({ log, signals, clock });
      const changing: Promise<{ readonly change: Change; readonly outcome: Outcome }>[] = [];
      let held: { release(): void } | undefined;
      let lastUrgent = -1;
      const overruled: string[] = [];
      routes.onChange(({ actor, kind, reason }) => {
        if (actor !== 'alice') return;
        if (urgent(kind as Change['kind'])) lastUrgent = Math.max(lastUrgent, Number(reason));
        else if (Number(reason) < lastUrgent) overruled.push(`${kind} of step ${reason}, after step ${lastUrgent}`);
      });

      for (const [at, one] of steps.entries()) {
        switch (one.do) {
          case 'change': {
            const before = routes.table.toJSON();
            const ifVersion = one.stale < 0 ? undefined : routes.current.version - one.stale;
            const asked = routes.change(one.change, { actor: 'alice', via: 'api', reason: String(at), ifVersion });
            changing.push(asked.then((outcome) => ({ change: one.change, outcome })));
            if (one.change.kind === 'legacy') {
              // At once, before anything was awaited.
              for (const groups of Object.values(routes.table.toJSON().namespaces)) {
                for (const { mode } of Object.values(groups)) expect(mode).toBe('legacy');
              }
            } else if (!urgent(one.change.kind)) {
              expect(routes.table.toJSON()).toEqual(before);
            }
            break;
          }
          case 'break':
            log.broken = full();
            break;
          case 'mend':
            log.broken = null;
            break;
          case 'hold':
            held ??= log.hold();
            break;
          case 'release':
            held?.release();
            held = undefined;
            break;
          case 'foreign':
            log.foreign((number, newest) => ({
              ...versionOf(number, canary(number), 'carol'),
              ...(newest ? { before: newest.after } : {}),
            }));
            break;
          case 'wait':
            await turns();
            clock.advance(one.ms);
        }
        await turns();
        // What is in force is what its version says.
        expect(routes.table.toJSON()).toEqual(routes.current.after);
      }

      log.broken = null;
      held?.release();
      for (let i = 0; i < 8; i++) {
        await turns();
        clock.advance(6_000);
      }
      const outcomes = await Promise.all(changing);
      for (const { change: asked, outcome } of outcomes) {
        if (urgent(asked.kind)) expect(['applied', 'unchanged', 'refused']).toContain(outcome.kind);
      }
      // A last change settles what others have written and nobody has asked about yet.
      await routes.change({ kind: 'apply', table: canary(99) }, { actor: 'zoe', via: 'api', reason: 'the last' });
      expect(routes.problem).toBe(null);
      for (const [i, version] of log.lines.entries()) {
        expect(version.version).toBeGreaterThan(log.lines[i - 1]?.version ?? 0);
        if (i > 0) expect(version.before).toEqual(log.lines[i - 1]?.after);
      }
      expect(routes.current).toEqual(log.lines.at(-1));
      expect(routes.table.toJSON()).toEqual(canary(99).toJSON());
      expect(await routes.history(1_000)).toEqual([...log.lines].reverse());
      const numbers = outcomes.flatMap(({ outcome }) =>
        outcome.kind === 'applied' && outcome.unwritten === null ? [outcome.version.version] : [],
      );
      expect(new Set(numbers).size, 'no two changes are one version').toBe(numbers.length);
      for (const { outcome } of outcomes) {
        if (outcome.kind === 'applied' && outcome.unwritten === null) {
          expect(log.lines.find(({ version }) => version === outcome.version.version)).toEqual(outcome.version);
        }
      }

      expect(overruled, 'in force although it was asked for before what went ahead of the log').toEqual([]);

      const again = await createRoutes({ log: testLog([...log.lines]), signals: recordedSignals(), clock });
      expect(again.table.toJSON()).toEqual(routes.table.toJSON());
      expect(signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
    }),
    { numRuns: 200 },
  );
}, 60_000);
