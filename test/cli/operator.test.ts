// The operator's commands as they are run: the built command against a real sigfig with live calls, in pipes, with tokens,
// and with a server that dies while it is watched.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CallBody, CallsBody, ChangedBody, HistoryBody, RoutesBody, StatusBody } from '../../src/admin/api.js';
import { sigfig as operate } from '../../src/cli/sigfig.js';
import { allLegacy, type Client, connect, until, within } from '../harness.js';
import { type Processes, processes } from '../processes.js';

const command = fileURLToPath(new URL('../../dist/src/cli/sigfig.js', import.meta.url));
const children = new Set<ChildProcess>();
afterEach(() => {
  for (const child of children) child.kill('SIGKILL');
  children.clear();
});

let bed: Processes;
let legacy: Awaited<ReturnType<Processes['legacy']>>;
let proxy: Awaited<ReturnType<Processes['proxy']>>;
beforeAll(async () => {
  expect(existsSync(command), 'run "npm run build" first').toBe(true);
  bed = await processes();
  legacy = await bed.legacy();
  proxy = await bed.proxy(legacy.url, allLegacy);
});
afterAll(() => bed.close());

interface Spawned {
  readonly child: ChildProcess;
  readonly seen: { out: string; err: string };
  readonly ended: Promise<{ code: number | null; out: string; err: string }>;
}

/** The command with its output as it grows; its environment has only what is given. */
function spawned(
  args: readonly string[],
  { env = { SIGFIG_ADMIN: proxy.admin }, input }: { env?: Record<string, string>; input?: string } = {},
): Spawned {
  const child = spawn(process.execPath, [command, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, ...env },
  });
  children.add(child);
  const seen = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen.out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    seen.err += text;
  });
  // A command that reads no input may be gone before it is written.
  child.stdin.on('error', () => undefined).end(input ?? '');
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...seen }));
  return { child, seen, ended };
}
/** The same command in this process, which is quicker by the start of one; where a pipe or a signal counts, it is spawned. */
async function sigfig(
  args: readonly string[],
  { env = { SIGFIG_ADMIN: proxy.admin }, input }: { env?: Record<string, string>; input?: string } = {},
) {
  const seen = { out: '', err: '' };
  const ended = operate(args, {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: () => Promise.reject(new Error('nothing is started here')),
    readInput: async () => input ?? '',
    env,
    user: 'ops',
  });
  const code = await within(20_000, `sigfig ${args.join(' ')} ends`, ended);
  return { code, ...seen };
}
async function json<T>(...args: string[]): Promise<T> {
  const { code, out, err } = await sigfig([...args, '--json']);
  expect({ code, err }).toEqual({ code: 0, err: '' });
  return JSON.parse(out);
}

async function pair(name: string, url = proxy.url): Promise<{ a: Client; b: Client; conversationId: string }> {
  const options = { transports: ['websocket'] as ['websocket'] };
  const [a, b] = await Promise.all([connect(url, `${name}-a`, options), connect(url, `${name}-b`, options)]);
  return { a, b, conversationId: `dm:${a.user}:${b.user}` };
}

describe('an evening of an operator', () => {
  test('a canary, a look at its calls, a step back, the red switch', async () => {
    const first = await json<RoutesBody>('routes', 'list');
    expect(first).toMatchObject({ version: 1, namespaces: { '/': { 'call-lifecycle': { mode: 'legacy' } } } });

    // On the legacy, before anything is moved.
    const old = await pair('old');
    await old.a.ask('call-offer', { conversationId: old.conversationId, offer: 'o' });
    await old.b.next('call-offer');
    const young = await pair('young');

    const canary = ['routes', 'set', 'calls', 'canary', '--percent', '0', '--users', young.a.user];
    const dry = await sigfig([...canary, '--dry-run']);
    expect(dry).toMatchObject({ code: 0, err: '' });
    expect(dry.out).toMatch(/^dry run, from version 1; nothing was changed\n/);
    expect(dry.out).toContain("puts 1 user (1 connected) on the canary's list");
    expect(dry.out).toContain('1 live call stays on legacy');
    expect((await json<RoutesBody>('routes', 'list')).version).toBe(1);

    const set = await sigfig([...canary, '--reason', 'the first one']);
    expect(set).toMatchObject({ code: 0, err: '' });
    expect(set.out).toMatch(/^version 2 is in force on 1 of 1 instance\n {2}\/ calls: legacy → canary 0 %, users /);
    const again = await sigfig([...canary, '--reason', 'the first one']);
    expect(again).toEqual({ code: 0, out: 'nothing to do: version 2 is like that already\n', err: '' });

    // The one that is named begins a call on the new path; the old one is where it was.
    await young.a.ask('call-offer', { conversationId: young.conversationId, offer: 'o' });
    await young.b.next('call-offer');
    const calls = await json<CallsBody>('calls', 'list', '--path', 'new');
    expect(calls.calls).toMatchObject([{ path: 'new', because: 'canary', offerer: young.a.user, state: 'OFFERING' }]);
    const [call] = calls.calls;
    expect((await json<CallsBody>('calls', 'list', '--search', 'old-a')).calls).toMatchObject([{ path: 'legacy' }]);
    await young.b.ask('call-answer', { conversationId: young.conversationId, answer: 'a' });
    await young.a.next('call-answer');
    const shown = await json<CallBody>('calls', 'show', call?.id ?? '');
    expect(shown.timeline.map(({ to }) => to).slice(-2)).toEqual(['OFFERING', 'CONNECTED']);
    const text = await sigfig(['calls', 'show', call?.id ?? '']);
    expect(text.out).toMatch(/OFFERING +CONNECTED +call-answer/);

    const ended = await sigfig(['calls', 'end', call?.id ?? '', '--reason', 'asked for']);
    expect(ended).toEqual({ code: 0, out: `call ${call?.id} has ended\n`, err: '' });
    expect(await young.b.next('call-ended')).toMatchObject({ reason: 'operator' });
    const legacyCall = (await json<CallsBody>('calls', 'list', '--path', 'legacy')).calls[0]?.id ?? '';
    const refused = await sigfig(['calls', 'end', legacyCall, '--reason', 'x', '--json']);
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.err)).toMatchObject({ error: 'legacy-call', exit: 1 });

    // Back, and forth by number.
    const back = await json<ChangedBody>('routes', 'rollback');
    expect(back.version).toMatchObject({ version: 3, kind: 'rollback', via: 'cli' });
    expect((await json<ChangedBody>('routes', 'rollback', '2')).version.version).toBe(4);
    await young.a.ask('call-offer', { conversationId: young.conversationId, offer: 'o' });
    await young.b.next('call-offer');
    const red = await sigfig(['routes', 'legacy', '--all', '--end-calls', '--reason', 'enough']);
    expect(red).toMatchObject({ code: 0, err: '' });
    expect(red.out).toContain('ended 1 call\n');
    expect(await young.a.next('call-ended')).toMatchObject({ reason: 'operator' });

    const history = await json<HistoryBody>('routes', 'history', '--limit', '5');
    expect(history.versions.map(({ version, kind }) => [version, kind])).toEqual([
      [5, 'legacy'],
      [4, 'rollback'],
      [3, 'rollback'],
      [2, 'set'],
      [1, 'start'],
    ]);
    expect(await json<StatusBody>('status')).toMatchObject({ ready: true, routes: { version: 5 } });
    for (const client of [old.a, old.b, young.a, young.b]) client.close();
  });

  test('a table goes out, is edited, and comes back in through pipes', async () => {
    await sigfig(['routes', 'legacy', '--all']);
    const { out: yaml } = await sigfig(['routes', 'list', '--yaml']);
    const file = join(bed.folder, 'out.yaml');
    await writeFile(file, yaml);
    expect((await sigfig(['routes', 'diff', file])).code).toBe(0);
    const edited = yaml.replace(/^namespaces:.*$/ms, 'namespaces: { /: { ice-candidate: new } }\n');
    expect(edited).not.toBe(yaml);
    const diff = await sigfig(['routes', 'diff', '-'], { input: edited });
    expect(diff).toMatchObject({ code: 1, err: '' });
    expect(diff.out).toContain('  / ice-candidate: legacy → new\n');
    expect((await sigfig(['routes', 'apply', '-', '--reason', 'piped'], { input: edited })).code).toBe(0);
    const now = await json<RoutesBody>('routes', 'list');
    expect(now).toMatchObject({ reason: 'piped', namespaces: { '/': { 'ice-candidate': { mode: 'new' } } } });

    await writeFile(file, 'namespaces:\n  /:\n    call-offer: new\n');
    const line = /^sigfig: \S*out\.yaml:3: .*call-lifecycle[^\n]*\n$/;
    const bad = await sigfig(['routes', 'apply', file, '--reason', 'x']);
    expect(bad).toMatchObject({ code: 1, out: '', err: expect.stringMatching(line) });
    expect(await sigfig(['routes', 'diff', file])).toMatchObject({ code: 2, err: expect.stringMatching(line) });
    expect((await json<RoutesBody>('routes', 'list')).version).toBe(now.version);
  });

  test('what would split a call names the command that works, and that works', async () => {
    const { code, err } = await sigfig(['routes', 'set', 'call-offer', 'new', '--reason', 'x', '--dry-run']);
    expect(code).toBe(1);
    const works = /sigfig (routes set call-lifecycle new)\n$/.exec(err)?.[1] ?? '';
    expect(err.match(/\n/g)).toHaveLength(1);
    expect((await sigfig([...works.split(' '), '--reason', 'x', '--dry-run'])).code).toBe(0);
  });

  test('of two operators who saw the same version one wins', async () => {
    const { version } = await json<RoutesBody>('routes', 'list');
    const set = (target: string) =>
      sigfig(['routes', 'set', target, 'canary', '--percent', '3', '--reason', target, '--if-version', `${version}`]);
    const ends = await Promise.all([set('call-lifecycle'), set('call-renegotiation')]);
    expect(ends.map(({ code }) => code).sort()).toEqual([0, 5]);
    const lost = ends.find(({ code }) => code === 5);
    expect(lost?.err).toContain(`version ${version + 1} is in force by now`);
    expect(lost?.err).toContain(`with what is in force now it is --if-version ${version + 1}\n`);
  });
});

describe('tokens', () => {
  const read = 'a-token-that-may-read';
  const operate = 'a-token-that-may-operate';
  let guarded: Awaited<ReturnType<Processes['proxy']>>;
  const file = (name: string) => join(bed.folder, name);
  beforeAll(async () => {
    await writeFile(file('tokens'), `read rita ${read}\noperate olga ${operate}\n`);
    await writeFile(file('olga'), `${operate}\n`);
    guarded = await bed.proxy(legacy.url, allLegacy, ['--admin-tokens', file('tokens')]);
  });

  test('none, a wrong one, one that may only read, and the right one', async () => {
    const set = ['routes', 'set', 'calls', 'new', '--reason', 'x'];
    const run = (args: string[], env: Record<string, string>) =>
      sigfig(args, { env: { SIGFIG_ADMIN: guarded.admin, ...env } });
    const ends = [
      await run(['status'], {}),
      await run(['status'], { SIGFIG_TOKEN: 'a-token-of-somebody-else' }),
      await run(['routes', 'watch'], { SIGFIG_TOKEN: 'a-token-of-somebody-else' }),
      await run(set, { SIGFIG_TOKEN: read }),
      await run(['routes', 'legacy', '--all'], { SIGFIG_TOKEN: read }),
    ];
    for (const { code, out, err } of ends) {
      expect({ code, out }).toEqual({ code: 4, out: '' });
      expect(err).toMatch(/^(sigfig: [^\n]+\n)+$/);
      expect(err).not.toMatch(/a-token-/);
    }
    expect(ends[0]?.err).toContain('no token was given; name a file that holds it alone by --token-file');
    expect(ends[1]?.err).toContain('the token that was given is not one of them');
    expect(ends[3]?.err).toContain('rita may only read');
    expect((await run(['routes', 'diff', '-'], { SIGFIG_TOKEN: read })).code).toBe(0);
    expect(await run([...set, '--token-file', file('olga')], {})).toMatchObject({ code: 0, err: '' });
    const { out } = await run(['routes', 'history'], { SIGFIG_TOKEN_FILE: file('olga') });
    expect(out).toMatch(/^2 .* olga +cli +set /m);
    expect(guarded.stderr()).not.toMatch(/a-token-/);
  });
});

describe('not reachable', () => {
  test.each([
    ['the port of browsers', () => proxy.url],
    ['the port of metrics', () => new URL(proxy.metrics).origin],
    ['nothing', () => 'http://127.0.0.1:1'],
  ])('%s: 3, and a line that says which address it must be', async (_name, admin) => {
    const { code, out, err } = await sigfig(['routes', 'list', '--admin', admin()]);
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(/^sigfig: [^\n]*give the (admin )?address [^\n]+\n$/);
  });
});

describe('pipes', () => {
  test('a watch ends when its reader does', async () => {
    const { child, seen, ended } = spawned(['routes', 'watch']);
    await until(() => seen.out.includes(' total version='), 'a snapshot came');
    child.stdout?.destroy();
    expect(await within(10_000, 'the watch ends', ended)).toMatchObject({ code: 0, err: '' });
  });

  test('a list that nobody reads is no fault', async () => {
    const { child, ended } = spawned(['routes', 'list']);
    child.stdout?.destroy();
    expect(await within(10_000, 'the list ends', ended)).toMatchObject({ code: 0, err: '' });
  });

  test('a table goes from one command into the next, without colours', async () => {
    const list = await within(20_000, 'the list ends', spawned(['routes', 'list', '--yaml']).ended);
    expect(list).toMatchObject({ code: 0, err: '' });
    const diff = await within(20_000, 'the diff ends', spawned(['routes', 'diff', '-'], { input: list.out }).ended);
    expect(diff).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/^- says what is in force, version \d+\n$/),
    });
    const status = await within(20_000, 'the status ends', spawned(['status']).ended);
    expect(status).toMatchObject({ code: 0, err: '' });
    expect(status.out).not.toContain('\x1b');
  });

  test('exit codes and lines on stderr are those of the process', async () => {
    const ends = await Promise.all([
      spawned(['calls', 'show', 'nobody']).ended,
      spawned(['routes', 'set', 'calls', 'new']).ended,
      spawned(['status', '--admin', 'http://127.0.0.1:1']).ended,
    ]);
    expect(ends.map(({ code }) => code)).toEqual([1, 2, 3]);
    for (const { out, err } of ends)
      expect({ out, lines: err.match(/^sigfig: .*\n/gm)?.length }).toEqual({ out: '', lines: 1 });
  });

  test('Ctrl-C ends a watch', async () => {
    const { child, seen, ended } = spawned(['routes', 'watch']);
    await until(() => seen.out !== '', 'a snapshot came');
    child.kill('SIGINT');
    expect(await within(10_000, 'the watch ends', ended)).toMatchObject({ code: 0, err: '' });
  });
});

test('a server that dies while it is watched, and comes back with what was in force', async () => {
  const log = ['--routes-log', join(bed.folder, 'versions.jsonl')];
  const first = await bed.proxy(legacy.url, allLegacy, log);
  const { host } = new URL(first.admin);
  const env = { SIGFIG_ADMIN: host };
  expect((await sigfig(['routes', 'set', 'calls', 'new', '--reason', 'x'], { env })).code).toBe(0);
  const { child, seen, ended } = spawned(['routes', 'watch'], { env });
  await until(() => seen.out.includes(' total version=2 '), 'the watch sees version 2');
  await first.kill();
  await until(() => seen.err.includes('connection lost ('), 'the watch says that it lost the connection');
  const before = seen.out.length;
  await bed.proxy(legacy.url, allLegacy, [...log, '--admin', host]);
  await until(() => seen.out.slice(before).includes(' total version=2 '), 'the watch goes on', 20_000);
  child.kill('SIGTERM');
  expect((await within(10_000, 'the watch ends', ended)).code).toBe(0);
});
