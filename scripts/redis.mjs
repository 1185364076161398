// Finds a redis-server for the tests, or installs one through the system's package manager where that is allowed and no Docker
// engine answers. Knows nothing of the tests. Run by itself it says where the server is.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const PLACES = [
  '/usr/bin/redis-server',
  '/usr/local/bin/redis-server',
  '/usr/sbin/redis-server',
  '/opt/homebrew/bin/redis-server',
];

/** The path of a redis-server, or undefined: REDIS_SERVER_PATH, then PATH, then the usual places. */
export function findRedis() {
  const named = process.env.REDIS_SERVER_PATH;
  if (named) return existsSync(named) ? named : undefined;
  const onPath = folders().map((folder) => join(folder, 'redis-server'));
  return [...onPath, ...PLACES].find((file) => existsSync(file));
}

/** Whether a Docker engine answers within 10 s. */
export function hasDocker() {
  if (!hasCommand('docker')) return false;
  const asked = spawnSync('docker', ['info', '--format', '{{.ServerVersion}}'], { timeout: 10_000, encoding: 'utf8' });
  return asked.status === 0 && asked.stdout.trim() !== '';
}

/** Installs Redis where the system's package manager may be used without a password. Returns the server's path, or undefined. */
export function installRedis(say) {
  const root = process.getuid?.() === 0;
  const asRoot = (...command) => (root ? command : ['sudo', '-n', ...command]);
  const ways = [
    [
      'apt-get',
      [asRoot('apt-get', 'update'), asRoot('apt-get', 'install', '-y', '--no-install-recommends', 'redis-server')],
    ],
    ['dnf', [asRoot('dnf', 'install', '-y', 'redis')]],
    ['apk', [asRoot('apk', 'add', 'redis')]],
    ['brew', [['brew', 'install', 'redis']]],
  ];
  const way = ways.find(([manager]) => hasCommand(manager));
  if (!way || (way[0] !== 'brew' && !root && !hasCommand('sudo'))) return undefined;
  say(`no redis-server found, installing one with ${way[0]}`);
  for (const [program, ...args] of way[1]) {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const done = spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 10 * 60_000, env });
    // A failed "update" may be one mirror of many: the install itself decides.
    if (done.status !== 0) say(`${program} ${args.join(' ')} failed`);
  }
  return findRedis();
}

const folders = () => (process.env.PATH ?? '').split(delimiter).filter(Boolean);
const hasCommand = (name) => folders().some((folder) => existsSync(join(folder, name)));

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const found = findRedis() ?? installRedis((line) => console.error(`redis: ${line}`));
  console.log(found ?? 'no redis-server: install the package "redis" or set REDIS_SERVER_PATH');
  process.exitCode = found ? 0 : 1;
}
