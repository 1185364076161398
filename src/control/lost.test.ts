import { describe, expect, it } from 'vitest';
import type { RouteVersion } from '../routing/change.js';
import { reconciled } from './lost.js';
import { allLegacy, versionOf } from './versions.fixture.js';

const mine = [1, 2, 3, 4].map((number) => versionOf(number));
const theirs = (number: number): RouteVersion => versionOf(number, undefined, 'carol');
const red: RouteVersion = { ...versionOf(4, allLegacy, 'bob'), kind: 'legacy' };
const numbers = (versions: readonly RouteVersion[]) => versions.map(({ version, actor }) => `${version} ${actor}`);

describe('a log that holds other versions than it did', () => {
  it.each<[string, readonly RouteVersion[], readonly RouteVersion[], number, string[], string[], string | undefined]>([
    ['emptied: all of mine', mine, [], 0, ['1 alice', '2 alice', '3 alice', '4 alice'], [], undefined],
    ['an older copy: what it lacks', mine, mine.slice(0, 2), 2, ['3 alice', '4 alice'], [], undefined],
    [
      'begun anew by an instance that started: what is above it',
      mine,
      [theirs(1)],
      1,
      ['2 alice', '3 alice', '4 alice'],
      ['1 carol'],
      undefined,
    ],
    ['others under the same number: theirs', mine, [...mine.slice(0, 3), theirs(4)], 4, [], ['4 carol'], undefined],
    ['others above: theirs', mine, [...mine.slice(0, 3), theirs(4), theirs(5)], 5, [], ['5 carol'], undefined],
    [
      'others in place of the red switch in force: that, behind them',
      [...mine.slice(0, 3), red],
      [...mine.slice(0, 3), theirs(4)],
      4,
      [],
      ['4 carol'],
      '4 bob',
    ],
    ['the same: nothing', mine, mine, 4, [], [], undefined],
    ['only the newest of the same: nothing', mine, mine.slice(2), 4, [], [], undefined],
  ])('%s', (_name, before, now, last, missing, held, again) => {
    const result = reconciled(before, now, last);
    expect(numbers(result.missing)).toEqual(missing);
    expect(numbers(result.history)).toEqual(expect.arrayContaining([...missing, ...held]));
    expect(result.history.map(({ version }) => version)).toEqual(
      [...result.history.map(({ version }) => version)].sort(),
    );
    expect(result.again && numbers([result.again])[0]).toBe(again);
    expect(result.told === null).toBe(missing.length === 0 && held.length === 0);
  });

  it('leaves a red switch that was overruled before it was lost', () => {
    const overruled = [...mine.slice(0, 3), red, versionOf(5)];
    expect(reconciled(overruled, [...mine.slice(0, 3), theirs(4), theirs(5)], 5).again).toBeUndefined();
  });
});
