// Redis that changes its place under a cluster of real processes: Sentinel replaces the master, a Redis Cluster moves slots or has
// one of its masters restarted. Calls go on, and what the legacy serves is not touched.
import { afterEach, describe, expect, it } from 'vitest';
import { type Bed, chat, heard, type Instance, inCall, startBed, talk } from '../cluster/bed.js';
import { until } from '../harness.js';
import { type RedisCluster, startRedisCluster } from '../redis/cluster.js';
import { type RedisWithSentinels, startSentinel } from '../redis/sentinel.js';
import { callBetween, fullService, steady, untouched } from './outage.js';

let bed: Bed | undefined;
let redis: RedisCluster | RedisWithSentinels | undefined;
afterEach(async () => {
  await bed?.close();
  await redis?.close();
  bed = undefined;
  redis = undefined;
});

const both = ({ instances }: Bed) => instances as [Instance, Instance];

describe('Sentinel', () => {
  it('replaces the master: full service within 5 s of the new one, live calls go on, chat is untouched', async () => {
    const sentinels = await startSentinel();
    redis = sentinels;
    // Instances are on the old master until the Sentinels tell it that it is one no more, some 10 s later.
    const holderOf = async (key: string) => {
      for (const server of sentinels.servers) if (Number(await server.ask('HLEN', key)) > 0) return server;
      return sentinels.master();
    };
    bed = await startBed({ over: { url: sentinels.url, holderOf } });
    const [one, two] = both(bed);
    const { a, b, conversationId } = await callBetween(bed, one, two, 'sentinel');
    const chatting = await chat(bed, one, two, 'sentinel');
    const going = steady(conversationId, a, b);
    const old = await sentinels.master();
    await sentinels.failover();
    await fullService(bed, 'meanwhile');
    const between = await callBetween(bed, one, two, 'between');
    await until(async () => String(await old.ask('ROLE')).startsWith('slave'), 'the old master is a replica', 20_000);
    await fullService(bed, 'promoted');
    await talk(between.conversationId, between.a, between.b);
    // A replica may lack what the old master wrote last: what was on its way then is lost with it, and nothing else.
    const { acknowledged } = await going.stop();
    expect(acknowledged).toBeGreaterThan(0);
    await talk(conversationId, a, b);
    expect([...heard(a), ...heard(b)].filter((name) => name.startsWith('call-'))).toEqual([
      'call-answer',
      'call-offer',
    ]);
    await untouched(chatting);
  }, 60_000);
});

describe('a Redis Cluster', () => {
  /** Of each kind of key that there is. */
  const keysOf = async (cluster: RedisCluster): Promise<string[]> =>
    (await Promise.all(cluster.nodes.map((node) => node.ask('KEYS', '*')))).flat() as string[];

  it('serves calls, and moves the slots of a live call, of its users and of the instances, with calls going on', async () => {
    const cluster = await startRedisCluster();
    redis = cluster;
    bed = await startBed({ over: { url: cluster.url, holderOf: (key) => cluster.ownerOf(key) } });
    const [one, two] = both(bed);
    const { a, b, conversationId } = await callBetween(bed, one, two, 'slots');
    const chatting = await chat(bed, one, two, 'slots');
    const going = steady(conversationId, a, b);
    const kinds = new Map((await keysOf(cluster)).map((key) => [key.replace(/^[^{]*\{|\}[^}]*$/g, ''), key]));
    expect(kinds.size).toBeGreaterThan(3);
    for (const [n, key] of [...kinds.values()].entries()) {
      const owner = await cluster.ownerOf(key);
      const to = cluster.nodes.find((node) => node.port !== owner.port);
      if (!to) throw new Error('a cluster of one');
      const move = await cluster.beginMove(key, to);
      // Half-way: some keys of the slot are here, some there. What needs both waits until the move has ended.
      await move.migrate(1);
      const asked = a.ask('call-renegotiate-offer', { conversationId, offer: `re ${n}` });
      while ((await move.migrate()) > 0);
      await move.finish();
      expect(await asked).toEqual({ ok: true });
      await b.next('call-renegotiate-offer');
      expect(await b.ask('call-renegotiate-answer', { conversationId, answer: `re ${n}` })).toEqual({ ok: true });
      await a.next('call-renegotiate-answer');
    }
    const { refused } = await going.stop();
    expect(refused).toBe(0);
    await talk(conversationId, a, b);
    await fullService(bed, 'moved');
    await untouched(chatting);
  }, 60_000);

  it('has each of its masters restarted, one after another: full service within 5 s of each', async () => {
    const cluster = await startRedisCluster();
    redis = cluster;
    bed = await startBed({ over: { url: cluster.url, holderOf: (key) => cluster.ownerOf(key) } });
    const [one, two] = both(bed);
    const { a, b, conversationId } = await callBetween(bed, one, two, 'masters');
    const chatting = await chat(bed, one, two, 'masters');
    for (const [i, node] of cluster.nodes.entries()) {
      await node.restart({ keepData: true });
      await fullService(bed, `master${i}`);
      await talk(conversationId, a, b);
    }
    await inCall(await bed.on(one, 'fresh-a'), await bed.on(two, 'fresh-b'));
    await untouched(chatting);
  }, 60_000);
});
