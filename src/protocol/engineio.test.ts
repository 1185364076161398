import { describe, expect, test } from 'vitest';
import { readOpen, withoutWebtransport } from './engineio.js';

const open = '0{"sid":"abc","upgrades":["websocket"],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';

describe('the handshake', () => {
  test('is read', () => {
    expect(readOpen(open)).toEqual({
      sid: 'abc',
      upgrades: ['websocket'],
      pingInterval: 25000,
      pingTimeout: 20000,
      maxPayload: 1e6,
    });
  });

  test('older servers announce no maxPayload', () => {
    expect(readOpen('0{"sid":"a","upgrades":[],"pingInterval":1,"pingTimeout":1}')?.maxPayload).toBe(1_000_000);
  });

  test.each([
    ['', 'nothing'],
    ['0', 'no JSON'],
    ['0{"sid":"a"', 'half a JSON'],
    ['0null', 'null'],
    ['0[]', 'a list'],
    ['4{"sid":"a"}', 'a message'],
    ['0{"sid":"","pingInterval":1,"pingTimeout":1}', 'an empty sid'],
    ['0{"sid":5,"pingInterval":1,"pingTimeout":1}', 'a number for a sid'],
    [`0{"sid":"${'a'.repeat(257)}","pingInterval":1,"pingTimeout":1}`, 'an endless sid'],
    ['0{"sid":"a","pingInterval":-1,"pingTimeout":1}', 'a negative interval'],
    ['0{"sid":"a","pingInterval":1}', 'no timeout'],
  ])('%s is none: %s', (text) => {
    expect(readOpen(text)).toBeNull();
  });

  test('upgrades that are no list count as none', () => {
    expect(readOpen('0{"sid":"a","upgrades":"websocket","pingInterval":1,"pingTimeout":1}')?.upgrades).toEqual([]);
  });
});

describe('taking webtransport out', () => {
  const of = (list: string) => `0{"sid":"a","upgrades":${list},"pingInterval":25000, "x":"webtransport"}`;
  test.each([
    ['["websocket","webtransport"]', '["websocket"]'],
    ['["webtransport","websocket"]', '["websocket"]'],
    ['["webtransport"]', '[]'],
    ['[ "websocket" , "webtransport" ]', '[ "websocket" ]'],
    ['["a","webtransport","b"]', '["a","b"]'],
  ])('%s becomes %s, all else stays', (before, after) => {
    const text = withoutWebtransport(of(before));
    expect(text).toBe(of(after));
    expect(() => JSON.parse(text.slice(1))).not.toThrow();
  });

  test.each([open, '0{"upgrades":[]}', '40{"a":"webtransport"}', ''])('%s stays as it is', (text) => {
    expect(withoutWebtransport(text)).toBe(text);
  });
});
