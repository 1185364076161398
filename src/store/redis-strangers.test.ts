// The Redis driver where what stands in Redis is not what we wrote: it is said with its key, and one broken key is one call's trouble.
import { describe, expect, it } from 'vitest';
import type { ConversationId } from '../base/ids.js';
import { Unreadable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { listed } from './store.contract.js';
import { call, next, useTwoStores } from './two-stores.fixture.js';

const two = useTwoStores();

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
    await two.a.store.create(other);
    await two.a.store.create(session);
    const key = await two.all.spoil('session', tag, ...command);
    const asked: (() => Promise<unknown>)[] = [
      () => two.a.store.get(session),
      () => two.a.store.look(session),
      () => two.b.store.create(call({ callId: 'call-9' })),
      () => two.b.store.claim(session, '1'),
      () => two.a.store.replace({ ...session, version: 9 }, { ...session, version: 10 }),
      () => two.a.store.delete({ ...session, version: 9 }),
    ];
    for (const ask of asked) {
      const error = await ask().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(Unreadable);
      expect((error as Unreadable).key).toBe(key);
      expect((error as Error).message).not.toContain('sdp');
    }
    // The others go on, and the reaper meets it when its time comes.
    expect((await listed(two.b.store)).map(({ callId }) => callId)).toEqual(['call-2']);
    const due: string[] = [];
    for await (const { conversationId } of two.b.store.due(1_000_000)) due.push(conversationId);
    expect(due.sort()).toEqual(['c-1', 'c-2']);

    await two.a.store.discard(session);
    expect(two.a.store.peek(session)).toBeUndefined();
    expect(await two.b.store.look(session)).toEqual({ session: null, claimed: false, ended: null });
    expect((await two.b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });

  it.each([
    ['cut short', text({}).slice(0, 80)],
    ['of a newer version', JSON.stringify({ format: 99, state: 'IN_ORBIT' })],
  ])('%s under the version that is known here: it is not written over', async (_, data) => {
    const changes: ((one: Session) => Promise<unknown>)[] = [
      (one) => two.a.store.replace(one, next(one)),
      (one) => two.a.store.delete(one),
    ];
    for (const [i, change] of changes.entries()) {
      const one = call({ callId: `call-${i}` });
      await two.a.store.create(one);
      const [key = ''] = (await two.all.keys())
        .map(({ key: name }) => name)
        .filter((name) => name.includes(':session:'));
      await two.server.ask('HSET', key, 'd', data);
      expect(two.a.store.peek(one)).toEqual(one);
      expect(await change(one).catch((fault: unknown) => fault)).toBeInstanceOf(Unreadable);
      await two.a.store.discard(one);
    }
  });

  it.each(['ended', 'claim', 'void', 'kept-a'])('%s of another type ends that call alone', async (kind) => {
    const held = call({ held: { answerer: 9_000 } });
    await two.a.store.create(held);
    await two.all.spoil(kind, tag, ...(kind === 'ended' ? ['RPUSH', 'x'] : ['SET', 'x']));
    const met = await Promise.allSettled([
      two.a.store.look(held),
      two.a.store.replace(held, next(held, { held: undefined })),
      two.a.store.delete(held),
      two.a.store.delete(next(held)),
    ]);
    const faults = met.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    expect(faults.length).toBeGreaterThan(0);
    for (const fault of faults) expect(fault).toBeInstanceOf(Unreadable);
    await two.a.store.discard(held);
    expect((await two.b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });

  it('an index of another type is begun anew, and said', async () => {
    const spoiled = [
      await two.all.spoil('seats', tagOf('a.1'), 'SET', 'x'),
      await two.all.spoil('awaiting', tagOf('/', 'a'), 'SET', 'x'),
      ...(await Promise.all(Array.from({ length: 8 }, (_, shard) => two.all.spoil('due', String(shard), 'SET', 'x')))),
    ];
    await two.a.store.create(call({ waitsForBoth: true }));
    expect(two.a.unreadable).toHaveLength(3);
    for (const key of two.a.unreadable) expect(spoiled).toContain(key);
    expect(await two.b.store.awaiting('/', 'a')).toHaveLength(1);
    const keys: string[] = [];
    for await (const { conversationId } of two.b.store.seatedAt(two.a.id)) keys.push(conversationId);
    for await (const { conversationId } of two.b.store.due(1_000_000)) keys.push(conversationId);
    expect(keys).toEqual(['c-1', 'c-1']);
  });

  it('members that nobody of us wrote are left out', async () => {
    const odd = ['', '[]', '["/","x"]', '["/","x",7]', '{"a":1}', 'x'];
    await two.all.spoil('seats', tagOf('a.1'), 'SADD', ...odd, JSON.stringify(['/', 'c-1', 'call-1']));
    await two.all.spoil('awaiting', tagOf('/', 'a'), 'SADD', ...odd);
    for (let shard = 0; shard < 8; shard++)
      await two.all.spoil('due', String(shard), 'ZADD', ...odd.flatMap((member) => ['1', member]));
    const keys: string[] = [];
    for await (const { conversationId } of two.b.store.seatedAt(two.a.id)) keys.push(conversationId);
    expect(keys).toEqual(['c-1']);
    expect(await two.b.store.awaiting('/', 'a')).toEqual([]);
    expect(await listed(two.b.store)).toEqual([]);
    for await (const { conversationId } of two.b.store.due(1_000_000)) keys.push(conversationId);
    expect(keys).toEqual(['c-1']);
  });
});
