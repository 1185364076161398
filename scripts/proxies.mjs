// Finds an nginx, a HAProxy and a jq for the tests of deploy/, or installs them through the system's package manager where that is allowed.
// Knows nothing of the tests. Run by itself it says where they are.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const proxies = ['nginx', 'haproxy', 'jq'];
const PLACES = ['/usr/sbin', '/usr/local/sbin', '/usr/bin', '/usr/local/bin', '/opt/homebrew/bin'];

/** The path of one of them, or undefined: NGINX_PATH, HAPROXY_PATH or JQ_PATH, then PATH, then the usual places. */
export function findProxy(name) {
  const named = process.env[`${name.toUpperCase()}_PATH`];
  if (named) return existsSync(named) ? named : undefined;
  return [...folders(), ...PLACES].map((folder) => join(folder, name)).find((file) => existsSync(file));
}

/** Installs it where the package manager may be used without a password. Returns its path, or undefined. */
export function installProxy(name, say) {
  const root = process.getuid?.() === 0;
  const asRoot = (...command) =>
    root ? command : ['sudo', '-n', '--preserve-env=SYSTEMD_OFFLINE,DEBIAN_FRONTEND', ...command];
  const ways = [
    ['apt-get', [asRoot('apt-get', 'update'), asRoot('apt-get', 'install', '-y', '--no-install-recommends', name)]],
    ['dnf', [asRoot('dnf', 'install', '-y', name)]],
    ['apk', [asRoot('apk', 'add', name)]],
    ['brew', [['brew', 'install', name]]],
  ];
  const way = ways.find(([manager]) => hasCommand(manager));
  if (!way || (way[0] !== 'brew' && !root && !hasCommand('sudo'))) return undefined;
  say(`no ${name} found, installing one with ${way[0]}`);
  for (const [program, ...args] of way[1]) {
    // Offline, systemctl starts nothing: the package would otherwise take port 80.
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', SYSTEMD_OFFLINE: '1' };
    const done = spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 10 * 60_000, env });
    // A failed "update" may be one mirror of many: the install itself decides.
    if (done.status !== 0) say(`${program} ${args.join(' ')} failed`);
  }
  return findProxy(name);
}

function folders() {
  return (process.env.PATH ?? '').split(delimiter).filter(Boolean);
}

function hasCommand(name) {
  return folders().some((folder) => existsSync(join(folder, name)));
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  for (const name of proxies) {
    const found = findProxy(name) ?? installProxy(name, (line) => console.error(`proxies: ${line}`));
    console.log(found ?? `no ${name}: install the package "${name}" or set ${name.toUpperCase()}_PATH`);
    if (!found) process.exitCode = 1;
  }
}
