import { writeFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { cuttable, file, type Instance, inForce, percent, redisBed, within, yaml } from './redis-log.fixture.js';
import { alice, bob, chained, kinds, mode, numberOf, red, set, share, toLegacy, toNew } from './routes.fixture.js';
import { versionOf } from './versions.fixture.js';

const bed = redisBed();
const logged = () => bed.logged();
const proxy = () => cuttable(bed.server.port);

describe('a change on one of several instances', () => {
  test('is in force on all within a second, and says on how many', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c')];
    const [a, b, c] = all as [Instance, Instance, Instance];
    const asked = performance.now();
    const outcome = await a.routes.change(toNew, { ...alice, ifVersion: 1 });
    expect(outcome).toMatchObject({ kind: 'applied', version: { version: 2 }, confirmed: { instances: 3, of: 3 } });
    expect(inForce(all)).toEqual([2, 2, 2]);
    expect(all.map(({ routes }) => mode(routes))).toEqual(['new', 'new', 'new']);
    expect(performance.now() - asked).toBeLessThan(1_000);
    for (const { told } of [b, c]) {
      expect(told('routesChanged').at(-1)).toEqual([expect.objectContaining({ version: 2, actor: 'alice' })]);
    }
    expect(await b.routes.history(5)).toEqual(await a.routes.history(5));
  });

  test('is in force within a second where no message arrives, and says that nobody confirmed', async () => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    bed.hub.deaf = true;
    const asked = performance.now();
    const changing = a.routes.change(toNew, alice);
    await expect.poll(() => b.routes.current.version, within).toBe(2);
    expect(performance.now() - asked).toBeLessThan(1_000);
    expect(await changing).toMatchObject({ confirmed: { instances: 1, of: 2 } });
  });

  test('does not wait for an instance that died for longer than a second', async () => {
    const [a] = [await bed.instance('a'), await bed.instance('b')];
    await bed.instance('c');
    bed.hub.kill('c');
    const asked = performance.now();
    expect(await a.routes.change(toNew, alice)).toMatchObject({ confirmed: { instances: 2, of: 3 } });
    expect(performance.now() - asked).toBeLessThan(1_500);
    bed.hub.bury('c');
    expect(await a.routes.change(toLegacy, alice)).toMatchObject({ confirmed: { instances: 2, of: 2 } });
  });

  test('costs messages per instance, and none without a change', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c'), await bed.instance('d')];
    const before = bed.hub.sent;
    await all[0]?.routes.change(toNew, alice);
    // To three, and an answer of each.
    expect(bed.hub.sent - before).toBe(6);
  });

  test('of those made at once from one version exactly one is made', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c')];
    for (let round = 1; round < 6; round++) {
      const outcomes = await Promise.all(
        all.map(({ routes }, i) =>
          routes.change(share(10 * round + i), { ...alice, actor: `op ${i}`, ifVersion: round }),
        ),
      );
      expect(kinds(outcomes).sort()).toEqual(['applied', 'conflict', 'conflict']);
      await expect.poll(() => inForce(all), within).toEqual(all.map(() => round + 1));
      const winner = outcomes.find(({ kind }) => kind === 'applied');
      for (const { routes } of all) expect(routes.current).toEqual(winner && 'version' in winner ? winner.version : 0);
    }
    chained(await logged());
  });

  test('of those made at once from no version all are made, each from the one before', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c')];
    const groups = ['call-lifecycle', 'ice-candidate', 'call-renegotiation'];
    const outcomes = await Promise.all(
      all.map(({ routes }, i) => routes.change(set(groups[i] as string, { mode: 'new' }), alice)),
    );
    expect(outcomes.map(numberOf).sort()).toEqual([2, 3, 4]);
    await expect.poll(() => inForce(all), within).toEqual([4, 4, 4]);
    for (const { routes } of all) for (const group of groups) expect(routes.table.summary).toContain(`${group} new`);
    chained(await logged());
  });

  test('the red switch on two at once: both in the history, all on the legacy', async () => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    const outcomes = await Promise.all([a.routes.change(red, alice), b.routes.change(red, bob)]);
    expect(outcomes.every((outcome) => outcome.kind === 'applied' && outcome.unwritten === null)).toBe(true);
    await expect.poll(() => inForce([a, b]), within).toEqual([4, 4]);
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy', 'legacy']);
    chained(await logged());
  });
});

describe('an instance that has not heard of a flip yet', () => {
  test.each([
    ['the red switch', red],
    ['a set', toLegacy],
  ])('takes %s for no change of nothing', async (_what, change) => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    bed.hub.deaf = true;
    const flipping = a.routes.change(toNew, alice);
    await expect.poll(() => a.routes.current.version, within).toBe(2);
    // All is on the legacy there, as far as B knows.
    const outcome = await b.routes.change(change, bob);
    expect(outcome).toMatchObject({ kind: 'applied', version: { version: 3 } });
    await flipping;
    await expect.poll(() => [a, b].map(({ routes }) => mode(routes)), within).toEqual(['legacy', 'legacy']);
  });
});

describe('a start', () => {
  test('of many at once begins the log exactly once', async () => {
    const path = await file(5);
    const names = ['a', 'b', 'c', 'd', 'e', 'f'];
    const all = await Promise.all(names.map((name) => bed.instance(name, { file: path })));
    await expect.poll(() => inForce(all), within).toEqual(names.map(() => 1));
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start']);
    expect(all.map(percent)).toEqual(names.map(() => 5));
    expect(all.flatMap(({ told }) => told('routesRejected'))).toEqual([]);
  });

  test('with an empty log and no file leaves everything to the legacy', async () => {
    const a = await bed.instance('a');
    expect((await logged()).map(({ reason }) => reason)).toEqual(['no routes file: everything goes to the legacy']);
    expect(mode(a.routes)).toBe('legacy');
  });

  test("takes over the log's last version, whatever the file says that was taken over before", async () => {
    const path = await file(5);
    const first = await bed.instance('a', { file: path });
    await first.routes.change(share(30), alice);
    await first.close();
    const again = await bed.instance('b', { file: path });
    expect(percent(again)).toBe(30);
    expect(again.routes.current.version).toBe(2);
    expect(again.told('routesRejected')).toEqual([]);
  });

  test('a new text of the file is a version for all; the others say that theirs is another', async () => {
    const old = await bed.instance('a', { file: await file(5) });
    const fresh = await bed.instance('b', { file: await file(20) });
    const reason = expect.stringMatching(/^b\S* was started with another \S+routes\.yaml$/);
    expect(fresh.routes.current).toMatchObject({ version: 2, kind: 'file', reason });
    await expect.poll(() => percent(old), within).toBe(20);
    expect(old.told('routesRejected')).toEqual([
      [
        expect.stringContaining('routes.yaml'),
        [
          expect.stringMatching(
            /another instance has taken over another text .*\(version 2: b\S* was started with another \S+\); give all instances the same file$/,
          ),
        ],
      ],
    ]);
    expect(old.routes.fileProblems).toHaveLength(1);
    expect(fresh.routes.fileProblems).toEqual([]);
  });

  test('an instance with an old copy of the file brings nothing back by starting, and says so', async () => {
    const before = await file(5);
    const a = await bed.instance('a', { file: before });
    const b = await bed.instance('b', { file: await file(20) });
    await a.close();
    const again = await bed.instance('c', { file: before });
    expect([again, b].map(percent)).toEqual([20, 20]);
    expect(again.routes.current.version).toBe(2);
    expect(again.told('routesRejected')).toHaveLength(1);
    expect(again.routes.fileProblems).toEqual([expect.stringContaining('give all instances the same file')]);
    // Mended: it says what is in force.
    await writeFile(before, yaml(20));
    await expect.poll(() => again.routes.fileProblems, within).toEqual([]);
    expect((await logged()).length).toBe(2);
  });

  test('an edit that reaches the instances one after the other is one version, and what was set since stays', async () => {
    const [one, two] = [await file(5), await file(5)];
    const [a, b] = [await bed.instance('a', { file: one }), await bed.instance('b', { file: two })];
    await writeFile(one, yaml(20));
    await expect.poll(() => inForce([a, b]), within).toEqual([2, 2]);
    expect(b.routes.fileProblems).toHaveLength(1);
    await b.routes.change(share(33), bob);
    await writeFile(two, yaml(20));
    await expect.poll(() => b.told('routesLoaded').at(-1), within).toEqual([two, expect.any(String), false]);
    expect(b.routes.fileProblems).toEqual([]);
    await expect.poll(() => inForce([a, b]), within).toEqual([3, 3]);
    expect([a, b].map(percent)).toEqual([33, 33]);
    // Taking the edit back is one again.
    await writeFile(one, yaml(5));
    await expect.poll(() => [a, b].map(percent), within).toEqual([5, 5]);
  });

  test('while Redis is away begins with the file, and takes over the log when it is there', async () => {
    const a = await bed.instance('a', { file: await file(5) });
    await a.routes.change(share(30), alice);
    const link = await proxy();
    link.cut();
    const late = await bed.instance('late', { file: await file(7), through: link.url });
    expect(percent(late)).toBe(7);
    expect(late.told('routesLog').length).toBeGreaterThan(0);
    expect(late.routes.problem).toMatch(/^the log redis:\/\/127\.0\.0\.1:\d+ can't be written/);
    expect(await late.routes.change(share(50), alice)).toMatchObject({ kind: 'unwritable' });
    link.mend();
    // A text that the log has not seen counts, as at any start.
    await expect.poll(() => inForce([a, late]), within).toEqual([3, 3]);
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'file']);
    expect(late.routes.problem).toBe(null);
  });

  test('with a log that holds something else does not start, and says what', async () => {
    await bed.server.ask('SET', bed.key, 'x');
    await expect(bed.instance('a')).rejects.toMatchObject({
      message: expect.stringMatching(/can't be read \(.*WRONGTYPE.*; its key is [-\w]+:routes:\{live\}\)/),
    });
    // With no version in memory there is nothing to write in its place.
    expect(await bed.server.ask('GET', bed.key)).toBe('x');
  });
});

describe('what the log holds', () => {
  test('lives 90 days after the last instance, in one key of at most 1,000 versions, which are paged', async () => {
    const a = await bed.instance('a');
    const redis = await bed.link();
    const text = (number: number) => JSON.stringify(versionOf(number));
    for (let i = 2; i <= 1_200; i++)
      void bed.server.ask('XADD', bed.key, `${i}-0`, 'mark', `m${i}`, 'version', text(i));
    await expect.poll(() => a.routes.current.version, within).toBe(1_200);
    await a.routes.change(toNew, alice);
    expect(await redis.call('XLEN', redis.key('routes', 'live'))).toBe(1_000);
    expect(Number(await redis.call('TTL', redis.key('routes', 'live')))).toBeGreaterThan(89 * 24 * 3600);
    const b = await bed.instance('b');
    expect(b.routes.current.version).toBe(1_201);
    const page = await b.routes.history(5, 700);
    expect(page.map(({ version }) => version)).toEqual([699, 698, 697, 696, 695]);
    expect((await b.routes.history(10, 205)).map(({ version }) => version)).toEqual([204, 203, 202]);
    expect(await b.routes.plan({ kind: 'rollback', to: 300 })).toMatchObject({ ok: true });
  });

  test('of large tables fewer are kept', async () => {
    const a = await bed.instance('a');
    const users = Array.from({ length: 300 }, (_, i) => `${i}`.padEnd(200, 'x'));
    for (let i = 1; i <= 40; i++) {
      await a.routes.change(set('calls', { mode: 'canary', canary: { percent: i, users } }), alice);
    }
    expect((await logged()).length).toBeLessThan(41);
    expect((await logged()).length).toBeGreaterThanOrEqual(16);
    const b = await bed.instance('b');
    expect(b.routes.table.toJSON()).toEqual(a.routes.table.toJSON());
  });

  test('a version that a newer sigfig wrote is passed over; a set is refused there, the red switch is not', async () => {
    const a = await bed.instance('a');
    await a.routes.change(toNew, alice);
    const later = { ...versionOf(3), kind: 'weighted' };
    await bed.server.ask('XADD', bed.key, '3-0', 'mark', 'm', 'version', JSON.stringify(later));
    await expect.poll(() => a.told('routesLog').length, within).toBe(1);
    expect(a.told('routesLog')[0]?.[0]).toMatch(/version 3 can't be understood .* upgrade this one$/);
    expect(mode(a.routes)).toBe('new');
    const outcome = await a.routes.change(share(5), alice);
    expect(outcome).toMatchObject({ kind: 'unwritable', problem: expect.stringContaining('holds version 3') });
    expect(await a.routes.change(red, bob)).toMatchObject({
      kind: 'applied',
      version: { version: 4 },
      unwritten: null,
    });
    expect(await a.routes.change(share(5), alice)).toMatchObject({ kind: 'applied', version: { version: 5 } });
  });
});
