// `npm run demo`: builds, then runs the legacy stub with the proxy in front of it on free ports, and says what to try.
// Everything that it makes lies in a temporary folder and goes away on Ctrl-C.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const patience = 20_000;
const routesText = `# Which path serves the 1:1 calls. Save a change and it is in force within a second; nobody has to reload.
# Calls that are live finish where they began. The dashboard and "sigfig routes" change the same table.
namespaces:
  /:
    calls: legacy # change to: new, or to: { mode: canary, percent: 50 }
`;

const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit', cwd: root });
if (built.status !== 0) process.exit(built.status ?? 1);

const folder = mkdtempSync(join(tmpdir(), 'sigfig-demo-'));
const children = [];
let stopping = false;

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => stop(0));

try {
  await run();
} catch (error) {
  console.error(`demo: ${error.message}`);
  await stop(1);
}

async function run() {
  const secret = join(folder, 'jwt-secret');
  const routes = join(folder, 'routes.yaml');
  writeFileSync(secret, randomBytes(32).toString('base64url'), { mode: 0o600 });
  writeFileSync(routes, routesText);

  const taken = new Set();
  const legacyAt = await freePort(4000, taken);
  const proxyAt = await freePort(8080, taken);
  const adminAt = await freePort(9900, taken);
  const metricsAt = await freePort(9464, taken);

  const legacy = await start('legacy-stub', 'dist/legacy-stub/cli.js', [
    ...['--listen', `127.0.0.1:${legacyAt}`],
    ...['--jwt-secret-file', secret],
  ]);
  const [legacyUrl] = /http:\S+/.exec(legacy);
  const ready = await start('sigfig', 'dist/src/cli/sigfig.js', [
    'start',
    ...['--listen', `127.0.0.1:${proxyAt}`],
    ...['--legacy', legacyUrl],
    ...['--routes', routes],
    ...['--admin', `127.0.0.1:${adminAt}`],
    ...['--metrics', `127.0.0.1:${metricsAt}`],
    ...['--jwt-secret-file', secret],
    // Nobody needs to be led elsewhere when a demo ends.
    ...['--drain-delay', '0s', '--drain', '1s'],
  ]);
  const at = (name) => new RegExp(`${name}=(\\S+)`).exec(ready)?.[1] ?? '?';
  const admin = adminAt === 9900 ? '' : `SIGFIG_ADMIN=127.0.0.1:${adminAt} `;
  const sigfig = `${admin}node ${relative(process.cwd(), join(root, 'dist/src/cli/sigfig.js'))}`;
  console.log(`
  A legacy Socket.IO backend is running at ${legacyUrl}, with sigfig in front of it.

  1. Open ${at('proxy')} in two browser windows. Log in as alice in one and as bob in the other.
  2. Chat, call, share a screen; reload one window in the middle of the call and watch it come back.
  3. Move the calls to the new path, with both windows left open, on the dashboard:

       ${at('admin')}

     or from another terminal:

       ${sigfig} routes set calls new --reason "a first try"
       ${sigfig} routes set call-lifecycle canary --percent 50 --reason "half of the calls"
       ${sigfig} routes set ice-candidate new --reason "candidates alone, of the legacy's calls too"
       ${sigfig} routes watch
       ${sigfig} routes rollback
       ${sigfig} routes legacy --all

     or in the file ${routes}.
     The call that is live stays where it is, the next one is served by sigfig, and neither page can tell.
  4. Watch it: metrics at ${at('metrics')}, health at ${at('admin')}/readyz.

  No camera? The page draws a picture (or add ?drawn=1). Only polling or WebSocket: ?transport=polling, ?transport=websocket.
  Ctrl-C stops everything.
`);
}

/** Starts a command of dist/ and waits for its line `ready …`, which it returns. Later lines are shown under its name. */
function start(name, file, args) {
  // In a group of its own: Ctrl-C in the terminal reaches this process alone, which then stops the children in order.
  const child = spawn(process.execPath, [join(root, file), ...args], {
    cwd: folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  children.push(child);
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${name} was not ready within ${patience / 1000} s`)), patience);
    const show = (line) => console.log(`  [${name}] ${plain(line)}`);
    createInterface({ input: child.stderr }).on('line', show);
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith('ready ')) return show(line);
      clearTimeout(late);
      resolve(line);
    });
    child.on('error', reject);
    child.on('exit', (code, signal) => {
      clearTimeout(late);
      if (stopping) return;
      reject(new Error(`${name} ended before it was ready (${signal ?? `code ${code}`})`));
      console.error(`demo: ${name} ended (${signal ?? `code ${code}`})`);
      stop(1);
    });
  });
}

/** A JSON log line as a sentence; any other line as it is. */
function plain(line) {
  if (!line.startsWith('{')) return line;
  try {
    const { msg, summary, why, did, problem, reason, conversationId, from, to, because } = JSON.parse(line);
    if (msg === 'call') return `call ${conversationId}: ${from} → ${to}, ${because}`;
    const more = summary ?? why ?? did ?? problem ?? reason;
    return more ? `${msg}: ${more}` : msg;
  } catch {
    return line; // cut short: still better shown than lost
  }
}

async function stop(code) {
  if (stopping) return;
  stopping = true;
  await Promise.all(
    children.map(
      (child) =>
        new Promise((resolve) => {
          if (child.exitCode !== null || child.signalCode !== null) return resolve();
          const hard = setTimeout(() => child.kill('SIGKILL'), 5000);
          child.on('exit', () => {
            clearTimeout(hard);
            resolve();
          });
          child.kill('SIGTERM');
        }),
    ),
  );
  rmSync(folder, { recursive: true, force: true });
  process.exit(code);
}

/** The first free port from `first` on. */
async function freePort(first, taken) {
  for (let port = first; port < first + 100; port += 1) {
    if (!taken.has(port) && (await isFree(port))) {
      taken.add(port);
      return port;
    }
  }
  throw new Error(`no free port from ${first} to ${first + 99}`);
}

function isFree(port) {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', () => resolve(false));
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(true)));
  });
}
