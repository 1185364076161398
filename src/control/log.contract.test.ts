// What every log of route versions that outlives its process must do, over a file and over each Redis at hand.
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { redisPlaces, type StartedPlace } from '../../test/redis/places.js';
import { systemClock } from '../base/clock.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import type { Redis } from '../redis/redis.js';
import { recordedSignals } from '../telemetry/signals.js';
import type { RouteLog } from './control.js';
import { fileLog } from './file-log.js';
import { hub } from './redis-log.fixture.js';
import { redisRouteLog } from './redis-log.js';
import { tableWith, versionOf } from './versions.fixture.js';

interface Place {
  readonly name: string;
  start(): Promise<void>;
  close(): Promise<void>;
  /** Another process's view of one log; `fresh` begins an empty one. */
  open(): RouteLog | Promise<RouteLog>;
  fresh(): void;
}

function files(): Place {
  let folder = '';
  let name = '';
  return {
    name: 'a file',
    start: async () => {
      folder = await mkdtemp(join(tmpdir(), 'log-'));
    },
    close: () => rm(folder, { recursive: true, force: true }),
    fresh: () => {
      name = randomUUID();
    },
    open: () => fileLog(join(folder, `${name}.jsonl`)),
  };
}

function redises(name: string, start: () => Promise<StartedPlace>): Place {
  let started: StartedPlace;
  let prefix = '';
  const links: Redis[] = [];
  const used: string[] = [];
  return {
    name,
    start: async () => {
      started = await start();
    },
    async close() {
      // Where it is somebody's, nothing stays behind.
      const [first] = links;
      for (const key of used) await first?.call('DEL', key);
      for (const redis of links) await redis.close();
      await started?.close();
    },
    fresh: () => {
      prefix = randomUUID();
    },
    async open() {
      const redis = await connectRedis({ place: redisPlace([started.url]), prefix });
      links.push(redis);
      used.push(redis.key('routes', 'live'));
      const cluster = hub().join(randomUUID());
      return redisRouteLog({ redis, cluster, clock: systemClock, signals: recordedSignals() });
    },
  };
}

const places = [files(), ...(await redisPlaces()).map(({ name, start }) => redises(name, start))];

describe.each(places.map((place) => [place.name, place] as const))('a log in %s', (_name, place) => {
  beforeAll(() => place.start(), 60_000);
  afterAll(() => place.close());
  beforeEach(() => place.fresh());

  const numbers = (versions: readonly { readonly version: number }[]) => versions.map(({ version }) => version);
  const filled = async (count: number) => {
    const log = await place.open();
    await log.read();
    for (let i = 1; i <= count; i++) expect(await log.append(versionOf(i), i - 1)).toEqual({});
    return log;
  };

  it('is empty at first, and says where it is', async () => {
    const log = await place.open();
    expect(await log.read()).toEqual({ versions: [], last: 0, problems: [] });
    expect(await log.older(10, 5)).toEqual([]);
    expect(log.where).toMatch(/jsonl$|^redis/);
    await log.close();
  });

  it('gives back what was appended, to another process too, numbers left out and all', async () => {
    const log = await filled(2);
    expect(await log.append(versionOf(7), 2)).toEqual({});
    const expected = { versions: [versionOf(1), versionOf(2), versionOf(7)], last: 7, problems: [] };
    expect(await log.read()).toEqual(expected);
    expect(await (await place.open()).read()).toEqual(expected);
  });

  it('answers what others have appended since, and takes nothing then', async () => {
    const one = await filled(1);
    const two = await place.open();
    await two.read();
    const found: number[] = [];
    two.follow?.({
      appended: ({ versions }) => {
        found.push(...numbers(versions));
        return 0;
      },
      replaced: () => [],
    });
    await one.append(versionOf(2), 1);
    await one.append(versionOf(3), 2);
    const mine = versionOf(2, undefined, 'mallory');
    expect(numbers((await two.append(mine, 1)).conflict ?? [])).toEqual([2, 3]);
    expect(await two.append(versionOf(4, undefined, 'mallory'), 3)).toEqual({});
    expect(numbers((await two.read()).versions)).toEqual([1, 2, 3, 4]);
    await two.close();
  });

  it('takes exactly one of those that append one number at once', async () => {
    const logs = [await filled(1), await place.open(), await place.open(), await place.open()];
    for (const log of logs) {
      await log.read();
      log.follow?.({ appended: () => 0, replaced: () => [] });
    }
    const appended = await Promise.all(logs.map((log, i) => log.append(versionOf(2, undefined, `op ${i}`), 1)));
    expect(appended.filter(({ conflict }) => conflict === undefined)).toHaveLength(1);
    for (const { conflict } of appended) expect(numbers(conflict ?? []).every((number) => number === 2)).toBe(true);
    const winner = appended.findIndex(({ conflict }) => conflict === undefined);
    expect((await logs[0]?.read())?.versions.at(-1)?.actor).toBe(`op ${winner}`);
    for (const log of logs) await log.close();
  });

  it('is paged backwards, newest first', async () => {
    const log = await filled(40);
    expect(numbers(await log.older(5, 38))).toEqual([37, 36, 35, 34, 33]);
    expect(numbers(await log.older(100, 4))).toEqual([3, 2, 1]);
    expect(await log.older(3, 1)).toEqual([]);
    expect((await log.older(1, 21))[0]).toEqual(versionOf(20));
  });

  it('keeps a table with a thousand users in every character', async () => {
    const users = Array.from({ length: 300 }, (_, i) => `${i} "ü" 😀 \n \u2028`);
    const large = versionOf(1, tableWith({ mode: 'canary', canary: { percent: 1, users } }));
    const log = await place.open();
    await log.read();
    await log.append(large, 0);
    expect((await (await place.open()).read()).versions).toEqual([large]);
  });
});
