import { describe, expect, it } from 'vitest';
import { plan, type RouteVersion } from '../../routing/change.js';
import { routeFaults } from '../../routing/check.js';
import { defaultGuard, defaultSalt, type GroupRoute, route, routeTable } from '../../routing/route.js';
import { routeAsked } from '../plan.js';
import type { SetInput } from '../requests.js';
import { differing, draftOf, requestOf, shareShown, usualGuard, usualSalt, withMode } from './draft.js';

const legacy = route({ mode: 'legacy' });
const canary = route({ mode: 'canary', canary: { percent: 5, users: ['alice'] } });
const ask = (draft: ReturnType<typeof draftOf>, from = legacy) => requestOf(draft, from, '/', 'call-lifecycle');

describe('what an operator fills in', () => {
  it('asks for nothing but the mode where nothing else was touched', () => {
    expect(ask(draftOf(legacy))).toEqual({
      ok: true,
      request: { namespace: '/', target: 'call-lifecycle', mode: 'legacy' },
    });
  });

  it('names share and lists of a canary, as typed', () => {
    const draft = {
      ...withMode(draftOf(legacy), 'canary', legacy),
      percent: ' 2,5 ',
      users: 'alice\nbob\nalice',
      excludeConversations: 'c1',
    };
    expect(ask(draft)).toEqual({
      ok: true,
      request: {
        namespace: '/',
        target: 'call-lifecycle',
        mode: 'canary',
        percent: 2.5,
        users: ['alice', 'bob'],
        excludeConversations: ['c1'],
        fallback: 'legacy',
      },
    });
  });

  it('leaves a list that was not touched to what is in force by then', () => {
    expect(ask({ ...draftOf(canary), percent: '6' }, canary)).toEqual({
      ok: true,
      request: { namespace: '/', target: 'call-lifecycle', mode: 'canary', percent: 6 },
    });
    expect(ask({ ...draftOf(canary), users: '' }, canary)).toMatchObject({ request: { users: [] } });
  });

  it('keeps ids that hold blanks and commas, whichever list is touched', () => {
    const odd = { users: ['Mary Ann'], conversations: ['a, b'], exclude: { users: ['Mary Ann', 'auth0|7,8'] } };
    const from = route({ mode: 'canary', canary: { ...odd, exclude: { ...odd.exclude, conversations: ['"q"'] } } });
    const draft = draftOf(from);
    const added = (list: string) => `${list}\ncarl`;
    expect(ask({ ...draft, excludeUsers: added(draft.excludeUsers) }, from)).toMatchObject({
      request: { excludeUsers: ['Mary Ann', 'auth0|7,8', 'carl'] },
    });
    expect(requestOf(draft, from, '/', 'calls')).toMatchObject({
      request: {
        users: odd.users,
        conversations: odd.conversations,
        excludeUsers: odd.exclude.users,
        excludeConversations: ['"q"'],
      },
    });
    expect(ask({ ...draft, users: `${draft.users}\n\n` }, from)).not.toHaveProperty('request.users');
    expect(ask({ ...draft, users: `${draft.users}\n"` }, from)).toMatchObject({
      ok: false,
      problems: [expect.stringMatching(/^Always these users: /)],
    });
  });

  it('takes the usual fallback of the mode along, and gives the old one back', () => {
    expect(withMode(draftOf(legacy), 'canary', legacy).fallback).toBe('legacy');
    expect(withMode(draftOf(canary), 'new', canary).fallback).toBe('refuse');
    const back = withMode(withMode(draftOf(canary), 'new', canary), 'canary', canary);
    expect(back).toEqual(draftOf(canary));
  });

  it('asks for a guard only where it differs', () => {
    const draft = withMode(draftOf(legacy), 'new', legacy);
    expect(ask({ ...draft, maxErrors: '2,5' })).toMatchObject({
      request: { guard: { ...defaultGuard, maxErrors: 0.025 } },
    });
    expect(ask({ ...draft, guardOn: false })).toMatchObject({ request: { guard: 'off' } });
    expect(ask(draft)).not.toHaveProperty('request.guard');
    const off = route({ mode: 'new', guard: null });
    expect(ask({ ...draftOf(off), guardOn: true }, off)).toMatchObject({ request: { guard: defaultGuard } });
  });

  it('shows the limits that routes have by default', () =>
    expect({ usualGuard, usualSalt }).toEqual({ usualGuard: defaultGuard, usualSalt: defaultSalt }));

  it('asks for the mode alone on the legacy, where nothing else is shown', () => {
    const draft = { ...draftOf(canary), guardOn: false, minSamples: 'x' };
    expect(ask(withMode(draft, 'legacy', canary), canary)).toEqual({
      ok: true,
      request: { namespace: '/', target: 'call-lifecycle', mode: 'legacy' },
    });
  });

  it.each([
    [{ percent: '' }, 'Share: a number from 0 to 100'],
    [{ percent: '100.5' }, 'Share: a number from 0 to 100'],
    [{ percent: '0.125' }, 'Share: at most two decimals'],
    [{ maxErrors: 'x' }, 'Guard errors (%): a number from 0 to 100'],
    [{ windowS: '0' }, 'Guard window (seconds): a number from 1 to 3600'],
    [{ minSamples: '1,000' }, 'Guard samples: 1,000 can be read in two ways; write 1000, without a separator'],
    [{ minSamples: '1.000' }, 'Guard samples: 1.000 can be read in two ways; write 1000, without a separator'],
    [{ minSamples: '2.5' }, 'Guard samples: a whole number from 1 to 1000000'],
    [{ minSamples: '1 000' }, 'Guard samples: a whole number from 1 to 1000000'],
    [{ minSamples: '1e3' }, 'Guard samples: a whole number from 1 to 1000000'],
    [{ maxP99Ms: '1,500' }, 'Guard p99 (ms): 1,500 can be read in two ways; write 1500, without a separator'],
    [{ windowS: '3,600' }, 'Guard window (seconds): 3,600 can be read in two ways; write 3600, without a separator'],
    [{ percent: '0x10' }, 'Share: a number from 0 to 100'],
    [{ percent: '0,125' }, 'Share: at most two decimals'],
    [{ maxRefusals: '2.555' }, 'Guard refusals (%): at most two decimals'],
  ])('says what is wrong with %o', (wrong, problem) => {
    expect(ask({ ...draftOf(canary), ...wrong }, canary)).toEqual({ ok: false, problems: [problem] });
  });

  it('shows on the slider what is typed, with either separator', () =>
    expect(['2.5', '2,5', '', 'x', '300'].map(shareShown)).toEqual([2.5, 2.5, 0, 0, 300]));

  it('limits of two decimals are taken, every one of them', () => {
    for (let hundredths = 0; hundredths <= 10_000; hundredths += 1) {
      const draft = { ...draftOf(canary), maxErrors: String(hundredths / 100) };
      const asked = ask(draft, canary);
      if (!asked.ok) throw new Error(asked.problems.join());
      const guard = (asked.request.guard as typeof defaultGuard | undefined) ?? defaultGuard;
      const wanted = route({ ...canary, guard });
      if (routeFaults('call-lifecycle', wanted).length > 0) expect.fail(`${draft.maxErrors} % is refused`);
      if (draftOf(wanted).maxErrors !== draft.maxErrors) expect.fail(`${draft.maxErrors} % comes back as another`);
    }
  });

  it('a share of two decimals stays what it is in binary', () => {
    for (const percent of ['0.07', '0.29', '33.33', '99.99']) {
      expect(ask({ ...draftOf(canary), percent }, canary)).toMatchObject({
        ok: true,
        request: { percent: Number(percent) },
      });
    }
  });
});

describe('a change of all groups', () => {
  const guard = { ...defaultGuard, maxP99Ms: 2_000 };
  const of = (draft: ReturnType<typeof draftOf>, from = legacy) => requestOf(draft, from, '/', 'calls');

  it('names every field that is shown, so that no group keeps one of its own', () => {
    const shown = route({ mode: 'canary', canary: { percent: 5, users: ['alice'], salt: 'another' }, guard });
    expect(of(draftOf(shown), shown)).toEqual({
      ok: true,
      request: {
        namespace: '/',
        target: 'calls',
        mode: 'canary',
        percent: 5,
        users: ['alice'],
        conversations: [],
        excludeUsers: [],
        excludeConversations: [],
        salt: 'another',
        fallback: 'legacy',
        guard,
      },
    });
    expect(of(withMode(draftOf(legacy), 'new', legacy))).toEqual({
      ok: true,
      request: { namespace: '/', target: 'calls', mode: 'new', sole: false, fallback: 'refuse', guard: defaultGuard },
    });
    const off = route({ mode: 'new', guard: null });
    expect(of(draftOf(off), off)).toMatchObject({ request: { guard: 'off' } });
  });

  it('makes all three alike, whatever they were', () => {
    const groups = {
      'call-lifecycle': canary,
      'ice-candidate': route({ mode: 'canary', canary: { percent: 80, users: ['bob'], salt: 'x' }, guard }),
      'call-renegotiation': route({ mode: 'new', sole: true, guard: null }),
    };
    for (const mode of ['canary', 'new'] as const) {
      const asked = of(withMode(draftOf(canary), mode, canary), canary);
      if (!asked.ok) throw new Error(asked.problems.join());
      const table = routeTable(new Map([['/', groups]]));
      const version = { version: 1 } as RouteVersion;
      const { route: input } = routeAsked(asked.request as SetInput, table);
      const planned = plan(
        { version, table, find: () => undefined },
        { kind: 'set', ns: '/', target: 'calls', route: input },
      );
      if (!planned.ok) throw new Error(planned.problems.join());
      const after = planned.table.toJSON().namespaces['/'];
      expect(after && differing(after)).toEqual([]);
    }
  });

  it('says in what they differ', () => {
    const all = (...routes: readonly GroupRoute[]) => {
      const [lifecycle = legacy, candidate = legacy, renegotiation = legacy] = routes;
      return differing({
        'call-lifecycle': lifecycle,
        'ice-candidate': candidate,
        'call-renegotiation': renegotiation,
      });
    };
    expect(all(canary, canary, canary)).toEqual([]);
    expect(
      all(route({ mode: 'new' }), route({ mode: 'new', guard }), route({ mode: 'new', fallback: 'legacy' })),
    ).toEqual(['fallback', 'guard']);
    expect(all(canary, route({ mode: 'canary', canary: { percent: 6, salt: 'x' } }), canary)).toEqual([
      'share',
      'lists',
      'salt',
    ]);
    expect(all(route({ mode: 'new' }), route({ mode: 'new', sole: true }), route({ mode: 'new' }))).toEqual(['mode']);
  });

  it('counts no fallback of a group that is on the legacy, where it means nothing', () => {
    const all = (lifecycle: GroupRoute, candidate: GroupRoute, renegotiation: GroupRoute) =>
      differing({
        'call-lifecycle': lifecycle,
        'ice-candidate': candidate,
        'call-renegotiation': renegotiation,
      });
    expect(legacy.fallback).not.toBe(canary.fallback);
    const share = route({ mode: 'canary', canary: { percent: 5 } });
    expect(all(legacy, share, legacy)).toEqual(['mode', 'share']);
    expect(all(legacy, share, route({ mode: 'new' }))).toEqual(['mode', 'share', 'fallback']);
  });
});
