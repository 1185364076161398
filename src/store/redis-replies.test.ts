// The Redis driver where the network loses commands and replies, and where what stands in Redis is not what we wrote: nothing is done twice,
// nothing comes to pass that was called off, nothing hangs, and one broken key is one call's trouble.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { Address, ConversationId, Namespace } from '../base/ids.js';
import { Unavailable, Unreadable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { type Fate, type Instance, type Population, population } from './redis.fixture.js';
import { listed, sessionOf, socket } from './store.contract.js';

let server: RedisServer;
let all: Population;
let a: Instance;
let b: Instance;
beforeAll(async () => {
  server = await startRedis();
});
afterAll(() => server.close());
beforeEach(async () => {
  all = await population({ url: server.url, nodes: [server.ask], close: async () => undefined });
  [a, b] = [await all.instance('a'), await all.instance('b')];
});
afterEach(() => all.close());

const call = (change: Partial<Session> = {}): Session =>
  sessionOf({
    seats: { offerer: socket('a1', 1, 'a' as Address), answerer: socket('b1', 2, 'b' as Address) },
    ...change,
  });
const next = (session: Session, change: Partial<Session> = {}): Session => ({
  ...session,
  version: session.version + 1,
  ...change,
});
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
    a.fate = first('reply-lost', 'create');
    expect(await a.store.create(call())).toEqual({ created: true, session: call(), claimed: false });
    expect(await b.store.get(call())).toEqual(call());
    expect(a.asked.filter((name) => name === 'create')).toHaveLength(2);
  });

  it('replace, also where another has changed it meanwhile', async () => {
    const before = call();
    await a.store.create(before);
    const after = next(before, { state: 'RENEGOTIATING' });
    a.fate = first('reply-lost', 'replace', 2);
    expect(await a.store.replace(before, after)).toEqual({ replaced: true, session: after });

    const [third, fourth] = [next(after), next(next(after), { since: 4 })];
    a.fate = first('reply-lost', 'replace');
    const made = a.store.replace(after, third);
    await until(async () => (await b.store.get(before))?.version === 3);
    await b.store.replace(third, fourth);
    expect(await made).toEqual({ replaced: true, session: fourth });
    expect(a.store.peek(before)).toEqual(fourth);
  });

  it('replace, where the call is over since', async () => {
    const before = call();
    await a.store.create(before);
    a.fate = first('reply-lost', 'replace');
    const made = a.store.replace(before, next(before));
    await until(async () => (await b.store.get(before))?.version === 2);
    await b.store.delete(next(before));
    expect(await made).toEqual({ replaced: true, session: null });
    expect(a.store.peek(before)).toBeUndefined();
  });

  it('replace that takes what was kept, which is given once and not lost', async () => {
    const before = call({ held: { answerer: 9_000 } });
    await a.store.create(before);
    await a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 1 });
    b.fate = first('reply-lost', 'replace', 2);
    expect(await b.store.replace(before, next(before, { held: undefined }))).toMatchObject({
      replaced: true,
      kept: { answerer: [{ event: 'ice-candidate', arg: 1 }] },
    });
  });

  it('keep, also where the seat was taken meanwhile with the message', async () => {
    const before = call({ held: { answerer: 9_000 } });
    await a.store.create(before);
    a.fate = first('reply-lost', 'keep', 2);
    expect(await a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 1 })).toMatchObject({ kept: true });
    a.fate = first('reply-lost', 'keep');
    const kept = a.store.keep(before, 'answerer', { event: 'ice-candidate', arg: 2 });
    await until(async () => Number(await server.ask('LLEN', await keptKey())) === 2);
    const taken = await b.store.replace(before, next(before, { held: undefined }));
    expect(taken.kept?.answerer?.map(({ arg }) => arg)).toEqual([1, 2]);
    expect(await kept).toMatchObject({ kept: true });
  });

  it('delete', async () => {
    await a.store.create(call());
    a.fate = first('reply-lost', 'delete', 2);
    expect(await a.store.delete(call())).toEqual({ deleted: true, session: null });
    expect(await b.store.look(call())).toMatchObject({ session: null, ended: 'call-1' });
  });

  it('claim', async () => {
    a.fate = first('reply-lost', 'claim');
    expect(await a.store.claim(call(), '1')).toBeNull();
    expect(await b.store.look(call())).toMatchObject({ claimed: true });
  });
});

describe('a change of which it is not known whether it was made', () => {
  it('is told later, and known here then: it was made', async () => {
    a.fate = every('reply-lost', 'create');
    const { late } = await unavailable(a.store.create(call()));
    expect(await late).toBe(true);
    expect(a.store.peek(call())).toEqual(call());
    const before = call({ conversationId: 'c-2' as ConversationId });
    await b.store.create(before);
    b.fate = every('reply-lost', 'delete');
    expect(await (await unavailable(b.store.delete(before))).late).toBe(true);
    expect(b.store.peek(before)).toBeUndefined();
  });

  it('was not made, and never is, though the network brings it after all', async () => {
    const before = call({ conversationId: 'c-2' as ConversationId });
    await a.store.create(before);
    a.fate = (name) => (/^(create|replace|delete)$/.test(name) ? 'lost' : 'through');
    const failed = await Promise.all([
      unavailable(a.store.create(call())),
      unavailable(a.store.replace(before, next(before))),
      unavailable(a.store.delete(before)),
    ]);
    expect(await Promise.all(failed.map(({ late }) => late))).toEqual([false, false, false]);
    a.fate = () => 'through';
    const words = new Set((await a.deliverLost()).map((answer) => (answer as string[])[0]));
    expect([...words]).toEqual(['void']);
    expect(await b.store.get(call())).toBeNull();
    expect(await b.store.get(before)).toEqual(before);
    expect((await b.store.replace(before, next(before))).replaced).toBe(true);
  });

  it('does not hang where Redis does', async () => {
    a.fate = () => 'hangs';
    const key = call();
    await Promise.all(
      [
        a.store.get(key),
        a.store.look(key),
        a.store.create(key),
        a.store.replace(key, next(key)),
        a.store.delete(key),
        a.store.claim(key, '1'),
        a.store.keep(key, 'offerer', { event: 'call-ended', arg: null }),
        a.store.awaiting('/', 'a'),
      ].map(unavailable),
    );
  });

  it('is said of every page that is turned while Redis is away', async () => {
    await a.store.create(call());
    for (const lost of ['zrange', 'zscan', 'sscan', 'hmget']) {
      a.fate = every('lost', lost);
      const walks = [() => a.store.due(1_000_000), () => a.store.all(), () => a.store.seatedAt(a.id)];
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
    await a.store.create(session);
    a.mayAct = false;
    const asked = [a.store.get(session), a.store.replace(session, next(session)), a.store.delete(session)];
    for (const { late } of await Promise.all(asked.map(unavailable))) expect(late).toBeUndefined();
    a.mayAct = true;
    expect(a.store.peek(session)).toEqual(session);
  });

  it('is claimed and released in the background while Redis is away', async () => {
    a.fate = every('lost', 'claim');
    await unavailable(a.store.claim(call(), '1'));
    a.fate = () => 'through';
    await until(async () => (await b.store.look(call())).claimed);
    a.fate = first('lost', 'release');
    a.store.release(call(), '1');
    await until(async () => !(await b.store.look(call())).claimed);
  });
});

it('claims nothing that was released while the claim was on its way', async () => {
  a.fate = every('lost', 'claim');
  const claimed = a.store.claim(call(), '1');
  await until(async () => a.asked.includes('claim'));
  a.store.release(call(), '1');
  a.fate = () => 'through';
  expect(await claimed).toBeNull();
  expect(await b.store.look(call())).toMatchObject({ claimed: false });
  expect((await b.store.create(call())).created).toBe(true);
});

it('asks again where it hears of another change under the version that it knows', async () => {
  const session = call();
  await a.store.create(session);
  const [lost, made] = [next(session, { since: 2 }), next(session, { since: 3 })];
  await a.store.replace(session, lost);
  const key = (await all.keys()).map(({ key: name }) => name).find((name) => name.includes(':session:')) ?? '';
  const data = JSON.stringify(made);
  await server.ask('HSET', key, 'd', data, 'n', data.length);
  a.store.heard(session, session.callId, 2, lost);
  expect(a.store.peek(session)).toEqual(lost);
  a.store.heard(session, session.callId, 2, made);
  expect(a.store.peek(session)).toBeUndefined();
  expect(await a.store.bySocket(session.seats.offerer)).toEqual([made]);
  await b.store.get(session);
  await a.store.restore();
  expect(await b.store.get(session)).toEqual(made);
});

describe('what is not ours under a key', () => {
  const session = call();
  const tag = tagOf('/', 'c-1');
  const text = (change: object): string => JSON.stringify({ ...session, ...change });
  const hash = (format: string, data: string): string[] => ['HSET', 'f', format, 'c', 'call-1', 'v', '1', 'd', data];
  const cases: [string, string[]][] = [
    ['a text', ['SET', 'x']],
    ['a list', ['RPUSH', 'x']],
    ['a hash of somebody', ['HSET', 'd', '{}']],
    ['another format', hash('2', text({}))],
    ['no format', hash('', text({}))],
    ['half a session', hash('1', text({}).slice(0, 80))],
    ['another conversation', hash('1', text({ conversationId: 'c-9' }))],
    ['an unknown state', hash('1', text({ state: 'LOUD' }))],
    ['a seat without a number', hash('1', text({ seats: { offerer: { ns: '/', id: 'a' }, answerer: null } }))],
    ['no users', hash('1', text({ users: undefined }))],
    ['a list', hash('1', '[]')],
  ];

  it.each(cases)('%s: is said with its key, by whoever meets it, and can be removed', async (_, command) => {
    const other = call({ conversationId: 'c-2' as ConversationId, callId: 'call-2' });
    await a.store.create(other);
    await a.store.create(session);
    const key = await all.spoil('session', tag, ...command);
    const asked: (() => Promise<unknown>)[] = [
      () => a.store.get(session),
      () => a.store.look(session),
      () => b.store.create(call({ callId: 'call-9' })),
      () => b.store.claim(session, '1'),
      () => a.store.replace({ ...session, version: 9 }, { ...session, version: 10 }),
      () => a.store.delete({ ...session, version: 9 }),
    ];
    for (const ask of asked) {
      const error = await ask().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(Unreadable);
      expect((error as Unreadable).key).toBe(key);
      expect((error as Error).message).not.toContain('sdp');
    }
    // The others go on, and the reaper meets it when its time comes.
    expect((await listed(b.store)).map(({ callId }) => callId)).toEqual(['call-2']);
    const due: string[] = [];
    for await (const { conversationId } of b.store.due(1_000_000)) due.push(conversationId);
    expect(due.sort()).toEqual(['c-1', 'c-2']);

    await a.store.discard(session);
    expect(a.store.peek(session)).toBeUndefined();
    expect(await b.store.look(session)).toEqual({ session: null, claimed: false, ended: null });
    expect((await b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });

  it.each([
    ['cut short', text({}).slice(0, 80)],
    ['of a newer version', JSON.stringify({ format: 99, state: 'IN_ORBIT' })],
  ])('%s under the version that is known here: it is not written over', async (_, data) => {
    const changes: ((one: Session) => Promise<unknown>)[] = [
      (one) => a.store.replace(one, next(one)),
      (one) => a.store.delete(one),
    ];
    for (const [i, change] of changes.entries()) {
      const one = call({ callId: `call-${i}` });
      await a.store.create(one);
      const [key = ''] = (await all.keys()).map(({ key: name }) => name).filter((name) => name.includes(':session:'));
      await server.ask('HSET', key, 'd', data);
      expect(a.store.peek(one)).toEqual(one);
      expect(await change(one).catch((fault: unknown) => fault)).toBeInstanceOf(Unreadable);
      await a.store.discard(one);
    }
  });

  it.each(['ended', 'claim', 'void', 'kept-a'])('%s of another type ends that call alone', async (kind) => {
    const held = call({ held: { answerer: 9_000 } });
    await a.store.create(held);
    await all.spoil(kind, tag, ...(kind === 'ended' ? ['RPUSH', 'x'] : ['SET', 'x']));
    const met = await Promise.allSettled([
      a.store.look(held),
      a.store.replace(held, next(held, { held: undefined })),
      a.store.delete(held),
      a.store.delete(next(held)),
    ]);
    const faults = met.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    expect(faults.length).toBeGreaterThan(0);
    for (const fault of faults) expect(fault).toBeInstanceOf(Unreadable);
    await a.store.discard(held);
    expect((await b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });

  it('an index of another type is begun anew, and said', async () => {
    const spoiled = [
      await all.spoil('seats', tagOf('a.1'), 'SET', 'x'),
      await all.spoil('awaiting', tagOf('/', 'a'), 'SET', 'x'),
      ...(await Promise.all(Array.from({ length: 8 }, (_, shard) => all.spoil('due', String(shard), 'SET', 'x')))),
    ];
    await a.store.create(call({ waitsForBoth: true }));
    expect(a.unreadable).toHaveLength(3);
    for (const key of a.unreadable) expect(spoiled).toContain(key);
    expect(await b.store.awaiting('/', 'a')).toHaveLength(1);
    const keys: string[] = [];
    for await (const { conversationId } of b.store.seatedAt(a.id)) keys.push(conversationId);
    for await (const { conversationId } of b.store.due(1_000_000)) keys.push(conversationId);
    expect(keys).toEqual(['c-1', 'c-1']);
  });

  it('members that nobody of us wrote are left out', async () => {
    const odd = ['', '[]', '["/","x"]', '["/","x",7]', '{"a":1}', 'x'];
    await all.spoil('seats', tagOf('a.1'), 'SADD', ...odd, JSON.stringify(['/', 'c-1', 'call-1']));
    await all.spoil('awaiting', tagOf('/', 'a'), 'SADD', ...odd);
    for (let shard = 0; shard < 8; shard++)
      await all.spoil('due', String(shard), 'ZADD', ...odd.flatMap((member) => ['1', member]));
    const keys: string[] = [];
    for await (const { conversationId } of b.store.seatedAt(a.id)) keys.push(conversationId);
    expect(keys).toEqual(['c-1']);
    expect(await b.store.awaiting('/', 'a')).toEqual([]);
    expect(await listed(b.store)).toEqual([]);
    for await (const { conversationId } of b.store.due(1_000_000)) keys.push(conversationId);
    expect(keys).toEqual(['c-1']);
  });
});

it('goes on from what it was told, where Redis fell behind that with a failover', async () => {
  const session = call();
  await a.store.create(session);
  const key = (await all.keys()).map(({ key: name }) => name).find((name) => name.includes(':session:')) ?? '';
  const old = (await server.ask('HGETALL', key)) as string[];
  const [second, third] = [next(session, { state: 'RENEGOTIATING' }), next(next(session), { state: 'CONNECTED' })];
  await a.store.replace(session, second);
  const behind = async (): Promise<void> => {
    await server.ask('DEL', key);
    await server.ask('HSET', key, ...old);
  };
  await behind();
  expect(await a.store.replace(second, third)).toEqual({ replaced: true, session: third });
  expect(await b.store.get(session)).toEqual(third);
  await behind();
  expect(await a.store.delete(third)).toEqual({ deleted: true, session: null });
  expect(await b.store.get(session)).toBeNull();
});

it('takes calls that are over out of the index of its seats, where that was lost when they ended', async () => {
  const c = await all.instance('c', 30);
  const seats = { offerer: socket('c1', 3, 'c' as Address), answerer: null };
  await c.store.create(call({ seats }));
  await c.store.create(call({ seats, conversationId: 'c-2' as ConversationId, callId: 'call-2' }));
  b.fate = every('hangs', 'srem');
  expect((await b.store.delete(call({ seats }))).deleted).toBe(true);
  const seated = async (): Promise<string[]> => {
    const keys: string[] = [];
    for await (const { conversationId } of a.store.seatedAt(c.id)) keys.push(conversationId);
    return keys;
  };
  await until(async () => (await seated()).length < 2);
  expect(await seated()).toEqual(['c-2']);
});

describe('what an event costs', () => {
  it('is one round trip for a change, whatever it must be found by', async () => {
    const session = call({ state: 'OFFERING', seats: { offerer: socket('a1', 1, 'a' as Address), answerer: null } });
    await a.store.create(session);
    expect(a.asked).toEqual(['link', 'sooner', 'create']);
    const buffered = next(session, { candidates: ['c'] });
    a.asked.splice(0);
    await a.store.replace(session, buffered);
    expect(a.asked).toEqual(['replace']);
    const answered = next(buffered, {
      ...{ state: 'CONNECTED', candidates: [] },
      seats: { ...session.seats, answerer: socket('b1', 2, 'b' as Address) },
    });
    await b.store.replace(buffered, answered);
    expect(b.asked).toEqual(['link', 'replace']);
    a.asked.splice(0);
    expect(await a.store.bySocket(session.seats.offerer)).toHaveLength(1);
    expect(a.store.knownOf('/', 'a')).toHaveLength(1);
    expect(a.asked).toEqual([]);
    await a.store.delete(answered);
    // The tidying after it is awaited by nobody: one time, two seats.
    await until(async () => a.asked.length >= 4);
    expect(a.asked).toEqual(['delete', 'zrem', 'srem', 'srem']);
  });
});

async function keptKey(): Promise<string> {
  const found = (await all.keys()).find(({ key }) => key.includes(':kept-a:'));
  return found?.key ?? 'none';
}

it('takes any namespace and conversation for what it is', async () => {
  const odd = ['{', '}', '{}', '|', '%7C', ' ', '\n', '\ud800', '\udc00', '😀', 'é', '__proto__', 'a|b', 'a%7Cb'];
  for (const [i, text] of odd.entries())
    await a.store.create(call({ ns: `/${text}` as Namespace, conversationId: text as ConversationId, callId: `${i}` }));
  for (const [i, text] of odd.entries()) {
    const key = { ns: `/${text}` as Namespace, conversationId: text as ConversationId };
    expect(await b.store.get(key)).toMatchObject({ ...key, callId: `${i}` });
  }
  expect(await listed(b.store)).toHaveLength(odd.length);
});
