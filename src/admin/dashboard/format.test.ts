import { describe, expect, it } from 'vitest';
import { route } from '../../routing/route.js';
import type { GuardBody } from '../api.js';
import { clock, duration, guardFigures, milliseconds, rate, routeChanges, routeDetails, routeName } from './format.js';

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
