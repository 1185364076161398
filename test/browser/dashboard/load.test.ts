// The dashboard of a busy installation, in Chromium: it must stay quick to look at and to use. The load is real; a fake has what
// no test could bring about in time, every state of a guard among it.
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startStack } from '../../harness.js';
import { launch } from '../stage.js';
import { until } from '../until.js';
import { Crowd } from './crowd.js';
import { type FakeApi, startFakeApi } from './fake-api.js';
import { Operator } from './operator.js';

let browser: Browser;
let api: FakeApi;
beforeAll(async () => {
  api = await startFakeApi({ calls: 5_000, namespaces: 25, rate: 500 });
  browser = await launch();
});
afterAll(async () => {
  await browser?.close();
  await api?.close();
});

const CALLS = 5_000;
const PER_SECOND = 500;

/** A canary, peeled candidates, and 24 namespaces beside the one that is called in. */
const table = `namespaces:
  /:
    call-lifecycle: { mode: canary, percent: 12.5 }
    ice-candidate: new
${Array.from({ length: 24 }, (_, i) => `  /tenant-${i + 1}: { calls: legacy }\n`).join('')}`;

test('500 events a second and 5,000 calls: no long pause, a search is answered at once, the page stays small', async () => {
  const stack = await startStack({ routes: table });
  const crowd = await Crowd.gather(stack, CALLS);
  const operator = await Operator.arrive(browser, `${stack.proxy.adminUrl}/`);
  try {
    const { page } = operator;
    const calls = operator.region('Live calls');
    await calls.getByText('newest 100 of 5,000 live').waitFor();
    crowd.talk(PER_SECOND);
    await page.evaluate(`
      globalThis.pauses = [];
      new PerformanceObserver((list) => pauses.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: 'longtask' });
    `);
    // Rates are of the last 10 s.
    const sum = operator.region('Events').getByText(/on new$/);
    await until('4 s of candidates are shown', async () => {
      return Number(/^[\d,.]+/.exec((await sum.textContent()) ?? '')?.[0]) > 0.4 * PER_SECOND;
    });
    const started = Date.now();
    await calls.getByRole('searchbox').fill('crowd-0'); // among the oldest
    await calls.getByRole('row', { name: 'crowd-0' }).waitFor();
    await calls.getByText(/^1 found$/).waitFor();
    const searched = Date.now() - started;
    const opened = Date.now();
    await operator.change('call-lifecycle', '/tenant-24');
    const shown = Date.now() - opened;
    await operator.dialog.getByRole('radio', { name: 'new' }).check();
    await operator.dryRun();
    const pauses = await page.evaluate<number[]>('pauses');
    // What measures them would have seen one.
    await page.evaluate('setTimeout(() => { for (const end = performance.now() + 500; performance.now() < end; ); })');
    await until('a pause is seen', async () => Math.max(...(await page.evaluate<number[]>('pauses'))) >= 500);
    crowd.hush();
    await until('every candidate has come to the other side', async () => crowd.received === crowd.sent);

    // Generous: other processes share the machine. Unbounded lists would take seconds.
    expect(Math.max(0, ...pauses), 'longest pause, ms').toBeLessThan(400);
    expect(searched, 'search, ms').toBeLessThan(2_000);
    expect(shown, 'dialog, ms').toBeLessThan(1_500);
    expect(await page.evaluate<number>('document.querySelectorAll("*").length')).toBeLessThan(5_000);
    expect(operator.complaints).toEqual([]);
  } finally {
    await operator.leave();
    crowd.leave();
    await stack.close();
  }
});

test.each(['light', 'dark'] as const)(
  'every state of a guard and every mode, in %s: axe finds nothing',
  async (scheme) => {
    const operator = await Operator.arrive(browser, api.url, { scheme });
    await operator.region('Live calls').getByRole('row').nth(1).waitFor();
    for (const state of ['well', 'too few samples']) await operator.sees(`guard ${state}`);
    await operator.sees(/The guard tripped for call-lifecycle in \/tenant-2/);
    await operator.sees(/The guard of call-renegotiation in \/tenant-1 gives the alarm.*/);
    expect(await operator.page.getByText('The alarm ends by itself').count(), 'of the sole group alone').toBe(1);
    const instances = operator.region('Instances').getByRole('row');
    const cells = async (row: number) => (await instances.nth(row).getByRole('cell').allTextContents()).slice(0, 9);
    expect(await instances.nth(1).getByRole('rowheader').textContent()).toBe('sigfig-7c9d-a this one, leads');
    const [up, ms] = ['1 d 0 h', '11\u00a0ms'];
    expect(await cells(1)).toEqual(['serving', '0.1.0', up, '7,500', '6,500', '313, 2,187', ms, 'v14', '400\u00a0ms']);
    expect((await cells(2)).filter((_, i) => i !== 2)).toEqual([
      'draining',
      '0.1.0',
      '1',
      '1',
      '1, 7',
      ms,
      'v13 not v14',
      '400\u00a0ms',
    ]);
    expect((await cells(3)).slice(0, 3)).toEqual(['15,000', '13,000', '625, 4,375']);
    await operator.sees('Ready, but:');
    await operator.sees("Redis can't be reached: events of the new path are refused");
    await operator.region('Events').getByText('of this instance only').waitFor();
    await operator.button('Take back the drain of sigfig-7c9d-b').click();
    expect(await operator.faults()).toEqual([]);
    await operator.page.keyboard.press('Escape');
    await operator.button('Drain sigfig-7c9d-a').click();
    await operator.dialog.getByText('closes its 7,500 connections in small batches').waitFor();
    await operator.dialog.getByLabel('Drain it all the same').check();
    expect(await operator.faults()).toEqual([]);
    await operator.page.keyboard.press('Escape');
    // A call of many steps is opened at its last one.
    const calls = operator.region('Live calls');
    await calls.getByRole('button', { name: 'conversation-0', exact: true }).click();
    const timeline = calls.getByRole('region', { name: 'States in time' });
    await timeline.getByText('ENDED').waitFor();
    const [box, last] = [await timeline.boundingBox(), await timeline.getByText('ENDED').boundingBox()];
    expect(last?.y).toBeLessThan((box?.y ?? 0) + (box?.height ?? 0));
    // Where nothing was refused there is no line, of an event that has refusals either.
    const refused = operator.region('Events').locator('path.refused');
    expect(await refused.count()).toBe(1);
    expect((await refused.getAttribute('d'))?.match(/M[\d.]+ 32V[\d.]+/g)).toHaveLength(7);
    expect(await operator.faults()).toEqual([]);
    await operator.leave();
  },
);

test('figures that stay away for three seconds are grey and said to be old, though every connection stands', async () => {
  const operator = await Operator.arrive(browser, api.url);
  await operator.region('Live calls').getByRole('row').nth(1).waitFor();
  const began = Date.now();
  api.stall();
  try {
    await operator.sees('No new figures for more than 3 seconds');
    expect(Date.now() - began).toBeLessThan(8_000);
    await operator.sees('no new figures');
    expect(await operator.page.getByText('ready, 0.1.0').count()).toBe(0);
    expect(
      await operator.page.locator('main').evaluate('getComputedStyle(document.querySelector("main")).filter'),
    ).toBe('grayscale(1)');
    expect(await operator.page.title()).toContain('no new figures');
    expect(await operator.faults()).toEqual([]);
  } finally {
    api.goOn();
  }
  await operator.sees('ready, 0.1.0');
  expect(await operator.page.getByText('No new figures').count()).toBe(0);
  await operator.leave();
});

test('25 namespaces fit into 1280 and into 400 pixels', async () => {
  for (const width of [1280, 400]) {
    const operator = await Operator.arrive(browser, api.url, { width });
    await operator.region('Live calls').getByRole('row').nth(1).waitFor();
    expect(await operator.cutOff(), `${width} px`).toEqual([]);
    await operator.leave();
  }
});
