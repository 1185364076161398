// The built commands as processes of their own, for tests that kill, freeze or measure them. `npm test` builds first.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { within } from './harness.js';

/** This file runs from `test/` and, for the soak, from `test/` within the build. */
const built = ['../', '../dist/'].map((path) => fileURLToPath(new URL(path, import.meta.url)));
const dist = built.find((folder) => existsSync(join(folder, 'src/cli/sigfig.js'))) ?? built[1]!;

export interface Process {
  /** What its ready line says after `ready `. */
  readonly ready: string;
  readonly pid: number;
  /** Everything on stderr so far. */
  stderr(): string;
  signal(name: NodeJS.Signals): void;
  /** The exit code, or the signal that ended it. */
  readonly exited: Promise<number | NodeJS.Signals>;
  /** Ends it (SIGKILL) and waits. */
  kill(): Promise<void>;
}

/** Starts a built command (`legacy-stub/cli.js`, `src/cli/sigfig.js`) and waits for its ready line. */
export async function start(
  command: string,
  args: readonly string[],
  nodeArgs: readonly string[] = [],
): Promise<Process> {
  const script = join(dist, command);
  if (!existsSync(script)) throw new Error(`${command} is not built; run "npm run build" first`);
  const child: ChildProcess = spawn(process.execPath, [...nodeArgs, script, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let err = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    err += chunk.toString();
  });
  const exited = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals);
  const line = new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout! }).on('line', (text) => {
      if (text.startsWith('ready ')) resolve(text.slice(6));
    });
    exited.then((code) => reject(new Error(`${command} ended (${code}) before it was ready: ${err}`)));
  });
  const ready = await within(20_000, `${command} is ready`, line);
  return {
    ready,
    pid: child.pid as number,
    stderr: () => err,
    signal: (name) => void child.kill(name),
    exited,
    async kill() {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
      await exited;
    },
  };
}

export interface Processes {
  readonly secretFile: string;
  readonly folder: string;
  legacy(args?: readonly string[]): Promise<Process & { readonly url: string }>;
  proxy(
    legacy: string,
    routes: string,
    args?: readonly string[],
    nodeArgs?: readonly string[],
  ): Promise<Process & { readonly url: string; readonly admin: string; readonly metrics: string }>;
  /** Ends whatever is still running. */
  close(): Promise<void>;
}

/** A folder with a secret, and processes that share it. */
export async function processes(): Promise<Processes> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-processes-'));
  const secretFile = join(folder, 'secret');
  await writeFile(secretFile, 'a secret for tests only, long enough for HS256');
  const running: Process[] = [];
  let tables = 0;
  return {
    secretFile,
    folder,
    async legacy(args = []) {
      const listen = args.includes('--listen') ? [] : ['--listen', '127.0.0.1:0'];
      const process = await start('legacy-stub/cli.js', [...listen, '--jwt-secret-file', secretFile, ...args]);
      running.push(process);
      return { ...process, url: process.ready };
    },
    async proxy(legacy, routes, args = [], nodeArgs = []) {
      const file = join(folder, `routes-${++tables}.yaml`);
      await writeFile(file, routes);
      const process = await start(
        'src/cli/sigfig.js',
        [
          'start',
          ...['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--metrics', '127.0.0.1:0/metrics'],
          ...['--legacy', legacy, '--routes', file, '--jwt-secret-file', secretFile],
          ...args,
        ],
        nodeArgs,
      );
      running.push(process);
      const [url, admin, metrics] = ['proxy', 'admin', 'metrics'].map(
        (name) => new RegExp(`${name}=(\\S+)`).exec(process.ready)?.[1] as string,
      );
      return { ...process, url: url as string, admin: admin as string, metrics: metrics as string };
    },
    async close() {
      for (const process of running) await process.kill();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Open descriptors of a process (Linux). */
export const descriptors = (pid: number): number => readdirSync(`/proc/${pid}/fd`).length;

/** Resident memory of a process in bytes (Linux). */
export function resident(pid: number): number {
  const kilobytes = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kilobytes) * 1024;
}
