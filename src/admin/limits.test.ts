import { expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { limit } from './limits.js';

it('allows a burst, then its rate, for each key', () => {
  const clock = manualClock();
  const limited = limit({ burst: 3, perSecond: 2 }, clock);
  const taken = (key: string, n: number) => Array.from({ length: n }, () => limited.take(key)).filter(Boolean).length;
  expect(taken('a', 5)).toBe(3);
  expect(taken('b', 5)).toBe(3);
  clock.advance(500);
  expect(taken('a', 5)).toBe(1);
  clock.advance(60_000);
  expect(taken('a', 5)).toBe(3);
});

it('what costs more is allowed less often', () => {
  const clock = manualClock();
  const limited = limit({ burst: 10, perSecond: 4 }, clock);
  expect([4, 4, 4, 2, 1].map((cost) => limited.take('a', cost))).toEqual([true, true, false, true, false]);
  clock.advance(1_000);
  expect([4, 4].map((cost) => limited.take('a', cost))).toEqual([true, false]);
});

it('threat: a flood of addresses takes memory without end, or frees the one that floods', () => {
  const clock = manualClock();
  const limited = limit({ burst: 1, perSecond: 0.001 }, clock);
  expect(limited.take('flood')).toBe(true);
  for (let i = 0; i < 5_000; i++) {
    limited.take(`address ${i}`);
    expect(limited.take('flood')).toBe(false);
  }
});
