// How plays are judged: against the expectation, the accepted differences, and path against path. What is played is given.
import { describe, expect, it } from 'vitest';
import { readDifferences } from './compare/differences.js';
import type { Played } from './play/play.js';
import type { Entry, Transcripts } from './play/transcript.js';
import { readScenarios } from './read.js';
import { type RunOptions, randomOf, runMatrix } from './run.js';
import type { Identity } from './targets/identity.js';
import type { PathName, Targets } from './targets/targets.js';

const event = (name: string, ...args: unknown[]): Entry => ({ kind: 'event', name, args });

const text = (expected: string) => `name: one
about: Something happens.
parties: { alice: , bob: }
steps: [barrier]
expect:
${expected}`;

const accepted = (more = '') =>
  readDifferences(
    `- { scenario: one, path: proxy-new, what: alice gets y, why: better, since: 2026-12-01, instead: { alice: [{ y: 1 }] }${more} }`,
    'd.yaml',
  ).differences;

async function judged(
  expected: string,
  byPath: Partial<Record<PathName, Transcripts | string>>,
  options: Partial<RunOptions> = {},
) {
  const { scenarios, problems } = readScenarios(text(expected), 'x.yaml');
  expect(problems).toEqual([]);
  const targets: Targets = {
    rejoinTimeoutMs: 1,
    legacyUrl: '',
    missing: (path) => (path === 'peeled' ? 'not there' : undefined),
    async use<T>(path: PathName): Promise<T> {
      const given = byPath[path] ?? {};
      const played: Played =
        typeof given === 'string'
          ? { transcripts: {}, problem: given, ms: 1 }
          : { transcripts: given, problem: undefined, ms: 1 };
      return played as T;
    },
    close: async () => undefined,
  };
  const run = await runMatrix({
    scenarios,
    paths: Object.keys(byPath) as PathName[],
    transports: ['websocket'],
    repeat: 1,
    jobs: 2,
    seed: 1,
    barrierEvent: 'whoami',
    patienceMs: 1,
    quietMs: 0,
    run: 'r',
    identity: { cantSign: undefined } as Identity,
    targets,
    accepted: [],
    ...options,
  });
  return Object.fromEntries(run.results.map(({ path, status, why, against }) => [path, { status, why, against }]));
}

const x = { alice: [event('x', 1)] };
const y = { alice: [event('y', 1)] };

describe('a play', () => {
  it('is as expected, or differs, each path on its own', async () => {
    expect(await judged('  alice: [{ x: 1 }]', { legacy: x, 'proxy-new': y })).toMatchObject({
      legacy: { status: 'same' },
      'proxy-new': { status: 'differs', why: 'alice: y instead of x', against: 'the expectation' },
    });
  });

  it('that did not come to its end differs, though all that came was expected', async () => {
    expect(await judged('  {}', { legacy: 'no acknowledgement' })).toMatchObject({
      legacy: { status: 'differs', why: 'no acknowledgement' },
    });
  });

  it('that can not be run is counted as such', async () => {
    expect(await judged('  {}', { peeled: {} })).toMatchObject({ peeled: { status: 'not-run', why: 'not there' } });
  });
});

describe('an accepted difference', () => {
  it('is shown as accepted where exactly that comes instead', async () => {
    expect(await judged('  alice: [{ x: 1 }]', { legacy: x, 'proxy-new': y }, { accepted: accepted() })).toMatchObject({
      'proxy-new': { status: 'accepted', why: 'alice gets y: better' },
    });
  });

  it('hides nothing else', async () => {
    const z = { alice: [event('y', 1), event('z')] };
    expect(await judged('  alice: [{ x: 1 }]', { 'proxy-new': z }, { accepted: accepted() })).toMatchObject({
      'proxy-new': { status: 'differs', why: 'alice: z was not expected any more', against: 'the accepted difference' },
    });
    const toBob = { ...y, bob: [event('x')] };
    expect(await judged('  alice: [{ x: 1 }]', { 'proxy-new': toBob }, { accepted: accepted() })).toMatchObject({
      'proxy-new': { status: 'differs', why: 'bob: x was not expected any more' },
    });
  });

  it('that does not occur any more fails, but for one that occurs sometimes', async () => {
    expect(await judged('  alice: [{ x: 1 }]', { 'proxy-new': x }, { accepted: accepted() })).toMatchObject({
      'proxy-new': { status: 'gone', why: expect.stringMatching(/^declared but gone: "alice gets y"/) as string },
    });
    const sometimes = accepted(', sometimes: true');
    expect(await judged('  alice: [{ x: 1 }]', { 'proxy-new': x }, { accepted: sometimes })).toMatchObject({
      'proxy-new': { status: 'same' },
    });
  });

  it('of one path accepts nothing on another', async () => {
    expect(await judged('  alice: [{ x: 1 }]', { 'proxy-legacy': y }, { accepted: accepted() })).toMatchObject({
      'proxy-legacy': { status: 'differs' },
    });
  });
});

describe('path against path', () => {
  const left = { alice: [event('x', { id: 1 })] };
  const right = { alice: [event('x', { id: '1' })] };

  it('tells what an expectation leaves open', async () => {
    expect(await judged('  alice: [{ x: { id: $any } }]', { legacy: left, 'proxy-new': right })).toMatchObject({
      legacy: { status: 'same' },
      'proxy-new': { status: 'differs', against: 'the legacy path' },
    });
  });

  it('is no question where a race has several right outcomes', async () => {
    const race = '  oneOf: [{ alice: [{ x: 1 }] }, { alice: [{ y: 1 }] }]';
    expect(await judged(race, { legacy: x, 'proxy-new': y })).toMatchObject({
      legacy: { status: 'same' },
      'proxy-new': { status: 'same' },
    });
  });
});

describe('chance', () => {
  it('is the same for the same seed', () => {
    const [a, b, c] = [randomOf(7), randomOf(7), randomOf(8)];
    const first = [a(), a(), a()];
    expect([b(), b(), b()]).toEqual(first);
    expect([c(), c(), c()]).not.toEqual(first);
    expect(first.every((n) => n >= 0 && n < 1)).toBe(true);
  });
});
