// The Redis driver against the contract, and what it promises where several instances share one: over every Redis that is at hand.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { until } from '../../test/redis/cluster.js';
import { redisPlaces, type StartedPlace } from '../../test/redis/places.js';
import type { Address, ConversationId, Namespace, UserId } from '../base/ids.js';
import type { CallKey, Session } from '../call/session.js';
import { type Instance, type Population, population } from './redis.fixture.js';
import { describeSessionStore, HERE, listed, sessionOf, socket } from './store.contract.js';

describe.each(await redisPlaces())('over $name', ({ start }) => {
  let place: StartedPlace;
  beforeAll(async () => {
    place = await start();
    // Docker may have to fetch the image first.
  }, 180_000);
  afterAll(() => place.close());

  describe('one instance', () => {
    let alone: Population;
    describeSessionStore('redis', async () => {
      alone = await population(place);
      return (await alone.instance(HERE)).store;
    });
    afterEach(() => alone.close());
  });

  describe('several instances', () => {
    let all: Population;
    let a: Instance;
    let b: Instance;
    let c: Instance;
    beforeEach(async () => {
      all = await population(place);
      [a, b, c] = (await Promise.all(['a', 'b', 'c'].map((name) => all.instance(name)))) as [
        Instance,
        Instance,
        Instance,
      ];
    });
    afterEach(() => all.close());

    const at = (name: string) => name as Address;
    /** A call between a user on `a` and one on `b`. */
    const call = (change: Partial<Session> = {}): Session =>
      sessionOf({ seats: { offerer: socket('a1', 1, at('a')), answerer: socket('b1', 2, at('b')) }, ...change });
    const next = (session: Session, change: Partial<Session> = {}): Session => ({
      ...session,
      version: session.version + 1,
      ...change,
    });
    const keysOf = async (found: AsyncIterable<CallKey> | Iterable<CallKey>): Promise<string[]> => {
      const keys: string[] = [];
      for await (const { conversationId } of found) keys.push(conversationId);
      return keys.sort();
    };

    it('reads on each what one has written', async () => {
      const session = call();
      await a.store.create(session);
      expect(await b.store.get(session)).toEqual(session);
      expect(await c.store.look(session)).toEqual({ session, claimed: false, ended: null });
      const after = next(session, { state: 'RENEGOTIATING' });
      expect(await b.store.replace(session, after)).toEqual({ replaced: true, session: after });
      expect(await a.store.delete(session)).toEqual({ deleted: false, session: after });
      expect(await a.store.delete(after)).toEqual({ deleted: true, session: null });
      expect(await b.store.get(session)).toBeNull();
    });

    it('lets one of all that create at once in, and tells the others which', async () => {
      const answers = await Promise.all(
        [a, b, c].flatMap(({ store }, i) =>
          Array.from({ length: 5 }, (_, n) => store.create(call({ callId: `call-${i}-${n}` }))),
        ),
      );
      const [winner, ...more] = answers.filter(({ created }) => created);
      expect(more).toEqual([]);
      for (const { session } of answers) expect(session).toEqual(winner?.session);
    });

    it('loses no change of many that are made at once on all', async () => {
      const conversations = ['x', 'y'].map((id) => call({ conversationId: id as ConversationId, callId: id }));
      for (const session of conversations) await a.store.create(session);
      const changes = 12;
      await Promise.all(
        [a, b, c].flatMap(({ store }) =>
          conversations.map(async (key) => {
            for (let made = 0; made < changes; ) {
              const before = store.peek(key) ?? (await store.get(key));
              if (!before) throw new Error('the call is gone');
              const { replaced } = await store.replace(before, next(before, { since: before.since + 1 }));
              if (replaced) made += 1;
            }
          }),
        ),
      );
      for (const key of conversations) {
        expect(await c.store.get(key)).toMatchObject({ version: 1 + 3 * changes, since: 1 + 3 * changes });
      }
    });

    describe('what an instance knows without asking', () => {
      it('is the calls with a seat there, while it may act', async () => {
        const session = call();
        await a.store.create(session);
        expect(a.store.peek(session)).toBe(session);
        expect(b.store.peek(session)).toBeUndefined();
        await b.store.get(session);
        expect(b.store.peek(session)).toEqual(session);
        await c.store.get(session);
        expect(c.store.peek(session)).toBeUndefined();
        a.mayAct = false;
        expect(a.store.peek(session)).toBeUndefined();
        a.mayAct = true;
        expect(a.store.peek(session)).toBe(session);
      });

      it('follows the seats', async () => {
        const session = call();
        await a.store.create(session);
        const moved = next(session, { seats: { ...session.seats, offerer: socket('c1', 3, at('c')) } });
        await c.store.replace(session, moved);
        expect(c.store.peek(session)).toBe(moved);
        a.store.heard(session, session.callId, moved.version, moved);
        expect(a.store.peek(session)).toBeUndefined();
        expect(await a.store.bySocket(session.seats.offerer)).toEqual([]);
        expect(await c.store.bySocket(moved.seats.offerer)).toEqual([moved]);
        expect(a.store.knownOf('/', 'a')).toEqual([]);
      });

      it('is the newest of what it hears, in whatever order that comes', async () => {
        const session = call();
        await a.store.create(session);
        const [second, third] = [next(session), next(next(session))];
        a.store.heard(session, session.callId, 3, third);
        a.store.heard(session, session.callId, 2, second);
        expect(a.store.peek(session)).toEqual(third);
        a.store.heard(session, session.callId, 4, null);
        a.store.heard(session, session.callId, 3, third);
        expect(a.store.peek(session)).toBeUndefined();
        expect(a.store.knownOf('/', 'a')).toEqual([]);
      });

      it('is asked for where it only hears that something has changed', async () => {
        const session = call();
        await a.store.create(session);
        const after = next(session, { state: 'AWAITING_REJOIN' });
        await b.store.replace(session, after);
        a.store.heard(session, session.callId, 2, undefined);
        expect(a.store.peek(session)).toBeUndefined();
        expect(a.store.knownOf('/', 'a')).toHaveLength(1);
        expect(await a.store.bySocket(session.seats.offerer)).toEqual([after]);
        expect(a.store.peek(session)).toEqual(after);
        a.store.heard(session, session.callId, 2, undefined);
        expect(a.store.peek(session)).toEqual(after);
      });

      it('is also an offer that rings there, until that is over', async () => {
        const offered = call({ state: 'OFFERING', seats: { offerer: socket('a1', 1, at('a')), answerer: null } });
        await a.store.create(offered);
        b.store.heard(offered, offered.callId, 1, offered);
        expect(b.store.peek(offered)).toEqual(offered);
        expect(await b.store.count()).toMatchObject({ OFFERING: 0 });
        expect(b.store.knownOf('/', 'a')).toEqual([]);
        const answered = next(offered, {
          state: 'CONNECTED',
          seats: { ...offered.seats, answerer: socket('c1', 3, at('c')) },
        });
        b.store.heard(offered, offered.callId, 2, answered);
        expect(b.store.peek(offered)).toBeUndefined();
      });

      it('takes nothing that is no session from a message', async () => {
        const session = call();
        const odd = [
          { ...session, state: 'LOUD' },
          { ...session, seats: null },
          { ...session, callId: 'other' },
          7,
          'x',
        ];
        for (const one of odd) a.store.heard(session, session.callId, 9, one as unknown as Session);
        expect(a.store.peek(session)).toBeUndefined();
      });

      it('counts each call on one instance', async () => {
        for (let i = 0; i < 6; i++)
          await a.store.create(call({ conversationId: `c-${i}` as ConversationId, callId: `c-${i}` }));
        for await (const session of b.store.all()) await b.store.get(session);
        const counts = await Promise.all([a, b, c].map(({ store }) => store.count()));
        expect(counts.map(({ CONNECTED }) => CONNECTED)).toEqual([6, 0, 0]);
      });
    });

    describe('calls of the legacy', () => {
      const key = call();
      it('keep the offers of others from the new path, until they are over', async () => {
        expect(await a.store.claim(key, '1')).toBeNull();
        expect(await b.store.look(key)).toEqual({ session: null, claimed: true, ended: null });
        expect(await b.store.create(call())).toEqual({ created: false, session: null, claimed: true });
        a.store.release(key, '1');
        await until(async () => !(await b.store.look(key)).claimed);
        expect((await b.store.create(call())).created).toBe(true);
      });

      it('are not claimed where the new path has the call, which is answered', async () => {
        await b.store.create(call());
        expect(await a.store.claim(key, '1')).toEqual(call());
        await b.store.delete(call());
        expect(await c.store.look(key)).toMatchObject({ claimed: false });
      });

      it('do not keep the own instance, nor stand in the way when their instance is dead', async () => {
        await a.store.claim(key, '1');
        await b.store.claim(key, '2');
        expect(await c.store.create(call())).toMatchObject({ created: false, claimed: true });
        all.kill(b);
        expect(await a.store.look(key)).toMatchObject({ claimed: false });
        expect(await c.store.create(call())).toMatchObject({ created: false, claimed: true });
        expect((await a.store.create(call())).created).toBe(true);
      });

      it('are released by who claimed them, and not for a later claim', async () => {
        await a.store.claim(key, '1');
        await a.store.claim(key, '2');
        a.store.release(key, '1');
        b.store.release(key, '2');
        await a.store.get(key);
        await b.store.get(key);
        expect(await c.store.look(key)).toMatchObject({ claimed: true });
      });
    });

    it('knows on each that a call has ended a moment ago', async () => {
      const session = call();
      await a.store.create(session);
      await a.store.delete(session);
      expect(await b.store.look(session)).toEqual({ session: null, claimed: false, ended: session.callId });
      const later = call({ callId: 'call-2' });
      expect((await b.store.create(later)).created).toBe(true);
      expect(await c.store.look(session)).toEqual({ session: later, claimed: false, ended: session.callId });
    });

    it('finds the calls that wait for a user, from any instance', async () => {
      const both = call({ conversationId: 'both' as ConversationId, callId: '1', waitsForBoth: true });
      const held = call({ conversationId: 'held' as ConversationId, callId: '2' });
      const other = call({ conversationId: 'other' as ConversationId, callId: '3' });
      for (const session of [both, held, other]) await a.store.create(session);
      const holding = next(held, { held: { answerer: 9_000 } });
      await a.store.replace(held, holding);
      const ids = async (user: string) => (await c.store.awaiting('/', user)).map(({ callId }) => callId).sort();
      expect(await ids('a')).toEqual(['1']);
      expect(await ids('b')).toEqual(['1', '2']);
      expect(await c.store.awaiting('/other', 'b')).toEqual([]);
      const taken = next(holding, { held: undefined });
      await c.store.replace(holding, taken);
      expect(await ids('b')).toEqual(['1']);
      await c.store.delete(both);
      expect(await ids('b')).toEqual([]);
      const again = next(taken, { held: { answerer: 9_000 } });
      await c.store.replace(taken, again);
      expect(await ids('b')).toEqual(['2']);
    });

    it('finds what a life of an instance had a seat in, once that is dead', async () => {
      const one = call({ conversationId: 'one' as ConversationId, callId: '1' });
      const two = call({
        ...{ conversationId: 'two' as ConversationId, callId: '2' },
        seats: { offerer: socket('a2', 5, at('a')), answerer: null },
      });
      await a.store.create(one);
      await a.store.create(two);
      await b.store.replace(one, next(one));
      expect(await keysOf(c.store.seatedAt(a.id))).toEqual(['one', 'two']);
      expect(await keysOf(c.store.seatedAt(b.id))).toEqual(['one']);
      const was = a.id;
      a.life = 2;
      await a.store.replace(two, next(two));
      expect(await keysOf(c.store.seatedAt(a.id))).toEqual(['two']);
      await c.store.forget(was);
      expect(await keysOf(c.store.seatedAt(was))).toEqual([]);
      expect(await keysOf(c.store.seatedAt(a.id))).toEqual(['two']);
    });

    it('finds what is due when it is, on any instance, and what was put off when that is', async () => {
      const session = call({ since: 1_000 });
      await a.store.create(session);
      expect(await keysOf(b.store.due(60_999))).toEqual([]);
      expect(await keysOf(b.store.due(61_000))).toEqual(['c-1']);
      const later = next(session, { since: 50_000 });
      await b.store.replace(session, later);
      expect(await keysOf(c.store.due(61_000))).toEqual([]);
      expect(await keysOf(c.store.due(110_000))).toEqual(['c-1']);
      const sooner = next(later, { since: 2_000 });
      await b.store.replace(later, sooner);
      expect(await keysOf(c.store.due(62_000))).toEqual(['c-1']);
      await b.store.delete(sooner);
      await until(async () => (await keysOf(c.store.due(1_000_000))).length === 0);
    });

    it('finds all of many that are due, and lists all of them', async () => {
      const many = Array.from({ length: 700 }, (_, i) =>
        call({ conversationId: `m-${i}` as ConversationId, callId: `m-${i}` }),
      );
      await Promise.all(many.map((session) => a.store.create(session)));
      const ids = many.map(({ conversationId }) => conversationId).sort();
      expect(await keysOf(b.store.due(1_000_000))).toEqual(ids);
      expect((await listed(c.store)).map(({ conversationId }) => conversationId).sort()).toEqual(ids);
      expect((await keysOf(b.store.seatedAt(a.id))).length).toBe(700);
    });

    describe('what waits for a held seat', () => {
      const ring = (n: number) => ({ event: 'ice-candidate' as const, arg: { n } });
      const held = call({ held: { answerer: 9_000, offerer: 9_000 } });

      it('is given to who takes the seat, in order, once', async () => {
        await a.store.create(held);
        for (let n = 0; n < 3; n++) await a.store.keep(held, 'answerer', ring(n));
        await b.store.keep(held, 'offerer', { event: 'call-renegotiate-offer', arg: { offer: Buffer.from('x\n') } });
        const taken = next(held, { held: { offerer: 9_000 } });
        expect(await c.store.replace(held, taken)).toEqual({
          replaced: true,
          session: taken,
          kept: { answerer: [ring(0), ring(1), ring(2)] },
        });
        expect(await c.store.keep(taken, 'answerer', ring(3))).toEqual({ kept: false, session: taken });
        const both = next(taken, { held: undefined });
        expect(await c.store.replace(taken, both)).toMatchObject({
          kept: { offerer: [{ event: 'call-renegotiate-offer', arg: { offer: Buffer.from('x\n') } }] },
        });
      });

      it('is at most 256 messages and 1 MiB, of which the oldest go', async () => {
        await a.store.create(held);
        for (let n = 0; n < 300; n++) void a.store.keep(held, 'answerer', ring(n));
        await a.store.keep(held, 'answerer', ring(300));
        for (let n = 0; n < 6; n++)
          await a.store.keep(held, 'offerer', { event: 'call-offer', arg: `${n}${'x'.repeat(300_000)}` });
        const { kept } = await b.store.replace(held, next(held, { held: undefined }));
        expect(kept?.answerer).toEqual(Array.from({ length: 256 }, (_, i) => ring(45 + i)));
        expect(kept?.offerer?.map(({ arg }) => String(arg)[0])).toEqual(['3', '4', '5']);
      });

      it('is not kept where the call is over, or another', async () => {
        await a.store.create(held);
        await a.store.delete(held);
        expect(await b.store.keep(held, 'answerer', ring(0))).toEqual({ kept: false, session: null });
        const other = call({ ...held, callId: 'call-2' });
        await a.store.create(other);
        expect(await b.store.keep(held, 'answerer', ring(0))).toEqual({ kept: false, session: other });
      });
    });

    it('gives every key a time to live, and leaves none behind', async () => {
      const wants = ['session', 'seats', 'due', 'claim', 'awaiting', 'kept-o', 'given', 'ended', 'void'];
      const seen = new Set<string>();
      const look = async (): Promise<void> => {
        for (const { key, ttl } of await all.keys()) {
          expect(ttl, key).toBeGreaterThan(0);
          expect(ttl, key).toBeLessThanOrEqual(7 * 3_600_000);
          seen.add(key.split(':')[1] ?? '');
        }
      };
      const held = call({ held: { offerer: 9_000 } });
      await a.store.create(held);
      await b.store.keep(held, 'offerer', { event: 'call-ended', arg: 1 });
      const key = { ns: '/' as Namespace, conversationId: 'l' as ConversationId };
      await a.store.claim(key, '1');
      a.fate = (name) => (name === 'create' ? 'lost' : 'through');
      const late = await a.store.create(call({ conversationId: 'v' as ConversationId })).catch((error) => error.late);
      a.fate = () => 'through';
      expect(await late).toBe(false);
      await look();
      const taken = next(held, { held: undefined });
      await b.store.replace(held, taken);
      await look();
      await b.store.delete(taken);
      a.store.release(key, '1');
      await look();
      expect([...seen].sort()).toEqual([...wants].sort());
      // What is left says for a while that something is over.
      await until(async () => (await all.keys()).every(({ key: name }) => /^[^:]+:(ended|void|given|due):/.test(name)));
      expect((await all.keys()).filter(({ key: name }) => name.includes(':due:')).length).toBeLessThanOrEqual(1);
    });

    it('has a seat that another was quicker to take in the index of nobody else, at once', async () => {
      const offered = call({ state: 'OFFERING', seats: { offerer: socket('a1', 1, at('a')), answerer: null } });
      await a.store.create(offered);
      const answers = [b, c].map(({ store, address }, i) =>
        store.replace(
          offered,
          next(offered, {
            state: 'CONNECTED',
            seats: { ...offered.seats, answerer: socket('b1', 2 + i, address) },
          }),
        ),
      );
      const won = (await Promise.all(answers)).map(({ replaced }) => replaced);
      expect(won.filter(Boolean)).toHaveLength(1);
      const seated = () => Promise.all([a, b, c].map(async ({ store, id }) => keysOf(store.seatedAt(id))));
      const conversation = [offered.conversationId];
      await expect
        .poll(seated, { timeout: 2_000 })
        .toEqual([conversation, won[0] ? conversation : [], won[1] ? conversation : []]);
    });

    it('has a call that is over in no index, though somebody was about to change it', async () => {
      const offered = call({ state: 'OFFERING', seats: { offerer: socket('a1', 1, at('a')), answerer: null } });
      await a.store.create(offered);
      await b.store.get(offered);
      await a.store.delete(offered);
      const answered = next(offered, {
        state: 'CONNECTED',
        since: offered.since - 60_000,
        seats: { ...offered.seats, answerer: socket('b1', 2, at('b')) },
      });
      expect(await b.store.replace(offered, answered)).toEqual({ replaced: false, session: null });
      const left = async () => (await all.keys()).map(({ key }) => key).filter((key) => /:(seats|due):/.test(key));
      await expect.poll(left, { timeout: 2_000 }).toEqual([]);
    });

    describe('after a loss', () => {
      it('writes again what it knows, where that is absent or older', async () => {
        const [one, two, three] = ['one', 'two', 'three'].map((id) =>
          call({
            conversationId: id as ConversationId,
            callId: id,
            users: { offerer: 'a' as UserId, answerer: 'b' as UserId },
          }),
        ) as [Session, Session, Session];
        for (const session of [one, two, three]) await a.store.create(session);
        await b.store.get(two);
        const newer = next(two, { state: 'RENEGOTIATING' });
        await b.store.replace(two, newer);
        await b.store.get(three);
        const key = { ns: '/' as Namespace, conversationId: 'l' as ConversationId };
        await a.store.claim(key, '1');
        await all.flush();
        expect(await c.store.get(one)).toBeNull();
        await b.store.restore();
        // It ended after the loss: what another still knows of it does not bring it back.
        await b.store.delete(three);
        await a.store.restore();
        expect(await c.store.get(one)).toEqual(one);
        expect(await c.store.get(two)).toEqual(newer);
        expect(await c.store.get(three)).toBeNull();
        expect(await c.store.look(key)).toMatchObject({ claimed: true });
        expect(await keysOf(c.store.seatedAt(a.id))).toContain('one');
        expect(await keysOf(c.store.due(1_000_000))).toEqual(['one', 'two']);
        expect((await c.store.replace(one, next(one))).replaced).toBe(true);
      });

      it('of its lease knows nothing any more, and claims again under its new life', async () => {
        const session = call();
        const key = { ns: '/' as Namespace, conversationId: 'l' as ConversationId };
        await a.store.create(session);
        await a.store.claim(key, '1');
        a.life = 2;
        expect(await c.store.look(key)).toMatchObject({ claimed: false });
        a.store.drop();
        await a.store.restore();
        expect(a.store.peek(session)).toBeUndefined();
        expect(await a.store.bySocket(session.seats.offerer)).toEqual([]);
        expect(await a.store.count()).toMatchObject({ CONNECTED: 0 });
        expect(await c.store.look(key)).toMatchObject({ claimed: true });
      });
    });
  });
});
