// Random traffic of many calls while routes flip at random: no call ever sees two paths, nothing is lost, doubled or
// reordered within a path, raising a canary takes nobody out, and a restarted instance agrees.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type RouteInput, type RouteTable, routeTable } from '../../src/routing/route.js';
import { verdictOf } from './verdict.js';
import { World } from './world.js';

const users = ['ann', 'ben', 'cat'];
const conversations = ['dm:ann:ben', 'dm:ben:cat', 'dm:ann:cat'];

const tableOf = (calls: RouteInput): RouteTable =>
  routeTable(new Map([['/', { 'call-lifecycle': calls, 'ice-candidate': calls, 'call-renegotiation': calls }]]));
const canary = (percent: number) => tableOf({ mode: 'canary', canary: { percent } });
const tables: readonly RouteTable[] = [
  tableOf({ mode: 'legacy' }),
  tableOf({ mode: 'new' }),
  ...[0, 20, 50.5, 80, 100].map(canary),
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
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const of = <T>(list: readonly T[], pick: number): T | undefined => list[pick % list.length];

async function play(steps: readonly Step[]): Promise<string[]> {
  const world = new World(tables[0] as RouteTable);
  try {
    for (const [i, user] of users.entries()) world.connect(user, i === 1);
    await world.quiet();
    for (const one of steps) await take(one, world);
    await world.quiet();
    const faults = verdictOf(world);
    return faults.length === 0 ? [] : [...faults, world.story.join('\n')];
  } finally {
    world.close();
  }
}

async function take(one: Step, world: World): Promise<void> {
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
      world.table = of(tables, one.pick) as RouteTable;
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
  it('keep every call on its path', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 20, maxLength: 200, size: 'max' }), async (steps) => {
        expect(await play(steps)).toEqual([]);
      }),
      { numRuns: 100, interruptAfterTimeLimit: 15_000 },
    );
  });
});
