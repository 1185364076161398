// The log of route changes under a process that dies: what was said to be kept is kept, and the next start has it in force.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, mkdtemp, readFile, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fileLog } from '../../src/control/file-log.js';
import { until } from '../harness.js';
import { type Processes, processes } from '../processes.js';

const appender = fileURLToPath(new URL('./appender.mjs', import.meta.url));
const fileLogModule = new URL('../../dist/src/control/file-log.js', import.meta.url).href;

let folder: string;
const children: ChildProcess[] = [];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sigfig-log-'));
});
afterEach(async () => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

/** `limit`: the largest file that it may write, in KiB; stands for a disk that is full. */
function append(path: string, { size = 10_000, limit }: { size?: number; limit?: number } = {}) {
  const args = [appender, fileLogModule, path, String(size)];
  const child =
    limit === undefined
      ? spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
      : spawn('bash', ['-c', `ulimit -f ${limit}; exec "$0" "$@"`, process.execPath, ...args], {
          stdio: ['ignore', 'pipe', 'inherit'],
        });
  children.push(child);
  const lines: string[] = [];
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => lines.push(line));
  return { child, lines, exited: once(child, 'close') };
}
const numbers = (lines: readonly string[], word: string) =>
  lines.filter((line) => line.startsWith(`${word} `)).map((line) => Number(line.split(' ')[1]));

describe('kill -9 in the middle of appending', () => {
  test('loses nothing that was said to be kept, again and again on one file', async () => {
    const path = join(folder, 'log.jsonl');
    let kept = 0;
    for (let round = 0; round < 5; round++) {
      const { child, lines, exited } = append(path, { size: 200_000 });
      const enough = 3 + ((round * 5) % 7);
      await until(() => numbers(lines, 'kept').length >= enough, 'some versions are kept');
      child.kill('SIGKILL');
      await exited;
      kept = Math.max(kept, ...numbers(lines, 'kept'));
      const { versions, last, problems } = await fileLog(path).read();
      // One more may be there whole, that it had no time to tell of.
      expect(last === kept || last === kept + 1, `${last} and ${kept}`).toBe(true);
      expect(versions.at(-1)?.version).toBe(last);
      for (const problem of problems) expect(problem).toContain('nothing before it is lost');
      kept = last;
    }
    const text = await readFile(path, 'utf8');
    const found = text
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { version: number }).version);
    expect(found).toEqual(Array.from({ length: kept }, (_, i) => i + 1));
  });
});

describe('a disk that is full', () => {
  test('in the middle of a line leaves no half line, and all before it', async () => {
    const path = join(folder, 'log.jsonl');
    const { lines, exited } = append(path, { size: 20_000, limit: 300 });
    await exited;
    expect(lines.at(-1)).toBe('failed EFBIG');
    const kept = numbers(lines, 'kept');
    expect(kept.length).toBeGreaterThan(2);
    expect((await readFile(path, 'utf8')).endsWith('}\n')).toBe(true);
    const { last, problems } = await fileLog(path).read();
    expect({ last, problems }).toEqual({ last: kept.at(-1), problems: [] });
  });
});

describe('several processes on one file', () => {
  test('each number is kept once, and for the process that was told so', async () => {
    const path = join(folder, 'log.jsonl');
    const all = [append(path), append(path), append(path)];
    for (const { lines } of all) await until(() => numbers(lines, 'kept').length >= 20, 'each has kept some');
    for (const { child, exited } of all) {
      child.kill('SIGKILL');
      await exited;
    }
    const kept = all.flatMap(({ lines }) => numbers(lines, 'kept'));
    expect(new Set(kept).size).toBe(kept.length);
    const { last } = await fileLog(path).read();
    expect(Math.max(...kept)).toBeLessThanOrEqual(last);
  });
});

describe('sigfig that is killed and started again', () => {
  let running: Processes;
  let legacy: string;
  beforeEach(async () => {
    running = await processes();
    legacy = (await running.legacy()).url;
  });
  afterEach(() => running.close());

  const yaml = (text: string) => `namespaces:\n  /:\n    calls: ${text}\n`;
  const inForce = (log: string) =>
    log
      .split('\n')
      .filter((line) => line.includes('"routes in force"'))
      .map((line) => JSON.parse(line) as { version: number; kind: string; summary: string });

  test('has its last version in force, from the log beside the file, without what was half written', async () => {
    const first = await running.proxy(legacy, yaml('legacy'));
    const file = join(running.folder, 'routes-1.yaml');
    const log = `${file}.history.jsonl`;
    await writeFile(`${file}.next`, yaml('{ mode: canary, percent: 12.5 }'));
    await rename(`${file}.next`, file);
    await until(() => inForce(first.stderr()).length === 2, 'the edit is in force');
    await first.kill();
    expect((await readFile(log, 'utf8')).split('\n')).toHaveLength(3);
    await appendFile(log, '{"version":3,"at":"2026-');

    const second = await running.proxy(legacy, yaml('{ mode: canary, percent: 12.5 }'), ['--routes-log', log]);
    expect(inForce(second.stderr())).toEqual([
      expect.objectContaining({
        version: 2,
        kind: 'file',
        summary: expect.stringContaining('call-lifecycle canary 12.5 %'),
      }),
    ]);
    expect(second.stderr()).toContain(`${log}: ends in half a line of 24 bytes, as after a crash; it was cut off`);
    expect((await readFile(log, 'utf8')).endsWith('}\n')).toBe(true);
  });

  test('a log beside the file that can not be written is a warning, and routes change in memory', async () => {
    const file = join(running.folder, 'routes-1.yaml');
    await symlink(join(running.folder, 'nowhere', 'log'), `${file}.history.jsonl`);
    const proxy = await running.proxy(legacy, yaml('legacy'));
    expect(proxy.stderr()).toMatch(
      /"level":"warn".*history\.jsonl can't be written \(ENOENT\): changes of routes are lost at a restart; name a file with --routes-log/,
    );
    await writeFile(`${file}.next`, yaml('new'));
    await rename(`${file}.next`, file);
    await until(() => inForce(proxy.stderr()).length === 2, 'the edit is in force');
  });

  test.each([
    ['in a folder that is not there', (at: string) => join(at, 'nowhere', 'log.jsonl'), 'ENOENT'],
    ['that is a folder', (at: string) => at, 'EISDIR'],
  ])('a --routes-log %s keeps it from starting', async (_name, path, code) => {
    const named = path(running.folder);
    const failed = running.proxy(legacy, yaml('legacy'), ['--routes-log', named]);
    await expect(failed).rejects.toThrow(
      `sigfig: --routes-log: can't write ${named} (${code}); name a file in a folder that this user may write`,
    );
  });

  test('the log is no file for everybody to read', async () => {
    await running.proxy(legacy, yaml('new'));
    expect((await stat(join(running.folder, 'routes-1.yaml.history.jsonl'))).mode & 0o007).toBe(0);
  });
});
