// Whatever becomes of what is asked of Redis (done, not done, done without an answer, done late and behind what was asked since): messages
// come once and in order, and presence ends as it is. Over one real Redis.
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { Peer } from '../base/service.js';
import { Bed, type Fate, type Instance, ns, until, user } from './cluster.fixture.js';

// A machine that runs other tests besides can make all of it several times slower.
vi.setConfig({ testTimeout: 60_000 });

let server: RedisServer;
let bed: Bed;
let a: Instance;
let b: Instance;
beforeAll(async () => {
  server = await startRedis();
  bed = new Bed(server.url);
  [a, b] = (await bed.several(2)) as [Instance, Instance];
});
afterAll(async () => {
  await bed.close();
  await server.close();
});

const fates = fc.array(fc.constantFrom<Fate>('done', 'not done', 'no answer', 'late'), { maxLength: 12 });

it('messages', async () => {
  await fc.assert(
    fc.asyncProperty(fates, fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 12 }), async (fate, turns) => {
      b.got.length = 0;
      a.link.fate('send', fate);
      let sent = 0;
      for (const count of [...turns, 1]) {
        for (let i = 0; i < count; i++) a.cluster.broker.send(b.cluster.liveness.address, { topic: 't', body: sent++ });
        await new Promise((resolve) => setImmediate(resolve));
      }
      await until('all there', () => b.got.length >= sent);
      expect(b.got).toEqual(Array.from({ length: sent }, (_, i) => i));
    }),
    { numRuns: 25 },
  );
  await a.link.settled();
  expect(b.signals.events.filter(({ what }) => what === 'bound')).toEqual([]);
});

it('presence', async () => {
  let serial = 0;
  await fc.assert(
    fc.asyncProperty(
      fates,
      fates,
      fc.array(fc.nat(3), { minLength: 1, maxLength: 8 }),
      async (writes, indexes, turns) => {
        const name = `user${++serial}`;
        a.link.fate('presence', writes);
        a.link.fate('presence-index', indexes);
        const here = new Map<number, Peer>();
        for (const device of turns) {
          const peer = here.get(device);
          if (peer) {
            a.disconnect(peer);
            here.delete(device);
          } else here.set(device, a.connect(name, `${name}-${device}`));
          await new Promise((resolve) => setImmediate(resolve));
        }
        const expected = [...here.values()].map(({ ref }) => ref.id).sort();
        const seen = async () => (await b.cluster.presence.socketsOf(ns, user(name))).map(({ id }) => id).sort();
        const right = async () => (await seen()).join() === expected.join();
        await until('as it is', right);
        // What came late may have undone it; that is found out.
        await a.link.settled();
        await until('as it is in the end', right);
        for (const peer of here.values()) a.disconnect(peer);
      },
    ),
    { numRuns: 15 },
  );
});
