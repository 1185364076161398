// What happens while an operator works on the dashboard: another one is quicker, the routes file is broken, the API refuses, the
// connection is lost. In Chromium, on a real proxy.
import { describe, expect, test } from 'vitest';
import type { LiveBody } from '../../../src/admin/api.js';
import { startStack, until } from '../../harness.js';
import { useDesk } from './desk.js';
import { Operator } from './operator.js';

const desk = useDesk();
const { arrive, ask, routes, newest } = desk;

describe('an operator', () => {
  test('sees that the routes file is broken, until it is mended', async () => {
    const operator = await arrive();
    // This one is in force never, so that it is not waited for until there is one that is.
    const broken = desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: nwe }\n');
    const alert = operator.page.getByText('The routes file is not in force:');
    await alert.waitFor();
    await operator.sees(/routes\.yaml:2: .*nwe/);
    expect(await operator.faults()).toEqual([]);
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    await broken;
    await alert.waitFor({ state: 'detached' });
  });

  test('throws the red switch where the API refuses every figure, and reads what it answers', async () => {
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    const tooMany = { status: 429, json: { error: 'rate-limited', problems: ['too many requests; wait a second'] } };
    let refusing = true;
    const operator = await Operator.arrive(desk.browser, `${desk.stack.proxy.adminUrl}/`, {
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
    desk.operators.push(operator);
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
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n');
    const operator = await arrive();
    await operator.button('Roll back to version 1').waitFor();
    const restart = { admin: new URL(desk.stack.proxy.adminUrl).host };
    await desk.stack.proxy.close();
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
      desk.stack = await startStack(); // for the end of this test
    }
  });
});
