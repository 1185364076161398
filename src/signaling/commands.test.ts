import { describe, expect, it } from 'vitest';
import { type CommandName, fields, readCommand } from './commands.js';

const names = Object.keys(fields) as CommandName[];
const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown;
const refusalOf = (name: CommandName, payload: unknown): string | undefined => {
  const read = readCommand(name, [payload]);
  return 'refusal' in read ? read.refusal.message : undefined;
};

describe('a description', () => {
  const carrying = names.filter((name) => fields[name] !== null);

  it.each(carrying)('of %s that is nested too deep to be written down again is refused', (name) => {
    const payload = (value: unknown) => ({ conversationId: 'c', [fields[name] as string]: value });
    expect(refusalOf(name, payload(nested(1_000)))).toBeUndefined();
    expect(refusalOf(name, payload(nested(1_001)))).toBe('Internal error');
    expect(refusalOf(name, payload(nested(100_000)))).toBe('Internal error');
  });

  it('counts alone: what else is in the payload is never relayed', () => {
    const read = readCommand('call-offer', [
      { conversationId: 'c', offer: 'o', ticket: nested(5_000), more: nested(5_000) },
    ]);
    expect(read).toEqual({ command: { name: 'call-offer', conversationId: 'c', body: 'o', ticket: undefined } });
  });
});

it.each(names)('%s: binary is no payload, and an id that is no text none', (name) => {
  expect(refusalOf(name, Buffer.from('binary'))).toBe(`Malformed ${name}: payload must be an object`);
  expect(refusalOf(name, { conversationId: nested(5_000) })).toMatch(/conversationId must be/);
});
