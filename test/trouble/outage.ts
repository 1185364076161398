// What every trouble with Redis is measured by: refusals are clear and quick while it lasts, the legacy's events go on untouched, and
// full service is back within 5 s of its end. Knows nothing of what the trouble is.
import { expect } from 'vitest';
import { type Bed, type Chat, type Instance, inCall, talk } from '../cluster/bed.js';
import { type Client, until } from '../harness.js';

/** Full service within 5 s of Redis's return. */
export const backWithinMs = 5_000;
export const unavailable = { ok: false, error: 'Signaling is unavailable, try again' };

/** A migrated event during the trouble: refused within 2 s, its acknowledgement answered, with the `error` event before. */
export async function refused(client: Client, event: string, payload: object): Promise<void> {
  const started = performance.now();
  const answer = await client.ask(event, payload);
  const took = performance.now() - started;
  expect(answer, `${event} of ${client.user}`).toEqual(
    event.endsWith('answer') && Array.isArray(answer) ? [] : unavailable,
  );
  expect(took, `${event} of ${client.user} took ${took} ms`).toBeLessThan(2_000);
  expect(await client.next('error')).toMatchObject({ event, message: unavailable.error });
}

/** From now on within 5 s: calls between each two instances are made, talked in and ended. */
export async function fullService(bed: Bed, name: string, since = performance.now()): Promise<number> {
  const { instances } = bed;
  const pairs = instances.flatMap((one, i) => instances.slice(i + 1).map((other) => [one, other] as const));
  await Promise.all(
    pairs.map(async ([one, other], n) => {
      const [a, b] = await Promise.all([bed.on(one, `${name}-${n}-a`), bed.on(other, `${name}-${n}-b`)]);
      const conversationId = `dm:${a.user}:${b.user}`;
      await until(
        async () => ((await a.ask('call-offer', { conversationId, offer: 'probe' })) as { ok: boolean }).ok,
        'an offer is taken again',
        2 * backWithinMs,
      );
      await b.next('call-offer');
      await until(
        async () => {
          b.forget();
          const answer = await b.ask('call-answer', { conversationId, answer: 'a' });
          return Array.isArray(answer) && !b.got.some(({ event }) => event === 'error');
        },
        'an answer is taken again',
        2 * backWithinMs,
      );
      await a.next('call-answer');
      await talk(conversationId, a, b);
      expect(await a.ask('call-end', { conversationId })).toEqual({ ok: true });
      await b.next('call-ended');
    }),
  );
  const took = performance.now() - since;
  expect(took, 'milliseconds until full service').toBeLessThan(backWithinMs);
  return took;
}

/** The legacy's own went on: no message lost, none late. */
export async function untouched(chatting: Chat): Promise<void> {
  const { worst, answered } = chatting.figures();
  expect(answered).toBeGreaterThan(20);
  expect(worst, 'the longest a chat message waited, in ms').toBeLessThan(1_000);
  await chatting.stop();
}

export interface Steady {
  stop(): Promise<{ readonly acknowledged: number; readonly refused: number }>;
}

/**
 * Candidates of `a` to `b` without a pause, whatever becomes of them: what was acknowledged with `ok` must have come, once, in order;
 * everything else must have been refused within 2 s.
 */
export function steady(conversationId: string, a: Client, b: Client, everyMs = 20): Steady {
  let going = true;
  const acknowledged: number[] = [];
  const slow: number[] = [];
  const unanswered: number[] = [];
  let refusals = 0;
  const sending = (async () => {
    const asked: Promise<void>[] = [];
    for (let iceCandidate = 1; going; iceCandidate++) {
      const started = performance.now();
      asked.push(
        a.ask('ice-candidate', { conversationId, iceCandidate }).then(
          (answer) => {
            if (performance.now() - started > 2_000) slow.push(iceCandidate);
            if ((answer as { ok: boolean }).ok) acknowledged.push(iceCandidate);
            else refusals++;
          },
          () => void unanswered.push(iceCandidate),
        ),
      );
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
    await Promise.all(asked);
  })();
  return {
    async stop() {
      going = false;
      await sending;
      const came = () => b.got.map(({ args }) => args[0]).filter((arg): arg is number => typeof arg === 'number');
      await until(
        () => acknowledged.every((one) => came().includes(one)),
        'every acknowledged candidate has come',
        backWithinMs,
      ).catch(() => {
        const missing = acknowledged.filter((one) => !came().includes(one));
        throw new Error(
          `${missing.length} of ${acknowledged.length} acknowledged did not come: ${missing.slice(0, 20).join(' ')}`,
        );
      });
      expect(came(), 'in order, each once').toEqual([...new Set(came())].sort((x, y) => x - y));
      expect(unanswered, 'never answered').toEqual([]);
      expect(slow, 'answered after more than 2 s').toEqual([]);
      return { acknowledged: acknowledged.length, refused: refusals };
    },
  };
}

/** Two users in a call between two instances. */
export async function callBetween(bed: Bed, one: Instance, other: Instance, name: string) {
  const [a, b] = await Promise.all([bed.on(one, `${name}-a`), bed.on(other, `${name}-b`)]);
  return { a, b, conversationId: await inCall(a, b) };
}
