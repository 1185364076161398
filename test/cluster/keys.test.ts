// What calls leave in Redis: nothing once they are over, and not a key without a time to live while they are not.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../harness.js';
import { type Bed, callsAre, conversationOf, heard, type Instance, inCall, startBed } from './bed.js';

let bed: Bed;
beforeEach(async () => {
  bed = await startBed({ instances: 2 });
});
afterEach(() => bed.close());

const keys = async (): Promise<string[]> => {
  const found: string[] = [];
  let cursor = '0';
  do {
    const [next, some] = (await bed.redis.ask('SCAN', cursor, 'COUNT', 1000)) as [string, string[]];
    found.push(...some);
    cursor = next;
  } while (cursor !== '0');
  return [...new Set(found)].sort();
};

/** `sigfig:session:{…}` → `session`. */
const kindOf = (key: string): string => key.split(':')[1] ?? '';

/** What instances need as long as they run, however many calls there were: `sigfig:stream:{i1-6pygbnoc}`, `sigfig:leases:{live}`. */
const ofInstances = new Set(['beats', 'info', 'leases', 'routes', 'senders', 'state', 'stream']);

const withoutTtl = async (): Promise<string[]> => {
  const found = await keys();
  const left = await Promise.all(found.map(async (key) => [key, Number(await bed.redis.ask('PTTL', key))] as const));
  return left.filter(([, ms]) => ms === -1).map(([key]) => key);
};

describe('keys', () => {
  it('0 are left behind after 1,000 calls whose browsers went, and each has a time to live while they live', async () => {
    const [one, two] = bed.instances as [Instance, Instance];
    expect(await withoutTtl()).toEqual([]);
    const pairs = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        const [a, b] = await Promise.all([bed.on(n % 2 ? one : two, `t${n}a`), bed.on(n % 3 ? two : one, `t${n}b`)]);
        return { a, b };
      }),
    );
    let calls = 0;
    await Promise.all(
      pairs.map(async ({ a, b }, n) => {
        for (let i = 0; i < 50; i++) {
          const conversationId = await inCall(a, b);
          if (i % 3 === 0) {
            expect(await a.ask('ice-candidate', { conversationId, iceCandidate: i })).toEqual({ ok: true });
            await b.next('ice-candidate');
          }
          if (n === 0 && i === 25) expect(await withoutTtl()).toEqual([]);
          const [ends, hears] = i % 2 ? [a, b] : [b, a];
          expect(await ends.ask('call-end', { conversationId })).toEqual({ ok: true });
          await hears.next('call-ended');
          calls++;
        }
        // And one that ringing ends, and one that a drop ends.
        const conversationId = conversationOf(a, b);
        expect(await a.ask('call-offer', { conversationId, offer: 'last' })).toEqual({ ok: true });
        await b.next('call-offer');
        if (n % 2) await inCallAfterRinging(a, b, conversationId);
        a.close();
        await b.next(n % 2 ? 'call-peer-disconnected' : 'call-ended');
        b.close();
      }),
    );
    expect(calls).toBe(1_000);
    await callsAre(bed.instances, {});
    // That a call ended is remembered for a minute; whatever else a call, a user or a seat had is gone at once.
    let left: string[] = [];
    await until(
      async () => {
        left = (await keys()).filter((key) => kindOf(key) !== 'ended' && !ofInstances.has(kindOf(key)));
        return left.length === 0;
      },
      'nothing is left of calls and users',
      15_000,
    ).catch((error: Error) => {
      throw new Error(`${error.message}: ${left.slice(0, 20).join(' ')}`);
    });
    const kept = (await keys()).filter((key) => kindOf(key) !== 'ended');
    expect(kept.length, kept.join(' ')).toBeLessThanOrEqual(5 + 2 * bed.instances.length);
    for (const key of (await keys()).filter((one) => kindOf(one) === 'ended')) {
      const ms = Number(await bed.redis.ask('PTTL', key));
      expect(ms).toBeLessThanOrEqual(60_000);
    }
    expect(await withoutTtl()).toEqual([]);
  }, 60_000);

  it('none are left behind by devices that answer and call at once on two instances', async () => {
    const [one, two] = bed.instances as [Instance, Instance];
    const pairs = 6;
    const rounds = 6;
    let answered = 0;
    await Promise.all(
      Array.from({ length: pairs }, async (_, n) => {
        const [a, b1, b2] = await Promise.all([
          bed.on(n % 2 ? one : two, `c${n}a`),
          bed.on(one, `c${n}b`),
          bed.on(two, `c${n}b`),
        ]);
        const conversationId = conversationOf(a, b1);
        for (let k = 0; k < rounds; k++) {
          await Promise.all([
            a.ask('call-offer', { conversationId, offer: `a${k}` }),
            k % 2 && b2.ask('call-offer', { conversationId, offer: `b${k}` }),
          ]);
          await Promise.all([b1, b2].map((b, i) => b.ask('call-answer', { conversationId, answer: `${i} ${k}` })));
          await Promise.all([a, b1, b2].map((who) => who.ask('call-end', { conversationId })));
        }
        answered += heard(a).filter((event) => event === 'call-answer').length;
      }),
    );
    expect(answered).toBeGreaterThanOrEqual((pairs * rounds) / 2);
    await callsAre(bed.instances, {});
    const ofCalls = new Set(['awaiting', 'claim', 'due', 'kept-a', 'kept-o', 'seats', 'session']);
    let left: string[] = [];
    await until(
      async () => {
        left = (await keys()).filter((key) => ofCalls.has(kindOf(key)));
        return left.length === 0;
      },
      'nothing is left of calls',
      5_000,
    ).catch((error: Error) => {
      throw new Error(`${error.message}: ${left.join(' ')}`);
    });
  }, 60_000);
});

async function inCallAfterRinging(
  a: { next(event: string): Promise<unknown> },
  b: { ask(event: string, arg: unknown): Promise<unknown> },
  conversationId: string,
): Promise<void> {
  expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
  await a.next('call-answer');
}
