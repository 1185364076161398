import { describe, expect, it } from 'vitest';
import { parseTokens } from '../tokens.js';
import { tokenIn } from './token.js';

const token = 'q3vKp0rS8yT1uW5xZ7bN2cM4aD6fG9hJ';

describe('the token in what is pasted', () => {
  it.each([token, `  ${token} `, `operate  olga      ${token}`, `operate\tolga\t${token}\n`])('%j', (typed) =>
    expect(tokenIn(typed)).toEqual({ ok: true, token }),
  );

  it.each(['', ' ', 'short', 'operate olga', 'zwölf-mal-so-schön-wie-sonst', 'x'.repeat(513)])(
    'is none in %j',
    (typed) =>
      expect(tokenIn(typed)).toMatchObject({ ok: false, problem: expect.stringMatching(/^This can’t be a token/) }),
  );

  it.each([
    'x'.repeat(15),
    'x'.repeat(16),
    'x'.repeat(512),
    'x'.repeat(513),
    `${'x'.repeat(16)}é`,
    `~!${'#'.repeat(16)}`,
  ])('has the bounds of the file itself: %s', (word) =>
    expect(tokenIn(word).ok).toBe(parseTokens(`read looker ${word}`, 'tokens').ok),
  );
});
