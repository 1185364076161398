// An operator at the dashboard, who finds things as a screen reader does: by role and name. Knows what is on the page, and
// nothing of the code behind it.
import axe from 'axe-core';
import type { Browser, Locator, Page } from 'playwright-core';

export interface Looks {
  readonly scheme?: 'light' | 'dark';
  readonly width?: number;
  /** Done before the page is loaded. */
  readonly before?: (page: Page) => Promise<void>;
}

export class Operator {
  readonly page: Page;
  /** Console errors (violations of the page's policy among them), exceptions, and requests that left the listener. */
  readonly complaints: string[] = [];

  private constructor(page: Page) {
    this.page = page;
  }

  static async arrive(browser: Browser, url: string, looks: Looks = {}): Promise<Operator> {
    const { scheme = 'light', width = 1280, before } = looks;
    const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme: scheme });
    const operator = new Operator(page);
    page.on('pageerror', (error) => operator.complaints.push(String(error)));
    page.on('console', (message) => {
      // A refused or failed request is said by the page in its own words; the browser's line about it is none of ours.
      const own = /^Failed to load resource/.test(message.text());
      if (message.type() === 'error' && !own) operator.complaints.push(message.text());
    });
    page.on('request', (request) => {
      if (!request.url().startsWith(url)) operator.complaints.push(`left the listener: ${request.url()}`);
    });
    page.setDefaultTimeout(15_000);
    await before?.(page);
    await page.goto(url);
    return operator;
  }

  region(name: string): Locator {
    return this.page.getByRole('region', { name, exact: true });
  }
  button(name: string | RegExp): Locator {
    return this.page.getByRole('button', { name, exact: true });
  }
  get dialog(): Locator {
    return this.page.getByRole('dialog');
  }

  /** Waits until the text is to be seen somewhere. */
  async sees(text: string | RegExp): Promise<void> {
    await this.page.getByText(text).first().waitFor();
  }

  /** Opens the dialog for a group. */
  async change(group: string, ns = '/'): Promise<void> {
    await this.button(`Change ${group} in ${ns}`).click();
    await this.dialog.waitFor();
  }

  /** The dry run of what is filled in now, once it is there. */
  async dryRun(): Promise<string> {
    const plan = this.dialog.getByRole('region', { name: 'Dry run' });
    await this.page.locator('dialog .plan:not(.busy) li').first().waitFor();
    return (await plan.textContent()) ?? '';
  }

  /** Gives a reason and a name, confirms, and waits until the dialog is gone. */
  async confirm(button: string | RegExp, reason: string, name?: string): Promise<void> {
    await this.fill(reason, name);
    await this.dialog.getByRole('button', { name: button }).click();
    await this.dialog.waitFor({ state: 'detached' });
  }

  async fill(reason: string, name?: string): Promise<void> {
    await this.dialog.getByLabel(/^Reason/).fill(reason);
    if (name !== undefined) await this.dialog.getByLabel('Your name').fill(name);
  }

  /** What axe finds wrong, a line each. */
  async faults(): Promise<readonly string[]> {
    await this.page.evaluate(axe.source);
    const { violations } = await this.page.evaluate(async () => {
      const { axe: inPage } = globalThis as unknown as { axe: typeof axe };
      return await inPage.run({ resultTypes: ['violations'] } as never);
    });
    return violations.flatMap(({ id, help, nodes }) =>
      nodes.map(({ target }) => `${id}: ${help} (${target.join(' ')})`),
    );
  }

  /** Elements that stand out of the window or whose text is cut off. */
  async cutOff(): Promise<readonly string[]> {
    return await this.page.evaluate(`(() => {
      const wide = document.documentElement.clientWidth;
      const seen = (element) => element.getClientRects().length > 0 && !element.closest('.visually-hidden, .skip, thead');
      const all = [...document.querySelectorAll('#page *')].filter(seen);
      const out = all.filter((element) => element.getBoundingClientRect().right > wide + 0.5);
      const cut = all.filter((element) => {
        const { overflowX, display } = getComputedStyle(element);
        if (element.clientWidth === 0 || display === 'inline' || element.closest('svg')) return false;
        return overflowX !== 'auto' && element.scrollWidth > element.clientWidth + 1;
      });
      return [...new Set([...out, ...cut])].map(
        (element) => element.tagName + '.' + element.getAttribute('class') + ': ' + element.textContent.slice(0, 60),
      );
    })()`);
  }

  /** The name of what has the focus. */
  async focused(): Promise<string> {
    const name = 'document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent';
    return await this.page.evaluate(name);
  }

  async leave(): Promise<void> {
    await this.page.close();
  }
}
