// Sessions in the Redis that instances share. Every change is one script that compares the version, writes, and says what is in force;
// what this instance has a seat in, it knows without asking. Knows nothing of leases but whether it may act, nothing of delivery.
import { randomBytes } from 'node:crypto';
import type { Address, InstanceId } from '../base/ids.js';
import { Unavailable, Unreadable } from '../base/unavailable.js';
import type { CallKey, Role, Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { type Redis, RedisAway, RedisRefused, type Script } from '../redis/redis.js';
import { attempts, background } from './attempts.js';
import { checkedSession, FORMAT, LETTERS, ROLES, readKept, readSession, writeKept, writeSession } from './format.js';
import { KnownSessions, keyText } from './known.js';
import { awaited, type Entry, RedisIndex, type Timed, TTL } from './redis-index.js';
import * as scripts from './redis-scripts.js';
import type { DueAt, Kept, SessionStore } from './store.js';

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
}

/** How long it is known that a call has ended; as the port says. */
const ENDED_MS = 60_000;
const CLAIM_MS = 6 * 3_600_000;
/** An operation that was called off can still be on a connection that was given up: until Redis has surely read that. */
const VOID_MS = 600_000;
const KEPT_MS = 60_000;
const TOUCH_EVERY = 30 * 60_000;
/** The legacy's calls that began here; the service bounds them lower. Over it the oldest are not told again after a loss. */
const MOST_CLAIMS = 200_000;
/** Sessions that are read, or written again, at once. */
const AT_ONCE = 64;

export function redisSessionStore(options: RedisStoreOptions): SessionStore {
  const { redis, address, mayAct, dueAt } = options;
  const now = options.now ?? Date.now;
  const unreadable = (key: string, why: string): void => options.signals?.unreadable(key, why);
  const known = new KnownSessions(address, now);
  const index = new RedisIndex(redis, dueAt, unreadable);
  const trying = attempts(redis, mayAct);
  const tidying = background(redis, (error) => options.signals?.internalError('the session store', error));
  const claims = new Map<string, { readonly key: CallKey; readonly id: string }>();
  /** Names operations: this process, and a number. */
  const self = randomBytes(6).toString('base64url');
  let operations = 0;
  const operation = (): string => `${self}${(operations++).toString(36)}`;

  const at = (key: CallKey) => {
    const tag = tagOf(key.ns, key.conversationId);
    return {
      session: redis.key('session', tag),
      ended: redis.key('ended', tag),
      claim: redis.key('claim', tag),
      void: redis.key('void', tag),
      keptFor: { offerer: redis.key('kept-o', tag), answerer: redis.key('kept-a', tag) } as const,
      given: redis.key('given', tag),
    };
  };

  /** One script of a conversation. @throws RedisAway, Unreadable */
  async function run(script: Script, key: CallKey, keys: string[], args: (string | number)[]): Promise<string[]> {
    try {
      return texts(await redis.run(script, keys, args));
    } catch (error) {
      throw refusedAs(key, error);
    }
  }

  function refusedAs(key: CallKey, error: unknown): unknown {
    return error instanceof RedisRefused && error.message.includes('WRONGTYPE')
      ? new Unreadable(at(key).session, 'a key of another type')
      : error;
  }

  /** What a script answered as in force. */
  function inForce(key: CallKey, format = '', text = ''): Session {
    const session = readSession(key, format, text);
    if (typeof session === 'string') throw new Unreadable(at(key).session, session);
    known.inForce(session);
    return session;
  }

  function gone(key: CallKey): null {
    known.absent(key);
    return null;
  }

  /** Whose index must have it before it is written. */
  function unindexed(after: Session): InstanceId | undefined {
    const id = options.id();
    return known.isSeated(after) && !known.isIndexed(after, id) ? id : undefined;
  }

  /** The indexes, then the session: in one round trip where Redis executes in the order of asking. */
  async function indexed<T>(indexes: Promise<unknown>[], write: () => Promise<T>): Promise<T> {
    if (indexes.length === 0) return write();
    if (!redis.ordered) await Promise.all(indexes);
    const answers = await Promise.allSettled([write(), ...indexes]);
    const [answer] = answers;
    const faults = answers.flatMap((one) => (one.status === 'rejected' ? [one.reason as unknown] : []));
    if (answer.status === 'fulfilled' && faults.length === 0) return answer.value;
    const fault = faults.find((one) => !(one instanceof RedisAway));
    if (fault !== undefined) throw fault;
    // One that failed says nothing of the other.
    const sent = answer.status === 'fulfilled' || faults.some((one) => one instanceof RedisAway && one.sent);
    throw new RedisAway((faults[0] as RedisAway).message, sent);
  }

  const held = ({ held: seats }: Session): string =>
    ROLES.filter((role) => seats?.[role] !== undefined)
      .map((role) => LETTERS[role])
      .join('');
  const instanceOf = (session: Session): string => (known.isSeated(session) ? options.id() : '');
  const flag = (session: Session): string => (awaited(session).length > 0 ? '1' : '0');

  const settle = (key: CallKey, op: string, then: (made: boolean) => void) => async (): Promise<boolean> => {
    const keys = at(key);
    const made = (await redis.run(scripts.settle, [keys.session, keys.ended, keys.void], [op, VOID_MS])) === 1;
    then(made);
    return made;
  };

  async function get(key: CallKey): Promise<Session | null> {
    const { session } = at(key);
    let answer: unknown;
    try {
      answer = await redis.call('HMGET', session, 'f', 'd', 'c');
    } catch (error) {
      throw refusedAs(key, error);
    }
    const [format, text, call] = Array.isArray(answer) ? (answer as (string | null)[]) : [];
    if (format === null && text === null && call === null) return gone(key);
    return inForce(key, format ?? '', text ?? '');
  }

  async function create(
    session: Session,
  ): Promise<{ readonly created: boolean; readonly session: Session | null; readonly claimed: boolean }> {
    const op = operation();
    const keys = at(session);
    const id = options.id();
    const made = (): void => {
      known.inForce(session);
      known.indexed(session, id);
    };
    // The indexes were written before it.
    const unmade = (): void =>
      tidying.run(`unmade ${session.callId}`, () => index.after(session, [id], flag(session) === '1'));
    const dead: string[] = [];
    // A claim of an instance that died counts no more; which those are is known here.
    for (;;) {
      const answer = await trying
        .run(
          () =>
            indexed(index.before(null, session, unindexed(session)), () =>
              run(
                scripts.create,
                session,
                [keys.session, keys.ended, keys.claim, keys.void],
                [
                  ...[op, session.callId, session.version, writeSession(session), FORMAT, held(session)],
                  ...[instanceOf(session), flag(session), TTL, id, ...dead],
                ],
              ),
            ),
          settle(session, op, (done) => (done ? made() : unmade())),
        )
        .catch((error: unknown) => {
          if (!(error instanceof Unavailable && error.late)) unmade();
          throw error;
        });
      const [word, ...rest] = answer;
      if (word === 'done' || word === 'ended') {
        made();
        if (word === 'ended') known.ended(session, session.callId);
        return { created: true, session, claimed: false };
      }
      if (word === 'claimed') {
        const more = rest.filter((by) => !options.isLivingId(by as InstanceId) && !dead.includes(by));
        if (more.length > 0 && more.length === rest.length) {
          dead.push(...more);
          continue;
        }
      }
      unmade();
      if (word === 'claimed') return { created: false, session: null, claimed: true };
      return { created: false, session: found(session, answer), claimed: false };
    }
  }

  /** Of a script that changed nothing. */
  function found(key: CallKey, [word, format, text]: readonly string[]): Session | null {
    if (word === 'there') return inForce(key, format, text);
    if (word === 'void') throw new Unavailable('the change was called off');
    return gone(key);
  }

  async function replace(
    before: Session,
    after: Session,
  ): Promise<{
    readonly replaced: boolean;
    readonly session: Session | null;
    readonly kept?: Readonly<Partial<Record<Role, readonly Kept[]>>>;
  }> {
    const op = operation();
    const keys = at(before);
    const id = options.id();
    const released = ROLES.filter((role) => before.held?.[role] !== undefined && after.held?.[role] === undefined);
    const made = (): void => {
      known.inForce(after);
      known.indexed(after, id);
    };
    const answer = await trying.run(
      () =>
        indexed(index.before(before, after, unindexed(after)), () =>
          run(
            scripts.replace,
            before,
            [keys.session, keys.ended, keys.void, keys.keptFor.offerer, keys.keptFor.answerer, keys.given],
            [
              ...[op, before.callId, before.version, after.version, writeSession(after), FORMAT, held(after)],
              ...[instanceOf(after), flag(after), TTL, released.map((role) => LETTERS[role]).join('')],
            ],
          ),
        ),
      settle(before, op, (done) => done && made()),
    );
    const [word, format, text, ...items] = answer;
    if (word === 'ended') {
      known.ended(before, before.callId);
      return { replaced: true, session: null };
    }
    if (word !== 'done') return { replaced: false, session: found(before, answer) };
    made();
    // A repeat that finds a later one: it was made, and then came another change.
    const session = text ? inForce(before, format, text) : after;
    if (items.length === 0) return { replaced: true, session };
    return { replaced: true, session, kept: keptOf(items) };
  }

  async function remove(before: Session): Promise<{ readonly deleted: boolean; readonly session: Session | null }> {
    const op = operation();
    const keys = at(before);
    const answer = await trying.run(
      () =>
        run(
          scripts.remove,
          before,
          [keys.session, keys.ended, keys.void, keys.keptFor.offerer, keys.keptFor.answerer, keys.given],
          [op, before.callId, before.version, FORMAT, ENDED_MS],
        ),
      settle(before, op, (done) => done && known.ended(before, before.callId)),
    );
    const [word, instances = '', wasAwaited] = answer;
    if (word !== 'done') return { deleted: false, session: found(before, answer) };
    known.ended(before, before.callId);
    const lines = instances.split('\n').filter((line) => line !== '');
    tidying.run(`over ${before.callId}`, () => index.after(before, lines, wasAwaited === '1'));
    return { deleted: true, session: null };
  }

  async function keep(
    session: Session,
    role: Role,
    message: Kept,
  ): Promise<{ readonly kept: boolean; readonly session: Session | null }> {
    const op = operation();
    const keys = at(session);
    const answer = await trying.run((again) =>
      run(
        scripts.keep,
        session,
        [keys.session, keys.keptFor[role], keys.given],
        [op, session.callId, LETTERS[role], writeKept(message), KEPT_MS, again ? '1' : '0'],
      ),
    );
    if (answer[0] === 'kept') return { kept: true, session };
    return { kept: false, session: found(session, answer) };
  }

  async function writeClaim(key: CallKey, id: string): Promise<Session | null> {
    const keys = at(key);
    const [word, format, text] = await run(
      scripts.claim,
      key,
      [keys.session, keys.claim],
      [options.id(), id, CLAIM_MS],
    );
    return word === 'there' ? inForce(key, format, text) : null;
  }

  /** Written when Redis is back, unless it was released meanwhile. */
  function claimLater(key: CallKey, id: string): void {
    tidying.run(`claim ${keyText(key)}`, async () => {
      if (claims.get(keyText(key))?.id === id) await writeClaim(key, id);
    });
  }

  /** Sessions that can't be read are left to who asks for that very call. */
  async function read(entry: Entry): Promise<Session | null | Unreadable> {
    try {
      const session = await get(entry.key);
      return session?.callId === entry.callId ? session : null;
    } catch (error) {
      if (error instanceof Unreadable) return error;
      throw error;
    }
  }

  async function* pages(timed: AsyncIterable<readonly Timed[]>) {
    const turning = timed[Symbol.asyncIterator]();
    for (;;) {
      const turned = await asked(() => turning.next());
      if (turned.done) return;
      const page = turned.value;
      for (let i = 0; i < page.length; i += AT_ONCE) {
        const some = page.slice(i, i + AT_ONCE);
        const sessions = await asked(() => Promise.all(some.map(read)));
        yield some.map((one, n) => ({ timed: one, session: sessions[n] ?? null }));
      }
    }
  }

  /** @throws Unavailable */
  async function asked<T>(ask: () => Promise<T>): Promise<T> {
    if (!mayAct()) throw new Unavailable('this instance has no lease now');
    try {
      return await ask();
    } catch (error) {
      throw error instanceof RedisAway ? new Unavailable(error.message) : error;
    }
  }

  const touching = setInterval(() => tidying.run('touch', () => index.touch(options.id())), TOUCH_EVERY);
  touching.unref();

  return {
    peek: (key) => (mayAct() ? known.peek(key) : undefined),
    get: (key) => trying.run(() => get(key)),
    create,
    replace,
    delete: remove,
    keep,

    async look(key) {
      const keys = at(key);
      const [there, format, text, over = '', ...by] = await trying.run(() =>
        run(scripts.look, key, [keys.session, keys.ended, keys.claim], []),
      );
      const claimed = by.some((id) => id !== options.id() && options.isLivingId(id as InstanceId));
      const session = there === '1' ? inForce(key, format, text) : gone(key);
      return { session, claimed, ended: over.split('\n')[0] || null };
    },

    heard(key, callId, version, session) {
      if (session === null) known.ended(key, callId);
      else if (session === undefined) known.changed(key, callId, version);
      else if (checkedSession(session)?.callId === callId && keyText(session) === keyText(key)) known.heard(session);
    },

    async claim(key, id) {
      const name = keyText(key);
      const [oldest] = claims.keys();
      if (claims.size >= MOST_CLAIMS && oldest !== undefined) claims.delete(oldest);
      claims.set(name, { key, id });
      try {
        const session = await trying.run(() => writeClaim(key, id));
        if (session && claims.get(name)?.id === id) claims.delete(name);
        return session;
      } catch (error) {
        if (error instanceof Unavailable) claimLater(key, id);
        throw error;
      }
    },

    release(key, id) {
      const name = keyText(key);
      if (claims.get(name)?.id === id) claims.delete(name);
      const by = options.id();
      tidying.run(`release ${name} ${id}`, () => redis.run(scripts.release, [at(key).claim], [by, id]));
    },

    async bySocket(ref) {
      const found = known.bySocket(ref);
      const sessions = await Promise.all(
        found.map(({ session, stale }) => (stale ? trying.run(() => get(session)) : session)),
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
      const seats = index.seatedAt(instance)[Symbol.asyncIterator]();
      for (;;) {
        const page = await asked(() => seats.next());
        if (page.done) return;
        for (const { key } of page.value) yield key;
      }
    },
    forget: (instance) => asked(() => index.forgetSeats(instance)),

    async *due(time) {
      for await (const page of pages(index.due(time))) {
        const early: { timed: Timed; session: Session | null }[] = [];
        for (const { timed, session } of page) {
          if (session instanceof Unreadable || (session && dueAt(session) <= time)) yield timed.key;
          else early.push({ timed, session });
        }
        if (early.length > 0) await asked(() => index.putOff(early));
      }
    },

    async *all() {
      const seen = new Set<string>();
      for await (const page of pages(index.all())) {
        for (const { timed, session } of page) {
          if (session === null || session instanceof Unreadable || seen.has(timed.member)) continue;
          seen.add(timed.member);
          yield session;
        }
      }
    },

    count: async () => known.counts(),

    async discard(key) {
      const keys = at(key);
      const last = known.last(key);
      await asked(() =>
        redis.call(
          'DEL',
          keys.session,
          keys.ended,
          keys.claim,
          keys.void,
          keys.keptFor.offerer,
          keys.keptFor.answerer,
          keys.given,
        ),
      );
      if (last) {
        known.ended(key, last.callId);
        tidying.run(`over ${last.callId}`, () => index.after(last, [options.id()], awaited(last).length > 0));
      }
    },

    drop: () => known.clear(),

    async restore() {
      const sessions = known.seated();
      const id = options.id();
      for (let i = 0; i < sessions.length; i += AT_ONCE) {
        await Promise.all(
          sessions.slice(i, i + AT_ONCE).map((session) =>
            trying.run(() =>
              indexed(index.before(null, session, id), async () => {
                const keys = at(session);
                const args = [session.callId, session.version, writeSession(session), FORMAT, held(session), id];
                const made = await redis.run(
                  scripts.restore,
                  [keys.session, keys.ended],
                  [...args, flag(session), TTL],
                );
                if (made === 1) known.indexed(session, id);
                // Another instance knew a later one, or it is over.
                else known.changed(session, session.callId, session.version + 1);
              }),
            ),
          ),
        );
      }
      const claimed = [...claims.values()];
      for (let i = 0; i < claimed.length; i += AT_ONCE)
        await Promise.all(claimed.slice(i, i + AT_ONCE).map((one) => trying.run(() => writeClaim(one.key, one.id))));
    },

    async close() {
      clearInterval(touching);
      trying.close();
      tidying.close();
      known.clear();
      claims.clear();
    },
  };
}

/** Numbers come as numbers, all else as text. */
const texts = (answer: unknown): string[] =>
  (Array.isArray(answer) ? answer : [answer]).map((one) => String(one ?? ''));

function keptOf(items: readonly string[]): Partial<Record<Role, Kept[]>> {
  const kept: Partial<Record<Role, Kept[]>> = {};
  for (const item of items) {
    const role = ROLES.find((one) => LETTERS[one] === item[0]);
    const message = readKept(item.slice(item.indexOf('\n') + 1));
    if (!role || !message) continue;
    kept[role] ??= [];
    kept[role].push(message);
  }
  return kept;
}
