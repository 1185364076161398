// How addresses and lives are spelled, and what is none.
import { describe, expect, it } from 'vitest';
import type { Address } from '../base/ids.js';
import { addressOf, lifeOf, newAddress, readAddress, readLife } from './lives.js';

describe('an address', () => {
  it.each(['a', 'ip-10-0-0-1.ec2.internal', '', 'ünï côde / {x}', '-', 'x'.repeat(300), 'a:b\nc'])(
    'of the name %j is one, and another one each time',
    (name) => {
      const made = Array.from({ length: 50 }, () => newAddress(name));
      expect(new Set(made).size).toBe(50);
      for (const address of made) {
        expect(readAddress(address)).toBe(address);
        expect(addressOf(lifeOf(address, 3))).toBe(address);
        expect(readLife(lifeOf(address, 3))).toBe(lifeOf(address, 3));
      }
    },
  );

  it('begins with the name, as far as it can be told', () => {
    expect(newAddress('web-1.example')).toMatch(/^web-1\.example-[a-z2-7]{8}$/);
    expect(newAddress('a b')).toMatch(/^a-b-[a-z2-7]{8}$/);
  });
});

describe('what comes from elsewhere', () => {
  const address = 'web-1-abcdefgh' as Address;
  it.each([
    undefined,
    null,
    1,
    {},
    '',
    'web',
    'web-1-ABCDEFGH',
    `${address}\n`,
    `{${address}}`,
    `${'x'.repeat(65)}-abcdefgh`,
  ])('is no address: %j', (text) => {
    expect(readAddress(text)).toBeUndefined();
  });
  it.each([
    undefined,
    address,
    `${address}.`,
    `${address}.0`,
    `${address}.01`,
    `${address}.-1`,
    `${address}.1e3`,
    `x.1`,
    `.1`,
  ])('is no life: %j', (text) => {
    expect(readLife(text)).toBeUndefined();
  });
});
