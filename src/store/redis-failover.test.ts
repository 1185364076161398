// The Redis driver where a server took over that was behind: what was confirmed a moment ago is missing or older there, and nothing tells.
// What this instance knows is written again, and nothing that has ended.
import { describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import { Unavailable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { call, next, useTwoStores } from './two-stores.fixture.js';

const two = useTwoStores();

const keyOf = async (kind: string): Promise<string> =>
  (await two.all.keys()).map(({ key }) => key).find((name) => name.includes(`:${kind}:`)) ?? 'none';
const stored = async (): Promise<string[]> => (await two.server.ask('HGETALL', await keyOf('session'))) as string[];
/** Whoever took over has this instead. */
async function putBack(key: string, fields: readonly string[]): Promise<void> {
  await two.server.ask('DEL', key);
  if (fields.length > 0) await two.server.ask('HSET', key, ...fields);
}

describe('a call that is missing there', () => {
  it('is written again by whoever changes it next', async () => {
    const session = call();
    await two.a.store.create(session);
    await two.server.ask('DEL', await keyOf('session'));
    const after = next(session, { state: 'RENEGOTIATING' });
    expect(await two.a.store.replace(session, after)).toEqual({ replaced: true, session: after });
    expect(await two.b.store.get(session)).toEqual(after);
    expect(two.a.store.peek(session)).toEqual(after);
    await two.server.ask('DEL', await keyOf('session'));
    expect(await two.a.store.delete(after)).toEqual({ deleted: true, session: null });
    expect(await two.b.store.look(session)).toMatchObject({ session: null, ended: session.callId });
  });

  it('is written again with its indexes and claims, by who was told of it lately', async () => {
    const session = call({ waitsForBoth: true, state: 'AWAITING_REJOIN' });
    const other = call({ conversationId: 'c-2' as Session['conversationId'], callId: 'call-2' });
    await two.a.store.create(session);
    await two.a.store.claim(other, 'claim-1');
    await two.all.flush();
    await two.a.store.restore('recent');
    expect(await two.b.store.get(session)).toEqual(session);
    expect(await two.b.store.awaiting('/', 'a')).toHaveLength(1);
    const seated: string[] = [];
    for await (const { conversationId } of two.b.store.seatedAt(two.a.id)) seated.push(conversationId);
    expect(seated).toEqual(['c-1']);
    expect(await two.b.store.look(other)).toMatchObject({ claimed: true });
  });

  it('is not written again where it was told of longer ago than it is known that a call has ended', async () => {
    const session = call();
    await two.a.store.create(session);
    await two.server.ask('DEL', await keyOf('session'));
    two.a.later(50_000);
    await two.a.store.restore('recent');
    expect(await two.b.store.get(session)).toBeNull();
    expect(await two.a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    expect(await two.b.store.get(session)).toBeNull();
  });

  it('is written again however long ago, where Redis is known to be empty', async () => {
    const session = call();
    await two.a.store.create(session);
    await two.all.flush();
    two.a.later(3_600_000);
    await two.a.store.restore();
    expect(await two.b.store.get(session)).toEqual(session);
  });

  it('is not, once it has ended: nothing of it is left but that', async () => {
    const session = call({ waitsForBoth: true, state: 'AWAITING_REJOIN' });
    await two.a.store.create(session);
    expect((await two.b.store.delete(session)).deleted).toBe(true);
    await until(async () => (await two.all.keys()).length === 1);
    // No word of it came here.
    expect(two.a.store.peek(session)).toEqual(session);
    two.a.asked.splice(0);
    expect(await two.a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    expect(two.a.asked).toEqual(['replace']);
    const again = await two.all.instance('a');
    again.store.heard(session, session.callId, session.version, session);
    await again.store.restore('recent');
    await until(async () => (await two.all.keys()).length === 1);
    expect(await keyOf('ended')).not.toBe('none');
  });

  it('is not, once it was discarded', async () => {
    const session = call();
    await two.a.store.create(session);
    await two.b.store.discard(session);
    expect(await two.a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    await two.a.store.restore();
    expect(await two.b.store.get(session)).toBeNull();
    expect((await two.b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });
});

describe('two changes of one version', () => {
  it('are told apart: nothing is made of the one that was lost', async () => {
    const session = call();
    await two.a.store.create(session);
    const [key, old] = [await keyOf('session'), await stored()];
    await two.b.store.get(session);
    const mine = next(session, { state: 'RENEGOTIATING', offeredBy: 'offerer' });
    await two.a.store.replace(session, mine);
    await putBack(key, old);
    const theirs = next(session, { state: 'RENEGOTIATING', offeredBy: 'answerer' });
    expect(await two.b.store.replace(session, theirs)).toMatchObject({ replaced: true });
    expect(await two.a.store.replace(mine, next(mine))).toEqual({ replaced: false, session: theirs });
    expect(two.a.store.peek(session)).toEqual(theirs);
    expect(await two.b.store.delete(mine)).toEqual({ deleted: false, session: theirs });
    expect((await two.a.store.replace(theirs, next(theirs))).replaced).toBe(true);
  });

  it('what came in a message is what is stored, with bytes and all', async () => {
    const session = call({ state: 'OFFERING', candidates: [{ x: Buffer.from('abc') }, '\ud800', { 2: 1, 1: 2 }] });
    const { keptOffer, ...rest } = session;
    const heard = { ...(JSON.parse(JSON.stringify(rest)) as Session), candidates: session.candidates, keptOffer };
    await two.a.store.create(session);
    two.b.store.heard(session, session.callId, session.version, heard);
    two.b.asked.splice(0);
    expect((await two.b.store.replace(heard, next(heard))).replaced).toBe(true);
    expect((await two.a.store.get(session))?.version).toBe(2);
    expect(two.b.asked.filter((name) => name === 'replace')).toHaveLength(1);
  });
});

describe('the reply of taking a held seat that is late', () => {
  it('tells what was kept for it', async () => {
    const held = call({ held: { answerer: 9_000 } });
    await two.a.store.create(held);
    const messages = [1, 2].map((arg) => ({ event: 'ice-candidate' as const, arg }));
    for (const message of messages) await two.a.store.keep(held, 'answerer', message);
    two.b.fate = (name) => (name === 'replace' ? 'reply-lost' : 'through');
    const taken = next(held, { held: undefined });
    const error = await two.b.store.replace(held, taken).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Unavailable);
    expect(await (error as Unavailable).late).toEqual({ kept: { answerer: messages } });
    expect(two.b.store.peek(held)).toEqual(taken);
  });
});

it('a claim that the network brings after its release is void', async () => {
  two.a.fate = (name) => (name === 'claim' ? 'lost' : 'through');
  const claimed = two.a.store.claim(call(), '1');
  await until(async () => two.a.asked.includes('claim'));
  two.a.store.release(call(), '1');
  await until(async () => two.a.asked.includes('release'));
  two.a.fate = () => 'through';
  expect(await claimed).toBeNull();
  for (const answer of await two.a.deliverLost()) expect(answer).toEqual(['void']);
  expect(await two.b.store.look(call())).toMatchObject({ claimed: false });
  expect(await two.a.store.claim(call(), '2')).toBeNull();
  expect(await two.b.store.look(call())).toMatchObject({ claimed: true });
});
