// What the dashboard's tests play on: one Chromium for a file, and for each test a real proxy with a real legacy behind it, operators
// at their pages and clients in calls. Everything is gone, and no page has complained, at the end of each test.
import type { Browser } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import type { HistoryBody, RoutesBody } from '../../../src/admin/api.js';
import { allLegacy, type Client, connect, type Stack, startStack } from '../../harness.js';
import { launch } from '../stage.js';
import { type Looks, Operator } from './operator.js';

/** Call it once in a file, outside of its tests. */
export function useDesk() {
  const desk = new Desk();
  beforeAll(async () => {
    desk.browser = await launch();
  });
  afterAll(async () => {
    await desk.browser?.close();
  });
  beforeEach(async () => {
    desk.stack = await startStack({ routes: allLegacy });
  });
  afterEach(() => desk.clear());
  return desk;
}

class Desk {
  browser!: Browser;
  /** A test that closes it puts another in its place. */
  stack!: Stack;
  clients: Client[] = [];
  /** Whoever arrived; they leave with the test. */
  operators: Operator[] = [];

  readonly arrive = async (looks: Looks = {}): Promise<Operator> => {
    const operator = await Operator.arrive(this.browser, `${this.stack.proxy.adminUrl}/`, looks);
    this.operators.push(operator);
    await operator.button('Change call-lifecycle in /').waitFor();
    return operator;
  };

  /** What the admin API says, without a page. */
  readonly ask = async <T>(path: string): Promise<T> =>
    (await (await fetch(`${this.stack.proxy.adminUrl}/api/${path}`)).json()) as T;
  readonly routes = async () => (await this.ask<RoutesBody>('routes')).namespaces['/'];
  readonly newest = async () => (await this.ask<HistoryBody>('routes/history?limit=1')).versions[0];

  /** Two clients in a call that is answered. */
  readonly call = async (name: string) => {
    const { a, b, conversationId } = await this.#pair(name);
    expect(await a.ask('call-offer', { conversationId, offer: { sdp: 'o' } })).toEqual({ ok: true });
    await b.next('call-offer');
    await b.ask('call-answer', { conversationId, answer: { sdp: 'a' } });
    await a.next('call-answer');
    return { a, b, conversationId };
  };

  async #pair(name: string): Promise<{ a: Client; b: Client; conversationId: string }> {
    const [a, b] = await Promise.all([`${name}-a`, `${name}-b`].map((user) => connect(this.stack.proxy.url, user)));
    if (!a || !b) throw new Error('two clients');
    this.clients.push(a, b);
    return { a, b, conversationId: `dm:${a.user}:${b.user}` };
  }

  async clear(): Promise<void> {
    const complaints = this.operators.flatMap((operator) => operator.complaints);
    for (const operator of this.operators) await operator.leave();
    for (const client of this.clients) client.close();
    this.operators = [];
    this.clients = [];
    await this.stack.close();
    expect(complaints).toEqual([]);
  }
}
