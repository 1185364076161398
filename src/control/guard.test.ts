// The guard of one instance: what crosses a limit and what does not, what it does then, and what undoes that.
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { refusals } from '../call/refusals.js';
import type { RouteVersion } from '../routing/change.js';
import { defaultGuard, parseRouteTable, type RouteInput } from '../routing/table.js';
import { recordedSignals } from '../telemetry/signals.js';
import { allNew, control, guardBeds, limits, type Routes } from './guard.fixture.js';
import { Guard } from './guard.js';

const { guards, bed } = guardBeds();

describe('a limit that is crossed', () => {
  it('takes the group back to the legacy, as a version of its own with the figures as its reason', async () => {
    const b = await bed();
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    const reason = 'call-offer: 3 of 100 (3 %, limit 1 %) ended in an internal error, in the last 60 s';
    expect(b.versions[0]).toMatchObject({ kind: 'guard', actor: 'guard', via: 'guard', reason });
    expect(b.mode('call-lifecycle')).toBe('legacy');
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'tripped', reason, trippedAt: b.versions[0]?.at });
    expect(b.trips()).toEqual([['/', 'call-lifecycle', reason, true]]);
  });

  it('takes it back once', async () => {
    const b = await bed();
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    await b.second();
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    expect(b.versions).toHaveLength(1);
    expect(b.trips()).toHaveLength(1);
  });

  it('concerns its own namespace only', async () => {
    const b = await bed({ '/': allNew, '/calls': allNew });
    b.play('call-offer', 100, { ns: '/calls', errors: 3 });
    b.play('call-offer', 100);
    await b.second();
    expect(b.mode('call-lifecycle', '/calls')).toBe('legacy');
    expect(b.mode('call-lifecycle', '/')).toBe('new');
    expect(b.state('call-lifecycle', '/')).toMatchObject({
      state: 'well',
      figures: { event: 'call-offer', samples: 100 },
    });
  });

  it('a candidate that the new path owns can only be taken back with its call', async () => {
    const b = await bed({ '/': { 'call-lifecycle': { mode: 'new', guard: limits } } });
    b.play('ice-candidate', 100, { errors: 30, because: 'owned' });
    await b.second();
    expect(b.mode('call-lifecycle')).toBe('legacy');
    expect(b.versions[0]?.reason).toMatch(/^ice-candidate: 30 of 100/);
  });

  it.each([
    ['that are refused', 'peeled'],
    ['that are left to the legacy', 'fallback'],
  ] as const)(
    'peeled relays %s go back by themselves, and the calls that are served here stay',
    async (_what, because) => {
      const b = await bed();
      b.play('ice-candidate', 100, { errors: 30, because });
      b.play('call-offer', 60);
      await b.second();
      expect(b.mode('ice-candidate')).toBe('legacy');
      expect(b.mode('call-lifecycle')).toBe('new');
      expect(b.state('ice-candidate')?.state).toBe('tripped');
      expect(b.state('call-lifecycle')?.state).toBe('well');
    },
  );

  it('with the lifecycle go its relays, and they are shown as tripped too', async () => {
    const b = await bed();
    b.play('call-answer', 100, { errors: 30 });
    b.play('ice-candidate', 100, { errors: 30, because: 'owned' });
    await b.second();
    await b.second();
    expect(b.versions).toHaveLength(1);
    expect(b.guard.states().map(({ state }) => state)).toEqual(['tripped', 'tripped', 'tripped']);
  });

  it('slow serving crosses it', async () => {
    const b = await bed();
    b.play('call-offer', 97);
    b.play('call-offer', 3, { ms: 2_000 });
    await b.second();
    expect(b.versions[0]?.reason).toMatch(
      /^call-offer: serving took 1[89]\d\d ms at the 99th percentile of 100 \(limit 500 ms\)/,
    );
  });

  it.each([
    ['errors', { errors: 60 }],
    ['refusals', { refused: { unavailable: 60 } }],
    ['slow serving', { ms: 2_000 }],
  ])('%s of one user cross none; of three they do', async (_what, faults) => {
    const b = await bed();
    b.play('call-offer', 60, { ...faults, user: () => 'mallory' });
    await b.second();
    const reason = expect.stringMatching(
      /^call-offer: .*one user's or one conversation's, and \d+ samples beside that/,
    );
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'inconclusive', trippedAt: null, reason });
    expect(b.versions).toEqual([]);
    // The figures of other events hide it not.
    b.play('call-answer', 45, {});
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'inconclusive', reason });
    b.play('call-end', 70, {});
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'well', reason, figures: { event: 'call-end' } });
    b.play('call-offer', 60, { ...faults, user: (i) => `user ${i % 3}` });
    await b.second();
    expect(b.state('call-lifecycle')?.state).toBe('tripped');
  });

  it('one user of whom all offers fall back crosses none', async () => {
    const b = await bed({ '/': { 'call-lifecycle': { mode: 'canary', canary: { percent: 5 }, guard: limits } } });
    const fellBack = (user: string, i: number) =>
      b.guard.signals.decided?.('call-offer', { path: 'legacy', because: 'fallback' }, '/', {
        ...{ user, conversationId: `c ${i}` },
      });
    for (let i = 0; i < 200; i++) fellBack('mallory', i);
    await b.second();
    expect(b.versions).toEqual([]);
    for (let i = 0; i < 60; i++) fellBack(`user ${i}`, i);
    await b.second();
    expect(b.versions).toHaveLength(1);
  });

  it('an offer that fell back to the legacy since the new path was unwell counts as one that was refused', async () => {
    const b = await bed({ '/': { 'call-lifecycle': { mode: 'canary', canary: { percent: 5 }, guard: limits } } });
    for (let i = 0; i < 50; i++) b.guard.signals.decided?.('call-offer', { path: 'legacy', because: 'fallback' }, '/');
    await b.second();
    expect(b.versions[0]?.reason).toMatch(/^call-offer: 50 of 50 \(100 %, limit 5 %\) could not be served/);
  });
});

describe('what does not cross a limit', () => {
  it('too few samples: inconclusive, never a pass', async () => {
    const b = await bed();
    b.play('call-offer', 49, { errors: 49 });
    await b.second();
    expect(b.versions).toEqual([]);
    const figures = { samples: 49, errors: 49 };
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'inconclusive', figures, reason: null });
  });

  it('samples that are spread over more than the window', async () => {
    const b = await bed();
    for (let i = 0; i < 4; i++) {
      b.play('call-offer', 20, { errors: 20 });
      b.clock.advance(30_000);
      await b.second();
    }
    expect(b.versions).toEqual([]);
  });

  it.each(Object.values(refusals).map((r) => [r.code, r.own && r.code === 'unavailable'] as const))(
    'refusals %s: %s',
    async (code, counts) => {
      const b = await bed();
      b.play('call-offer', 100, { refused: { [code]: 50 } });
      await b.second();
      expect(b.mode('call-lifecycle')).toBe(counts ? 'legacy' : 'new');
    },
  );

  it('what the legacy served, and events that are not of a call', async () => {
    const b = await bed();
    for (let i = 0; i < 100; i++) {
      b.guard.signals.decided?.('call-offer', { path: 'legacy', because: 'canary' }, '/');
      b.guard.signals.refused?.('chat-message', 'unavailable', '/');
      b.guard.signals.internalError?.('polling', new Error('broken'));
      b.guard.signals.internalError?.('serving', new Error('broken'), {
        ...{ event: 'call-offer', ns: '/unknown' },
        whose: { user: 'ada', conversationId: 'c' },
      });
    }
    await b.second();
    expect(b.versions).toEqual([]);
    expect(b.state('call-lifecycle')?.state).toBe('inconclusive');
  });

  it('a group without a guard, and one that is on the legacy', async () => {
    const b = await bed({ '/': { 'call-lifecycle': { mode: 'new', guard: null } } });
    b.play('call-offer', 100, { errors: 100 });
    b.play('ice-candidate', 100, { errors: 100 });
    await b.second();
    expect(b.versions).toEqual([]);
    expect(b.guard.states().map(({ state }) => state)).toEqual(['off', 'off', 'off']);
  });
});

describe('once tripped', () => {
  it('it stays so until an operator changes the group, whose change begins with a window of its own', async () => {
    const b = await bed();
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    await b.operator({ kind: 'set', ns: '/', target: 'ice-candidate', route: { mode: 'new', guard: limits } });
    expect(b.state('ice-candidate')?.state).toBe('inconclusive');
    expect(b.state('call-lifecycle')?.state).toBe('tripped');
    await b.operator({ kind: 'set', ns: '/', target: 'call-lifecycle', route: { mode: 'new', guard: limits } });
    expect(b.state('call-lifecycle')).toMatchObject({
      state: 'inconclusive',
      trippedAt: null,
      reason: null,
      figures: { samples: 0 },
    });
    await b.second();
    expect(b.mode('call-lifecycle')).toBe('new');
    b.play('call-offer', 60, { errors: 60 });
    await b.second();
    expect(b.mode('call-lifecycle')).toBe('legacy');
    expect(b.trips()).toHaveLength(2);
  });

  it('is still so after a restart', async () => {
    const before = await bed();
    before.play('call-offer', 100, { errors: 3 });
    await before.second();
    await before.operator({ kind: 'set', ns: '/', target: 'ice-candidate', route: { mode: 'new', guard: limits } });
    const after = await bed({ '/': { 'ice-candidate': { mode: 'new', guard: limits } } }, [...before.versions]);
    expect(after.state('call-lifecycle')).toEqual(before.state('call-lifecycle'));
    expect(after.state('call-lifecycle')?.state).toBe('tripped');
    expect(after.state('ice-candidate')?.state).toBe('inconclusive');
  });

  it('is guarded as well where the log can not be read', async () => {
    const guard = new Guard({ clock: manualClock() });
    guards.push(guard);
    const told = recordedSignals();
    const { control: routes } = control({ '/': allNew });
    await guard.watch(Object.assign(routes, { history: () => Promise.reject(new Error('away')) }), told);
    expect(told.events.map(({ what }) => what)).toEqual(['internalError']);
    expect(guard.states().map(({ state }) => state)).toEqual(['inconclusive', 'inconclusive', 'inconclusive']);
  });

  it('raising a canary that did not trip keeps what was counted', async () => {
    const canary = (percent: number): RouteInput => ({ mode: 'canary', canary: { percent }, guard: limits });
    const b = await bed({ '/': { 'call-lifecycle': canary(5) } });
    b.play('call-offer', 30);
    await b.operator({ kind: 'set', ns: '/', target: 'call-lifecycle', route: canary(20) });
    b.play('call-offer', 30, { errors: 5 });
    await b.second();
    expect(b.versions[0]?.reason).toMatch(/^call-offer: 5 of 60/);
  });

  it('that somebody takes it back first makes no version', async () => {
    const b = await bed();
    b.play('call-offer', 100, { errors: 3 });
    b.fail({ kind: 'unchanged', version: {} as RouteVersion });
    await b.second();
    expect(b.trips()).toEqual([]);
    expect(b.told.events).toEqual([]);
  });

  it('a change that fails is told, and tried again', async () => {
    const b = await bed();
    b.play('call-offer', 100, { errors: 3 });
    b.fail({ kind: 'refused', problems: ['no'] });
    await b.second();
    expect(b.told.events.map(({ what }) => what)).toEqual(['internalError']);
    expect(b.state('call-lifecycle')?.state).not.toBe('tripped');
    b.fail(null);
    await b.second();
    expect(b.state('call-lifecycle')?.state).toBe('tripped');
  });
});

describe('a sole group', () => {
  const sole: Routes = { 'call-lifecycle': { mode: 'new', sole: true, guard: limits } };

  it('has no legacy to go back to: it is an alarm, once', async () => {
    const b = await bed({ '/': sole });
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    await b.second();
    expect(b.versions).toEqual([]);
    expect(b.state('call-lifecycle')).toMatchObject({
      state: 'tripped',
      reason: expect.stringMatching(/^call-offer: 3 of 100/),
    });
    expect(b.trips()).toEqual([['/', 'call-lifecycle', expect.any(String), false]]);
  });

  it('is well again after a whole window that was', async () => {
    const b = await bed({ '/': sole });
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    for (let i = 0; i < 70; i++) {
      b.play('call-offer', 10);
      await b.second();
      if (b.state('call-lifecycle')?.state === 'well') break;
    }
    // Over a limit while the errors are in the window, 55 to 60 s; then a window more.
    expect(b.state('call-lifecycle')?.state).toBe('tripped');
    for (let i = 0; i < 60; i++) {
      b.play('call-offer', 10);
      await b.second();
    }
    expect(b.state('call-lifecycle')).toMatchObject({ state: 'well', trippedAt: null });
  });

  it('is no pass for want of samples', async () => {
    const b = await bed({ '/': sole });
    b.play('call-offer', 100, { errors: 3 });
    await b.second();
    for (let i = 0; i < 300; i++) await b.second();
    expect(b.state('call-lifecycle')?.state).toBe('tripped');
  });
});

describe('docs/guard.md', () => {
  const page = readFileSync(new URL('../../docs/guard.md', import.meta.url), 'utf8');

  it('shows a table that can be used', () => {
    const [, yaml = ''] = /```yaml\n([^`]*)```/.exec(page) ?? [];
    const parsed = parseRouteTable(yaml, 'docs/guard.md');
    expect(parsed).toMatchObject({ ok: true });
    if (!parsed.ok) return;
    expect(parsed.table.route('/', 'call-offer').guard).toEqual({
      windowMs: 120_000,
      minSamples: 20,
      maxErrors: 0.005,
      maxRefusals: 0.02,
      maxP99Ms: 250,
    });
    expect(parsed.table.route('/', 'ice-candidate').guard).toBeNull();
  });

  it('names the defaults that there are', () => {
    const named = Object.fromEntries(
      [...page.matchAll(/`([a-z0-9-]+)` \((\d+m?s?)\)/g)].map(([, key, value]) => [key, value]),
    );
    expect(named).toEqual({
      window: `${defaultGuard.windowMs / 1000}s`,
      'min-samples': String(defaultGuard.minSamples),
      'max-errors-percent': String(defaultGuard.maxErrors * 100),
      'max-refusals-percent': String(defaultGuard.maxRefusals * 100),
      'max-p99': `${defaultGuard.maxP99Ms}ms`,
    });
  });
});
