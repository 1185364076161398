// Editors complete and check route tables by routes/schema.json, the process by table.ts. Neither may promise what the
// other refuses: whatever the parser takes the schema takes, and a wrong shape is wrong to both.
import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { groupNames, groups, parseRouteTable } from './table.js';

const root = JSON.parse(readFileSync(new URL('../../routes/schema.json', import.meta.url), 'utf8'));
const schemaTakes = new Ajv({ allowUnionTypes: true, strictTypes: false, strictRequired: false }).compile(root);
const taken = (text: string) => schemaTakes(parse(text));
const parserTakes = (text: string) => parseRouteTable(text, 'routes.yaml').ok;
const under = (...lines: string[]) => ['namespaces:', '  /:', ...lines.map((line) => `    ${line}`)].join('\n');

describe('schema and parser', () => {
  test.each([
    '',
    '{}',
    'namespaces:',
    'namespaces:\n  /:',
    under('calls: new'),
    under('calls: { mode: legacy }'),
    under('calls: { mode: legacy, sole: false }'),
    under('calls: { mode: new, sole: true }'),
    under('call-lifecycle: new', 'ice-candidate: legacy', 'call-renegotiation: { mode: new }'),
    under('ice-candidate: new'),
    under('calls: { mode: canary, percent: 0.01 }'),
    under('calls: { mode: canary, users: [alice] }'),
    under('calls: { mode: canary, percent: 5, salt: spring, conversations: [c1], exclude: { users: [bob] } }'),
    under('calls: { mode: canary, percent: 100, sole: false, exclude: , fallback: refuse, guard: off }'),
    under('calls: { mode: new, fallback: legacy, guard: { window: 30s, min-samples: 10, max-p99: 250ms } }'),
    under('calls: { mode: new, guard: { max-errors-percent: 0.5, max-refusals-percent: 100 } }'),
    under('calls: { mode: legacy, guard: {} }'),
    under(...groups['call-lifecycle'].map((event) => `${event}: new`)),
    `${under('calls: legacy')}\n  /rooms/1:\n    calls: new`,
  ])('both take %j', (text) => {
    expect(parserTakes(text)).toBe(true);
    expect(taken(text), JSON.stringify(schemaTakes.errors)).toBe(true);
  });

  test.each([
    '- a',
    'routes: {}',
    'namespaces: new',
    'namespaces:\n  calls: {}',
    'namespaces:\n  "/a b": {}',
    'namespaces:\n  "/a,b": {}',
    'namespaces:\n  /: new',
    under('call-ofer: new'),
    under('calls: fast'),
    under('calls: canary'),
    under('calls: { mode: canary }'),
    under('calls: { mode: canary, percent: 101 }'),
    under('calls: { mode: canary, percent: -1 }'),
    under('calls: { mode: canary, percent: "5" }'),
    under('calls: { mode: canary, percent: 5, salt: "" }'),
    under('calls: { mode: canary, percent: 5, users: alice }'),
    under('calls: { mode: canary, percent: 5, users: [7] }'),
    under('calls: { mode: canary, percent: 5, exclude: { user: [a] } }'),
    under('calls: { mode: canary, percent: 5, sole: true }'),
    under('calls: shadow'),
    under('calls: true'),
    under('calls:'),
    under('calls: { sole: true }'),
    under('calls: { mode: legacy, sole: true }'),
    under('calls: { mode: new, sole: 1 }'),
    under('calls: { mode: new, percent: 5 }'),
    under('calls: { mode: new, fallback: none }'),
    under('calls: { mode: new, guard: on }'),
    under('calls: { mode: new, guard: { window: 60 } }'),
    under('calls: { mode: new, guard: { min-samples: 0 } }'),
    under('calls: { mode: new, guard: { max-errors: 1 } }'),
  ])('both refuse %j', (text) => {
    expect(parserTakes(text)).toBe(false);
    expect(taken(text)).toBe(false);
  });

  test.each([
    under('call-offer: new'),
    under('calls: new', 'ice-candidate: legacy'),
    under('calls: { mode: canary, percent: 0.001 }'),
    under('calls: { mode: new, guard: { window: 1ms } }'),
  ])('only the parser knows that %j splits a call, says a thing twice or is out of range', (text) => {
    expect(parserTakes(text)).toBe(false);
    expect(taken(text)).toBe(true);
  });

  test('both know the same names', () => {
    const named = Object.keys(root.definitions.namespace.properties);
    expect(named.toSorted()).toEqual(
      [...new Set(['calls', ...groupNames, ...Object.values(groups).flat()])].toSorted(),
    );
  });
});
