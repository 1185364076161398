// Whether everybody can use the dashboard: by keys only, by what axe finds, in both schemes, wide and narrow. In Chromium.
import { describe, expect, test } from 'vitest';
import { useDesk } from './desk.js';

const desk = useDesk();
const { arrive, routes, call } = desk;

test('an operator needs no mouse', async () => {
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

describe.each(['light', 'dark'] as const)('in %s', (scheme) => {
  test('axe finds nothing, on the page and in each dialog', async () => {
    await desk.stack.proxy.setRoutes('namespaces:\n  /: { calls: new }\n  /calls: { ice-candidate: new }\n');
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
