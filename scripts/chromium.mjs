// Finds a Chromium for the browser tests, or installs one through the system's package manager where that is allowed.
// Knows nothing of the tests.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, join } from 'node:path';

const COMMANDS = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome', 'microsoft-edge'];
const PLACES = [
  '/usr/lib/chromium/chromium',
  '/opt/google/chrome/chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
  'C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe',
];
const CACHES = ['.cache/ms-playwright', 'Library/Caches/ms-playwright', 'AppData/Local/ms-playwright'];
const IN_CACHE = [
  'chrome-linux/chrome',
  'chrome-linux64/chrome',
  'chrome-mac/Chromium.app/Contents/MacOS/Chromium',
  'chrome-win/chrome.exe',
  'chrome-win64/chrome.exe',
];

/** The path of a Chromium, Chrome or Edge, or undefined: CHROMIUM_PATH, then PATH, usual places, Playwright's cache. */
export function findChromium() {
  const named = process.env.CHROMIUM_PATH;
  if (named) return existsSync(named) ? named : undefined;
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  const onPath = COMMANDS.flatMap((command) => folders.map((folder) => join(folder, command)));
  const cached = CACHES.map((folder) => join(homedir(), folder))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
    .filter((folder) => /[\\/]chromium-\d+$/.test(folder))
    .flatMap((folder) => IN_CACHE.map((file) => join(folder, file)));
  return [...onPath, ...PLACES, ...cached].find((file) => existsSync(file));
}

/** Installs Chromium where the system's package manager may be used without a password. Returns its path, or undefined. */
export function installChromium(say) {
  const root = process.getuid?.() === 0;
  const asRoot = (...command) => (root ? command : ['sudo', '-n', ...command]);
  const ways = [
    [
      'apt-get',
      [asRoot('apt-get', 'update'), asRoot('apt-get', 'install', '-y', '--no-install-recommends', 'chromium')],
    ],
    ['dnf', [asRoot('dnf', 'install', '-y', 'chromium')]],
    ['apk', [asRoot('apk', 'add', 'chromium')]],
    ['brew', [['brew', 'install', '--cask', 'chromium']]],
  ];
  const way = ways.find(([manager]) => hasCommand(manager));
  if (!way || (way[0] !== 'brew' && !root && !hasCommand('sudo'))) return undefined;
  say(`no Chromium found, installing one with ${way[0]}`);
  for (const [program, ...args] of way[1]) {
    const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
    const done = spawnSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'], timeout: 10 * 60_000, env });
    // A failed "update" may be one mirror of many: the install itself decides.
    if (done.status !== 0) say(`${program} ${args.join(' ')} failed`);
  }
  return findChromium();
}

function hasCommand(name) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return folders.some((folder) => existsSync(join(folder, name)));
}
