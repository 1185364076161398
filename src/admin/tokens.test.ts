import { execFileSync } from 'node:child_process';
import { mkdtemp, open, rename, rm, writeFile } from 'node:fs/promises';
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
    [`operate guard ${good}`, "the name guard is sigfig's own"],
    [`operate file ${good}`, "the name file is sigfig's own"],
    [`operate start ${good}`, "the name start is sigfig's own"],
    [`operate sigfig ${good}`, "the name sigfig is sigfig's own"],
    [`operate Guard ${good}`, "the name Guard is sigfig's own"],
    [`operate ＧＵＡＲＤ ${good}`, "the name ＧＵＡＲＤ is sigfig's own"],
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

  it('threat: a pipe in the file\u2019s place keeps everybody out', async () => {
    const clock = manualClock();
    const told: string[] = [];
    const file = await put('e', `operate olga ${good}\n`);
    const tokens = await loadTokens(file, { onProblem: (line) => told.push(line), clock });
    await rm(file);
    execFileSync('mkfifo', [file]);
    for (let i = 0; i < 3; i++) {
      clock.advance(1_000);
      expect(await tokens.operator(good)).toBeDefined();
    }
    expect(told).toEqual([expect.stringMatching(/is no plain file.*; the tokens read before stay$/)]);
    await put('e', `operate otto ${other}\n`);
    clock.advance(1_000);
    expect(await tokens.operator(other)).toEqual({ access: 'operate', name: 'otto' });
  });

  it('threat: a disk that hangs keeps everybody out', async () => {
    const clock = manualClock();
    const told: string[] = [];
    const file = await put('f', `operate olga ${good}\n`);
    let hang: Promise<void> | undefined;
    const openFile: typeof open = async (...args) => {
      await hang;
      return open(...args);
    };
    const tokens = await loadTokens(file, { onProblem: (line) => told.push(line), clock, open: openFile });
    let letGo!: () => void;
    hang = new Promise((resolve) => (letGo = resolve));
    await put('f', `operate otto ${other}\n`);
    clock.advance(1_000);
    const first = tokens.operator(good);
    clock.advance(200);
    expect(await first).toEqual({ access: 'operate', name: 'olga' });
    // Nobody else waits for it.
    for (let i = 0; i < 3; i++) {
      clock.advance(1_000);
      expect(await tokens.operator(good)).toBeDefined();
    }
    expect(told).toEqual([expect.stringMatching(/could not be read within 200 ms; the tokens read before stay$/)]);
    letGo();
    await expect.poll(() => tokens.operator(other), { timeout: 5_000 }).toBeDefined();
    expect(await tokens.operator(good)).toBeUndefined();
  });

  it('a file that is far too large is not read', async () => {
    const told: string[] = [];
    const clock = manualClock();
    const file = await put('g', `operate olga ${good}\n`);
    const tokens = await loadTokens(file, { onProblem: (line) => told.push(line), clock });
    await put('g', '#'.repeat(3 * 1024 * 1024));
    clock.advance(1_000);
    expect(await tokens.operator(good)).toBeDefined();
    expect(told).toEqual([expect.stringContaining('over 2 MiB')]);
  });

  it('a file with faults, or none, keeps it from starting', async () => {
    const problem = { onProblem: expect.unreachable };
    await expect(loadTokens(await put('d', 'x'), problem)).rejects.toThrow(CannotStart);
    await expect(loadTokens(join(folder, 'none'), problem)).rejects.toThrow(/can't read .*ENOENT/);
  });
});
