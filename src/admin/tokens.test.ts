import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CannotStart } from '../base/cannot-start.js';
import { manualClock } from '../base/clock.js';
import { isActor, loadTokens, parseTokens } from './tokens.js';

const good = 'abcdefghijklmnop';
const other = 'qrstuvwxyz012345';

describe('the file', () => {
  it('has a token a line, with its kind and its name', () => {
    const parsed = parseTokens(`# who\n\n  read looker ${good}\noperate olga\t${other}  \r\n`, 'tokens');
    expect(parsed.ok && parsed.entries.map(({ access, name }) => [access, name])).toEqual([
      ['read', 'looker'],
      ['operate', 'olga'],
    ]);
  });

  it.each([
    ['', 'tokens:1: holds no token'],
    ['# nobody\n', 'tokens:1: holds no token'],
    [`write olga ${good}`, 'tokens:1: no token'],
    ['operate olga', 'tokens:1: no token'],
    [`operate olga ${good} more`, 'tokens:1: no token'],
    ['\noperate olga short', 'tokens:2: the token has under 16'],
    [`operate olga ${'x'.repeat(513)}`, 'or over 512 characters'],
    [`operate olga ${good}é`, 'the token has under 16 or over 512'],
    [`operate ${'o'.repeat(65)} ${good}`, 'the name has over 64 characters'],
    [`read olga ${good}\noperate olga ${other}`, 'tokens:2: the name olga is there twice'],
    [`read olga ${good}\nread otto ${good}`, 'tokens:2: this token is there twice'],
  ])('%j is told', (text, line) => {
    const parsed = parseTokens(text, 'tokens');
    expect(parsed.ok).toBe(false);
    expect(!parsed.ok && parsed.problems.join('\n')).toContain(line);
  });

  it('threat: a line about a fault shows the token', () => {
    for (const text of [`operate ${good} olga`, `operat olga ${good}`, `operate olga ${good} ${other}`]) {
      const parsed = parseTokens(text, 'tokens');
      expect(!parsed.ok && parsed.problems.join('\n')).not.toContain(good);
    }
  });
});

describe('names', () => {
  it.each(['olga', 'Olga Öztürk', 'a', 'x'.repeat(64), 'ci/deploy@main'])('%j is one', (name) => {
    expect(isActor(name)).toBe(true);
  });
  it.each(['', ' ', 'x'.repeat(65), 'a\nb', 'a\u001b[31mb', ' a', 'a ', '\u202eevil', 'a\u0000'])(
    '%j is none',
    (name) => {
      expect(isActor(name)).toBe(false);
    },
  );
});

describe('in use', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'sigfig-tokens-'));
  });
  afterAll(() => rm(folder, { recursive: true }));

  const put = async (name: string, text: string) => {
    const file = join(folder, name);
    await writeFile(`${file}.next`, text);
    await rename(`${file}.next`, file);
    return file;
  };

  it('tells who has which token', async () => {
    const tokens = await loadTokens(await put('a', `read looker ${good}\noperate olga ${other}\n`), {
      onProblem: expect.unreachable,
    });
    expect(await tokens.operator(good)).toEqual({ access: 'read', name: 'looker' });
    expect(await tokens.operator(other)).toEqual({ access: 'operate', name: 'olga' });
    for (const wrong of ['', good.slice(1), `${good}x`, good.toUpperCase(), other + good]) {
      expect(await tokens.operator(wrong)).toBeUndefined();
    }
  });

  it('a token that is taken out of the file no longer works a second later', async () => {
    const clock = manualClock();
    const file = await put('b', `operate olga ${good}\n`);
    const tokens = await loadTokens(file, { onProblem: expect.unreachable, clock });
    await put('b', `operate otto ${other}\n`);
    expect(await tokens.operator(good)).toBeDefined();
    clock.advance(1_000);
    expect(await tokens.operator(good)).toBeUndefined();
    expect(await tokens.operator(other)).toEqual({ access: 'operate', name: 'otto' });
  });

  it('a file that breaks or goes is told once, and the tokens read before stay', async () => {
    const clock = manualClock();
    const told: string[] = [];
    const file = await put('c', `operate olga ${good}\n`);
    const tokens = await loadTokens(file, { onProblem: (line) => told.push(line), clock });
    await put('c', 'operate olga\n');
    for (let i = 0; i < 3; i++) {
      clock.advance(1_000);
      expect(await tokens.operator(good)).toBeDefined();
    }
    expect(told).toEqual([expect.stringMatching(/:1: no token; .*; the tokens read before stay$/)]);
    await rm(file);
    for (let i = 0; i < 3; i++) {
      clock.advance(1_000);
      expect(await tokens.operator(good)).toBeDefined();
    }
    expect(told).toHaveLength(2);
    expect(told[1]).toMatch(/can't read .*ENOENT/);
  });

  it('a file with faults, or none, keeps it from starting', async () => {
    const problem = { onProblem: expect.unreachable };
    await expect(loadTokens(await put('d', 'x'), problem)).rejects.toThrow(CannotStart);
    await expect(loadTokens(join(folder, 'none'), problem)).rejects.toThrow(/can't read .*ENOENT/);
  });
});
