// Real Redis servers for tests that kill, freeze, empty or fail them over: each a process of its own on a free port of 127.0.0.1,
// with its own folder. Where the machine has no redis-server, a single one runs in Docker (`container.ts`). Knows nothing of sigfig.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findRedis } from '../../scripts/redis.mjs';
import { type Ask, asking } from './asking.js';
import { dockerAnswers, startContainer } from './container.js';
import { freePort } from './port.js';

export interface RedisServer {
  /** `redis://127.0.0.1:PORT` */
  readonly url: string;
  readonly port: number;
  /** Of the process that runs now; undefined in Docker, or while it is down. */
  readonly pid: number | undefined;
  /** SIGKILL, and waits until it is gone. What it had answered is in its file. */
  kill(): Promise<void>;
  /** SIGTERM, and waits until it is gone. */
  stop(): Promise<void>;
  /** On the same port; kills it first where it still runs. Without its data it comes back empty. */
  restart(how: { readonly keepData: boolean }): Promise<void>;
  /** SIGSTOP: connections stay open, nothing answers. */
  freeze(): Promise<void>;
  thaw(): Promise<void>;
  /** One command, on a connection that the server keeps for the test. */
  readonly ask: Ask;
  /** Kills it and removes its folder. */
  close(): Promise<void>;
}

export interface HowToStart {
  /** As on the command line of redis-server: `['--maxmemory', '4mb']`. */
  readonly args?: readonly string[];
  /** A free one where it is not given. */
  readonly port?: number;
}

/** A private server that keeps its data over a restart. Rejects where neither redis-server nor Docker is there. */
export async function startRedis({ args = [], port }: HowToStart = {}): Promise<RedisServer> {
  const binary = findRedis();
  if (!binary) {
    if (await dockerAnswers()) return startContainer(args);
    throw new Error('no redis-server and no Docker: run "node scripts/redis.mjs" or set REDIS_SERVER_PATH');
  }
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-redis-'));
  // "appendfsync no" writes before it answers, so that a SIGKILL loses nothing of what was answered; only the fsync is left out.
  const persistent = ['--appendonly', 'yes', '--appendfsync', 'no', '--save', ''];
  const begin = (on: number): Promise<ChildProcess> =>
    launch(binary, on, ['--port', `${on}`, '--bind', '127.0.0.1', '--dir', folder, ...persistent, ...args]);

  let at = port;
  let child: ChildProcess | undefined;
  // Whoever else looks for a port at this moment may take it: another is tried then.
  for (let tries = 0; !child; tries++) {
    at = port ?? (await freePort());
    try {
      child = await begin(at);
    } catch (error) {
      if (tries === 4 || port !== undefined) throw error;
    }
  }
  const chosen = at as number;
  const client = asking(`redis://127.0.0.1:${chosen}`);

  async function end(signal: NodeJS.Signals): Promise<void> {
    const running = child;
    if (!running) return;
    child = undefined;
    if (running.exitCode !== null || running.signalCode !== null) return;
    const gone = once(running, 'exit');
    running.kill(signal);
    // A stopped process takes no SIGTERM before it goes on.
    if (signal !== 'SIGKILL') running.kill('SIGCONT');
    await gone;
  }

  return {
    url: `redis://127.0.0.1:${chosen}`,
    port: chosen,
    get pid() {
      return child?.pid;
    },
    kill: () => end('SIGKILL'),
    stop: () => end('SIGTERM'),
    async restart({ keepData }) {
      await end('SIGKILL');
      if (!keepData) for (const name of ['appendonlydir', 'dump.rdb']) await discard(join(folder, name));
      for (let tries = 0; !child; tries++) {
        try {
          child = await begin(chosen);
        } catch (error) {
          if (tries === 4) throw error;
        }
      }
    },
    async freeze() {
      child?.kill('SIGSTOP');
      // The signal is on its way: what it still answers before that would surprise a test.
      while (child && !(await isStopped(child.pid))) await new Promise((resolve) => setImmediate(resolve));
    },
    async thaw() {
      child?.kill('SIGCONT');
    },
    ask: client.ask,
    async close() {
      client.close();
      await end('SIGKILL');
      await discard(folder);
    },
  };
}

/** By Linux's word; elsewhere there is none, and it is believed. */
async function isStopped(pid: number | undefined): Promise<boolean> {
  if (process.platform !== 'linux' || pid === undefined) return true;
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return !/^\d+ \(.*\) [RSD]/.test(stat);
}

const discard = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

/** Runs a redis-server (or sentinel) until it accepts connections. Ends with this process. */
export async function launch(binary: string, port: number, args: readonly string[]): Promise<ChildProcess> {
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  const listen = (chunk: Buffer): void => {
    said = (said + chunk.toString()).slice(-4_000);
  };
  child.stdout.on('data', listen);
  child.stderr.on('data', listen);
  const orphan = (): void => void child.kill('SIGKILL');
  process.once('exit', orphan);
  const exited = once(child, 'exit').then(
    () => {
      process.removeListener('exit', orphan);
      return true;
    },
    (error: Error) => {
      said += error.message;
      return true;
    },
  );
  const until = Date.now() + 15_000;
  // Only its own word counts: the port could be somebody else's.
  while (!/Ready to accept connections|monitor master/.test(said) || !(await accepts(port))) {
    const over = await Promise.race([exited, new Promise<false>((resolve) => setTimeout(resolve, 20, false))]);
    if (over) throw new Error(`redis-server on port ${port} ended: ${said}`);
    if (Date.now() > until) {
      child.kill('SIGKILL');
      throw new Error(`redis-server on port ${port} is not ready after 15 s: ${said}`);
    }
  }
  return child;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });
}
