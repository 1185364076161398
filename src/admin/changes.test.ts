// Changes of the table by the admin API: what gets in, what it tells, which calls end with it, what a dry run says.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import { testLog } from '../control/log.fixture.js';
import { memoryLog } from '../control/memory-log.js';
import { createRoutes } from '../control/routes.js';
import { recordedSignals } from '../telemetry/signals.js';
import { type Bed, call, fakeCalls, fakeConnected, useBeds } from './admin.fixture.js';

const { started } = useBeds();
const toNew = { target: 'calls', mode: 'new', reason: 'all of it' };

describe('changes', () => {
  it('are made, told to the log, and listed in the history', async () => {
    const bed = await started();
    const made = await bed.ask('/api/routes/set', {
      body: { target: 'call-lifecycle', mode: 'canary', percent: 5, users: ['alice'], reason: ' first\n share ' },
      headers: { 'x-sigfig-client': 'cli', 'x-sigfig-actor': 'olga' },
    });
    const version = { version: 2, actor: 'olga', via: 'cli', reason: 'first share' };
    expect(made).toMatchObject({ status: 200, body: { changed: true, version, unwritten: null } });
    const { canary } = (await bed.ask('/api/routes')).body.namespaces['/']['call-lifecycle'];
    expect(canary).toMatchObject({ percent: 5, users: ['alice'] });
    const history = await bed.ask('/api/routes/history?limit=1');
    expect(history.body).toMatchObject({
      versions: [{ version: 2, differences: [{ group: 'call-lifecycle' }] }],
      more: true,
    });
    expect((await bed.ask('/api/routes/history?before=2')).body).toMatchObject({
      versions: [{ version: 1 }],
      more: false,
    });
    expect(bed.signals.events.filter(({ what }) => what === 'operated').map(({ args }) => args[0])).toEqual([
      { actor: 'olga', via: 'cli', did: 'set → version 2', reason: 'first share' },
    ]);
  });

  it('leave what they do not name as it is in force', async () => {
    const bed = await started();
    const set = (body: object) =>
      bed.ask('/api/routes/set', { body: { target: 'call-lifecycle', reason: 'x', ...body } });
    await set({
      mode: 'canary',
      percent: 5,
      users: ['alice'],
      excludeUsers: ['bob'],
      excludeConversations: ['c'],
      salt: 'may',
      fallback: 'refuse',
      guard: { minSamples: 7 },
    });
    await set({ mode: 'canary', percent: 10, excludeConversations: [], guard: { maxP99Ms: 99 } });
    expect((await bed.ask('/api/routes')).body.namespaces['/']['call-lifecycle']).toMatchObject({
      canary: { percent: 10, salt: 'may', users: ['alice'], exclude: { users: ['bob'], conversations: [] } },
      fallback: 'refuse',
      guard: { minSamples: 7, maxP99Ms: 99, windowMs: 60_000 },
    });
    await set({ mode: 'canary', guard: 'off' });
    expect((await bed.ask('/api/routes')).body.namespaces['/']['call-lifecycle']).toMatchObject({ guard: null });
  });

  it('of one version: exactly one of several wins, the others are told who did', async () => {
    const bed = await started();
    const tries = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        bed.ask('/api/routes/set', {
          body: { target: 'call-lifecycle', mode: 'canary', percent: i + 1, reason: `try ${i}`, ifVersion: 1 },
          headers: { 'x-sigfig-actor': `operator ${i}` },
        }),
      ),
    );
    const won = tries.filter(({ status }) => status === 200);
    expect(won).toHaveLength(1);
    const lost = tries.filter(({ status }) => status === 409);
    expect(lost).toHaveLength(7);
    for (const { body } of lost) {
      expect(body).toMatchObject({ error: 'conflict', current: 2 });
      expect(body.problems[0]).toContain(`${won[0]?.body.version.actor}: ${won[0]?.body.version.reason}`);
    }
    expect(bed.routes.current.version).toBe(2);
  });

  it('of no version in particular all get in, though they complete what is in force', async () => {
    const bed = await started();
    const tries = await Promise.all(
      ['call-lifecycle', 'ice-candidate', 'call-renegotiation'].map((target) =>
        bed.ask('/api/routes/set', { body: { target, mode: 'new', guard: { minSamples: 9 }, reason: target } }),
      ),
    );
    expect(tries.map(({ status }) => status)).toEqual([200, 200, 200]);
    expect(bed.routes.current.version).toBe(4);
    expect(bed.routes.table.route('/', 'ice-candidate').guard?.minSamples).toBe(9);
  });

  it.each([
    ['call-lifecycle', {}],
    ['ice-candidate', { guard: { minSamples: 9 } }],
  ])('of %s that were on their way when somebody took everything back have lost', async (target, more) => {
    const memory = memoryLog();
    const letGo: (() => void)[] = [];
    let hold = false;
    const log = {
      ...memory,
      append: async (version: Parameters<typeof memory.append>[0]) => {
        if (hold) await new Promise<void>((resolve) => letGo.push(resolve));
        return memory.append(version);
      },
    };
    const routes = await createRoutes({ log, signals: recordedSignals(), clock: systemClock });
    const bed = await started({ routes });
    hold = true;
    const set = bed.ask('/api/routes/set', { body: { target, mode: 'new', reason: 'on its way', ...more } });
    await expect.poll(() => letGo.length, { timeout: 10_000 }).toBe(1);
    const switched = bed.ask('/api/routes/legacy', { body: { reason: 'all back' } });
    await expect.poll(() => routes.current.kind, { timeout: 10_000 }).toBe('legacy');
    hold = false;
    for (const go of letGo) go();
    expect((await set).status).toBe(409);
    expect((await switched).status).toBe(200);
    expect(routes.current.kind).toBe('legacy');
    expect(routes.table.mode('/', target)).toBe('legacy');
  });

  it('need a reason, but for dry runs, rollbacks and the red switch', async () => {
    const bed = await started();
    const { reason: _, ...without } = toNew;
    const refused = await bed.ask('/api/routes/set', { body: without });
    expect(refused).toMatchObject({ status: 400, body: { problems: [expect.stringContaining('reason is missing')] } });
    for (const reason of ['', '  ', 'x'.repeat(501), 'a\u001b[2Jb', 7]) {
      expect((await bed.ask('/api/routes/set', { body: { ...without, reason } })).status).toBe(400);
    }
    expect((await bed.ask('/api/routes/set', { body: { ...without, dryRun: true } })).status).toBe(200);
    await bed.ask('/api/routes/set', { body: toNew });
    expect((await bed.ask('/api/routes/rollback', { body: {} })).body.version.version).toBe(3);
    expect((await bed.ask('/api/routes/legacy', { body: {} })).body.changed).toBe(false);
  });

  it('are told with the command that works where they would split a call', async () => {
    const bed = await started();
    const told = await bed.ask('/api/routes/set', { body: { target: 'call-offer', mode: 'new', reason: 'x' } });
    expect(told.status).toBe(422);
    expect(told.body.problems[0]).toContain('sigfig routes set call-lifecycle new');
  });

  it('of a whole file tell its faults with their lines', async () => {
    const bed = await started();
    const told = await bed.ask('/api/routes/diff', {
      body: { yaml: 'namespaces:\n  /:\n    call-lifecycle: newer\n', file: 'prod.yaml' },
    });
    expect(told).toMatchObject({ status: 422, body: { problems: [expect.stringMatching(/^prod\.yaml:3: /)] } });
    const { yaml } = (await bed.ask('/api/routes')).body;
    expect((await bed.ask('/api/routes/diff', { body: { yaml } })).body.differences).toEqual([]);
  });

  it('are refused where the log can not be written, but for taking back', async () => {
    const signals = recordedSignals();
    let full = false;
    const memory = memoryLog();
    const log = {
      ...memory,
      append: async (version: Parameters<typeof memory.append>[0]) => {
        if (full) throw Object.assign(new Error('no space'), { code: 'ENOSPC' });
        return memory.append(version);
      },
    };
    const routes = await createRoutes({ log, signals, clock: systemClock });
    const bed = await started({ routes, calls: fakeCalls([call('a', 'new')]) });
    await bed.ask('/api/routes/set', { body: toNew });
    full = true;
    const refused = await bed.ask('/api/routes/set', {
      body: { target: 'ice-candidate', mode: 'legacy', reason: 'x' },
    });
    expect(refused).toMatchObject({ status: 503, body: { error: 'unwritable' } });
    expect(refused.body.problems[0]).toMatch(/ENOSPC.*sigfig routes legacy --all/);
    const taken = await bed.ask('/api/routes/legacy', { body: { reason: 'now', endCalls: true } });
    expect(taken).toMatchObject({ status: 200, body: { changed: true, endedCalls: 1 } });
    expect(taken.body.unwritten).toContain('ENOSPC');
    expect((await bed.ask('/api/status')).body.routes.problem).toContain('ENOSPC');
    expect(bed.routes.table.mode('/', 'call-offer')).toBe('legacy');
  });

  it('that take everything back are in force even where the calls can not be counted', async () => {
    const broken = async () => {
      throw new Error('broken');
    };
    const bed = await started({
      calls: { ...fakeCalls(), byNamespace: broken, list: broken, counts: broken } as never,
    });
    await bed.routes.change(
      { kind: 'set', ns: '/', target: 'calls', route: { mode: 'new' } },
      {
        actor: 'x',
        via: 'api',
        reason: 'x',
      },
    );
    const told = await bed.ask('/api/routes/legacy', { body: {} });
    expect(bed.routes.table.mode('/', 'call-offer')).toBe('legacy');
    expect(told).toMatchObject({
      status: 200,
      body: { changed: true, plan: { lines: [expect.stringContaining('log')] } },
    });
  });
});

describe('calls that end with a change', () => {
  const yaml = (routes: string) => `namespaces: { ${routes} }`;
  const set = (bed: Bed, routes: string) =>
    bed.ask('/api/routes/apply', { body: { yaml: yaml(routes), reason: 'for the test' } });
  const ids = (bed: Bed) => bed.calls.all.map(({ id }) => id).join();

  it.each(['legacy', 'rollback'])('%s: end before the log has answered', async (kind) => {
    const log = testLog();
    const routes = await createRoutes({ log, signals: recordedSignals(), clock: systemClock });
    const bed = await started({ routes, calls: fakeCalls([call('a', 'new'), call('b', 'legacy')]) });
    await set(bed, '/: { calls: new }');
    const held = log.hold();
    let answered = false;
    const asking = bed.ask(`/api/routes/${kind}`, { body: { reason: 'now', endCalls: true } });
    void asking.then(() => (answered = true));
    await expect.poll(() => ids(bed), { timeout: 1_500, interval: 5 }).toBe('b');
    expect([routes.table.mode('/', 'call-offer'), answered]).toEqual(['legacy', false]);
    held.release();
    const told = await asking;
    expect(told).toMatchObject({
      status: 200,
      body: { changed: true, endedCalls: 1, plan: { from: 2, endedCalls: 1 } },
    });
    expect(told.body.plan.lines).toContain('ends 1 live call of the new path at once');
  });

  it('with a rollback: in those namespaces only that it takes from the new path', async () => {
    const bed = await started({
      calls: fakeCalls([call('a', 'new'), call('b', 'new', '/calls'), call('c', 'legacy'), call('d', 'new', '/old')]),
    });
    await set(bed, '/calls: { calls: new }');
    await set(bed, '/: { calls: new }, /calls: { calls: new }, /old: { ice-candidate: new }');
    const dry = await bed.ask('/api/routes/rollback', { body: { dryRun: true, endCalls: true } });
    expect(dry.body).toMatchObject({ endedCalls: 1 });
    expect(ids(bed)).toBe('a,b,c,d');
    const made = await bed.ask('/api/routes/rollback', { body: { endCalls: true } });
    expect(made.body).toMatchObject({ endedCalls: 1, plan: { endedCalls: 1 } });
    expect(ids(bed)).toBe('b,c,d');
    // Back to where it was: nothing leaves the new path, so nothing ends.
    expect((await bed.ask('/api/routes/rollback', { body: { endCalls: true } })).body.endedCalls).toBe(0);
    expect(ids(bed)).toBe('b,c,d');
    // The red switch means all.
    expect((await bed.ask('/api/routes/legacy', { body: { endCalls: true } })).body.endedCalls).toBe(2);
    expect(ids(bed)).toBe('c');
  });

  it('that could not all be ended: what is told to try again does it', async () => {
    const calls = fakeCalls([call('a', 'new'), call('b', 'new', '/calls')]);
    const endAll = calls.endAll;
    let broken = true;
    const failing: typeof endAll = async (which) => {
      if (broken) throw new Error('broken');
      return endAll(which);
    };
    const bed = await started({ calls: { ...calls, endAll: failing } as never });
    await set(bed, '/calls: { calls: new }');
    await set(bed, '/: { calls: new }, /calls: { calls: new }');
    const told = await bed.ask('/api/routes/rollback', { body: { endCalls: true } });
    expect(told.status).toBe(500);
    const version = Number(/try "sigfig routes rollback (\d+) --end-calls"/.exec(told.body.problems[0])?.[1]);
    broken = false;
    const again = await bed.ask('/api/routes/rollback', { body: { version, endCalls: true } });
    expect(again.body).toMatchObject({ changed: false, endedCalls: 1 });
    expect(calls.all.map(({ id }) => id)).toEqual(['b']);
  });
});

describe('a dry run', () => {
  it('says in live terms what would happen, and changes nothing', async () => {
    const bed = await started({
      connected: fakeConnected(
        { '/': ['alice', 'bob', 'carol'], '/calls': ['alice'] },
        { foreign: 1, unverified: { '/': 2, '/calls': 4 } },
      ),
      calls: fakeCalls([call('a', 'new'), call('b', 'legacy'), call('c', 'legacy'), call('d', 'legacy', '/calls')]),
    });
    const told = await bed.ask('/api/routes/set', {
      body: { target: 'call-lifecycle', mode: 'canary', percent: 2.5, users: ['alice', 'dora'], dryRun: true },
    });
    expect(told.body).toEqual({
      from: 1,
      differences: [expect.objectContaining({ ns: '/', group: 'call-lifecycle' })],
      namespaces: { named: [], dropped: [] },
      events: ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer', 'call-end'],
      connectedUsers: 3,
      listedUsers: 1,
      liveCalls: { new: 1, legacy: 2 },
      endedCalls: 0,
      unservable: { foreign: 1, unverified: 2 },
      lines: [
        'takes 2.5 % of the conversations of 3 connected users into the canary: calls that they begin from now on',
        "puts 2 users (1 connected) on the canary's list",
        '2 live calls stay on legacy until they end',
        '1 live call stays on new until it ends',
        "can't serve 1 connection with another protocol: the legacy does",
        "can't serve 2 sockets whose token can't be verified: the legacy does",
      ],
    });
    expect(bed.routes.current.version).toBe(1);
  });

  it('of nothing says so', async () => {
    const bed = await started();
    const told = await bed.ask('/api/routes/legacy', { body: { dryRun: true } });
    expect(told.body.lines).toEqual(['changes nothing: the table is already like that']);
  });

  it('of the red switch counts the calls that it would end', async () => {
    const bed = await started({ calls: fakeCalls([call('a', 'new'), call('b', 'new')]) });
    await bed.ask('/api/routes/set', { body: toNew });
    const told = await bed.ask('/api/routes/legacy', { body: { dryRun: true, endCalls: true } });
    expect(told.body).toMatchObject({
      endedCalls: 2,
      lines: expect.arrayContaining(['ends 2 live calls of the new path at once']),
    });
    expect(bed.calls.all).toHaveLength(2);
  });
});
