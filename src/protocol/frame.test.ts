import { describe, expect, test } from 'vitest';
import { closeCode, closeFrame, emptyHeader, frame, Opcode, readHeader, readMessages, unmask } from './frame.js';
import { wireFrame } from './wire.fixture.js';

const KEY = Buffer.from([0x37, 0xfa, 0x21, 0x3d]);

describe('reading a header', () => {
  test.each([0, 1, 125, 126, 127, 65535, 65536, 70000])('a payload of %i bytes, at every cut', (n) => {
    for (const key of [null, KEY]) {
      const bytes = wireFrame(1, true, Buffer.alloc(n, 'x'), key);
      const header = emptyHeader();
      const size = bytes.length - n;
      for (let cut = 0; cut < size; cut++)
        expect(readHeader(bytes.subarray(0, cut), 0, key !== null, header)).toBe(false);
      expect(readHeader(bytes, 0, key !== null, header)).toBe(true);
      expect(header).toEqual({ fin: true, opcode: 1, masked: key !== null, size, length: n });
    }
  });

  test('64-bit lengths up to 2^53, and not beyond', () => {
    const bytes = Buffer.from('827f001fffffffffffff', 'hex');
    const header = emptyHeader();
    expect(readHeader(bytes, 0, false, header)).toBe(true);
    expect(header.length).toBe(Number.MAX_SAFE_INTEGER);
    expect(readHeader(Buffer.from('827f0020000000000000', 'hex'), 0, false, header)).toBe('length');
    expect(readHeader(Buffer.from('827fffffffffffffffff', 'hex'), 0, false, header)).toBe('length');
  });

  test.each([
    ['reserved-bits', 'c100'],
    ['reserved-bits', 'a100'],
    ['reserved-opcode', '8300'],
    ['reserved-opcode', '8b00'],
    ['masking', '8180'],
    ['control-frame', '0900'],
    ['control-frame', '897e'],
  ])('%s: %s', (why, hex) => {
    expect(readHeader(Buffer.from(hex, 'hex'), 0, false, emptyHeader())).toBe(why);
  });

  test('a client’s frame must be masked', () => {
    expect(readHeader(Buffer.from('8100', 'hex'), 0, true, emptyHeader())).toBe('masking');
  });
});

test.each([0, 1, 2, 3, 4, 5, 7, 126])('unmasking %i bytes', (n) => {
  const payload = Buffer.from(Array.from({ length: n }, (_, i) => i));
  const bytes = wireFrame(2, true, payload, KEY);
  const at = bytes.length - n;
  const to = Buffer.alloc(n + 2, 0xee);
  unmask(bytes, at - 4, at, n, to, 1);
  expect(to.subarray(1, n + 1)).toEqual(payload);
  expect([to[0], to[n + 1]]).toEqual([0xee, 0xee]);
});

describe('building', () => {
  test.each([0, 125, 126, 65535, 65536])('%i bytes, as a server and as a client', (n) => {
    const payload = Buffer.alloc(n, 'é');
    expect(frame(Opcode.BINARY, payload).equals(wireFrame(2, true, payload, null))).toBe(true);
    expect(frame(Opcode.BINARY, payload, true).equals(wireFrame(2, true, payload, Buffer.alloc(4)))).toBe(true);
    expect(frame(Opcode.BINARY, payload, true, KEY.readUInt32BE(0)).equals(wireFrame(2, true, payload, KEY))).toBe(
      true,
    );
  });

  test('text is UTF-8', () => {
    expect(frame(Opcode.TEXT, 'é€😀')).toEqual(wireFrame(1, true, Buffer.from('é€😀'), null));
    expect(frame(Opcode.TEXT, 'é€😀', true, KEY.readUInt32BE(0))).toEqual(wireFrame(1, true, Buffer.from('é€😀'), KEY));
  });

  test.each([
    [1001, 'drain'],
    [4000, ''],
    [undefined, ''],
  ])('a close frame with %s', (code, reason) => {
    for (const masked of [false, true]) {
      const bytes = closeFrame(code, reason, masked, masked ? 0xdeadbeef : 0);
      const header = emptyHeader();
      expect(readHeader(bytes, 0, masked, header)).toBe(true);
      expect(header.opcode).toBe(Opcode.CLOSE);
      expect(closeCode(bytes, 0, header)).toBe(code);
    }
  });

  test('a close reason is cut at 123 bytes, never inside a character', () => {
    const bytes = closeFrame(1000, '€'.repeat(60));
    const header = emptyHeader();
    expect(readHeader(bytes, 0, false, header)).toBe(true);
    expect(bytes.subarray(header.size + 2).toString()).toBe('€'.repeat(41));
  });
});

test('messages are put together from their fragments', () => {
  const parts = [
    wireFrame(1, false, Buffer.from('he'), KEY),
    wireFrame(0, false, Buffer.alloc(0), KEY),
    wireFrame(0, true, Buffer.from('llo'), KEY),
    wireFrame(2, true, Buffer.from('bin'), KEY),
  ];
  const messages = readMessages(Buffer.concat(parts), true);
  expect(messages.map(({ opcode, payload }) => [opcode, payload.toString()])).toEqual([
    [1, 'hello'],
    [2, 'bin'],
  ]);
});
