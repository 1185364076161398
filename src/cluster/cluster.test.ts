// The contract of the cluster ports over both drivers.
import { afterAll, beforeAll, describe } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { recordedSignals } from '../telemetry/signals.js';
import { alone } from './alone.js';
import { describeCluster } from './cluster.contract.js';
import { Bed } from './cluster.fixture.js';
import { redisCluster } from './redis.js';

describe('alone', () => {
  describeCluster(async (sockets) => {
    const cluster = alone(sockets, 'only');
    return { cluster, close: () => cluster.close() };
  });
});

describe('over Redis', () => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.close());

  describeCluster(async (sockets) => {
    const redis = await new Bed(server.url).redis();
    const cluster = await redisCluster({ redis, name: 'only', sockets, signals: recordedSignals() });
    return {
      cluster,
      async close() {
        await cluster.close();
        await redis.close();
      },
    };
  });
});
