import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Packet, PacketType } from './packet.js';
import {
  decodeArgs,
  encodeAck,
  encodeEvent,
  isTooDeep,
  Look,
  PEEK,
  parsePacket,
  peek,
  peekAck,
  peeked,
  readPacketHeader,
} from './socketio.js';

const look = (text: string, complete = true) => {
  const b = Buffer.from(`..${text}`);
  return peek(b, 2, Math.min(b.length, 2 + PEEK), complete && b.length <= 2 + PEEK);
};
const lookAck = (text: string, complete = true) => {
  const b = Buffer.from(`..${text}`);
  const [end, whole] = [Math.min(b.length, 2 + PEEK), complete && b.length <= 2 + PEEK];
  expect(peek(b, 2, end, whole)).toBe(Look.OTHER);
  return peekAck(b, 2, end, whole);
};
const packet = (text: string, ...attachments: Buffer[]): Packet => parsePacket(text, attachments)!;
const args = (text: string, ...attachments: Buffer[]) => decodeArgs(packet(text, ...attachments));
/** What goes out, come in again. */
const again = (out: { text: string; attachments: readonly Buffer[] }) =>
  decodeArgs(packet(out.text, ...out.attachments));

describe('peeking at an acknowledgement', () => {
  test.each([
    ['437[]', '/', 7],
    ['43/app,0[1]', '/app', 0],
    ['43/é,12[', '/é', 12],
    ['461-7[{}]', '/', 7],
    ['4612-/app,123456789012345[', '/app', 123_456_789_012_345],
    [`43/app,7["${'x'.repeat(200)}"]`, '/app', 7],
  ])('%s', (text, ns, id) => {
    expect(lookAck(text)).toBe(Look.NAMED);
    expect([peeked.ns, peeked.id]).toEqual([ns, id]);
  });

  test.each(['43[]', '43/app,[]', '43/app7[]', '43x', '437', '431234567890123456[]', '461-[]'])(
    '%s has no id',
    (text) => {
      expect(lookAck(text)).toBe(Look.UNKNOWN);
    },
  );

  test('wherever its bytes end it asks for more', () => {
    const text = '4612-/app,17[';
    for (let end = 5; end < text.length; end++) expect(lookAck(text.slice(0, end), false), `${end}`).toBe(Look.MORE);
    expect(lookAck(`43/${'n'.repeat(200)},7[]`)).toBe(Look.SLOW);
  });
});

describe('peeking at a name', () => {
  test.each([
    ['42["call-offer",{}]', '/', 'call-offer', 0],
    ['42/app,["x"]', '/app', 'x', 0],
    ['42/app,17["x"', '/app', 'x', 0],
    ['4217["x"]', '/', 'x', 0],
    ['42["é€"]', '/', 'é€', 0],
    ['42/é,["x"]', '/é', 'x', 0],
    ['42[""]', '/', '', 0],
    ['452-/app,3["x",{}]', '/app', 'x', 2],
    ['42123456789012345["x"]', '/', 'x', 0],
  ])('%s', (text, ns, name, attachments) => {
    expect(look(text)).toBe(Look.NAMED);
    expect([peeked.ns, peeked.name, peeked.attachments]).toEqual([ns, name, attachments]);
  });

  test.each(['42["call\\u002doffer"]', '42[5]', '42[ "x"]', `42["${'x'.repeat(200)}"]`, `42/${'n'.repeat(200)},["x"]`])(
    '%s needs the whole packet',
    (text) => {
      expect(look(text)).toBe(Look.SLOW);
    },
  );

  test.each([
    '',
    '4',
    '2',
    '3probe',
    '42',
    '42/',
    '42/ns',
    '42/ns,',
    '42"x"',
    '42{"x":1}',
    '42["x',
    '450-["x"]',
    '45["x"]',
    '451',
    '451-',
    '45-["x"]',
    '451["x"]',
    '451234567890-["x"]',
    '46x',
    '47["x"]',
    '4{"type":2}',
    '421234567890123456["x"]',
  ])('%j is not understood', (text) => {
    expect(look(text)).toBe(Look.UNKNOWN);
  });

  test.each([
    ['40', 0, 0],
    ['41/app,', 1, 0],
    ['431[]', 3, 0],
    ['44{}', 4, 0],
    ['462-1[]', 6, 2],
  ])('%s is no event', (text, type, attachments) => {
    expect(look(text)).toBe(Look.OTHER);
    expect([peeked.type, peeked.attachments]).toEqual([type, attachments]);
  });

  test('of an event that comes byte by byte, no part is decided on wrongly', () => {
    for (const text of ['452-/app,3["call-offer",{}]', '42["x"]', '42/a,["y",1]', '430[]']) {
      const full = look(text);
      for (let n = 0; n < text.length; n++) expect([Look.MORE, full]).toContain(look(text.slice(0, n), false));
    }
  });

  test('a count of attachments that can be read is told even where the rest is not understood', () => {
    expect(look('453-{}')).toBe(Look.UNKNOWN);
    expect(peeked.attachments).toBe(3);
  });
});

describe('parsing', () => {
  test('a header with everything', () => {
    expect(readPacketHeader('452-/app,7["x"]')).toEqual({ type: 5, attachments: 2, ns: '/app', id: 7, dataStart: 10 });
  });

  test('a namespace needs no comma where nothing follows', () => {
    expect(packet('41/app')).toMatchObject({ type: PacketType.DISCONNECT, ns: '/app', dataStart: 6 });
  });

  test.each([
    '',
    '4',
    '4x',
    '47',
    '450-[]',
    '42',
    '42/ns',
    '42[]',
    '42[null]',
    '42[{}]',
    '42["x',
    '42{"a":1}',
    '421234567890123456["x"]',
    '451-["x"]',
  ])('%j is none', (text) => {
    expect(parsePacket(text, [])).toBeNull();
  });

  test('the attachments must be as many as announced', () => {
    expect(parsePacket('452-["x"]', [Buffer.alloc(1)])).toBeNull();
    expect(parsePacket('42["x"]', [Buffer.alloc(1)])).toBeNull();
  });

  test.each([
    ['42["call\\u002doffer"]', 'call-offer'],
    ['42["a\\"b"]', 'a"b'],
    ['42[ "x"]', 'x'],
    ['42[5,"x"]', '5'],
    ['42[-0.5]', '-0.5'],
    ['42["x"', 'x'],
  ])('the name of %s', (text, name) => {
    expect(packet(text).name).toBe(name);
  });
});

describe('arguments', () => {
  test('of an event, without its name; of an acknowledgement, all', () => {
    expect(args('42["x",1,{"a":null}]')).toEqual([1, { a: null }]);
    expect(args('42["x"]')).toEqual([]);
    expect(args('437[[1],2]')).toEqual([[1], 2]);
    expect(args('40{"token":"t"}')).toEqual([{ token: 't' }]);
    expect(args('40')).toEqual([]);
    expect(args('41/app')).toEqual([]);
  });

  test('attachments take their places, at any depth', () => {
    const one = Buffer.from('one');
    const two = Buffer.from('two');
    const text = '452-["x",{"a":[{"_placeholder":true,"num":1}]},{"_placeholder":true,"num":0}]';
    expect(args(text, one, two)).toEqual([{ a: [two] }, one]);
  });

  test('a placeholder in a packet without attachments is data', () => {
    expect(args('42["x",{"_placeholder":true,"num":0}]')).toEqual([{ _placeholder: true, num: 0 }]);
  });

  test.each([
    ['an index too high', '451-["x",{"_placeholder":true,"num":1}]'],
    ['a negative one', '451-["x",{"_placeholder":true,"num":-1}]'],
    ['a broken one', '451-["x",{"_placeholder":true,"num":0.5}]'],
    ['a word', '451-["x",{"_placeholder":true,"num":"length"}]'],
    ['none', '451-["x",{"_placeholder":true}]'],
  ])('not understood: %s', (_, text) => {
    expect(args(text, Buffer.from('one'))).toBeNull();
  });

  test.each(['42["x",', '42["x"]]', '43{"a":1}', '43', '44', '40{'])('not understood: %s', (text) => {
    const it = parsePacket(text, []);
    expect(it === null ? null : text === '44' ? null : decodeArgs(it)).toBeNull();
  });

  test('threat: nesting that overflows the stack', () => {
    const nested = (depth: number, binary: boolean) => {
      const leaf = binary ? '{"_placeholder":true,"num":0}' : '1';
      return [`${'['.repeat(depth)}${leaf}${']'.repeat(depth)}`, `${'{"a":'.repeat(depth)}${leaf}${'}'.repeat(depth)}`];
    };
    for (const [depth, deep] of [
      [200, false],
      [1_000, false],
      [1_001, true],
      [10_000, true],
      [300_000, true],
    ] as const) {
      for (const value of nested(depth, false)) {
        const [id, decoded] = args(`42["x","id",${value}]`)!;
        expect(id).toBe('id');
        expect(isTooDeep(decoded)).toBe(deep);
        if (!deep) expect(encodeEvent('/', 'x', ['id', { in: { an: decoded } }]).text).toContain(value);
      }
      for (const value of nested(depth, true)) {
        expect(isTooDeep(args(`451-["x",${value}]`, Buffer.from('one'))![0])).toBe(deep);
      }
    }
    expect(isTooDeep(Buffer.from('flat'))).toBe(false);
    expect(isTooDeep(undefined)).toBe(false);
  });

  test('threat: __proto__ changes no prototype', () => {
    const [value] = args(
      '451-["x",{"__proto__":{"admin":true,"b":{"_placeholder":true,"num":0}}}]',
      Buffer.from('one'),
    )!;
    expect((value as { admin?: unknown }).admin).toBeUndefined();
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    const [direct] = args('451-["x",{"__proto__":{"_placeholder":true,"num":0}}]', Buffer.from('one'))!;
    expect(Object.getPrototypeOf(direct)).toBe(Object.prototype);
    expect(({} as { admin?: unknown }).admin).toBeUndefined();
  });
});

describe('encoding', () => {
  test('plain packets', () => {
    expect(encodeEvent('/', 'x', [{ a: 1 }, 'é']).text).toBe('42["x",{"a":1},"é"]');
    expect(encodeEvent('/app', 'x', []).text).toBe('42/app,["x"]');
    expect(encodeAck('/', 0, [[1, 2]]).text).toBe('430[[1,2]]');
    expect(encodeAck('/app', 7, []).text).toBe('43/app,7[]');
    expect(encodeEvent('/', 'a"b', [undefined]).text).toBe('42["a\\"b",null]');
  });

  test('binary parts become placeholders; what was given stays as it was', () => {
    const bytes = new Uint8Array([9, 1, 2, 9]).subarray(1, 3);
    const given = [{ sdp: Buffer.from('b'), keep: [1] }, bytes, new Uint8Array([3]).buffer];
    const copy = structuredClone(given);
    const out = encodeAck('/app', 5, given);
    expect(out.text).toBe(
      '463-/app,5[{"sdp":{"_placeholder":true,"num":0},"keep":[1]},{"_placeholder":true,"num":1},{"_placeholder":true,"num":2}]',
    );
    expect(out.attachments).toEqual([Buffer.from('b'), Buffer.from([1, 2]), Buffer.from([3])]);
    expect(structuredClone(given)).toEqual(copy);
  });

  test('threat: a forged placeholder next to real ones would make the receiver drop its connection', () => {
    const forged = { _placeholder: true, num: 7, x: Buffer.from('y') };
    const out = encodeEvent('/', 'x', [forged, Buffer.from('b'), { _placeholder: true, num: 0 }]);
    expect(out.text).toBe(
      '452-["x",{"num":7,"x":{"_placeholder":true,"num":0}},{"_placeholder":true,"num":1},{"num":0}]',
    );
    expect(forged._placeholder).toBe(true);
    expect(encodeEvent('/', 'x', [{ _placeholder: true, num: 7 }]).text).toBe('42["x",{"_placeholder":true,"num":7}]');
  });

  test('threat: a cycle or bottomless nesting ends in null', () => {
    const loop: unknown[] = [];
    loop.push(loop);
    expect(() => encodeEvent('/', 'x', loop)).not.toThrow();
    let deep: unknown = Buffer.from('b');
    for (let i = 0; i < 100_000; i++) deep = { deep };
    expect(encodeEvent('/', 'x', [deep]).text.length).toBeLessThan(10_000);
  });

  test('what was decoded is encoded to the same again', () => {
    const leaf = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.uint8Array({ maxLength: 20 }).map((b) => Buffer.from(b)),
    );
    const value = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 4 },
        leaf,
        fc.array(tie('any'), { maxLength: 4 }),
        fc.dictionary(fc.string(), tie('any'), { maxKeys: 4 }),
      ),
    })).any;
    fc.assert(
      fc.property(fc.array(value, { maxLength: 4 }), fc.string(), fc.constantFrom('/', '/app'), (list, name, ns) => {
        const first = encodeEvent(ns, name, list);
        const back = again(first);
        expect(back).not.toBeNull();
        expect(encodeEvent(ns, name, back!)).toEqual(first);
        expect(packet(first.text, ...first.attachments)).toMatchObject({ ns, name });
      }),
      { numRuns: 300 },
    );
  });
});

test('threat: no text whatever makes reading throw', () => {
  const texts = fc.oneof(
    fc.string().map((s) => `4${s}`),
    fc.tuple(fc.constantFrom('42', '451-', '43', '40', '42/n,', '4511-'), fc.string()).map(([a, b]) => a + b),
    fc.tuple(fc.constantFrom('42', '451-'), fc.json()).map(([a, b]) => a + b),
  );
  fc.assert(
    fc.property(texts, (text) => {
      for (const attachments of [[], [Buffer.from('b')]]) {
        const it = parsePacket(text, attachments);
        if (it !== null) decodeArgs(it);
      }
    }),
    { numRuns: 1000 },
  );
});
