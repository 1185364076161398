// Starts the built commands (the legacy stub, the proxy) as processes of the runner's own, on free ports, with shortened
// times. Knows their command lines and ready lines, and nothing of their code.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Problem, within } from '../play/problem.js';
import { packageRoot } from './root.js';

const startMs = 30_000;

export interface Process {
  /** What the ready line says after `ready `. */
  readonly ready: string;
  /** Resolves with the next line of its output that holds this text. */
  saw(text: string): Promise<void>;
  kill(): Promise<void>;
}

/** What is left to do where the runner ends early: no process outlives it, and no secret stays on the disk. */
export const atExit = new Set<() => void>();
process.on('exit', () => {
  for (const task of atExit) task();
});

/** For a command's main: told to end, it goes at once, and leaves nothing behind. */
export function endOnSignals(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => process.exit(130));
}

/** @throws Problem where it is not built, or ends before it is ready. */
export async function startProcess(command: string, args: readonly string[]): Promise<Process> {
  const script = join(packageRoot, 'dist', command);
  if (!existsSync(script)) throw new Problem(`${command} is not built; run "npm run build" first`);
  const child: ChildProcess = spawn(process.execPath, [script, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const kill = () => void child.kill('SIGKILL');
  atExit.add(kill);
  let said = '';
  let waiting: { readonly text: string; readonly resolve: () => void }[] = [];
  let ready: ((text: string) => void) | undefined;
  const line = (text: string): void => {
    said = `${said.slice(-2_000)}${text}\n`;
    if (text.startsWith('ready ')) ready?.(text.slice('ready '.length));
    for (const one of waiting) if (text.includes(one.text)) one.resolve();
    waiting = waiting.filter((one) => !text.includes(one.text));
  };
  for (const stream of [child.stdout, child.stderr]) if (stream) createInterface({ input: stream }).on('line', line);
  const exited = once(child, 'exit').then(() => atExit.delete(kill));
  const started = new Promise<string>((resolve, reject) => {
    ready = resolve;
    void exited.then(() => reject(new Problem(`${command} ended before it was ready: ${said.trim()}`)));
  });
  const readyLine = await within(startMs, `${command} is ready`, started);
  return {
    ready: readyLine,
    saw: (text) => new Promise((resolve) => waiting.push({ text, resolve })),
    async kill() {
      kill();
      await exited;
    },
  };
}

export interface Times {
  readonly rejoinTimeoutMs: number;
}

export async function startStub(
  secretFile: string,
  { rejoinTimeoutMs }: Times,
  listen = '127.0.0.1:0',
  more: readonly string[] = [],
): Promise<Process & { readonly url: string }> {
  const process = await startProcess('legacy-stub/cli.js', [
    ...['--listen', listen, '--jwt-secret-file', secretFile, '--membership-latency', '2ms'],
    ...['--rejoin-timeout', `${rejoinTimeoutMs}ms`, '--reap-interval', '200ms'],
    ...['--ping-interval', '2s', '--ping-timeout', '3s'],
    ...more,
  ]);
  return { ...process, url: process.ready };
}

/** Without guards: on a busy machine one could take the calls back, and then what is played on a path is not played there. */
const served = '{ mode: new, guard: off }';
const relays = `{ ice-candidate: ${served}, call-renegotiation: ${served} }`;
export const routeTables = {
  legacy: 'namespaces: {}\n',
  new: `namespaces:\n  /: { calls: ${served} }\n  /calls: { calls: ${served} }\n`,
  /** Relays alone; whoever owns the call is the legacy. */
  peeled: `namespaces:\n  /: ${relays}\n  /calls: ${relays}\n`,
} as const;

export interface ProxyProcess extends Process {
  readonly url: string;
  readonly admin: string;
  setRoutes(to: keyof typeof routeTables): Promise<void>;
}

let tables = 0;

export async function startProxy(
  legacyUrl: string,
  folder: string,
  routes: keyof typeof routeTables,
  { rejoinTimeoutMs }: Times,
  more: readonly string[] = [],
): Promise<ProxyProcess> {
  const secretFile = join(folder, 'secret');
  const file = join(folder, `routes-${++tables}.yaml`);
  await writeFile(file, routeTables[routes]);
  const proxy = await startProcess('src/cli/sigfig.js', [
    'start',
    ...['--listen', '127.0.0.1:0', '--admin', '127.0.0.1:0', '--metrics', '127.0.0.1:0/metrics'],
    ...['--legacy', legacyUrl, '--routes', file, '--jwt-secret-file', secretFile],
    ...['--rejoin-timeout', `${rejoinTimeoutMs}ms`, '--reap-interval', '200ms'],
    ...more,
  ]);
  let inForce: string = routes;
  return {
    ...proxy,
    url: /proxy=(\S+)/.exec(proxy.ready)?.[1] ?? '',
    admin: /admin=(\S+)/.exec(proxy.ready)?.[1] ?? '',
    async setRoutes(to) {
      if (to === inForce) return;
      inForce = to;
      const read = proxy.saw('routes in force');
      await writeFile(`${file}.next`, routeTables[to]);
      await rename(`${file}.next`, file);
      await within(startMs, `the routes are ${to}`, read);
    },
  };
}
