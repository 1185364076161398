import { describe, expect, test } from 'vitest';
import { cuttable, file, inForce, percent, redisBed, within } from './redis-log.fixture.js';
import { alice, bob, chained, mode, red, share, toNew } from './routes.fixture.js';
import { canary, versionOf } from './versions.fixture.js';

const bed = redisBed();
const logged = () => bed.logged();
const proxy = () => cuttable(bed.server.port);

describe('an answer that is lost', () => {
  test('a change that was made all the same is made once', async () => {
    const link = await proxy();
    const [a, b] = [await bed.instance('a', { through: link.url }), await bed.instance('b')];
    link.mute();
    const changing = a.routes.change(toNew, alice);
    await expect.poll(() => b.routes.current.version, within).toBe(2);
    link.mend();
    const outcome = await changing;
    // Answered at last, or not: then nobody knows, and the history says it.
    if (outcome.kind === 'applied') expect(outcome.version.version).toBe(2);
    else expect(outcome).toMatchObject({ kind: 'unwritable', begun: true });
    await expect.poll(() => inForce([a, b]), within).toEqual([2, 2]);
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set']);
    expect(await b.routes.change(share(3), bob)).toMatchObject({ kind: 'applied', version: { version: 3 } });
    await expect.poll(() => inForce([a, b]), within).toEqual([3, 3]);
  });

  test('a red switch that was written all the same is written once', async () => {
    const link = await proxy();
    const [a, b] = [await bed.instance('a', { through: link.url }), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    link.mute();
    const changing = a.routes.change(red, bob);
    await expect.poll(() => mode(a.routes), within).toBe('legacy');
    await expect.poll(() => mode(b.routes), within).toBe('legacy');
    link.mend();
    expect(await changing).toMatchObject({ kind: 'applied', version: { version: 3 } });
    await expect.poll(() => a.routes.problem, within).toBe(null);
    await expect.poll(() => inForce([a, b]), within).toEqual([3, 3]);
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy']);
  });
});

describe('Redis away', () => {
  test('a set is refused, a rollback is in force here at once and everywhere when it is back, over what others set', async () => {
    const link = await proxy();
    const [a, b] = [await bed.instance('a', { through: link.url }), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    await expect.poll(() => b.routes.current.version, within).toBe(2);
    link.cut();
    await expect.poll(() => a.redis.well(), within).toBe(false);
    expect(await a.routes.change(share(5), alice)).toMatchObject({
      kind: 'unwritable',
      problem: expect.stringMatching(/; try again when Redis is back$/),
    });
    const outcome = await a.routes.change({ kind: 'rollback' }, bob);
    expect(outcome).toMatchObject({
      ...{ kind: 'applied', version: { kind: 'rollback' }, confirmed: { instances: 1, of: 2 } },
      unwritten: expect.stringMatching(/can't be written \([^;]*\)$/),
    });
    expect(mode(a.routes)).toBe('legacy');
    expect(mode(b.routes)).toBe('new');
    await b.routes.change(share(44), { ...alice, ifVersion: 2 });
    link.mend();
    await expect.poll(() => [a, b].map(({ routes }) => mode(routes)), within).toEqual(['legacy', 'legacy']);
    await expect.poll(() => inForce([a, b]), within).toEqual(Array(2).fill(a.routes.current.version));
    const log = await logged();
    expect(log.map(({ kind }) => kind)).toEqual(['start', 'set', 'set', 'rollback']);
    chained(log);
    expect(a.routes.problem).toBe(null);
  });

  test('the same guard on instances that were cut off makes one version', async () => {
    const links = [await proxy(), await proxy()];
    const all = await Promise.all(links.map(({ url }, i) => bed.instance(`i${i}`, { through: url })));
    await all[0]?.routes.change(toNew, alice);
    await expect.poll(() => inForce(all), within).toEqual([2, 2]);
    for (const link of links) link.cut();
    const guard = { kind: 'guard', ns: '/', group: 'call-lifecycle' } as const;
    await Promise.all(
      all.map(({ routes }) => routes.change(guard, { actor: 'guard', via: 'guard', reason: 'over a limit' })),
    );
    expect(all.map(({ routes }) => mode(routes))).toEqual(['legacy', 'legacy']);
    for (const link of links) link.mend();
    await expect.poll(async () => (await logged()).length, within).toBe(3);
    await expect.poll(() => all.map(({ routes }) => routes.problem), within).toEqual([null, null]);
    await expect.poll(() => inForce(all), within).toEqual([3, 3]);
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'guard']);
  });

  test('full: a set is refused, the red switch is in force, and written as soon as there is room', async () => {
    const a = await bed.instance('a');
    await a.routes.change(toNew, alice);
    await bed.server.ask('CONFIG', 'SET', 'maxmemory', 1);
    expect(await a.routes.change(share(5), alice)).toMatchObject({ kind: 'unwritable' });
    expect(await a.routes.change(red, bob)).toMatchObject({ kind: 'applied', unwritten: expect.any(String) });
    expect(mode(a.routes)).toBe('legacy');
    expect(a.routes.problem).toContain("can't be written");
    await bed.server.ask('CONFIG', 'SET', 'maxmemory', 0);
    await expect.poll(() => a.routes.problem, within).toBe(null);
    expect((await bed.logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy']);
  });

  test.each([
    ['a string', ['SET', 'not a stream'], 'string'],
    ['a list', ['RPUSH', 'a', 'b'], 'list'],
    ['a hash', ['HSET', 'mark', 'm'], 'hash'],
  ])(
    'with %s at its key, the red switch is in force on all and written behind what was there',
    async (_, put, type) => {
      const all = [await bed.instance('a'), await bed.instance('b')] as const;
      const [a, b] = all;
      await a.routes.change(toNew, alice);
      await expect.poll(() => b.routes.current.version, within).toBe(2);
      await instead(put);
      const outcome = await a.routes.change(red, bob);
      expect(outcome).toMatchObject({ kind: 'applied', version: { version: 3 }, unwritten: null });
      await expect.poll(() => inForce(all), within).toEqual([3, 3]);
      expect(mode(b.routes)).toBe('legacy');
      const log = await logged();
      expect(log.map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy']);
      chained(log);
      expect(all.flatMap(({ told }) => told('unreadable'))).toEqual([
        [bed.key, `a ${type} where the stream of route versions must be; deleted`],
      ]);
      expect(all.map(({ routes }) => routes.problem)).toEqual([null, null]);
    },
  );

  test('with something else at its key and nobody who changes a thing, all is written again within a second', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c')];
    for (let i = 1; i < 8; i++) await all[i % 3]?.routes.change(share(i), alice);
    await expect.poll(() => inForce(all), within).toEqual([8, 8, 8]);
    const before = await logged();
    // Twice: whoever mends it does so each time, and says it each time.
    for (let times = 1; times <= 2; times++) {
      await instead(['SET', 'not a stream']);
      const put = performance.now();
      await expect.poll(() => bed.server.ask('TYPE', bed.key), within).toBe('stream');
      await expect.poll(logged, within).toEqual(before);
      expect(performance.now() - put).toBeLessThan(1_500);
      expect(all.flatMap(({ told }) => told('unreadable'))).toHaveLength(times);
    }
    expect(Number(await bed.server.ask('TTL', bed.key))).toBeGreaterThan(89 * 24 * 3600);
    expect(inForce(all)).toEqual([8, 8, 8]);
    await instead(['SET', 'not a stream']);
    // As its author saw it: nothing was changed since.
    expect(await all[1]?.routes.change(toNew, { ...alice, ifVersion: 8 })).toMatchObject({
      ...{ kind: 'applied', version: { version: 9 } },
    });
    await expect.poll(() => inForce(all), within).toEqual([9, 9, 9]);
    chained(await logged());
  });

  test('with something else at its key, found first by an instance that began while Redis was away', async () => {
    const [near, far] = [await proxy(), await proxy()];
    const a = await bed.instance('a', { through: near.url });
    await a.routes.change(share(30), alice);
    await a.routes.change(toNew, alice);
    near.cut();
    far.cut();
    const late = await bed.instance('late', { file: await file(7), through: far.url });
    await instead(['SET', 'not a stream']);
    far.mend();
    await expect.poll(() => late.routes.problem, within).toBe(null);
    expect(late.told('unreadable')).toHaveLength(1);
    near.mend();
    // What the living have had in force comes behind the routes file of one that knew nothing of it.
    await expect.poll(() => inForce([a, late]), within).toEqual([3, 3]);
    expect([a, late].map(({ routes }) => mode(routes))).toEqual(['new', 'new']);
    expect((await logged()).map(({ version }) => version)).toEqual([1, 2, 3]);
  });

  test('with something else at its key that its user may not delete: told once, and mended by removing that', async () => {
    const a = await bed.instance('a');
    await a.routes.change(toNew, alice);
    const unread = () => a.told('routesLog').filter(([line]) => String(line).includes("can't be read"));
    await bed.server.ask('ACL', 'SETUSER', 'default', '-del');
    try {
      await instead(['SET', 'not a stream']);
      await expect.poll(() => unread().length, within).toBe(1);
      expect(unread()[0]?.[0]).toMatch(/see what stands at the key .*:routes:\{live\}/);
      expect(mode(a.routes)).toBe('new');
      expect(await a.routes.change(share(5), alice)).toMatchObject({ kind: 'unwritable' });
      await bed.server.ask('UNLINK', bed.key);
      await expect.poll(async () => (await logged()).map(({ kind }) => kind), within).toEqual(['start', 'set']);
    } finally {
      await bed.server.ask('ACL', 'SETUSER', 'default', '+del');
    }
    expect(unread()).toHaveLength(1);
  });

  test('frozen: the red switch is in force at once and answers within two seconds and a half', async () => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    await bed.server.freeze();
    const asked = performance.now();
    const switching = a.routes.change(red, bob);
    expect(mode(a.routes)).toBe('legacy');
    expect(await switching).toMatchObject({ kind: 'applied', unwritten: expect.any(String) });
    expect(performance.now() - asked).toBeLessThan(2_500);
    await bed.server.thaw();
    await expect.poll(() => mode(b.routes), within).toBe('legacy');
    await expect.poll(() => a.routes.problem, within).toBe(null);
    expect((await bed.logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'legacy']);
  });

  test('killed and started again with its data, nothing is lost; with a process that died in mid-change, neither', async () => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    await bed.server.kill();
    const switching = a.routes.change(red, bob);
    // Dies before it could write.
    await a.close();
    await switching;
    await bed.server.restart({ keepData: true });
    await expect.poll(() => b.redis.well(), within).toBe(true);
    expect(await b.routes.change(share(9), { ...alice, ifVersion: 2 })).toMatchObject({ version: { version: 3 } });
    expect((await logged()).map(({ kind }) => kind)).toEqual(['start', 'set', 'set']);
  });

  test('emptied, the versions in memory are written again by whichever comes first', async () => {
    const all = [await bed.instance('a'), await bed.instance('b'), await bed.instance('c')];
    for (let i = 1; i < 8; i++) await all[i % 3]?.routes.change(share(i), alice);
    await expect.poll(() => inForce(all), within).toEqual([8, 8, 8]);
    const before = await logged();
    await bed.server.restart({ keepData: false });
    await expect.poll(logged, within).toEqual(before);
    expect(inForce(all)).toEqual([8, 8, 8]);
    expect(await all[1]?.routes.change(toNew, { ...alice, ifVersion: 8 })).toMatchObject({ version: { version: 9 } });
    await expect.poll(() => inForce(all), within).toEqual([9, 9, 9]);
    expect(all.flatMap(({ told }) => told('routesLog'))[0]).toEqual([
      expect.stringMatching(/has lost versions \d to 8/),
    ]);
  });

  test('emptied, and an instance that starts meanwhile with its file does not bring that in force', async () => {
    const path = await file(5);
    const a = await bed.instance('a', { file: path });
    await a.routes.change(share(30), alice);
    await a.routes.change(toNew, alice);
    await bed.server.ask('DEL', bed.key);
    const fresh = await bed.instance('b', { file: path });
    await expect.poll(() => inForce([a, fresh]), within).toEqual([3, 3]);
    expect([a, fresh].map(({ routes }) => mode(routes))).toEqual(['new', 'new']);
    expect((await logged()).map(({ version }) => version)).toEqual([1, 2, 3]);
  });

  test('failed over to a copy without the red switch, that is written again over what others have set there', async () => {
    const [a, b] = [await bed.instance('a'), await bed.instance('b')];
    await a.routes.change(toNew, alice);
    await expect.poll(() => b.routes.current.version, within).toBe(2);
    // B does not hear of it before it is lost.
    bed.hub.deaf = true;
    await b.close();
    await a.routes.change(red, bob);
    const set = JSON.stringify({ ...versionOf(3, canary(8), 'carol'), before: a.routes.current.before });
    await bed.server.ask('EVAL', replaceWith, 1, bed.key, set);
    await expect
      .poll(async () => (await logged()).map(({ kind, actor }) => `${kind} ${actor}`), within)
      .toEqual([...['start sigfig', 'set alice', 'set carol', 'legacy bob']]);
    expect(mode(a.routes)).toBe('legacy');
    expect(a.told('routesLog')).toEqual([[expect.stringMatching(/has lost version 3 by bob \(legacy\)/)]]);
    chained(await logged());
  });

  test('failed over to a copy without a set, what others have set there is in force, and that is told', async () => {
    const a = await bed.instance('a');
    await a.routes.change(toNew, alice);
    await bed.server.ask('EVAL', replaceWith, 1, bed.key, JSON.stringify(versionOf(2, canary(8), 'carol')));
    await expect.poll(() => percent(a), within).toBe(8);
    expect(a.routes.current.actor).toBe('carol');
    expect(a.told('routesLog')).toEqual([[expect.stringMatching(/has lost version 2 by alice \(set\)/)]]);
  });
});

/** Something else at the log's key, in one step. */
const instead = ([command, ...values]: readonly string[]) =>
  bed.server.ask(
    'EVAL',
    `redis.call('UNLINK', KEYS[1]); redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))`,
    1,
    bed.key,
    command as string,
    ...values,
  );

/** A stream takes no id twice, so it is made anew with its last entry replaced. */
const replaceWith = `
local number = cjson.decode(ARGV[1]).version
local entries = redis.call('XRANGE', KEYS[1], '-', '+')
redis.call('DEL', KEYS[1])
for _, entry in ipairs(entries) do
  if tonumber(string.match(entry[1], '^%d+')) < number then redis.call('XADD', KEYS[1], entry[1], unpack(entry[2])) end
end
redis.call('XADD', KEYS[1], string.format('%d-0', number), 'mark', 'theirs', 'version', ARGV[1])
`;
