// The contract of the cluster ports over both drivers, the Redis one over every Redis at hand.
import { afterAll, beforeAll, describe } from 'vitest';
import { redisPlaces, type StartedPlace } from '../../test/redis/places.js';
import { recordedSignals } from '../telemetry/signals.js';
import { alone } from './alone.js';
import { describeCluster } from './cluster.contract.js';
import { Bed, until } from './cluster.fixture.js';
import { redisCluster } from './redis.js';

describe('alone', () => {
  describeCluster(async (sockets) => {
    const cluster = alone(sockets, 'only');
    return { cluster, close: () => cluster.close() };
  });
});

describe.each(await redisPlaces())('over $name', ({ start }) => {
  let place: StartedPlace;
  beforeAll(async () => {
    place = await start();
  });
  afterAll(() => place.close());

  describeCluster(async (sockets) => {
    const bed = new Bed(place.url);
    const redis = await bed.redis();
    const cluster = await redisCluster({ redis, name: 'only', sockets, signals: recordedSignals() });
    await until('a lease', () => cluster.liveness.mayAct());
    return {
      cluster,
      async close() {
        await cluster.close();
        await redis.close();
        await bed.forget(place.nodes);
      },
    };
  });
});
