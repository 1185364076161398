// The Redis driver where a server took over that was behind: what was confirmed a moment ago is missing or older there, and nothing tells.
// What this instance knows is written again, and nothing that has ended.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { Address } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { type Instance, type Population, population } from './redis.fixture.js';
import { sessionOf, socket } from './store.contract.js';

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
const keyOf = async (kind: string): Promise<string> =>
  (await all.keys()).map(({ key }) => key).find((name) => name.includes(`:${kind}:`)) ?? 'none';
const stored = async (): Promise<string[]> => (await server.ask('HGETALL', await keyOf('session'))) as string[];
/** Whoever took over has this instead. */
async function putBack(key: string, fields: readonly string[]): Promise<void> {
  await server.ask('DEL', key);
  if (fields.length > 0) await server.ask('HSET', key, ...fields);
}

describe('a call that is missing there', () => {
  it('is written again by whoever changes it next', async () => {
    const session = call();
    await a.store.create(session);
    await server.ask('DEL', await keyOf('session'));
    const after = next(session, { state: 'RENEGOTIATING' });
    expect(await a.store.replace(session, after)).toEqual({ replaced: true, session: after });
    expect(await b.store.get(session)).toEqual(after);
    expect(a.store.peek(session)).toEqual(after);
    await server.ask('DEL', await keyOf('session'));
    expect(await a.store.delete(after)).toEqual({ deleted: true, session: null });
    expect(await b.store.look(session)).toMatchObject({ session: null, ended: session.callId });
  });

  it('is written again with its indexes and claims, by who was told of it lately', async () => {
    const session = call({ waitsForBoth: true, state: 'AWAITING_REJOIN' });
    const other = call({ conversationId: 'c-2' as Session['conversationId'], callId: 'call-2' });
    await a.store.create(session);
    await a.store.claim(other, 'claim-1');
    await all.flush();
    await a.store.restore('recent');
    expect(await b.store.get(session)).toEqual(session);
    expect(await b.store.awaiting('/', 'a')).toHaveLength(1);
    const seated: string[] = [];
    for await (const { conversationId } of b.store.seatedAt(a.id)) seated.push(conversationId);
    expect(seated).toEqual(['c-1']);
    expect(await b.store.look(other)).toMatchObject({ claimed: true });
  });

  it('is not written again where it was told of longer ago than it is known that a call has ended', async () => {
    const session = call();
    await a.store.create(session);
    await server.ask('DEL', await keyOf('session'));
    a.later(50_000);
    await a.store.restore('recent');
    expect(await b.store.get(session)).toBeNull();
    expect(await a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    expect(await b.store.get(session)).toBeNull();
  });

  it('is written again however long ago, where Redis is known to be empty', async () => {
    const session = call();
    await a.store.create(session);
    await all.flush();
    a.later(3_600_000);
    await a.store.restore();
    expect(await b.store.get(session)).toEqual(session);
  });

  it('is not, once it has ended: nothing of it is left but that', async () => {
    const session = call({ waitsForBoth: true, state: 'AWAITING_REJOIN' });
    await a.store.create(session);
    expect((await b.store.delete(session)).deleted).toBe(true);
    await until(async () => (await all.keys()).length === 1);
    // No word of it came here.
    expect(a.store.peek(session)).toEqual(session);
    a.asked.splice(0);
    expect(await a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    expect(a.asked).toEqual(['replace']);
    const again = await all.instance('a');
    again.store.heard(session, session.callId, session.version, session);
    await again.store.restore('recent');
    await until(async () => (await all.keys()).length === 1);
    expect(await keyOf('ended')).not.toBe('none');
  });

  it('is not, once it was discarded', async () => {
    const session = call();
    await a.store.create(session);
    await b.store.discard(session);
    expect(await a.store.replace(session, next(session))).toEqual({ replaced: false, session: null });
    await a.store.restore();
    expect(await b.store.get(session)).toBeNull();
    expect((await b.store.create(call({ callId: 'call-9' }))).created).toBe(true);
  });
});

describe('two changes of one version', () => {
  it('are told apart: nothing is made of the one that was lost', async () => {
    const session = call();
    await a.store.create(session);
    const [key, old] = [await keyOf('session'), await stored()];
    await b.store.get(session);
    const mine = next(session, { state: 'RENEGOTIATING', offeredBy: 'offerer' });
    await a.store.replace(session, mine);
    await putBack(key, old);
    const theirs = next(session, { state: 'RENEGOTIATING', offeredBy: 'answerer' });
    expect(await b.store.replace(session, theirs)).toMatchObject({ replaced: true });
    expect(await a.store.replace(mine, next(mine))).toEqual({ replaced: false, session: theirs });
    expect(a.store.peek(session)).toEqual(theirs);
    expect(await b.store.delete(mine)).toEqual({ deleted: false, session: theirs });
    expect((await a.store.replace(theirs, next(theirs))).replaced).toBe(true);
  });

  it('what came in a message is what is stored, with bytes and all', async () => {
    const session = call({ state: 'OFFERING', candidates: [{ x: Buffer.from('abc') }, '\ud800', { 2: 1, 1: 2 }] });
    const { keptOffer, ...rest } = session;
    const heard = { ...(JSON.parse(JSON.stringify(rest)) as Session), candidates: session.candidates, keptOffer };
    await a.store.create(session);
    b.store.heard(session, session.callId, session.version, heard);
    b.asked.splice(0);
    expect((await b.store.replace(heard, next(heard))).replaced).toBe(true);
    expect((await a.store.get(session))?.version).toBe(2);
    expect(b.asked.filter((name) => name === 'replace')).toHaveLength(1);
  });
});

describe('the reply of taking a held seat that is late', () => {
  it('tells what was kept for it', async () => {
    const held = call({ held: { answerer: 9_000 } });
    await a.store.create(held);
    const messages = [1, 2].map((arg) => ({ event: 'ice-candidate' as const, arg }));
    for (const message of messages) await a.store.keep(held, 'answerer', message);
    b.fate = (name) => (name === 'replace' ? 'reply-lost' : 'through');
    const taken = next(held, { held: undefined });
    const error = await b.store.replace(held, taken).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Unavailable);
    expect(await (error as Unavailable).late).toEqual({ kept: { answerer: messages } });
    expect(b.store.peek(held)).toEqual(taken);
  });
});

it('a claim that the network brings after its release is void', async () => {
  a.fate = (name) => (name === 'claim' ? 'lost' : 'through');
  const claimed = a.store.claim(call(), '1');
  await until(async () => a.asked.includes('claim'));
  a.store.release(call(), '1');
  await until(async () => a.asked.includes('release'));
  a.fate = () => 'through';
  expect(await claimed).toBeNull();
  for (const answer of await a.deliverLost()) expect(answer).toEqual(['void']);
  expect(await b.store.look(call())).toMatchObject({ claimed: false });
  expect(await a.store.claim(call(), '2')).toBeNull();
  expect(await b.store.look(call())).toMatchObject({ claimed: true });
});
