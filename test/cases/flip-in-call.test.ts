// Routes flip in the middle of a call, at each of its moments: it stays whole on the path that accepted its offer, and
// only the next call follows the new table.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { allLegacy, callsNew, callsSole, connect, type Stack, startStack, until } from '../harness.js';
import { transports } from './tap.js';
import { moments, wholeCall } from './whole-call.js';

const paths = { legacy: allLegacy, new: callsNew };
const flips = [
  { from: 'new', to: 'legacy', table: allLegacy, ns: '/' },
  { from: 'legacy', to: 'new', table: callsNew, ns: '/' },
  { from: 'legacy', to: 'sole', table: callsSole, ns: '/' },
  // The table stops or begins to name the call's namespace.
  { from: 'new', to: 'legacy', table: allLegacy, ns: '/calls' },
  { from: 'legacy', to: 'new', table: callsNew, ns: '/calls' },
] as const;
const between = moments.filter((moment) => moment !== 'before the offer' && moment !== 'at the end');

let stack: Stack;
beforeAll(async () => {
  stack = await startStack();
});
afterAll(() => stack.close());

/** Which path has this call now. */
async function ownerOf(ns: string, conversationId: string): Promise<string> {
  const onLegacy = stack.legacy.calls.state(ns, conversationId) !== undefined;
  const onNew = (await stack.proxy.metric('sigfig_calls')) > 0;
  return onLegacy && onNew ? 'both' : onLegacy ? 'legacy' : onNew ? 'new' : 'nobody';
}

for (const { from, to, table, ns } of flips) {
  describe(`flip-in-call from ${from} to ${to} in ${ns}`, () => {
    // The upgraded transport is a WebSocket like any other; once in each direction is enough.
    const played = Object.keys(transports).filter((name) => name !== 'upgrade' || (ns === '/' && to !== 'sole'));
    for (const transport of played) {
      test.each(between)(`over ${transport}: %s`, async (moment) => {
        // A table that is in force already changes nothing, and would not be told.
        await stack.proxy.setRoutes(`${paths[from]}# before ${moment} over ${transport}\n`);
        const name = `${ns.slice(1)}-${from}-${to}-${moments.indexOf(moment)}-${transport}`;
        const { a, b, conversationId } = await wholeCall(stack.proxy.url, name, transport, ns, async (now, id) => {
          if (now === 'before the offer' || now === 'at the end') return;
          expect(await ownerOf(ns, id)).toBe(from);
          if (now === moment) await stack.proxy.setRoutes(table);
        });
        await until(async () => (await ownerOf(ns, conversationId)) === 'nobody', 'nobody has the call any more');
        // What trails in is nobody's error.
        const trailing = { conversationId, iceCandidate: { candidate: 'trailing' } };
        expect(await a.ask('ice-candidate', trailing)).toEqual({ ok: true });
        expect(await a.ask('call-offer', { conversationId, offer: 'next' })).toEqual({ ok: true });
        expect(await b.next('call-offer')).toEqual({ conversationId, offer: 'next', fromUserId: a.user });
        expect(await ownerOf(ns, conversationId)).toBe(to === 'sole' ? 'new' : to);
        expect(await b.ask('call-answer', { conversationId, answer: 'next' })).toEqual([]);
        expect(await a.ask('call-end', { conversationId })).toEqual({ ok: true });
        for (const client of [a, b]) client.close();
      });
    }
  });
}

describe('flip-in-call while the offer waits for the database', () => {
  let slow: Stack;
  beforeAll(async () => {
    slow = await startStack({ legacy: { membershipLatencyMs: 500 } });
  });
  afterAll(() => slow.close());

  for (const { from, to, table } of flips.slice(0, 3)) {
    test.each(['websocket', 'polling'])(
      `from ${from} to ${to}: what follows the offer follows it, over %s`,
      async (transport) => {
        await slow.proxy.setRoutes(`${paths[from]}# before waiting for ${to} over ${transport}\n`);
        const name = `waiting-${from}-${to}-${transport}`;
        const [a, b] = await Promise.all(
          ['a', 'b'].map((side) => connect(slow.proxy.url, `${name}-${side}`, transports[transport])),
        );
        const conversationId = `dm:${name}-a:${name}-b`;
        const lookups = slow.legacy.membership.lookups;
        const candidate = (n: number) => a!.ask('ice-candidate', { conversationId, iceCandidate: n });
        const asked = [a!.ask('call-offer', { conversationId, offer: 'o' }), candidate(1)];
        await until(() => slow.legacy.membership.lookups > lookups, 'the offer waits');
        await slow.proxy.setRoutes(table);
        asked.push(candidate(2), b!.ask('call-offer', { conversationId, offer: 'too' }));
        expect(await Promise.all(asked)).toMatchObject([{ ok: true }, { ok: true }, { ok: true }, { ok: false }]);
        expect(await b!.next('call-offer')).toMatchObject({ offer: 'o' });
        expect(slow.legacy.calls.state('/', conversationId)).toBe(from === 'legacy' ? 'OFFERING' : undefined);
        expect(await b!.ask('call-answer', { conversationId, answer: 'a' })).toEqual([1, 2]);
        expect(await b!.ask('call-end', { conversationId })).toEqual({ ok: true });
        await a!.next('call-ended');
        expect(a!.got.map(({ event }) => event)).toEqual(['call-answer', 'call-ended']);
        for (const client of [a!, b!]) client.close();
      },
    );
  }
});
