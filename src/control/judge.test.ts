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
  const made = new SlidingWindow(limits.windowMs, limits.maxP99Ms);
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

describe('faults of one user, or of one conversation', () => {
  const needed = limits.minSamples;
  /** `others`: events that went well. `faults`: whose they are, and how many of each. */
  type Faults = readonly (readonly [user: string, conversation: string, count: number])[];
  const played = (kind: 'errors' | 'refusals' | 'slow', others: number, faults: Faults) => {
    const made = new SlidingWindow(limits.windowMs, limits.maxP99Ms);
    for (let i = 0; i < others; i++) {
      made.sample(now, false);
      made.served(now, 1, { user: `other ${i}`, conversationId: `o${i}` });
    }
    for (const [user, conversationId, count] of faults) {
      for (let i = 0; i < count; i++) {
        const whose = { user, conversationId: conversationId.replace('#', String(i)) };
        made.sample(now, false);
        if (kind === 'errors') made.error(now, whose);
        if (kind === 'refusals') made.refusal(now, whose);
        made.served(now, kind === 'slow' ? 2_000 : 1, whose);
      }
    }
    return judge('call-offer', made, limits, now, false);
  };
  const several: Faults = Array.from({ length: 3 }, (_, i) => [`user ${i}`, `c${i}`, 20] as const);

  describe.each(['errors', 'refusals', 'slow'] as const)('%s', (kind) => {
    it.each<[string, number, Faults, string]>([
      ['one user in one conversation', 0, [['mallory', 'c', 60]], 'inconclusive'],
      ['one user in many conversations', 0, [['mallory', 'c#', 600]], 'inconclusive'],
      [
        'both users of one conversation',
        0,
        [
          ['mallory', 'c', 60],
          ['bob', 'c', 60],
        ],
        'inconclusive',
      ],
      ['one user beside many who are served well', needed, [['mallory', 'c#', 60]], 'well'],
      [
        'one user, and somebody else once where little else happens',
        5,
        [
          ['mallory', 'c#', 60],
          ['bob', 'd', 1],
        ],
        'inconclusive',
      ],
      ['several users', 0, several, 'over'],
      ['several users beside one who has most', 0, [['mallory', 'c#', 600], ...several], 'over'],
      [
        'several users, a few among many',
        200,
        Array.from({ length: 14 }, (_, i) => [`u${i}`, `c${i}`, 1] as const),
        'over',
      ],
      [
        'several users, with too few events',
        0,
        [
          ['a', 'c', 24],
          ['b', 'd', 25],
        ],
        'inconclusive',
      ],
    ])('%s', (_name, others, faults, state) => {
      expect(played(kind, others, faults)?.state).toBe(state);
    });
  });

  it("that it is one user's is said, where nothing is concluded and where it is well without", () => {
    expect(played('errors', 7, [['mallory', 'c#', 60]])).toMatchObject({
      state: 'inconclusive',
      reason:
        "call-offer: 60 of 67 (89.6 %, limit 1 %) ended in an internal error; most of it one user's or one conversation's, and 7 samples beside that are too few to judge by",
    });
    expect(played('refusals', 60, [['mallory', 'c#', 60]])).toMatchObject({
      state: 'well',
      reason:
        "call-offer: 60 of 120 (50 %, limit 5 %) could not be served, which a legacy never says; most of it one user's or one conversation's, without which it is within the limit",
    });
    expect(played('errors', 20, [])).not.toHaveProperty('reason');
    expect(played('errors', 90, [])).not.toHaveProperty('reason');
  });

  it("one kind of fault that is one user's hides none that is not", () => {
    const made = new SlidingWindow(limits.windowMs, limits.maxP99Ms);
    for (let i = 0; i < 100; i++) {
      made.sample(now, false);
      if (i < 60) made.error(now, { user: 'mallory', conversationId: 'c' });
      else made.refusal(now, { user: `user ${i}`, conversationId: `c${i}` });
    }
    expect(judge('call-offer', made, limits, now, false)).toMatchObject({
      state: 'over',
      reason: expect.stringContaining('40 of 100 (40 %, limit 5 %) could not be served'),
    });
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
