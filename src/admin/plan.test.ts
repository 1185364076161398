// What a dry run says: who moves, by which share and list, and that nobody does where only settings differ.
import { describe, expect, it } from 'vitest';
import { differences } from '../routing/change.js';
import { parseRouteTable } from '../routing/table.js';
import { call, fakeCalls, fakeConnected } from './admin.fixture.js';
import { type Ends, livePlan } from './plan.js';
import { takesFromNew } from './plan-lines.js';

const tableOf = (yaml: string) => {
  const read = parseRouteTable(`namespaces: ${yaml}`, 'routes.yaml');
  if (!read.ok) throw new Error(read.problems.join('\n'));
  return read.table.toJSON();
};
const from = (before: string, after: string) => differences(tableOf(before), tableOf(after));

const connected = fakeConnected({ '/': ['alice', 'bob', 'carol'], '/calls': ['dora'] }, { unverified: { '/': 2 } });
const calls = fakeCalls([call('a', 'legacy'), call('b', 'new'), call('c', 'new', '/calls')]);
const planned = (before: string, after: string, ends?: Ends, several = 1) =>
  livePlan(
    { connected, calls, instances: { all: async () => Array(several).fill({}) } },
    { from: 1, before: tableOf(before), after: tableOf(after), differences: from(before, after), ends },
  );
const lifecycle = (route: string) => `{ /: { call-lifecycle: ${route} } }`;

const stay = ['1 live call stays on legacy until it ends', '1 live call stays on new until it ends'];
const unverified = "can't serve 2 sockets whose token can't be verified: the legacy does";
const begin = 'calls that they begin from now on';
const their = 'the conversations of 3 connected users';

describe('what moves is said', () => {
  it.each([
    ['legacy', 'new', [`moves 3 connected users to new: ${begin}`, ...stay, unverified]],
    ['new', 'legacy', [`moves 3 connected users to legacy: ${begin}`, ...stay]],
    [
      'legacy',
      '{ mode: canary, percent: 5 }',
      [`takes 5 % of ${their} into the canary: ${begin}`, ...stay, unverified],
    ],
    [
      '{ mode: canary, percent: 5 }',
      '{ mode: canary, percent: 10 }',
      [`raises the canary from 5 % to 10 % of ${their}: ${begin}`, ...stay, unverified],
    ],
    [
      '{ mode: canary, percent: 10 }',
      '{ mode: canary, percent: 5 }',
      [
        `lowers the canary from 10 % to 5 % of ${their}, and moves the others back to legacy: ${begin}`,
        ...stay,
        unverified,
      ],
    ],
    [
      '{ mode: canary, percent: 12.5 }',
      'new',
      [`moves the other 87.5 % of ${their} to new: ${begin}`, ...stay, unverified],
    ],
    [
      '{ mode: canary, percent: 12.5 }',
      'legacy',
      [`takes the canary's 12.5 % of ${their} back to legacy: ${begin}`, ...stay],
    ],
    [
      'new',
      '{ mode: canary, percent: 12.5 }',
      [`leaves 12.5 % of ${their} on new and moves the others to legacy: ${begin}`, ...stay, unverified],
    ],
    [
      'new',
      '{ mode: canary, percent: 0, users: [alice, zoe] }',
      [
        `moves 2 connected users to legacy: ${begin}`,
        "leaves 2 users (1 connected) on new: the canary's list",
        ...stay,
        unverified,
      ],
    ],
    [
      'legacy',
      '{ mode: canary, percent: 0, users: [alice, zoe] }',
      ["puts 2 users (1 connected) on the canary's list", ...stay, unverified],
    ],
    [
      '{ mode: canary, percent: 5, users: [alice], conversations: [c] }',
      '{ mode: canary, percent: 5, users: [bob, carol], exclude: { users: [alice] } }',
      [
        "puts 2 users (2 connected) on the canary's list",
        "takes 1 user (1 connected) off the canary's list",
        "takes 1 conversation off the canary's list",
        'puts 1 user (1 connected) on the list of those that are never in the canary',
        ...stay,
        unverified,
      ],
    ],
    [
      '{ mode: canary, percent: 5 }',
      '{ mode: canary, percent: 5, salt: may }',
      ['draws the share anew: other conversations are in it', ...stay, unverified],
    ],
  ])('%s → %s', async (before, after, lines) => {
    const plan = await planned(lifecycle(before), lifecycle(after));
    expect(plan.lines).toEqual(lines);
    expect(plan).toMatchObject({ connectedUsers: 3, liveCalls: { new: 1, legacy: 1 } });
    expect(plan.events).toContain('call-offer');
  });

  it('of relays: of which calls', async () => {
    const plan = await planned('{}', '{ /: { ice-candidate: new } }');
    expect(plan.lines[0]).toBe(
      'moves 3 connected users to new: ice-candidate of calls that they begin from now on and the legacy owns',
    );
    expect(plan.events).toEqual(['ice-candidate']);
  });

  const calledBack = (command: string, takes: string) =>
    `${command} of calls that the legacy then owns are still served here (peeled); ${takes}`;
  it.each([
    [
      '{ calls: new }',
      '{ call-lifecycle: legacy, ice-candidate: new, call-renegotiation: new }',
      calledBack('candidates and renegotiations', '"sigfig routes set calls legacy" takes all back'),
    ],
    [
      '{ call-lifecycle: new, ice-candidate: new }',
      '{ call-lifecycle: { mode: canary, percent: 5 }, ice-candidate: new }',
      calledBack('candidates', '"sigfig routes set ice-candidate legacy" leaves them to it'),
    ],
    [
      '{ call-lifecycle: { mode: canary, percent: 9 }, ice-candidate: new, call-renegotiation: new }',
      '{ call-lifecycle: { mode: canary, percent: 5 }, ice-candidate: new, call-renegotiation: new }',
      calledBack(
        'candidates and renegotiations',
        '"sigfig routes set ice-candidate legacy" and "sigfig routes set call-renegotiation legacy" leave them to it',
      ),
    ],
    ['{ calls: new }', '{ calls: legacy }', null],
    ['{ call-lifecycle: legacy, ice-candidate: legacy }', '{ call-lifecycle: legacy, ice-candidate: new }', null],
    ['{ ice-candidate: new }', '{ call-lifecycle: { mode: canary, percent: 5 }, ice-candidate: new }', null],
  ])('what relays do where the lifecycle goes back: %s → %s', async (before, after, line) => {
    const { lines } = await planned(`{ /: ${before} }`, `{ /: ${after} }`);
    expect(lines.filter((one) => one.includes('peeled'))).toEqual(line === null ? [] : [line]);
  });

  it('the same in other namespaces: with a command that works there, or for how many', async () => {
    const peeled = async (namespaces: readonly string[]) => {
      const table = (lifecycle: string) =>
        `{ ${namespaces.map((ns) => `${ns}: { call-lifecycle: ${lifecycle}, ice-candidate: new }`).join(', ')} }`;
      return (await planned(table('new'), table('legacy'))).lines.filter((one) => one.includes('peeled'));
    };
    expect(await peeled(['/calls'])).toEqual([
      'candidates of calls that the legacy then owns in /calls are still served here (peeled); "sigfig routes set calls legacy --namespace /calls" takes all back',
    ]);
    expect(await peeled(['/', '/calls'])).toEqual([
      'candidates of calls that the legacy then owns in 2 namespaces are still served here (peeled); set calls to legacy there too',
    ]);
  });

  it('a namespace that is named or no more is a change, though all of it is on the legacy', async () => {
    const names = await planned('{}', '{ /typo: { calls: legacy } }');
    expect(names).toMatchObject({ differences: [], namespaces: { named: ['/typo'], dropped: [] } });
    expect(names.lines).toEqual(['adds the namespace /typo to the table; 0 connected users there']);
    const dropped = await planned('{ /a: {}, /b: {}, /c: {}, /d: {}, /e: {}, /f: {} }', '{}');
    expect(dropped.lines).toEqual([
      'removes the namespaces /a, /b, /c, /d, /e and 1 more from the table: all of them go to the legacy',
    ]);
    expect((await planned('{ /a: {} }', '{ /a: {} }')).lines).toEqual([
      'changes nothing: the table is already like that',
    ]);
  });

  it('in different ways: each with its groups', async () => {
    const plan = await planned('{}', '{ /: { call-lifecycle: { mode: canary, percent: 5 } }, /calls: { calls: new } }');
    expect(plan.lines.slice(0, 2)).toEqual([
      `call-lifecycle: takes 5 % of ${their} into the canary: ${begin}`,
      `call-lifecycle, ice-candidate, call-renegotiation in /calls: moves 1 connected user to new: ${begin}`,
    ]);
  });
});

describe('what only sets something otherwise moves nobody', () => {
  const nobody = 'moves nobody: what is served where stays as it is';
  it.each([
    ['new', '{ mode: new, guard: off }', 'call-lifecycle: no guard'],
    ['legacy', '{ mode: legacy, guard: off }', 'call-lifecycle: no guard'],
    ['{ mode: new, guard: off }', 'new', 'call-lifecycle: a guard'],
    ['new', '{ mode: new, guard: { min-samples: 7 } }', 'call-lifecycle: other limits of the guard'],
    [
      'new',
      '{ mode: new, fallback: legacy }',
      'call-lifecycle: while the new path is unwell, a new call goes to the legacy',
    ],
    [
      '{ mode: canary, percent: 5 }',
      '{ mode: canary, percent: 5, fallback: refuse }',
      'call-lifecycle: while the new path is unwell, a new call is refused',
    ],
  ])('%s → %s', async (before, after, line) => {
    const plan = await planned(lifecycle(before), lifecycle(after));
    expect(plan.lines).toEqual([nobody, line]);
    expect(plan).toMatchObject({
      ...{ events: [], connectedUsers: 0, listedUsers: 0, liveCalls: { new: 0, legacy: 0 } },
      unservable: { foreign: 0, unverified: 0 },
    });
  });

  it('lists in another order', async () => {
    const [ab, ba] = ['[a, b]', '[b, a]'].map((users) => lifecycle(`{ mode: canary, percent: 5, users: ${users} }`));
    expect((await planned(ab as string, ba as string)).lines).toEqual([nobody]);
  });

  it('sole: who can not be verified is refused here, and no more left to the legacy', async () => {
    const [whole, sole] = ['{ /: { calls: new } }', '{ /: { calls: { mode: new, sole: true } } }'] as const;
    const all = 'call-lifecycle, ice-candidate, call-renegotiation';
    const plan = await planned(whole, sole);
    expect(plan.lines).toEqual([
      nobody,
      `${all}: sole from now on: what was left to the legacy is refused here`,
      "refuses 2 sockets whose token can't be verified: with sole the legacy is not asked",
    ]);
    expect(plan.unservable).toEqual({ foreign: 0, unverified: 2 });
    expect((await planned(sole, whole)).lines).toEqual([
      nobody,
      `${all}: no longer sole: what can not be served here goes to the legacy`,
    ]);
    expect((await planned('{}', sole)).lines).toContain(
      "refuses 2 sockets whose token can't be verified: with sole the legacy is not asked",
    );
  });
});

it('calls that it would end do not stay', async () => {
  const plan = await planned('{ /: { calls: new }, /calls: { calls: new } }', '{ /calls: { calls: new } }', {
    which: (ns) => ns === '/',
  });
  expect(plan.endedCalls).toBe(1);
  expect(plan.lines).toEqual([
    `moves 3 connected users to legacy: ${begin}`,
    '1 live call stays on legacy until it ends',
    'ends 1 live call of the new path at once',
  ]);
});

it('a table of any size gets a bounded number of lines', async () => {
  const namespaces = Array.from({ length: 60 }, (_, i) => `/n${i}: { calls: { mode: canary, percent: ${i + 1} } }`);
  const plan = await planned('{}', `{ ${namespaces.join(', ')} }`);
  expect(plan.differences).toHaveLength(180);
  expect(plan.lines.length).toBeLessThan(20);
  expect(plan.lines).toContain('and moves otherwise in 54 more ways');
});

it('of several instances, that it counts on one of them', async () => {
  const line = 'of 3 instances, users and calls of the legacy are counted on this one only';
  expect((await planned(lifecycle('legacy'), lifecycle('new'), undefined, 3)).lines.at(-1)).toBe(line);
  const still = '{ mode: new, fallback: refuse }';
  expect((await planned(lifecycle('new'), lifecycle(still), undefined, 3)).lines).not.toContain(line);
});

describe('calls of the new path are concerned by what takes something back from it', () => {
  it.each([
    ['new', 'legacy', true],
    ['legacy', 'new', false],
    ['legacy', '{ mode: canary, percent: 5 }', false],
    ['new', '{ mode: canary, percent: 5 }', true],
    ['{ mode: canary, percent: 5 }', 'legacy', true],
    ['{ mode: canary, percent: 5 }', 'new', false],
    ['{ mode: canary, percent: 5 }', '{ mode: canary, percent: 10 }', false],
    ['{ mode: canary, percent: 10 }', '{ mode: canary, percent: 5 }', true],
    ['{ mode: canary, percent: 5 }', '{ mode: canary, percent: 5, salt: may }', true],
    ['{ mode: canary, percent: 0, users: [a] }', 'legacy', true],
    ['{ mode: canary, percent: 0, users: [a] }', '{ mode: canary, percent: 0, users: [b] }', true],
    ['{ mode: canary, percent: 0, users: [a] }', '{ mode: canary, percent: 0, users: [a, b] }', false],
    ['{ mode: canary, percent: 5 }', '{ mode: canary, percent: 5, exclude: { users: [a] } }', true],
    ['{ mode: canary, percent: 5, exclude: { users: [a] } }', '{ mode: canary, percent: 5 }', false],
    ['new', '{ mode: new, guard: off }', false],
  ])('%s → %s: %j', (before, after, taken) => {
    expect(from(lifecycle(before), lifecycle(after)).some(takesFromNew)).toBe(taken);
  });
  it('relays end no call', () => {
    expect(from('{ /: { ice-candidate: new } }', '{}').some(takesFromNew)).toBe(false);
  });
});
