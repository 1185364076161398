// A server that took over and is behind by what was written last, or another clock than this machine's: over one real Redis.
import { describe, expect } from 'vitest';
import { systemClock } from '../base/clock.js';
import { atOnce } from './at-once.fixture.js';
import { type Bed, type Instance, ns, until, user } from './cluster.fixture.js';

const { server, it } = atOnce();

const seen = async ({ cluster }: Instance, who = 'alice'): Promise<number> =>
  (await cluster.presence.socketsOf(ns, user(who))).length;
const hash = (bed: Bed, who: string): string => `${bed.prefix}:presence:{%2F|${who}}`;

describe('a break that is over before the next renewal', () => {
  it('is told, and whoever came lately is there again, and whoever went lately is not', async (bed) => {
    const [one, two] = await bed.several(2);
    one!.connect('alice', 's1');
    const bob = one!.connect('bob', 's2');
    await until('seen', async () => (await seen(two!)) === 1 && (await seen(two!, 'bob')) === 1);
    const was = (await server.ask('HGETALL', hash(bed, 'bob'))) as string[];
    one!.disconnect(bob);
    await until('gone', async () => (await seen(two!, 'bob')) === 0);
    one!.link.cut();
    await server.ask('DEL', hash(bed, 'alice'), `${bed.prefix}:sockets:{${one!.cluster.liveness.id}}`);
    await server.ask('HSET', hash(bed, 'bob'), ...was);
    one!.link.mend();
    await until('told', () => one!.back.length === 1);
    expect(one!.back).toEqual([false]);
    await until('as it is', async () => (await seen(two!)) === 1 && (await seen(two!, 'bob')) === 0);
    const index = await server.ask('SMEMBERS', `${bed.prefix}:sockets:{${one!.cluster.liveness.id}}`);
    expect(index).toEqual(['["/","alice"]']);
  });

  it('costs nothing for those who have long been here', async (bed) => {
    const [one] = await bed.several(1);
    one!.connect('alice', 's1');
    await until('written', async () => (await server.ask('EXISTS', hash(bed, 'alice'))) === 1);
    for (const name of ['bob', 'carol']) {
      one!.skip(31_000);
      await one!.cluster.liveness.renew();
      one!.connect(name, `s-${name}`);
      await until('written', async () => (await server.ask('EXISTS', hash(bed, name))) === 1);
    }
    await until('acting', () => one!.cluster.liveness.mayAct());
    const told = one!.back.length;
    one!.link.cut();
    one!.link.asked.length = 0;
    one!.link.mend();
    await until('told', () => one!.back.length > told);
    await until('written again', () => one!.link.asked.filter(({ name }) => name === 'presence').length >= 2);
    expect(one!.link.asked.filter(({ name }) => name === 'presence')).toHaveLength(2);
  });
});

describe('a machine whose clock is off', () => {
  it('times calls as Redis does, and operators are told', async (bed) => {
    const clock = { ...systemClock, now: () => Date.now() + 60_000 };
    const one = await bed.start('ahead', { clock });
    expect(Math.abs(one.cluster.clock.now() - Date.now())).toBeLessThan(1_000);
    const [told] = one.signals.events.filter(({ what }) => what === 'clock');
    expect(told?.args[1]).toBe(true);
    expect(Math.abs((told?.args[0] as number) - 60_000)).toBeLessThan(1_000);
  });
});
