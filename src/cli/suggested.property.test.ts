// A line that names the command that works is only one where that command does: whatever change is refused, what it suggests is
// read by a shell and by the command line itself, and is taken.
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { SetRequest } from '../admin/api.js';
import { routeAsked } from '../admin/plan.js';
import { setRequest } from '../admin/requests.js';
import { plan, type RouteVersion } from '../routing/change.js';
import { defaultGuard, groupNames, groups, type RouteInput, type RouteTable, routeTable } from '../routing/route.js';
import { admin, asked, inForce, run, useAdmin } from './operator.fixture.js';

useAdmin();

const ids = fc.array(fc.constantFrom('alice', 'mary ann', "o'neill", '-x', '$HOME', 'auth0|7', 'a,b', '\u202e', '*'), {
  maxLength: 3,
});
const canary = fc.record(
  {
    percent: fc.constantFrom(0, 5, 0.25, 100, 101),
    salt: fc.constantFrom('spring', 'a b', ''),
    users: ids,
    conversations: ids,
    exclude: fc.record({ users: ids, conversations: ids }),
  },
  { requiredKeys: [] },
);
const asking: fc.Arbitrary<RouteInput> = fc.record(
  {
    mode: fc.constantFrom('legacy' as const, 'new' as const, 'canary' as const, 'fast' as 'new'),
    canary,
    sole: fc.boolean(),
    fallback: fc.constantFrom('legacy' as const, 'refuse' as const),
    guard: fc.constantFrom(null, defaultGuard, { ...defaultGuard, windowMs: 90_500, maxErrors: 0.0007 }),
  },
  { requiredKeys: ['mode'] },
);
const target = fc.constantFrom('calls', 'nothing', ...groupNames, ...Object.values(groups).flat());
const tables: readonly RouteTable[] = [
  routeTable(new Map()),
  routeTable(new Map([['/', { 'call-lifecycle': { mode: 'canary', canary: { percent: 40 } } }]])),
  routeTable(new Map([['/', Object.fromEntries(groupNames.map((group) => [group, { mode: 'new', sole: true }]))]])),
];

const planOn = (table: RouteTable, ns: string, of: string, route: RouteInput) =>
  plan(
    { version: { version: 1 } as RouteVersion, table, find: () => undefined },
    { kind: 'set', ns, target: of, route },
  );

test('what a refused change suggests is taken', async () => {
  admin.answers = { 'GET /api/status': [200, inForce] };
  let suggested = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(...tables),
      fc.constantFrom('/', '/calls', "/a;'b"),
      target,
      asking,
      async (table, ns, of, route) => {
        const planned = planOn(table, ns, of, route);
        if (planned.ok) return;
        for (const problem of planned.problems) {
          const [, command] = /: (sigfig routes set .*)$/su.exec(problem) ?? [];
          if (command === undefined) continue;
          suggested++;
          // As a shell reads it, and with what a terminal would be asked for.
          const words = execFileSync('sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' }).split('\0');
          asked.length = 0;
          await run([...words.slice(1, -1), '--reason', 'as suggested']);
          const body = asked.find(({ path }) => path === '/api/routes/set')?.body as SetRequest | undefined;
          expect(body, `${command} is sent`).toBeDefined();
          const input = setRequest.parse(body);
          const again = planOn(table, input.namespace ?? '/', input.target, routeAsked(input, table).route);
          expect(again, command).toMatchObject({ ok: true });
        }
      },
    ),
    { numRuns: 400 },
  );
  expect(suggested).toBeGreaterThan(50);
}, 60_000);
