import { describe, expect, it } from 'vitest';
import type { GuardLimits } from '../routing/route.js';
import { judge } from './judge.js';
import { SlidingWindow } from './window.js';

const now = 1_700_000_000_000;
const limits: GuardLimits = { windowMs: 60_000, minSamples: 50, maxErrors: 0.01, maxRefusals: 0.05, maxP99Ms: 500 };

interface Happened {
  readonly samples?: number;
  readonly peeled?: number;
  readonly errors?: number;
  readonly refusals?: number;
  /** Milliseconds, and how many. */
  readonly served?: readonly (readonly [number, number])[];
}

function window({ samples = 0, peeled = 0, errors = 0, refusals = 0, served = [] }: Happened): SlidingWindow {
  const made = new SlidingWindow(limits.windowMs);
  for (let i = 0; i < samples; i++) made.sample(now, i < peeled);
  for (let i = 0; i < errors; i++) made.error(now);
  for (let i = 0; i < refusals; i++) made.refusal(now);
  for (const [ms, count] of served) for (let i = 0; i < count; i++) made.served(now, ms);
  return made;
}

describe('limits', () => {
  it.each<[string, Happened, string, string?]>([
    ['nothing', {}, 'inconclusive'],
    ['one sample too few, all of them errors', { samples: 49, errors: 49 }, 'inconclusive'],
    ['samples enough', { samples: 50 }, 'well'],
    ['errors at the limit', { samples: 100, errors: 1 }, 'well'],
    [
      'errors over the limit',
      { samples: 100, errors: 2 },
      'over',
      'call-offer: 2 of 100 (2 %, limit 1 %) ended in an internal error, in the last 60 s',
    ],
    ['refusals at the limit', { samples: 100, refusals: 5 }, 'well'],
    [
      'refusals over the limit',
      { samples: 80, refusals: 12 },
      'over',
      'call-offer: 12 of 80 (15 %, limit 5 %) could not be served, which a legacy never says, in the last 60 s',
    ],
    [
      'one slow in a hundred',
      {
        samples: 100,
        served: [
          [1, 99],
          [9_000, 1],
        ],
      },
      'well',
    ],
    [
      'two slow in a hundred',
      {
        samples: 100,
        served: [
          [1, 98],
          [1_000, 2],
        ],
      },
      'over',
      'call-offer: serving took 939 ms at the 99th percentile of 100 (limit 500 ms), in the last 60 s',
    ],
    ['slow, but too few were timed', { samples: 100, served: [[9_000, 49]] }, 'well'],
    [
      'the worst figure is the one that is told',
      { samples: 100, errors: 50, refusals: 6 },
      'over',
      'call-offer: 50 of 100 (50 %, limit 1 %) ended in an internal error, in the last 60 s',
    ],
  ])('%s', (_name, happened, state, reason) => {
    const verdict = judge('call-offer', window(happened), limits, now, false);
    expect(verdict?.state).toBe(state);
    if (reason !== undefined) expect(verdict).toMatchObject({ reason });
  });

  it('a limit of 0 is crossed by the first, and by nothing before', () => {
    const strict = { ...limits, maxErrors: 0, minSamples: 1 };
    expect(judge('call-offer', window({ samples: 1_000 }), strict, now, false)?.state).toBe('well');
    expect(judge('call-offer', window({ samples: 1_000, errors: 1 }), strict, now, false)?.state).toBe('over');
  });
});

describe('a relay judged by the calls that the new path owns', () => {
  it.each<[string, Happened, string | null]>([
    ['is left out where none came', {}, null],
    ['is left out where most were peeled', { samples: 100, peeled: 60, errors: 60 }, null],
    ['needs samples of its own', { samples: 90, peeled: 45, errors: 40 }, 'inconclusive'],
    ['counts where most were owned', { samples: 100, peeled: 40, errors: 40 }, 'over'],
  ])('%s', (_name, happened, state) => {
    expect(judge('ice-candidate', window(happened), limits, now, true)?.state ?? null).toBe(state);
  });
});
