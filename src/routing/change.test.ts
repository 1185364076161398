import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Change, differences, plan, type RouteVersion } from './change.js';
import { type Group, type RouteInput, type RouteTable, route, routeTable } from './route.js';
import { parseRouteTable } from './table.js';
import { anyTable } from './tables.fixture.js';

const tableIn = (yaml: string): RouteTable => {
  const read = parseRouteTable(`namespaces:\n${yaml}`, 'routes.yaml');
  if (!read.ok) throw new Error(read.problems.join('\n'));
  return read.table;
};
const legacy = routeTable(new Map());
const versionWith = (version: number, after: RouteTable, before = legacy): RouteVersion => ({
  version,
  at: '2026-01-02T03:04:05.678Z',
  actor: 'alice',
  via: 'cli',
  kind: 'set',
  reason: 'for a test',
  before: before.toJSON(),
  after: after.toJSON(),
});
const planOn = (table: RouteTable, change: Change, versions: readonly RouteVersion[] = []) =>
  plan(
    { version: versions.at(-1) ?? versionWith(1, table), table, find: (n) => versions.find((v) => v.version === n) },
    change,
  );
const set = (target: string, input: RouteInput | { mode: string }, ns = '/'): Change => ({
  kind: 'set',
  ns,
  target,
  route: input as RouteInput,
});
const made = (table: RouteTable, change: Change, versions?: readonly RouteVersion[]): RouteTable => {
  const planned = planOn(table, change, versions);
  if (!planned.ok) throw new Error(planned.problems.join('\n'));
  return planned.table;
};
const refusals = (table: RouteTable, change: Change, versions?: readonly RouteVersion[]) => {
  const planned = planOn(table, change, versions);
  return planned.ok ? [] : planned.problems;
};

describe('setting a group', () => {
  test.each<[string, string]>([
    ['call-lifecycle', '/: call-lifecycle new, ice-candidate legacy, call-renegotiation legacy'],
    ['ice-candidate', '/: call-lifecycle legacy, ice-candidate new, call-renegotiation legacy'],
    ['call-renegotiation', '/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation new'],
    ['calls', '/: call-lifecycle new, ice-candidate new, call-renegotiation new'],
  ])('%s moves that and nothing else', (target, summary) => {
    expect(made(legacy, set(target, { mode: 'new' })).summary).toBe(summary);
  });

  test('another namespace is named by it', () => {
    const table = made(legacy, set('calls', { mode: 'new' }, '/calls'));
    expect(table.namespaces).toEqual(['/', '/calls']);
    expect(table.mode('/', 'call-offer')).toBe('legacy');
    expect(table.mode('/calls', 'call-offer')).toBe('new');
  });

  test('a canary keeps what is left out: lists, salt, fallback and limits', () => {
    const before = tableIn(
      '  /: { call-lifecycle: { mode: canary, percent: 5, salt: a, users: [alice], exclude: { users: [bob] }, fallback: refuse, guard: off } }',
    );
    const after = made(before, set('call-lifecycle', { mode: 'canary', canary: { percent: 10 } }));
    expect(after.route('/', 'call-offer')).toEqual({
      ...before.route('/', 'call-offer'),
      canary: { ...before.route('/', 'call-offer').canary, percent: 10 },
    });
    const lists = made(
      after,
      set('call-lifecycle', {
        mode: 'canary',
        canary: { users: [], exclude: { conversations: ['c'] } as unknown as { users: []; conversations: [] } },
      }),
    );
    expect(lists.route('/', 'call-offer').canary).toEqual({
      percent: 10,
      salt: 'a',
      users: [],
      conversations: [],
      exclude: { users: ['bob'], conversations: ['c'] },
    });
  });

  test('with calls each group keeps its own lists', () => {
    const before = tableIn(
      '  /: { call-lifecycle: { mode: canary, percent: 5, users: [alice] }, ice-candidate: { mode: canary, percent: 7 } }',
    );
    const after = made(before, set('calls', { mode: 'canary', canary: { percent: 20 } }));
    expect(after.route('/', 'call-offer').canary).toMatchObject({ percent: 20, users: ['alice'] });
    expect(after.route('/', 'ice-candidate').canary).toMatchObject({ percent: 20, users: [] });
    expect(after.mode('/', 'call-renegotiate-offer')).toBe('canary');
  });

  test("another mode has that mode's own fallback, is not sole, and keeps the limits", () => {
    const before = tableIn('  /: { call-lifecycle: { mode: new, sole: true, guard: { window: 30s } } }');
    const canary = made(before, set('call-lifecycle', { mode: 'canary', canary: { percent: 50 } }));
    expect(canary.route('/', 'call-offer')).toMatchObject({
      sole: false,
      fallback: 'legacy',
      guard: { windowMs: 30_000 },
    });
    const again = made(canary, set('call-lifecycle', { mode: 'new' }));
    expect(again.route('/', 'call-offer')).toMatchObject({ sole: false, fallback: 'refuse', canary: null });
  });

  test('sole stays while the mode does, and goes when told to', () => {
    const sole = made(legacy, set('calls', { mode: 'new', sole: true }));
    expect(made(sole, set('calls', { mode: 'new' })).sole('/', 'call-offer')).toBe(true);
    expect(made(sole, set('calls', { mode: 'new', sole: false })).sole('/', 'call-offer')).toBe(false);
  });

  test('what is already so makes no difference', () => {
    const planned = planOn(legacy, set('calls', { mode: 'legacy' }));
    expect(planned).toMatchObject({ ok: true, differences: [] });
  });
});

describe('a set that is refused, with the command that works', () => {
  test.each<[string, Change, string]>([
    [
      'one event of the lifecycle',
      set('call-offer', { mode: 'new' }),
      "call-offer shares one state with call-answer, call-rejoin-offer, call-rejoin-answer, call-end and can't flip without them; flip the group: sigfig routes set call-lifecycle new",
    ],
    [
      'one event of the renegotiation, elsewhere',
      set('call-renegotiate-answer', { mode: 'canary', canary: { percent: 5 } }, '/calls'),
      "call-renegotiate-answer shares one state with call-renegotiate-offer and can't flip without them; flip the group: sigfig routes set call-renegotiation canary --namespace /calls --percent 5",
    ],
    [
      'one event in a namespace that a shell would read',
      set('call-end', { mode: 'new', sole: true }, "/a;'b"),
      "call-end shares one state with call-offer, call-answer, call-rejoin-offer, call-rejoin-answer and can't flip without them; flip the group: sigfig routes set call-lifecycle new --namespace '/a;'\\''b' --sole",
    ],
    [
      'an unknown event',
      set('chat-message', { mode: 'new' }),
      'there is no event or group "chat-message"; write one of calls, call-lifecycle, ice-candidate, call-renegotiation',
    ],
    ['an unknown mode', set('calls', { mode: 'fast' }), 'there is no mode "fast"; write legacy, new or canary'],
    ['a shadow', set('calls', { mode: 'shadow' }), 'mode shadow is not in this version; write legacy, new or canary'],
    [
      'a share without a canary',
      set('calls', { mode: 'new', canary: { percent: 5 } }),
      'percent, salt and lists are of a canary, and this is mode new; leave them out, or: sigfig routes set calls canary --percent 5',
    ],
    [
      'a canary of nobody',
      set('ice-candidate', { mode: 'canary' }),
      'a canary of ice-candidate needs a share or a list of who is in it; try: sigfig routes set ice-candidate canary --percent 5',
    ],
    [
      'a share out of range',
      set('ice-candidate', { mode: 'canary', canary: { percent: 500 } }),
      '"percent" of "ice-candidate" is 500; write a number from 0 to 100 with at most two decimals, such as 5 or 0.25',
    ],
    [
      'a sole canary',
      set('ice-candidate', { mode: 'canary', sole: true, canary: { percent: 5 } }),
      '"ice-candidate" is sole with mode canary, but sole says that the legacy serves it no more; try: sigfig routes set ice-candidate canary --percent 5 --no-sole',
    ],
    [
      'sole in a group that falls back',
      set('calls', { mode: 'new', sole: true, fallback: 'legacy' }),
      '"calls" falls back to the legacy, but sole says that the legacy serves it no more; try: sigfig routes set calls new --sole --fallback refuse',
    ],
    [
      'a namespace that is none',
      set('calls', { mode: 'new' }, 'x'),
      'namespace "x" does not start with "/"; write "/x"',
    ],
    [
      'an event with lists',
      set('call-end', {
        mode: 'canary',
        canary: { users: ['alice', 'mary ann'], exclude: { users: ['x'], conversations: ['c'] }, salt: 'a;b' },
        fallback: 'refuse',
        guard: null,
      }),
      "call-end shares one state with call-offer, call-answer, call-rejoin-offer, call-rejoin-answer and can't flip without them; flip the group: sigfig routes set call-lifecycle canary --users 'alice,mary ann' --exclude-users x --exclude-conversations c --salt 'a;b' --fallback refuse --guard off",
    ],
    [
      'lists without a canary, and a sole that no canary has',
      set('ice-candidate', { mode: 'new', sole: true, canary: { conversations: ['c'] } }),
      'percent, salt and lists are of a canary, and this is mode new; leave them out, or: sigfig routes set ice-candidate canary --conversations c',
    ],
    [
      'a canary of nobody with limits of its own',
      set('ice-candidate', {
        mode: 'canary',
        canary: { exclude: { users: ['x'], conversations: [] } },
        guard: { windowMs: 90_000, minSamples: 20, maxErrors: 0.0007, maxRefusals: 0.14, maxP99Ms: 250 },
      }),
      "a canary of ice-candidate needs a share or a list of who is in it; try: sigfig routes set ice-candidate canary --percent 5 --exclude-users x --exclude-conversations '' --guard 'window=90s,min-samples=20,max-errors-percent=0.07,max-refusals-percent=14,max-p99=250ms'",
    ],
    [
      'an event with a name that no command line says',
      set('call-end', { mode: 'canary', canary: { users: ['auth0|7,8'] } }),
      "call-end shares one state with call-offer, call-answer, call-rejoin-offer, call-rejoin-answer and can't flip without them; flip the group: write call-lifecycle in place of call-end",
    ],
  ])('%s', (_name, change, line) => {
    expect(refusals(legacy, change)).toEqual([line]);
  });

  test('an event whose group would be refused as well: both, each with its mend', () => {
    expect(refusals(legacy, set('call-end', { mode: 'new', canary: { users: ['alice'] } }))).toEqual([
      "call-end shares one state with call-offer, call-answer, call-rejoin-offer, call-rejoin-answer and can't flip without them; flip the group: write call-lifecycle in place of call-end",
      'percent, salt and lists are of a canary, and this is mode new; leave them out, or: sigfig routes set call-lifecycle canary --users alice',
    ]);
  });

  test('a canary that is one already keeps its share in what is suggested', () => {
    const before = tableIn('  /: { ice-candidate: { mode: canary, percent: 40 } }');
    expect(refusals(before, set('ice-candidate', { mode: 'new', canary: { salt: 'b' } }))[0]).toMatch(
      /or: sigfig routes set ice-candidate canary --salt b$/,
    );
  });

  test('a namespace too many', () => {
    const many = routeTable(new Map(Array.from({ length: 199 }, (_, i) => [`/${i}`, {}])));
    expect(refusals(many, set('calls', { mode: 'new' }, '/one-more'))).toEqual([
      'the table names 201 namespaces, over 200; remove some',
    ]);
  });
});

describe('the big red switch', () => {
  test('takes everything to the legacy in every namespace, sole groups too', () => {
    const before = tableIn(
      '  /: { calls: { mode: new, sole: true } }\n  /calls: { call-lifecycle: { mode: canary, percent: 5 }, ice-candidate: new }',
    );
    const after = made(before, { kind: 'legacy' });
    expect(after.summary).toBe(
      '/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy; /calls: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy',
    );
    expect(after.sole('/', 'call-offer')).toBe(false);
  });

  test('any table', () => {
    fc.assert(
      fc.property(anyTable, (table) => {
        const after = made(table, { kind: 'legacy' });
        expect(after.namespaces).toEqual(table.namespaces);
        for (const routes of Object.values(after.toJSON().namespaces)) {
          for (const { mode } of Object.values(routes)) expect(mode).toBe('legacy');
        }
      }),
    );
  });
});

describe('the guard', () => {
  const guard = (group: Group, ns = '/'): Change => ({ kind: 'guard', ns, group });
  test('takes a relay back by itself', () => {
    const before = tableIn('  /: { calls: new }');
    expect(made(before, guard('ice-candidate')).summary).toBe(
      '/: call-lifecycle new, ice-candidate legacy, call-renegotiation new',
    );
  });

  test("with the lifecycle go its relays: the legacy's calls must not begin to be served here in part", () => {
    const before = tableIn('  /: { calls: { mode: canary, percent: 50 } }\n  /b: { calls: new }');
    const after = made(before, guard('call-lifecycle'));
    expect(after.summary).toBe(
      '/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy; /b: call-lifecycle new, ice-candidate new, call-renegotiation new',
    );
  });

  test('what is sole has nowhere to go back to', () => {
    const before = tableIn('  /: { call-lifecycle: new, ice-candidate: { mode: new, sole: true } }');
    expect(refusals(before, guard('ice-candidate'))).toEqual([
      'ice-candidate in "/" is sole: the legacy serves it no more, so it can\'t go back there',
    ]);
    expect(made(before, guard('call-lifecycle')).summary).toBe(
      '/: call-lifecycle legacy, ice-candidate new (sole), call-renegotiation legacy',
    );
  });

  test('its limits stay for the next attempt', () => {
    const before = tableIn('  /: { calls: { mode: new, guard: { window: 5m } } }');
    expect(made(before, guard('call-lifecycle')).route('/', 'call-offer').guard?.windowMs).toBe(300_000);
  });
});

describe('going back', () => {
  const one = tableIn('  /: { ice-candidate: new }');
  const two = tableIn('  /: { calls: { mode: canary, percent: 5 } }');
  const versions = [versionWith(1, legacy), versionWith(2, one), versionWith(3, two, one)];

  test('without a number it is the table before the one in force', () => {
    expect(made(two, { kind: 'rollback' }, versions).toJSON()).toEqual(one.toJSON());
  });
  test('with a number it is the table of that version', () => {
    expect(made(two, { kind: 'rollback', to: 1 }, versions).toJSON()).toEqual(legacy.toJSON());
    expect(planOn(two, { kind: 'rollback', to: 3 }, versions)).toMatchObject({ ok: true, differences: [] });
  });
  test('nowhere to go back to is refused with what there is', () => {
    expect(refusals(two, { kind: 'rollback', to: 9 }, versions)).toEqual([
      'there is no version 9; "sigfig routes history" shows those that there are',
    ]);
    expect(refusals(legacy, { kind: 'rollback' }, versions.slice(0, 1))).toEqual([
      'version 1 is the first, there is none before it; try: sigfig routes legacy --all',
    ]);
  });
  test('any change is undone by the table before it', () => {
    fc.assert(
      fc.property(anyTable, anyTable, (before, after) => {
        const back = made(after, { kind: 'rollback' }, [versionWith(7, after, before)]);
        expect(back.toJSON()).toEqual(before.toJSON());
      }),
    );
  });
});

describe('differences', () => {
  test('name the groups that differ, unnamed namespaces as on the legacy', () => {
    const before = tableIn('  /: { ice-candidate: new }\n  /gone: { call-lifecycle: new }\n  /named: {}');
    const after = tableIn('  /: { ice-candidate: { mode: canary, percent: 5 } }');
    expect(
      differences(before.toJSON(), after.toJSON()).map(({ ns, group, before: a, after: b }) => [
        ns,
        group,
        a.mode,
        b.mode,
      ]),
    ).toEqual([
      ['/', 'ice-candidate', 'new', 'canary'],
      ['/gone', 'call-lifecycle', 'new', 'legacy'],
    ]);
  });
  test('are none between a table and itself, and say what a change makes', () => {
    fc.assert(
      fc.property(anyTable, anyTable, (a, b) => {
        expect(differences(a.toJSON(), a.toJSON())).toEqual([]);
        const planned = planOn(a, { kind: 'apply', table: b });
        expect(planned.ok && planned.table.toJSON()).toEqual(b.toJSON());
        for (const { ns, group, after } of differences(a.toJSON(), b.toJSON())) {
          expect(b.toJSON().namespaces[ns]?.[group] ?? route({ mode: 'legacy' })).toEqual(after);
        }
      }),
    );
  });
});
