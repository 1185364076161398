// The Redis driver where the network loses commands and replies: nothing is done twice, nothing comes to pass that was called off, and
// nothing hangs.
import { describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import type { Address, ConversationId, Namespace } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { Fate } from './redis.fixture.js';
import { listed, socket } from './store.contract.js';
import { call, next, useTwoStores } from './two-stores.fixture.js';

const two = useTwoStores();

/** That fate for the first so many commands of that name. */
const first = (fate: Fate, name: string, times = 1) => {
  let left = times;
  return (asked: string): Fate => (asked === name && left-- > 0 ? fate : 'through');
};
const every = (fate: Fate, name: string) => first(fate, name, Number.POSITIVE_INFINITY);
const unavailable = async (answer: Promise<unknown>): Promise<Unavailable> => {
  const started = performance.now();
  const error = await answer.then(
    (value) => value,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(Unavailable);
  expect(performance.now() - started).toBeLessThan(2_000);
  return error as Unavailable;
};

describe('a change whose reply was lost does not conflict with itself', () => {
  it('create', async () => {
    two.a.fate = first('reply-lost', 'create');
    expect(await two.a.store.create(call())).toEqual({ created: true, session: call(), claimed: false });
    expect(await two.b.store.get(call())).toEqual(call());
    expect(two.a.asked.filter((name) => name === 'create')).toHaveLength(2);
  });

  it('replace, also where another has changed it meanwhile', async () => {
    const before = call();
    await two.a.store.create(before);
    const after = next(before, { state: 'RENEGOTIATING' });
    two.a.fate = first('reply-lost', 'replace', 2);
    expect(await two.a.store.replace(before, after)).toEqual({ replaced: true, session: after });

    const [third, fourth] = [next(after), next(next(after), { since: 4 })];
    two.a.fate = first('reply-lost', 'replace');
    const made = two.a.store.replace(after, third);
    await until(async () => (await two.b.store.get(before))?.version === 3);
    await two.b.store.replace(third, fourth);
    expect(await made).toEqual({ replaced: true, session: fourth });
    expect(two.a.store.peek(before)).toEqual(fourth);
  });

  it('replace, where the call is over since', async () => {
    const before = call();
    await two.a.store.create(before);
    two.a.fate = first('reply-lost', 'replace');
    const made = two.a.store.replace(before, next(before));
    await until(async () => (await two.b.store.get(before))?.version === 2);
    await two.b.store.delete(next(before));
    expect(await made).toEqual({ replaced: true, session: null });
    expect(two.a.store.peek(before)).toBeUndefined();
  });

  it('replace that takes what was kept, which is given once and not lost', async () => {
    const before = call({ held: { answerer: 9_000 } });
    await two.a.store.create(before);
    await two.a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 1 });
    two.b.fate = first('reply-lost', 'replace', 2);
    expect(await two.b.store.replace(before, next(before, { held: undefined }))).toMatchObject({
      replaced: true,
      kept: { answerer: [{ event: 'ice-candidate', arg: 1 }] },
    });
  });

  it('keep, also where the seat was taken meanwhile with the message', async () => {
    const before = call({ held: { answerer: 9_000 } });
    await two.a.store.create(before);
    two.a.fate = first('reply-lost', 'keep', 2);
    expect(await two.a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 1 })).toMatchObject({
      kept: true,
    });
    two.a.fate = first('reply-lost', 'keep');
    const kept = two.a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 2 });
    await until(async () => Number(await two.server.ask('LLEN', await keptKey())) === 2);
    const taken = await two.b.store.replace(before, next(before, { held: undefined }));
    expect(taken.kept?.answerer?.map(({ arg }) => arg)).toEqual([1, 2]);
    expect(await kept).toMatchObject({ kept: true });
  });

  it('delete', async () => {
    await two.a.store.create(call());
    two.a.fate = first('reply-lost', 'delete', 2);
    expect(await two.a.store.delete(call())).toEqual({ deleted: true, session: null });
    expect(await two.b.store.look(call())).toMatchObject({ session: null, ended: 'call-1' });
  });

  it('claim', async () => {
    two.a.fate = first('reply-lost', 'claim');
    expect(await two.a.store.claim(call(), '1')).toBeNull();
    expect(await two.b.store.look(call())).toMatchObject({ claimed: true });
  });
});

describe('a change of which it is not known whether it was made', () => {
  it('is told later, and known here then: it was made', async () => {
    two.a.fate = every('reply-lost', 'create');
    const { late } = await unavailable(two.a.store.create(call()));
    expect(await late).toBe(true);
    expect(two.a.store.peek(call())).toEqual(call());
    const before = call({ conversationId: 'c-2' as ConversationId });
    await two.b.store.create(before);
    two.b.fate = every('reply-lost', 'delete');
    expect(await (await unavailable(two.b.store.delete(before))).late).toBe(true);
    expect(two.b.store.peek(before)).toBeUndefined();
  });

  it('was not made, and never is, though the network brings it after all', async () => {
    const before = call({ conversationId: 'c-2' as ConversationId });
    await two.a.store.create(before);
    two.a.fate = (name) => (/^(create|replace|delete)$/.test(name) ? 'lost' : 'through');
    const failed = await Promise.all([
      unavailable(two.a.store.create(call())),
      unavailable(two.a.store.replace(before, next(before))),
      unavailable(two.a.store.delete(before)),
    ]);
    expect(await Promise.all(failed.map(({ late }) => late))).toEqual([false, false, false]);
    two.a.fate = () => 'through';
    const words = new Set((await two.a.deliverLost()).map((answer) => (answer as string[])[0]));
    expect([...words]).toEqual(['void']);
    expect(await two.b.store.get(call())).toBeNull();
    expect(await two.b.store.get(before)).toEqual(before);
    expect((await two.b.store.replace(before, next(before))).replaced).toBe(true);
  });

  it('does not hang where Redis does', async () => {
    two.a.fate = () => 'hangs';
    const key = call();
    await Promise.all(
      [
        two.a.store.get(key),
        two.a.store.look(key),
        two.a.store.create(key),
        two.a.store.replace(key, next(key)),
        two.a.store.delete(key),
        two.a.store.claim(key, '1'),
        two.a.store.keep(key, 'offerer', { event: 'call-ended', arg: null }),
        two.a.store.awaiting('/', 'a'),
      ].map(unavailable),
    );
  });

  it('is said of every page that is turned while Redis is away', async () => {
    await two.a.store.create(call());
    for (const lost of ['zrange', 'zscan', 'sscan', 'hmget']) {
      two.a.fate = every('lost', lost);
      const walks = [() => two.a.store.due(1_000_000), () => two.a.store.all(), () => two.a.store.seatedAt(two.a.id)];
      const faults: unknown[] = [];
      for (const walk of walks) {
        try {
          for await (const one of walk()) expect(one).toBeDefined();
        } catch (fault) {
          faults.push(fault);
        }
      }
      expect(faults).toHaveLength(lost === 'hmget' ? 2 : 1);
      for (const fault of faults) expect(fault).toBeInstanceOf(Unavailable);
    }
  });

  it('was certainly not made where this instance has no lease', async () => {
    const session = call();
    await two.a.store.create(session);
    two.a.mayAct = false;
    const asked = [two.a.store.get(session), two.a.store.replace(session, next(session)), two.a.store.delete(session)];
    for (const { late } of await Promise.all(asked.map(unavailable))) expect(late).toBeUndefined();
    two.a.mayAct = true;
    expect(two.a.store.peek(session)).toEqual(session);
  });

  it('is claimed and released in the background while Redis is away', async () => {
    two.a.fate = every('lost', 'claim');
    await unavailable(two.a.store.claim(call(), '1'));
    two.a.fate = () => 'through';
    await until(async () => (await two.b.store.look(call())).claimed);
    two.a.fate = first('lost', 'release');
    two.a.store.release(call(), '1');
    await until(async () => !(await two.b.store.look(call())).claimed);
  });
});

it('claims nothing that was released while the claim was on its way', async () => {
  two.a.fate = every('lost', 'claim');
  const claimed = two.a.store.claim(call(), '1');
  await until(async () => two.a.asked.includes('claim'));
  two.a.store.release(call(), '1');
  two.a.fate = () => 'through';
  expect(await claimed).toBeNull();
  expect(await two.b.store.look(call())).toMatchObject({ claimed: false });
  expect((await two.b.store.create(call())).created).toBe(true);
});

it('asks again where it hears of another change under the version that it knows', async () => {
  const session = call();
  await two.a.store.create(session);
  const [lost, made] = [next(session, { since: 2 }), next(session, { since: 3 })];
  await two.a.store.replace(session, lost);
  const key = (await two.all.keys()).map(({ key: name }) => name).find((name) => name.includes(':session:')) ?? '';
  const data = JSON.stringify(made);
  await two.server.ask('HSET', key, 'd', data, 'n', data.length);
  two.a.store.heard(session, session.callId, 2, lost);
  expect(two.a.store.peek(session)).toEqual(lost);
  two.a.store.heard(session, session.callId, 2, made);
  expect(two.a.store.peek(session)).toBeUndefined();
  expect(await two.a.store.bySocket(session.seats.offerer)).toEqual([made]);
  await two.b.store.get(session);
  await two.a.store.restore();
  expect(await two.b.store.get(session)).toEqual(made);
});

it('goes on from what it was told, where Redis fell behind that with a failover', async () => {
  const session = call();
  await two.a.store.create(session);
  const key = (await two.all.keys()).map(({ key: name }) => name).find((name) => name.includes(':session:')) ?? '';
  const old = (await two.server.ask('HGETALL', key)) as string[];
  const [second, third] = [next(session, { state: 'RENEGOTIATING' }), next(next(session), { state: 'CONNECTED' })];
  await two.a.store.replace(session, second);
  const behind = async (): Promise<void> => {
    await two.server.ask('DEL', key);
    await two.server.ask('HSET', key, ...old);
  };
  await behind();
  expect(await two.a.store.replace(second, third)).toEqual({ replaced: true, session: third });
  expect(await two.b.store.get(session)).toEqual(third);
  await behind();
  expect(await two.a.store.delete(third)).toEqual({ deleted: true, session: null });
  expect(await two.b.store.get(session)).toBeNull();
});

it('takes calls that are over out of the index of its seats, where that was lost when they ended', async () => {
  const c = await two.all.instance('c', 30);
  const seats = { offerer: socket('c1', 3, 'c' as Address), answerer: null };
  await c.store.create(call({ seats }));
  await c.store.create(call({ seats, conversationId: 'c-2' as ConversationId, callId: 'call-2' }));
  two.b.fate = every('hangs', 'srem');
  expect((await two.b.store.delete(call({ seats }))).deleted).toBe(true);
  const seated = async (): Promise<string[]> => {
    const keys: string[] = [];
    for await (const { conversationId } of two.a.store.seatedAt(c.id)) keys.push(conversationId);
    return keys;
  };
  await until(async () => (await seated()).length < 2);
  expect(await seated()).toEqual(['c-2']);
});

describe('what an event costs', () => {
  it('is one round trip for a change, whatever it must be found by', async () => {
    const session = call({ state: 'OFFERING', seats: { offerer: socket('a1', 1, 'a' as Address), answerer: null } });
    await two.a.store.create(session);
    expect(two.a.asked).toEqual(['link', 'sooner', 'create']);
    const buffered = next(session, { candidates: ['c'] });
    two.a.asked.splice(0);
    await two.a.store.replace(session, buffered);
    expect(two.a.asked).toEqual(['replace']);
    const answered = next(buffered, {
      ...{ state: 'CONNECTED', candidates: [] },
      seats: { ...session.seats, answerer: socket('b1', 2, 'b' as Address) },
    });
    await two.b.store.replace(buffered, answered);
    expect(two.b.asked).toEqual(['link', 'replace']);
    two.a.asked.splice(0);
    expect(await two.a.store.bySocket(session.seats.offerer)).toHaveLength(1);
    expect(two.a.store.knownOf('/', 'a')).toHaveLength(1);
    expect(two.a.asked).toEqual([]);
    await two.a.store.delete(answered);
    // The tidying after it is awaited by nobody: one time, two seats.
    await until(async () => two.a.asked.length >= 4);
    expect(two.a.asked).toEqual(['delete', 'zrem', 'srem', 'srem']);
  });
});

async function keptKey(): Promise<string> {
  const found = (await two.all.keys()).find(({ key }) => key.includes(':kept-a:'));
  return found?.key ?? 'none';
}

it('takes any namespace and conversation for what it is', async () => {
  const odd = ['{', '}', '{}', '|', '%7C', ' ', '\n', '\ud800', '\udc00', '😀', 'é', '__proto__', 'a|b', 'a%7Cb'];
  for (const [i, text] of odd.entries())
    await two.a.store.create(
      call({ ns: `/${text}` as Namespace, conversationId: text as ConversationId, callId: `${i}` }),
    );
  for (const [i, text] of odd.entries()) {
    const key = { ns: `/${text}` as Namespace, conversationId: text as ConversationId };
    expect(await two.b.store.get(key)).toMatchObject({ ...key, callId: `${i}` });
  }
  expect(await listed(two.b.store)).toHaveLength(odd.length);
});
