// Every Redis at hand, for suites that must hold over each: a private server, a Cluster, the one that REDIS_URL names, and one in
// Docker where an engine answers. Knows nothing of sigfig.
import { findRedis } from '../../scripts/redis.mjs';
import { asking } from './asking.js';
import { startRedisCluster } from './cluster.js';
import { dockerAnswers, startContainer } from './container.js';
import { type RedisServer, startRedis } from './server.js';

export interface StartedPlace {
  readonly url: string;
  /** Commands to each of its masters. */
  readonly nodes: readonly RedisServer['ask'][];
  close(): Promise<void>;
}

export interface NamedPlace {
  readonly name: string;
  start(): Promise<StartedPlace>;
}

export async function redisPlaces(): Promise<readonly NamedPlace[]> {
  const places: NamedPlace[] = [];
  const given = process.env.REDIS_URL;
  if (given) {
    places.push({
      name: 'the Redis of REDIS_URL',
      // It is somebody's: a suite takes a prefix of its own and removes only what has it.
      start: async () => {
        const { ask, close } = asking(given);
        return { url: given, nodes: [ask], close: async () => close() };
      },
    });
  }
  if (await dockerAnswers())
    places.push({ name: 'Redis in Docker', start: async () => single(await startContainer()) });
  if (findRedis()) {
    places.push({ name: 'Redis', start: async () => single(await startRedis()) });
    places.push({
      name: 'Redis Cluster',
      start: async () => {
        const cluster = await startRedisCluster();
        return { url: cluster.url, nodes: cluster.nodes.map(({ ask }) => ask), close: () => cluster.close() };
      },
    });
  }
  return places;
}

const single = (server: RedisServer): StartedPlace => ({
  url: server.url,
  nodes: [server.ask],
  close: () => server.close(),
});
