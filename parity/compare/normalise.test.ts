// What is made equal in transcripts, and that nothing else is.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of scenarios, not of code
import { describe, expect, it } from 'vitest';
import type { Entry } from '../play/transcript.js';
import { normalise } from './normalise.js';

const now = 1_800_000_000_000;
const known = {
  names: new Map([
    ['alice-k3f-1', 'alice'],
    ['bob-k3f-1', 'bob'],
    ['dm:alice-k3f-1:bob-k3f-1', 'call'],
    ['Zx0Q', 'socket:bob'],
  ]),
  from: now,
  to: now + 5_000,
};
const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLXNpZ25hdHVyZQ';
const uuid = '0b8e1d3a-1111-4222-8333-444455556666';
const other = '0b8e1d3a-1111-4222-8333-444455557777';

const event = (...args: unknown[]): Entry => ({ kind: 'event', name: 'x', args });
const shownAs = (value: unknown): unknown => {
  const [entry] = normalise({ d: [event(value)] }, known).d ?? [];
  return entry && 'args' in entry ? entry.args[0] : undefined;
};

describe('normalised', () => {
  it.each([
    ['alice-k3f-1', '$alice'],
    ['dm:alice-k3f-1:bob-k3f-1', '$call'],
    ['hello alice-k3f-1, it is Zx0Q', 'hello ${alice}, it is ${socket:bob}'],
    ['Zx0Q', '$socket:bob'],
    [jwt, '$token'],
    [`Bearer ${jwt}`, 'Bearer ${token}'],
    [uuid, '$uuid:1'],
    [`/api/files/${uuid}`, '/api/files/${uuid:1}'],
    [now + 1_234, '$time'],
    ['2027-01-15T08:00:00.000Z', '$time'],
    [{ 'of alice-k3f-1': 1 }, { 'of ${alice}': 1 }],
    [Buffer.from('hi'), { $binary: 'hi' }],
    [Buffer.from([0, 255]), { $binaryHex: '00ff' }],
  ])('%j → %j', (value, shown) => {
    expect(shownAs(value)).toEqual(shown);
  });

  it('gives equal ids the same name, and different ones different names, over all devices', () => {
    const got = normalise({ b: [event(other), event(uuid)], a: [event(uuid)] }, known);
    expect(got).toEqual({ a: [event('$uuid:1')], b: [event('$uuid:2'), event('$uuid:1')] });
  });

  it('shows by its depth what is nested too deep to walk', () => {
    const deep: unknown = JSON.parse('['.repeat(10_000) + ']'.repeat(10_000));
    expect(shownAs({ conversationId: 'dm:alice-k3f-1:bob-k3f-1', offer: deep })).toEqual({
      conversationId: '$call',
      offer: '$deep:10000',
    });
  });
});

describe('untouched', () => {
  it.each([['o1'], [0], [1_234], [now - 10 * 3_600_000], [1.5], [true], [null], [''], ['a.b.c'], [[]], [{}]])(
    '%j',
    (value) => {
      expect(shownAs(value)).toEqual(value);
    },
  );

  it('the order of keys and of entries', () => {
    expect(JSON.stringify(shownAs({ b: 1, a: { d: 1, c: 2 } }))).toBe('{"b":1,"a":{"d":1,"c":2}}');
    const entries: Entry[] = [event(2), { kind: 'ack', name: 'y', args: [] }, event(1)];
    expect(normalise({ d: entries }, known).d).toEqual(entries);
  });
});
