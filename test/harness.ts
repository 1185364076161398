// Starts the legacy stub and the proxy in this process, on free ports, for integration tests. Knows nothing of what a
// test does with them.
import { mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import { type Legacy, type LegacyOptions, startLegacy } from '../legacy-stub/server.js';
import { compose } from '../src/compose.js';
import { type Flags, loadConfig } from '../src/config.js';
import type { Running } from '../src/main.js';
import { createLogger } from '../src/telemetry/log.js';

export const allLegacy = 'namespaces: {}\n';
/** Without guards, so that a fault which a test injects takes nothing back; test/guard/ is about those. */
export const callsNew =
  'namespaces:\n  /: { calls: { mode: new, guard: off } }\n  /calls: { calls: { mode: new, guard: off } }\n';
export const callsSole = 'namespaces:\n  /: { calls: { mode: new, sole: true, guard: off } }\n';

export interface Proxy {
  readonly url: string;
  readonly adminUrl: string;
  readonly metricsUrl: string;
  readonly running: Running;
  /** Everything that the proxy logged so far, as JSON lines. */
  log(): string;
  /** Replaces the routes file and waits until the proxy has it in force. */
  setRoutes(yaml: string): Promise<void>;
  /** The value of a metric, summed over the series whose labels hold all of `labels`; 0 where there is none. */
  metric(name: string, labels?: Readonly<Record<string, string>>): Promise<number>;
  close(): Promise<void>;
}

const secret = 'a secret for tests only, long enough for HS256';

/** A proxy in front of `legacyUrl`; `flags` as on the command line, without dashes. */
export async function startProxy(
  legacyUrl: string,
  { routes = allLegacy, flags = {} }: { routes?: string; flags?: Flags } = {},
): Promise<Proxy> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-test-'));
  const file = join(folder, 'routes.yaml');
  const secretFile = join(folder, 'secret');
  await writeFile(file, routes);
  await writeFile(secretFile, secret);
  const loaded = loadConfig(
    {
      listen: '127.0.0.1:0',
      admin: '127.0.0.1:0',
      metrics: '127.0.0.1:0/metrics',
      legacy: [legacyUrl],
      routes: file,
      ...(flags.jwks || flags['jwt-public-key-file'] ? {} : { 'jwt-secret-file': secretFile }),
      'drain-delay': '10ms',
      drain: '50ms',
      'log-level': 'debug',
      ...flags,
    },
    {},
  );
  if (!loaded.ok) throw new Error(loaded.problems.join('\n'));
  let lines = '';
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines += chunk.toString();
      done();
    },
  });
  const running = await compose(loaded.config, createLogger({ level: loaded.config.logLevel, stream }));
  const proxy: Proxy = {
    url: running.proxyUrl,
    adminUrl: running.adminUrl,
    metricsUrl: running.metricsUrl,
    running,
    log: () => lines,
    async setRoutes(yaml) {
      const before = count(lines, 'routes in force');
      await writeFile(`${file}.next`, yaml);
      await rename(`${file}.next`, file);
      await until(() => count(lines, 'routes in force') > before, 'the routes are in force');
    },
    metric: (name, labels) => metric(running.metricsUrl, name, labels),
    async close() {
      await running.drain();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return proxy;
}

export interface Stack {
  readonly legacy: Legacy;
  readonly proxy: Proxy;
  close(): Promise<void>;
}

/** Stub and proxy that share one secret. */
export async function startStack(
  options: { routes?: string; legacy?: LegacyOptions; flags?: Flags } = {},
): Promise<Stack> {
  const legacy = await startLegacy({ jwtSecret: secret, ...options.legacy });
  const proxy = await startProxy(legacy.url, options);
  return {
    legacy,
    proxy,
    async close() {
      await proxy.close();
      await legacy.close();
    },
  };
}

export async function login(base: string, username: string): Promise<string> {
  const response = await fetch(`${base}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username }),
  });
  const { token } = (await response.json()) as { token: string };
  return token;
}

/** A connected, unmodified client, with everything that it received in order. */
export interface Client {
  readonly socket: Socket;
  readonly user: string;
  readonly got: { readonly event: string; readonly args: readonly unknown[] }[];
  /** The next event of this name that was not awaited yet. */
  next(event: string): Promise<unknown>;
  /** Forgets what was received so far. */
  forget(): void;
  /** Emits and awaits the acknowledgement. */
  ask(event: string, ...args: unknown[]): Promise<unknown>;
  close(): void;
}

export async function connect(
  base: string,
  user: string,
  options: Partial<ManagerOptions & SocketOptions> & { ns?: string } = {},
): Promise<Client> {
  const { ns = '/', ...rest } = options;
  const token = await login(base, user);
  const socket = io(`${base}${ns === '/' ? '' : ns}`, {
    forceNew: true,
    reconnection: false,
    auth: { token },
    ...rest,
  });
  const client = clientOf(socket, user);
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', reject);
  });
  return client;
}

export function clientOf(socket: Socket, user: string): Client {
  const got: { event: string; args: unknown[] }[] = [];
  const taken = new Set<object>();
  const waiting: { event: string; resolve: (arg: unknown) => void }[] = [];
  socket.onAny((event: string, ...args: unknown[]) => {
    const entry = { event, args };
    got.push(entry);
    const i = waiting.findIndex((w) => w.event === event);
    if (i >= 0) {
      taken.add(entry);
      waiting.splice(i, 1)[0]?.resolve(args[0]);
    }
  });
  return {
    socket,
    user,
    got,
    next(event) {
      const ready = got.find((g) => g.event === event && !taken.has(g));
      if (ready) {
        taken.add(ready);
        return Promise.resolve(ready.args[0]);
      }
      return within(10_000, `${user} gets ${event}`, new Promise((resolve) => waiting.push({ event, resolve })));
    },
    forget() {
      got.length = 0;
      taken.clear();
    },
    ask: (event, ...args) => socket.timeout(10_000).emitWithAck(event, ...args),
    close: () => void socket.disconnect(),
  };
}

/** Polls a condition; rejects after 10 s with what was awaited. */
export async function until(condition: () => boolean | Promise<boolean>, what: string, ms = 10_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`timed out waiting until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

export function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`timed out waiting until ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** A metric's value from a Prometheus page, summed over the series whose labels hold all of `labels`; 0 where there is none. */
export async function metric(
  url: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  let sum = 0;
  for (const line of (await (await fetch(url)).text()).split('\n')) {
    if (!line.startsWith(`${name}{`) && !line.startsWith(`${name} `)) continue;
    if (Object.entries(labels).every(([k, v]) => line.includes(`${k}="${v}"`))) sum += Number(line.split(' ').at(-1));
  }
  return sum;
}

const count = (text: string, part: string): number => text.split(part).length - 1;
