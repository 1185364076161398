// The log of routes where nothing can be written: a sigfig that starts so, and one that runs when it becomes so. What is in
// force stays, the way back to the legacy is open, and all of it is told.
import { mkdtempSync, rmSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ChangedBody, ErrorBody, HistoryBody, StatusBody } from '../../src/admin/api.js';
import { until } from '../harness.js';
import { type Processes, processes } from '../processes.js';
import { waysHere } from './read-only.js';

const yaml = 'namespaces:\n  /:\n    calls: new\n';
const { ways, missing } = waysHere();
// Seen in every run, so that nobody takes for tested what was not.
for (const line of missing) process.stderr.write(`test/routes/read-only: ${line}\n`);

test('at least one way of being read-only can be tried here', ({ skip }) => {
  skip(ways.length === 0, `${missing.join('; ')}: a read-only disk was NOT tested; run this as another user than root`);
  expect(ways.length).toBeGreaterThan(0);
});

describe.each(ways)('$name ($code)', { timeout: 60_000 }, ({ code, freeze, thaw }) => {
  let running: Processes;
  let legacy: string;
  let folder: string;
  let routes: string;
  let beside: string;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sigfig-read-only-'));
    routes = join(folder, 'routes.yaml');
    beside = `${routes}.history.jsonl`;
    await writeFile(routes, yaml);
    running = await processes();
    legacy = (await running.legacy()).url;
  });
  afterEach(async () => {
    await running.close();
    thaw(folder);
    rmSync(folder, { recursive: true, force: true });
  });

  const start = (...args: string[]) => running.proxy(legacy, yaml, ['--routes', routes, ...args]);
  type Proxy = Awaited<ReturnType<typeof start>>;
  const post = async <T>({ admin }: Proxy, path: string, body: object): Promise<{ status: number; body: T }> => {
    const response = await fetch(`${admin}/api/routes/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-sigfig-actor': 'alice' },
      body: JSON.stringify(body),
    });
    return { status: response.status, body: (await response.json()) as T };
  };
  const get = async <T>({ admin }: Proxy, path: string) => (await (await fetch(`${admin}/api/${path}`)).json()) as T;
  const statusOf = async (proxy: Proxy) => (await get<StatusBody>(proxy, 'status')).routes;
  const share = (percent: number) => ({ target: 'calls', mode: 'canary', percent, reason: 'for a test' });
  const kindsIn = async (log: string) =>
    (await readFile(log, 'utf8'))
      .trimEnd()
      .split('\n')
      .map((line) => (JSON.parse(line) as { kind: string }).kind);

  /** What must hold wherever the log is there and can't be written, and once it can be again. */
  async function held(proxy: Proxy, log: string, version: number, before: readonly string[]): Promise<void> {
    const set = await post<ErrorBody>(proxy, 'set', share(9));
    expect(set).toMatchObject({ status: 503, body: { error: 'unwritable' } });
    expect(set.body.problems[0]).toContain(`the log ${log} can't be written (${code})`);
    expect(await statusOf(proxy)).toMatchObject({ version, log, problem: expect.stringContaining(code) });
    expect(proxy.stderr()).toContain(code);

    const switched = await post<ChangedBody>(proxy, 'legacy', { reason: 'the disk is read-only' });
    expect(switched).toMatchObject({ status: 200, body: { changed: true, unwritten: expect.stringContaining(code) } });
    expect((await statusOf(proxy)).summary).toContain('call-lifecycle legacy');
    const back = await post<ChangedBody>(proxy, 'rollback', { version });
    expect(back).toMatchObject({ status: 200, body: { unwritten: expect.stringContaining(code) } });
    const again = await post<ChangedBody>(proxy, 'legacy', {});
    expect(again.body.version.version).toBeGreaterThan(back.body.version.version);
    expect(await kindsIn(log)).toEqual(before);

    thaw(folder);
    await until(async () => (await statusOf(proxy)).problem === null, 'it is written');
    expect(await kindsIn(log)).toEqual([...before, 'legacy', 'rollback', 'legacy']);
    const { versions } = await get<HistoryBody>(proxy, 'routes/history');
    expect(versions[0]).toMatchObject({ kind: 'legacy', version: again.body.version.version });
    expect((await post<ChangedBody>(proxy, 'set', share(7))).body).toMatchObject({ changed: true, unwritten: null });
  }

  test('in mid-run: a set is refused, the red switch is in force and is written later, a restart has it', async () => {
    const proxy = await start();
    await post(proxy, 'set', share(5));
    freeze(folder);
    await held(proxy, beside, 2, ['start', 'set']);
    await proxy.kill();
    freeze(folder);
    const restarted = await start();
    expect((await statusOf(restarted)).summary).toContain('call-lifecycle canary 7 %');
  });

  test.each([
    ['beside the routes file', []],
    ['named by --routes-log', ['--routes-log', '@']],
  ])(
    'at a start, with a log %s: its last version is in force, which is told, and it is written later',
    async (_name, args) => {
      const named = args.map((arg) => (arg === '@' ? beside : arg));
      const first = await start(...named);
      await post(first, 'set', share(5));
      await first.kill();
      freeze(folder);
      const proxy = await start(...named);
      expect(proxy.stderr()).toContain(
        `${beside} can't be written (${code}): routes can't be set until it can; name another with --routes-log`,
      );
      expect(await statusOf(proxy)).toMatchObject({ version: 2, log: beside });
      expect((await statusOf(proxy)).summary).toContain('call-lifecycle canary 5 %');
      if (named.length === 0) await held(proxy, beside, 2, ['start', 'set']);
      else expect((await post<ErrorBody>(proxy, 'set', share(9))).body.problems[0]).toContain(code);
    },
  );

  test('at a start, with a log that ends in half a line: what is before it is in force', async () => {
    const first = await start();
    await post(first, 'set', share(5));
    await first.kill();
    await writeFile(beside, `${await readFile(beside, 'utf8')}{"version":3,"at":"20`);
    freeze(folder);
    const proxy = await start();
    expect(await statusOf(proxy)).toMatchObject({ version: 2 });
    expect(proxy.stderr()).toContain(`it is passed over (it can't be cut off: ${code})`);
    thaw(folder);
    expect((await post<ChangedBody>(proxy, 'set', share(7))).body.version).toMatchObject({ version: 3 });
    await proxy.kill();
    const restarted = await start();
    expect(await statusOf(restarted)).toMatchObject({ version: 3, problem: null });
  });

  test('at a start, with no log yet: routes can be set, and are lost at a restart, which is told', async () => {
    freeze(folder);
    const proxy = await start();
    expect(proxy.stderr()).toContain(
      `${beside} can't be written (${code}): changes of routes are lost at a restart; name a file with --routes-log`,
    );
    expect(await statusOf(proxy)).toMatchObject({ version: 1, log: null, problem: null });
    expect((await post<ChangedBody>(proxy, 'set', share(5))).body).toMatchObject({ changed: true, unwritten: null });
  });

  test('at a start, with a named log that is not there yet', async () => {
    const log = join(folder, 'named.jsonl');
    freeze(folder);
    const starting = start('--routes-log', log);
    if (code !== 'EROFS') {
      await expect(starting).rejects.toThrow(
        `--routes-log: can't write ${log} (${code}); name a file in a folder that this user may write`,
      );
      return;
    }
    // A disk that will be writable again: it runs, by the routes file, and catches up.
    const proxy = await starting;
    expect(await statusOf(proxy)).toMatchObject({ version: 1, log, problem: expect.stringContaining(code) });
    expect((await post<ErrorBody>(proxy, 'set', share(5))).status).toBe(503);
    thaw(folder);
    await until(async () => (await statusOf(proxy)).problem === null, 'it is written');
    expect(await kindsIn(log)).toEqual(['start']);
  });
});
