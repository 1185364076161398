// The dashboard as an operator uses it, in Chromium, on a real proxy with a real legacy behind it and calls that are live.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { CallsBody, HistoryBody, LiveBody, RoutesBody } from '../../../src/admin/api.js';
import { allLegacy, type Client, connect, type Stack, startStack, until } from '../../harness.js';
import { launch } from '../stage.js';
import { type Looks, Operator } from './operator.js';

let browser: Browser;
let stack: Stack;
let clients: Client[] = [];
let operators: Operator[] = [];

beforeAll(async () => {
  browser = await launch();
});
afterAll(async () => {
  await browser?.close();
});
beforeEach(async () => {
  stack = await startStack({ routes: allLegacy });
});
afterEach(async () => {
  const complaints = operators.flatMap((operator) => operator.complaints);
  for (const operator of operators) await operator.leave();
  for (const client of clients) client.close();
  operators = [];
  clients = [];
  await stack.close();
  expect(complaints).toEqual([]);
});

async function arrive(looks: Looks = {}): Promise<Operator> {
  const operator = await Operator.arrive(browser, `${stack.proxy.adminUrl}/`, looks);
  operators.push(operator);
  await operator.button('Change call-lifecycle in /').waitFor();
  return operator;
}

async function ask<T>(path: string): Promise<T> {
  return (await (await fetch(`${stack.proxy.adminUrl}/api/${path}`)).json()) as T;
}
const routes = async () => (await ask<RoutesBody>('routes')).namespaces['/'];
const newest = async () => (await ask<HistoryBody>('routes/history?limit=1')).versions[0];

async function pair(name: string): Promise<{ a: Client; b: Client; conversationId: string }> {
  const [a, b] = await Promise.all([`${name}-a`, `${name}-b`].map((user) => connect(stack.proxy.url, user)));
  if (!a || !b) throw new Error('two clients');
  clients.push(a, b);
  return { a, b, conversationId: `dm:${a.user}:${b.user}` };
}

async function call(name: string) {
  const { a, b, conversationId } = await pair(name);
  expect(await a.ask('call-offer', { conversationId, offer: { sdp: 'o' } })).toEqual({ ok: true });
  await b.next('call-offer');
  await b.ask('call-answer', { conversationId, answer: { sdp: 'a' } });
  await a.next('call-answer');
  return { a, b, conversationId };
}

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
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
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
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n  /calls: { calls: legacy }\n');
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
    await until(async () => (await fetch(`${stack.proxy.adminUrl}/readyz`)).status === 503, 'it is not ready any more');
    await operator.button(`Take back the drain of ${id}`).click();
    await operator.dialog.getByText('It is ready again').waitFor();
    await operator.confirm('Take back', 'not yet');
    await row.getByText('serving').waitFor();
    await until(async () => (await fetch(`${stack.proxy.adminUrl}/readyz`)).status === 200, 'it is ready again');
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

  test('sees that the routes file is broken, until it is mended', async () => {
    const operator = await arrive();
    // This one is in force never, so that it is not waited for until there is one that is.
    const broken = stack.proxy.setRoutes('namespaces:\n  /: { calls: nwe }\n');
    const alert = operator.page.getByText('The routes file is not in force:');
    await alert.waitFor();
    await operator.sees(/routes\.yaml:2: .*nwe/);
    expect(await operator.faults()).toEqual([]);
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    await broken;
    await alert.waitFor({ state: 'detached' });
  });

  test('changes all groups: sees in what they differ, and what is shown is what all of them get', async () => {
    await stack.proxy.setRoutes(`namespaces:
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

  test('throws the red switch where the API refuses every figure, and reads what it answers', async () => {
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    const tooMany = { status: 429, json: { error: 'rate-limited', problems: ['too many requests; wait a second'] } };
    let refusing = true;
    const operator = await Operator.arrive(browser, `${stack.proxy.adminUrl}/`, {
      async before(page) {
        await page.route(/\/api\/live/, (route) => {
          if (route.request().url().endsWith('stream')) return route.abort();
          return refusing ? route.fulfill(tooMany) : route.fallback();
        });
        await page.route(/\/api\/routes$/, (route) => route.fulfill(tooMany), { times: 1 });
        const broken = { status: 500, json: { error: 'internal', problems: ['a fault of sigfig; see its log'] } };
        await page.route(/\/api\/routes\/legacy$/, (route) =>
          route.request().postDataJSON().dryRun ? route.fallback() : route.fulfill(broken),
        );
      },
    });
    operators.push(operator);
    const { page } = operator;
    await operator.sees('No figures: too many requests; wait a second.');
    expect(await operator.faults()).toEqual([]);
    await operator.button('All to legacy…').click();
    await operator.fill('it burns', 'alice');
    const submit = operator.dialog.getByRole('button', { name: 'All to legacy', exact: true });
    await submit.click();
    await operator.dialog.getByText('a fault of sigfig; see its log').waitFor();
    expect(await submit.isEnabled()).toBe(true);
    await page.unroute(/\/api\/routes\/legacy$/);
    await submit.click();
    await operator.dialog.waitFor({ state: 'detached' });
    await operator.sees(/Version \d+ is in force/);
    expect(await newest()).toMatchObject({ kind: 'legacy', actor: 'alice', reason: 'it burns' });
    expect(Object.values((await routes()) ?? {}).map(({ mode }) => mode)).toEqual(['legacy', 'legacy', 'legacy']);

    // The first figures come while it is asked for again: what was typed stays.
    await operator.button('All to legacy…').click();
    await operator.fill('once more');
    refusing = false;
    await page.locator('.group').nth(2).waitFor(); // the routes were refused once, too
    expect(await operator.dialog.getByLabel(/^Reason/).inputValue()).toBe('once more');
    await page.keyboard.press('Escape');

    // Figures that are there stay, and changes can be made, while newer ones are refused.
    refusing = true;
    await operator.sees('No new figures:');
    expect(await operator.faults()).toEqual([]);
    await operator.change('call-lifecycle');
    await operator.dialog.getByRole('radio', { name: 'new' }).check();
    await operator.dryRun();
    await operator.confirm('Set to new', 'it does not burn any more');
    expect((await routes())?.['call-lifecycle'].mode).toBe('new');
  });

  test('needs no mouse', async () => {
    const operator = await arrive();
    const { keyboard } = operator.page;
    await keyboard.press('Tab');
    await keyboard.press('Enter'); // skips to the routes
    for (const wanted of ['Change all groups of /', 'Change call-lifecycle in /']) {
      await keyboard.press('Tab');
      expect(await operator.focused()).toBe(wanted);
    }
    await keyboard.press('Enter');
    await operator.dialog.waitFor();
    await keyboard.press('ArrowRight');
    await keyboard.press('ArrowRight');
    expect(await operator.dryRun()).toContain('new');
    await keyboard.press('Tab'); // fallback and guard
    await keyboard.press('Tab'); // reason
    await keyboard.type('by keys only');
    await keyboard.press('Enter');
    await operator.dialog.waitFor({ state: 'detached' });
    expect((await routes())?.['call-lifecycle'].mode).toBe('new');
    await operator.change('ice-candidate');
    await keyboard.press('Escape');
    await operator.dialog.waitFor({ state: 'detached' });
    expect(await operator.focused()).toBe('Change ice-candidate in /');
  });

  test('is not in the way of another: one of two changes wins, the other sees who was quicker', async () => {
    const [alice, bob] = await Promise.all([arrive(), arrive()]);
    const modes = { alice: 'new', bob: 'canary' };
    for (const [name, operator] of Object.entries({ alice, bob })) {
      await operator.change('call-lifecycle');
      await operator.dialog.getByRole('radio', { name: modes[name as keyof typeof modes], exact: true }).check();
      await operator.dryRun();
      await operator.fill(`${name} wants it`, name);
    }
    // At once, whatever the page has heard of the other by then.
    const press = 'document.querySelector("dialog [type=submit]").click()';
    await Promise.all([alice, bob].map((one) => one.page.evaluate(press)));
    await until(async () => (await newest())?.reason.endsWith('wants it') === true, 'one of them has won');
    const winner = (await newest())?.actor;
    const loser = winner === 'alice' ? bob : alice;
    await loser.sees('The routes were changed meanwhile.');
    await loser.dialog.getByText(new RegExp(`by ${winner} at .*: ${winner} wants it`)).waitFor();
    const submit = loser.dialog.getByRole('button', { name: /^Set to/ });
    expect(await submit.isDisabled()).toBe(true);
    await loser.button('Look at the dry run again').click();
    await loser.dryRun();
    await loser.confirm(/^Set to/, 'now that I have seen it');
    expect(await newest()).toMatchObject({ reason: 'now that I have seen it' });
  });

  test('is refused a change that was made from an old version, and told by whom it was overtaken', async () => {
    const then = await ask<LiveBody>('live');
    const alice = await arrive();
    // Bob's page hears of nothing new.
    const bob = await arrive({
      async before(page) {
        await page.route('**/api/live/stream', (route) => route.abort());
        await page.route('**/api/live', (route) => route.fulfill({ json: then }));
      },
    });
    await bob.change('call-lifecycle');
    await bob.dialog.getByRole('radio', { name: 'new' }).check();
    await bob.dryRun();
    await alice.change('call-lifecycle');
    await alice.dialog.getByRole('radio', { name: 'canary' }).check();
    await alice.dryRun();
    await alice.confirm(/^Set to canary/, 'carefully', 'alice');
    await bob.fill('all at once', 'bob');
    const submit = bob.dialog.getByRole('button', { name: 'Set to new' });
    await submit.click();
    await bob.sees('The routes were changed meanwhile.');
    await bob.dialog.getByText(/by alice at .*: carefully/).waitFor();
    expect((await routes())?.['call-lifecycle'].mode).toBe('canary');
    await bob.button('Look at the dry run again').click();
    expect(await bob.dryRun()).toMatch(/canary 1\s%.*new/);
    await submit.click();
    await bob.dialog.waitFor({ state: 'detached' });
    expect(await newest()).toMatchObject({ actor: 'bob', reason: 'all at once' });
  });

  test('sees at once what another has changed while the dialog is open', async () => {
    const [alice, bob] = await Promise.all([arrive(), arrive()]);
    await bob.change('ice-candidate');
    await bob.dialog.getByRole('radio', { name: 'new' }).check();
    await bob.dryRun();
    await bob.fill('mine');
    await alice.change('call-lifecycle');
    await alice.dialog.getByRole('radio', { name: 'new' }).check();
    await alice.dryRun();
    await alice.confirm('Set to new', 'quicker', 'alice');
    await bob.sees('The routes were changed meanwhile.');
    expect(await bob.dialog.getByRole('button', { name: 'Set to new' }).isDisabled()).toBe(true);
  });

  test('sees that the connection is lost, can change nothing then, and goes on when it is back', async () => {
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    const operator = await arrive();
    await operator.button('Roll back to version 1').waitFor();
    const restart = { admin: new URL(stack.proxy.adminUrl).host };
    await stack.proxy.close();
    await operator.sees('Connection lost.');
    const buttons = operator.page.getByRole('button', { name: /Change/ });
    expect(await buttons.count()).toBeGreaterThan(3);
    for (const button of await buttons.all()) expect(await button.isDisabled()).toBe(true);
    expect(await operator.faults()).toEqual([]);
    // What takes back is tried all the same.
    for (const [open, submit] of [
      ['All to legacy…', 'All to legacy'],
      ['Roll back to version 1', 'Roll back to v1'],
    ] as const) {
      await operator.button(open).click();
      await operator.dialog.getByRole('button', { name: submit, exact: true }).click();
      await operator.dialog.getByText(/could not be reached.*Whether the change was made/).waitFor();
      await operator.page.keyboard.press('Escape');
    }

    const again = await startStack({ flags: restart });
    try {
      await operator.page.getByText('Connected again.').waitFor({ state: 'attached' });
      expect(await operator.button('All to legacy…').isEnabled()).toBe(true);
      expect(await operator.page.getByText('Connection lost.').count()).toBe(0);
    } finally {
      await again.close();
      stack = await startStack(); // for the end of this test
    }
  });
});

describe.each(['light', 'dark'] as const)('in %s', (scheme) => {
  test('axe finds nothing, on the page and in each dialog', async () => {
    await stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n  /calls: { ice-candidate: new }\n');
    const { conversationId } = await call('accessible');
    const operator = await arrive({ scheme });
    const calls = operator.region('Live calls');
    await calls.getByRole('button', { name: conversationId }).click();
    await calls.getByRole('listitem').first().waitFor();
    expect(await operator.faults()).toEqual([]);

    await operator.change('call-lifecycle');
    await operator.dialog.getByRole('radio', { name: 'canary' }).check();
    for (const details of await operator.dialog.locator('summary').all()) await details.click();
    await operator.dryRun();
    expect(await operator.faults()).toEqual([]);
    await operator.page.keyboard.press('Escape');

    await operator.button('All to legacy…').click();
    await operator.dryRun();
    expect(await operator.faults()).toEqual([]);
    await operator.page.keyboard.press('Escape');

    await operator.button(/^Drain /).click();
    await operator.dialog.waitFor();
    expect(await operator.faults()).toEqual([]);
  });

  test('nothing is cut off at 1280 and at 400 pixels', async () => {
    await call('a-rather-long-name-of-somebody-in-a-conversation');
    for (const width of [1280, 400]) {
      const operator = await arrive({ scheme, width });
      await operator.region('Live calls').getByRole('row').nth(1).waitFor();
      expect(await operator.cutOff(), `${width} px`).toEqual([]);
      await operator.change('call-lifecycle');
      await operator.dialog.getByRole('radio', { name: 'canary' }).check();
      for (const details of await operator.dialog.locator('summary').all()) await details.click();
      await operator.dryRun();
      expect(await operator.cutOff(), `${width} px, dialog`).toEqual([]);
      await operator.page.keyboard.press('Escape');
      await operator.button(/^Drain /).click();
      await operator.dialog.waitFor();
      expect(await operator.cutOff(), `${width} px, drain`).toEqual([]);
    }
  });
});
