// Both parties call each other in the same moment: one call, and one clear refusal.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allLegacy, type Client, callsNew, callsSole, connect, type Stack, startStack, until } from '../harness.js';
import { transports } from './tap.js';

const refusal = { ok: false, error: 'Call already in progress' };
const all = (client: Client, name: string) => client.got.filter(({ event }) => event === name);

/** Both have offered; the call of the one is there, and it can be answered and ended. */
async function exactlyOneCall(
  [a, b]: readonly [Client, Client],
  answers: readonly unknown[],
  conversationId: string,
): Promise<void> {
  expect(answers.toSorted((x) => ('error' in (x as object) ? 1 : -1))).toEqual([{ ok: true }, refusal]);
  const [caller, callee] = 'error' in (answers[0] as object) ? [b, a] : [a, b];
  expect(await callee.next('call-offer')).toEqual({ conversationId, offer: caller.user, fromUserId: caller.user });
  expect(await callee.next('error')).toEqual({ event: 'call-offer', conversationId, message: refusal.error });
  expect(await callee.ask('call-answer', { conversationId, answer: 'a' })).toEqual([]);
  await caller.next('call-answer');
  expect(await caller.ask('call-end', { conversationId })).toEqual({ ok: true });
  await callee.next('call-ended');
  expect(all(caller, 'call-offer')).toEqual([]);
  expect(all(callee, 'call-offer')).toHaveLength(1);
  expect([...all(caller, 'error'), ...all(callee, 'error')]).toHaveLength(1);
}

const offer = (client: Client, conversationId: string) =>
  client.ask('call-offer', { conversationId, offer: client.user });

for (const [table, routes] of Object.entries({ legacy: allLegacy, new: callsNew, sole: callsSole })) {
  describe(`both-offer, calls: ${table}`, () => {
    let stack: Stack;
    beforeAll(async () => {
      stack = await startStack({ routes, legacy: { membershipLatencyMs: 60 } });
    });
    afterAll(() => stack.close());

    for (const [one, other] of [
      ['websocket', 'websocket'],
      ['polling', 'polling'],
      ['websocket', 'polling'],
    ] as const) {
      test(`both-offer: exactly one call, the other gets one clear refusal, over ${one} and ${other}`, async () => {
        const clients = await Promise.all([
          connect(stack.proxy.url, `both-${one}-${other}-a`, transports[one]),
          connect(stack.proxy.url, `both-${one}-${other}-b`, transports[other]),
        ]);
        const conversationId = `dm:${clients[0].user}:${clients[1].user}`;
        const answers = await Promise.all(clients.map((client) => offer(client, conversationId)));
        await exactlyOneCall(clients, answers, conversationId);
        for (const client of clients) client.close();
      });
    }
  });
}

describe('both-offer: while the route flips between the two offers', () => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ routes: callsNew, legacy: { membershipLatencyMs: 400 } });
  });
  afterAll(() => stack.close());

  test.each([
    ['new', 'legacy'],
    ['legacy', 'new'],
  ] as const)('both-offer: the first on %s, the second after a flip to %s', async (first, second) => {
    const tables = { legacy: allLegacy, new: callsNew };
    await stack.proxy.setRoutes(`${tables[first]}# ${Date.now()}\n`);
    const clients = await Promise.all([
      connect(stack.proxy.url, `flipped-${first}-a`, transports.websocket),
      connect(stack.proxy.url, `flipped-${first}-b`, transports.websocket),
    ]);
    const conversationId = `dm:${clients[0].user}:${clients[1].user}`;
    const lookups = stack.legacy.membership.lookups;
    const one = offer(clients[0], conversationId);
    await until(() => stack.legacy.membership.lookups > lookups, 'the first offer waits for the database');
    await stack.proxy.setRoutes(tables[second]);
    const answers = await Promise.all([one, offer(clients[1], conversationId)]);
    expect(answers).toEqual([{ ok: true }, refusal]);
    await exactlyOneCall(clients, answers, conversationId);
    for (const client of clients) client.close();
  });
});
