import { describe, expect, it } from 'vitest';
import { area, marks } from './drawing.js';

describe('marks', () => {
  it('stand where there is something, and nowhere else', () => {
    expect(marks([0, 0, 10, 0, 5], 10)).toBe('M120.0 32V2.0M240.0 32V17.0');
    expect(marks([0, 0, 0], 10)).toBe('');
  });

  it('are to be seen however small a part they are', () => expect(marks([1, 0], 10_000)).toBe('M0.0 32V28.0'));
});

it('an area goes along its upper edge and back along the lower one', () =>
  expect(area([0, 0], [1, 2], 2)).toBe('M0.0 17.0L240.0 2.0L240.0 32.0L0.0 32.0Z'));
