import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { idsOf, named, textOf } from './ids.js';

describe('a list of ids, one a line', () => {
  it.each([
    ['Mary Ann\nauth0|7,8', ['Mary Ann', 'auth0|7,8']],
    ['  alice \r\n\r\nbob\ralice\n', ['alice', 'bob']],
    ['"two\\nlines"\n" blanks "', ['two\nlines', ' blanks ']],
    ['', []],
  ])('%j is read as %j', (text, ids) => expect(idsOf(text)).toEqual({ ids, wrong: null }));

  it.each(['"', '"a', '"a" b', '"a", "b"', '""'])('%s is no id, and is said to be none', (line) =>
    expect(idsOf(`alice\n${line}\nbob`).wrong).toContain(`the line ${line} begins with a quote`),
  );

  it('comes back as it was, whatever an id holds', () => {
    const id = fc.oneof(
      fc.string({ minLength: 1, unit: 'binary' }),
      fc.string({ minLength: 1, unit: fc.constantFrom('"', '\\', '\n', '\r', ' ', ',', '\u2028', '\ud800', 'a') }),
    );
    fc.assert(
      fc.property(fc.uniqueArray(id), (ids) => {
        expect(idsOf(textOf(ids))).toEqual({ ids, wrong: null });
      }),
      { numRuns: 500 },
    );
  });

  it('stays readable: only what a line can’t show is quoted', () =>
    expect(textOf(['Mary Ann', 'auth0|7,8', 'a"b', 'ü', '"q"', 'a\u200bb'])).toBe(
      'Mary Ann\nauth0|7,8\na"b\nü\n"\\"q\\""\n"a\u200bb"',
    ));

  it('shows in a sentence where an id begins and ends', () =>
    expect(['alice', 'alice, bob', 'Mary Ann'].map(named)).toEqual(['alice', '"alice, bob"', '"Mary Ann"']));
});
