// Editors complete and check route tables by routes/schema.json, the process by table.ts. Neither may promise what the
// other refuses: whatever the parser takes the schema takes, and a wrong shape is wrong to both.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { groupNames, groups, parseRouteTable } from './table.js';

interface Schema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: boolean | Schema;
  readonly propertyNames?: { readonly pattern: string };
}
const root: Schema & { readonly definitions: Readonly<Record<string, Schema>> } = JSON.parse(
  readFileSync(new URL('../../routes/schema.json', import.meta.url), 'utf8'),
);
const KEYWORDS = new Set([
  ...['$ref', 'type', 'enum', 'anyOf', 'required', 'properties', 'additionalProperties', 'propertyNames'],
  ...['description', 'title', '$schema', 'definitions'],
]);

/** The keywords of draft-07 that the schema uses. */
function fits(schema: Schema, value: unknown): boolean {
  for (const keyword of Object.keys(schema)) if (!KEYWORDS.has(keyword)) throw new Error(`this test lacks ${keyword}`);
  // In draft-07 what stands beside $ref does not count.
  if (schema.$ref) return fits(root.definitions[schema.$ref.replace('#/definitions/', '')] ?? {}, value);
  const type = value === null ? 'null' : typeof value;
  if (schema.type && ![schema.type].flat().includes(type)) return false;
  if (schema.enum && !schema.enum.includes(value)) return false;
  if (schema.anyOf && !schema.anyOf.some((one) => fits(one, value))) return false;
  if (typeof value !== 'object' || value === null) return true;
  if (schema.required?.some((name) => !Object.hasOwn(value, name))) return false;
  return Object.entries(value).every(([name, inner]) => {
    if (schema.propertyNames && !new RegExp(schema.propertyNames.pattern).test(name)) return false;
    const own = schema.properties?.[name];
    if (own) return fits(own, inner);
    const rest = schema.additionalProperties ?? true;
    return typeof rest === 'boolean' ? rest : fits(rest, inner);
  });
}
const schemaTakes = (text: string) => fits(root, parse(text));
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
    under(...groups['call-lifecycle'].map((event) => `${event}: new`)),
    `${under('calls: legacy')}\n  /rooms/1:\n    calls: new`,
  ])('both take %j', (text) => {
    expect(parserTakes(text)).toBe(true);
    expect(schemaTakes(text)).toBe(true);
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
    under('calls: shadow'),
    under('calls: true'),
    under('calls:'),
    under('calls: { sole: true }'),
    under('calls: { mode: legacy, sole: true }'),
    under('calls: { mode: new, sole: 1 }'),
    under('calls: { mode: new, percent: 5 }'),
  ])('both refuse %j', (text) => {
    expect(parserTakes(text)).toBe(false);
    expect(schemaTakes(text)).toBe(false);
  });

  test.each([under('call-offer: new'), under('ice-candidate: new'), under('calls: new', 'ice-candidate: legacy')])(
    'only the parser knows that %j splits a call or says a thing twice',
    (text) => {
      expect(parserTakes(text)).toBe(false);
      expect(schemaTakes(text)).toBe(true);
    },
  );

  test('both know the same names', () => {
    const named = Object.keys(root.definitions.namespace?.properties ?? {});
    expect(named.toSorted()).toEqual(
      [...new Set(['calls', ...groupNames, ...Object.values(groups).flat()])].toSorted(),
    );
  });
});
