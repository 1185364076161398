// The command as an operator runs it: a process of its own, from the built package.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folder = mkdtempSync(join(tmpdir(), 'cli-'));
const secret = join(folder, 'secret');
const legacy = createServer((_request, response) => response.end('from the legacy'));
let legacyUrl: string;

beforeAll(async () => {
  writeFileSync(secret, 'a secret of this test');
  // Not built here: other tests that run at the same time use the same files.
  expect(existsSync(join(root, 'dist/src/cli/sigfig.js')), 'run "npm run build" first').toBe(true);
  legacy.listen(0, '127.0.0.1');
  await once(legacy, 'listening');
  legacyUrl = `http://127.0.0.1:${(legacy.address() as AddressInfo).port}`;
});
const children: ChildProcess[] = [];
afterEach(async () => {
  for (const child of children.splice(0)) {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill('SIGKILL');
      await once(child, 'close');
    }
  }
});
afterAll(() => {
  legacy.closeAllConnections();
  legacy.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Its output as it grows, and its end. */
function sigfig(...args: string[]) {
  const child = spawn(process.execPath, [join(root, 'dist/src/cli/sigfig.js'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH },
  });
  children.push(child);
  const seen = { out: '', err: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    seen.out += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    seen.err += text;
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...seen }));
  return { child, seen, ended };
}
const startArgs = (...more: string[]) => {
  const any = '127.0.0.1:0';
  const needed = ['--legacy', legacyUrl, '--jwt-secret-file', secret];
  return ['start', ...needed, '--listen', any, '--admin', any, '--metrics', any, ...more];
};
const ready =
  /^ready proxy=(http:\/\/127\.0\.0\.1:\d+) admin=(http:\/\/127\.0\.0\.1:\d+) metrics=(http:\S+\/metrics)\n$/;

async function started(...more: string[]) {
  const process = sigfig(...startArgs(...more));
  await expect.poll(() => process.seen.out || process.seen.err, { timeout: 15_000 }).toContain('ready');
  const [, proxy = '', admin = '', metrics = ''] = ready.exec(process.seen.out) ?? [];
  return { ...process, proxy, admin, metrics };
}

describe('sigfig start', () => {
  test('says where it listens, serves all three, and drains at SIGTERM', async () => {
    const { child, seen, ended, proxy, admin, metrics } = await started('--drain-delay', '0', '--drain', '100ms');
    expect(seen.out).toMatch(ready);
    expect(await (await fetch(`${proxy}/hello`)).text()).toBe('from the legacy');
    expect((await fetch(`${admin}/healthz`)).status).toBe(200);
    await expect.poll(async () => (await fetch(`${admin}/readyz`)).status).toBe(200);
    expect(await (await fetch(metrics)).text()).toContain('sigfig_build{');
    child.kill('SIGTERM');
    const { code, out, err } = await ended;
    expect(code).toBe(0);
    expect(out).toMatch(ready);
    // Machines read its stderr: every line is JSON.
    for (const line of err.trim().split('\n')) expect(() => JSON.parse(line), line).not.toThrow();
  });

  test('a second signal stops it at once', async () => {
    const { child, seen, ended } = await started('--drain-delay', '60s');
    child.kill('SIGINT');
    await expect.poll(() => seen.err).toContain('draining');
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
  });

  test('goes on where the reader of its output goes away', async () => {
    const { child, proxy, ended } = await started('--log-level', 'debug', '--drain-delay', '0', '--drain', '0');
    child.stdout?.destroy();
    child.stderr?.destroy();
    for (let i = 0; i < 3; i++) expect((await fetch(`${proxy}/hello`)).status).toBe(200);
    child.kill('SIGTERM');
    expect((await ended).code).toBe(0);
  });
});

describe('what keeps it from starting is one line on stderr and 2', () => {
  const broken = join(folder, 'broken.yaml');
  writeFileSync(broken, 'namespaces:\n  /:\n    call-offer: new\n');

  test.each([
    ['a wrong flag', ['--listen', '8080'], /^sigfig: --listen: "8080" is no address; write host:port/],
    ['an unknown flag', ['--lisen', 'x'], /^sigfig: unknown option '--lisen'/],
    ['a broken route table', ['--routes', broken], /^sigfig: \S*broken\.yaml:3: in "\/" call-offer is new and /],
  ])('%s', async (_name, args, line) => {
    const { code, out, err } = await sigfig(...startArgs(...args)).ended;
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(line);
    expect(err.match(/\n/g)).toHaveLength(1);
  });

  test.each(['--listen', '--admin', '--metrics'])('a taken port for %s', async (flag) => {
    const taken = new URL(legacyUrl).host;
    const { code, out, err } = await sigfig(...startArgs(flag, taken)).ended;
    expect({ code, out }).toEqual({ code: 2, out: '' });
    // What was logged before that is JSON.
    expect(err.replace(/^\{.*\n/gm, '')).toBe(
      `sigfig: can't listen on ${taken}: the port is taken; stop what listens there, or give another port\n`,
    );
  });
});
