import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { Problem } from '../play/problem.js';
import { packageRoot } from '../targets/root.js';
import { faults } from './faults.js';
import { planted } from './plant.js';

const stub = readFileSync(join(packageRoot, 'legacy-stub', 'calls.ts'), 'utf8');

describe('planted faults', () => {
  it.each(faults.map((fault) => [fault.name, fault] as const))('%s fits the stub', (_, fault) => {
    expect(planted(stub, fault)).not.toBe(stub);
  });

  it('have names of their own', () => {
    expect(new Set(faults.map(({ name }) => name)).size).toBe(faults.length);
  });

  it('a text is changed in what a user reads, not in the code around it', () => {
    const edit = faults.find(({ name }) => name === 'text-second-offer')?.edits[0];
    expect(edit?.to).toBe("throw new Refusal('Call already in progress.');");
  });
});

describe('planting', () => {
  const one = (at: string, to: string) => ({ name: 'one', edits: [{ at, to }] });

  it('takes lines as the compiler breaks them', () => {
    expect(planted('if (a)\n      throw b;\nc', one('if (a) throw b;', 'd;'))).toBe('d;\nc');
  });

  it('inserts what it is told, also where that looks like a pattern', () => {
    expect(planted('a(b);', one('a(b);', '$& $1'))).toBe('$& $1');
  });

  it.each([
    ['is not there', 'c;'],
    ['is there twice', 'a; a;'],
  ])('says which fault to mend when its place %s', (_, code) => {
    expect(() => planted(code, one('a;', 'b;'))).toThrow(Problem);
    expect(() => planted(code, one('a;', 'b;'))).toThrow(/the fault one .* mend parity\/proof\/faults.ts/);
  });
});
