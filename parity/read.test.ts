// What a scenario file may hold, and what is said of one that is broken.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of scenarios, not of code
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readDifferencesFile } from './compare/differences.js';
import { readFolder, readScenarios } from './read.js';
import { drops, editorSchema } from './scenario.js';
import { packageRoot } from './targets/root.js';

const fine = `name: one
about: Something happens.
parties:
  alice:
  bob: { devices: [b1, { name: b2, transport: polling }], token: short }
steps:
  - { emit: call-offer, by: alice, payload: { conversationId: $call, offer: o1 } }
expect:
  alice:
    - ack: call-offer
`;

const problemsOf = (text: string): readonly string[] => readScenarios(text, 'x.yaml').problems;

describe('a scenario file', () => {
  it('is read into devices, conversations, steps and outcomes', () => {
    const { scenarios, problems } = readScenarios(fine, 'x.yaml');
    expect(problems).toEqual([]);
    expect(scenarios).toMatchObject([
      {
        name: 'one',
        file: 'x.yaml',
        line: 1,
        conversations: { call: ['alice', 'bob'] },
        steps: [{ emit: 'call-offer', by: 'alice' }],
        outcomes: [{ alice: [{ ack: 'call-offer' }] }],
      },
    ]);
    expect(scenarios[0]?.devices).toMatchObject([
      { name: 'alice', party: 'alice', namespace: '/', token: 'valid', later: false },
      { name: 'b1', party: 'bob', token: 'short' },
      { name: 'b2', party: 'bob', token: 'short', transport: 'polling' },
    ]);
  });

  it('holds several, each at its own line', () => {
    const { scenarios } = readScenarios(`${fine}---\n${fine.replace('one', 'two')}`, 'x.yaml');
    expect(scenarios.map(({ name, line }) => [name, line])).toEqual([
      ['one', 1],
      ['two', 12],
    ]);
  });

  it('is played once for each of its cases, with values of any type', () => {
    const text = fine
      .replace('name: one', 'name: one-<how>\ncases: [{ how: a, what: { x: 1 } }, { how: b, what: 2 }]')
      .replace('offer: o1', 'offer: <what>, <how>: 1');
    const { scenarios, problems } = readScenarios(text, 'x.yaml');
    expect(problems).toEqual([]);
    expect(scenarios.map(({ name, steps }) => [name, steps[0]])).toMatchObject([
      ['one-a', { payload: { conversationId: '$call', offer: { x: 1 }, a: 1 } }],
      ['one-b', { payload: { conversationId: '$call', offer: 2, b: 1 } }],
    ]);
  });

  it('keeps __proto__ as a key like any other', () => {
    const { scenarios } = readScenarios(fine.replace('offer: o1', 'offer: { __proto__: { x: 1 } }'), 'x.yaml');
    expect(JSON.stringify(scenarios[0]?.steps[0])).toContain('"__proto__":{"x":1}');
  });

  it('puts what stands beside oneOf before each outcome', () => {
    const text = `${fine}  oneOf:\n    - alice: [{ a: 1 }]\n    - b1: [{ b: 1 }]\n`;
    expect(readScenarios(text, 'x.yaml').scenarios[0]?.outcomes).toEqual([
      { alice: [{ ack: 'call-offer' }, { a: 1 }] },
      { alice: [{ ack: 'call-offer' }], b1: [{ b: 1 }] },
    ]);
  });
});

describe('what is broken is one line with the place and the mend', () => {
  it.each([
    ['name: one\n', '', /^x\.yaml:1: name: is missing; add it$/],
    ['parties:', 'partis: {}\nparties:', /^x\.yaml:3: unknown partis; remove it/],
    ['about: Something happens.', 'about: *nothing', /^x\.yaml:1: Unresolved alias .*; mend the YAML$/],
    [
      'offer: o1',
      'ticket: { $ticket: { user: $alice } }',
      /^x\.yaml:7: \$ticket has no conversation, participants; add it$/,
    ],
    ['by: alice', 'by: alcie', /^x\.yaml:7: alcie is no device of this scenario \(alice, b1, b2\)/],
    ['by: alice', 'bye: alice', /^x\.yaml:7: steps\[0\]\.by: is missing; add it$/],
    ['emit: call-offer', 'emti: call-offer', /^x\.yaml:7: this step is none of emit, drop/],
    ['emit: call-offer, by: alice', 'drop: alice, how: rsst', /^x\.yaml:7: .*must be one of fin, rst, silence/],
    ['$call', '$cal', /^x\.yaml:7: \$cal is neither a party nor a conversation/],
    ['offer: o1', 'offer: "to ${bbo}"', /^x\.yaml:7: \$bbo is neither/],
    ['offer: o1', 'offer: { $bin: x }', /^x\.yaml:7: \$bin is none of \$binary/],
    ['offer: o1', 'offer: $any', /^x\.yaml:7: \$any stands for what is received/],
    ['offer: o1', 'offer: $socket:b9', /^x\.yaml:7: \$socket:b9 names no device/],
    ['token: short', 'token: shrt', /^x\.yaml:5: .*must be one of valid, none, expired, forged, short/],
    ['b2, transport', 'b1, transport', /^x\.yaml:5: two devices are called b1/],
    ['    - ack: call-offer', '    - ack: call-offer\n      wth: 1', /^x\.yaml:11: expect\.alice\[0\]: unknown wth/],
    ['    - ack: call-offer', '    - a: 1\n      b: 2', /^x\.yaml:10: an event is one key/],
    ['    - ack: call-offer', '    - a: $id', /^x\.yaml:10: \$id needs a name/],
    ['  alice:\n    - ack', '  carl:\n    - ack', /^x\.yaml:9: carl is no device/],
    ['expect:\n  alice:\n    - ack: call-offer', 'expect: nothing', /^x\.yaml:8: expect must name devices/],
    ['about: Something', 'about: "Something', /^x\.yaml:\d+: .*; mend the YAML$/],
  ])('%s → %s', (from, to, problem) => {
    expect(fine).toContain(from);
    const problems = problemsOf(fine.replace(from, () => to));
    expect(problems[0]).toMatch(problem);
    expect(problems.every((line) => !line.includes('\n'))).toBe(true);
  });

  it('a <key> that a case has not', () => {
    const text = fine.replace('about:', 'cases: [{ how: a }]\nabout:').replace('offer: o1', 'offer: <hwo>');
    expect(problemsOf(text)).toEqual([
      'x.yaml:8: <hwo> is no key of each of the cases (how); add it, or mend the name',
    ]);
  });

  it('all of it at once', () => {
    const text = fine.replace('by: alice', 'by: alcie').replace('ack: call-offer', 'ack: call-offer\n      wth: 1');
    expect(problemsOf(text)).toHaveLength(1); // names are looked at once the rest is right
    expect(problemsOf(text.replace('wth', 'with'))).toHaveLength(1);
    expect(problemsOf(text.replace('emit:', 'emti:'))).toHaveLength(2);
  });
});

describe('what is committed', () => {
  const folder = join(packageRoot, 'parity');

  it('has nothing to mend', () => {
    const { scenarios, problems } = readFolder(join(folder, 'scenarios'));
    expect(problems).toEqual([]);
    expect(scenarios.length).toBeGreaterThanOrEqual(3);
    expect(readDifferencesFile(join(folder, 'differences.yaml'), 'differences.yaml').problems).toEqual([]);
  });

  it('has the schema for editors that the format says: "parity schema > parity/scenario.schema.json"', () => {
    const committed: unknown = JSON.parse(readFileSync(join(folder, 'scenario.schema.json'), 'utf8'));
    expect(committed).toEqual(JSON.parse(JSON.stringify(editorSchema())));
  });

  it('is not marked by an editor for the <key> of a case, where a word of a list must stand', () => {
    const words = JSON.stringify({
      anyOf: [
        { type: 'string', enum: drops },
        { type: 'string', pattern: '<[\\w-]+>' },
      ],
    });
    expect(JSON.stringify(editorSchema())).toContain(words.slice(1, -1));
  });
});
