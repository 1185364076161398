// A Redis with replicas and the Sentinels that watch over it, for tests of a failover. Knows nothing of sigfig.
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findRedis } from '../../scripts/redis.mjs';
import { asking } from './asking.js';
import { until } from './cluster.js';
import { freePort } from './port.js';
import { launch, type RedisServer, startRedis } from './server.js';

export interface RedisWithSentinels {
  /** `redis-sentinel://127.0.0.1:PORT,…/sigfig` */
  readonly url: string;
  readonly servers: readonly RedisServer[];
  /** Whom the Sentinels call the master now. */
  master(): Promise<RedisServer>;
  /** Has another made master, while this one lives on as its replica; resolves once it is. */
  failover(): Promise<RedisServer>;
  close(): Promise<void>;
}

/** A master that is silent for half a second is replaced, once most Sentinels agree. */
export async function startSentinel({ replicas = 1, sentinels = 3 } = {}): Promise<RedisWithSentinels> {
  const binary = findRedis();
  if (!binary) throw new Error('no redis-server: run "node scripts/redis.mjs" or set REDIS_SERVER_PATH');
  const fast = ['--repl-diskless-sync-delay', '0'];
  const first = await startRedis({ args: fast });
  const more = await Promise.all(
    Array.from({ length: replicas }, () =>
      startRedis({ args: [...fast, '--replicaof', '127.0.0.1', `${first.port}`] }),
    ),
  );
  const servers = [first, ...more];
  await until(async () => String(await first.ask('INFO', 'replication')).split('state=online').length - 1 === replicas);

  const folder = await mkdtemp(join(tmpdir(), 'sigfig-sentinel-'));
  const watchers = await Promise.all(
    Array.from({ length: sentinels }, async (_, i) => {
      const port = await freePort();
      const file = join(folder, `sentinel-${i}.conf`);
      // Sentinels write into their file what they find out.
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `dir ${folder}`,
        `sentinel monitor sigfig 127.0.0.1 ${first.port} ${Math.floor(sentinels / 2) + 1}`,
        'sentinel down-after-milliseconds sigfig 500',
        'sentinel failover-timeout sigfig 3000',
      ];
      await writeFile(file, `${lines.join('\n')}\n`);
      const child = await launch(binary, port, [file, '--sentinel']);
      return { port, child, ...asking(`redis://127.0.0.1:${port}`) };
    }),
  );
  const watcher = watchers[0] as (typeof watchers)[number];
  const stateOf = async (ask: RedisServer['ask']): Promise<Record<string, string>> => {
    const flat = (await ask('SENTINEL', 'MASTER', 'sigfig')) as string[];
    return Object.fromEntries(flat.flatMap((name, i) => (i % 2 === 0 ? [[name, flat[i + 1] ?? '']] : [])));
  };
  await until(async () => {
    const states = await Promise.all(watchers.map(({ ask }) => stateOf(ask)));
    return states.every(
      (state) => state['num-other-sentinels'] === String(sentinels - 1) && state['num-slaves'] === String(replicas),
    );
  });

  async function master(): Promise<RedisServer> {
    const [, port] = (await watcher.ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'sigfig')) as [string, string];
    const found = servers.find((server) => server.port === Number(port));
    if (!found) throw new Error(`a master at ${port} that nobody started`);
    return found;
  }

  return {
    url: `redis-sentinel://${watchers.map(({ port }) => `127.0.0.1:${port}`).join(',')}/sigfig`,
    servers,
    master,
    async failover() {
      const before = await master();
      await watcher.ask('SENTINEL', 'FAILOVER', 'sigfig');
      await until(async () => (await master()) !== before);
      const after = await master();
      await until(async () => ((await after.ask('ROLE')) as [string])[0] === 'master');
      return after;
    },
    async close() {
      for (const { close } of watchers) close();
      await Promise.all(watchers.map(({ child }) => ended(child)));
      await Promise.all(servers.map((server) => server.close()));
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
