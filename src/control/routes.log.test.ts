import { describe, expect, test } from 'vitest';
import { type Clock, manualClock, systemClock } from '../base/clock.js';
import type { Change } from '../routing/change.js';
import { routeTable } from '../routing/route.js';
import { full, testLog } from './log.fixture.js';
import { alice, bob, chained, kinds, mode, red, set, share, start, toLegacy, toNew } from './routes.fixture.js';
import { canary, versionOf } from './versions.fixture.js';

describe('a log that another process appends to', () => {
  const theirs = (number: number) => versionOf(number, canary(40), 'carol');

  test('a change made from the version before is a conflict, and theirs is in force', async () => {
    const log = testLog();
    const { routes, told } = await start(log);
    log.foreign(theirs);
    log.foreign(theirs);
    const outcome = await routes.change(toNew, { ...alice, ifVersion: 1 });
    expect(outcome).toEqual({ kind: 'conflict', current: log.lines[2] });
    expect(routes.table.toJSON()).toEqual(canary(40).toJSON());
    expect(told('routesChanged').at(-1)).toEqual([expect.objectContaining({ version: 3, actor: 'carol' })]);
    expect((await routes.history(10)).map(({ version }) => version)).toEqual([3, 2, 1]);
  });

  test('a change made from no version is made on top of theirs', async () => {
    const log = testLog();
    const { routes } = await start(log);
    log.foreign(theirs);
    expect(await routes.change(set('ice-candidate', { mode: 'new' }), alice)).toMatchObject({ kind: 'applied' });
    expect(routes.table.summary).toBe(
      '/: call-lifecycle canary 40 %, ice-candidate new, call-renegotiation canary 40 %',
    );
    expect(log.lines.map(({ version }) => version)).toEqual([1, 2, 3]);
  });

  test('the red switch wins over theirs, in their namespaces too', async () => {
    const log = testLog();
    const { routes } = await start(log);
    await routes.change(toNew, alice);
    log.foreign((number) =>
      versionOf(number, routeTable(new Map([['/theirs', { 'ice-candidate': { mode: 'new' } }]]))),
    );
    const outcome = await routes.change(red, bob);
    expect(outcome).toMatchObject({ kind: 'applied', version: { version: 4, actor: 'bob' }, unwritten: null });
    expect(routes.table.mode('/theirs', 'ice-candidate')).toBe('legacy');
    expect(log.lines.at(-1)?.after.namespaces['/theirs']?.['ice-candidate'].mode).toBe('legacy');
    expect(log.lines.at(-1)?.before).toEqual(log.lines.at(-2)?.after);
  });

  test('two that start with an empty log agree on its first version', async () => {
    const log = testLog();
    const reading = log.read;
    log.read = async () => {
      const read = await reading();
      log.foreign(theirs);
      return read;
    };
    const { routes } = await start(log);
    expect(routes.current).toEqual(log.lines[0]);
    expect(log.lines).toHaveLength(1);
    expect(mode(routes)).toBe('canary');
  });
});

describe('a log that can not be written', () => {
  const down = async (clock: Clock = systemClock) => {
    const log = testLog();
    const made = await start(log, { clock });
    await made.routes.change(toNew, alice);
    log.broken = full();
    return { log, ...made };
  };

  test('refuses a set and an apply, and leaves what is in force', async () => {
    const { routes } = await down();
    for (const change of [share(5), { kind: 'apply', table: canary(7) } as const]) {
      expect(await routes.change(change, alice)).toEqual({
        kind: 'unwritable',
        problem:
          "the log test.jsonl can't be written (ENOSPC); make room or make it writable, or name another with --routes-log",
      });
    }
    expect(mode(routes)).toBe('new');
    expect(routes.current.version).toBe(2);
  });

  test.each<[string, Change]>([
    ['the red switch', red],
    ['a rollback', { kind: 'rollback' }],
    ['the guard', { kind: 'guard', ns: '/', group: 'call-lifecycle' }],
  ])('%s is in force at once all the same, and written when the log is back', async (_name, change) => {
    const clock = manualClock();
    const { routes, log } = await down(clock);
    const changing = routes.change(change, { ...bob, ifVersion: 1 });
    // Before anything was awaited but the plan.
    await Promise.resolve();
    expect(mode(routes)).toBe('legacy');
    expect(await changing).toMatchObject({
      kind: 'applied',
      version: { version: 3 },
      unwritten: expect.stringContaining('ENOSPC'),
    });
    expect(routes.current.version).toBe(3);
    expect((await routes.history(1))[0]).toEqual(routes.current);
    clock.advance(1_000);
    await expect.poll(() => routes.problem).toContain('ENOSPC');
    log.broken = null;
    clock.advance(1_000);
    await expect.poll(() => log.lines.length).toBe(3);
    expect(log.lines[2]).toEqual(routes.current);
    expect(routes.problem).toBe(null);
    chained(log.lines);
  });

  test('what others wrote meanwhile loses against it', async () => {
    const clock = manualClock();
    const { routes, log } = await down(clock);
    await routes.change(red, bob);
    log.foreign((number) => versionOf(number, canary(50), 'carol'));
    log.broken = null;
    clock.advance(1_000);
    await expect.poll(() => log.lines.length).toBe(4);
    expect(log.lines.map(({ actor }) => actor)).toEqual(['sigfig', 'alice', 'carol', 'bob']);
    expect(routes.current).toEqual(log.lines[3]);
    expect(mode(routes)).toBe('legacy');
    expect((await start(testLog([...log.lines]))).routes.table.mode('/', 'call-offer')).toBe('legacy');
  });

  test('the next set writes what is pending first', async () => {
    const { routes, log } = await down();
    await routes.change(red, bob);
    await routes.change({ kind: 'rollback', to: 2 }, bob);
    log.broken = null;
    expect(await routes.change(share(5), { ...alice, ifVersion: 4 })).toMatchObject({
      kind: 'applied',
      version: { version: 5 },
    });
    expect(log.lines.map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy', 'rollback', 'set']);
    chained(log.lines);
  });

  test('changes without end while it is away stay bounded, and the last one rules', async () => {
    const { routes, log, told } = await down();
    for (let i = 0; i < 300; i++) {
      await routes.change(i % 2 ? { kind: 'rollback', to: 2 } : red, bob);
    }
    expect(mode(routes)).toBe('new');
    expect(told('bound').length).toBe(300 - 256);
    log.broken = null;
    await routes.change(set('ice-candidate', { mode: 'legacy' }), alice);
    expect(log.lines.length).toBe(2 + 256 + 1);
    chained(log.lines);
  });
});

describe('a log that hangs', () => {
  test('a set is told so after 5 s; one that had not begun is not made, one that had is', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes } = await start(log, { clock });
    const held = log.hold();
    const [first, second] = [routes.change(share(5), alice), routes.change(share(9), alice)];
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(5_000);
    expect(await first).toMatchObject({
      kind: 'unwritable',
      problem: expect.stringMatching(
        /^the log test\.jsonl has not answered within 5 s; see to its disk, or name another with --routes-log$/,
      ),
      begun: true,
    });
    expect(await second).toEqual({ kind: 'unwritable', problem: routes.problem });
    expect(routes.problem).toContain('has not answered');
    held.release();
    await expect.poll(() => routes.current.version).toBe(2);
    expect(routes.table.toJSON()).toEqual(canary(5).toJSON());
    expect(log.lines).toHaveLength(2);
  });

  test('the red switch is in force at once, wins over the set that hangs, and answers within 2 s', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes } = await start(log, { clock });
    await routes.change(share(5), alice);
    const held = log.hold();
    const hanging = routes.change(toNew, alice);
    const waiting = routes.change(share(90), alice);
    await new Promise((resolve) => setImmediate(resolve));
    const switching = routes.change(red, bob);
    expect(mode(routes)).toBe('legacy');
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(2_000);
    expect(await switching).toMatchObject({
      kind: 'applied',
      version: { version: 4 },
      unwritten: 'the log test.jsonl has not answered yet',
    });
    held.release();
    expect(kinds(await Promise.all([hanging, waiting]))).toEqual(['conflict', 'conflict']);
    await expect.poll(() => log.lines.length).toBe(4);
    expect(mode(routes)).toBe('legacy');
    expect(log.lines.map(({ actor }) => actor)).toEqual(['sigfig', 'alice', 'alice', 'bob']);
    expect(routes.current).toEqual(log.lines[3]);
    chained(log.lines);
  });

  test('where the set that hung fails after all, the red switch keeps the number that was shown of it', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes } = await start(log, { clock });
    await routes.change(share(5), alice);
    const held = log.hold();
    const hanging = routes.change(toNew, alice);
    await new Promise((resolve) => setImmediate(resolve));
    const switching = routes.change(red, bob);
    log.broken = full();
    held.release();
    expect(routes.current).toMatchObject({ version: 4, kind: 'legacy' });
    expect((await hanging).kind).toBe('unwritable');
    await switching;
    log.broken = null;
    clock.advance(1_000);
    await expect.poll(() => log.lines.length).toBe(3);
    expect(log.lines.map(({ version }) => version)).toEqual([1, 2, 4]);
    expect(log.lines[2]?.before).toEqual(log.lines[1]?.after);
    expect(routes.current).toEqual(log.lines[2]);
    expect((await start(testLog([...log.lines]))).routes.current).toEqual(log.lines[2]);
  });

  test('a number that was shown is no other version ever: what was made from it is a conflict', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes } = await start(log, { clock });
    const held = log.hold();
    const hanging = routes.change(toNew, alice);
    await new Promise((resolve) => setImmediate(resolve));
    const switching = routes.change(red, bob);
    const seen = routes.current.version;
    log.broken = full();
    held.release();
    expect((await hanging).kind).toBe('unwritable');
    log.broken = null;
    clock.advance(1_000);
    await switching;
    await expect.poll(() => log.lines.length).toBe(2);
    expect(await routes.change(set('ice-candidate', { mode: 'new' }), alice)).toMatchObject({ kind: 'applied' });
    expect(await routes.change(toNew, { ...bob, ifVersion: seen })).toEqual({
      kind: 'conflict',
      current: routes.current,
    });
    expect(mode(routes)).toBe('legacy');
  });

  test('where others take the number of the red switch meanwhile, it gets one that nobody has seen', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes, told } = await start(log, { clock });
    await routes.change(toNew, alice);
    log.broken = full();
    for (const change of [red, { kind: 'rollback', to: 2 } as const, red]) await routes.change(change, bob);
    log.foreign((number) => versionOf(number, canary(50), 'carol'));
    log.broken = null;
    clock.advance(1_000);
    await expect.poll(() => log.lines.length).toBe(6);
    const shown = told('routesChanged').map(([change]) => change as { version: number; kind: string });
    expect(log.lines.map(({ version, kind }) => `${version} ${kind}`)).toEqual([
      ...['1 start', '2 set', '3 set', '6 legacy', '7 rollback', '8 legacy'],
    ]);
    expect(routes.current).toEqual(log.lines[5]);
    expect(shown.map(({ version, kind }) => `${version} ${kind}`)).toEqual([
      ...['1 start', '2 set', '3 legacy', '4 rollback', '5 legacy', '8 legacy'],
    ]);
  });

  test('shutting down does not wait for it for ever', async () => {
    const clock = manualClock();
    const log = testLog();
    const { routes } = await start(log, { clock });
    log.hold();
    const hanging = routes.change(toNew, alice);
    await new Promise((resolve) => setImmediate(resolve));
    const closed = routes.close();
    await new Promise((resolve) => setImmediate(resolve));
    clock.advance(5_000);
    await closed;
    expect((await hanging).kind).toBe('unwritable');
    expect(await routes.change(toLegacy, alice)).toEqual({ kind: 'unwritable', problem: 'sigfig is shutting down' });
  });
});
