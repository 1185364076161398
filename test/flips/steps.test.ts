// An operator flips routes at each step of a call's life, through the admin API, on both transports: the call stays whole on
// the path that accepted its offer, relays included, its parties see the contract's call, and the next call follows the table.
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CallBody, CallsBody, ChangedBody } from '../../src/admin/api.js';
import type { LiveCall } from '../../src/signaling/live.js';
import { type Moment, wholeCall } from '../cases/whole-call.js';
import { type Stack, startStack, until } from '../harness.js';

const relays = ['ice-candidate', 'call-renegotiation'];
const tables = {
  legacy: { yaml: 'namespaces: {}\n', path: 'legacy', because: 'route', peeled: [] },
  new: { yaml: 'namespaces: { /: { calls: new } }\n', path: 'new', because: 'route', peeled: [] },
  canary: {
    yaml: 'namespaces: { /: { calls: { mode: canary, percent: 100 } } }\n',
    ...{ path: 'new', because: 'canary', peeled: [] },
  },
  'canary at 0 %': {
    yaml: 'namespaces: { /: { calls: { mode: canary, percent: 0 } } }\n',
    ...{ path: 'legacy', because: 'canary', peeled: [] },
  },
  peeled: {
    yaml: 'namespaces: { /: { ice-candidate: new, call-renegotiation: new } }\n',
    ...{ path: 'legacy', because: 'route', peeled: relays },
  },
} as const;
type Table = keyof typeof tables;
const flips: readonly (readonly [Table, Table])[] = [
  ['legacy', 'new'],
  ['new', 'legacy'],
  ['legacy', 'canary'],
  ['canary', 'canary at 0 %'],
  ['legacy', 'peeled'],
  ['peeled', 'legacy'],
  ['peeled', 'new'],
  ['new', 'peeled'],
];

const steps: readonly Moment[] = [
  'before the offer',
  'between offer and answer',
  'in a renegotiation',
  'while awaiting a rejoin',
  'at the end',
];
/** The case `flip-in-call` plays the steps between for plain flips. */
const stepsOf = (from: Table, to: Table): readonly Moment[] =>
  [from, to].every((table) => table === 'legacy' || table === 'new') ? ['before the offer', 'at the end'] : steps;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack.close());

/** Longer than any bucket of the admin API takes to fill. */
const mostTries = 20;

async function api<T>(path: string, body?: object): Promise<T> {
  for (let tries = 1; ; tries++) {
    const response = await fetch(`${stack.proxy.adminUrl}${path}`, {
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
      headers: { 'content-type': 'application/json' },
    });
    const text = await response.text();
    if (response.status === 429 && tries < mostTries) {
      // Nothing was done: whoever is told to come back later does, as every client of this API must.
      const seconds = Number(response.headers.get('retry-after'));
      expect(seconds, 'Retry-After of a 429').toBeGreaterThan(0);
      await setTimeout(seconds * 1_000);
      continue;
    }
    expect(response.status, text).toBe(200);
    return JSON.parse(text) as T;
  }
}

test('whoever asks too often waits as long as the admin API says, and is answered then', async () => {
  let answered = 0;
  const ask = async (): Promise<void> => {
    for (let i = 0; i < 60; i++, answered++) await api<object>('/api/status');
  };
  await Promise.all([ask(), ask(), ask(), ask()]);
  expect(answered).toBe(240);
}, 60_000);

const flip = (to: Table) => api<ChangedBody>('/api/routes/apply', { yaml: tables[to].yaml, reason: `flip to ${to}` });

async function callOf(conversationId: string): Promise<LiveCall | undefined> {
  const { calls } = await api<CallsBody>(`/api/calls?search=${encodeURIComponent(conversationId)}`);
  expect(calls.length).toBeLessThanOrEqual(1);
  return calls[0];
}

const shown = (call: LiveCall | undefined) => call && { path: call.path, because: call.because, peeled: call.peeled };
const wanted = ({ path, because, peeled }: (typeof tables)[Table]) => ({ path, because, peeled });

for (const [from, to] of flips) {
  describe(`from ${from} to ${to}`, () => {
    for (const transport of ['websocket', 'polling']) {
      test.each(stepsOf(from, to))(`over ${transport}: %s`, async (moment) => {
        await flip(from);
        const on = moment === 'before the offer' ? to : from;
        const seen: LiveCall[] = [];
        const name = `${from}-${to}-${steps.indexOf(moment)}-${transport}`.replaceAll(/[ %]+/g, '');
        const { a, b, conversationId } = await wholeCall(stack.proxy.url, name, transport, '/', async (now, id) => {
          if (now === moment) await flip(to);
          if (now === 'before the offer' || now === 'at the end') return;
          const call = await callOf(id);
          expect(shown(call)).toEqual(wanted(tables[on]));
          seen.push(call as LiveCall);
        });
        await until(async () => (await callOf(conversationId)) === undefined, 'nobody has the call any more');
        expect(new Set(seen.map(({ id }) => id)).size).toBe(1);
        const { timeline } = await api<CallBody>(`/api/calls/${seen[0]?.id}`);
        expect(timeline.filter(({ event }) => event === 'path')).toMatchObject([{ to: tables[on].path }]);
        expect(timeline.at(-1)).toMatchObject({ to: 'ENDED' });

        expect(await a.ask('call-offer', { conversationId, offer: 'next' })).toEqual({ ok: true });
        expect(await b.next('call-offer')).toMatchObject({ offer: 'next' });
        expect(shown(await callOf(conversationId))).toEqual(wanted(tables[to]));
        expect(await b.ask('call-answer', { conversationId, answer: 'next' })).toEqual([]);
        expect(await a.ask('call-end', { conversationId })).toEqual({ ok: true });
        for (const client of [a, b]) client.close();
      });
    }
  });
}
