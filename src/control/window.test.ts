import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SlidingWindow } from './window.js';

const start = 1_700_000_000_000;
const none = { samples: 0, peeled: 0, errors: 0, refusals: 0, served: 0, slow: 0 };

describe('a sliding window', () => {
  it('is empty at first', () => {
    const window = new SlidingWindow(60_000, Number.POSITIVE_INFINITY);
    expect(window.sums(start)).toEqual(none);
    expect(window.p99(start)).toBeNull();
  });

  it('counts what happened', () => {
    const window = new SlidingWindow(60_000, Number.POSITIVE_INFINITY);
    for (let i = 0; i < 10; i++) window.sample(start + i, i < 4);
    window.error(start);
    window.refusal(start);
    window.refusal(start);
    window.served(start, 3);
    expect(window.sums(start + 100)).toEqual({ samples: 10, peeled: 4, errors: 1, refusals: 2, served: 1, slow: 0 });
  });

  it('has as many samples as there were faults, where their decisions were not told', () => {
    const window = new SlidingWindow(60_000, Number.POSITIVE_INFINITY);
    for (let i = 0; i < 3; i++) window.error(start);
    expect(window.sums(start)).toMatchObject({ samples: 3, errors: 3 });
  });

  it('forgets what is older than its length, and keeps what is younger than 11/12 of it', () => {
    const window = new SlidingWindow(60_000, Number.POSITIVE_INFINITY);
    window.sample(start, false);
    window.served(start, 5);
    expect(window.sums(start + 54_999).samples).toBe(1);
    expect(window.sums(start + 60_000)).toEqual(none);
    expect(window.p99(start + 60_000)).toBeNull();
  });

  it('knows how many took longer than what is slow, in the same classes as the percentile', () => {
    const window = new SlidingWindow(60_000, 500);
    for (const ms of [0, 499, 500, 505, 600, 70_000]) window.served(start, ms);
    expect(window.sums(start)).toMatchObject({ served: 6, slow: 2 });
    expect(new SlidingWindow(60_000, 60_000).sums(start).slow).toBe(0);
  });

  it('knows the most that are of one user or of one conversation, and forgets it with the rest', () => {
    const window = new SlidingWindow(12_000, 500);
    const of = (user: string, conversationId?: string) => ({ user, conversationId });
    expect(window.loudest(start)).toEqual({ errors: 0, refusals: 0, slow: 0 });
    for (let i = 0; i < 3; i++) window.error(start + i * 1_000, of('ada', `c${i}`));
    for (const user of ['ada', 'bob', 'cy', 'dan']) window.refusal(start + 3_000, of(user, 'same'));
    for (let i = 0; i < 5; i++) window.served(start + 3_000, i < 2 ? 900 : 1, of('eve'));
    for (let i = 0; i < 9; i++) window.error(start + 3_000);
    expect(window.loudest(start + 3_000)).toEqual({ errors: 3, refusals: 4, slow: 2 });
    expect(window.loudest(start + 13_000)).toEqual({ errors: 1, refusals: 4, slow: 2 });
    expect(window.loudest(start + 15_000)).toEqual({ errors: 0, refusals: 0, slow: 0 });
  });

  it('finds one among more names than it keeps, where it was there before them', () => {
    const window = new SlidingWindow(12_000, Number.POSITIVE_INFINITY);
    window.error(start, { user: 'ada', conversationId: 'c' });
    for (let i = 0; i < 10_000; i++) window.error(start, { user: `user ${i}`, conversationId: `c ${i}` });
    for (let i = 0; i < 20; i++) window.error(start, { user: 'ada', conversationId: `d ${i}` });
    expect(window.loudest(start).errors).toBe(21);
  });

  it('is not confused by a clock that goes back, or leaps ahead', () => {
    const window = new SlidingWindow(12_000, Number.POSITIVE_INFINITY);
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
        const window = new SlidingWindow(12_000, Number.POSITIVE_INFINITY);
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
            slow: 0,
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
