import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { CannotStart } from '../base/cannot-start.js';
import { manualClock } from '../base/clock.js';
import { fileLog } from './file-log.js';
import { full, testLog } from './log.fixture.js';
import { memoryLog } from './memory-log.js';
import {
  alice,
  bob,
  chained,
  folder,
  kinds,
  mode,
  numberOf,
  red,
  set,
  share,
  start,
  toLegacy,
  toNew,
} from './routes.fixture.js';
import { allNew, canary, versionOf } from './versions.fixture.js';

describe('a start', () => {
  test('with nothing at all leaves everything to the legacy, as version 1', async () => {
    const log = testLog();
    const { routes, told } = await start(log);
    expect(mode(routes)).toBe('legacy');
    expect(routes.current).toMatchObject({ version: 1, kind: 'start', actor: 'sigfig', via: 'start' });
    expect(log.lines).toEqual([routes.current]);
    expect(told('routesChanged')).toEqual([[expect.objectContaining({ version: 1, summary: routes.table.summary })]]);
  });

  test("with a log has the log's last version in force, and makes none", async () => {
    const log = testLog([versionOf(1), versionOf(2, allNew)]);
    const { routes, told } = await start(log);
    expect(mode(routes)).toBe('new');
    expect(routes.current).toEqual(log.lines[1]);
    expect(log.lines).toHaveLength(2);
    expect(told('routesChanged')).toHaveLength(1);
  });

  test('with a log that can be written later goes on, tells it, and writes the first version then', async () => {
    const clock = manualClock();
    const log = testLog();
    log.broken = full();
    const { routes, told } = await start(log, { clock });
    expect(routes.current.version).toBe(1);
    expect(routes.problem).toBe(
      "the log test.jsonl can't be written (ENOSPC); make room or make it writable, or name another with --routes-log",
    );
    expect(told('routesLog')).toEqual([[routes.problem]]);
    log.broken = null;
    clock.advance(1_000);
    await expect.poll(() => log.lines.length).toBe(1);
    expect(routes.problem).toBe(null);
  });

  test('with a log that is there and can not be read does not start with some other table', async () => {
    const log = { ...testLog(), read: () => Promise.reject(Object.assign(new Error(), { code: 'EACCES' })) };
    const failed = start(log);
    await expect(failed).rejects.toBeInstanceOf(CannotStart);
    await expect(failed).rejects.toThrow(
      "the log of route changes test.jsonl can't be read (EACCES); make it readable",
    );
  });

  test('tells what of the log could not be read', async () => {
    const log = { ...testLog([versionOf(1)]) };
    const read = log.read;
    log.read = async () => ({ ...(await read()), problems: ['half a line'] });
    const { told } = await start(log);
    expect(told('routesLog')).toEqual([['half a line']]);
  });
});

describe('a change', () => {
  test('is in force once it is in the log, as a version that says who, why, from what and to what', async () => {
    const log = testLog();
    const clock = manualClock(Date.UTC(2026, 0, 2, 3, 4, 5));
    const { routes, told } = await start(log, { clock });
    const heard: number[] = [];
    const stop = routes.onChange(({ version }) => heard.push(version));
    const outcome = await routes.change(toNew, { ...alice, ifVersion: 1 });
    expect(outcome).toEqual({
      kind: 'applied',
      version: {
        version: 2,
        at: '2026-01-02T03:04:05.000Z',
        actor: 'alice',
        via: 'cli',
        kind: 'set',
        reason: 'for a test',
        before: log.lines[0]?.after,
        after: allNew.toJSON(),
      },
      confirmed: { instances: 1, of: 1 },
      unwritten: null,
    });
    expect(mode(routes)).toBe('new');
    expect(log.lines).toEqual([log.lines[0], routes.current]);
    expect(told('routesChanged').at(-1)).toEqual([
      { version: 2, kind: 'set', actor: 'alice', reason: 'for a test', summary: allNew.summary },
    ]);
    stop();
    await routes.change(toLegacy, alice);
    expect(heard).toEqual([2]);
  });

  test('is not in force before it is in the log', async () => {
    const log = testLog();
    const { routes } = await start(log);
    const held = log.hold();
    const changing = routes.change(toNew, alice);
    await new Promise((resolve) => setImmediate(resolve));
    expect(mode(routes)).toBe('legacy');
    held.release();
    await changing;
    expect(mode(routes)).toBe('new');
  });

  test('that changes nothing makes no version', async () => {
    const log = testLog();
    const { routes } = await start(log);
    expect(await routes.change(toLegacy, alice)).toEqual({ kind: 'unchanged', version: routes.current });
    expect(log.lines).toHaveLength(1);
  });

  test('that is refused says why and makes no version', async () => {
    const { routes } = await start();
    const outcome = await routes.change(set('call-offer', { mode: 'new' }), alice);
    expect(outcome).toMatchObject({ kind: 'refused', problems: [expect.stringContaining('call-lifecycle new')] });
    expect(routes.current.version).toBe(1);
  });

  test('a plan shows what it would do and does not do it', async () => {
    const { routes } = await start();
    const planned = await routes.plan(share(5));
    expect(planned.ok && planned.differences.map(({ group, after }) => [group, after.mode])).toEqual([
      ['call-lifecycle', 'canary'],
      ['ice-candidate', 'canary'],
      ['call-renegotiation', 'canary'],
    ]);
    expect(routes.current.version).toBe(1);
  });

  test('a listener that breaks keeps nobody else from hearing', async () => {
    const { routes, told } = await start();
    const heard: number[] = [];
    routes.onChange(() => {
      throw new Error('a broken listener');
    });
    routes.onChange(({ version }) => heard.push(version));
    expect((await routes.change(toNew, alice)).kind).toBe('applied');
    expect(heard).toEqual([2]);
    expect(told('internalError')).toHaveLength(1);
  });

  test('words of no end are cut, so that the log can be read back', async () => {
    const path = join(await folder(), 'log.jsonl');
    const { routes } = await start(fileLog(path));
    await routes.change(toNew, { ...alice, actor: 'a'.repeat(5_000), reason: 'r'.repeat(5_000) });
    const { versions } = await fileLog(path).read();
    expect(versions.map(({ actor, reason }) => [actor.length, reason.length]).at(-1)).toEqual([100, 1_000]);
  });
});

describe('compare-and-set', () => {
  test('one made from an older version is refused with the one in force', async () => {
    const { routes } = await start();
    await routes.change(toNew, alice);
    const outcome = await routes.change(share(5), { ...bob, ifVersion: 1 });
    expect(outcome).toEqual({ kind: 'conflict', current: routes.current });
    expect(mode(routes)).toBe('new');
  });

  test.each([
    ['a memory log', async () => memoryLog()],
    ['a file', async () => fileLog(join(await folder(), 'log.jsonl'))],
  ])('of many made at once from one version exactly one wins, with %s', async (_name, make) => {
    const { routes } = await start(await make());
    for (let round = 1; round <= 5; round++) {
      const outcomes = await Promise.all(
        Array.from({ length: 20 }, (_, i) =>
          routes.change(share(round * 10 + i / 100 + 0.01), { ...alice, actor: `author ${i}`, ifVersion: round }),
        ),
      );
      expect(kinds(outcomes).filter((kind) => kind === 'applied')).toHaveLength(1);
      expect(kinds(outcomes).filter((kind) => kind === 'conflict')).toHaveLength(19);
      expect(routes.current.version).toBe(round + 1);
    }
  });

  test('without a version each is made, one after the other', async () => {
    const log = testLog();
    const { routes } = await start(log);
    const outcomes = await Promise.all([share(1), share(2), share(3)].map((change) => routes.change(change, alice)));
    expect(outcomes.map(numberOf)).toEqual([2, 3, 4]);
    chained(log.lines);
    expect(routes.table.toJSON()).toEqual(canary(3).toJSON());
  });

  test('more than can wait are told so instead of piling up', async () => {
    const log = testLog();
    const { routes } = await start(log);
    const held = log.hold();
    const changing = Array.from({ length: 100 }, (_, i) => routes.change(share(i + 1), alice));
    expect(await changing[99]).toEqual({
      kind: 'unwritable',
      problem: '64 changes wait for the log already; try again later',
    });
    held.release();
    expect(kinds(await Promise.all(changing)).filter((kind) => kind === 'applied')).toHaveLength(64);
  });
});

describe('history', () => {
  test('is paged, newest first, from memory and then from the log', async () => {
    const path = join(await folder(), 'log.jsonl');
    const lines = Array.from({ length: 1_200 }, (_, i) => JSON.stringify(versionOf(i + 1)));
    await writeFile(path, `${lines.join('\n')}\n`);
    const { routes } = await start(fileLog(path));
    const seen: number[] = [];
    for (let before: number | undefined; ; ) {
      const page = await routes.history(250, before);
      if (page.length === 0) break;
      seen.push(...page.map(({ version }) => version));
      before = page.at(-1)?.version;
    }
    expect(seen).toEqual(Array.from({ length: 1_200 }, (_, i) => 1_200 - i));
  });

  test('a version that is no longer in memory can be gone back to', async () => {
    const path = join(await folder(), 'log.jsonl');
    const lines = Array.from({ length: 1_200 }, (_, i) =>
      JSON.stringify(versionOf(i + 1, i === 6 ? allNew : undefined)),
    );
    await writeFile(path, `${lines.join('\n')}\n`);
    const { routes } = await start(fileLog(path));
    expect((await routes.plan({ kind: 'rollback', to: 7 })).ok).toBe(true);
    expect(await routes.change({ kind: 'rollback', to: 7 }, alice)).toMatchObject({ kind: 'applied' });
    expect(routes.table.toJSON()).toEqual(allNew.toJSON());
    expect(await routes.change({ kind: 'rollback', to: 5_000 }, alice)).toMatchObject({ kind: 'refused' });
  });

  test('a log that can no longer be read shows what is in memory', async () => {
    const lines = Array.from({ length: 20 }, (_, i) => versionOf(i + 11));
    const log = { ...testLog(lines), older: () => Promise.reject(full()) };
    const { routes, told } = await start(log);
    expect(await routes.history(100)).toHaveLength(20);
    expect(told('routesLog')).toEqual([["the log test.jsonl can't be read (ENOSPC); make it readable"]]);
  });
});

describe('the routes file', () => {
  const yaml = (text: string) => `namespaces:\n  /:\n    calls: ${text}\n`;
  const setup = async (text = yaml('new')) => {
    const path = await folder();
    const file = join(path, 'routes.yaml');
    await writeFile(file, text);
    const save = async (next: string) => {
      await writeFile(`${file}.next`, next);
      await rename(`${file}.next`, file);
    };
    return { file, log: join(path, 'log.jsonl'), save };
  };

  test('is the first version of a new log', async () => {
    const { file, log } = await setup();
    const { routes, told } = await start(fileLog(log), { file });
    expect(routes.current).toMatchObject({ version: 1, kind: 'start', reason: `from ${file}` });
    expect(routes.current.fileHash).toMatch(/^[0-9a-f]{64}$/);
    expect(mode(routes)).toBe('new');
    expect(told('routesLoaded')).toEqual([[file, allNew.summary, true]]);
  });

  test('an edit is a version, and a later change says which text it has seen', async () => {
    const { file, log, save } = await setup();
    const { routes } = await start(fileLog(log), { file });
    await save(yaml('legacy'));
    await expect.poll(() => routes.current.version, { timeout: 5_000 }).toBe(2);
    expect(routes.current).toMatchObject({ kind: 'file', actor: 'file', via: 'file', reason: `${file} has changed` });
    const { fileHash } = routes.current;
    await routes.change(share(5), alice);
    expect(routes.current.fileHash).toBe(fileHash);
  });

  test('an edit between a change and its version is a conflict for whoever made it from the version before', async () => {
    const { file, log, save } = await setup();
    const { routes } = await start(fileLog(log), { file });
    await save(yaml('legacy'));
    await expect.poll(() => routes.current.version, { timeout: 5_000 }).toBe(2);
    expect(await routes.change(share(5), { ...alice, ifVersion: 1 })).toMatchObject({ kind: 'conflict' });
    expect(mode(routes)).toBe('legacy');
  });

  test('an edit of comments makes no version, and is told', async () => {
    const { file, log, save } = await setup();
    const { routes, told } = await start(fileLog(log), { file });
    await save(`# a comment\n${yaml('new')}`);
    await expect.poll(() => told('routesLoaded').length, { timeout: 5_000 }).toBe(2);
    expect(told('routesLoaded')[1]).toEqual([file, allNew.summary, false]);
    expect(routes.current.version).toBe(1);
  });

  test("at a restart the log's last version rules while the file is as it was", async () => {
    const { file, log } = await setup();
    const { routes } = await start(fileLog(log), { file });
    await routes.change(share(5), alice);
    await routes.close();
    const again = await start(fileLog(log), { file });
    expect(again.routes.current).toEqual(routes.current);
    expect(mode(again.routes)).toBe('canary');
  });

  test('at a restart a file that was edited meanwhile counts', async () => {
    const { file, log, save } = await setup();
    const { routes } = await start(fileLog(log), { file });
    await routes.change(share(5), alice);
    await routes.close();
    await save(yaml('legacy'));
    const again = await start(fileLog(log), { file });
    expect(again.routes.current).toMatchObject({ version: 3, kind: 'file' });
    expect(mode(again.routes)).toBe('legacy');
    await again.routes.close();
    expect((await start(fileLog(log), { file })).routes.current.version).toBe(3);
  });

  test('broken at the start: told where a log has what is in force, fatal where it has not', async () => {
    const { file, log, save } = await setup();
    const { routes } = await start(fileLog(log), { file });
    await routes.close();
    await save(yaml('fast'));
    const again = await start(fileLog(log), { file });
    expect(mode(again.routes)).toBe('new');
    const broken = [expect.stringContaining(`${file}:3: the mode of "calls"`)];
    expect(again.told('routesRejected')).toEqual([[file, broken]]);
    expect(again.routes.fileProblems).toEqual(broken);
    await save(yaml('legacy'));
    await expect.poll(() => mode(again.routes), { timeout: 5_000 }).toBe('legacy');
    expect(again.routes.fileProblems).toEqual([]);
    await save(yaml('fast'));
    await expect(start(testLog(), { file })).rejects.toBeInstanceOf(CannotStart);
  });

  test('while the log can not be written an edit waits, is told once, and is in force when it can', async () => {
    const { file, save } = await setup();
    const log = testLog();
    const { routes, told } = await start(log, { file });
    log.broken = full();
    await save(yaml('legacy'));
    await expect.poll(() => told('routesLog').length, { timeout: 8_000 }).toBeGreaterThan(2);
    expect(told('routesRejected')).toEqual([
      [file, [expect.stringContaining(`${file}: not in force yet, since the log`)]],
    ]);
    expect(mode(routes)).toBe('new');
    expect(routes.fileProblems).toEqual([expect.stringContaining('not in force yet')]);
    log.broken = null;
    await expect.poll(() => mode(routes), { timeout: 5_000 }).toBe('legacy');
    expect(log.lines.at(-1)).toMatchObject({ version: 2, kind: 'file' });
    expect(routes.fileProblems).toEqual([]);
  });

  test('while it is broken or gone that is shown, until it says what is in force again', async () => {
    const { file, log, save } = await setup();
    const { routes } = await start(fileLog(log), { file });
    expect(routes.fileProblems).toEqual([]);
    await save(yaml('fast'));
    await expect.poll(() => routes.fileProblems, { timeout: 5_000 }).toHaveLength(1);
    // What an operator does meanwhile mends no file.
    await routes.change(share(5), alice);
    expect(routes.fileProblems).toEqual([expect.stringContaining(':3: ')]);
    await rm(file);
    await expect.poll(() => routes.fileProblems[0], { timeout: 5_000 }).toContain("can't be read (ENOENT)");
    await save(yaml('new'));
    await expect.poll(() => routes.fileProblems, { timeout: 5_000 }).toEqual([]);
  });

  test('a text that waits for the log does not come into force once the file is broken', async () => {
    const { file, save } = await setup(yaml('new'));
    const log = testLog();
    const { routes } = await start(log, { file });
    log.broken = full();
    await save(yaml('legacy'));
    await expect.poll(() => routes.fileProblems[0], { timeout: 5_000 }).toContain('not in force yet');
    await save(yaml('fast'));
    await expect.poll(() => routes.fileProblems[0], { timeout: 5_000 }).toContain('the mode of');
    log.broken = null;
    await routes.change(share(5), alice);
    expect(mode(routes)).toBe('canary');
    expect(routes.fileProblems).toEqual([expect.stringContaining('the mode of')]);
  });

  test('an edit that waits does not come into force behind the red switch, now or at a restart', async () => {
    const { file, save } = await setup(yaml('legacy'));
    const log = testLog();
    const { routes, told } = await start(log, { file });
    log.broken = full();
    await save(yaml('new'));
    await expect.poll(() => told('routesRejected').length, { timeout: 5_000 }).toBe(1);
    expect(await routes.change(red, bob)).toMatchObject({ kind: 'applied' });
    expect(routes.fileProblems).toEqual([]);
    log.broken = null;
    await expect.poll(() => log.lines.length, { timeout: 5_000 }).toBe(2);
    expect(mode(routes)).toBe('legacy');
    await routes.close();
    const again = await start(testLog([...log.lines]), { file });
    expect(mode(again.routes)).toBe('legacy');
    expect(again.routes.current.version).toBe(2);
  });
});
