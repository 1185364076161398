// The Redis driver against the contract, over a server of its own.
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { InstanceId } from '../base/ids.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import type { Redis } from '../redis/redis.js';
import { redisSessionStore } from './redis.js';
import { describeSessionStore, HERE } from './store.contract.js';

let server: RedisServer;
const open: Redis[] = [];
beforeAll(async () => {
  server = await startRedis();
});
afterAll(async () => {
  for (const redis of open) await redis.close();
  await server.close();
});

describeSessionStore('redis', async () => {
  const redis = await connectRedis({ place: redisPlace([server.url]), prefix: `test-${randomUUID()}` });
  open.push(redis);
  return redisSessionStore({
    redis,
    address: HERE,
    id: () => `${HERE}.1` as InstanceId,
    mayAct: () => true,
    isLivingId: (id) => id === `${HERE}.1`,
    dueAt: (session) => session.since + 60_000,
  });
});
