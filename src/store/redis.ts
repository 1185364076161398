// Sessions in the Redis that instances share. Every change is one script that compares the version, writes, and says what is in force
// (`redis-changes.ts`); what this instance has a seat in, it knows without asking (`known.ts`). Knows nothing of leases but whether it may
// act, nothing of delivery.
import type { Address, InstanceId } from '../base/ids.js';
import { Unavailable, Unreadable } from '../base/unavailable.js';
import type { Session } from '../call/session.js';
import { type Redis, RedisAway } from '../redis/redis.js';
import { attempts, background } from './attempts.js';
import { checkedSession, writeMember } from './format.js';
import { KnownSessions, keyText } from './known.js';
import { RedisCall } from './redis-call.js';
import { RECENT_MS, redisChanges } from './redis-changes.js';
import { redisClaims } from './redis-claims.js';
import { awaited, type Entry, RedisIndex, type Timed } from './redis-index.js';
import * as scripts from './redis-scripts.js';
import type { DueAt, SessionStore } from './store.js';

export interface RedisStoreOptions {
  readonly redis: Redis;
  /** Of this process: whose seats are known here. */
  readonly address: Address;
  /** This life of it. */
  id(): InstanceId;
  mayAct(): boolean;
  isLivingId(id: InstanceId): boolean;
  readonly dueAt: DueAt;
  readonly signals?:
    | { unreadable(key: string, why: string): void; internalError(where: string, error: unknown): void }
    | undefined;
  now?(): number;
  /** How often the index of its seats is looked over; milliseconds. */
  readonly tidyEvery?: number;
}

/** Well under the indexes' time to live. */
const TIDY_EVERY = 30 * 60_000;
/** The rest is found the next time. */
const MOST_MISSING = 10_000;
/** Sessions that are read, or written again, at once. */
const AT_ONCE = 64;

/** A store that knows nothing at first; `close` leaves everything in Redis as it is. */
export function redisSessionStore(options: RedisStoreOptions): SessionStore {
  const { redis, address, id, mayAct, dueAt } = options;
  const unreadable = (key: string, why: string): void => options.signals?.unreadable(key, why);
  const known = new KnownSessions(address, options.now ?? Date.now);
  const index = new RedisIndex(redis, dueAt, unreadable);
  const call = new RedisCall(redis, known);
  const trying = attempts(redis, mayAct);
  const failed = (error: unknown): void => options.signals?.internalError('the session store', error);
  const tidying = background(redis, failed);
  const isLivingId = (one: InstanceId): boolean => options.isLivingId(one);
  /** How many times everything is being written again. */
  let restoring = 0;
  const changes = redisChanges({
    ...{ redis, call, known, index, trying, tidying, id, isLivingId, unreadable, failed },
    restoring: () => restoring > 0,
  });
  const claims = redisClaims({ redis, call, trying, tidying, id, now: options.now ?? Date.now });

  /** Sessions that can't be read are left to who asks for that very call. */
  async function read(entry: Entry): Promise<Session | null | Unreadable> {
    try {
      const session = await call.get(entry.key);
      return session?.callId === entry.callId ? session : null;
    } catch (error) {
      if (error instanceof Unreadable) return error;
      throw error;
    }
  }

  /** Entries of an index with their sessions. */
  async function* pages<E extends Entry>(
    entries: AsyncIterable<readonly E[]>,
  ): AsyncGenerator<{ entry: E; session: Session | null | Unreadable }[]> {
    for await (const page of turned(entries)) {
      for (let i = 0; i < page.length; i += AT_ONCE) {
        const some = page.slice(i, i + AT_ONCE);
        const sessions = await asked(() => Promise.all(some.map(read)));
        yield some.map((entry, n) => ({ entry, session: sessions[n] ?? null }));
      }
    }
  }

  /** @throws Unavailable */
  async function* turned<T>(pages: AsyncIterable<T>): AsyncGenerator<T> {
    const turning = pages[Symbol.asyncIterator]();
    for (;;) {
      const page = await asked(() => turning.next());
      if (page.done) return;
      yield page.value;
    }
  }

  /** Once, for who asks again by himself. @throws Unavailable */
  async function asked<T>(ask: () => Promise<T>): Promise<T> {
    if (!mayAct()) throw new Unavailable('this instance has no lease now');
    try {
      return await ask();
    } catch (error) {
      throw error instanceof RedisAway ? new Unavailable(error.message) : error;
    }
  }

  /** Calls in the index of its seats that were not there the last time: a call is put into it a moment before it is written. */
  let missing = new Set<string>();

  /** Keeps the indexes alive, and takes out of its own what is over and was not taken out then. */
  async function tidy(): Promise<void> {
    const own = id();
    const before = missing;
    missing = new Set();
    await index.touch(own);
    for await (const page of pages(index.seatedAt(own))) {
      for (const { entry, session } of page) {
        if (session !== null) continue;
        const member = writeMember(entry.key, entry.callId);
        if (before.has(member)) await index.unseat(own, entry);
        else if (missing.size < MOST_MISSING) missing.add(member);
      }
    }
  }
  const tidies = setInterval(() => {
    // In half an hour again.
    tidying.run('tidy', () =>
      tidy().catch((error) => (error instanceof Unavailable ? undefined : Promise.reject(error))),
    );
  }, options.tidyEvery ?? TIDY_EVERY);
  tidies.unref();

  return {
    peek: (key) => (mayAct() ? known.peek(key) : undefined),
    get: (key) => trying.run(() => call.get(key)),
    create: changes.create,
    replace: changes.replace,
    delete: changes.delete,
    keep: changes.keep,
    claim: claims.claim,
    release: claims.release,

    async look(key) {
      const keys = call.keys(key);
      const [there, format, text, over = '', ...by] = await trying.run(() =>
        call.run(scripts.look, key, [keys.session, keys.ended, keys.claim], []),
      );
      const claimed = by.some((one) => one !== id() && isLivingId(one as InstanceId));
      const session = there === '1' ? call.inForce(key, format, text) : call.gone(key);
      return { session, claimed, ended: over.split('\n')[0] || null };
    },

    heard(key, callId, version, session) {
      if (session === null) known.ended(key, callId);
      else if (session === undefined) known.changed(key, callId, version);
      else if (checkedSession(session)?.callId === callId && keyText(session) === keyText(key)) known.heard(session);
    },

    async bySocket(ref) {
      const found = known.bySocket(ref);
      const sessions = await Promise.all(
        found.map(({ session, stale }) => (stale ? trying.run(() => call.get(session)) : session)),
      );
      return sessions.filter((session) => session !== null);
    },

    async awaiting(ns, user) {
      const found = await trying.run(() => index.awaiting(ns, user));
      const sessions = await trying.run(() => Promise.all(found.map(read)));
      return found.flatMap((entry, i) => {
        const session = sessions[i] ?? null;
        // Somebody who asks for that call finds out.
        if (session instanceof Unreadable) return [];
        if (session === null)
          tidying.run(`awaited ${entry.callId} ${user}`, () => index.forgetAwaited(ns, user, entry));
        return session && awaited(session).includes(user) ? [session] : [];
      });
    },

    knownOf: (ns, user) => known.byUser(ns, user),

    async *seatedAt(instance) {
      for await (const page of turned(index.seatedAt(instance))) for (const { key } of page) yield key;
    },
    forget: (instance) => asked(() => index.forgetSeats(instance)),

    async *due(time) {
      for await (const page of pages(index.due(time))) {
        const early: { timed: Timed; session: Session | null }[] = [];
        for (const { entry, session } of page) {
          if (session instanceof Unreadable || (session && dueAt(session) <= time)) yield entry.key;
          else early.push({ timed: entry, session });
        }
        if (early.length > 0) await asked(() => index.putOff(early));
      }
    },

    async *all() {
      const seen = new Set<string>();
      for await (const page of pages(index.all())) {
        for (const { entry, session } of page) {
          if (session === null || session instanceof Unreadable || seen.has(entry.member)) continue;
          seen.add(entry.member);
          yield session;
        }
      }
    },

    count: async () => known.counts(),

    async discard(key) {
      const last = known.last(key);
      await asked(() => call.discard(key));
      if (!last) return;
      known.ended(key, last.callId);
      tidying.run(`over ${last.callId}`, () => index.after(last, [id()], awaited(last).length > 0));
    },

    drop: () => known.clear(),

    async restore(what = 'all') {
      const within = what === 'all' ? Number.POSITIVE_INFINITY : RECENT_MS;
      const sessions = known.seated(within);
      if (what === 'all') restoring += 1;
      try {
        for (let i = 0; i < sessions.length; i += AT_ONCE)
          await Promise.all(sessions.slice(i, i + AT_ONCE).map((session) => changes.restore(session)));
        await claims.restore(AT_ONCE, within);
      } finally {
        if (what === 'all') restoring -= 1;
      }
    },

    async close() {
      clearInterval(tidies);
      trying.close();
      tidying.close();
      known.clear();
      claims.close();
    },
  };
}
