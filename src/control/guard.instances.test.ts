import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { type Clock, manualClock } from '../base/clock.js';
import type { Change } from '../routing/change.js';
import { recordedSignals } from '../telemetry/signals.js';
import { Guard } from './guard.js';
import { redisBed } from './redis-log.fixture.js';
import { alice, mode } from './routes.fixture.js';

const bed = redisBed();
const within = { timeout: 4_000, interval: 10 };
const guards: Guard[] = [];
afterEach(() => {
  for (const guard of guards.splice(0)) guard.close();
});

const limits = { windowMs: 60_000, minSamples: 50, maxErrors: 0.01, maxRefusals: 0.05, maxP99Ms: 500 };
const toNew: Change = { kind: 'set', ns: '/', target: 'calls', route: { mode: 'new', guard: limits } };

async function guarded(name: string, clock: Clock) {
  const instance = await bed.instance(name);
  const guard = new Guard({ clock });
  guards.push(guard);
  const { liveness } = instance;
  const told = recordedSignals();
  const state = { well: true };
  await guard.watch(instance.routes, told, {
    others: () => liveness.living().flatMap(({ self, info }) => (self ? [] : [info])),
    leads: () => liveness.leads(),
    well: () => state.well,
  });
  liveness.describe(() => ({ guard: guard.figures() }));
  return {
    ...instance,
    guard,
    state,
    play(count: number, { errors = 0, refused = 0, user = (i: number) => `${name} ${i}` } = {}) {
      for (let i = 0; i < count; i++) {
        const whose = { user: user(i), conversationId: `${name} c${i}` };
        guard.signals.decided?.('call-offer', { path: 'new', because: 'route' }, '/', whose);
        guard.signals.served?.('call-offer', 5, '/', whose);
        const about = { event: 'call-offer', ns: '/', whose };
        if (i < errors) guard.signals.internalError?.('serving', new Error('broken'), about);
        if (i < refused) guard.signals.refused?.('call-offer', 'unavailable', '/', whose);
      }
    },
    trips: () => told.events.filter(({ what }) => what === 'guardTripped').map(({ args }) => args),
    shown: () => guard.states().find(({ group }) => group === 'call-lifecycle'),
  };
}
type Guarded = Awaited<ReturnType<typeof guarded>>;

async function three() {
  const clock = manualClock();
  const all: Guarded[] = [];
  for (const name of ['a', 'b', 'c']) all.push(await guarded(name, clock));
  await all[0]?.routes.change(toNew, alice);
  await expect.poll(() => all.map(({ routes }) => routes.current.version), within).toEqual([2, 2, 2]);
  return all as [Guarded, Guarded, Guarded];
}
const look = (all: readonly Guarded[]) => {
  for (const { guard } of all) guard.look();
};
const versions = (all: readonly Guarded[]) => all.map(({ routes }) => routes.current.version);

describe('the guards of several instances', () => {
  test('trip by what they counted together, once for all', async () => {
    const all = await three();
    // Each by itself has too few to say anything.
    for (const one of all) one.play(40, { errors: 2 });
    expect(all[1].shown()?.figures).toMatchObject({ samples: 120, errors: 6 });
    look([...all].reverse());
    await expect.poll(() => versions(all), within).toEqual([3, 3, 3]);
    expect(all.map(({ routes }) => mode(routes))).toEqual(['legacy', 'legacy', 'legacy']);
    expect((await all[1].routes.history(9)).map(({ kind }) => kind)).toEqual(['guard', 'set', 'start']);
    const reason =
      'call-offer: 6 of 120 (5 %, limit 1 %) ended in an internal error, in the last 60 s, over 3 instances';
    for (const one of all) expect(one.shown()).toMatchObject({ state: 'tripped', reason });
    // Told by the one that acted.
    expect(all.map((one) => one.trips().length)).toEqual([1, 0, 0]);
    look(all);
    await sleep(20);
    expect(versions(all)).toEqual([3, 3, 3]);
  });

  test('do not trip by what one user, spread over them, brings about', async () => {
    const all = await three();
    for (const one of all) one.play(60, { errors: 5, user: (i) => (i < 5 ? 'mallory' : `${one.name} ${i}`) });
    look(all);
    await sleep(20);
    expect(versions(all)).toEqual([2, 2, 2]);
    expect(all[0].shown()?.reason).toMatch(/most of it one user's/);
  });

  test('begin anew together when an operator acts: what others counted before is not held against that', async () => {
    const all = await three();
    for (const one of all) one.play(60, { errors: 30 });
    look(all);
    await expect.poll(() => versions(all), within).toEqual([3, 3, 3]);
    // What B tells is from before for as long as it has not heard of it.
    const before = all[1].guard.figures();
    all[1].liveness.describe(() => ({ guard: before }));
    await all[0].routes.change(toNew, alice);
    await expect.poll(() => versions(all), within).toEqual([4, 4, 4]);
    look(all);
    await sleep(20);
    expect(versions(all)).toEqual([4, 4, 4]);
    expect(all.map((one) => one.shown())).toEqual(
      all.map(() =>
        expect.objectContaining({ state: 'inconclusive', figures: expect.objectContaining({ samples: 0 }) }),
      ),
    );
  });

  test('leave it to the leader, whoever that is by then', async () => {
    const all = await three();
    bed.hub.leader = undefined;
    for (const one of all) one.play(60, { errors: 30 });
    look(all);
    await sleep(20);
    expect(versions(all)).toEqual([2, 2, 2]);
    bed.hub.leader = 'b';
    look(all);
    await expect.poll(() => versions(all), within).toEqual([3, 3, 3]);
    expect(all.map((one) => one.trips().length)).toEqual([0, 1, 0]);
  });

  test('count nothing while what they share is away, nor in the two seconds behind that', async () => {
    const clock = manualClock();
    const one = await guarded('a', clock);
    await one.routes.change(toNew, alice);
    one.state.well = false;
    one.play(100, { refused: 100 });
    one.state.well = true;
    one.play(100, { refused: 100 });
    expect(one.shown()).toMatchObject({ state: 'inconclusive', figures: { samples: 0, refusals: 0 } });
    clock.advance(2_000);
    one.play(100, { refused: 3 });
    expect(one.shown()).toMatchObject({ state: 'well', figures: { samples: 100, refusals: 3 } });
  });

  test('alarm once where a sole group has no legacy to go back to, and all show it', async () => {
    const all = await three();
    const sole: Change = { kind: 'set', ns: '/', target: 'calls', route: { mode: 'new', sole: true, guard: limits } };
    await all[0].routes.change(sole, alice);
    await expect.poll(() => versions(all), within).toEqual([3, 3, 3]);
    for (const one of all) one.play(60, { errors: 30 });
    look(all);
    look(all);
    expect(all.map((one) => one.shown()?.state)).toEqual(['tripped', 'tripped', 'tripped']);
    expect(all.map((one) => one.trips().length)).toEqual([1, 0, 0]);
    expect(versions(all)).toEqual([3, 3, 3]);
  });
});
