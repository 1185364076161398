// The whole driver over one real Redis: what one instance tells, the others learn.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { redisPlaces, type StartedPlace } from '../../test/redis/places.js';
import { Bed, ns, until, user } from './cluster.fixture.js';

// A machine that runs other tests besides can make all of it several times slower.
vi.setConfig({ testTimeout: 60_000 });

describe.each(await redisPlaces())('instances over $name', ({ start }) => {
  let place: StartedPlace;
  let bed: Bed;
  beforeAll(async () => {
    place = await start();
  });
  afterAll(() => place.close());
  beforeEach(() => {
    bed = new Bed(place.url);
  });
  afterEach(async () => {
    await bed.close();
    await bed.forget(place.nodes);
  });

  it('know of one another and agree on one leader', async () => {
    const all = await bed.several(3);
    const ids = all.map(({ cluster }) => cluster.liveness.id).sort();
    for (const { cluster } of all) {
      expect(
        cluster.liveness
          .living()
          .map(({ id }) => id)
          .sort(),
      ).toEqual(ids);
      expect(cluster.liveness.living().filter(({ self }) => self)).toHaveLength(1);
      expect(cluster.liveness.mayAct()).toBe(true);
    }
    expect(all.filter(({ cluster }) => cluster.liveness.leads())).toHaveLength(1);
  });

  it('bring a message to the one that it is for, once and in order', async () => {
    const [a, b, c] = await bed.several(3);
    for (let i = 0; i < 1_000; i++) a!.cluster.broker.send(b!.cluster.liveness.address, { topic: 't', body: i });
    await until('all there', () => b!.got.length === 1_000);
    expect(b!.got).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
    expect(c!.got).toEqual([]);
  });

  it('see the sockets of a user wherever they are', async () => {
    const [a, b] = await bed.several(2);
    const here = a!.connect('alice', 'a1');
    const there = b!.connect('alice', 'b1');
    await until('both seen', async () => (await a!.cluster.presence.socketsOf(ns, user('alice'))).length === 2);
    expect(await a!.cluster.presence.socketsOf(ns, user('alice'))).toEqual([here.ref, there.ref]);
    expect(await a!.cluster.presence.isConnected(there.ref, user('alice'))).toBe(true);
    b!.disconnect(there);
    await until('one gone', async () => !(await a!.cluster.presence.isConnected(there.ref, user('alice'))));
    expect(await b!.cluster.presence.socketsOf(ns, user('alice'))).toEqual([here.ref]);
  });

  it('find a dead one within 4 s, one of them handles it, and its sockets are gone', async () => {
    const [a, b, c] = await bed.several(3);
    c!.connect('carol', 'c1');
    await until('seen', async () => (await a!.cluster.presence.socketsOf(ns, user('carol'))).length === 1);
    const dead = c!.cluster.liveness.id;
    await c!.kill();
    const killed = performance.now();
    await until('recovered', () => a!.recovered.length + b!.recovered.length > 0, 9_000);
    expect(performance.now() - killed).toBeLessThan(4_000);
    expect([...a!.recovered, ...b!.recovered]).toEqual([dead]);
    await until('gone', async () => (await a!.cluster.presence.socketsOf(ns, user('carol'))).length === 0);
  });
});
