import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlidingWindow } from './window.js';

const start = 1_700_000_000_000;
const none = { samples: 0, peeled: 0, errors: 0, refusals: 0, served: 0 };

describe('a sliding window', () => {
  it('is empty at first', () => {
    const window = new SlidingWindow(60_000);
    expect(window.sums(start)).toEqual(none);
    expect(window.p99(start)).toBeNull();
  });

  it('counts what happened', () => {
    const window = new SlidingWindow(60_000);
    for (let i = 0; i < 10; i++) window.sample(start + i, i < 4);
    window.error(start);
    window.refusal(start);
    window.refusal(start);
    window.served(start, 3);
    expect(window.sums(start + 100)).toEqual({ samples: 10, peeled: 4, errors: 1, refusals: 2, served: 1 });
  });

  it('has as many samples as there were faults, where their decisions were not told', () => {
    const window = new SlidingWindow(60_000);
    for (let i = 0; i < 3; i++) window.error(start);
    expect(window.sums(start)).toMatchObject({ samples: 3, errors: 3 });
  });

  it('forgets what is older than its length, and keeps what is younger than 11/12 of it', () => {
    const window = new SlidingWindow(60_000);
    window.sample(start, false);
    window.served(start, 5);
    expect(window.sums(start + 54_999).samples).toBe(1);
    expect(window.sums(start + 60_000)).toEqual(none);
    expect(window.p99(start + 60_000)).toBeNull();
  });

  it('is not confused by a clock that goes back, or leaps ahead', () => {
    const window = new SlidingWindow(12_000);
    window.sample(start, false);
    window.sample(start - 3_600_000, false);
    expect(window.sums(start).samples).toBe(2);
    window.sample(start + 1e9, false);
    expect(window.sums(start + 1e9).samples).toBe(1);
  });

  it('agrees with a list of everything that happened', () => {
    const happened = fc.array(
      fc.record({
        after: fc.integer({ min: 0, max: 4_000 }),
        what: fc.constantFrom('sample', 'peeled', 'error', 'refusal', 'served'),
        ms: fc.double({ min: 0, max: 90_000, noNaN: true }),
      }),
      { maxLength: 200 },
    );
    fc.assert(
      fc.property(happened, (events) => {
        const window = new SlidingWindow(12_000);
        const list: { slot: number; what: string; ms: number }[] = [];
        let now = start;
        for (const { after, what, ms } of events) {
          now += after;
          list.push({ slot: Math.floor(now / 1_000), what, ms });
          if (what === 'sample' || what === 'peeled') window.sample(now, what === 'peeled');
          else if (what === 'error') window.error(now);
          else if (what === 'refusal') window.refusal(now);
          else window.served(now, ms);
          const kept = list.filter(({ slot }) => slot > Math.floor(now / 1_000) - 12);
          const count = (...names: string[]) => kept.filter((one) => names.includes(one.what)).length;
          const [errors, refusals] = [count('error'), count('refusal')];
          expect(window.sums(now)).toEqual({
            samples: Math.max(count('sample', 'peeled'), errors, refusals),
            peeled: count('peeled'),
            errors,
            refusals,
            served: count('served'),
          });
          const times = kept.filter((one) => one.what === 'served').map((one) => one.ms);
          const p99 = times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1];
          const found = window.p99(now);
          if (p99 === undefined) expect(found).toBeNull();
          else {
            expect(found).toBeLessThanOrEqual(p99);
            if (p99 > 0.07 && p99 < 60_000) expect(found).toBeGreaterThan(p99 * 0.91);
          }
        }
      }),
      { numRuns: 100 },
    );
  });
});
