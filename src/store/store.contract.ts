// What every session store must do, whatever it keeps sessions in: run over each driver by its own test file.
// Knows no driver, and of a session only its key, version, seats, users and state.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Address, ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Session, State } from '../call/session.js';
import type { DueAt, SessionStore } from './store.js';

/** When the calls of the suite are due. */
export const dueAfterAMinute: DueAt = (session) => session.since + 60_000;

/** Runs the suite; `make` gives an empty store for each case, with `dueAfterAMinute`, which the suite closes. */
export function describeSessionStore(name: string, make: () => Promise<SessionStore> | SessionStore): void {
  describe(`session store: ${name}`, () => {
    let store: SessionStore;
    beforeEach(async () => {
      store = await make();
    });
    afterEach(() => store.close());

    describe('create', () => {
      it('stores a session and gives it back as it was', async () => {
        const session = sessionOf();
        expect(await store.create(session)).toEqual({ created: true, session, claimed: false });
        expect(await store.get(session)).toEqual(session);
      });

      it('keeps every field, also odd payloads and a waiting offer', async () => {
        const session = sessionOf({
          state: 'OFFERING',
          rejoining: true,
          waitsForBoth: true,
          offeredBy: 'answerer',
          lost: { offerer: 'legacy' },
          candidates: [null, 'c', { candidate: 'candidate:1', sdpMid: '' }, [1, 2], false],
          keptOffer: { type: 'offer', sdp: 'v=0\r\n\u2028 ✓' },
        });
        await store.create(session);
        expect(await store.get(session)).toEqual(session);
      });

      it('keeps bytes, and what only looks like them', async () => {
        const session = sessionOf({
          state: 'OFFERING',
          candidates: [
            { file: Buffer.from([0, 255, 10]), more: [new Uint8Array([1, 2]), { deep: Buffer.alloc(0) }] },
            { type: 'Buffer', data: [1, 2] },
            'plain',
          ],
          keptOffer: Buffer.from('offer'),
        });
        await store.create(session);
        const stored = await store.get(session);
        expect(bytes(stored?.candidates)).toEqual(bytes(session.candidates));
        expect(bytes(stored?.keptOffer)).toEqual(bytes(session.keptOffer));
        const after = { ...session, version: 2, candidates: [Buffer.from('x')], keptOffer: null };
        await store.replace(session, after);
        expect(bytes((await store.get(session))?.candidates)).toEqual(bytes(after.candidates));
      });

      it('never overwrites: the one that is in force is answered', async () => {
        const first = sessionOf();
        const second = sessionOf({ callId: 'call-2', users: users('d', 'e') });
        await store.create(first);
        expect(await store.create(second)).toEqual({ created: false, session: first, claimed: false });
        expect(await store.get(first)).toEqual(first);
        expect(await store.knownOf('/', 'd')).toEqual([]);
      });

      it('lets exactly one of many at once in, and tells all the others which', async () => {
        const tries = Array.from({ length: 20 }, (_, i) => sessionOf({ callId: `call-${i}` }));
        const answers = await Promise.all(tries.map((session) => store.create(session)));
        const winners = answers.filter(({ created }) => created);
        expect(winners).toHaveLength(1);
        for (const { session } of answers) expect(session).toEqual(winners[0]?.session);
      });

      it('keeps the same conversation of two namespaces apart', async () => {
        const one = sessionOf();
        const two = sessionOf({ ns: '/other' as Namespace, callId: 'call-2' });
        await store.create(one);
        expect(await store.create(two)).toEqual({ created: true, session: two, claimed: false });
        expect(await store.get(one)).toEqual(one);
        expect(await store.get(two)).toEqual(two);
      });

      it.each([
        ['/a', 'b,c', '/a,b', 'c'],
        ['/a', '":b', '/a"', ':b'],
        ['/', ' ', '/ ', ''],
        ['/', '{x}', '/{x}', ''],
        ['/', '__proto__', '/__proto__', ''],
      ])('keeps %j %j and %j %j apart', async (ns1, c1, ns2, c2) => {
        const one = sessionOf({ ns: ns1 as Namespace, conversationId: c1 as ConversationId });
        const two = sessionOf({ ns: ns2 as Namespace, conversationId: c2 as ConversationId });
        await store.create(one);
        expect((await store.create(two)).created).toBe(true);
        expect(await store.get(one)).toEqual(one);
      });
    });

    describe('replace', () => {
      it('puts the changed session in the place of the one it came from', async () => {
        const before = sessionOf();
        const after = { ...before, version: 2, state: 'RENEGOTIATING' as const };
        await store.create(before);
        expect(await store.replace(before, after)).toEqual({ replaced: true, session: after });
        expect(await store.get(before)).toEqual(after);
      });

      it('refuses a change of what has changed since, and answers what is in force', async () => {
        const before = sessionOf();
        const first = { ...before, version: 2, state: 'RENEGOTIATING' as const };
        await store.create(before);
        await store.replace(before, first);
        const late = { ...before, version: 2, state: 'AWAITING_REJOIN' as const };
        expect(await store.replace(before, late)).toEqual({ replaced: false, session: first });
        expect(await store.get(before)).toEqual(first);
      });

      it('answers null where the call has ended', async () => {
        const before = sessionOf();
        await store.create(before);
        await store.delete(before);
        expect(await store.replace(before, { ...before, version: 2 })).toEqual({ replaced: false, session: null });
        expect(await store.get(before)).toBeNull();
      });

      it('never changes a later call of the same conversation, though the versions agree', async () => {
        const before = sessionOf();
        const later = sessionOf({ callId: 'call-2' });
        await store.create(before);
        await store.delete(before);
        await store.create(later);
        expect(await store.replace(before, { ...before, version: 2 })).toEqual({ replaced: false, session: later });
      });

      it('lets exactly one of many at once through', async () => {
        const before = sessionOf();
        await store.create(before);
        const answers = await Promise.all(
          Array.from({ length: 20 }, (_, i) => store.replace(before, { ...before, version: 2, since: i })),
        );
        const winners = answers.filter(({ replaced }) => replaced);
        expect(winners).toHaveLength(1);
        for (const { session } of answers) expect(session).toEqual(winners[0]?.session);
      });
    });

    describe('delete', () => {
      it('forgets the session everywhere', async () => {
        const session = sessionOf();
        await store.create(session);
        expect(await store.delete(session)).toEqual({ deleted: true, session: null });
        expect(await store.get(session)).toBeNull();
        expect(await store.bySocket(socket('a1'))).toEqual([]);
        expect(await store.knownOf('/', 'a')).toEqual([]);
        expect(await listed(store)).toEqual([]);
        expect(await store.count()).toEqual(counted({}));
      });

      it('refuses to end what has changed since, and answers what is in force', async () => {
        const before = sessionOf();
        const after = { ...before, version: 2 };
        await store.create(before);
        await store.replace(before, after);
        expect(await store.delete(before)).toEqual({ deleted: false, session: after });
        expect(await store.get(before)).toEqual(after);
      });

      it('says that a second end came too late', async () => {
        const session = sessionOf();
        await store.create(session);
        await store.delete(session);
        expect(await store.delete(session)).toEqual({ deleted: false, session: null });
        expect(await store.count()).toEqual(counted({}));
      });

      it('never ends a later call of the same conversation', async () => {
        const before = sessionOf();
        const later = sessionOf({ callId: 'call-2' });
        await store.create(before);
        await store.delete(before);
        await store.create(later);
        expect(await store.delete(before)).toEqual({ deleted: false, session: later });
        expect(await store.get(later)).toEqual(later);
      });
    });

    describe('peek', () => {
      it('is never wrong: what it knows is what is stored', async () => {
        const session = sessionOf();
        expect(store.peek(session) ?? null).toBeNull();
        await store.create(session);
        expect([session, undefined]).toContainEqual(store.peek(session));
        await store.delete(session);
        expect(store.peek(session) ?? null).toBeNull();
      });
    });

    describe('who has a conversation', () => {
      it('is the new path where it has a session, otherwise nobody', async () => {
        const session = sessionOf();
        expect(await store.look(session)).toEqual({ session: null, claimed: false, ended: null });
        await store.create(session);
        expect(await store.look(session)).toEqual({ session, claimed: false, ended: null });
        await store.delete(session);
        expect(await store.look(session)).toMatchObject({ session: null, claimed: false });
      });

      it('is the session, for who would give the call to the legacy', async () => {
        const session = sessionOf();
        expect(await store.claim(session, '1')).toBeNull();
        // One's own claim is no hindrance.
        expect((await store.create(session)).created).toBe(true);
        expect(await store.claim(session, '2')).toEqual(session);
        store.release(session, '1');
        expect(await store.get(session)).toEqual(session);
      });
    });

    it('discards what stands there, whatever it is', async () => {
      const session = sessionOf();
      await store.create(session);
      await store.discard(session);
      expect(store.peek(session) ?? null).toBeNull();
      expect(await store.get(session)).toBeNull();
      expect(await store.bySocket(socket('a1'))).toEqual([]);
      expect(await store.count()).toEqual(counted({}));
      await store.discard(session);
      expect((await store.create(session)).created).toBe(true);
    });

    it('finds calls that wait for both of their users, by either', async () => {
      const before = sessionOf();
      const waits = { ...before, version: 2, waitsForBoth: true as const };
      await store.create(before);
      expect(await store.awaiting('/', 'a')).toEqual([]);
      await store.replace(before, waits);
      for (const user of ['a', 'b']) expect(await store.awaiting('/', user)).toEqual([waits]);
      expect(await store.awaiting('/', 'c')).toEqual([]);
      expect(await store.awaiting('/other', 'a')).toEqual([]);
      const after = { ...before, version: 3 };
      await store.replace(waits, after);
      expect(await store.awaiting('/', 'a')).toEqual([]);
    });

    it('finds calls whose time has come, a minute after they entered their state', async () => {
      const due = async (now: number): Promise<string[]> => {
        const keys: string[] = [];
        for await (const { conversationId } of store.due(now)) keys.push(conversationId);
        return keys.sort();
      };
      const one = sessionOf({ since: 1_000 });
      await store.create(one);
      await store.create(sessionOf({ conversationId: 'c-2' as ConversationId, since: 5_000 }));
      expect(await due(60_999)).toEqual([]);
      expect(await due(61_000)).toEqual(['c-1']);
      expect(await due(65_000)).toEqual(['c-1', 'c-2']);
      await store.replace(one, { ...one, version: 2, since: 10_000 });
      expect(await due(65_000)).toEqual(['c-2']);
      expect(await due(70_000)).toEqual(['c-1', 'c-2']);
    });

    describe('by socket', () => {
      it('finds a call by either seat, and none by another socket', async () => {
        const session = sessionOf();
        await store.create(session);
        expect(await store.bySocket(socket('a1'))).toEqual([session]);
        expect(await store.bySocket(socket('b1', 2))).toEqual([session]);
        expect(await store.bySocket(socket('x1'))).toEqual([]);
      });

      it('tells the connections and the namespaces of one id apart', async () => {
        await store.create(sessionOf());
        expect(await store.bySocket(socket('a1', 99))).toEqual([]);
        expect(await store.bySocket({ ...socket('a1'), ns: '/other' as Namespace })).toEqual([]);
      });

      it('follows a seat to its new socket and forgets the old one', async () => {
        const before = sessionOf();
        const after = { ...before, version: 2, seats: { ...before.seats, offerer: socket('a2', 3) } };
        await store.create(before);
        await store.replace(before, after);
        expect(await store.bySocket(socket('a1'))).toEqual([]);
        expect(await store.bySocket(socket('a2', 3))).toEqual([after]);
        expect(await store.bySocket(socket('b1', 2))).toEqual([after]);
      });

      it('keeps a seat that was lost: the socket held it last', async () => {
        const session = sessionOf({ state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } });
        await store.create(session);
        expect(await store.bySocket(socket('a1'))).toEqual([session]);
      });

      it('finds every call of a socket that holds several seats', async () => {
        const one = sessionOf();
        const two = sessionOf({ conversationId: 'c-2' as ConversationId, callId: 'call-2', users: users('c', 'a') });
        await store.create(one);
        await store.create({ ...two, seats: { offerer: socket('c1', 4), answerer: socket('a1') } });
        expect((await store.bySocket(socket('a1'))).map(({ callId }) => callId).sort()).toEqual(['call-1', 'call-2']);
      });

      it('takes an answerer without a seat', async () => {
        const before = sessionOf({ state: 'OFFERING', seats: { offerer: socket('a1'), answerer: null } });
        await store.create(before);
        expect(await store.bySocket(socket('a1'))).toEqual([before]);
        const after = { ...before, version: 2, seats: { ...before.seats, answerer: socket('b9', 9) } };
        await store.replace(before, after);
        expect(await store.bySocket(socket('b9', 9))).toEqual([after]);
      });
    });

    describe('by user', () => {
      it('finds the calls of a user in either role, within a namespace', async () => {
        const one = sessionOf();
        const two = sessionOf({ conversationId: 'c-2' as ConversationId, callId: 'call-2', users: users('c', 'a') });
        await store.create(one);
        await store.create(two);
        expect((await store.knownOf('/', 'a')).map(({ callId }) => callId).sort()).toEqual(['call-1', 'call-2']);
        expect(await store.knownOf('/', 'b')).toEqual([one]);
        expect(await store.knownOf('/other', 'a')).toEqual([]);
        await store.delete(one);
        expect(await store.knownOf('/', 'a')).toEqual([two]);
        expect(await store.knownOf('/', 'b')).toEqual([]);
      });

      it('answers the session as it is now', async () => {
        const before = sessionOf();
        const after = { ...before, version: 2, since: 9 };
        await store.create(before);
        await store.replace(before, after);
        expect(await store.knownOf('/', 'b')).toEqual([after]);
      });
    });

    describe('all and count', () => {
      it('lists every live session once and counts them by state', async () => {
        const states: State[] = ['OFFERING', 'CONNECTED', 'CONNECTED', 'RENEGOTIATING', 'AWAITING_REJOIN'];
        const sessions = states.map((state, i) => sessionOf({ state, conversationId: `c-${i}` as ConversationId }));
        for (const session of sessions) await store.create(session);
        expect((await listed(store)).map(({ conversationId }) => conversationId).sort()).toEqual(
          sessions.map(({ conversationId }) => conversationId),
        );
        expect(await store.count()).toEqual({ OFFERING: 1, CONNECTED: 2, RENEGOTIATING: 1, AWAITING_REJOIN: 1 });
      });

      it('counts a session in the state it went to, and not at all once it is gone', async () => {
        const before = sessionOf();
        const after = { ...before, version: 2, state: 'RENEGOTIATING' as const };
        await store.create(before);
        await store.replace(before, after);
        await store.replace(before, { ...before, version: 2 });
        await store.create(before);
        expect(await store.count()).toEqual(counted({ RENEGOTIATING: 1 }));
        await store.delete(before);
        expect(await store.count()).toEqual(counted({ RENEGOTIATING: 1 }));
        await store.delete(after);
        expect(await store.count()).toEqual(counted({}));
      });

      it('lets the reaper end calls while it walks them', async () => {
        for (let i = 0; i < 10; i++) await store.create(sessionOf({ conversationId: `c-${i}` as ConversationId }));
        let walked = 0;
        for await (const session of store.all()) {
          walked += 1;
          await store.delete(session);
        }
        expect(walked).toBe(10);
        expect(await store.count()).toEqual(counted({}));
      });
    });

    it('keeps its indexes right through a long, mixed history', async () => {
      const live = new Map<string, Session>();
      for (let i = 0; i < 300; i++) {
        const conversationId = `c-${i % 7}` as ConversationId;
        const current = live.get(conversationId);
        if (!current) {
          const session = sessionOf({ conversationId, callId: `call-${i}`, users: users(`u${i % 3}`, `v${i % 5}`) });
          await store.create(session);
          live.set(conversationId, session);
        } else if (i % 11 === 0) {
          await store.delete(current);
          live.delete(conversationId);
        } else {
          const seats = { ...current.seats, answerer: socket(`s${i % 4}`, i % 2) };
          const after = { ...current, version: current.version + 1, seats };
          await store.replace(current, after);
          live.set(conversationId, after);
        }
      }
      const sessions = [...live.values()];
      const ids = (found: readonly Session[]) => found.map(({ callId }) => callId).sort();
      expect(ids(await listed(store))).toEqual(ids(sessions));
      for (const user of ['u0', 'u1', 'u2', 'v0', 'v1', 'v2', 'v3', 'v4']) {
        const own = sessions.filter((s) => s.users.offerer === user || s.users.answerer === user);
        expect(ids(await store.knownOf('/', user))).toEqual(ids(own));
      }
      for (let n = 0; n < 8; n++) {
        const ref = socket(`s${n % 4}`, n % 2);
        const own = sessions.filter((s) => s.seats.answerer?.id === ref.id && s.seats.answerer.connection === n % 2);
        expect(ids(await store.bySocket(ref))).toEqual(ids(own));
      }
      expect(await store.count()).toEqual(counted({ CONNECTED: sessions.length }));
    });
  });
}

/** Where the sockets of these sessions are: the store's own address. A store of one instance does not look at it. */
export const HERE = 'here' as Address;

export const socket = (id: string, connection = 1, at: Address = HERE): SocketRef => ({
  ns: '/' as Namespace,
  id: id as SocketId,
  connection: connection as ConnectionNumber,
  at,
});

export const users = (offerer: string, answerer: string): Session['users'] => ({
  offerer: offerer as UserId,
  answerer: answerer as UserId,
});

export const sessionOf = (change: Partial<Session> = {}): Session => ({
  ns: '/' as Namespace,
  conversationId: 'c-1' as ConversationId,
  callId: 'call-1',
  version: 1,
  state: 'CONNECTED',
  createdAt: 1,
  since: 1,
  users: users('a', 'b'),
  seats: { offerer: socket('a1'), answerer: socket('b1', 2) },
  lost: {},
  offeredBy: null,
  rejoining: false,
  candidates: [],
  keptOffer: null,
  ...change,
});

/** A view, a buffer: the bytes are what counts. */
const bytes = (value: unknown): unknown => {
  if (ArrayBuffer.isView(value)) return { bytes: [...Buffer.from(value.buffer, value.byteOffset, value.byteLength)] };
  if (Array.isArray(value)) return value.map(bytes);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, bytes(one)]));
};

export async function listed(store: SessionStore): Promise<Session[]> {
  const found: Session[] = [];
  for await (const session of store.all()) found.push(session);
  return found;
}

const counted = (some: Partial<Record<State, number>>): Record<State, number> => ({
  OFFERING: 0,
  CONNECTED: 0,
  RENEGOTIATING: 0,
  AWAITING_REJOIN: 0,
  ...some,
});
