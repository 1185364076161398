// Leases over one real Redis: who is found dead and by whom, who may act, who leads, and what happens where Redis goes or forgets.
import { describe, expect } from 'vitest';
import { atOnce } from './at-once.fixture.js';
import { type Bed, type Instance, ns, until, user } from './cluster.fixture.js';

const { server, it } = atOnce();

const key = (bed: Bed, kind: string): string => `${bed.prefix}:${kind}:{live}`;
const lives = ({ cluster }: Instance): string[] => cluster.liveness.living().map(({ id }) => id);

/** Its lease is over at once, as if it had been silent for 3 s. */
const expire = async (bed: Bed, { cluster }: Instance): Promise<void> => {
  await server.ask('ZADD', key(bed, 'leases'), 1, cluster.liveness.id);
};

describe('a dead instance', () => {
  it('is handled by exactly one of many', async (bed) => {
    const [dead, ...others] = await bed.several(6);
    await dead!.kill();
    await until('handled', () => others.some(({ recovered }) => recovered.length > 0));
    await until('known by all', () => others.every((one) => lives(one).length === 5));
    expect(others.flatMap(({ recovered }) => recovered)).toEqual([dead!.cluster.liveness.id]);
    for (const { cluster } of others) expect(cluster.liveness.isLiving(dead!.cluster.liveness.address)).toBe(false);
    await until('the claim is over', async () => (await server.ask('HLEN', key(bed, 'claims'))) === 0);
  });

  it('is handled by another one where its claimer dies in the middle', async (bed) => {
    const [dead, ...others] = await bed.several(1);
    let claimer: Instance | undefined;
    const handles: (() => void)[] = [];
    for (let i = 0; i < 3; i++) {
      const one: Instance = await bed.start(`other${i}`, {
        // The first never gets to an end.
        recover: () => {
          if (claimer) return Promise.resolve();
          claimer = one;
          return new Promise((resolve) => handles.push(resolve));
        },
      });
      others.push(one);
    }
    await dead!.kill();
    await until('claimed', () => claimer !== undefined);
    await claimer!.kill();
    const left = others.filter((one) => one !== claimer);
    const both = [dead!, claimer!].map(({ cluster }) => cluster.liveness.id).sort();
    await until('both handled', () => left.flatMap(({ recovered }) => recovered).length === 2, 12_000);
    expect(left.flatMap(({ recovered }) => recovered).sort()).toEqual(both);
  });

  it('is tried again where handling it failed', async (bed) => {
    let tries = 0;
    const one = await bed.start('one', {
      recover: async () => {
        tries += 1;
        if (tries < 3) throw new Error('not now');
      },
    });
    const dead = await bed.start('dead');
    await dead.kill();
    await expire(bed, dead);
    await until('handled', () => one.recovered.length === 1);
    expect(tries).toBe(3);
    expect(one.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(2);
  });

  it('is not handled twice where the answer that it is done was lost', async (bed) => {
    const [one, dead] = await bed.several(2);
    one!.link.loseAnswers('claim-over', 1);
    await dead!.kill();
    await expire(bed, dead!);
    await until(
      'the claim is over',
      async () => (await server.ask('HLEN', key(bed, 'claims'))) === 0 && one!.recovered.length > 0,
    );
    await one!.cluster.liveness.renew();
    await one!.cluster.liveness.renew();
    expect(one!.recovered).toEqual([dead!.cluster.liveness.id]);
  });

  it('is found by those that start when all of them had died', async (bed) => {
    const dead = await bed.several(2);
    for (const one of dead) await one.kill();
    const fresh = await bed.start('fresh');
    await until('both handled', () => fresh.recovered.length === 2);
    expect([...fresh.recovered].sort()).toEqual(dead.map(({ cluster }) => cluster.liveness.id).sort());
    expect(lives(fresh)).toEqual([fresh.cluster.liveness.id]);
  });

  it('is nobody who left, though a renewal of its comes late', async (bed) => {
    const [one, leaving] = await bed.several(2);
    leaving!.link.fate('renew', ['late', 'late', 'late']);
    for (let i = 0; i < 3; i++) await leaving!.cluster.liveness.renew();
    await leaving!.cluster.liveness.leave();
    await leaving!.link.settled();
    await one!.cluster.liveness.renew();
    expect(lives(one!)).toEqual([one!.cluster.liveness.id]);
  });

  it('is nobody who gave its lease up, and takes nothing with it', async (bed) => {
    const [one, leaving] = await bed.several(2);
    leaving!.connect('alice', 's1');
    await leaving!.cluster.liveness.leave();
    expect(leaving!.cluster.liveness.mayAct()).toBe(false);
    await one!.cluster.liveness.renew();
    expect(lives(one!)).toEqual([one!.cluster.liveness.id]);
    expect(await one!.cluster.presence.socketsOf(ns, user('alice'))).toEqual([]);
    expect(await server.ask('HLEN', key(bed, 'claims'))).toBe(0);
    const left = (await server.ask('KEYS', `${bed.prefix}:*`)) as string[];
    expect(left.filter((name) => name.includes(leaving!.cluster.liveness.address))).toEqual([]);
  });
});

describe('an instance that was stopped', () => {
  it('may not act from 2 s after its last renewal, and goes on where nobody took over', async (bed) => {
    const [one] = await bed.several(1);
    const { liveness } = one!.cluster;
    expect(liveness.mayAct()).toBe(true);
    one!.link.freeze();
    one!.skip(1_500);
    expect(liveness.mayAct()).toBe(true);
    one!.skip(600);
    expect(liveness.mayAct()).toBe(false);
    expect(liveness.leads()).toBe(false);
    one!.link.thaw();
    await until('renewed', () => liveness.mayAct());
    expect(one!.fenced).toEqual([]);
    expect(new Set(one!.back)).toEqual(new Set([false]));
  });

  it('finds that it was declared dead, goes on as another life, and has its sockets there', async (bed) => {
    const [one, other] = await bed.several(2);
    const was = one!.cluster.liveness.id;
    one!.connect('alice', 's1');
    await until('seen', async () => (await other!.cluster.presence.socketsOf(ns, user('alice'))).length === 1);
    one!.link.freeze();
    await until('taken over', () => other!.recovered.length === 1);
    expect(other!.recovered).toEqual([was]);
    expect(one!.cluster.liveness.mayAct()).toBe(false);
    // To the life that was, by somebody who does not know yet; and to whoever has the address now.
    const { address } = one!.cluster.liveness;
    expect(await other!.cluster.presence.socketsOf(ns, user('alice'))).toEqual([]);
    one!.link.thaw();
    await until('another life', () => one!.fenced.length === 1 && one!.cluster.liveness.mayAct());
    const now = one!.cluster.liveness.id;
    expect(one!.fenced).toEqual([[was, now]]);
    expect(one!.cluster.liveness.address).toBe(address);
    expect(one!.cluster.liveness.isLivingId(was)).toBe(false);
    await until('seen again', async () => (await other!.cluster.presence.socketsOf(ns, user('alice'))).length === 1);
    expect(other!.cluster.liveness.isLivingId(was)).toBe(false);
    expect(other!.cluster.liveness.isLivingId(now)).toBe(true);
    expect(other!.recovered).toEqual([was]);
    await until('no claim', async () => (await server.ask('HLEN', key(bed, 'claims'))) === 0);
  });

  it('for longer than is remembered who died, is another life all the same', async (bed) => {
    const [one, other] = await bed.several(2);
    const was = one!.cluster.liveness.id;
    one!.link.cut();
    await until('taken over', () => other!.recovered.length === 1);
    await server.ask('ZREM', key(bed, 'dead'), was);
    one!.skip(13 * 3_600_000);
    one!.link.mend();
    await until('another life', () => one!.fenced.length === 1 && one!.cluster.liveness.mayAct());
    expect(one!.back.filter((lost) => lost)).toEqual([]);
  });

  it('skips what was sent to the life that is over, and gets what is sent to the new one', async (bed) => {
    const [one, other] = await bed.several(2);
    const { address } = one!.cluster.liveness;
    one!.link.freeze();
    other!.cluster.broker.send(address, { topic: 't', body: 'to the dead' });
    await until('in the stream', async () => (await server.ask('XLEN', `${bed.prefix}:stream:{${address}}`)) === 1);
    await until('taken over', () => other!.recovered.length === 1);
    one!.link.thaw();
    await until('another life', () => one!.fenced.length === 1 && one!.cluster.liveness.mayAct());
    await until('known', () => other!.cluster.liveness.isLiving(address));
    other!.cluster.broker.send(address, { topic: 't', body: 'to the living' });
    await until('there', () => one!.got.length > 0);
    expect(one!.got).toEqual(['to the living']);
  });

  it('does not take an answer that was long on its way for a lease', async (bed) => {
    const [one] = await bed.several(1);
    const asked = one!.link.asked.length;
    one!.link.freeze();
    const renewal = one!.cluster.liveness.renew();
    one!.skip(10_000);
    expect(one!.cluster.liveness.mayAct()).toBe(false);
    one!.link.thaw();
    await renewal;
    await until('renewed', () => one!.cluster.liveness.mayAct());
    expect(one!.link.asked.slice(asked).filter(({ name }) => name === 'renew').length).toBeGreaterThan(1);
  });
});

describe('Redis away', () => {
  it('makes nobody dead: no lease expires until it has been reachable for 5 s', async (bed) => {
    const [one, two, dead] = await bed.several(3);
    for (const { link } of [one!, two!]) link.cut();
    await dead!.kill();
    // Longer than a lease: nobody renews.
    await until('leases over', async () => {
      const [seconds] = (await server.ask('TIME')) as [string];
      const newest = (await server.ask('ZRANGE', key(bed, 'leases'), -1, -1, 'WITHSCORES')) as string[];
      return Number(seconds) * 1_000 > Number(newest[1]);
    });
    expect(one!.cluster.liveness.mayAct()).toBe(false);
    two!.link.mend();
    const back = performance.now();
    await until('back', () => two!.cluster.liveness.mayAct());
    expect(lives(two!)).toHaveLength(3);
    one!.link.mend();
    await until('back', () => one!.cluster.liveness.mayAct());
    // A busy machine may be late with a renewal and tell more of them; nothing was lost.
    for (const { back: told } of [one!, two!]) expect(new Set(told)).toEqual(new Set([false]));
    await until('the dead one is found', () => one!.recovered.length + two!.recovered.length > 0, 9_000);
    expect(performance.now() - back).toBeGreaterThan(4_800);
    expect([...one!.recovered, ...two!.recovered]).toEqual([dead!.cluster.liveness.id]);
    expect([one!.fenced, two!.fenced]).toEqual([[], []]);
  });

  it('lets an instance start, which joins when it can', async (bed) => {
    const redis = await bed.redis();
    await redis.close();
    const one = await bed.start('one', { url: 'redis://127.0.0.1:1' });
    expect(one.cluster.liveness.mayAct()).toBe(false);
    expect(one.cluster.liveness.living()).toMatchObject([{ self: true }]);
    await expect(one.cluster.presence.socketsOf(ns, user('alice'))).rejects.toMatchObject({ name: 'Unavailable' });
    await one.cluster.liveness.leave();
  });
});

describe('Redis without what it held', () => {
  const forget = async (bed: Bed): Promise<void> => {
    const all = (await server.ask('KEYS', `${bed.prefix}:*`)) as string[];
    if (all.length > 0) await server.ask('DEL', ...all);
  };

  it('is told to each, which goes on as it is and writes its sockets again', async (bed) => {
    const all = await bed.several(3);
    const [one, two] = all;
    const ids = all.map(({ cluster }) => cluster.liveness.id);
    one!.connect('alice', 's1');
    await until('seen', async () => (await two!.cluster.presence.socketsOf(ns, user('alice'))).length === 1);
    await forget(bed);
    await until('told', () => all.every(({ back }) => back.includes(true)));
    expect(all.map(({ back }) => back.filter((lost) => lost))).toEqual([[true], [true], [true]]);
    expect(all.map(({ cluster }) => cluster.liveness.id)).toEqual(ids);
    expect(all.flatMap(({ fenced }) => fenced)).toEqual([]);
    await until('seen again', async () => (await two!.cluster.presence.socketsOf(ns, user('alice'))).length === 1);
    await until('all known', () => all.every((instance) => lives(instance).length === 3));
  });

  it('still finds one dead that died at that moment', async (bed) => {
    const [one, dead] = await bed.several(2);
    await dead!.kill();
    await forget(bed);
    await until('handled', () => one!.recovered.length === 1, 12_000);
    expect(one!.recovered).toEqual([dead!.cluster.liveness.id]);
  });

  it('is noticed where it is only older than what was confirmed', async (bed) => {
    const [one] = await bed.several(1);
    await one!.cluster.liveness.renew();
    await server.ask('HSET', key(bed, 'beats'), one!.cluster.liveness.id, 1);
    await until('told', () => one!.back.includes(true));
    expect(one!.fenced).toEqual([]);
  });

  it('never has two leaders', async (bed) => {
    const all = await bed.several(3);
    const leads = (): number => all.filter(({ cluster }) => cluster.liveness.leads()).length;
    await until('one leads', () => leads() === 1);
    await forget(bed);
    const end = performance.now() + 3_500;
    await until('time over', () => {
      expect(leads()).toBeLessThan(2);
      return performance.now() > end;
    });
    expect(leads()).toBe(1);
  });
});

describe('the leader', () => {
  it('is one at a time, and another one soon after it died', async (bed) => {
    const all = await bed.several(4);
    for (let round = 0; round < 2; round++) {
      const leaders = all.filter(({ cluster }) => cluster.liveness.leads());
      expect(leaders).toHaveLength(1);
      await leaders[0]!.kill();
      await until('another leads', () => {
        const now = all.filter(({ cluster }) => cluster.liveness.leads());
        expect(now.length).toBeLessThan(2);
        return now.length === 1;
      });
    }
  });

  it('is another one at once where it leaves', async (bed) => {
    const all = await bed.several(2);
    const leader = all.find(({ cluster }) => cluster.liveness.leads())!;
    const other = all.find((instance) => instance !== leader)!;
    await leader.cluster.liveness.leave();
    await other.cluster.liveness.renew();
    expect(other.cluster.liveness.leads()).toBe(true);
  });
});

describe('what instances tell of themselves', () => {
  it('is seen by the others with the next renewals', async (bed) => {
    const [one, two] = await bed.several(2);
    one!.cluster.liveness.describe(() => ({ version: '1.2.3', connections: 7 }));
    await one!.cluster.liveness.renew();
    await two!.cluster.liveness.renew();
    const shown = two!.cluster.liveness.living().find(({ self }) => !self)!;
    expect(shown).toMatchObject({ id: one!.cluster.liveness.id, info: { version: '1.2.3', connections: 7 } });
    expect(shown.leaseAgeMs).toBeGreaterThanOrEqual(0);
    expect(shown.leaseAgeMs).toBeLessThan(1_500);
  });

  it('is left out where it is too large or is no object, and the instance lives', async (bed) => {
    const [one, two, three] = await bed.several(3);
    one!.cluster.liveness.describe(() => ({ version: '1', text: 'x'.repeat(5_000), connections: 2 }));
    await one!.cluster.liveness.renew();
    expect(one!.signals.events).toContainEqual({
      what: 'bound',
      args: ['instance-info', { without: 'text', bytes: expect.any(Number) }],
    });
    await three!.cluster.liveness.renew();
    const shown = three!.cluster.liveness.living().find(({ id }) => id === one!.cluster.liveness.id);
    expect(shown?.info).toEqual({ version: '1', connections: 2 });
    for (const junk of ['[1]', '{"a":', 'null', 'x'.repeat(100_000)]) {
      await server.ask('HSET', key(bed, 'info'), two!.cluster.liveness.id, junk);
      await three!.cluster.liveness.renew();
      expect(lives(three!)).toHaveLength(3);
      const broken = three!.cluster.liveness.living().find(({ id }) => id === two!.cluster.liveness.id);
      expect(broken?.info).toEqual({});
    }
  });
});

describe('the keys', () => {
  it('of another type are deleted, with a line, and all goes on', async (bed) => {
    const [one] = await bed.several(1);
    for (const kind of ['leases', 'info', 'beats', 'dead', 'claims', 'state']) {
      await server.ask('SET', key(bed, kind), 'x');
      await one!.cluster.liveness.renew();
      expect(one!.cluster.liveness.mayAct()).toBe(true);
      const why = 'another type than it must be; deleted';
      expect(one!.signals.events).toContainEqual({ what: 'unreadable', args: [key(bed, kind), why] });
    }
    expect(one!.fenced).toEqual([]);
  });

  it('hold what no instance would write without harm', async (bed) => {
    const [one] = await bed.several(1);
    await server.ask('ZADD', key(bed, 'leases'), 9e15, 'no instance', 5, '', 9e15, 'x.0');
    await server.ask('HSET', key(bed, 'claims'), 'junk', 'more junk');
    await server.ask('HSET', key(bed, 'state'), 'seen', 'yesterday', 'grace', 'never', 'from', 'x', 'lead', '');
    await server.ask('HSET', key(bed, 'beats'), one!.cluster.liveness.id, 'many');
    await one!.cluster.liveness.renew();
    expect(one!.cluster.liveness.mayAct()).toBe(true);
    expect(lives(one!)).toEqual([one!.cluster.liveness.id]);
  });

  it('have a time to live, all of them', async (bed) => {
    const [one, two] = await bed.several(2);
    one!.connect('alice', 's1');
    one!.cluster.broker.send(two!.cluster.liveness.address, { topic: 't', body: 1 });
    await until('there', () => two!.got.length === 1);
    await two!.kill();
    await expire(bed, two!);
    await until('handled', () => one!.recovered.length === 1);
    const all = (await server.ask('KEYS', `${bed.prefix}:*`)) as string[];
    expect(all.length).toBeGreaterThan(5);
    // -2: it is gone by now; -1 would be one that stays.
    for (const name of all) expect(await server.ask('PTTL', name), name).not.toBe(-1);
  });
});
