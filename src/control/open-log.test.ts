import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CannotStart } from '../base/cannot-start.js';
import { openRouteLog } from './open-log.js';

let folder: string;
let told: [string, string][];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'open-log-'));
  told = [];
});
afterEach(() => rm(folder, { recursive: true, force: true }));
const opened = (file: string | undefined, log?: string) =>
  openRouteLog({ file, log, tell: (level, line) => told.push([level, line]) });

describe('where versions of the routes are kept', () => {
  test('in the file that is named', async () => {
    const log = join(folder, 'log.jsonl');
    expect((await opened(join(folder, 'routes.yaml'), log)).where).toBe(log);
    expect((await opened(undefined, log)).where).toBe(log);
    expect(told).toEqual([]);
    expect(await readdir(folder)).toEqual(['log.jsonl']);
  });

  test('beside the routes file where none is named', async () => {
    const file = join(folder, 'routes.yaml');
    expect((await opened(file)).where).toBe(`${file}.history.jsonl`);
    expect(told).toEqual([]);
  });

  test('in memory, which is said, where there is neither', async () => {
    expect((await opened(undefined)).where).toBe(null);
    expect(told).toEqual([
      ['info', 'neither --routes nor --routes-log is given: changes of routes are lost at a restart'],
    ]);
  });

  test('in memory, with a warning, where nothing can be written beside the routes file (a mounted config map)', async () => {
    const file = join(folder, 'routes.yaml');
    await symlink(join(folder, 'nowhere', 'log'), `${file}.history.jsonl`);
    expect((await opened(file)).where).toBe(null);
    expect(told).toEqual([
      [
        'warn',
        `${file}.history.jsonl can't be written (ENOENT): changes of routes are lost at a restart; name a file with --routes-log`,
      ],
    ]);
  });

  test('a log that is there beside the file rules even where it can not be written', async () => {
    const file = join(folder, 'routes.yaml');
    await mkdir(`${file}.history.jsonl`);
    expect((await opened(file)).where).toBe(`${file}.history.jsonl`);
    expect(told).toEqual([
      [
        'warn',
        `${file}.history.jsonl can't be written (EISDIR): routes can't be set until it can; name another with --routes-log`,
      ],
    ]);
  });

  test.each([
    ['a folder', () => folder, 'EISDIR'],
    ['in a folder that is not there', () => join(folder, 'no', 'log'), 'ENOENT'],
    ['in a file', () => join(folder, 'file', 'log'), 'ENOTDIR'],
  ])('a named log that is %s keeps it from starting', async (_name, path, code) => {
    await writeFile(join(folder, 'file'), '');
    const failed = opened(undefined, path());
    await expect(failed).rejects.toBeInstanceOf(CannotStart);
    await expect(failed).rejects.toMatchObject({
      problems: [`--routes-log: can't write ${path()} (${code}); name a file in a folder that this user may write`],
    });
  });

  test('a full disk does not: what is in force is told by the control', async () => {
    expect((await opened(undefined, '/dev/full')).where).toBe('/dev/full');
  });
});
