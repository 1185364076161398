// `npm run screenshots`: builds, runs the legacy stub with the proxy in front of it, lets some people call each other while an
// operator moves the calls over step by step, and takes the pictures of the dashboard that the README shows.
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { io } from 'socket.io-client';
import { findChromium } from './chromium.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const images = join(root, 'docs/images');
const people = (
  'alice bob amara ben chiara dmitri elif farid greta hana ines jonas keiko luca mei nora omar paula quentin rosa sven tariq ' +
  'uma viktor wanda xavi yara zoltan anouk boris carmen dana emil fatou goran helga ivo jana kofi lena'
).split(' ');
const relays = { target: 'ice-candidate', mode: 'new' };
const canary = { target: 'call-lifecycle', mode: 'canary' };
/** What the operators do, after so many seconds. */
const steps = [
  { after: 40, actor: 'alice', request: { ...relays, reason: 'candidates leave the legacy first' } },
  { after: 70, actor: 'alice', request: { ...canary, percent: 5, users: ['alice', 'bob'], reason: 'a first share' } },
  { after: 95, actor: 'bob', request: { ...canary, percent: 25, reason: 'calm at 5 %' } },
];
const LOOK_AFTER_S = 150;

const executablePath = findChromium();
if (!executablePath) {
  console.error('screenshots: no Chromium found; install the package "chromium" or set CHROMIUM_PATH');
  process.exit(1);
}
const built = spawnSync(process.execPath, [join(root, 'scripts/build.mjs')], { stdio: 'inherit', cwd: root });
if (built.status !== 0) process.exit(built.status ?? 1);

const folder = mkdtempSync(join(tmpdir(), 'sigfig-screenshots-'));
const closing = [() => rmSync(folder, { recursive: true, force: true })];
let over = false;
try {
  await run();
} finally {
  over = true;
  for (const close of closing.reverse()) await close();
}
process.exit();

async function run() {
  const secret = join(folder, 'jwt-secret');
  const routes = join(folder, 'routes.yaml');
  writeFileSync(secret, randomBytes(32).toString('base64url'), { mode: 0o600 });
  writeFileSync(routes, 'namespaces:\n  /:\n    calls: legacy\n');
  const anywhere = ['--listen', '--admin', '--metrics'].flatMap((flag) => [flag, '127.0.0.1:0']);
  const legacy = await start('legacy-stub/cli.js', ['--listen', '127.0.0.1:0', '--jwt-secret-file', secret]);
  const [legacyUrl] = /http:\S+/.exec(legacy);
  const ready = await start('src/cli/sigfig.js', [
    'start',
    ...anywhere,
    ...['--legacy', legacyUrl, '--routes', routes, '--jwt-secret-file', secret],
    ...['--drain-delay', '0s', '--drain', '0s'],
  ]);
  const [, proxyUrl] = /proxy=(\S+)/.exec(ready);
  const [, adminUrl] = /admin=(\S+)/.exec(ready);

  console.log(`screenshots: ${people.length} people call each other for ${LOOK_AFTER_S} s`);
  const began = Date.now();
  const at = (seconds) => pause(Math.max(0, began + seconds * 1000 - Date.now()));
  for (let i = 0; i + 1 < people.length; i += 2) playPair(proxyUrl, people[i], people[i + 1]).catch(complain);
  for (const { after, actor, request } of steps) {
    await at(after);
    await change(adminUrl, actor, request);
  }
  await at(LOOK_AFTER_S);

  mkdirSync(images, { recursive: true });
  const browser = await chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
  closing.push(() => browser.close());
  for (const colorScheme of ['light', 'dark']) {
    const look = { viewport: { width: 1280, height: 1120 }, deviceScaleFactor: 1.5, colorScheme, timezoneId: 'UTC' };
    const page = await browser.newPage(look);
    // Where this script keeps its files is no part of the picture.
    await page.route(/\/api\/(status|routes)/, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replaceAll(folder, '/etc/sigfig') });
    });
    await page.goto(adminUrl);
    const served = page.locator('.calls tbody tr', { has: page.locator('.badge.new') });
    await served.first().getByRole('button').click();
    await page.locator('.timeline li').nth(2).waitFor();
    // The click has scrolled to the call.
    await page.evaluate(() => window.scrollTo(0, 0));
    await page.screenshot({ path: join(images, `dashboard-${colorScheme}.png`) });

    await page.getByRole('button', { name: 'Change call-lifecycle in /' }).click();
    await page.getByRole('radio', { name: 'new' }).check();
    await page.locator('dialog .plan:not(.busy) li').nth(1).waitFor();
    await page.getByLabel(/^Reason/).fill('a calm week at 25 %');
    await page.getByLabel('Your name').fill('alice');
    await page.locator('dialog').screenshot({ path: join(images, `flip-${colorScheme}.png`) });
    await page.close();
  }
  console.log(`screenshots: in ${images}`);
}

/** One call after the other between two people, as long as pictures are waited for. */
async function playPair(url, a, b) {
  const conversationId = `dm:${a}:${b}`;
  const [caller, callee] = await Promise.all([connect(url, a), connect(url, b)]);
  await pause(Math.random() * 30_000);
  while (!over) {
    await ask(caller, 'call-offer', { conversationId, offer: { type: 'offer', sdp: 'v=0' } });
    await pause(500 + Math.random() * 3_000);
    await ask(callee, 'call-answer', { conversationId, answer: { type: 'answer', sdp: 'v=0' } });
    for (let i = 0; i < 8; i += 1) {
      for (const one of [caller, callee]) {
        one.emit('ice-candidate', { conversationId, iceCandidate: { candidate: `candidate:${i}`, sdpMid: '0' } });
      }
      await pause(200 + Math.random() * 400);
    }
    const lasts = 5 + Math.random() * 35;
    await pause(lasts * 400);
    await ask(caller, 'call-renegotiate-offer', { conversationId, offer: { type: 'offer', sdp: 'v=0' } });
    await ask(callee, 'call-renegotiate-answer', { conversationId, answer: { type: 'answer', sdp: 'v=0' } });
    await pause(lasts * 600);
    await ask(caller, 'call-end', { conversationId });
    await pause(1_000 + Math.random() * 4_000);
  }
}

async function connect(url, username) {
  const response = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username }),
  });
  const { token } = await response.json();
  const socket = io(url, { auth: { token }, transports: ['websocket'], forceNew: true });
  closing.push(() => socket.disconnect());
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('connect_error', reject));
  return socket;
}

function ask(socket, event, payload) {
  return socket.timeout(5_000).emitWithAck(event, payload);
}

async function change(adminUrl, actor, request) {
  const response = await fetch(`${adminUrl}/api/routes/set`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-sigfig-actor': actor, 'x-sigfig-client': 'cli' },
    body: JSON.stringify(request),
  });
  if (!response.ok) throw new Error(await response.text());
}

function complain(error) {
  if (!over) console.error(`screenshots: ${error.message}`);
}

/** Starts a command of dist/ and waits for its line `ready …`, which it returns. */
function start(file, args) {
  const child = spawn(process.execPath, [join(root, 'dist', file), ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  closing.push(
    () =>
      new Promise((resolve) => {
        if (child.exitCode !== null || child.signalCode !== null) return resolve();
        child.once('exit', resolve);
        child.kill('SIGTERM');
      }),
  );
  return new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => line.startsWith('ready ') && resolve(line));
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${file} ended with ${code} before it was ready`)));
  });
}
