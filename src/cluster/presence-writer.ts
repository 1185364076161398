// Tells Redis which sockets are connected here: what changed goes out in batches, what was lost goes again, and all of it once in a while
// so that it does not expire. Knows nothing of who reads it.

import type { Clock, Timer } from '../base/clock.js';
import type { InstanceId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import { tagOf } from '../redis/keys.js';
import { type Arg, type Redis, RedisAway, RedisRefused } from '../redis/redis.js';
import { mend } from './mend.js';
import { clearPresenceScript, indexScript, TTL, writePresenceScript } from './presence-scripts.js';
import type { RedisLiveness } from './redis-liveness.js';
import type { ClusterSignals } from './told.js';

/** Milliseconds in which everything is written once more: several times within `TTL`. */
const REFRESH = TTL / 4;
const REFRESH_TICK = 1_000;
/** Users at once: a millisecond of Redis's time or so. */
const BATCH = 256;
const AGAIN = 250;
/** After this long without Redis something may have expired. */
const LONG_AWAY = TTL / 8;
/**
 * Milliseconds from now in which a write still counts: one that had no answer is sent again after it timed out, and if it comes to
 * Redis behind that one it must not undo it.
 */
const VALID = 1_500;
/**
 * Milliseconds: what was written within it (and up to twice as long ago) is written again after each break, however short: a server that took
 * over may be behind, and one that is cut off takes writes until it notices.
 */
const RECENT = 30_000;
/** Users that are not here any more and wait to be told so while Redis is away; beyond, all that was ever written by this life is compared once it is back. */
const MOST_DIRTY = 50_000;

export interface WriterOptions {
  readonly redis: Redis;
  readonly liveness: RedisLiveness;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  readonly monotonic: () => number;
  /** A user's key holds another type: what all instances have of it is to be written again. */
  readonly refused: (ns: string, user: string, error: RedisRefused) => Promise<void>;
}

interface User {
  readonly ns: string;
  readonly user: string;
}

/** What is to be told of a user: these fields, or, with `all`, exactly what is here. */
interface Change extends User {
  readonly fields: Set<string>;
  all: boolean;
}

export class PresenceWriter {
  readonly #options: WriterOptions;
  readonly #here = new Map<string, User & { readonly fields: Set<string> }>();
  #dirty = new Map<string, Change>();
  readonly #flying = new Set<string>();
  /** A write of theirs had no answer: it may still come to Redis behind what was written since. */
  #doubtful = new Map<string, User>();
  #doubts: Timer | undefined;
  /** Users of whom something was told lately: in this half minute, and in the one before. */
  #recent = new Map<string, User>();
  #formerly = new Map<string, User>();
  #recentSince: number;
  /** Compare all that this life ever wrote with what is here. */
  #compare = false;
  #scheduled = false;
  #again: Timer | undefined;
  #tick: Timer | undefined;
  #credit = 0;
  #round: Iterator<readonly [string, User & { readonly fields: Set<string> }]> | undefined;
  #lastWrite: number;
  #closed = false;
  #idle: (() => void)[] = [];

  constructor(options: WriterOptions) {
    this.#options = options;
    this.#lastWrite = options.monotonic();
    this.#recentSince = this.#lastWrite;
    const { liveness } = options;
    liveness.onBack((lost) => {
      if (lost) this.#compare = true;
      if (lost || options.monotonic() - this.#lastWrite > LONG_AWAY) this.#allAgain();
      else for (const [key, who] of [...this.#formerly, ...this.#recent]) this.#change(key, who, undefined);
      this.#soon();
    });
    liveness.onFenced(() => this.#allAgain());
    this.#refresh();
  }

  add({ ref, user }: Peer): void {
    if (user === undefined || this.#closed) return;
    const key = keyOfUser(ref.ns, user);
    const here = this.#here.get(key);
    const field = fieldOf(ref);
    if (here) here.fields.add(field);
    else this.#here.set(key, { ns: ref.ns, user, fields: new Set([field]) });
    this.#change(key, { ns: ref.ns, user }, field);
  }

  remove({ ref, user }: Peer): void {
    if (user === undefined || this.#closed) return;
    const key = keyOfUser(ref.ns, user);
    const here = this.#here.get(key);
    const field = fieldOf(ref);
    if (!here?.fields.delete(field)) return;
    if (here.fields.size === 0) this.#here.delete(key);
    this.#change(key, here, field);
  }

  /** What is here of that user is written again; others hold what they hold. */
  again(ns: string, user: string): void {
    const key = keyOfUser(ns, user);
    const here = this.#here.get(key);
    if (here) this.#change(key, here, undefined);
  }

  /** A life is over: what it wrote is removed, though it counts for nobody any more. @throws Unavailable */
  async clear(dead: InstanceId): Promise<void> {
    const { redis } = this.#options;
    const index = indexKey(redis, dead);
    try {
      for await (const users of scanned(redis, index)) {
        await Promise.all(
          users.map(({ ns, user }) =>
            redis.run(clearPresenceScript, [presenceKey(redis, ns, user)], [dead]).catch((error: unknown) => {
              // Another type: whoever reads it deletes it.
              if (!(error instanceof RedisRefused)) throw error;
            }),
          ),
        );
      }
      await redis.call('DEL', index);
    } catch (error) {
      if (error instanceof RedisAway) throw new Unavailable(error.message);
      throw error;
    }
  }

  /** Tells that nobody is here any more; resolves once that is written. */
  async leave(): Promise<void> {
    for (const [key, { ns, user, fields }] of this.#here) {
      for (const field of fields) this.#change(key, { ns, user }, field);
    }
    this.#here.clear();
    await this.drained();
    await this.#options.redis.call('DEL', indexKey(this.#options.redis, this.#options.liveness.id));
  }

  /** Resolves once all is written that was to be. */
  drained(): Promise<void> {
    if (this.#closed || (this.#dirty.size === 0 && this.#flying.size === 0 && !this.#compare)) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#again?.cancel();
    this.#tick?.cancel();
    this.#doubts?.cancel();
    this.#rest();
  }

  #change(key: string, { ns, user }: User, field: string | undefined): void {
    let change = this.#dirty.get(key);
    if (!change) {
      if (this.#dirty.size >= MOST_DIRTY + this.#here.size) {
        if (!this.#compare) this.#options.signals.bound('presence-unwritten', { users: MOST_DIRTY });
        this.#compare = true;
        this.#dirty.clear();
      }
      change = { ns, user, fields: new Set(), all: false };
      this.#dirty.set(key, change);
    }
    if (field === undefined) change.all = true;
    else change.fields.add(field);
    this.#soon();
  }

  #allAgain(): void {
    for (const [key, { ns, user }] of this.#here) {
      const change = this.#dirty.get(key) ?? { ns, user, fields: new Set<string>(), all: true };
      change.all = true;
      this.#dirty.set(key, change);
    }
    this.#soon();
  }

  #soon(): void {
    if (this.#scheduled || this.#closed) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      void this.#reachable().then(() => {
        this.#scheduled = false;
        if (this.#closed) return;
        if (this.#compare) void this.#compareAll();
        this.#flush();
      });
    });
  }

  /**
   * Not whether this instance may act: what is written for a life that was declared dead counts for nobody, and a renewal that is late
   * on a busy machine must hide nobody who connects.
   */
  async #reachable(): Promise<void> {
    const { redis, liveness } = this.#options;
    if (!redis.well() || liveness.redisNow() === 0) await liveness.acting();
  }

  #later(): void {
    if (this.#closed) return;
    this.#again?.cancel();
    this.#again = this.#options.clock.after(AGAIN, () => this.#soon());
  }

  #flush(): void {
    const batch: [string, Change][] = [];
    for (const entry of this.#dirty) {
      if (batch.length + this.#flying.size >= BATCH) break;
      // One at a time for each user, so that what is written last is what is so.
      if (this.#flying.has(entry[0])) continue;
      batch.push(entry);
    }
    if (batch.length === 0) {
      this.#rest();
      return;
    }
    for (const [key] of batch) {
      this.#dirty.delete(key);
      this.#flying.add(key);
    }
    void this.#write(batch);
  }

  async #write(batch: readonly [string, Change][]): Promise<void> {
    const { redis, liveness, monotonic } = this.#options;
    const life = liveness.id;
    const valid = Math.round(liveness.redisNow()) + VALID;
    const [gone, here] = [[] as string[], [] as string[]];
    for (const [key] of batch) (this.#here.has(key) ? here : gone).push(key);
    const written = redis
      .run(indexScript, [indexKey(redis, life)], [here.length, ...here, ...gone])
      .then(() => true)
      .catch((error: unknown) => this.#indexFailed(error, life));
    const done = await Promise.all(
      batch.map(async ([key, change]) => {
        const connected = this.#here.get(key)?.fields;
        const set = change.all ? [...(connected ?? [])] : [...change.fields].filter((field) => connected?.has(field));
        const removed = change.all ? [] : [...change.fields].filter((field) => !connected?.has(field));
        const args: Arg[] = [life, liveness.address, valid, change.all ? 1 : 0, set.length, ...set, ...removed];
        const at = presenceKey(redis, change.ns, change.user);
        const ok = await redis
          .run(writePresenceScript, [at], args)
          .then((answer) => answer === 1)
          .catch(async (error: unknown) => {
            if (error instanceof RedisRefused) await this.#options.refused(change.ns, change.user, error);
            return false;
          });
        return (await written) && ok;
      }),
    );
    let failed = false;
    for (const [i, [key, change]] of batch.entries()) {
      this.#flying.delete(key);
      if (done[i] && life === liveness.id) {
        if (change.fields.size > 0) this.#wrote(key, change);
        continue;
      }
      failed = true;
      this.#doubt(key, change);
      const newer = this.#dirty.get(key);
      if (!newer) this.#dirty.set(key, change);
      else {
        for (const field of change.fields) newer.fields.add(field);
        newer.all ||= change.all;
      }
    }
    if (failed) this.#later();
    else {
      this.#lastWrite = monotonic();
      this.#flush();
    }
  }

  #wrote(key: string, { ns, user }: User): void {
    const now = this.#options.monotonic();
    if (now - this.#recentSince > RECENT) {
      this.#formerly = now - this.#recentSince > 2 * RECENT ? new Map() : this.#recent;
      this.#recent = new Map();
      this.#recentSince = now;
    }
    // Over it the rest is written again as all is, in a quarter of an hour.
    if (this.#recent.size < MOST_DIRTY) this.#recent.set(key, { ns, user });
  }

  /** Once nothing can come late any more, what is here is written once more. */
  #doubt(key: string, { ns, user }: User): void {
    this.#doubtful.set(key, { ns, user });
    this.#doubts ??= this.#options.clock.after(2 * VALID, () => {
      this.#doubts = undefined;
      const all = this.#doubtful;
      this.#doubtful = new Map();
      for (const [one, who] of all) this.#change(one, who, undefined);
    });
  }

  /** Whoever this life wrote into its index and who is not here is told to be gone. */
  async #compareAll(): Promise<void> {
    const { redis, liveness } = this.#options;
    this.#compare = false;
    try {
      for await (const users of scanned(redis, indexKey(redis, liveness.id))) {
        for (const { ns, user } of users) this.#change(keyOfUser(ns, user), { ns, user }, undefined);
      }
      this.#allAgain();
    } catch (error) {
      this.#compare = true;
      await this.#indexFailed(error, liveness.id);
      this.#later();
    }
  }

  /** False: to be tried again. */
  async #indexFailed(error: unknown, life: InstanceId): Promise<false> {
    const { redis, signals } = this.#options;
    if (error instanceof RedisRefused) await mend(redis, signals, { key: indexKey(redis, life), kind: 'set', error });
    return false;
  }

  #refresh(): void {
    this.#tick = this.#options.clock.after(REFRESH_TICK, () => {
      this.#credit += (this.#here.size * REFRESH_TICK) / REFRESH;
      const most = Math.min(Math.floor(this.#credit), BATCH);
      this.#credit = Math.min(this.#credit - most, BATCH);
      for (let i = 0; i < most; i++) {
        this.#round ??= this.#here.entries();
        const next = this.#round.next();
        if (next.done) this.#round = undefined;
        else this.#change(next.value[0], next.value[1], undefined);
      }
      this.#refresh();
    });
  }

  #rest(): void {
    if (!this.#closed && (this.#dirty.size > 0 || this.#flying.size > 0 || this.#compare)) return;
    for (const done of this.#idle.splice(0)) done();
  }
}

export const presenceKey = (redis: Redis, ns: string, user: string): string => redis.key('presence', tagOf(ns, user));
const indexKey = (redis: Redis, life: InstanceId): string => redis.key('sockets', life);

/** As it stands in a user's hash. */
export const fieldOf = ({ id, connection }: Peer['ref'] | { id: string; connection: number }): string =>
  `${id}\n${connection}`;

/** As it stands in the index. */
const keyOfUser = (ns: string, user: string): string => JSON.stringify([ns, user]);

async function* scanned(redis: Redis, index: string): AsyncIterable<readonly User[]> {
  let cursor = '0';
  do {
    const answer = await redis.call('SSCAN', index, cursor, 'COUNT', BATCH);
    if (!Array.isArray(answer) || !Array.isArray(answer[1])) return;
    cursor = String(answer[0]);
    yield (answer[1] as unknown[]).flatMap((text) => readUser(String(text)) ?? []);
  } while (cursor !== '0');
}

function readUser(text: string): User | undefined {
  try {
    const read: unknown = JSON.parse(text);
    if (!Array.isArray(read)) return undefined;
    const [ns, user] = read as unknown[];
    return typeof ns === 'string' && typeof user === 'string' ? { ns, user } : undefined;
  } catch {
    // Written by something else: no user of ours.
    return undefined;
  }
}
