import { describe, expect, it } from 'vitest';
import { PayloadItems } from './polling-items.js';

const payload = Buffer.from('42["a"]\x1ebAQID\x1e\x1e2\x1e42["é😀"]');
const packets = payload.toString('latin1').split('\x1e').filter(Boolean);

function fed(chunks: readonly Buffer[], limit?: number): string[] {
  const got: string[] = [];
  const items = new PayloadItems((whole) => got.push(...whole.toString('latin1').split('\x1e')), limit);
  for (const chunk of chunks) items.write(chunk);
  items.end();
  return got.filter(Boolean);
}

describe('packets of a payload in chunks', () => {
  it('are the same wherever it is cut', () => {
    for (let a = 0; a <= payload.length; a++) {
      for (let b = a; b <= payload.length; b++) {
        expect(fed([payload.subarray(0, a), payload.subarray(a, b), payload.subarray(b)])).toEqual(packets);
      }
    }
  });

  it('come byte by byte', () => {
    expect(fed([...payload].map((byte) => Buffer.of(byte)))).toEqual(packets);
  });

  it('keep only the beginning of a long one', () => {
    const long = [...Buffer.from(`42["${'x'.repeat(50)}"]\x1e2`)].map((byte) => Buffer.of(byte));
    expect(fed(long, 10)).toEqual(['42["xxxxxx', '2']);
  });
});
