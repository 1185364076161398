// The changes of a call: each one script, named by an operation so that it can be asked again when its reply was lost; the indexes that it must
// be found by are written before it. Knows nothing of reading.
import { randomBytes } from 'node:crypto';
import type { InstanceId } from '../base/ids.js';
import { Unavailable, Unreadable } from '../base/unavailable.js';
import type { Role, Session } from '../call/session.js';
import { type Redis, RedisAway, RedisRefused } from '../redis/redis.js';
import type { Attempts, Background } from './attempts.js';
import { FORMAT, LETTERS, ROLES, readKept, writeKept } from './format.js';
import type { KnownSessions } from './known.js';
import type { RedisCall } from './redis-call.js';
import { awaited, type RedisIndex, TTL } from './redis-index.js';
import * as scripts from './redis-scripts.js';
import type { Kept, SessionStore } from './store.js';

/** How long it is known that a call has ended; as the port says. */
const ENDED_MS = 60_000;
/**
 * A call that this instance was told of within it is written again where Redis lost it: had it ended since, `ended` would be there. Longer ago
 * it may have ended without this instance hearing of it.
 */
export const RECENT_MS = ENDED_MS - 10_000;
/** A seat is held for 10 s. */
const KEPT_MS = 60_000;

export interface ChangeParts {
  readonly redis: Redis;
  readonly call: RedisCall;
  readonly known: KnownSessions;
  readonly index: RedisIndex;
  readonly trying: Attempts;
  readonly tidying: Background;
  id(): InstanceId;
  isLivingId(id: InstanceId): boolean;
  unreadable(key: string, why: string): void;
  failed(error: unknown): void;
  /** Redis lost what it had, and gets everything again. */
  restoring(): boolean;
}

export interface Changes extends Pick<SessionStore, 'create' | 'replace' | 'delete' | 'keep'> {
  /** Writes a session again that was lost, where it is absent or older; whether it is in force then. @throws Unavailable */
  restore(session: Session): Promise<boolean>;
}

export function redisChanges(parts: ChangeParts): Changes {
  const { redis, call, known, index, trying, tidying } = parts;
  /** Names operations: this process in 8 characters, and a number. */
  const self = randomBytes(6).toString('base64url');
  let operations = 0;
  const operation = (): string => `${self}${(operations++).toString(36)}`;

  /** Whose index must have it before it is written. */
  function unindexed(after: Session): InstanceId | undefined {
    const id = parts.id();
    return known.isSeated(after) && !known.isIndexed(after, id) ? id : undefined;
  }
  const instanceOf = (session: Session): string => (known.isSeated(session) ? parts.id() : '');

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

  /**
   * What Redis holds is older than what it has confirmed, or is not there: a replica that was behind became the master. What is known counts,
   * and is written again. True: that is done, and the change can be tried again; otherwise what is in force.
   */
  async function caughtUp(before: Session, [word, ...rest]: readonly string[]): Promise<Session | null | true> {
    const last = known.within(before, parts.restoring() ? Number.POSITIVE_INFINITY : RECENT_MS);
    const now = call.found(before, [word ?? '', ...rest]);
    const behind = now
      ? now.callId === before.callId && now.version < before.version
      : word === 'gone' && last !== undefined;
    return behind && (await changes.restore(last && last.version > before.version ? last : before)) ? true : now;
  }

  /** No index has that call any more. */
  function over(session: Session, instances: readonly string[], wasAwaited: boolean, what = 'left'): void {
    tidying.run(`${what} ${session.callId}`, () => index.after(session, instances, wasAwaited));
  }

  /**
   * The index got a seat here that came to nothing. Only at once, in order with what this instance asks next, which may be for a seat of
   * the same call: what Redis does not hear of now, the index's own tidying takes out.
   */
  function unseated(session: Session, seatOf: InstanceId | undefined): void {
    if (seatOf === undefined) return;
    index.unseat(seatOf, { key: session, callId: session.callId }).catch((error) => {
      if (!(error instanceof RedisAway)) parts.failed(error);
    });
  }

  /** It could not be written again, since another was there: that is a later one of the same call, or that call is over. */
  async function late(session: Session, seatOf: InstanceId | undefined): Promise<void> {
    const now = await call.get(session).catch((error) => {
      if (error instanceof Unreadable) return session; // whoever asks for it next meets that
      throw error;
    });
    if (now?.callId !== session.callId) await index.after(session, [parts.id()], flag(session) === '1');
    else if (!known.isSeated(now)) unseated(session, seatOf);
  }

  const changes: Changes = {
    async create(session) {
      const op = operation();
      const keys = call.keys(session);
      const id = parts.id();
      const made = (): void => {
        known.inForce(session);
        known.indexed(session, id);
      };
      // The indexes were written before it.
      const unmade = (): void => over(session, [id], flag(session) === '1');
      const dead: string[] = [];
      const write = (): Promise<string[]> =>
        indexed(index.before(null, session, unindexed(session)), () =>
          call.run(
            scripts.create,
            session,
            [keys.session, keys.ended, keys.claim, keys.void],
            [
              ...[op, session.callId, session.version, ...call.written(session), FORMAT, held(session)],
              ...[instanceOf(session), flag(session), TTL, id, ...dead],
            ],
          ),
        );
      for (;;) {
        const answer = await trying
          .run(
            write,
            call.settle(session, op, (done) => {
              if (done) made();
              else unmade();
              return done;
            }),
          )
          .catch((error: unknown) => {
            if (!(error instanceof Unavailable && error.late)) unmade();
            throw error;
          });
        const [word, ...rest] = answer;
        if (word === 'done' || word === 'ended') {
          made();
          if (word === 'ended') {
            known.ended(session, session.callId);
            unmade();
          }
          return { created: true, session, claimed: false };
        }
        if (word === 'claimed') {
          // A claim of an instance that died counts no more; which those are is known here.
          const more = rest.filter((by) => !parts.isLivingId(by as InstanceId) && !dead.includes(by));
          if (more.length > 0 && more.length === rest.length) {
            dead.push(...more);
            continue;
          }
        }
        unmade();
        if (word === 'claimed') return { created: false, session: null, claimed: true };
        return { created: false, session: call.found(session, answer), claimed: false };
      }
    },

    async replace(before, after) {
      const op = operation();
      const keys = call.keys(before);
      const id = parts.id();
      const seatOf = unindexed(after);
      let isIndexed = false;
      const released = ROLES.filter((role) => before.held?.[role] !== undefined && after.held?.[role] === undefined);
      const made = (): void => {
        known.inForce(after);
        known.indexed(after, id);
      };
      const answer = await trying.run(
        () => {
          const indexes = index.before(before, after, seatOf);
          isIndexed ||= indexes.length > 0;
          return indexed(indexes, () =>
            call.run(
              scripts.replace,
              before,
              [keys.session, keys.ended, keys.void, keys.keptFor.offerer, keys.keptFor.answerer, keys.given],
              [
                ...[op, before.callId, before.version, call.mark(before), after.version, ...call.written(after)],
                ...[FORMAT, held(after), instanceOf(after), flag(after), TTL, letters(released)],
              ],
            ),
          );
        },
        call.settle(before, op, (done, items) => {
          if (done) made();
          else unseated(before, seatOf);
          return done && items.length > 0 ? { kept: keptOf(items) } : done;
        }),
      );
      const [word, format, text, ...items] = answer;
      if (word === 'ended') {
        known.ended(before, before.callId);
        // A repeat has put it into the indexes again.
        if (isIndexed) over(before, [id], true);
        return { replaced: true, session: null };
      }
      if (word !== 'done') {
        const now = await caughtUp(before, answer);
        if (now !== true && isIndexed) {
          if (word === 'over' || (now && now.callId !== before.callId)) over(before, [id], true);
          else if (!now || !known.isSeated(now)) unseated(before, seatOf);
        }
        return now === true ? changes.replace(before, after) : { replaced: false, session: now };
      }
      made();
      // A repeat that finds a later one: it was made, and then came another change.
      const session = text ? call.inForce(before, format, text) : after;
      return items.length === 0 ? { replaced: true, session } : { replaced: true, session, kept: keptOf(items) };
    },

    async delete(before) {
      const op = operation();
      const keys = call.keys(before);
      const answer = await trying.run(
        () =>
          call.run(
            scripts.remove,
            before,
            [keys.session, keys.ended, keys.void, keys.keptFor.offerer, keys.keptFor.answerer, keys.given],
            [op, before.callId, before.version, call.mark(before), FORMAT, ENDED_MS],
          ),
        call.settle(before, op, (done) => {
          if (done) known.ended(before, before.callId);
          return done;
        }),
      );
      const [word, instances = '', wasAwaited] = answer;
      if (word !== 'done') {
        const now = await caughtUp(before, answer);
        return now === true ? changes.delete(before) : { deleted: false, session: now };
      }
      known.ended(before, before.callId);
      const lines = instances.split('\n').filter((line) => line !== '');
      over(before, lines, wasAwaited === '1', 'over');
      return { deleted: true, session: null };
    },

    async keep(session, role, message) {
      const op = operation();
      const keys = call.keys(session);
      const answer = await trying.run((again) =>
        call.run(
          scripts.keep,
          session,
          [keys.session, keys.keptFor[role], keys.given],
          [op, session.callId, LETTERS[role], writeKept(message), KEPT_MS, again ? '1' : '0'],
        ),
      );
      if (answer[0] === 'kept') return { kept: true, session };
      return { kept: false, session: call.found(session, answer) };
    },

    async restore(session) {
      const seatOf = known.isSeated(session) ? parts.id() : undefined;
      const keys = call.keys(session);
      const args = [
        ...[session.callId, session.version, ...call.written(session)],
        ...[FORMAT, held(session), seatOf ?? '', flag(session), TTL],
      ];
      try {
        const [made] = await trying.run(() =>
          indexed(index.before(null, session, seatOf), () =>
            call.run(scripts.restore, session, [keys.session, keys.ended, keys.void], args),
          ),
        );
        if (made === 'done' && seatOf !== undefined) known.indexed(session, seatOf);
        // Another instance knew a later one, or it is over.
        else if (made !== 'done') known.changed(session, session.callId, session.version + 1);
        if (made === 'over') over(session, [parts.id()], flag(session) === '1');
        else if (made !== 'done') tidying.run(`late ${session.callId}`, () => late(session, seatOf));
        return made === 'done';
      } catch (error) {
        // One call's trouble does not keep the others from coming back; whoever asks for it next meets it.
        if (error instanceof Unreadable) parts.unreadable(error.key, error.message);
        else if (error instanceof RedisRefused) parts.unreadable(keys.session, error.message);
        else throw error;
        return false;
      }
    },
  };
  return changes;
}

const letters = (roles: readonly Role[]): string => roles.map((role) => LETTERS[role]).join('');
const held = ({ held: seats }: Session): string => letters(ROLES.filter((role) => seats?.[role] !== undefined));
const flag = (session: Session): string => (awaited(session).length > 0 ? '1' : '0');

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
