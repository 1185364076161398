import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parseRouteTable, type RouteTable } from './table.js';

const parsed = (text: string): RouteTable => {
  const result = parseRouteTable(text, 'routes.yaml');
  if (!result.ok) throw new Error(result.problems.join('\n'));
  return result.table;
};
const problems = (text: string): readonly string[] => {
  const result = parseRouteTable(text, 'routes.yaml');
  return result.ok ? [] : result.problems;
};
const under = (...lines: string[]) => ['namespaces:', '  /:', ...lines.map((line) => `    ${line}`)].join('\n');

describe('what a table says', () => {
  test.each(['', '{}', '# nothing\n', 'namespaces:', 'namespaces: {}', 'namespaces:\n  /:\n'])(
    'everything goes to the legacy with %j, and / counts as named',
    (text) => {
      const table = parsed(text);
      expect(table.namespaces).toEqual(['/']);
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
          'call-lifecycle': { mode: 'new', sole: false },
          'ice-candidate': { mode: 'new', sole: true },
          'call-renegotiation': { mode: 'legacy', sole: false },
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

  test('an alias stands for what it names', () => {
    const table = parsed('namespaces:\n  /: &a\n    calls: new\n  /b: *a\n');
    expect(table.mode('/b', 'call-end')).toBe('new');
  });
});

describe('what a table may not say, with the line and the mend', () => {
  const cases: [string, string, string[]][] = [
    ['broken YAML', 'namespaces:\n  /: [', ['routes.yaml:2: not valid YAML']],
    ['a list', '- a', ['routes.yaml:1: the file is not a map of keys and values; start it with "namespaces:"']],
    ['an unknown key at the top', 'routes: {}', ['routes.yaml:1: unknown key "routes"; the only key at the top']],
    [
      'a namespace without a slash',
      'namespaces:\n  calls:\n    calls: new',
      ['routes.yaml:2: namespace "calls" does not start with "/"; write "/calls"'],
    ],
    ['a namespace no client can name', 'namespaces:\n  "/a,b": {}', ['routes.yaml:2: namespace "/a,b" holds']],
    ['a namespace that is a word', 'namespaces:\n  /: new', ['routes.yaml:2: namespace "/" is not a map']],
    [
      'an unknown event',
      under('call-ofer: new'),
      ['routes.yaml:3: unknown event or group "call-ofer"; write one of calls, call-lifecycle'],
    ],
    ['an unknown mode', under('calls: fast'), ['routes.yaml:3: the mode of "calls" is "fast"; write legacy or new']],
    [
      'a mode that is no word',
      under('calls: true'),
      ['routes.yaml:3: the mode of "calls" is "true"; write legacy or new'],
    ],
    ['an empty mode', under('calls:'), ['routes.yaml:3: the mode of "calls" is empty']],
    [
      'a canary',
      under('calls: canary'),
      ['routes.yaml:3: mode canary of "calls" is not in this version; write legacy or new'],
    ],
    ['a shadow', under('calls:', '  mode: shadow'), ['routes.yaml:4: mode shadow of "calls" is not in this version']],
    [
      'an unknown key of a route',
      under('calls: { mode: new, percent: 5 }'),
      ['routes.yaml:3: unknown key "percent" in "calls"; its keys are "mode" and "sole"'],
    ],
    ['a route without a mode', under('calls: { sole: true }'), ['routes.yaml:3: "calls" has no mode; write']],
    [
      'sole that is no truth',
      under('calls: { mode: new, sole: yes }'),
      ['routes.yaml:3: "sole" of "calls" is neither true nor false'],
    ],
    [
      'sole with the legacy',
      under('calls: { mode: legacy, sole: true }'),
      ['routes.yaml:3: "calls" is sole with mode legacy, but'],
    ],
    [
      'a namespace twice',
      'namespaces:\n  /: {}\n  /: {}',
      ['routes.yaml:3: "/" is written twice, first on line 2; remove one'],
    ],
    ['a group twice', under('calls: new', 'calls: new'), ['routes.yaml:4: "calls" is written twice, first on line 3']],
    [
      'an event of a named group',
      under('call-lifecycle: new', 'call-end: new'),
      ['routes.yaml:4: "call-end" sets call-end again, which "call-lifecycle" set on line 3; remove one of the two'],
    ],
    [
      'calls and a group',
      under('calls: new', 'ice-candidate: legacy'),
      [
        'routes.yaml:4: "ice-candidate" sets ice-candidate again, which "calls" set on line 3; remove one of the two, or name the groups',
      ],
    ],
    [
      'a lifecycle that is split',
      under('call-offer: new', 'call-answer: new', 'call-end: legacy'),
      [
        'routes.yaml:5: in "/" call-end is legacy and call-offer is new, but the events of call-lifecycle share one state and must be on one path; write "call-lifecycle: new" instead of its events',
      ],
    ],
    [
      'a lifecycle named in part',
      under('call-offer: new'),
      [
        'routes.yaml:3: in "/" call-offer is new and call-answer, call-rejoin-offer, call-rejoin-answer, call-end are legacy',
      ],
    ],
    [
      'a renegotiation that is split',
      under('call-lifecycle: new', 'call-renegotiate-offer: new'),
      [
        'routes.yaml:4: in "/" call-renegotiate-offer is new and call-renegotiate-answer is legacy, but the events of call-renegotiation',
      ],
    ],
    [
      'sole for half a group',
      under('call-lifecycle: new', 'call-renegotiate-offer: { mode: new, sole: true }', 'call-renegotiate-answer: new'),
      ['routes.yaml:5: in "/" call-renegotiate-answer is new and call-renegotiate-offer is new (sole), but'],
    ],
    [
      'candidates by themselves',
      under('ice-candidate: new'),
      [
        'routes.yaml:3: in "/" ice-candidate is new while call-lifecycle is legacy; a relay by itself is not in this version; write "call-lifecycle: new" as well, or "ice-candidate: legacy"',
      ],
    ],
    [
      'renegotiation by itself',
      under('call-renegotiation: new', 'call-lifecycle: legacy'),
      ['routes.yaml:3: in "/" call-renegotiation is new while'],
    ],
    [
      'several faults at once',
      under('calls: fast', 'cals: new'),
      ['routes.yaml:3: the mode', 'routes.yaml:4: unknown event'],
    ],
    ['a file that is no table', 'x'.repeat(300_000), ['routes.yaml:1: the file has over']],
  ];
  test.each(cases)('%s', (_name, text, expected) => {
    const found = problems(text);
    expect(found).toHaveLength(expected.length);
    for (const [i, start] of expected.entries()) expect(found[i]).toContain(start);
    for (const line of found) expect(line).toMatch(/^routes\.yaml:\d+: [^\n]+; [^\n]+$/);
  });
});

describe('the files that come along', () => {
  const file = (name: string) => readFileSync(new URL(`../../routes/${name}`, import.meta.url), 'utf8');
  test.each([
    ['all-legacy.yaml', '/: call-lifecycle legacy, ice-candidate legacy, call-renegotiation legacy'],
    ['calls-new.yaml', '/: call-lifecycle new, ice-candidate new, call-renegotiation new'],
    ['calls-new-sole.yaml', '/: call-lifecycle new (sole), ice-candidate new (sole), call-renegotiation new (sole)'],
  ])('%s', (name, summary) => {
    expect(parsed(file(name)).summary).toBe(summary);
    expect(file(name).split('\n')[0]).toBe('# yaml-language-server: $schema=./schema.json');
  });
});
