// What holds as expected and what does not, entry by entry.
import { describe, expect, it } from 'vitest';
import type { Entry } from '../play/transcript.js';
import type { Expected } from '../scenario.js';
import { compareTranscripts, matchOutcomes } from './match.js';

const event = (name: string, ...args: unknown[]): Entry => ({ kind: 'event', name, args });
const ack = (name: string, ...args: unknown[]): Entry => ({ kind: 'ack', name, args });

function verdictOf(expected: readonly Expected[], got: readonly Entry[]): string {
  const verdict = matchOutcomes([{ d: expected }], { d: got });
  return verdict.ok ? 'ok' : verdict.divergences.map(({ at, what }) => `${at}: ${what}`).join('; ');
}

describe('entries', () => {
  it.each<[string, Expected, readonly Entry[]]>([
    ['an event', { x: { a: 1 } }, [event('x', { a: 1 })]],
    ['an event of no arguments', { event: 'x', args: [] }, [event('x')]],
    ['an acknowledgement', { ack: 'x' }, [ack('x', { ok: true })]],
    ['one with a value', { ack: 'x', with: [1] }, [ack('x', [1])]],
    ['one with several', { ack: 'x', args: [1, 2] }, [ack('x', 1, 2)]],
    [
      'a refusal',
      { refused: 'x', because: 'No' },
      [event('error', { event: 'x', conversationId: '$call', message: 'No' }), ack('x', { ok: false, error: 'No' })],
    ],
    [
      'a refused answer',
      { refused: 'call-answer', because: 'No' },
      [event('error', { event: 'call-answer', conversationId: '$call', message: 'No' }), ack('call-answer', [])],
    ],
    [
      'a refusal without either',
      { refused: 'x', because: 'No', conversation: null, ack: false },
      [event('error', { event: 'x', message: 'No' })],
    ],
    ['a response', { response: 'GET /', status: 200 }, [{ kind: 'response', name: 'GET /', status: 200, body: 1 }]],
    [
      'the end of a connection',
      { disconnected: 'transport close' },
      [{ kind: 'disconnected', name: 'transport close' }],
    ],
    ['any reason for it', { disconnected: '$any' }, [{ kind: 'disconnected', name: 'ping timeout' }]],
    [
      'any order',
      { anyOrder: [{ x: 1 }, { y: 2 }, { ack: 'z' }] },
      [ack('z', { ok: true }), event('x', 1), event('y', 2)],
    ],
    ['anything', { x: { a: '$any' } }, [event('x', { a: { b: [] } })]],
    ['a time', { x: '$time' }, [event('x', '$time')]],
    ['the text of a placeholder', { x: '$$any' }, [event('x', '$any')]],
  ])('%s', (_name, expected, got) => {
    expect(verdictOf([expected], got)).toBe('ok');
  });

  it.each<[string, Expected, readonly Entry[], string]>([
    ['a missing one', { x: 1 }, [], '0: x is missing'],
    ['one too many', { x: 1 }, [event('x', 1), event('x', 1)], '1: x was not expected any more'],
    ['another event', { x: 1 }, [event('y', 1)], '0: y instead of x'],
    [
      'an event for an acknowledgement',
      { ack: 'x' },
      [event('x', { ok: true })],
      '0: x instead of the acknowledgement of x',
    ],
    ['more arguments', { x: 1 }, [event('x', 1, 2)], '0: x: 2 arguments instead of 1'],
    ['another value', { x: { a: { b: 1 } } }, [event('x', { a: { b: 2 } })], '0: x: a.b: 2 instead of 1'],
    ['another type', { x: 1 }, [event('x', '1')], '0: x: "1" instead of 1'],
    ['null for nothing', { x: { a: null } }, [event('x', {})], '0: x: keys  instead of a'],
    ['a list for an object', { x: {} }, [event('x', [])], '0: x: [] instead of {}'],
    ['another order of keys', { x: { a: 1, b: 2 } }, [event('x', { b: 2, a: 1 })], '0: x: keys b, a instead of a, b'],
    ['a key too many', { x: { a: 1 } }, [event('x', { a: 1, b: 2 })], '0: x: keys a, b instead of a'],
    ['items too few', { x: [1, 2] }, [event('x', [1])], '0: x: 1 items instead of 2'],
    ['a number for an id', { x: '$id:m' }, [event('x', 7)], '0: x: 7 instead of an id'],
    [
      'another status',
      { response: 'GET /', status: 200 },
      [{ kind: 'response', name: 'GET /', status: 404, body: 1 }],
      '0: GET /: status 404 instead of 200',
    ],
    [
      'in any order one that is missing',
      { anyOrder: [{ x: 1 }, { y: 1 }] },
      [event('x', 1)],
      '1: missing, in any order: y',
    ],
    ['in any order another', { anyOrder: [{ x: 1 }, { y: 1 }] }, [event('x', 1), event('z', 1)], '1: z is none of: y'],
  ])('not %s', (_name, expected, got, what) => {
    expect(verdictOf([expected], got)).toBe(what);
  });

  it('an own __proto__ key is looked into', () => {
    const withProto = (x: number): unknown => JSON.parse(`{"__proto__":{"x":${x}}}`);
    expect(verdictOf([{ e: withProto(1) }], [event('e', withProto(1))])).toBe('ok');
    expect(verdictOf([{ e: withProto(1) }], [event('e', withProto(2))])).toBe('0: e: __proto__.x: 2 instead of 1');
  });
});

describe('ids', () => {
  it('are equal wherever the name is used, over all devices', () => {
    const outcome = { a: [{ x: '$id:m' }], b: [{ y: { id: '$id:m' } }] };
    expect(matchOutcomes([outcome], { a: [event('x', '$uuid:1')], b: [event('y', { id: '$uuid:1' })] })).toEqual({
      ok: true,
    });
    expect(matchOutcomes([outcome], { a: [event('x', '$uuid:1')], b: [event('y', { id: '$uuid:2' })] })).toMatchObject({
      ok: false,
      divergences: [{ device: 'b', what: 'y: id: "$uuid:2" instead of "$uuid:1", as before ($id:m)' }],
    });
  });
});

describe('devices', () => {
  it('one that is not named receives nothing', () => {
    expect(matchOutcomes([{}], { a: [] })).toEqual({ ok: true });
    expect(matchOutcomes([{}], { a: [event('x')] })).toMatchObject({
      ok: false,
      divergences: [{ device: 'a', at: 0 }],
    });
  });
});

describe('a race', () => {
  const outcomes = [
    { a: [{ ack: 'x' }], b: [{ y: 1 }, { z: 1 }] },
    { a: [{ y: 2 }], b: [{ ack: 'x' }] },
  ];

  it('has any of its outcomes, but a whole one', () => {
    expect(matchOutcomes(outcomes, { a: [event('y', 2)], b: [ack('x', { ok: true })] })).toEqual({ ok: true });
    expect(matchOutcomes(outcomes, { a: [event('y', 2)], b: [event('y', 1), event('z', 1)] }).ok).toBe(false);
  });

  it('is told by the outcome that held longest', () => {
    const verdict = matchOutcomes(outcomes, { a: [ack('x', { ok: true })], b: [event('y', 1), event('z', 2)] });
    expect(verdict).toMatchObject({ ok: false, divergences: [{ device: 'b', at: 1, what: 'z: 2 instead of 1' }] });
  });
});

describe('path against path', () => {
  it('differs in anything, also where an expectation left it open', () => {
    const base = { a: [event('x', { any: 1 })] };
    expect(compareTranscripts(base, { a: [event('x', { any: 1 })] })).toEqual([]);
    expect(compareTranscripts(base, { a: [event('x', { any: '1' })] })).toMatchObject([{ device: 'a', at: 0 }]);
    expect(compareTranscripts(base, { a: [] })).toMatchObject([{ what: 'x is missing' }]);
    expect(compareTranscripts(base, { ...base, b: [event('y')] })).toMatchObject([
      { device: 'b', what: 'y came besides' },
    ]);
  });
});
