// What the browser tests play on: the legacy stub and the proxy as processes of their own, as an operator runs them, and
// one Chromium. Knows commands, files and URLs only; nothing of the code behind them.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { type Browser, chromium } from 'playwright-core';
import { findChromium } from '../../scripts/chromium.mjs';
import { until } from './until.js';

export type Path = 'legacy' | 'new';

export interface Stage {
  /** Where browsers go. */
  readonly url: string;
  readonly browser: Browser;
  /** Rewrites the watched routes file and waits until it is in force. */
  moveCalls(path: Path): Promise<void>;
  /** How often each event was decided for a path, since the start: `call-offer legacy` → 1. */
  decisions(): Promise<ReadonlyMap<string, number>>;
  close(): Promise<void>;
}

const root = fileURLToPath(new URL('../../', import.meta.url));
const READY_MS = 20_000;

/** Starts everything on free ports; throws where a process ends or is not ready in time, with what it said. */
export async function startStage(): Promise<Stage> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-browser-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    for (const step of closing.splice(0).reverse()) await step();
  };
  try {
    const secret = join(folder, 'secret');
    const routes = join(folder, 'routes.yaml');
    await writeFile(secret, 'a secret of the browser tests, of enough bytes');
    await writeFile(routes, routesText('legacy'));

    const legacy = await start('legacy-stub/cli.js', ['--listen', '127.0.0.1:0', '--jwt-secret-file', secret], closing);
    const legacyUrl = word(legacy, /ready (\S+)/);
    const anywhere = ['--listen', '--admin', '--metrics'].flatMap((flag) => [flag, '127.0.0.1:0']);
    const given = ['--legacy', legacyUrl, '--routes', routes, '--jwt-secret-file', secret];
    const atOnce = ['--drain-delay', '0s', '--drain', '0s'];
    const proxy = await start('src/cli/sigfig.js', ['start', ...anywhere, ...given, ...atOnce], closing);
    const metricsUrl = word(proxy, /metrics=(\S+)/);

    const browser = await launch();
    closing.push(() => browser.close());

    let inForce: Path = 'legacy';
    const scrape = async () => await (await fetch(metricsUrl)).text();
    return {
      url: word(proxy, /proxy=(\S+)/),
      browser,
      close,
      async moveCalls(path) {
        // A file that says the same as before is not loaded again.
        if (path === inForce) return;
        const before = sum(await scrape(), 'sigfig_routes_loads_total', { outcome: 'loaded' });
        await writeFile(`${routes}.new`, routesText(path));
        await rename(`${routes}.new`, routes);
        await until('the routes to be loaded', async () => {
          return sum(await scrape(), 'sigfig_routes_loads_total', { outcome: 'loaded' }) > before;
        });
        inForce = path;
      },
      async decisions() {
        const counts = new Map<string, number>();
        for (const { labels, value } of samples(await scrape(), 'sigfig_events_decided_total')) {
          const key = `${labels.event} ${labels.path}`;
          counts.set(key, (counts.get(key) ?? 0) + value);
        }
        return counts;
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const routesText = (path: Path) => `namespaces:\n  /:\n    calls: ${path}\n`;

/** A Chromium without a window; WebRTC and its media work in it without a question. */
export async function launch(): Promise<Browser> {
  const executablePath = findChromium();
  if (!executablePath)
    throw new Error('no Chromium found: set CHROMIUM_PATH, or run "npm test", which can install one');
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  const quiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-component-update', '--disable-sync'];
  const media = ['--use-fake-ui-for-media-stream', '--use-fake-device-for-media-stream'];
  const args = [
    ...asRoot,
    ...quiet,
    ...media,
    '--disable-background-networking',
    '--allow-loopback-in-peer-connection',
  ];
  return await chromium.launch({ executablePath, headless: true, args });
}

/** Starts a command of dist/ and waits for its line `ready …`, which it returns. */
async function start(file: string, args: readonly string[], closing: (() => Promise<unknown>)[]): Promise<string> {
  const child = spawn(process.execPath, [join(root, 'dist', file), ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  closing.push(() => stop(child));
  let said = '';
  child.stderr.on('data', (chunk) => {
    said = (said + chunk).slice(-4_000);
  });
  return await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${file} was not ready in time: ${said}`)), READY_MS);
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (!line.startsWith('ready ')) return;
      clearTimeout(timer);
      resolve(line);
    });
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`${file} ended with ${code}: ${said}`)));
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const hard = setTimeout(() => child.kill('SIGKILL'), 10_000);
  await gone;
  clearTimeout(hard);
}

function word(line: string, pattern: RegExp): string {
  const found = pattern.exec(line)?.[1];
  if (found === undefined) throw new Error(`unexpected: ${line}`);
  return found;
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The samples of one metric in Prometheus's text format. */
function samples(text: string, metric: string): Sample[] {
  return text.split('\n').flatMap((line) => {
    const match = /^(\w+)(?:\{(.*)\})? (\S+)/.exec(line);
    if (match?.[1] !== metric) return [];
    const labels = Object.fromEntries([...(match[2] ?? '').matchAll(/(\w+)="([^"]*)"/g)].map(([, k, v]) => [k, v]));
    return [{ labels, value: Number(match[3]) }];
  });
}

function sum(text: string, metric: string, wanted: Readonly<Record<string, string>>): number {
  return samples(text, metric)
    .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
    .reduce((total, { value }) => total + value, 0);
}
