// The dashboard where the admin listener wants a token, in Chromium: asked for, wrong, for reading only, and taken away.
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HistoryBody } from '../../../src/admin/api.js';
import { type Stack, startStack } from '../../harness.js';
import { launch } from '../stage.js';
import { Operator } from './operator.js';

const reads = 'a token that may only look';
const operates = 'a token that may do everything';
const both = `read rita ${reads.replaceAll(' ', '-')}\noperate otto ${operates.replaceAll(' ', '-')}\n`;

let browser: Browser;
let stack: Stack;
let folder: string;
let tokens: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sigfig-tokens-'));
  tokens = join(folder, 'tokens');
  await writeFile(tokens, both, { mode: 0o600 });
  stack = await startStack({ flags: { 'admin-tokens': tokens } });
  browser = await launch();
});
afterAll(async () => {
  await browser?.close();
  await stack?.close();
  await rm(folder, { recursive: true, force: true });
});

const arrive = () => Operator.arrive(browser, `${stack.proxy.adminUrl}/`);

async function signIn(operator: Operator, token: string, before = ''): Promise<void> {
  await operator.page.getByLabel('Token').fill(before + token.replaceAll(' ', '-'));
  await operator.button('Sign in').click();
}

test('a token is asked for, a wrong one is refused in words, and axe finds nothing', async () => {
  const operator = await arrive();
  await operator.page.getByLabel('Token').waitFor();
  expect(await operator.faults()).toEqual([]);
  const alert = operator.page.getByRole('alert');
  await signIn(operator, 'olga');
  await alert.getByText('This can’t be a token: one has 16 to 512').waitFor();
  await signIn(operator, 'not a token of the file');
  await alert.getByText('This token is not known here.').waitFor();
  expect(await operator.page.locator('main').textContent()).not.toMatch(/Bearer|Authorization/);
  expect(await operator.faults()).toEqual([]);
  expect(await operator.page.getByRole('button', { name: 'All to legacy…' }).count()).toBe(0);
  await operator.leave();
  expect(operator.complaints).toEqual([]);
});

test('a token for reading shows everything and changes nothing', async () => {
  const operator = await arrive();
  await signIn(operator, reads);
  await operator.page.locator('header').getByText('rita may only read').waitFor();
  const change = operator.page.getByRole('button', { name: /Change/ });
  expect(await change.count()).toBeGreaterThan(3);
  for (const button of await change.all()) expect(await button.isDisabled()).toBe(true);
  // What takes back can be pressed all the same, in case the page is wrong, and says who may not.
  await operator.button('All to legacy…').click();
  await operator.dialog.getByText('the token of rita may only read; this needs one of kind operate').waitFor();
  await operator.leave();
});

test('a token for operating changes under its own name, is kept for the tab, and for no other', async () => {
  const operator = await arrive();
  await signIn(operator, operates, 'operate  otto   '); // the whole line of the file
  await operator.button('Change ice-candidate in /').waitFor();
  await operator.page.locator('header').getByText('otto may operate').waitFor();
  await operator.page.reload();
  await operator.change('ice-candidate');
  await operator.dialog.getByRole('radio', { name: 'new' }).check();
  await operator.dryRun();
  expect(await operator.dialog.getByLabel('Your name').count()).toBe(0);
  await operator.confirm('Set to new', 'candidates first');
  await operator.region('History').getByText('otto by dashboard').waitFor();
  const history = await fetch(`${stack.proxy.adminUrl}/api/routes/history`, {
    headers: { authorization: `Bearer ${reads.replaceAll(' ', '-')}` },
  });
  expect(((await history.json()) as HistoryBody).versions[0]).toMatchObject({ actor: 'otto', via: 'dashboard' });

  const another = await arrive();
  await another.page.getByLabel('Token').waitFor();
  await another.leave();
  await operator.button('Sign out').click();
  await operator.page.getByLabel('Token').waitFor();
  await operator.leave();
});

test('a token that is taken out of the file ends the page that used it', async () => {
  const operator = await arrive();
  await signIn(operator, operates);
  await operator.button('Change ice-candidate in /').waitFor();
  await writeFile(tokens, both.split('\n')[0] ?? '');
  await utimes(tokens, new Date(), new Date(Date.now() + 5_000));
  await operator.page.getByLabel('Token').waitFor();
  await operator.leave();
});
