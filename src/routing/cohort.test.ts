// The canary's threat is that a call is split: two parties, two instances or two percentages that disagree about a conversation.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { inShare, placeOf } from './cohort.js';

const percent = fc.integer({ min: 0, max: 10_000 }).map((hundredths) => hundredths / 100);

describe('the share of a canary', () => {
  test('is the same in every version: these places are written down', () => {
    expect([placeOf('sigfig', 'c1'), placeOf('sigfig', 'c2'), placeOf('spring', 'c1')]).toEqual([6791, 3631, 5839]);
  });

  test('is nobody at 0 and everybody at 100', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (salt, conversation) => {
        expect(inShare(salt, conversation, 0)).toBe(false);
        expect(inShare(salt, conversation, 100)).toBe(true);
      }),
    );
  });

  test('takes nobody out when it is raised', () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), percent, percent, (salt, conversation, a, b) => {
        const [low, high] = a < b ? [a, b] : [b, a];
        if (inShare(salt, conversation, low)) expect(inShare(salt, conversation, high)).toBe(true);
      }),
    );
  });

  test.each([0.5, 5, 37.25, 99])('%d %% of many conversations are near to that', (share) => {
    const many = 20_000;
    let taken = 0;
    for (let i = 0; i < many; i++) if (inShare('sigfig', `conversation-${i}`, share)) taken++;
    // Five standard deviations of a fair draw.
    const spread = 5 * Math.sqrt((share / 100) * (1 - share / 100) * many);
    expect(Math.abs(taken - (share / 100) * many)).toBeLessThan(spread);
  });

  test('a hundredth of a percent is one place of ten thousand', () => {
    const conversation = Array.from({ length: 100_000 }, (_, i) => `c${i}`).find((c) => placeOf('s', c) === 1);
    expect(conversation).toBeDefined();
    expect(inShare('s', conversation as string, 0.01)).toBe(false);
    expect(inShare('s', conversation as string, 0.02)).toBe(true);
  });
});
