// The admin API while the disk that holds the log of routes is full, on a sigfig of its own: nothing is changed that could not
// be kept, but the way back to the legacy is open, and is in the log when there is room again.
import { execFileSync } from 'node:child_process';
import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { ChangedBody, ErrorBody, HistoryBody, StatusBody } from '../../src/admin/api.js';
import { until } from '../harness.js';
import { type Processes, processes } from '../processes.js';

let running: Processes;
let legacy: string;
beforeEach(async () => {
  running = await processes();
  legacy = (await running.legacy()).url;
});
afterEach(() => running.close());

/** The largest file that a running process may write; stands for a full disk, and `unlimited` for one with room. */
const room = (pid: number, bytes: number | 'unlimited') =>
  void execFileSync('prlimit', [`--fsize=${bytes}:`, '--pid', String(pid)]);

const post = async <T>(admin: string, path: string, body: object): Promise<{ status: number; body: T }> => {
  const response = await fetch(admin + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-sigfig-actor': 'alice' },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: (await response.json()) as T };
};
const get = async <T>(admin: string, path: string): Promise<T> => (await (await fetch(admin + path)).json()) as T;

test('a set is refused, the red switch is in force at once, and a restart has it in force', async () => {
  const yaml = 'namespaces:\n  /:\n    calls: new\n';
  const proxy = await running.proxy(legacy, yaml);
  const log = join(running.folder, 'routes-1.yaml.history.jsonl');
  const { size } = await stat(log);
  room(proxy.pid, size + 100);

  const set = await post<ErrorBody>(proxy.admin, '/api/routes/set', {
    ...{ target: 'calls', mode: 'canary', percent: 5, reason: 'for a test' },
  });
  expect(set.status).toBe(503);
  expect(set.body).toEqual({
    error: 'unwritable',
    problems: [expect.stringMatching(/history\.jsonl can't be written \(EFBIG\); make room or make it writable/)],
  });
  const { routes } = await get<StatusBody>(proxy.admin, '/api/status');
  expect(routes).toMatchObject({ version: 1, log, problem: expect.stringContaining('EFBIG') });
  expect(routes.summary).toContain('call-lifecycle new');
  expect((await stat(log)).size, 'no half line').toBe(size);

  const switched = await post<ChangedBody>(proxy.admin, '/api/routes/legacy', { reason: 'the disk is full' });
  expect(switched.status).toBe(200);
  expect(switched.body).toMatchObject({ changed: true, unwritten: expect.stringContaining('EFBIG') });
  expect(switched.body.version).toMatchObject({ version: 2, actor: 'alice', kind: 'legacy' });
  expect((await get<StatusBody>(proxy.admin, '/api/status')).routes.summary).toContain('call-lifecycle legacy');
  const back = await post<ChangedBody>(proxy.admin, '/api/routes/rollback', { version: 1 });
  const forth = await post<ChangedBody>(proxy.admin, '/api/routes/legacy', {});
  expect([back, forth].map(({ status, body }) => [status, body.version.version])).toEqual([
    [200, 3],
    [200, 4],
  ]);
  expect((await stat(log)).size).toBe(size);

  room(proxy.pid, 'unlimited');
  await until(async () => (await get<StatusBody>(proxy.admin, '/api/status')).routes.problem === null, 'it is written');
  const { versions } = await get<HistoryBody>(proxy.admin, '/api/routes/history');
  const lines = (await readFile(log, 'utf8')).trimEnd().split('\n');
  expect(lines.map((line) => (JSON.parse(line) as { kind: string }).kind)).toEqual([
    ...['start', 'legacy', 'rollback', 'legacy'],
  ]);
  expect(versions.map(({ version, kind }) => `${version} ${kind}`)).toEqual([
    ...['4 legacy', '3 rollback', '2 legacy', '1 start'],
  ]);

  proxy.signal('SIGKILL');
  await proxy.exited;
  const again = await running.proxy(legacy, yaml, ['--routes-log', log]);
  const status = await get<StatusBody>(again.admin, '/api/status');
  expect(status.routes).toMatchObject({ version: 4, problem: null });
  expect(status.routes.summary).toContain('call-lifecycle legacy');
});
