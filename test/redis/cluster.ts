// A Redis Cluster for tests that move a slot or lose a master. Knows nothing of sigfig.
import { type RedisServer, startRedis } from './server.js';

export interface RedisCluster {
  /** `redis-cluster://127.0.0.1:PORT,…` */
  readonly url: string;
  /** Those that began as masters; then their replicas, in the same order. */
  readonly nodes: readonly RedisServer[];
  /** The node that serves this key. */
  ownerOf(key: string): Promise<RedisServer>;
  /** Begins to move the slot of this key: what is not there any more is asked for at `to` (ASK, TRYAGAIN). */
  beginMove(key: string, to: RedisServer): Promise<SlotMove>;
  /** Moves the slot of this key with all that it holds. */
  move(key: string, to: RedisServer): Promise<void>;
  close(): Promise<void>;
}

export interface SlotMove {
  /** Takes the keys along, at most so many; answers how many went. */
  migrate(most?: number): Promise<number>;
  /** Everybody is told whose the slot is (MOVED). */
  finish(): Promise<void>;
}

const SLOTS = 16_384;

export async function startRedisCluster({ masters = 3, replicas = 0 } = {}): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-config-file', 'nodes.conf', '--cluster-node-timeout', '1000'];
  const nodes = await Promise.all(Array.from({ length: masters * (1 + replicas) }, () => startRedis({ args })));
  const first = nodes[0] as RedisServer;
  const all = <T>(ask: (node: RedisServer, i: number) => Promise<T>): Promise<T[]> => Promise.all(nodes.map(ask));
  const idOf = async (node: RedisServer): Promise<string> => String(await node.ask('CLUSTER', 'MYID'));

  await Promise.all(
    nodes.slice(0, masters).map((node, i) => {
      const [from, to] = [i, i + 1].map((n) => Math.floor((SLOTS * n) / masters)) as [number, number];
      return node.ask('CLUSTER', 'ADDSLOTSRANGE', from, to - 1);
    }),
  );
  // Two nodes that claim the same epoch would argue about it.
  await all((node, i) => node.ask('CLUSTER', 'SET-CONFIG-EPOCH', i + 1));
  for (const node of nodes.slice(1)) await first.ask('CLUSTER', 'MEET', '127.0.0.1', node.port);
  await until(async () => (await all(infoOf)).every((info) => info.cluster_known_nodes === String(nodes.length)));
  const ids = await all(idOf);
  for (const [i, node] of nodes.entries())
    if (i >= masters) await node.ask('CLUSTER', 'REPLICATE', ids[i % masters] as string);
  await until(async () => {
    const infos = await all(infoOf);
    return infos.every((info) => info.cluster_state === 'ok' && info.cluster_slots_assigned === String(SLOTS));
  });
  if (replicas > 0)
    await until(async () =>
      (await all((node) => node.ask('INFO', 'replication'))).every(
        (info, i) => i < masters || String(info).includes('master_link_status:up'),
      ),
    );

  const slotOf = async (key: string): Promise<number> => Number(await first.ask('CLUSTER', 'KEYSLOT', key));

  async function ownerOf(key: string): Promise<RedisServer> {
    const slot = await slotOf(key);
    const ranges = (await first.ask('CLUSTER', 'SLOTS')) as [number, number, [string, number]][];
    const range = ranges.find(([from, to]) => from <= slot && slot <= to);
    const owner = nodes.find(({ port }) => port === range?.[2][1]);
    if (!owner) throw new Error(`nobody serves slot ${slot}`);
    return owner;
  }

  async function beginMove(key: string, to: RedisServer): Promise<SlotMove> {
    const slot = await slotOf(key);
    const from = await ownerOf(key);
    const toId = await idOf(to);
    await to.ask('CLUSTER', 'SETSLOT', slot, 'IMPORTING', await idOf(from));
    await from.ask('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId);
    return {
      async migrate(most = 10_000) {
        const keys = (await from.ask('CLUSTER', 'GETKEYSINSLOT', slot, most)) as string[];
        if (keys.length > 0) await from.ask('MIGRATE', '127.0.0.1', to.port, '', 0, 5_000, 'KEYS', ...keys);
        return keys.length;
      },
      async finish() {
        for (const node of [to, from, ...nodes.filter((one) => one !== to && one !== from)]) {
          // A replica learns it from its master.
          const role = (await node.ask('ROLE')) as [string];
          if (role[0] === 'master') await node.ask('CLUSTER', 'SETSLOT', slot, 'NODE', toId);
        }
      },
    };
  }

  return {
    url: `redis-cluster://${nodes
      .slice(0, masters)
      .map(({ port }) => `127.0.0.1:${port}`)
      .join(',')}`,
    nodes,
    ownerOf,
    beginMove,
    async move(key, to) {
      const move = await beginMove(key, to);
      while ((await move.migrate()) > 0);
      await move.finish();
    },
    close: async () => void (await Promise.all(nodes.map((node) => node.close()))),
  };
}

async function infoOf(node: RedisServer): Promise<Record<string, string>> {
  const text = String(await node.ask('CLUSTER', 'INFO'));
  return Object.fromEntries(text.split('\r\n').map((line) => line.split(':') as [string, string]));
}

/** Asks until it is so; fails after 20 s. */
export async function until(so: () => Promise<boolean>): Promise<void> {
  for (const end = Date.now() + 20_000; !(await so()); ) {
    if (Date.now() > end) throw new Error('it did not come about within 20 s');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
