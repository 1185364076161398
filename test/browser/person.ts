// Somebody in front of the demo page: what they click, and what they see. Knows the page's labels and its `window.demo`,
// nothing of servers.
import type { Browser, Page } from 'playwright-core';
import { until } from './until.js';

export interface Shown {
  readonly phase: string;
  readonly role: 'offerer' | 'answerer' | null;
  readonly transport: string;
  readonly note: string;
}

export class Person {
  readonly page: Page;
  readonly name: string;
  /** What the page complained about; a test expects nothing. */
  readonly complaints: string[] = [];

  private constructor(page: Page, name: string) {
    this.page = page;
    this.name = name;
    page.setDefaultTimeout(15_000);
    page.on('pageerror', (error) => this.complaints.push(String(error)));
    page.on('console', (message) => {
      if (message.type() === 'error') this.complaints.push(message.text());
    });
  }

  /** Opens the page in a fresh profile and logs in. */
  static async arrive(browser: Browser, url: string, transport: string, name: string): Promise<Person> {
    const context = await browser.newContext();
    const person = new Person(await context.newPage(), name);
    const { page } = person;
    await page.goto(`${url}/?loopback=1&transport=${transport}`);
    await page.getByLabel('Your name').fill(name);
    await page.getByRole('button', { name: 'Log in' }).click();
    await page.waitForFunction('demo.state.connected');
    // Survives everything but a reload.
    await page.evaluate('globalThis.loaded = "once"');
    return person;
  }

  async leave(): Promise<void> {
    await this.page.context().close();
  }

  async open(peer: string): Promise<void> {
    await this.page.getByLabel('Name to talk to').fill(peer);
    await this.page.getByRole('button', { name: 'Open', exact: true }).click();
    await this.page.getByRole('heading', { name: peer, exact: true }).waitFor();
  }

  async say(text: string): Promise<void> {
    await this.page.getByLabel('Message', { exact: true }).fill(text);
    await this.page.getByRole('button', { name: 'Send' }).click();
  }

  async hears(text: string): Promise<void> {
    await this.page.getByLabel('Messages').getByText(text).waitFor();
  }

  async click(button: string): Promise<void> {
    await this.page.getByRole('button', { name: button, exact: true }).click();
  }

  async shown(): Promise<Shown> {
    return (await this.page.evaluate('demo.state')) as Shown;
  }

  async reaches(phase: string): Promise<void> {
    await this.page.waitForFunction(`demo.state.phase === ${JSON.stringify(phase)}`);
  }

  /** Waits until ten more frames of what the other side sends have been decoded. */
  async sees(what: 'camera' | 'screen'): Promise<void> {
    // Playwright's waitForFunction takes a promise for a yes, so the numbers are asked for one by one.
    const frames = async () => (await this.page.evaluate(`demo.frames().then((frames) => frames.${what})`)) as number;
    let before = 0;
    await until(`${this.name} to see the ${what}`, async () => {
      before = await frames();
      return before > 0;
    });
    await until(`the ${what} that ${this.name} sees to move`, async () => (await frames()) >= before + 10);
  }

  /** Whether this is still the page that was opened first. */
  async neverReloaded(): Promise<boolean> {
    return (await this.page.evaluate('globalThis.loaded')) === 'once';
  }

  /** The page's own list of call events, for a failure's report. */
  async events(): Promise<string> {
    const lines = this.page.getByLabel('Call events that came and went').getByRole('listitem');
    return (await lines.allInnerTexts()).map((line) => line.replaceAll('\n', ' ')).join('\n');
  }

  /** How often an event came or went, as the page's own list shows it. */
  async count(direction: 'sent' | 'received', event: string): Promise<number> {
    const lines = this.page.getByLabel('Call events that came and went').getByRole('listitem');
    return await lines
      .filter({ has: this.page.getByLabel(direction) })
      .filter({ hasText: event })
      .count();
  }

  async awaits(direction: 'sent' | 'received', event: string, count: number): Promise<void> {
    const arrow = direction === 'sent' ? 'out' : 'in';
    const script = `[...document.querySelectorAll('#events li.${arrow} code')].filter((c) => c.textContent === '${event}').length >= ${count}`;
    await this.page.waitForFunction(script);
  }

  /** Makes a renegotiation offer but sends it only when the returned function is called. */
  async preparesToRenegotiate(): Promise<() => Promise<void>> {
    await this.page.evaluate(`(() => {
      const { pc } = demo;
      const make = pc.setLocalDescription;
      const gate = new Promise((open) => { globalThis.openGate = open; });
      globalThis.made = false;
      pc.setLocalDescription = async (...description) => {
        delete pc.setLocalDescription;
        await make.apply(pc, description);
        globalThis.made = true;
        await gate;
      };
      demo.call.renegotiate();
    })()`);
    await this.page.waitForFunction('globalThis.made');
    return async () => {
      await this.page.evaluate('globalThis.openGate()');
    };
  }
}
