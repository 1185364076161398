// Placeholders on their way out, and in an expectation.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of scenarios, not of code
import { describe, expect, it } from 'vitest';
import { type Cast, Deep, expectedForm, outgoing } from './values.js';

const cast: Cast = {
  word: (name) => `<${name}>`,
  socketId: (device) => `sid-${device}`,
  ticket: ({ user, forged }) => `ticket of ${user}${forged ? ', forged' : ''}`,
};

describe('what is sent', () => {
  it.each([
    ['$alice', '<alice>'],
    ['to ${alice} and ${socket:bob}', 'to <alice> and sid-bob'],
    ['$socket:b-1', 'sid-b-1'],
    ['$$alice', '$alice'],
    ['costs 5$', 'costs 5$'],
    [{ a: ['$alice', 1, null, true] }, { a: ['<alice>', 1, null, true] }],
    [{ $long: 3 }, 'xxx'],
    [{ $binary: 'hi' }, Buffer.from('hi')],
    [{ $binaryHex: '00ff' }, Buffer.from([0, 255])],
    [{ $ticket: { user: '$alice', forged: true } }, 'ticket of <alice>, forged'],
    [
      ['a', { $each: 3, value: { n: '$n', text: 'c${n}' } }],
      ['a', { n: 0, text: 'c0' }, { n: 1, text: 'c1' }, { n: 2, text: 'c2' }],
    ],
  ])('%j', (value, sent) => {
    expect(outgoing(value, cast)).toEqual(sent);
  });

  it('counts the repeats of a step', () => {
    expect(outgoing({ a: 'c${n}', b: '$n' }, cast, 7)).toEqual({ a: 'c7', b: 7 });
  });

  it('keeps the order of keys, and __proto__ as a key', () => {
    const sent = outgoing(JSON.parse('{"b":1,"__proto__":{"x":"$alice"},"a":2}'), cast);
    expect(JSON.stringify(sent)).toBe('{"b":1,"__proto__":{"x":"<alice>"},"a":2}');
  });

  it('leaves what is too deep for JSON.stringify to the packet', () => {
    expect(outgoing({ offer: { $deep: 10_000 } }, cast)).toEqual({ offer: new Deep(10_000) });
  });
});

describe('what is expected', () => {
  it.each([
    ['$alice', '$alice'],
    [{ $deep: 10_000 }, '$deep:10000'],
    [{ $binary: 'hi' }, { $binary: 'hi' }],
    [{ $binaryHex: '00ff' }, { $binaryHex: '00ff' }],
    [{ $binaryHex: '6869' }, { $binary: 'hi' }],
    [
      [{ $each: 2, value: 'c${n}' }, 'x'],
      ['c0', 'c1', 'x'],
    ],
  ])('%j', (value, form) => {
    expect(expectedForm(value)).toEqual(form);
  });
});
