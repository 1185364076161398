// Random traffic of many calls while routes flip at random: no call ever sees two paths, nothing is lost, doubled or
// reordered within a path, raising a canary takes nobody out, and a restarted instance agrees.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { tableOf as readTable } from '../../src/routing/check.js';
import { type RouteInput, type RouteTable, routeTable } from '../../src/routing/route.js';
import { verdictOf } from './verdict.js';
import { World } from './world.js';

/** The same plays each time, so that only a change can make them differ; FLIPS_SEED and FLIPS_RUNS play others, and more. */
const seed = Number(process.env.FLIPS_SEED ?? 439_290);
const numRuns = Number(process.env.FLIPS_RUNS ?? 200);
/** A play takes some 10 ms. However slow a machine is, all of them are played: a part would show nothing. */
const mostMs = Math.max(120_000, numRuns * 300);

const users = ['ann', 'ben', 'cat'];
const conversations = ['dm:ann:ben', 'dm:ben:cat', 'dm:ann:cat'];

const legacy: RouteInput = { mode: 'legacy' };
const served: RouteInput = { mode: 'new' };
type Canary = NonNullable<RouteInput['canary']>;
const canary = (percent: number, lists: Omit<Canary, 'percent'> = {}): RouteInput => ({
  mode: 'canary',
  canary: { percent, ...lists },
});
const without = (users: string[], ids: string[] = []): Canary => ({ exclude: { users, conversations: ids } });
const tableOf = (calls: RouteInput, candidates = calls, renegotiation = candidates): RouteTable =>
  routeTable(
    new Map([['/', { 'call-lifecycle': calls, 'ice-candidate': candidates, 'call-renegotiation': renegotiation }]]),
  );
const tables: readonly RouteTable[] = [legacy, served, ...[0, 20, 50.5, 80, 100].map((share) => canary(share))].map(
  (calls) => tableOf(calls),
);
/** Lists and excludes, flipped too: who is left to the legacy may offer while another's offer is being accepted here. */
const listed: readonly RouteTable[] = [
  canary(0, { users: ['ann'] }),
  canary(20, { conversations: ['dm:ben:cat'], ...without(['ann']) }),
  canary(50.5, { users: ['ben', 'cat'], ...without([], ['dm:ann:ben']) }),
  canary(100, without(['cat'])),
  canary(100, without(['ann', 'ben'], ['dm:ann:cat'])),
].map((calls) => tableOf(calls));
const legacyTable = tableOf(legacy);
const peeled: readonly RouteTable[] = [
  tableOf(legacy, served),
  tableOf(legacy, served, legacy),
  tableOf(legacy, canary(50.5)),
  tableOf(canary(50.5), served),
];
const peeledListed: readonly RouteTable[] = [
  tableOf(legacy, canary(100, without(['ben']))),
  tableOf(legacy, canary(100, without([], ['dm:ann:cat'])), served),
  tableOf(legacy, canary(0, { users: ['cat'], ...without(['ann']) }), canary(100, without(['cat']))),
  tableOf(canary(100, without(['ann'])), canary(100, without(['cat'])), canary(50.5)),
];

const nat = fc.nat({ max: 1_000_000 });
const step = fc.oneof(
  { weight: 10, arbitrary: fc.record({ do: fc.constant('say' as const), pick: nat, what: nat, where: nat }) },
  {
    weight: 10,
    arbitrary: fc.record({ do: fc.constant('move' as const), pick: nat, times: fc.integer({ min: 1, max: 6 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('flip' as const), pick: nat }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('connect' as const), pick: nat, polling: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('leave' as const), pick: nat, sudden: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('quiet' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom('roll back' as const, 'end all' as const, 'restart' as const),
      odds: nat,
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const of = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];

/** The table as the log keeps it and a new process reads it. */
function readBack(table: RouteTable): RouteTable {
  const read = readTable(JSON.parse(JSON.stringify(table.toJSON())));
  if (!read.ok) throw new Error(read.problems.join());
  return read.table;
}

async function play(
  steps: readonly Step[],
  from: readonly RouteTable[],
): Promise<{ readonly faults: readonly string[]; readonly calls: number }> {
  const world = new World(from[0] as RouteTable);
  const earlier: RouteTable[] = [];
  try {
    for (const [i, user] of users.entries()) world.connect(user, i === 1);
    await world.quiet();
    for (const one of steps) await take(one, world, from, earlier);
    await world.quiet();
    await world.ended();
    await world.quiet();
    const faults = verdictOf(world);
    const calls = [...world.calls.values()].filter(({ path }) => path !== null).length;
    return { faults: faults.length === 0 ? [] : [...faults, world.story.join('\n')], calls };
  } finally {
    world.close();
  }
}

async function take(one: Step, world: World, from: readonly RouteTable[], earlier: RouteTable[]): Promise<void> {
  switch (one.do) {
    case 'say': {
      const browser = of(world.connected, one.pick);
      const own = conversations.filter((id) => browser && id.split(':').includes(browser.user));
      browser?.act(of(own, one.where) as string, one.what);
      return;
    }
    case 'move':
      for (let i = 0; i < one.times; i++) await world.move(one.pick + i);
      return;
    case 'flip':
      earlier.push(world.table);
      world.table = of(from, one.pick) as RouteTable;
      return;
    case 'roll back':
      world.table = earlier.pop() ?? world.table;
      return;
    case 'end all':
      // What ends a call ends it while others go on; half of the time is enough.
      if (one.odds % 2) return;
      earlier.push(world.table);
      world.table = tables[0] as RouteTable;
      world.endAll();
      return;
    case 'restart':
      if (one.odds % 4) return;
      world.restart(readBack(world.table));
      for (const [i, user] of users.entries()) world.connect(user, i === 1);
      return;
    case 'connect':
      if (world.connected.length < 6) world.connect(of(users, one.pick) as string, one.polling);
      return;
    case 'leave': {
      const browser = of(world.connected, one.pick);
      if (browser) world.leave(browser, one.sudden);
      return;
    }
    case 'quiet':
      return world.quiet();
  }
}

describe('random calls under random flips', () => {
  const cases = [
    ['whole calls', tables],
    ['relays alone, too', [...tables, ...peeled]],
    ['whole calls, by lists', [...tables, ...listed]],
    ['relays alone, by lists', [legacyTable, ...peeled, ...peeledListed]],
  ] as const;
  it.each(cases)(
    'keep every call on its path: %s',
    async (_name, from) => {
      let played = 0;
      let accepted = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 200, size: 'max' }), async (steps) => {
          const { faults, calls } = await play(steps, from);
          expect(faults).toEqual([]);
          played++;
          accepted += calls;
        }),
        { seed, numRuns, endOnFailure: true },
      );
      expect(played).toBeGreaterThanOrEqual(numRuns);
      // Plays in which nobody gets through show nothing either.
      expect(accepted).toBeGreaterThan(numRuns);
    },
    mostMs,
  );

  it('draw the same share for everybody: a larger one takes nobody out, and a table that was read back agrees', () => {
    const share = fc.integer({ min: 0, max: 10_000 }).map((parts) => parts / 100);
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), share, share, (id, one, other) => {
        const [small, large] = [tableOf(canary(Math.min(one, other))), tableOf(canary(Math.max(one, other)))];
        const wants = (table: RouteTable, user: string) => table.wants('/', 'call-offer', id, user).path;
        expect(wants(small, 'ann')).toBe(wants(readBack(small), 'ben'));
        if (wants(small, 'ann') === 'new') expect(wants(large, 'ben')).toBe('new');
      }),
    );
  });
});
