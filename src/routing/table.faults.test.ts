// What a route table may not say: each fault is told with its line and with what mends it, and none is let through.
import { describe, expect, test } from 'vitest';
import { parseRouteTable } from './table.js';

const problems = (text: string): readonly string[] => {
  const result = parseRouteTable(text, 'routes.yaml');
  return result.ok ? [] : result.problems;
};
const under = (...lines: string[]) => ['namespaces:', '  /:', ...lines.map((line) => `    ${line}`)].join('\n');

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
    [
      'an unknown mode',
      under('calls: fast'),
      ['routes.yaml:3: the mode of "calls" is "fast"; write legacy, new or canary'],
    ],
    [
      'a mode that is no word',
      under('calls: true'),
      ['routes.yaml:3: the mode of "calls" is "true"; write legacy, new or canary'],
    ],
    ['an empty mode', under('calls:'), ['routes.yaml:3: the mode of "calls" is empty']],
    [
      'a canary of nobody',
      under('calls: canary'),
      [
        'routes.yaml:3: "calls" is a canary of nobody; write its share beside the mode: calls: { mode: canary, percent: 5 }',
      ],
    ],
    [
      'a canary with excludes only',
      under('calls:', '  mode: canary', '  users: []', '  exclude: { users: [a] }'),
      ['routes.yaml:4: "calls" is a canary of nobody; write "percent: 5", or a list'],
    ],
    [
      'a percentage out of range',
      under('calls:', '  mode: canary', '  percent: 101'),
      ['routes.yaml:5: "percent" of "calls" is 101; write a number from 0 to 100 with at most two decimals'],
    ],
    [
      'a percentage with three decimals',
      under('calls:', '  percent: 0.125', '  mode: canary'),
      ['routes.yaml:4: "percent" of "calls" is 0.125; write a number'],
    ],
    [
      'a percentage with its sign',
      under('calls: { mode: canary, percent: 5 % }'),
      ['routes.yaml:3: "percent" of "calls" is no number; write one such as 5 or 0.25'],
    ],
    [
      'a user id that YAML takes for a number',
      under('calls:', '  mode: canary', '  users:', '    - alice', '    - 007'),
      ['routes.yaml:7: "007" of "users" of "calls" is no text to YAML; write it in quotes: "007"'],
    ],
    [
      'a list that is a word',
      under('calls: { mode: canary, users: alice }'),
      ['routes.yaml:3: "users" of "calls" is no list; write one such as [alice, bob]'],
    ],
    [
      'a list that is too long',
      under('calls:', '  mode: canary', `  conversations: [${'c,'.repeat(1001)}]`),
      ['routes.yaml:5: "conversations" of "calls" holds 1001 ids, over 1000; use "percent" for so many'],
    ],
    [
      'an empty id',
      under('calls: { mode: canary, percent: 1, exclude: { users: [""] } }'),
      ['routes.yaml:3: "exclude.users" of "calls" holds an empty id; write ids of 1 to 256'],
    ],
    [
      'an unknown key of exclude',
      under('calls: { mode: canary, percent: 1, exclude: { user: [a] } }'),
      ['routes.yaml:3: unknown key "user" in "exclude" of "calls"; its keys are "users" and "conversations"'],
    ],
    [
      'a canary that is sole',
      under('calls:', '  mode: canary', '  percent: 1', '  sole: true'),
      ['routes.yaml:6: "calls" is sole with mode canary, but'],
    ],
    [
      'a fallback to a legacy that is gone',
      under('calls:', '  mode: new', '  sole: true', '  fallback: legacy'),
      ['routes.yaml:6: "calls" falls back to the legacy, but sole says'],
    ],
    [
      'a fallback that is none',
      under('calls: { mode: new, fallback: none }'),
      ['routes.yaml:3: "fallback" of "calls" is neither legacy nor refuse; write one of the two, or remove it'],
    ],
    [
      'a guard that is a word',
      under('calls: { mode: new, guard: on }'),
      ['routes.yaml:3: "guard" of "calls" is neither off nor a map of limits; write "guard: off"'],
    ],
    [
      'limits of a guard that are none',
      under(
        'calls:',
        '  mode: new',
        '  guard:',
        '    window: 60',
        '    min-samples: 1.5',
        '    max-errors-percent: 120',
        '    max-p99: 5m',
        '    max-error: 1',
      ),
      [
        'routes.yaml:6: "guard.window" of "calls" is no duration; write a number with ms, s, m or h, such as 60s',
        'routes.yaml:10: unknown key "max-error" in "guard" of "calls"; its keys are window, min-samples',
        'routes.yaml:7: "guard.min-samples" of "calls" is 1.5; write a whole number',
        'routes.yaml:9: "guard.max-p99" of "calls" is 300000; write 1ms to 60s',
        'routes.yaml:8: "guard.max-errors-percent" of "calls" is 120; write a number from 0 to 100',
      ],
    ],
    [
      'limits of a guard that are out of range',
      under(
        'calls:',
        '  mode: new',
        '  guard:',
        '    window: 999ms',
        '    min-samples: 1.5',
        '    max-errors-percent: 120',
        '    max-p99: 5m',
      ),
      [
        'routes.yaml:6: "guard.window" of "calls" is 999; write 1s to 60m',
        'routes.yaml:7: "guard.min-samples" of "calls" is 1.5; write a whole number',
        'routes.yaml:9: "guard.max-p99" of "calls" is 300000; write 1ms to 60s',
        'routes.yaml:8: "guard.max-errors-percent" of "calls" is 120; write a number from 0 to 100',
      ],
    ],
    ['a shadow', under('calls:', '  mode: shadow'), ['routes.yaml:4: mode shadow of "calls" is not in this version']],
    [
      'an unknown key of a route',
      under('calls: { mode: new, share: 5 }'),
      ['routes.yaml:3: unknown key "share" in "calls"; its keys are mode, sole, percent, salt, users, conversations'],
    ],
    [
      'a share without a canary',
      under('calls: { mode: new, percent: 5 }'),
      [
        'routes.yaml:3: "percent" of "calls" is of a canary, and its mode is new; write "mode: canary", or remove "percent"',
      ],
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
      'a canary for half a group',
      under('call-renegotiate-offer: { mode: canary, percent: 5 }', 'call-renegotiate-answer: new'),
      [
        'routes.yaml:4: in "/" call-renegotiate-answer is new and call-renegotiate-offer is canary 5 %, but the events of call-renegotiation share one state and must be on one path; write "call-renegotiation: { mode: canary, percent: 5, … }"',
      ],
    ],
    [
      'two canaries in one group',
      under(
        'call-renegotiate-offer: { mode: canary, percent: 5 }',
        'call-renegotiate-answer: { mode: canary, percent: 5, salt: a }',
      ),
      [
        'routes.yaml:4: in "/" call-renegotiate-answer and call-renegotiate-offer are both canary 5 % but differ in what goes with it',
      ],
    ],
    [
      'more namespaces than anybody has',
      `namespaces:\n${Array.from({ length: 201 }, (_, i) => `  /${i}: {}\n`).join('')}`,
      ['routes.yaml:1: the table names 202 namespaces, over 200; remove some'],
    ],
    [
      'several faults at once',
      under('calls: fast', 'cals: new'),
      ['routes.yaml:3: the mode', 'routes.yaml:4: unknown event'],
    ],
    [
      'many faults at once: none hides another',
      under(
        'call-offer: { mode: new, colour: red }',
        'call-answer: { mode: legacy, percent: 5 }',
        'call-end: { mode: shadow, percent: 200 }',
        'call-rejoin-ofer: { mode: canary, percent: 1.234 }',
        'ice-candidate: { mode: canary, percent: "5", guard: { window: 1s, min-samples: 0, max-p98: 1s } }',
        'call-renegotiate-offer: { sole: maybe, fallback: legacy, salt: "" }',
      ).concat('\n  calls:\n    ice-candidate: { mode: canary }\n'),
      [
        'routes.yaml:3: unknown key "colour" in "call-offer"',
        'routes.yaml:4: "percent" of "call-answer" is of a canary, and its mode is legacy',
        'routes.yaml:5: mode shadow of "call-end" is not in this version',
        'routes.yaml:5: "percent" of "call-end" is 200',
        'routes.yaml:6: unknown event or group "call-rejoin-ofer"',
        'routes.yaml:6: "percent" of "call-rejoin-ofer" is 1.234',
        'routes.yaml:7: "percent" of "ice-candidate" is no number',
        'routes.yaml:7: unknown key "max-p98" in "guard" of "ice-candidate"',
        'routes.yaml:7: "guard.min-samples" of "ice-candidate" is 0',
        'routes.yaml:8: "sole" of "call-renegotiate-offer" is neither true nor false',
        'routes.yaml:8: "call-renegotiate-offer" has no mode',
        'routes.yaml:8: "salt" of "call-renegotiate-offer" has 0 characters',
        'routes.yaml:4: in "/" call-answer is legacy and call-offer is new, but',
        'routes.yaml:9: namespace "calls" does not start with "/"',
        'routes.yaml:10: "ice-candidate" is a canary of nobody',
      ],
    ],
    [
      'a key that is not known beside an event that is missing: told once',
      under('call-renegotiate-offer: new', 'call-renegotiate-answr: new'),
      ['routes.yaml:4: unknown event or group "call-renegotiate-answr"'],
    ],
    [
      'a fault in a group that is split',
      under('call-renegotiate-offer: { mode: canary, percent: 200 }', 'call-renegotiate-answer: legacy'),
      [
        'routes.yaml:3: "percent" of "call-renegotiate-offer" is 200',
        'routes.yaml:4: in "/" call-renegotiate-answer is legacy and call-renegotiate-offer is canary, but the events of call-renegotiation share one state and must be on one path; write "call-renegotiation: { mode: canary, percent: 5, … }"',
      ],
    ],
    [
      'a file of commas, which would take long to read',
      `namespaces: [${'a,'.repeat(60_000)}]`,
      ['routes.yaml:1: the file has over 50000 entries; is it a route table?'],
    ],
    [
      'many long lists',
      `namespaces:\n${Array.from({ length: 6 }, (_, n) => `  /${n}: { calls: { mode: canary, users: [${'u,'.repeat(600)}] } }\n`).join('')}`,
      [`routes.yaml:1: the table's lists hold 10800 ids, over 10000; use "percent" for so many`],
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

test('a file with a thousand faults is told by its first few', () => {
  const found = problems(under(...Array.from({ length: 1_000 }, (_, i) => `x${i}: new`)));
  expect(found).toHaveLength(21);
  expect(found.at(-1)).toBe('routes.yaml:1: and 980 more like these; mend the first ones, then look again');
});

test.each(['[', '{a: ', '- ', '? '])('a file that nests %j without end is refused, not a crash', (text) => {
  const found = problems(text.repeat(20_000));
  expect(found.length).toBeGreaterThan(0);
  expect(found.length).toBeLessThan(22);
});
