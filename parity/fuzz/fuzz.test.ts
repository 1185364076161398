import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { wantedOf } from '../compare/match.js';
import type { Played } from '../play/play.js';
import type { Entry } from '../play/transcript.js';
import { lifecycles } from './arbitrary.js';
import { type FuzzOptions, fuzz } from './fuzz.js';
import type { Scripted } from './moves.js';

const asExpected = ({ outcome }: Scripted): Played => ({
  transcripts: Object.fromEntries(Object.entries(outcome).map(([name, list]) => [name, wantedOf(list) as Entry[]])),
  problem: undefined,
  ms: 0,
});
const emits = ({ play }: Scripted, event: string) => play.steps.some((step) => 'emit' in step && step.emit === event);

const options = (more: Partial<FuzzOptions>): FuzzOptions => ({
  seed: 5,
  runs: 60,
  jobs: 4,
  mostShrunk: 2,
  shrinkMs: 10_000,
  paths: ['legacy', 'proxy-new'],
  play: async (script) => asExpected(script),
  ...more,
});

describe('random lifecycles', () => {
  it('that all do what they should are no difference', async () => {
    expect(await fuzz(options({}))).toMatchObject({ played: 60, found: [] });
  });

  it('are the same for the same seed', () => {
    const some = (seed: number) => JSON.stringify(fc.sample(lifecycles, { seed, numRuns: 5 }));
    expect(some(3)).toBe(some(3));
    expect(some(3)).not.toBe(some(4));
  });

  it('a difference is shrunk to what leads to it, and the others are named', async () => {
    // The rejoiner is never told that its offer was answered.
    const play = async (script: Scripted, path: string): Promise<Played> => {
      const played = asExpected(script);
      if (path === 'legacy') return played;
      const transcripts = Object.fromEntries(
        Object.entries(played.transcripts).map(([name, entries]) => [
          name,
          entries.filter((entry) => entry.kind !== 'event' || entry.name !== 'call-rejoin-answer'),
        ]),
      );
      return { ...played, transcripts };
    };
    const { found } = await fuzz(options({ play, runs: 100 }));
    expect(found.length).toBeGreaterThan(2);
    expect(found.map(({ shrunk }) => shrunk)).toEqual(found.map((_, i) => (i < 2 ? 'smallest' : 'not-tried')));
    const { scripted: smallest, differences } = found[0]!;
    expect(smallest.play.steps.length).toBeLessThanOrEqual(7);
    for (const event of ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer']) {
      expect(emits(smallest, event), event).toBe(true);
    }
    expect(differences).toMatchObject([
      { path: 'proxy-new', from: 'docs/calls.md' },
      { path: 'proxy-new', from: 'the legacy path' },
    ]);
  });

  it('a legacy that does not do what is written is a difference too', async () => {
    const play = async (script: Scripted): Promise<Played> =>
      emits(script, 'call-end') ? { ...asExpected(script), transcripts: {} } : asExpected(script);
    const { found } = await fuzz(options({ play, mostShrunk: 1 }));
    expect(found[0]?.differences.map(({ path, from }) => `${path}, ${from}`)).toEqual([
      'legacy, docs/calls.md',
      'proxy-new, docs/calls.md',
    ]);
    expect(found[0]?.scripted.play.steps.length).toBeLessThanOrEqual(3);
  });

  it('one that differs only once is not hidden', async () => {
    let plays = 0;
    const play = async (script: Scripted): Promise<Played> =>
      ++plays === 9 ? { ...asExpected(script), problem: 'waited in vain' } : asExpected(script);
    const { found } = await fuzz(options({ play }));
    expect(found).toMatchObject([{ shrunk: 'not-again', differences: [{ from: 'its end', what: 'waited in vain' }] }]);
  });

  it('shrinking ends when its time is over, with the smallest so far', async () => {
    const play = async (script: Scripted): Promise<Played> => ({ ...asExpected(script), problem: 'always' });
    const { found } = await fuzz(options({ play, runs: 1, shrinkMs: -1, mostShrunk: 1 }));
    expect(found).toMatchObject([{ shrunk: 'out-of-time', tries: 1 }]);
  });
});
