// Redis goes away under a cluster of real processes and comes back: killed with and without its data, frozen, full, slow. What the
// legacy serves is not touched, migrated events are refused clearly, and full service is back within 5 s.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Bed, chat, heard, type Instance, inCall, rejoin, startBed, talk, websocket } from '../cluster/bed.js';
import { until } from '../harness.js';
import { resident } from '../processes.js';
import { backWithinMs, callBetween, fullService, refused, steady, untouched } from './outage.js';

let bed: Bed;
beforeEach(async () => {
  bed = await startBed({ instances: 2 });
});
afterEach(() => bed.close());

const unseen = { ...websocket, seen: false };
const both = () => bed.instances as [Instance, Instance];
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('Redis', () => {
  it.each([
    { how: 'with its data', keepData: true },
    { how: 'without its data', keepData: false },
  ])(
    'is killed and restarted $how: refusals within 2 s, chat untouched, live calls go on',
    async ({ keepData }) => {
      const [one, two] = both();
      const { a, b, conversationId } = await callBetween(bed, one, two, 'live');
      const ringing = await Promise.all([bed.on(one, 'ring-a'), bed.on(two, 'ring-b')]);
      await ringing[0].ask('call-offer', { conversationId: 'dm:ring-a:ring-b', offer: 'o' });
      await ringing[0].ask('ice-candidate', { conversationId: 'dm:ring-a:ring-b', iceCandidate: 'early' });
      await ringing[1].next('call-offer');
      const chatting = await chat(bed, one, two, 'out');
      const going = steady(conversationId, a, b);
      await pause(300);
      await bed.redis.kill();
      // Long enough that no instance may act any more.
      await pause(3_000);
      const [c, d] = await Promise.all([bed.on(one, 'during-c', unseen), bed.on(two, 'during-d', unseen)]);
      await refused(c, 'call-offer', { conversationId: 'dm:during-c:during-d', offer: 'o' });
      await refused(ringing[1], 'call-answer', { conversationId: 'dm:ring-a:ring-b', answer: 'a' });
      await refused(b, 'call-renegotiate-offer', { conversationId, offer: 're' });
      expect(heard(d)).toEqual([]);
      await bed.redis.restart({ keepData });
      const back = performance.now();
      await fullService(bed, 'again', back);
      // What was live goes on, and what rang is answered, with its candidates.
      const { acknowledged } = await going.stop();
      expect(acknowledged).toBeGreaterThan(0);
      await talk(conversationId, a, b);
      expect(await ringing[1].ask('call-answer', { conversationId: 'dm:ring-a:ring-b', answer: 'a' })).toEqual([
        'early',
      ]);
      expect(await ringing[0].next('call-answer')).toMatchObject({ answer: 'a' });
      // Whoever came during the trouble is rung, once.
      await inCall(c, d);
      // Nobody was declared dead, and no call ended.
      expect([...heard(a), ...heard(b)].filter((name) => name.startsWith('call-'))).toEqual([
        'call-answer',
        'call-offer',
      ]);
      // A drop from now on is dealt with as ever, across instances.
      a.close();
      expect(await b.next('call-peer-disconnected')).toEqual({ conversationId, userId: a.user });
      await rejoin(conversationId, await bed.on(two, a.user), b);
      await untouched(chatting);
    },
    60_000,
  );

  it('is restarted at once, with its data, again and again: no event is lost or doubled', async () => {
    const [one, two] = both();
    const { a, b, conversationId } = await callBetween(bed, one, two, 'again');
    const chatting = await chat(bed, two, one, 'again');
    const there = steady(conversationId, a, b, 10);
    const back = steady(conversationId, b, a, 10);
    for (let round = 0; round < 3; round++) {
      await bed.redis.restart({ keepData: true });
      await pause(1_500);
    }
    await fullService(bed, 'after');
    for (const { acknowledged } of [await there.stop(), await back.stop()]) expect(acknowledged).toBeGreaterThan(100);
    await untouched(chatting);
  }, 60_000);

  it('is frozen for 4 s: nothing hangs, nobody is declared dead, all goes on when it thaws', async () => {
    const [one, two] = both();
    const { a, b, conversationId } = await callBetween(bed, one, two, 'ice');
    const chatting = await chat(bed, one, two, 'ice');
    const going = steady(conversationId, a, b);
    await bed.redis.freeze();
    await pause(2_500);
    const c = await bed.on(one, 'ice-c', unseen);
    await refused(c, 'call-offer', { conversationId: 'dm:ice-c:ice-b', offer: 'o' });
    await pause(1_500);
    await bed.redis.thaw();
    await fullService(bed, 'thawed');
    await going.stop();
    await talk(conversationId, a, b);
    expect([...heard(a), ...heard(b)].filter((name) => name.startsWith('call-'))).toEqual([
      'call-answer',
      'call-offer',
    ]);
    await untouched(chatting);
  }, 60_000);

  it('is full: refusals while nothing can be written, full service once it can', async () => {
    const [one, two] = both();
    const { a, b, conversationId } = await callBetween(bed, one, two, 'full');
    const chatting = await chat(bed, one, two, 'full');
    await bed.redis.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction');
    await bed.redis.ask('CONFIG', 'SET', 'maxmemory', '1');
    await pause(2_500);
    const c = await bed.on(one, 'full-c', unseen);
    await refused(c, 'call-offer', { conversationId: 'dm:full-c:full-b', offer: 'o' });
    await refused(a, 'call-renegotiate-offer', { conversationId, offer: 're' });
    await bed.redis.ask('CONFIG', 'SET', 'maxmemory', '0');
    await fullService(bed, 'space');
    await talk(conversationId, a, b);
    await untouched(chatting);
  }, 60_000);

  it('is slow, 100 ms each way: everything is served, an event takes two round trips at most, the legacy none', async () => {
    const [one, two] = both();
    const chatting = await chat(bed, one, two, 'slow');
    for (const { link } of bed.instances) link.delay(100);
    // Leases are renewed slowly from now on, too.
    await pause(2_500);
    const took: Record<string, number[]> = {};
    const timed = async (what: string, ask: () => Promise<unknown>): Promise<void> => {
      const started = performance.now();
      await ask();
      took[what] = [...(took[what] ?? []), performance.now() - started];
    };
    const played = ['1', '2', '3'].map(async (n) => {
      const [a, b] = await Promise.all([bed.on(one, `slow-${n}-a`), bed.on(two, `slow-${n}-b`)]);
      await pause(500);
      const conversationId = `dm:slow-${n}-a:slow-${n}-b`;
      await timed('call-offer', async () =>
        expect(await a.ask('call-offer', { conversationId, offer: 'o' })).toEqual({ ok: true }),
      );
      await b.next('call-offer');
      await timed('call-answer', async () =>
        expect(await b.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]),
      );
      await a.next('call-answer');
      await timed('ice-candidate', async () =>
        expect(await a.ask('ice-candidate', { conversationId, iceCandidate: 'c' })).toEqual({ ok: true }),
      );
      await b.next('ice-candidate');
      await timed('call-renegotiate-offer', async () =>
        expect(await a.ask('call-renegotiate-offer', { conversationId, offer: 're' })).toEqual({ ok: true }),
      );
      await b.next('call-renegotiate-offer');
      await timed('call-renegotiate-answer', async () =>
        expect(await b.ask('call-renegotiate-answer', { conversationId, answer: 're' })).toEqual({ ok: true }),
      );
      await a.next('call-renegotiate-answer');
      await timed('call-end', async () => expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true }));
      await a.next('call-ended');
      expect([...heard(a), ...heard(b)].filter((name) => name.startsWith('error'))).toEqual([]);
    });
    await Promise.all(played);
    // A candidate after the answer waits for nobody; everything else for two round trips of 200 ms at most. Of three calls the
    // quickest counts: a busy machine adds to that, and takes no round trip away.
    expect(Math.min(...(took['ice-candidate'] ?? []))).toBeLessThan(150);
    for (const [event, all] of Object.entries(took)) {
      expect(all, event).toHaveLength(3);
      expect(Math.min(...all), `${event} took ${all} ms`).toBeLessThan(580);
    }
    await untouched(chatting);
  }, 60_000);

  it('is away under load: memory stays bounded, and all is well within 5 s of its return', async () => {
    const [one, two] = both();
    const calls = await Promise.all(Array.from({ length: 30 }, (_, n) => callBetween(bed, one, two, `load${n}`)));
    const chatting = await chat(bed, one, two, 'load');
    const before = bed.instances.map(({ pid }) => resident(pid));
    await bed.redis.kill();
    const flood = calls.map(({ a, b, conversationId }) => [
      steady(conversationId, a, b, 50),
      steady(conversationId, b, a, 50),
    ]);
    await pause(6_000);
    const growth = bed.instances.map(({ pid }, i) => resident(pid) - (before[i] ?? 0));
    for (const bytes of growth) expect(bytes).toBeLessThan(96_000_000);
    await bed.redis.restart({ keepData: true });
    const back = performance.now();
    await fullService(bed, 'loaded', back);
    for (const one of flood.flat()) await one.stop();
    for (const { a, b, conversationId } of calls) await talk(conversationId, a, b);
    await until(async () => (await bed.living(one)) === 2, 'both live', backWithinMs);
    await untouched(chatting);
  }, 60_000);
});
