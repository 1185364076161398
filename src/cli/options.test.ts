import { InvalidArgumentError } from 'commander';
import { describe, expect, test } from 'vitest';
import { count, guard, list, percent, versionNumber } from './options.js';

test.each([
  ['0', 0],
  ['5', 5],
  ['2.25', 2.25],
  ['0.01%', 0.01],
  ['100', 100],
  ['100.00%', 100],
])('a share of %s', (text, value) => {
  expect(percent(text)).toBe(value);
});
test.each(['', '-1', '100.01', '1e1', '0x5', '2.555', ' 5', '5 %', 'NaN', '.5'])('%j is no share', (text) => {
  expect(() => percent(text)).toThrow(InvalidArgumentError);
});

test('lists add up, and the empty text is the empty list', () => {
  expect(list('alice, bob', undefined)).toEqual(['alice', 'bob']);
  expect(list('carol', ['alice'])).toEqual(['alice', 'carol']);
  expect(list('', undefined)).toEqual([]);
});

test.each(['0', '-1', '1.5', 'x', '', '1e3', '9'.repeat(16)])('%j is no version', (text) => {
  expect(() => versionNumber(text)).toThrow(InvalidArgumentError);
});
test('versions and counts', () => {
  expect(versionNumber('41')).toBe(41);
  expect(count(500)('500')).toBe(500);
  for (const text of ['0', '501', '-1', 'all']) expect(() => count(500)(text)).toThrow(/from 1 to 500/);
});

describe("the guard's limits, by their keys in a routes file", () => {
  test('some of them', () => {
    expect(guard('off')).toBe('off');
    expect(guard('window=90s')).toEqual({ windowMs: 90_000 });
    expect(guard('window=2m, min-samples=10, max-errors-percent=0.07, max-refusals-percent=5%, max-p99=250ms')).toEqual(
      { windowMs: 120_000, minSamples: 10, maxErrors: 0.0007, maxRefusals: 0.05, maxP99Ms: 250 },
    );
  });
  test.each([
    ['on', /^Write off, or some of/],
    ['window', /^Write off/],
    ['window=1s=2', /^Write off/],
    ['constructor=1', /^Write off/],
    ['window=90', /^window: .*no duration/],
    ['max-errors-percent=101', /^max-errors-percent: Write 0 to 100/],
    ['min-samples=0', /^min-samples: Write a number/],
  ])('%s is refused', (text, line) => {
    expect(() => guard(text)).toThrow(line);
  });
});
