// The built command, as QA runs it: exit codes, one line for each thing to mend, and a whole run with its own processes.
// `npm test` builds first.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type Process, startProxy, startStub } from './targets/processes.js';
import { packageRoot } from './targets/root.js';

let folder = '';
let scenarios = '';
let stub: Process & { readonly url: string };
let other: typeof stub;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'parity-test-'));
  scenarios = join(folder, 'scenarios');
  await mkdir(scenarios);
  await writeFile(join(folder, 'secret'), 'the secret of the stub of this test, long enough');
  await writeFile(join(folder, 'wrong'), 'another secret that the stub does not have, as long');
  await writeFile(join(folder, 'none.yaml'), '[]\n');
  stub = await startStub(join(folder, 'secret'), { rejoinTimeoutMs: 1_000 });
  other = await startStub(join(folder, 'wrong'), { rejoinTimeoutMs: 1_000 });
});

afterAll(async () => {
  await Promise.all([stub.kill(), other.kill()]);
  await rm(folder, { recursive: true, force: true });
});

interface Ended {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const parity = (...args: string[]): Promise<Ended> => command('dist/parity/cli.js', ...args);

function command(script: string, ...args: string[]): Promise<Ended> {
  return new Promise((resolve) => {
    execFile(process.execPath, [join(packageRoot, script), ...args], { timeout: 60_000 }, (error, out, err) => {
      resolve({ code: error ? Number(error.code) : 0, out, err });
    });
  });
}

const scenario = (message: string) => `name: refused
about: A call of a stranger's conversation is refused.
parties: { alice: , bob: , carol: }
steps:
  - { emit: call-offer, by: carol, payload: { conversationId: $call, offer: o1 } }
expect:
  carol:
    - { refused: call-offer, because: ${message} }
`;

/** Only these scenarios, without accepted differences. */
async function given(text: string): Promise<string[]> {
  await writeFile(join(scenarios, 'given.yaml'), text);
  return ['--scenarios', scenarios, '--differences', join(folder, 'none.yaml')];
}

it('its help names the command as it is written, and times as they are given', async () => {
  expect((await parity('--help')).out).toMatch(/^Usage: sigfig parity /);
  const { out } = await parity('run', '--help');
  expect(out).toMatch(/^Usage: sigfig parity run /);
  expect(out.replace(/\s+/g, ' ')).toContain('longest wait for an acknowledgement or an event (default: 10s)');
});

describe('parity run', () => {
  it('plays on every path with processes of its own, and writes the reports', { timeout: 60_000 }, async () => {
    const report = join(folder, 'report');
    const { code, out, err } = await command(
      'dist/src/cli/sigfig.js',
      'parity',
      'run',
      '--only',
      'offer-answer-end*',
      '--path',
      'legacy,proxy-new,peeled',
      '--report',
      report,
    );
    expect({ code, err }, out).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/legacy\/websocket .*peeled\/polling/);
    expect(out).toMatch(/^offer-answer-end( +✓){6}$/m);
    expect(await readFile(join(report, 'report.html'), 'utf8')).toContain('Every path behaves as expected');
    expect(JSON.parse(await readFile(join(report, 'report.json'), 'utf8'))).toMatchObject({ counts: { differs: 0 } });
    expect(await readFile(join(report, 'junit.xml'), 'utf8')).toContain('failures="0"');
  });

  it('exits with 1 where something differs', { timeout: 60_000 }, async () => {
    const files = await given(scenario('Who are you'));
    const { code, out } = await parity('run', '--path', 'legacy', '--transport', 'websocket', ...files);
    expect(code).toBe(1);
    expect(out).toContain('carol: error: message: "Not a participant" instead of "Who are you"');
  });

  it('plays against a backend that is there, with its secret or with a command', { timeout: 60_000 }, async () => {
    const files = await given(scenario('Not a participant'));
    const url = ['--legacy', `${stub.url}/`, '--rejoin-timeout', '1s'];
    const secret = ['--jwt-secret-file', join(folder, 'secret')];
    const bySecret = await parity('run', ...url, ...secret, '--path', 'legacy', ...files);
    expect(bySecret.code, bySecret.out + bySecret.err).toBe(0);

    const login = join(folder, 'login.sh');
    const body = `-d "{\\"username\\":\\"$1\\"}" ${stub.url}/api/auth/login`;
    await writeFile(login, `curl -s -X POST -H 'content-type: application/json' ${body}\n`);
    const byCommand = await parity('run', ...url, '--token-command', `sh ${login}`, '--path', 'legacy', ...files);
    expect(byCommand.code, byCommand.out + byCommand.err).toBe(0);
  });

  it('puts the parties on different ones of several proxies, and needs two for a cluster', {
    timeout: 60_000,
  }, async () => {
    const proxies = await Promise.all(
      [1, 2].map(() => startProxy(stub.url, folder, 'legacy', { rejoinTimeoutMs: 1_000 })),
    );
    try {
      const at = ['--legacy', stub.url, '--jwt-secret-file', join(folder, 'secret'), '--rejoin-timeout', '1s'];
      const both = proxies.flatMap(({ url }) => ['--proxy', url]);
      const only = ['--only', 'offer-answer-end*', '--transport', 'websocket'];
      const played = await parity(
        'run',
        ...at,
        ...both,
        '--proxy-is',
        'proxy-legacy',
        '--path',
        'proxy-legacy',
        ...only,
      );
      expect(played.code, played.out + played.err).toBe(0);
      // Alice's connections were counted by one of them, bob's by the other, and so were the probe's.
      for (const { ready } of proxies) {
        const metrics = await (await fetch(/metrics=(\S+)/.exec(ready)?.[1] ?? '')).text();
        expect(metrics).toMatch(/^sigfig_connections_opened_total\{[^}]*transport="websocket"[^}]*\} [2-9]/m);
      }
      // Without a word of how they are routed they are a cluster.
      const unsaid = await parity('run', ...at, ...both, ...only);
      expect(unsaid.code, unsaid.out + unsaid.err).toBe(0);
      expect(unsaid.out).toMatch(/^offer-answer-end +✓ +– +– +– +✓$/m);
      expect(unsaid.out).toContain('– not run: proxy-new the proxy is routed as cluster; see --proxy-is');
      const one = await parity('run', ...at, '--proxy', proxies[0]?.url ?? '', '--path', 'cluster', ...only);
      expect(one.code).toBe(2);
      expect(one.out).toContain('– not run: cluster give --proxy for each of several instances');
    } finally {
      await Promise.all(proxies.map((proxy) => proxy.kill()));
    }
  });

  it('says what it could not run', { timeout: 60_000 }, async () => {
    const flip = '  - { flip: new }\n  - { emit';
    const files = await given(scenario('Not a participant').replace('  - { emit', flip));
    const secret = ['--jwt-secret-file', join(folder, 'secret')];
    const at = ['--legacy', stub.url, '--proxy', stub.url, ...secret, ...files];
    const { code, out } = await parity('run', '--path', 'proxy-legacy,proxy-new', ...at);
    // Nothing at all was played: that is no success.
    expect(code, out).toBe(2);
    expect(out).toContain('– not run: proxy-new routes are set with --admin (refused)');
    expect(out).toContain(
      '– not run: proxy-legacy the proxy is routed as proxy-new; see --proxy-is, or set its routes with --admin (refused)',
    );
  });

  it('sets the routes of a sigfig that runs already for each path, and sets them back', {
    timeout: 120_000,
  }, async () => {
    const proxy = await startProxy(stub.url, folder, 'peeled', { rejoinTimeoutMs: 1_000 });
    try {
      const admin = /admin=(\S+)/.exec(proxy.ready)?.[1] ?? '';
      const { code, out, err } = await parity(
        ...['run', '--legacy', stub.url, '--proxy', proxy.url, '--admin', `${admin}/`, '--rejoin-timeout', '1s'],
        ...['--jwt-secret-file', join(folder, 'secret'), '--only', 'merged-acknowledgement*'],
      );
      expect({ code, err }, out).toEqual({ code: 0, err: '' });
      expect(out).toMatch(/^merged-acknowledgement-over-a-flip( +✓){8}$/m);
      const routes = (await (await fetch(`${admin}/api/routes`)).json()) as RoutesInForce;
      expect(routes.namespaces['/']['call-lifecycle']?.mode).toBe('legacy');
      expect(routes.namespaces['/']['ice-candidate']?.mode).toBe('new');
      const { versions } = (await (await fetch(`${admin}/api/routes/history`)).json()) as { versions: unknown[] };
      expect(versions.length).toBeGreaterThan(3);
    } finally {
      await proxy.kill();
    }
  });
});

interface RoutesInForce {
  readonly namespaces: { readonly '/': Readonly<Record<string, { readonly mode: string }>> };
}

describe('told to end', () => {
  it.each([
    ['run', ['dist/parity/cli.js', 'run', '--only', 'rejoin-timeout', '--path', 'legacy']],
    ['random lifecycles', ['dist/parity/fuzz/cli.js', '--runs', '100000', '--path', 'legacy']],
    ['planted faults', ['dist/parity/proof/cli.js']],
  ])('%s leave no process and no secret behind', { timeout: 60_000 }, async (name, [script = '', ...args]) => {
    const tmp = await mkdtemp(join(folder, 'tmp-'));
    const child = spawn(process.execPath, [join(packageRoot, script), ...args], {
      env: { ...process.env, TMPDIR: tmp },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = once(child, 'exit');
    // Its secret is there once it starts what it plays against; random lifecycles say when they begin.
    if (name === 'random lifecycles') await once(child.stdout, 'data');
    else await vi.waitFor(async () => expect(await readdir(tmp, { recursive: true })).toHaveLength(2), 30_000);
    child.kill('SIGTERM');
    expect(await ended).toEqual([130, null]);
    // What kills the processes is one list with what removes the folder.
    expect(await readdir(tmp)).toEqual([]);
  });
});

describe('what can not be run is one line and exit code 2', () => {
  it.each([
    [
      'a dead target',
      () => ['--legacy', 'http://127.0.0.1:1', '--jwt-secret-file', join(folder, 'secret')],
      /^parity: --legacy http:\/\/127\.0\.0\.1:1 can't be reached/,
    ],
    [
      'a wrong secret',
      () => ['--legacy', stub.url, '--jwt-secret-file', join(folder, 'wrong')],
      /^parity: .* refuses our tokens \(unauthorized\)/,
    ],
    [
      'a proxy of another backend',
      () => ['--legacy', stub.url, '--proxy', other.url, '--jwt-secret-file', join(folder, 'secret')],
      /^parity: .* refuses our tokens \(unauthorized\)/,
    ],
    ['no secret', () => ['--legacy', stub.url], /^parity: --legacy needs --jwt-secret-file or --token-command/],
    [
      'a secret that is not there',
      () => ['--legacy', stub.url, '--jwt-secret-file', join(folder, 'nope')],
      /^parity: can't read .*nope \(ENOENT\)/,
    ],
    [
      'a token command that prints no token',
      () => ['--legacy', stub.url, '--token-command', 'echo "{"'],
      /^parity: the token command printed no token/,
    ],
    ['no legacy', () => ['--proxy', stub.url], /^parity: --proxy needs --legacy/],
    [
      'an admin API without its proxy',
      () => ['--legacy', stub.url, '--admin', stub.url, '--jwt-secret-file', join(folder, 'secret')],
      /^parity: --admin needs --proxy/,
    ],
    [
      'an admin API that is none',
      () => [
        ...['--legacy', stub.url, '--proxy', stub.url, '--admin', stub.url],
        ...['--jwt-secret-file', join(folder, 'secret')],
      ],
      /^parity: --admin http:\S+ /,
    ],
    ['no such scenario', () => ['--only', 'nope'], /^parity: no scenario fits --only nope/],
    ['an unknown path', () => ['--path', 'old'], /^parity: .*It must be one of legacy, proxy-legacy/],
    ['an unknown flag', () => ['--legasy', 'x'], /^parity: unknown option '--legasy'/],
  ])('%s', async (_name, args, line) => {
    const { code, out, err } = await parity('run', ...args(), ...(await given(scenario('Not a participant'))));
    expect(code).toBe(2);
    expect(err).toMatch(line);
    expect(err.trimEnd().split('\n').length, err).toBeLessThanOrEqual(2);
    expect(out).toBe('');
  });

  it('nothing to play: a path that is not to be had must not look like one without differences', async () => {
    const files = await given(scenario('Not a participant'));
    const own = ['--legacy', stub.url, '--jwt-secret-file', join(folder, 'secret')];
    const { code, err } = await parity('run', ...own, '--path', 'peeled', ...files);
    expect({ code, err }).toEqual({ code: 2, err: 'parity: nothing of this could be played\n' });
  });

  it('an accepted difference of a path that there is not', async () => {
    const files = await given(scenario('Not a participant'));
    const entry = ['- scenario: refused', 'path: proxy-nwe', 'what: x', 'why: x', 'since: 2026-12-01', 'instead: {}'];
    const differences = join(folder, 'path.yaml');
    await writeFile(differences, entry.join('\n  '));
    const { code, err } = await parity('run', ...files, '--differences', differences);
    expect(code).toBe(2);
    expect(err).toMatch(/^parity: differences\.yaml: refused: proxy-nwe is none of legacy, .*\n$/);
  });

  it('a broken scenario', async () => {
    const files = await given(scenario('No').replace('by: carol', 'by: carl'));
    const { code, err } = await parity('run', ...files);
    expect({ code, err }).toEqual({
      code: 2,
      err: 'parity: scenarios/given.yaml:5: carl is no device of this scenario (alice, bob, carol); add it to parties, or mend the name\n',
    });
  });
});
