// Several instances over one Redis: the driver that `compose` takes where one is given. Knows how its parts depend on one another.
import { performance } from 'node:perf_hooks';
import { type Clock, systemClock } from '../base/clock.js';
import type { Address } from '../base/ids.js';
import type { Redis } from '../redis/redis.js';
import type { LocalSockets } from './alone.js';
import type { Cluster } from './cluster.js';
import { newAddress } from './lives.js';
import { RedisBroker } from './redis-broker.js';
import { RedisLiveness } from './redis-liveness.js';
import { RedisPresence } from './redis-presence.js';
import { SharedClock } from './shared-clock.js';
import type { ClusterSignals } from './told.js';

/** Milliseconds that leaving may take to tell what is left to tell. */
const LEAVING = 2_000;

export interface RedisClusterOptions {
  readonly redis: Redis;
  /** For operators: the first part of the address. */
  readonly name: string;
  /** `newAddress(name)` where it must be known before; otherwise one is made. */
  readonly address?: Address;
  readonly sockets: LocalSockets;
  readonly signals: ClusterSignals;
  readonly clock?: Clock;
  /** Milliseconds that never go back, and that go on while the process is stopped. */
  readonly monotonic?: () => number;
}

export interface SharedCluster extends Cluster {
  /** The time that all instances agree on. */
  readonly clock: SharedClock;
}

/**
 * Resolves once the first renewal was answered or has failed: without Redis an instance starts all the same, may not act, and
 * goes on trying. `redis` stays the caller's to close, after this.
 */
export async function redisCluster(options: RedisClusterOptions): Promise<SharedCluster> {
  const { redis, sockets, signals, clock = systemClock, monotonic = () => performance.now() } = options;
  const address = options.address ?? newAddress(options.name);
  const shared = new SharedClock(clock, signals);
  const liveness = new RedisLiveness({ redis, address, signals, clock, shared, monotonic });
  const broker = new RedisBroker({ redis, liveness, signals, clock, monotonic });
  const presence = new RedisPresence({ redis, liveness, broker, sockets, signals, clock, monotonic });
  liveness.beforeLeaving(async () => {
    if (!redis.well()) return;
    await inTime(clock, Promise.allSettled([presence.writer.leave(), broker.drained()]));
    await broker.forget().catch(() => undefined); // Redis is away: it goes with its time to live.
  });
  await liveness.renew();
  return {
    presence,
    broker,
    liveness,
    clock: shared,
    async close() {
      presence.writer.close();
      broker.close();
      liveness.stop();
    },
  };
}

async function inTime(clock: Clock, work: Promise<unknown>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = clock.after(LEAVING, resolve);
    void work.finally(() => {
      timer.cancel();
      resolve();
    });
  });
}
