// Random route tables for property tests: any modes, lists and limits that a table may have.
import fc from 'fast-check';
import { shareOf } from './check.js';
import { type GroupRoute, groupNames, type RouteTable, routeTable } from './route.js';

const hundredths = fc.integer({ min: 0, max: 10_000 }).map((n) => n / 100);
const id = fc.oneof(
  fc.string({ minLength: 1, maxLength: 12 }),
  fc.string({ minLength: 1, maxLength: 6, unit: 'binary' }),
  fc.constantFrom('007', 'true', 'null', '~', '- a', '# no', 'a: b', "it's", '"', '\n', ' ', '1e3', '__proto__', '*x'),
);
const ids = fc.array(id, { maxLength: 3 });
const guard = fc.option(
  fc.record({
    windowMs: fc.integer({ min: 1_000, max: 3_600_000 }),
    minSamples: fc.integer({ min: 1, max: 1_000_000 }),
    maxErrors: hundredths.map(shareOf),
    maxRefusals: hundredths.map(shareOf),
    maxP99Ms: fc.integer({ min: 1, max: 60_000 }),
  }),
);
const fallback = fc.constantFrom('legacy' as const, 'refuse' as const);
const canary = fc.record({
  percent: hundredths,
  salt: fc.string({ minLength: 1, maxLength: 10 }),
  users: ids,
  conversations: ids,
  exclude: fc.record({ users: ids, conversations: ids }),
});

export const anyRoute: fc.Arbitrary<GroupRoute> = fc.oneof(
  fc.record({ mode: fc.constantFrom('legacy' as const, 'new' as const), fallback, guard }).map((route) => ({
    ...route,
    sole: false,
    canary: null,
  })),
  guard.map((limits) => ({
    mode: 'new' as const,
    sole: true,
    canary: null,
    fallback: 'refuse' as const,
    guard: limits,
  })),
  // Without a list a canary of 0 % is still a canary, as after a lowering.
  fc.record({ mode: fc.constant('canary' as const), sole: fc.constant(false), canary, fallback, guard }),
);

const namespace = fc.constantFrom('/', '/calls', '/rooms/1', '/a-b', '/é', '/"', '/#x', '/a:b');

export const anyTable: fc.Arbitrary<RouteTable> = fc
  .dictionary(namespace, fc.tuple(...groupNames.map(() => anyRoute)), { maxKeys: 4 })
  .map((named) =>
    routeTable(
      new Map(
        Object.entries(named).map(([ns, routes]) => [ns, Object.fromEntries(groupNames.map((g, i) => [g, routes[i]]))]),
      ),
    ),
  );
