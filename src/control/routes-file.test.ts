import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CannotStart } from '../base/cannot-start.js';
import { type WatchedRoutes, watchRoutes } from './routes-file.js';

const LEGACY = 'namespaces:\n  /:\n    calls: legacy\n';
const NEW = 'namespaces:\n  /:\n    calls: new\n';
const BROKEN = 'namespaces:\n  /:\n    calls: fast\n';

let folder: string;
let file: string;
let modes: string[];
let problems: string[];
let watched: WatchedRoutes | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'routes-'));
  file = join(folder, 'routes.yaml');
  modes = [];
  problems = [];
});
afterEach(async () => {
  await watched?.close();
  watched = undefined;
  await rm(folder, { recursive: true, force: true });
});

const start = async () => {
  watched = await watchRoutes(file, {
    onTable: (table) => modes.push(table.mode('/', 'call-offer')),
    onProblems: (lines) => problems.push(...lines),
  });
};

describe('at the start', () => {
  test('the table is told before anything else can happen', async () => {
    await writeFile(file, NEW);
    await start();
    expect(modes).toEqual(['new']);
  });

  test('a broken file keeps the process from starting, with its problems', async () => {
    await writeFile(file, BROKEN);
    const failed = watchRoutes(file, { onTable: () => undefined, onProblems: () => undefined });
    await expect(failed).rejects.toBeInstanceOf(CannotStart);
    await expect(failed).rejects.toMatchObject({
      problems: [expect.stringContaining(`${file}:3: the mode of "calls"`)],
    });
  });

  test('a broken file is only told where there is another table to be in force; its mend is taken over', async () => {
    await writeFile(file, BROKEN);
    const hashes: string[] = [];
    watched = await watchRoutes(file, {
      mayBeBroken: true,
      onTable: (table, hash) => {
        modes.push(table.mode('/', 'call-offer'));
        hashes.push(hash);
      },
      onProblems: (lines) => problems.push(...lines),
    });
    expect({ modes, problems }).toEqual({ modes: [], problems: [expect.stringContaining('the mode of "calls"')] });
    await writeFile(file, NEW);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['new']);
    expect(hashes).toEqual([createHash('sha256').update(NEW).digest('hex')]);
  });

  test('so does a file that is not there', async () => {
    const failed = watchRoutes(file, { onTable: () => undefined, onProblems: () => undefined });
    await expect(failed).rejects.toMatchObject({ problems: [expect.stringContaining("can't be read (ENOENT)")] });
  });
});

describe('while it runs', () => {
  test('a change in place is taken over soon', async () => {
    await writeFile(file, LEGACY);
    await start();
    await writeFile(file, NEW);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['legacy', 'new']);
    await writeFile(file, LEGACY);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['legacy', 'new', 'legacy']);
    expect(problems).toEqual([]);
  });

  test('an editor that replaces the file is followed, again and again', async () => {
    await writeFile(file, LEGACY);
    await start();
    for (const [i, text] of [NEW, LEGACY, NEW].entries()) {
      await writeFile(`${file}.swp`, text);
      await rename(`${file}.swp`, file);
      await expect.poll(() => modes.length, { timeout: 3_000, interval: 10 }).toBe(i + 2);
    }
    expect(modes).toEqual(['legacy', 'new', 'legacy', 'new']);
  });

  test('an editor that deletes the file and writes it anew is followed, without an alarm', async () => {
    await writeFile(file, LEGACY);
    await start();
    await unlink(file);
    await writeFile(file, NEW);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['legacy', 'new']);
    expect(problems).toEqual([]);
  });

  test('a swap of the symlink above it (a Kubernetes config map) is followed', async () => {
    for (const [name, text] of [
      ['..one', LEGACY],
      ['..two', NEW],
    ] as const) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, 'routes.yaml'), text);
    }
    await symlink('..one', join(folder, '..data'));
    await symlink(join('..data', 'routes.yaml'), file);
    await start();
    await symlink('..two', join(folder, '..data_tmp'));
    await rename(join(folder, '..data_tmp'), join(folder, '..data'));
    await rm(join(folder, '..one'), { recursive: true });
    await expect.poll(() => modes, { timeout: 2_000, interval: 10 }).toEqual(['legacy', 'new']);
    expect(problems).toEqual([]);
  });

  test('a broken file is told once and the table in force stays; the mend is taken over', async () => {
    await writeFile(file, NEW);
    await start();
    await writeFile(file, BROKEN);
    await expect.poll(() => problems.length, { timeout: 2_000, interval: 10 }).toBe(1);
    expect(problems[0]).toContain(`${file}:3: the mode of "calls" is "fast"; write legacy, new or canary`);
    await writeFile(file, LEGACY);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['new', 'legacy']);
    expect(problems).toHaveLength(1);
  });

  test('a file that is gone is told, and the table in force stays', async () => {
    await writeFile(file, NEW);
    await start();
    await unlink(file);
    await expect.poll(() => problems, { timeout: 2_000, interval: 10 }).toEqual([expect.stringContaining('ENOENT')]);
    expect(modes).toEqual(['new']);
  });

  test('a file caught empty between truncation and writing flips nothing', async () => {
    await writeFile(file, NEW);
    await start();
    await writeFile(file, '');
    await writeFile(file, `# written again\n${NEW}`);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['new', 'new']);
    expect(problems).toEqual([]);
  });

  test('a file that stays empty is reported and flips nothing', async () => {
    await writeFile(file, NEW);
    await start();
    await writeFile(file, '\n');
    await expect.poll(() => problems, { timeout: 3_000, interval: 10 }).toEqual([expect.stringContaining('empty')]);
    expect(modes).toEqual(['new']);
  });

  test('an unchanged content is no change', async () => {
    await writeFile(file, NEW);
    await start();
    await writeFile(file, NEW);
    await writeFile(file, LEGACY);
    await expect.poll(() => modes, { timeout: 3_000, interval: 10 }).toEqual(['new', 'legacy']);
  });
});
