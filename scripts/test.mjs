// `npm test`: lint, types and build, then every test; ends with `N passed, N failed` alone on a line and a matching exit
// code. Knows nothing of what is tested.
//   --without-browser  leaves out the tests that drive a browser, and the parity suite
//   --tests-only       leaves out lint and build (they were just run)
//   --without-cluster  leaves out the tests that kill, freeze and starve real instances and their Redis for minutes
//   anything else goes to vitest, as in `npm test -- src/call`
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findChromium, installChromium } from './chromium.mjs';
import { findProxy, installProxy, proxies } from './proxies.mjs';
import { findRedis, hasDocker, installRedis } from './redis.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const bin = (name) => join(root, 'node_modules', name);
const own = ['--without-browser', '--tests-only', '--without-cluster'];
const withoutBrowser = process.argv.includes('--without-browser');
const testsOnly = process.argv.includes('--tests-only');
const withoutCluster = process.argv.includes('--without-cluster');
const forVitest = process.argv.slice(2).filter((argument) => !own.includes(argument));

const env = { ...process.env };
let failedChecks = 0;

if (!withoutBrowser) {
  const chromium = findChromium() ?? installChromium((line) => console.log(`test: ${line}`));
  if (!chromium) {
    console.error('test: no Chromium for the browser tests: install the package "chromium" or set CHROMIUM_PATH');
    finish(0, 1);
  }
  env.CHROMIUM_PATH = chromium;
}

for (const name of proxies) {
  const found = findProxy(name) ?? installProxy(name, (line) => console.log(`test: ${line}`));
  if (!found) {
    console.error(
      `test: no ${name}, so tests of deploy/ will fail: install the package "${name}" or set ${name.toUpperCase()}_PATH`,
    );
    continue;
  }
  env[`${name.toUpperCase()}_PATH`] = found;
}

// Without a redis-server tests start theirs in Docker, but for Sentinel and Cluster.
const redis = findRedis() ?? installRedis((line) => console.log(`test: ${line}`));
if (redis) env.REDIS_SERVER_PATH = redis;
else if (!hasDocker()) {
  console.error('test: no Redis for the tests: install the package "redis" or set REDIS_SERVER_PATH');
  finish(0, 1);
}

if (!testsOnly) {
  check('lint', [bin('@biomejs/biome/bin/biome'), 'check', '.']);
  check('types', [bin('typescript/bin/tsc'), '--noEmit', '-p', join(root, 'tsconfig.json')]);
  check('types of the dashboard', [bin('typescript/bin/tsc'), '--noEmit', '-p', join(root, 'src/admin/dashboard')]);
  check('build', [join(root, 'scripts/build.mjs')]);
}

// One after the other: instances whose leases are seconds, and browsers that encode video, want the machine for themselves.
const runs = [runVitest('unit-and-integration')];
if (!withoutCluster) runs.push(runVitest('cluster'));
if (!withoutBrowser) runs.push(runVitest('browser', ownNetwork()));
if (!withoutBrowser && forVitest.length === 0) {
  const shared = redisOfParity();
  runs.push(runParity(['--path', 'legacy,proxy-legacy,proxy-new,peeled']));
  // Each transport once: what differs by transport is what a single instance does.
  runs.push(runParity(['--path', 'legacy,cluster', '--instances', '2', '--transport', 'polling']));
  runs.push(runParity(['--path', 'legacy,cluster', '--instances', '3', '--transport', 'websocket']));
  shared.end();
  // The same 300 in each run, so that a change is what makes them differ; `npm run parity:fuzz` plays new ones.
  runs.push(runOne('generated lifecycles', ['dist/parity/fuzz/cli.js', '--runs', '300', '--seed', '439290']));
  runs.push(runOne('planted faults', ['dist/parity/proof/cli.js']));
}
const sum = (key) => runs.reduce((total, run) => total + run[key], 0);
finish(sum('passed'), sum('failed') + failedChecks);

function check(what, args) {
  const started = Date.now();
  const done = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit', env });
  const ok = done.status === 0;
  if (!ok) failedChecks += 1;
  console.log(`test: ${what} ${ok ? 'passed' : 'FAILED'} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
}

/**
 * Where Linux and root allow it, browser tests run in a network of their own that has nothing but 127.0.0.1: WebRTC would
 * otherwise pair the machine's other addresses with it. Elsewhere they run as they are.
 */
function ownNetwork() {
  const enter = ['unshare', '--net', 'sh', '-c', 'ip link set lo up && exec "$@"', 'sh'];
  const possible = process.platform === 'linux' && process.getuid?.() === 0;
  return possible && spawnSync(enter[0], [...enter.slice(1), 'true']).status === 0 ? enter : [];
}

/** Every scenario on these paths and transports; each play counts as one test. */
function runParity(args) {
  const folder = mkdtempSync(join(tmpdir(), 'sigfig-parity-'));
  try {
    const done = spawnSync(process.execPath, [join(root, 'dist/parity/cli.js'), 'run', ...args, '--report', folder], {
      cwd: root,
      stdio: 'inherit',
      env,
    });
    const report = join(folder, 'report.json');
    const { counts } = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : { counts: {} };
    const passed = (counts.same ?? 0) + (counts.accepted ?? 0);
    const failed = (counts.differs ?? 0) + (counts.gone ?? 0);
    return { passed, failed: done.status !== 0 && failed === 0 ? 1 : failed };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The runner starts a redis-server itself; where there is none but Docker, it gets one from there by its URL. */
function redisOfParity() {
  const nothing = { end: () => undefined };
  if (env.REDIS_URL || env.REDIS_SERVER_PATH) return nothing;
  const docker = (...args) => spawnSync('docker', args, { encoding: 'utf8' }).stdout?.trim() ?? '';
  const id = docker('run', '--detach', '--rm', '--publish', '127.0.0.1::6379', 'redis:7');
  if (!id) return nothing;
  env.REDIS_URL = `redis://${docker('port', id, '6379/tcp').split('\n')[0]}`;
  return {
    end() {
      delete env.REDIS_URL;
      docker('rm', '--force', id);
    },
  };
}

/** A command that is one test by itself. */
function runOne(what, args) {
  const done = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit', env });
  console.log(`test: ${what} ${done.status === 0 ? 'passed' : 'FAILED'}`);
  return done.status === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

function runVitest(project, enter = []) {
  const folder = mkdtempSync(join(tmpdir(), 'sigfig-test-'));
  const report = join(folder, 'report.json');
  const [program, ...args] = [
    ...enter,
    ...[process.execPath, bin('vitest/vitest.mjs'), 'run', '--project', project],
    ...['--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
    ...(forVitest.length > 0 ? ['--passWithNoTests', ...forVitest] : []),
  ];
  try {
    const done = spawnSync(program, args, { cwd: root, stdio: 'inherit', env });
    const counts = existsSync(report) ? count(JSON.parse(readFileSync(report, 'utf8'))) : { passed: 0, failed: 0 };
    // A crash, an unhandled error or a run without tests is a failure too.
    const wrong = done.status !== 0 || (counts.passed === 0 && forVitest.length === 0);
    return wrong && counts.failed === 0 ? { ...counts, failed: 1 } : counts;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A test file that could not even be loaded has no tests of its own and counts as one failure. */
function count({ numPassedTests, numFailedTests, testResults }) {
  const broken = testResults.filter(
    ({ status, assertionResults }) =>
      status === 'failed' && !assertionResults.some((assertion) => assertion.status === 'failed'),
  );
  return { passed: numPassedTests, failed: numFailedTests + broken.length };
}

function finish(passed, failed) {
  console.log(`\n${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}
