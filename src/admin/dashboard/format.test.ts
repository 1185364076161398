import { describe, expect, it } from 'vitest';
import { route } from '../../routing/route.js';
import type { ChangedBody, GuardBody } from '../api.js';
import {
  changeMade,
  clock,
  duration,
  guardFigures,
  guardStateWord,
  guardTripped,
  milliseconds,
  rate,
  routeChanges,
  routeDetails,
  routeName,
} from './format.js';

const plain = (text: string) => text.replaceAll('\u00a0', ' ');

describe('figures as text', () => {
  it.each([
    [0, '0'],
    [0.01, '<0.1'],
    [0.1, '0.1'],
    [9.94, '9.9'],
    [499.6, '500'],
    [12_345, '12,345'],
  ])('%d a second is %s', (n, text) => expect(rate(n)).toBe(text));

  it.each([
    [null, '–'],
    [0, '0 ms'],
    [4.25, '4.3 ms'],
    [120.4, '120 ms'],
    [12_340, '12.3 s'],
  ])('%s milliseconds are %s', (ms, text) => expect(plain(milliseconds(ms))).toBe(text));

  it.each([
    [-5, '0 s'],
    [59_999, '59 s'],
    [192_000, '3 min 12 s'],
    [3_600_000 + 5 * 60_000, '1 h 05 min'],
    [90_000_000, '1 d 1 h'],
  ])('%d ms last %s', (ms, text) => expect(duration(ms)).toBe(text));

  it('name the day only where it is not today', () => {
    const now = new Date(2026, 4, 2, 12, 0, 0).getTime();
    expect(clock(now - 61_000, now)).toBe('11:58:59');
    expect(clock(now - 86_400_000, now)).toBe('1 May, 12:00:00');
  });
});

describe('a route as text', () => {
  it('says mode and share', () => {
    expect(routeName(route({ mode: 'legacy' }))).toBe('legacy');
    expect(routeName(route({ mode: 'new', sole: true }))).toBe('new, sole');
    expect(plain(routeName(route({ mode: 'canary', canary: { percent: 0.25 } })))).toBe('canary 0.25 %');
  });

  it('says what else is set, and nothing where there is nothing', () => {
    const canary = { users: ['a', 'b'], conversations: ['c'], exclude: { users: ['d'], conversations: ['e'] } };
    expect(routeDetails(route({ mode: 'canary', canary }))).toEqual([
      'always 2 users and 1 conversation',
      'never 2 excluded',
      'falls back to legacy',
    ]);
    expect(routeDetails(route({ mode: 'new' }))).toEqual(['no fallback']);
    expect(routeDetails(route({ mode: 'legacy' }))).toEqual([]);
  });
});

describe('what a change changes besides mode and share', () => {
  it('shows where an id ends that holds blanks or commas', () => {
    const of = (users: string[]) => route({ mode: 'canary', canary: { percent: 5, users } });
    expect(routeChanges(of([]), of(['alice, bob', 'Mary Ann', 'carl']))).toEqual([
      'always "alice, bob", "Mary Ann", carl',
    ]);
  });

  const canary = (more = {}) => route({ mode: 'canary', canary: { percent: 5, users: ['a', 'b'], ...more } });
  const { guard } = route({ mode: 'new' });
  it.each([
    ['nothing', canary(), canary({ percent: 9 }), []],
    ['a list', canary(), canary({ users: ['b', 'c'] }), ['always c', 'no longer always a']],
    ['a new canary', route({ mode: 'legacy' }), canary(), ['always a, b']],
    [
      'a long list',
      canary({ users: [] }),
      canary({ users: ['1', '2', '3', '4', '5', '6'] }),
      ['always 1, 2, 3, 4 and 2 more'],
    ],
    ['exclusions', canary(), canary({ exclude: { users: ['x'], conversations: [] } }), ['never x']],
    ['the salt', canary(), canary({ salt: 'z' }), ['another salt, so another share']],
    ['the fallback', route({ mode: 'new' }), route({ mode: 'new', fallback: 'legacy' }), ['falls back to legacy']],
    ['the way back, where a fallback means nothing', canary(), route({ mode: 'legacy' }), []],
    ['a guard that goes', route({ mode: 'new' }), route({ mode: 'new', guard: null }), ['guard off']],
    [
      'limits',
      route({ mode: 'new' }),
      route({ mode: 'new', guard: guard && { ...guard, maxErrors: 0.02, windowMs: 30_000 } }),
      ['guard: errors over 2 %', 'guard: window of 30 s'],
    ],
  ])('%s', (_, before, after, changes) => {
    expect(routeChanges(before, after).map(plain)).toEqual(changes);
  });
});

it('a guard is told with shares of its samples', () => {
  const { guard: limits } = route({ mode: 'new' });
  const figures = { event: 'call-offer', samples: 1_200, errors: 3, refusals: 6, p99Ms: 12 };
  const guard: GuardBody = {
    ns: '/',
    group: 'call-lifecycle',
    state: 'well',
    limits,
    figures,
    trippedAt: null,
    reason: null,
  };
  expect(plain(guardFigures(guard))).toBe('1,200 events in 60 s, errors 0.25 %, refusals 0.5 %, p99 12 ms');
  const none = { ...figures, samples: 0, errors: 0, refusals: 0, p99Ms: null };
  expect(plain(guardFigures({ ...guard, figures: none }))).toBe('0 events in 60 s');
});

it.each([
  ['inconclusive', null, 'too few samples'],
  ['inconclusive', "call-offer: …; most of it one user's", 'undecided: faults of one user or call'],
  ['well', "call-offer: …; most of it one user's", 'well'],
  ['tripped', 'call-offer: 12 of 80 could not be served', 'tripped'],
] as const)('a guard that is %s for the reason %j is shown as %s', (state, reason, word) => {
  expect(guardStateWord({ state, reason })).toBe(word);
});

describe('a guard that tripped', () => {
  const now = new Date(2026, 4, 2, 12, 0, 0).getTime();
  const guard: GuardBody = {
    ns: '/',
    group: 'call-lifecycle',
    state: 'tripped',
    limits: route({ mode: 'new' }).guard,
    figures: { event: null, samples: 0, errors: 0, refusals: 0, p99Ms: null },
    trippedAt: new Date(now).toISOString(),
    reason: 'call-offer: 12 of 80 could not be served',
  };
  const says = (sole: boolean) => {
    const { title, text } = guardTripped(guard, sole, now);
    return plain(`${title} ${text}`);
  };

  it('took its group back, until an operator acts', () =>
    expect(says(false)).toBe(
      'The guard tripped for call-lifecycle in / at 12:00:00. call-offer: 12 of 80 could not be served. It stays on the ' +
        'legacy until the route is changed by an operator.',
    ));

  it('is an alarm that ends by itself where the group is sole', () =>
    expect(says(true)).toBe(
      'The guard of call-lifecycle in / gives the alarm since 12:00:00. call-offer: 12 of 80 could not be served. It stays ' +
        'where it is, since it is sole: the legacy serves it no more. The alarm ends by itself after a whole window of 60 s ' +
        'within the limits.',
    ));
});

describe('a change that was made', () => {
  const made = (what: Partial<ChangedBody>) =>
    changeMade({
      changed: true,
      version: { version: 7 },
      confirmed: { instances: 1, of: 1 },
      unwritten: null,
      endedCalls: 0,
      ...what,
    } as ChangedBody);

  it.each<[Partial<ChangedBody>, string]>([
    [{}, 'Version 7 is in force.'],
    [{ confirmed: { instances: 2, of: 3 } }, 'Version 7 is in force on 2 of 3 instances.'],
    [{ endedCalls: 1 }, 'Version 7 is in force. 1 call was ended.'],
    [{ changed: false }, 'The routes were like that already (version 7).'],
    [{ changed: false, endedCalls: 1_200 }, 'The routes were like that already (version 7). 1,200 calls were ended.'],
    [
      { changed: false, unwritten: 'read-only disk' },
      'The routes were like that already (version 7). It is not in the log yet: read-only disk',
    ],
    [
      { confirmed: { instances: 1, of: 3 }, unwritten: 'Redis is away' },
      'Version 7 is in force on 1 of 3 instances. It is not in the log yet: Redis is away (The other instances go on as before until it is: make the change on each of them as well.)',
    ],
  ])('%o', (what, text) => expect(made(what)).toBe(text));
});
