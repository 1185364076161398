// Bytes in what is stored come back as bytes, also where a browser sent what looks like them.
import { describe, expect, it } from 'vitest';
import { readValue, writeValue } from './bytes.js';

describe('a stored value', () => {
  it.each([
    ['a plain one', { a: [1, 'two', null, true], b: {} }],
    ['bytes', { candidates: ['c1', Buffer.from('c2'), { a: Buffer.from('c3'), b: [Buffer.from([0, 255])] }] }],
    ['no bytes at all', { a: Buffer.alloc(0) }],
    ['what looks like bytes', { a: { type: 'Buffer', data: [1, 2] }, b: Buffer.from('b') }],
    ['a list', ['ice-candidate', Buffer.from('x')]],
    ['JSON’s own pitfalls', { text: 'a', proto: '__proto__', n: 1e21 }],
  ])('comes back as it was: %s', (_what, value) => {
    expect(readValue(writeValue(value))).toEqual(value);
  });

  it('is nothing where it was cut short', () => {
    const text = writeValue({ a: Buffer.from('b') });
    for (let end = 0; end < text.length; end++) expect(readValue(text.slice(0, end))).toBeUndefined();
  });
});
