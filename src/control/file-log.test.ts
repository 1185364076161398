// The log must never lose what it said was kept, whatever happens to the process, the disk, or beside it.
import { appendFile, mkdir, mkdtemp, readFile, rename, rm, stat, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fileLog, MOST_IN_MEMORY } from './file-log.js';
import { tableWith, versionOf } from './versions.fixture.js';

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'routes-log-'));
  path = join(folder, 'routes.history.jsonl');
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const lineOf = (version: number, actor?: string) => `${JSON.stringify(versionOf(version, undefined, actor))}\n`;
const numbers = (versions: readonly { readonly version: number }[]) => versions.map(({ version }) => version);
const opened = async () => {
  const log = fileLog(path);
  return { log, ...(await log.read()) };
};

describe('what was appended', () => {
  test('is there after a restart, in order and whole', async () => {
    const { log, versions, last } = await opened();
    expect({ versions, last }).toEqual({ versions: [], last: 0 });
    for (const n of [1, 2, 3]) expect(await log.append(versionOf(n))).toEqual({});
    const lines = (await readFile(path, 'utf8')).split('\n');
    expect(lines.map((line) => /^\{"version":(\d+),"at"/.exec(line)?.[1])).toEqual(['1', '2', '3', undefined]);
    const again = await opened();
    expect(again).toMatchObject({ last: 3, problems: [] });
    expect(again.versions).toEqual([versionOf(1), versionOf(2), versionOf(3)]);
  });

  test('is not for everybody to read: user ids may be in it', async () => {
    const { log } = await opened();
    await log.append(versionOf(1));
    expect((await stat(path)).mode & 0o007).toBe(0);
  });

  test('is found again by pages where it no longer fits into memory', async () => {
    const many = MOST_IN_MEMORY + 700;
    await writeFile(path, Array.from({ length: many }, (_, i) => lineOf(i + 1)).join(''));
    const { log, versions, last } = await opened();
    expect({ first: versions[0]?.version, count: versions.length, last }).toEqual({
      first: 701,
      count: MOST_IN_MEMORY,
      last: many,
    });
    expect(numbers(await log.older(5, 701))).toEqual([700, 699, 698, 697, 696]);
    expect(numbers(await log.older(3, 66))).toEqual([65, 64, 63]);
    expect(numbers(await log.older(10, 3))).toEqual([2, 1]);
    expect(await log.older(10, 1)).toEqual([]);
    await log.append(versionOf(many + 1));
    expect(numbers(await log.older(2, many + 2))).toEqual([many + 1, many]);
  });

  test('is found again by pages where numbers were left out', async () => {
    const left = (n: number) => n + (n > 100 ? 500 : 0) + (n > 200 ? 500 : 0);
    await writeFile(path, Array.from({ length: 300 }, (_, i) => lineOf(left(i + 1))).join(''));
    const { log } = await opened();
    expect(numbers(await log.older(3, 1_201))).toEqual([700, 699, 698]);
    expect(numbers(await log.older(200, 1_202))).toEqual(Array.from({ length: 200 }, (_, i) => left(201 - i)));
    expect(numbers(await log.older(500, 603))).toEqual(Array.from({ length: 102 }, (_, i) => left(102 - i)));
    expect(await log.append(versionOf(1_400))).toEqual({});
    expect(await log.append(versionOf(1_410))).toEqual({});
    expect(numbers((await opened()).versions).slice(-3)).toEqual([1_300, 1_400, 1_410]);
  });

  test('takes a bounded part of memory where tables are large', async () => {
    const users = Array.from({ length: 1_000 }, (_, i) => `${i}-${'u'.repeat(78)}`);
    const large = tableWith({ mode: 'canary', canary: { users } });
    const { log } = await opened();
    for (let n = 1; n <= 40; n++) await log.append(versionOf(n, large));
    const { versions, last } = await opened();
    expect(last).toBe(40);
    expect(versions.length).toBeLessThan(40);
    expect(versions.length).toBeGreaterThan(20);
    expect(versions.at(-1)?.version).toBe(40);
  });
});

describe('after a crash in mid-write', () => {
  test.each([1, 10, 200])(
    'half a last line of %i bytes is cut off with a line, and nothing before it is lost',
    async (bytes) => {
      await writeFile(path, lineOf(1) + lineOf(2) + lineOf(3).slice(0, bytes));
      const { log, versions, last, problems } = await opened();
      expect(numbers(versions)).toEqual([1, 2]);
      expect(last).toBe(2);
      expect(problems).toEqual([
        `${path}: ends in half a line of ${bytes} bytes, as after a crash; it was cut off, nothing before it is lost`,
      ]);
      await log.append(versionOf(3));
      const again = await opened();
      expect(numbers(again.versions)).toEqual([1, 2, 3]);
      expect(again.problems).toEqual([]);
      expect((await readFile(path, 'utf8')).split('\n')).toHaveLength(4);
    },
  );

  test('a line at every length is whole or none', async () => {
    const whole = lineOf(1) + lineOf(2);
    for (let cut = lineOf(1).length; cut <= whole.length; cut += 211) {
      await writeFile(path, whole.slice(0, cut));
      expect(numbers((await opened()).versions), `${cut} bytes`).toEqual([1]);
    }
  });

  test('a file that holds nothing but half a line is an empty log', async () => {
    await writeFile(path, lineOf(1).slice(0, 30));
    const { log, versions, problems } = await opened();
    expect(versions).toEqual([]);
    expect(problems).toHaveLength(1);
    await log.append(versionOf(1));
    expect(numbers((await opened()).versions)).toEqual([1]);
  });

  test('a line that another process is writing right now is waited for, not cut', async () => {
    await writeFile(path, lineOf(1) + lineOf(2).slice(0, 50));
    const reading = opened();
    await appendFile(path, lineOf(2).slice(50));
    const { versions, problems } = await reading;
    expect(numbers(versions)).toEqual([1, 2]);
    expect(problems).toEqual([]);
  });
});

describe('lines that are none', () => {
  test('are passed over, told with file and line, and do not take the rest away', async () => {
    await writeFile(path, `${lineOf(1)}half of somet\n{"version":"2"}\n${lineOf(2)}\n[]\n${lineOf(3)}`);
    const { versions, problems } = await opened();
    expect(numbers(versions)).toEqual([1, 2, 3]);
    expect(problems).toEqual([2, 3, 6].map((n) => `${path}:${n}: is no version of a route table and is passed over`));
  });

  test('a version that is not understood is passed over, and its number stays taken', async () => {
    const later = lineOf(3).replaceAll('"mode":"canary"', '"mode":"shadow"');
    await writeFile(path, lineOf(1) + lineOf(2) + later);
    const { log, versions, last, problems } = await opened();
    expect(numbers(versions)).toEqual([1, 2]);
    expect(last).toBe(3);
    expect(problems).toEqual([
      expect.stringContaining(`${path}: version 3 can't be understood and is passed over: after.namespaces`),
    ]);
    await log.append(versionOf(4));
    expect(numbers((await opened()).versions)).toEqual([1, 2, 4]);
  });

  test('a file that is something else altogether is told by its first few lines', async () => {
    await writeFile(path, 'x\n'.repeat(10_000));
    const { versions, problems } = await opened();
    expect(versions).toEqual([]);
    expect(problems).toHaveLength(5);
  });

  test('a line without an end costs no memory', async () => {
    await writeFile(path, `${lineOf(1)}{"version":2,${'x'.repeat(5_000_000)}}\n${lineOf(3)}`);
    const { versions, problems } = await opened();
    expect(numbers(versions)).toEqual([1, 3]);
    expect(problems).toHaveLength(1);
  });
});

describe('another process that appends to the same file', () => {
  test('is found, and its versions are answered', async () => {
    const { log } = await opened();
    await log.append(versionOf(1));
    const { log: other } = await opened();
    await other.append(versionOf(2, undefined, 'bob'));
    await other.append(versionOf(3, undefined, 'bob'));
    const { conflict } = await log.append(versionOf(2));
    expect(conflict).toEqual([versionOf(2, undefined, 'bob'), versionOf(3, undefined, 'bob')]);
    expect(await log.append(versionOf(4))).toEqual({});
    expect(numbers((await opened()).versions)).toEqual([1, 2, 3, 4]);
  });

  test('where several write one number at once exactly one wins, and all agree which', async () => {
    const logs = await Promise.all(Array.from({ length: 6 }, () => opened()));
    for (let n = 1; n <= 10; n++) {
      const results = await Promise.all(
        logs.map(({ log }, i) => log.append(versionOf(n, undefined, `author ${i}`)).then(({ conflict }) => conflict)),
      );
      const winners = results.flatMap((conflict, i) => (conflict ? [] : [`author ${i}`]));
      expect(winners).toHaveLength(1);
      for (const conflict of results) {
        if (conflict) expect(conflict.at(-1)).toEqual(versionOf(n, undefined, winners[0]));
      }
      // A loser may hold a number that the winner has not seen: each catches up at its next append.
    }
    const { versions, problems } = await opened();
    expect(numbers(versions)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(problems).toEqual([]);
  });

  test('exactly one wins where both have the very same to say', async () => {
    const [one, two] = await Promise.all([opened(), opened()]);
    const results = await Promise.all([one.log.append(versionOf(1)), two.log.append(versionOf(1))]);
    expect(results.filter(({ conflict }) => conflict)).toEqual([{ conflict: [versionOf(1)] }]);
  });

  test('half a line of its own stays a line of its own', async () => {
    const { log } = await opened();
    await log.append(versionOf(1));
    await appendFile(path, '{"version":2,"at"');
    expect(await log.append(versionOf(2))).toEqual({});
    const { versions, problems } = await opened();
    expect(numbers(versions)).toEqual([1, 2]);
    expect(problems).toEqual([`${path}:2: is no version of a route table and is passed over`]);
  });
});

describe('a file that changes under it', () => {
  test('one that is moved away is begun anew, and the numbers go on', async () => {
    const { log } = await opened();
    await log.append(versionOf(1));
    await rename(path, `${path}.old`);
    expect(await log.append(versionOf(2))).toEqual({});
    expect(numbers((await opened()).versions)).toEqual([2]);
  });

  test('one that was shortened keeps what it has left', async () => {
    const { log } = await opened();
    for (const n of [1, 2, 3]) await log.append(versionOf(n));
    await truncate(path, (await readFile(path, 'utf8')).indexOf('\n') + 1);
    expect(await log.append(versionOf(4))).toEqual({});
    expect(numbers((await opened()).versions)).toEqual([1, 4]);
  });

  test('a folder in its place is an error, and its return is none', async () => {
    const { log } = await opened();
    await log.append(versionOf(1));
    await rename(path, `${path}.old`);
    await mkdir(path);
    await expect(log.append(versionOf(2))).rejects.toMatchObject({ code: 'EISDIR' });
    await rm(path, { recursive: true });
    await rename(`${path}.old`, path);
    expect(await log.append(versionOf(2))).toEqual({});
    expect(numbers((await opened()).versions)).toEqual([1, 2]);
  });

  test('what is no file is not read for ever', async () => {
    await expect(fileLog('/dev/zero').read()).rejects.toThrow('/dev/zero is no file');
    await expect(fileLog('/dev/full').append(versionOf(1))).rejects.toThrow('/dev/full is no file');
  });
});
