// The dashboard as an operator uses it, in Chromium, on a real proxy with a real legacy behind it and calls that are live.
import { describe, expect, test } from 'vitest';
import type { CallsBody, LiveBody, RoutesBody } from '../../../src/admin/api.js';
import { until } from '../../harness.js';
import { useDesk } from './desk.js';

const desk = useDesk();
const { arrive, ask, routes, newest, call } = desk;

describe('an operator', () => {
  test('flips a group: mode, dry run, reason, confirmation', async () => {
    const live = await call('before');
    const operator = await arrive();
    const events = operator.region('Events');
    await events
      .getByRole('row', { name: /call-offer/ })
      .getByText('legacy')
      .waitFor();

    await operator.change('call-lifecycle');
    const submit = operator.dialog.getByRole('button', { name: /^Set to/ });
    await operator.dialog.getByRole('radio', { name: 'new' }).check();
    const plan = await operator.dryRun();
    expect(plan).toContain('2 connected users');
    expect(plan).toContain('1 live call stays on legacy until');
    expect(await submit.isDisabled(), 'a reason is missing').toBe(true);
    expect((await routes())?.['call-lifecycle'].mode, 'a dry run changes nothing').toBe('legacy');
    await operator.confirm('Set to new', 'the first flip', 'alice');

    await operator.sees(/Version \d+ is in force/);
    expect((await routes())?.['call-lifecycle'].mode).toBe('new');
    expect(await newest()).toMatchObject({ actor: 'alice', via: 'dashboard', reason: 'the first flip' });
    const history = operator.region('History');
    await history.getByText('the first flip').waitFor();
    await history.getByText(/alice by dashboard/).waitFor();
    await events
      .getByRole('row', { name: /call-offer/ })
      .getByText('new', { exact: true })
      .waitFor();
    expect(await operator.focused()).toBe('Change call-lifecycle in /');

    const next = await call('after');
    const calls = operator.region('Live calls');
    const rowOf = (conversationId: string) => calls.getByRole('row', { name: conversationId });
    await rowOf(next.conversationId).getByText('new', { exact: true }).waitFor();
    expect(await rowOf(live.conversationId).textContent()).toContain('legacy');
  });

  test('raises a canary by slider and by number, with users who are always in it', async () => {
    const operator = await arrive();
    await operator.change('call-lifecycle');
    await operator.dialog.getByRole('radio', { name: 'canary' }).check();
    const slider = operator.dialog.getByRole('slider', { name: 'Share of conversations' });
    const number = operator.dialog.getByLabel('Share in percent, two decimals');
    await slider.focus();
    await operator.page.keyboard.press('Home');
    for (let i = 0; i < 5; i += 1) await operator.page.keyboard.press('ArrowRight');
    expect(await number.inputValue()).toBe('5');
    await number.fill('2.125');
    await operator.sees('Share: at most two decimals');
    await number.fill('62,5');
    expect(await slider.inputValue(), 'in whole steps').toBe('63');
    await number.fill('2.25');
    await operator.dialog.getByText('Always or never in the canary').click();
    await operator.dialog.getByLabel('Always these users').fill('Mary Ann\nauth0|7,8');
    expect(await operator.dryRun()).toMatch(/2\.25.*always "Mary Ann", "auth0\|7,8"/);
    await operator.confirm(/Set to canary 2.25 %/, 'a first share');
    expect((await routes())?.['call-lifecycle']).toMatchObject({
      mode: 'canary',
      canary: { percent: 2.25, users: ['Mary Ann', 'auth0|7,8'] },
      fallback: 'legacy',
    });

    // Raised from what is in force: nothing else is touched.
    await operator.region('Routes').getByText('canary 2.25').waitFor();
    await operator.change('call-lifecycle');
    expect(await number.inputValue()).toBe('2.25');
    await number.fill('50');
    const never = operator.dialog.getByLabel('Never these users');
    await never.fill('carl');
    await operator.dryRun();
    await operator.confirm(/Set to canary 50 %/, 'calm, so more');
    expect((await routes())?.['call-lifecycle'].canary).toMatchObject({
      percent: 50,
      users: ['Mary Ann', 'auth0|7,8'],
      exclude: { users: ['carl'] },
    });
    await operator.region('Routes').getByText('canary 50').waitFor();
  });

  test('rolls back to a version from the history', async () => {
    const operator = await arrive();
    for (const mode of ['canary', 'new']) {
      await operator.change('call-lifecycle');
      await operator.dialog.getByRole('radio', { name: mode, exact: true }).check();
      await operator.dryRun();
      await operator.confirm(/^Set to/, `to ${mode}`);
      await operator.region('History').getByText(`to ${mode}`).waitFor();
    }
    const before = await newest();
    await operator.button(`Roll back to version ${(before?.version ?? 0) - 1}`).click();
    expect(await operator.dryRun()).toContain('call-lifecycle');
    await operator.confirm(/^Roll back to v/, '');
    await operator.sees(/Version \d+ is in force/);
    expect((await routes())?.['call-lifecycle'].mode).toBe('canary');
    expect(await newest()).toMatchObject({ kind: 'rollback', via: 'dashboard' });
  });

  test('sends everything to the legacy and ends what is served here', async () => {
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    const { a, b, conversationId } = await call('ended');
    const operator = await arrive();
    await operator.region('Live calls').getByText(conversationId).waitFor();
    await operator.button('All to legacy…').click();
    await operator.dryRun();
    await operator.confirm('All to legacy', 'it burns');
    await operator.sees(/Version \d+ is in force/);
    // What is served here already goes on, and can be ended when everything is on the legacy.
    await operator.button('All to legacy…').click();
    await operator.dialog.getByLabel('End the calls that sigfig serves now').check();
    await operator.page.getByText('ends 1 live call').waitFor();
    await operator.confirm('All to legacy, end calls', 'it burns on');
    for (const client of [a, b]) expect(await client.next('call-ended')).toMatchObject({ conversationId });
    expect(Object.values((await routes()) ?? {}).map(({ mode }) => mode)).toEqual(['legacy', 'legacy', 'legacy']);
    await operator.sees(/were like that already.* 1 call was ended\./);
    await operator.sees('No call is live now.');
  });

  test('looks at a call: why it is where it is, and its states in time; and ends it', async () => {
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n  /calls: { calls: legacy }\n');
    const { a, conversationId } = await call('looked-at');
    await call('another');
    const operator = await arrive();
    const calls = operator.region('Live calls');
    for (const [label, none, both] of [
      ['State', 'UNKNOWN', 'CONNECTED'],
      ['Path', 'legacy', 'new'],
      ['Namespace of calls', '/calls', '/'],
    ] as const) {
      await calls.getByLabel(label, { exact: true }).selectOption(none);
      await operator.sees('No live call is like that.');
      await calls.getByLabel(label, { exact: true }).selectOption(both);
      await calls.getByText('2 found').waitFor();
    }
    await calls.getByRole('searchbox').fill('looked-at');
    await calls.getByText('1 found').waitFor();
    await calls.getByRole('button', { name: conversationId }).click();
    const timeline = calls.getByRole('listitem');
    await timeline.nth(2).waitFor();
    expect(await timeline.allTextContents()).toEqual([
      expect.stringMatching(/goes to new route/),
      expect.stringMatching(/IDLE → OFFERING\s+call-offer/),
      expect.stringMatching(/OFFERING → CONNECTED\s+call-answer/),
    ]);
    await calls.getByRole('button', { name: 'End call…' }).click();
    await operator.confirm('End call', 'asked for by support');
    expect(await a.next('call-ended')).toMatchObject({ conversationId });
    await operator.sees(`The call in ${conversationId} was ended.`);
    // It stays to be looked at.
    await timeline.nth(3).waitFor();
    expect(await timeline.nth(3).textContent()).toMatch(/CONNECTED → ENDED.*operator/);
    await calls.getByText(/, ended$/).waitFor();
    expect((await ask<CallsBody>('calls')).total).toBe(1);
  });

  test('drains an instance for a reason, by keys only, and takes it back', async () => {
    const operator = await arrive();
    const [instance] = (await ask<LiveBody>('live')).instances;
    const id = instance?.id ?? '';
    const { keyboard } = operator.page;
    await operator.button(`Drain ${id}`).focus();
    await keyboard.press('Enter');
    await operator.dialog.waitFor();
    // It is the only one.
    await operator.dialog.getByText('No other instance is left that takes connections.').waitFor();
    const submit = operator.dialog.getByRole('button', { name: 'Drain', exact: true });
    await operator.fill('a new version', 'olga');
    expect(await submit.isDisabled(), 'it must be said that the last one is meant').toBe(true);
    const check = operator.dialog.getByLabel('Drain it all the same');
    await check.focus();
    await keyboard.press('Space');
    await operator.dialog.getByLabel(/^Reason/).press('Enter');
    await operator.dialog.waitFor({ state: 'detached' });
    await operator.sees(`${id} drains.`);
    const row = operator.region('Instances').getByRole('row', { name: id });
    await row.getByText('draining').waitFor();
    await until(
      async () => (await fetch(`${desk.stack.proxy.adminUrl}/readyz`)).status === 503,
      'it is not ready any more',
    );
    await operator.button(`Take back the drain of ${id}`).click();
    await operator.dialog.getByText('It is ready again').waitFor();
    await operator.confirm('Take back', 'not yet');
    await row.getByText('serving').waitFor();
    await until(async () => (await fetch(`${desk.stack.proxy.adminUrl}/readyz`)).status === 200, 'it is ready again');
  });

  test('takes a namespace into the table that it does not name yet', async () => {
    const operator = await arrive();
    await operator.page.getByText('Another namespace').click();
    await operator.page.getByLabel('Namespace', { exact: true }).fill('/meetings');
    await operator.page.keyboard.press('Enter');
    await operator.dialog.getByRole('radio', { name: 'canary' }).check();
    expect(await operator.dryRun()).toContain('/meetings');
    await operator.confirm(/^Set to canary/, 'meetings begin');
    await operator
      .region('Namespace /meetings')
      .getByText(/canary 1/)
      .first()
      .waitFor();
    const { namespaces } = await ask<RoutesBody>('routes');
    expect(namespaces['/meetings']?.['call-renegotiation']).toMatchObject({ mode: 'canary', canary: { percent: 1 } });
    expect(namespaces['/']?.['call-lifecycle'].mode).toBe('legacy');

    // A namespace that is named and stays on the legacy is a change too.
    await operator.page.getByLabel('Namespace', { exact: true }).fill('/rooms');
    await operator.page.keyboard.press('Enter');
    expect(await operator.dryRun()).toContain('adds the namespace /rooms to the table');
    await operator.confirm('Set to legacy', 'named, to be seen');
    await operator.region('Namespace /rooms').getByText('legacy', { exact: true }).first().waitFor();
  });

  test('changes all groups: sees in what they differ, and what is shown is what all of them get', async () => {
    await desk.stack.proxy.setRoutes(`namespaces:
  /:
    call-lifecycle: { mode: canary, percent: 5, users: [Mary Ann] }
    ice-candidate: { mode: new, guard: { max-p99: 2s } }
    call-renegotiation: { mode: canary, percent: 80, fallback: refuse, exclude: { users: [carl] } }
`);
    const operator = await arrive();
    await operator.button('Change all groups of /').click();
    await operator.dialog.getByText('The groups differ now in mode, share, lists, fallback and guard.').waitFor();
    expect(await operator.dialog.getByLabel('Always these users').inputValue()).toBe('Mary Ann');
    await operator.dialog.getByLabel('p99, ms').fill('1,500');
    await operator.sees('Guard p99 (ms): 1,500 can be read in two ways; write 1500, without a separator');
    await operator.dialog.getByLabel('p99, ms').fill('1500');
    expect(await operator.dryRun()).toMatch(/no longer never carl/);
    await operator.confirm(/^Set to canary 5 %/, 'all alike');
    const now = await routes();
    expect(now?.['call-lifecycle']).toMatchObject({
      canary: { percent: 5, users: ['Mary Ann'], exclude: { users: [] } },
      fallback: 'legacy',
      guard: { maxP99Ms: 1_500 },
    });
    expect(now?.['ice-candidate']).toEqual(now?.['call-lifecycle']);
    expect(now?.['call-renegotiation']).toEqual(now?.['call-lifecycle']);
  });
});
