// The dashboard of one instance of a cluster of real processes, in Chromium: it shows all of them, and empties another one.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bed, type Instance, startBed, websocket } from '../../cluster/bed.js';
import { until } from '../../harness.js';
import { launch } from '../stage.js';
import { Operator } from './operator.js';

let browser: Browser;
let bed: Bed;
beforeAll(async () => {
  bed = await startBed({ args: ['--drain-delay', '0s', '--drain', '500ms'] });
  browser = await launch();
});
afterAll(async () => {
  await browser?.close();
  await bed?.close();
});

test('shows both instances, drains the other one, and takes that back', async () => {
  const [one, two] = bed.instances as [Instance, Instance];
  const people = ['ann', 'ben', 'cleo'];
  await Promise.all(people.map((user) => bed.on(two, user, { ...websocket, reconnection: false })));
  await bed.on(one, 'dora');
  const operator = await Operator.arrive(browser, `${one.admin}/`);
  const table = operator.region('Instances');
  const row = table.getByRole('row', { name: /^i2-/ });
  const connections = row.getByRole('cell').nth(3);
  await until(async () => (await connections.textContent()) === '3', 'the other instance has told of them');
  await table.getByRole('row', { name: /^i1-\S+ this one/ }).waitFor();
  expect(await table.getByRole('row', { name: /leads/ }).count()).toBe(1);
  await table.getByRole('row', { name: /^all 2 4 4/ }).waitFor();
  await table.getByText(/^redis:/).waitFor();
  await operator.region('Events').getByText('of this instance only').waitFor();
  expect(await operator.faults()).toEqual([]);

  const id = (await row.locator('code').textContent()) ?? '';
  await operator.button(`Drain ${id}`).click();
  await operator.dialog.getByText('closes its 3 connections in small batches').waitFor();
  expect(await operator.dialog.getByText('No other instance is left').count()).toBe(0);
  await operator.confirm('Drain', 'a new version', 'olga');
  await operator.sees(`${id} drains.`);
  await row.getByText('draining').waitFor();
  await until(async () => (await connections.textContent()) === '0', 'it is empty');
  await operator.page.getByText('1 draining').waitFor();
  expect((await fetch(`${two.admin}/readyz`)).status).toBe(503);
  expect(two.stderr()).toContain('"actor":"olga","via":"dashboard","did":"drain this instance"');

  // Now this one is the last.
  await operator.button(/^Drain i1-/).click();
  await operator.dialog.getByText('No other instance is left that takes connections.').waitFor();
  await operator.page.keyboard.press('Escape');

  await operator.button(`Take back the drain of ${id}`).click();
  await operator.confirm('Take back', 'not yet', 'olga');
  await row.getByText('serving').waitFor();
  await until(async () => (await fetch(`${two.admin}/readyz`)).status === 200, 'it is ready again');
  expect(operator.complaints).toEqual([]);
  await operator.leave();
});
