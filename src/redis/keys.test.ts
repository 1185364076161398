// Keys: no two tags become one, and what has one tag lies on one server of a Cluster.
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { keyOf, tagOf } from './keys.js';

it('is written so that an operator can read it', () => {
  expect(keyOf('sigfig', 'session', tagOf('/', 'dm:alice:bob'))).toBe('sigfig:session:{%2F|dm%3Aalice%3Abob}');
  expect(keyOf('sigfig', 'leases', 'live')).toBe('sigfig:leases:{live}');
  expect(keyOf('sigfig', 'seats', 'host-1-abcdefgh.2')).toBe('sigfig:seats:{host-1-abcdefgh.2}');
});

const text = fc.string({
  unit: fc.constantFrom('a', '|', '%', '{', '}', ' ', '/', 'é', '\ud800', '\udc00', '😀', '\n', ''),
});

it('keeps different parts apart, whatever they hold', () => {
  fc.assert(
    fc.property(
      fc.array(text, { minLength: 1, maxLength: 3 }),
      fc.array(text, { minLength: 1, maxLength: 3 }),
      (a, b) => {
        expect(tagOf(...a) === tagOf(...b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      },
    ),
  );
});

/** What Redis Cluster hashes: between the first `{` and the next `}`, where there is something. */
const hashed = (key: string): string => /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;

it('puts every kind of one tag in one slot', () => {
  fc.assert(
    fc.property(
      fc.oneof(
        text,
        fc.tuple(text, text).map(([a, b]) => tagOf(a, b)),
      ),
      (tag) => {
        expect(hashed(keyOf('a', 'session', tag))).toBe(hashed(keyOf('a', 'ended', tag)));
        expect(keyOf('a', 'session', tag)).toMatch(/^a:session:\{[\w.~%|:@-]+\}$/);
      },
    ),
  );
});
