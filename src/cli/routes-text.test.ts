import { expect, test } from 'vitest';
import type { Difference } from '../routing/change.js';
import { defaultGuard, type Group, type GroupRoute, groupNames, type RouteInput, route } from '../routing/route.js';
import { differenceTexts, limits } from './routes-text.js';

const legacy = route({ mode: 'legacy' });
const change = (before: GroupRoute, after: RouteInput, group: Group = 'ice-candidate', ns = '/'): Difference => ({
  ns,
  group,
  before,
  after: route(after),
});
const canary = (input: NonNullable<RouteInput['canary']>): RouteInput => ({ mode: 'canary', canary: input });

test.each<[string, Difference, string]>([
  ['a mode', change(legacy, { mode: 'new' }), 'legacy → new'],
  ['no handlers any more', change(route({ mode: 'new' }), { mode: 'new', sole: true }), 'new → new (sole)'],
  [
    'lists',
    change(
      route(canary({ percent: 5, users: ['a', 'b'], exclude: { users: ['x'], conversations: [] } })),
      canary({ percent: 5, users: ['b', 'c'], conversations: ['k'], exclude: { users: [], conversations: ['y'] } }),
    ),
    'users +c, users -a, conversations +k, not users -x, not conversations +y',
  ],
  [
    'a long list',
    change(route(canary({ percent: 5 })), canary({ percent: 5, users: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] })),
    'users +a,b,c,d,e and 2 more',
  ],
  [
    'a canary that ends takes its lists along',
    change(route(canary({ percent: 5, users: ['a'] })), { mode: 'new', fallback: 'legacy' }),
    'canary 5 % → new',
  ],
  [
    'another salt',
    change(route(canary({ percent: 5 })), canary({ percent: 5, salt: 'b\x1b[1m' })),
    'salt sigfig → b\\u001b[1m',
  ],
  ['fallback', change(legacy, { mode: 'legacy', fallback: 'legacy' }), 'fallback refuse → legacy'],
  ['guard', change(legacy, { mode: 'legacy', guard: null }), 'guard off'],
  [
    'a guard again',
    change(route({ mode: 'legacy', guard: null }), { mode: 'legacy' }),
    'guard over 1% errors, 5% refusals or p99 500ms, from 50 events in 1m on',
  ],
  [
    'some limits of a guard',
    change(legacy, { mode: 'legacy', guard: { ...defaultGuard, maxErrors: 0.02, windowMs: 90_000 } }),
    'guard: errors 1% → 2%, window 1m → 90s',
  ],
  [
    'back to the legacy, which needs no fallback',
    change(route(canary({ percent: 5 })), { mode: 'legacy' }),
    'canary 5 % → legacy',
  ],
  [
    'fallback of two modes that have one',
    change(route(canary({ percent: 5 })), { mode: 'new' }),
    'canary 5 % → new, fallback legacy → refuse',
  ],
])('%s', (_name, difference, text) => {
  expect(differenceTexts([difference])).toEqual([`/ ice-candidate: ${text}`]);
});

test('three groups that change in the same way are calls', () => {
  const all = groupNames.map((group) => change(legacy, { mode: 'new' }, group, '/a\u202e'));
  expect(differenceTexts([...all, change(legacy, { mode: 'new' })])).toEqual([
    '/a\\u202e calls: legacy → new',
    '/ ice-candidate: legacy → new',
  ]);
  const apart = [
    ...all.slice(0, 2),
    change(legacy, { mode: 'new', fallback: 'legacy' }, 'call-renegotiation', '/a\u202e'),
  ];
  expect(differenceTexts(apart)).toEqual([
    '/a\\u202e call-lifecycle: legacy → new',
    '/a\\u202e ice-candidate: legacy → new',
    '/a\\u202e call-renegotiation: legacy → new, fallback legacy',
  ]);
});

test('limits of a guard that is off', () => {
  expect(limits(null)).toBe('off');
});
