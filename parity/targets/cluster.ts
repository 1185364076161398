// Several instances of sigfig over one Redis, as one thing that is played against. Knows their command lines and the admin API,
// and nothing of their code.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Problem, within } from '../play/problem.js';
import { atExit, routeTables, startProxy, type Times } from './processes.js';
import { ask } from './routed.js';

const startMs = 10_000;

export interface Cluster {
  readonly urls: readonly string[];
  /** Resolves once it is in force on each. */
  setRoutes(to: keyof typeof routeTables): Promise<void>;
  kill(): Promise<void>;
}

let clusters = 0;

/** Instances with keys of their own, so that several clusters can share one Redis. */
export async function startCluster(
  redisUrl: string,
  instances: number,
  legacyUrl: string,
  folder: string,
  routes: keyof typeof routeTables,
  times: Times,
): Promise<Cluster> {
  const prefix = `parity-${process.pid}-${Math.floor(Math.random() * 36 ** 4).toString(36)}-${++clusters}`;
  const started = await Promise.allSettled(
    Array.from({ length: instances }, (_, i) =>
      startProxy(legacyUrl, folder, routes, times, [
        ...['--redis', redisUrl, '--redis-prefix', prefix, '--instance', `parity-${i + 1}`],
      ]),
    ),
  );
  const proxies = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const failed = started.find((one) => one.status === 'rejected');
  const kill = async () => void (await Promise.all(proxies.map((proxy) => proxy.kill())));
  if (failed) {
    await kill();
    throw failed.reason;
  }
  let inForce = routes;
  return {
    urls: proxies.map(({ url }) => url),
    async setRoutes(to) {
      if (to === inForce) return;
      const first = proxies[0]?.admin ?? '';
      await ask(first, undefined, '/api/routes/apply', { yaml: routeTables[to], reason: 'parity plays on this path' });
      inForce = to;
      const { version } = await ask<{ version: number }>(first, undefined, '/api/routes');
      const everywhere = async (): Promise<void> => {
        for (const { admin } of proxies) {
          while ((await ask<{ version: number }>(admin, undefined, '/api/routes')).version < version) {
            await new Promise((resolve) => setTimeout(resolve, 10));
          }
        }
      };
      await within(startMs, `the routes are ${to} on each of ${instances} instances`, everywhere());
    },
    kill,
  };
}

export interface RedisProcess {
  readonly url: string;
  kill(): Promise<void>;
}

/** A private `redis-server` (`REDIS_SERVER_PATH`, or on the PATH) on a free port. @throws Problem where there is none */
export async function startRedis(program: string): Promise<RedisProcess> {
  if (program.includes('/') && !existsSync(program)) throw new Problem(`there is no ${program}`);
  const folder = await mkdtemp(join(tmpdir(), 'parity-redis-'));
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const kill = () => void child.kill('SIGKILL');
  atExit.add(kill);
  const ended = new Promise<never>((_, reject) => {
    child.once('error', () => {
      reject(new Problem('the path "cluster" needs Redis: install redis-server, or name one with --redis URL'));
    });
    child.once('exit', () => reject(new Problem('redis-server ended before it was ready')));
  });
  const ready = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      if (/ready to accept connections/i.test(line)) resolve();
    });
  });
  try {
    await within(startMs, 'redis-server is ready', Promise.race([ready, ended]));
  } catch (error) {
    kill();
    atExit.delete(kill);
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
  ended.catch(() => undefined); // that it ends is what `kill` wants
  return {
    url: `redis://127.0.0.1:${port}`,
    async kill() {
      const exited = once(child, 'exit');
      kill();
      await exited;
      atExit.delete(kill);
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}
