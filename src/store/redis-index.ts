// Where calls are found by something else than their conversation: by the instance that has a seat, by the user who is awaited, by the time
// when they must be looked at. Each is written before the session and is never less than the truth; what is over is removed by its own
// call, so that nothing of a later one goes with it. Knows nothing of sessions but these.
import type { InstanceId } from '../base/ids.js';
import type { Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { type Redis, RedisRefused } from '../redis/redis.js';
import { ROLES, readMember, writeMember } from './format.js';
import { later, link, sooner } from './redis-scripts.js';
import type { DueAt } from './store.js';

/** Longer than any session: 6 h after its last change it is over. */
export const TTL = 7 * 3_600_000;
/** Parts of the index by time, so that a Cluster shares it out. */
const SHARDS = 8;
const PAGE = 256;

export interface Entry {
  readonly key: { readonly ns: Session['ns']; readonly conversationId: Session['conversationId'] };
  readonly callId: string;
}

export interface Timed extends Entry {
  readonly shard: number;
  readonly member: string;
  /** As Redis wrote it. */
  readonly score: string;
}

export class RedisIndex {
  readonly #redis: Redis;
  readonly #dueAt: DueAt;
  readonly #unreadable: (key: string, why: string) => void;

  constructor(redis: Redis, dueAt: DueAt, unreadable: (key: string, why: string) => void) {
    this.#redis = redis;
    this.#dueAt = dueAt;
    this.#unreadable = unreadable;
  }

  /** What must be written before `after` is; nothing in most cases. `seatOf`: whose index it must be in and is not yet. */
  before(before: Session | null, after: Session, seatOf: InstanceId | undefined): Promise<unknown>[] {
    const member = writeMember(after, after.callId);
    const writes: Promise<unknown>[] = [];
    if (seatOf !== undefined) writes.push(this.#link(this.#seats(seatOf), member));
    for (const user of awaited(after)) {
      if (!before || !awaited(before).includes(user)) writes.push(this.#link(this.#awaiting(after.ns, user), member));
    }
    const at = this.#dueAt(after);
    if (!before || at < this.#dueAt(before)) {
      const key = this.#due(shardOf(member));
      writes.push(this.#mended(key, () => this.#redis.run(sooner, [key], [member, whole(at), TTL])));
    }
    return writes;
  }

  /** The call is over. `instances`: those in whose index it is. */
  after(session: Session, instances: readonly string[], wasAwaited: boolean): Promise<unknown> {
    const member = writeMember(session, session.callId);
    const sets = instances.map((id) => this.#seats(id as InstanceId));
    if (wasAwaited) for (const role of ROLES) sets.push(this.#awaiting(session.ns, session.users[role]));
    return Promise.all([
      this.#redis.call('ZREM', this.#due(shardOf(member)), member),
      ...sets.map((key) => this.#redis.call('SREM', key, member)),
    ]);
  }

  async awaiting(ns: string, user: string): Promise<readonly Entry[]> {
    const key = this.#awaiting(ns, user);
    const members = await this.#mended(key, () => this.#redis.call('SMEMBERS', key));
    return entries(members);
  }

  /** Members of calls that are over. */
  async forgetAwaited(ns: string, user: string, entry: Entry): Promise<void> {
    await this.#redis.call('SREM', this.#awaiting(ns, user), writeMember(entry.key, entry.callId));
  }

  async *seatedAt(instance: InstanceId): AsyncIterable<readonly Entry[]> {
    const key = this.#seats(instance);
    let cursor = '0';
    do {
      const answer = await this.#mended(key, () => this.#redis.call('SSCAN', key, cursor, 'COUNT', PAGE));
      const [next, members] = Array.isArray(answer) ? answer : ['0', []];
      cursor = String(next);
      yield entries(members);
    } while (cursor !== '0');
  }

  async forgetSeats(instance: InstanceId): Promise<void> {
    await this.#redis.call('DEL', this.#seats(instance));
  }

  async unseat(instance: InstanceId, entry: Entry): Promise<void> {
    await this.#redis.call('SREM', this.#seats(instance), writeMember(entry.key, entry.callId));
  }

  /** Calls whose time is over, a page at a time. */
  async *due(now: number): AsyncIterable<readonly Timed[]> {
    for (let shard = 0; shard < SHARDS; shard++) {
      const key = this.#due(shard);
      for (let offset = 0; ; offset += PAGE) {
        const page = await this.#mended(key, () =>
          this.#redis.call('ZRANGE', key, '-inf', whole(now), 'BYSCORE', 'LIMIT', offset, PAGE, 'WITHSCORES'),
        );
        const [timed, found] = await this.#timed(shard, page);
        if (timed.length > 0) yield timed;
        if (found < PAGE) break;
      }
    }
  }

  /** Every call, a page at a time; a call can come twice. */
  async *all(): AsyncIterable<readonly Timed[]> {
    for (let shard = 0; shard < SHARDS; shard++) {
      const key = this.#due(shard);
      let cursor = '0';
      do {
        const answer = await this.#mended(key, () => this.#redis.call('ZSCAN', key, cursor, 'COUNT', PAGE));
        const [next, page] = Array.isArray(answer) ? answer : ['0', []];
        cursor = String(next);
        const [timed] = await this.#timed(shard, page);
        if (timed.length > 0) yield timed;
      } while (cursor !== '0');
    }
  }

  /** They were read and are not due: `session` where one is there, so that it comes up at its own time; null: none of that call. */
  async putOff(read: readonly { readonly timed: Timed; readonly session: Session | null }[]): Promise<void> {
    const byShard = new Map<number, string[]>();
    for (const { timed, session } of read) {
      const args = byShard.get(timed.shard) ?? [];
      args.push(timed.member, timed.score, session ? whole(this.#dueAt(session)) : '');
      byShard.set(timed.shard, args);
    }
    await Promise.all([...byShard].map(([shard, args]) => this.#redis.run(later, [this.#due(shard)], args)));
  }

  /** Keeps the indexes that this instance fills for longer than any call in them. */
  async touch(instance: InstanceId): Promise<void> {
    const keys = [this.#seats(instance), ...Array.from({ length: SHARDS }, (_, shard) => this.#due(shard))];
    await Promise.all(keys.map((key) => this.#redis.call('PEXPIRE', key, TTL)));
  }

  async #timed(shard: number, page: unknown): Promise<[Timed[], number]> {
    const flat = Array.isArray(page) ? (page as unknown[]) : [];
    const timed: Timed[] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) {
      const [member, score] = [String(flat[i]), String(flat[i + 1])];
      const entry = readMember(member);
      if (entry) timed.push({ ...entry, shard, member, score });
      else await this.#redis.call('ZREM', this.#due(shard), member);
    }
    return [timed, flat.length / 2];
  }

  #link(key: string, member: string): Promise<unknown> {
    return this.#mended(key, () => this.#redis.run(link, [key], [member, TTL]));
  }

  /** An index that is of another type was written by somebody else: it goes, and is filled again by what happens. */
  async #mended(key: string, ask: () => Promise<unknown>): Promise<unknown> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RedisRefused) || !error.message.includes('WRONGTYPE')) throw error;
      this.#unreadable(key, 'an index of another type; it is begun anew');
      await this.#redis.call('DEL', key);
      return ask();
    }
  }

  readonly #seats = (instance: InstanceId): string => this.#redis.key('seats', tagOf(instance));
  readonly #awaiting = (ns: string, user: string): string => this.#redis.key('awaiting', tagOf(ns, user));
  readonly #due = (shard: number): string => this.#redis.key('due', String(shard));
}

/** Users whose next socket the call waits for. */
export function awaited({ waitsForBoth, held, users }: Session): readonly string[] {
  if (waitsForBoth) return [users.offerer, users.answerer];
  return held ? ROLES.filter((role) => held[role] !== undefined).map((role) => users[role]) : [];
}

const entries = (members: unknown): readonly Entry[] =>
  Array.isArray(members) ? members.flatMap((member: unknown) => readMember(member) ?? []) : [];

const whole = (at: number): string => String(Math.max(0, Math.min(Math.floor(at), Number.MAX_SAFE_INTEGER)));

/** FNV-1a. */
function shardOf(member: string): number {
  let hash = 2_166_136_261;
  for (let i = 0; i < member.length; i++) hash = Math.imul(hash ^ member.charCodeAt(i), 16_777_619) >>> 0;
  return hash % SHARDS;
}
