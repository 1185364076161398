// Changes that go on while Redis is killed, restarted with its data, and frozen: each that was said to be made is there, each that was
// said not to be made is not, and none is there twice.
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { Address, ConversationId } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { type Instance, population } from './redis.fixture.js';
import { sessionOf, socket } from './store.contract.js';

let server: RedisServer;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());

it('loses no change and makes none twice', async () => {
  const all = await population({ url: server.url, nodes: [server.ask], close: async () => undefined });
  try {
    const instances = [await all.instance('a'), await all.instance('b')];
    const seats = { offerer: socket('a1', 1, 'a' as Address), answerer: socket('b1', 2, 'b' as Address) };
    const calls = Array.from({ length: 12 }, (_, i) =>
      sessionOf({ conversationId: `c-${i}` as ConversationId, callId: `c-${i}`, seats, candidates: [] }),
    );
    for (const session of calls) await instances[0]?.store.create(session);

    let over = false;
    /** Marks of changes that are known to be made, by call. */
    const made = calls.map(() => new Set<string>());
    const notMade = calls.map(() => new Set<string>());
    let unknownFirst = 0;

    /** Adds a mark of its own to the call again and again, as candidates are. */
    async function change({ store }: Instance, call: number, who: string): Promise<void> {
      const key = calls[call] as Session;
      for (let n = 0; !over; n++) {
        const mark = `${who}-${n}`;
        try {
          const before = store.peek(key) ?? (await store.get(key));
          if (!before) throw new Error('a call is gone');
          const after = { ...before, version: before.version + 1, candidates: [...before.candidates, mark] };
          const { replaced } = await store.replace(before, after);
          (replaced ? made : notMade)[call]?.add(mark);
        } catch (error) {
          if (!(error instanceof Unavailable)) throw error;
          if (error.late) unknownFirst += 1;
          (error.late && (await error.late) ? made : notMade)[call]?.add(mark);
        }
        // Lets the other have its turn.
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    }
    const changing = Promise.all(
      instances.flatMap((instance) => calls.map((_, call) => change(instance, call, instance.address))),
    );
    const some = (): number => made.reduce((sum, { size }) => sum + size, 0);
    const more = async (count: number): Promise<void> => {
      for (const wanted = some() + count; some() < wanted; ) await new Promise((resolve) => setTimeout(resolve, 10));
    };

    await more(100);
    await server.restart({ keepData: true });
    await more(100);
    await server.freeze();
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await server.thaw();
    await more(100);
    await server.restart({ keepData: true });
    await more(100);
    over = true;
    await changing;

    expect(unknownFirst).toBeGreaterThan(0);
    for (const [i, key] of calls.entries()) {
      const stored = await instances[1]?.store.get(key);
      const marks = (stored?.candidates ?? []) as string[];
      expect(new Set(marks).size).toBe(marks.length);
      expect([...marks].sort()).toEqual([...(made[i] ?? [])].sort());
      expect(stored?.version).toBe(1 + marks.length);
      for (const mark of notMade[i] ?? []) expect(marks).not.toContain(mark);
    }
  } finally {
    await all.close();
  }
}, 40_000);
