// The log and other instances are doors: what comes in by them is checked like a file.
import { describe, expect, test } from 'vitest';
import { tableOf, versionOf } from './check.js';
import { routeTable } from './route.js';

const table = routeTable(
  new Map([
    ['/', { 'call-lifecycle': { mode: 'canary', canary: { percent: 5, users: ['alice'] } } }],
    ['/calls', { 'ice-candidate': { mode: 'new' } }],
  ]),
);
const json = () => JSON.parse(JSON.stringify(table));
const lifecycle = (of: ReturnType<typeof json>) => of.namespaces['/']['call-lifecycle'];

describe('a table from JSON', () => {
  test('is the table that was written', () => {
    const read = tableOf(json());
    expect(read.ok && read.table.toJSON()).toEqual(table.toJSON());
    expect(read.ok && read.table.wants('/', 'call-offer', 'c', 'alice')).toEqual({ path: 'new', because: 'canary' });
  });

  test.each<[string, (of: ReturnType<typeof json>) => unknown, RegExp]>([
    ['nothing', () => null, /^it: Invalid input/],
    ['a list', () => [], /^it: Invalid input/],
    ['no namespaces', () => ({}), /^namespaces: /],
    ['an unknown key', (of) => ({ ...of, more: 1 }), /^it: Unrecognized key: "more"/],
    ['a mode from a later version', (of) => set(of, 'mode', 'shadow'), /^namespaces\.\/\.call-lifecycle\.mode: /],
    ['a canary without its share', (of) => set(of, 'canary', null), /mode and canary do not go together/],
    ['a missing group', (of) => drop(of, 'call-lifecycle'), /^namespaces\.\/\.call-lifecycle: /],
    ['a share that is a text', (of) => setCanary(of, 'percent', '5'), /canary\.percent: /],
    [
      'a share over 100',
      (of) => setCanary(of, 'percent', 100.5),
      /^in "\/" "percent" of "call-lifecycle" is 100\.5; write/,
    ],
    ['a share of no number', (of) => setCanary(of, 'percent', Number.NaN), /canary\.percent: /],
    ['a list that is too long', (of) => setCanary(of, 'users', Array(1001).fill('u')), /holds 1001 ids/],
    ['a user that is none', (of) => setCanary(of, 'users', [{}]), /canary\.users\.0: /],
    ['an id that is too long', (of) => setCanary(of, 'users', ['u'.repeat(257)]), /an id of 257 characters/],
    [
      'a namespace without a slash',
      (of) => ({ namespaces: { calls: of.namespaces['/'] } }),
      /does not start with "\/"/,
    ],
    ['a guard out of range', (of) => set(of, 'guard', { ...lifecycle(of).guard, windowMs: 5 }), /"guard\.window"/],
    [
      'a share that no file could say',
      (of) => set(of, 'guard', { ...lifecycle(of).guard, maxErrors: 1 / 3 }),
      /errors/,
    ],
    ['a sole canary', (of) => set(of, 'sole', true), /is sole with mode canary/],
  ])('%s is refused in a line', (_name, make, expected) => {
    const read = tableOf(make(json()));
    expect(read.ok).toBe(false);
    const problems = read.ok ? [] : read.problems;
    expect(problems.length).toBeGreaterThan(0);
    expect(problems[0]).toMatch(expected);
    for (const problem of problems) expect(problem).not.toContain('\n');
  });

  test('a namespace that would be the prototype of every table is none', () => {
    const read = tableOf(JSON.parse('{"namespaces":{"__proto__":{"x":{}}}}'));
    expect(read.ok && read.table.namespaces).toEqual(['/']);
  });

  test('a table that is too large is refused, whatever it is made of', () => {
    const of = json();
    for (let i = 0; i < 20; i++) {
      of.namespaces[`/${i}`] = structuredClone(of.namespaces['/']);
      of.namespaces[`/${i}`]['call-lifecycle'].canary.users = Array.from(
        { length: 1000 },
        (_, n) => `user-number-${n}`,
      );
    }
    const read = tableOf(of);
    expect(read.ok ? [] : read.problems).toEqual([
      expect.stringMatching(/lists hold 20001 ids, over 10000/),
      expect.stringMatching(/characters as JSON, over 262144; shorten/),
    ]);
  });

  test('many faults are told by their first few', () => {
    const of = setCanary(
      json(),
      'users',
      Array.from({ length: 500 }, (_, i) => i),
    );
    const read = tableOf(of);
    expect(read.ok ? [] : read.problems).toHaveLength(5);
  });
});

describe('a version from JSON', () => {
  const version = () => ({
    version: 3,
    at: '2026-01-02T03:04:05.678Z',
    actor: 'alice',
    via: 'cli',
    kind: 'set',
    reason: 'the first five percent',
    before: json(),
    after: json(),
    fileHash: 'a'.repeat(64),
  });
  test('is the version that was written', () => {
    const read = versionOf(version());
    expect(read.ok && read.version).toEqual(version());
    const { fileHash: _, ...without } = version();
    const plain = versionOf(without);
    expect(plain.ok && plain.version).toEqual(without);
  });

  test.each([
    ['a number below 1', { version: 0 }],
    ['half a version', { version: 1.5 }],
    ['a time that is none', { at: 'yesterday' }],
    ['an author of no end', { actor: 'a'.repeat(101) }],
    ['a way in that is none', { via: 'telnet' }],
    ['an unknown kind', { kind: 'shadow' }],
    ['a reason of no end', { reason: 'r'.repeat(1001) }],
    ['a hash that is none', { fileHash: 'abc' }],
    ['a table that is none', { after: {} }],
    ['an unknown key', { more: 1 }],
  ])('%s is refused', (_name, wrong) => {
    expect(versionOf({ ...version(), ...wrong }).ok).toBe(false);
  });
});

function set(of: ReturnType<typeof json>, key: string, value: unknown) {
  lifecycle(of)[key] = value;
  return of;
}
function setCanary(of: ReturnType<typeof json>, key: string, value: unknown) {
  lifecycle(of).canary[key] = value;
  return of;
}
function drop(of: ReturnType<typeof json>, group: string) {
  delete of.namespaces['/'][group];
  return of;
}
