// What a route table says, read into the routes that are in force, and the files that come along.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { defaultGuard, parseRouteTable, type RouteTable } from './table.js';

const parsed = (text: string): RouteTable => {
  const result = parseRouteTable(text, 'routes.yaml');
  if (!result.ok) throw new Error(result.problems.join('\n'));
  return result.table;
};
const under = (...lines: string[]) => ['namespaces:', '  /:', ...lines.map((line) => `    ${line}`)].join('\n');

const plain = { mode: 'legacy', sole: false, canary: null, fallback: 'refuse', guard: defaultGuard };

describe('what a table says', () => {
  test.each(['', '{}', '# nothing\n', 'namespaces:', 'namespaces: {}', 'namespaces:\n  /:\n'])(
    'everything goes to the legacy with %j, and / counts as named',
    (text) => {
      const table = parsed(text);
      expect(table.namespaces).toEqual(['/']);
      expect(table.mode('/', 'call-offer')).toBe('legacy');
      expect(table.sole('/', 'call-offer')).toBe(false);
      expect(table.summary).toBe('/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy');
    },
  );

  test('a group sets each of its events, in its namespace only', () => {
    const table = parsed(under('call-lifecycle: new', 'ice-candidate: { mode: new, sole: true }'));
    for (const event of ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer', 'call-end']) {
      expect(table.mode('/', event), event).toBe('new');
    }
    expect(table.mode('/', 'ice-candidate')).toBe('new');
    expect(table.sole('/', 'ice-candidate')).toBe(true);
    expect(table.sole('/', 'call-offer')).toBe(false);
    expect(table.mode('/', 'call-renegotiate-offer')).toBe('legacy');
    expect(table.mode('/', 'chat-message')).toBe('legacy');
    expect(table.mode('/other', 'call-offer')).toBe('legacy');
    expect(table.summary).toBe('/: call-lifecycle new, ice-candidate new (sole), call-renegotiation legacy');
    expect(JSON.parse(JSON.stringify(table))).toEqual({
      namespaces: {
        '/': {
          'call-lifecycle': { ...plain, mode: 'new' },
          'ice-candidate': { ...plain, mode: 'new', sole: true },
          'call-renegotiation': plain,
        },
      },
    });
  });

  test('another namespace is named beside /', () => {
    const table = parsed('namespaces:\n  /calls:\n    calls: new\n');
    expect(table.namespaces).toEqual(['/', '/calls']);
    expect(table.mode('/calls', 'call-renegotiate-answer')).toBe('new');
    expect(table.mode('/', 'call-offer')).toBe('legacy');
  });

  test('the events of a group may be named one by one where they agree', () => {
    const text = under('call-lifecycle: new', 'call-renegotiate-offer: new', 'call-renegotiate-answer: new');
    expect(parsed(text).mode('/', 'call-renegotiate-answer')).toBe('new');
    expect(parsed(under('call-offer: legacy')).mode('/', 'call-offer')).toBe('legacy');
  });

  test('a canary has a share, lists that are in, and lists that are not', () => {
    const table = parsed(
      under(
        'call-lifecycle:',
        '  mode: canary',
        '  percent: 0.25',
        '  users: [alice]',
        '  conversations: ["7"]',
        '  exclude: { users: [bob] }',
        'ice-candidate: { mode: canary, percent: 100, fallback: refuse, guard: off }',
        'call-renegotiation: { mode: new, guard: { window: 2m, max-errors-percent: 0.5, max-p99: 1.5s } }',
      ),
    );
    expect(table.summary).toBe('/: call-lifecycle canary 0.25 %, ice-candidate canary 100 %, call-renegotiation new');
    const lifecycle = table.route('/', 'call-answer');
    expect(lifecycle.canary).toEqual({
      percent: 0.25,
      salt: 'sigfig',
      users: ['alice'],
      conversations: ['7'],
      exclude: { users: ['bob'], conversations: [] },
    });
    expect(lifecycle.fallback).toBe('legacy');
    expect(table.route('/', 'ice-candidate')).toMatchObject({ fallback: 'refuse', guard: null });
    expect(table.route('/', 'call-renegotiate-offer').guard).toEqual({
      ...defaultGuard,
      windowMs: 120_000,
      maxErrors: 0.005,
      maxP99Ms: 1_500,
    });
    expect(table.wants('/', 'call-offer', '7', 'carol')).toEqual({ path: 'new', because: 'canary' });
    expect(table.wants('/', 'call-offer', '7', 'bob')).toEqual({ path: 'legacy', because: 'canary' });
  });

  test('relays may be taken over while the lifecycle stays on the legacy', () => {
    const table = parsed(under('ice-candidate: new', 'call-renegotiation: { mode: canary, percent: 5 }'));
    expect(table.summary).toBe('/: call-lifecycle legacy, ice-candidate new, call-renegotiation canary 5 %');
  });

  test('an alias stands for what it names', () => {
    const table = parsed('namespaces:\n  /: &a\n    calls: new\n  /b: *a\n');
    expect(table.mode('/b', 'call-end')).toBe('new');
  });

  test('aliases of ids, of lists, of modes, and of the anchor that was set last', () => {
    const table = parsed(
      under(
        'call-lifecycle: { mode: &m canary, users: &u [&id alice, bob], exclude: { users: [*id] } }',
        'ice-candidate: { mode: *m, users: *u, percent: 1 }',
        'call-renegotiation: { mode: *m, users: &u [carol], conversations: *u }',
      ),
    );
    expect(table.excludes('/', 'call-offer', 'alice')).toBe(true);
    expect(table.route('/', 'ice-candidate').canary?.users).toEqual(['alice', 'bob']);
    expect(table.route('/', 'call-renegotiate-offer').canary?.conversations).toEqual(['carol']);
  });
});

describe('the files that come along', () => {
  const file = (name: string) => readFileSync(new URL(`../../routes/${name}`, import.meta.url), 'utf8');
  test.each([
    ['all-legacy.yaml', '/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy'],
    ['relays-new.yaml', '/: call-lifecycle legacy, ice-candidate new, call-renegotiation new'],
    ['calls-canary.yaml', '/: call-lifecycle canary 5 %, ice-candidate canary 5 %, call-renegotiation canary 5 %'],
    ['calls-new.yaml', '/: call-lifecycle new, ice-candidate new, call-renegotiation new'],
    ['calls-new-sole.yaml', '/: call-lifecycle new (sole), ice-candidate new (sole), call-renegotiation new (sole)'],
  ])('%s', (name, summary) => {
    expect(parsed(file(name)).summary).toBe(summary);
    expect(file(name).split('\n')[0]).toBe('# yaml-language-server: $schema=./schema.json');
  });
});
