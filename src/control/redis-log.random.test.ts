// What no list of cases thinks of: operators and guards on several instances at once, links to Redis that break or fall silent, a
// Redis that is killed, in random order. At the end all instances agree, and the log says what their operators were told.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Change } from '../routing/change.js';
import type { Outcome } from './control.js';
import { cuttable, redisBed } from './redis-log.fixture.js';
import { alice, chained, red, set, share, toNew } from './routes.fixture.js';

const bed = redisBed();
const within = { timeout: 10_000, interval: 20 };
/** Mulberry32. */
function random(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) % below;
  };
}

const first = Number(process.hrtime.bigint() % 1_000_000n);
test.each(Array.from({ length: 3 }, (_, i) => first + i))('play %i', { timeout: 60_000 }, async (seed) => {
  const below = random(seed);
  const links = [await cuttable(bed.server.port), await cuttable(bed.server.port), await cuttable(bed.server.port)];
  const all = await Promise.all(links.map(({ url }, i) => bed.instance(`i${i}`, { through: url })));
  let lost = false;
  const made: { reason: string; outcome: Promise<Outcome> }[] = [];
  const changes: readonly (() => Change)[] = [
    () => share(below(100)),
    () => toNew,
    () => set('ice-candidate', { mode: 'new' }),
    () => red,
    () => ({ kind: 'rollback' }),
    () => ({ kind: 'guard', ns: '/', group: 'call-lifecycle' }),
  ];
  for (let step = 0; step < 40; step++) {
    const i = below(3);
    const [instance, link] = [all[i], links[i]];
    const what = below(20);
    if (what < 12) {
      const reason = `${seed} step ${step}`;
      const change = (changes[below(changes.length)] as () => Change)();
      const ifVersion = below(2) ? { ifVersion: instance?.routes.current.version } : {};
      const outcome = instance?.routes.change(change, { ...alice, reason, ...ifVersion });
      if (outcome) made.push({ reason, outcome });
    } else if (what === 12) link?.cut();
    else if (what === 13) link?.mute();
    else if (what < 17) link?.mend();
    else if (what === 17) bed.hub.deaf = !bed.hub.deaf;
    else if (what === 18 && below(3) === 0) await bed.server.restart({ keepData: true });
    else if (what === 19 && below(4) === 0) {
      await bed.server.restart({ keepData: false });
      lost = true;
    }
    await sleep(below(4) * below(60));
  }
  for (const link of links) link.mend();
  bed.hub.deaf = false;
  const outcomes = await Promise.all(made.map(async ({ reason, outcome }) => ({ reason, ...(await outcome) })));
  await expect.poll(() => all.map(({ routes }) => routes.problem), within).toEqual([null, null, null]);
  await expect
    .poll(async () => {
      const last = (await bed.logged()).at(-1)?.version;
      return all.map(({ routes }) => routes.current.version === last);
    }, within)
    .toEqual([true, true, true]);
  const log = await bed.logged();
  for (const { routes } of all) {
    expect(routes.current).toEqual(log.at(-1));
    expect(routes.table.toJSON()).toEqual(log.at(-1)?.after);
    if (!lost) expect(await routes.history(1_000)).toEqual([...log].reverse());
  }
  // What came between is written again by those who knew of it; who was cut off knew less.
  if (lost) return;
  chained(log);
  const reasons = log.map(({ reason }) => reason);
  expect(new Set(reasons).size, 'nothing is written twice').toBe(reasons.length);
  for (const outcome of outcomes) {
    const there = reasons.includes(outcome.reason);
    const told = `${outcome.reason}: ${JSON.stringify(outcome).slice(0, 300)}`;
    // A guard that was cut off may find at last that another one has done the same.
    if (outcome.kind === 'applied') expect(there || outcome.version.kind === 'guard', told).toBe(true);
    else if (outcome.kind !== 'unwritable' || !outcome.begun) {
      // Written and at once overruled is told as a conflict.
      if (outcome.kind !== 'conflict') expect(there, told).toBe(false);
    }
  }
});
