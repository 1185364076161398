// Who lives, by leases in Redis: this instance renews its own each second, and one call of a script tells it everything else.
// Knows nothing of calls, sockets or messages: what depends on a life being over is told by `onDead` and `onFenced`.

import type { Clock, Timer } from '../base/clock.js';
import type { Address, InstanceId } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import { type Redis, RedisRefused } from '../redis/redis.js';
import type { InstanceInfo, Liveness, LivingInstance } from './cluster.js';
import { readRenewal } from './lease-answer.js';
import { claimOverScript, LEASE, leaveScript, liveKeys, renewScript, TOMBSTONE } from './lease-scripts.js';
import { addressOf, lifeOf } from './lives.js';
import { Roster } from './roster.js';
import type { SharedClock } from './shared-clock.js';
import type { ClusterSignals } from './told.js';

/** Milliseconds, by the monotonic clock, since a confirmed renewal was sent. Less than `LEASE`, so that nobody takes over before. */
const MAY_ACT = 2_000;
const RENEW_EACH = 1_000;
/** After a renewal failed. Redis back in service is told by `onWell` besides. */
const AGAIN = 250;
/** A lease that is about to expire is looked at right then, this much later; by each instance a little differently. */
const [LATER, JITTER] = [20, 60];
/** What one instance tells of itself; all of it comes back with each renewal. */
const MOST_INFO = 4_096;

export interface LivenessOptions {
  readonly redis: Redis;
  readonly address: Address;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  /** Is told Redis's time with each renewal. */
  readonly shared: SharedClock;
  /** Milliseconds that never go back. */
  readonly monotonic: () => number;
}

type Recover = (dead: InstanceId, address: Address) => Promise<void>;

export class RedisLiveness implements Liveness {
  readonly #options: LivenessOptions;
  readonly #redis: Redis;
  readonly #keys: readonly string[];
  #life = 1;
  #id: InstanceId;
  /** Of this life: the number of its newest renewal, and of the newest that was confirmed. */
  #beat = 0;
  #confirmed = 0;
  /** When the newest confirmed renewal was sent, by the monotonic clock, and Redis's time then or a little later. */
  #confirmedAt = Number.NEGATIVE_INFINITY;
  #redisTime = 0;
  readonly #roster: Roster;
  #lead: { readonly id: InstanceId; readonly from: number } | undefined;
  /** The last renewal failed, or this instance could not act before it; nobody here was told yet that this is over. */
  #away = false;
  /** Redis lost what it had, and nobody here was told yet. */
  #lost = false;
  #refused = false;
  #stopped = false;
  #timer: Timer | undefined;
  #renewing: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  readonly #recovering = new Set<InstanceId>();
  /** Recovered, and not yet told to Redis. */
  readonly #recovered = new Set<InstanceId>();
  #describe: () => InstanceInfo = () => ({});
  #recover: Recover | undefined;
  readonly #clear: ((dead: InstanceId) => Promise<void>)[] = [];
  readonly #fenced: ((was: InstanceId, now: InstanceId) => void)[] = [];
  readonly #leaving: (() => Promise<void>)[] = [];
  readonly #back: ((lost: boolean) => void)[] = [];
  #waiting: (() => void)[] = [];
  readonly #stopListening: () => void;

  constructor(options: LivenessOptions) {
    this.#options = options;
    this.#redis = options.redis;
    this.#keys = liveKeys(options.redis);
    this.#id = lifeOf(options.address, this.#life);
    this.#roster = new Roster(options.address);
    this.#stopListening = this.#redis.onWell((well) => {
      // However short: another server may have taken over, and be behind.
      if (this.#confirmed > 0) this.#away = true;
      if (well) void this.renew();
    });
  }

  get address(): Address {
    return this.#options.address;
  }
  get id(): InstanceId {
    return this.#id;
  }

  mayAct(): boolean {
    return this.#options.monotonic() - this.#confirmedAt < MAY_ACT;
  }

  well(): boolean {
    return this.#redis.well();
  }

  leads(): boolean {
    return this.#lead?.id === this.#id && this.mayAct() && this.redisNow() >= this.#lead.from;
  }

  living(): readonly LivingInstance[] {
    const now = this.redisNow();
    const shown = this.#roster.leases.map(({ id, address, expires, info }) => ({
      id,
      address,
      self: id === this.#id,
      info: id === this.#id ? this.#describe() : info,
      leaseAgeMs: Math.max(0, Math.round(now - (expires - LEASE))),
    }));
    if (shown.some(({ self }) => self)) return shown;
    const since = this.#options.monotonic() - this.#confirmedAt;
    const leaseAgeMs = Number.isFinite(since) ? Math.round(since) : 0;
    return [{ id: this.#id, address: this.address, self: true, info: this.#describe(), leaseAgeMs }, ...shown];
  }

  isLiving(address: Address): boolean {
    return address === this.address || this.#roster.lifeAt(address) !== undefined;
  }

  isLivingId(id: InstanceId): boolean {
    const known = this.knows(id);
    if (known === undefined) void this.settle(id);
    return known ?? true;
  }

  /** Undefined: it may have begun since the last renewal; `settle` finds out. */
  knows(id: InstanceId): boolean | undefined {
    if (addressOf(id) === this.address) return id === this.#id;
    return this.#roster.knows(id);
  }

  /** Whether that life lives, asked for where it is not known. */
  async settle(id: InstanceId): Promise<boolean> {
    const known = this.knows(id);
    if (known !== undefined) return known;
    const confirmed = this.#confirmedAt;
    await this.renew();
    if (this.#roster.knows(id)) return true;
    // Where the renewal failed nothing was learnt.
    if (this.#confirmedAt !== confirmed) this.#roster.isGone(id);
    return false;
  }

  /** Of every other living process. */
  others(): readonly Address[] {
    return this.#roster.others;
  }

  /** The life that has this address now, as far as known. */
  lifeAt(address: Address): InstanceId | undefined {
    return address === this.address ? this.#id : this.#roster.lifeAt(address);
  }

  /** Redis's time in milliseconds, at most a round trip ahead of it; 0 before the first renewal. */
  redisNow(): number {
    if (this.#redisTime === 0) return 0;
    return this.#redisTime + this.#options.monotonic() - this.#confirmedAt;
  }

  /** Resolves as soon as this instance may act, or has stopped. */
  async acting(): Promise<void> {
    while (!this.#stopped && !this.mayAct()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  describe(info: () => InstanceInfo): void {
    this.#describe = info;
  }

  /** Resolves once a renewal that was begun after this call has been answered or has failed. */
  renew(): Promise<void> {
    if (this.#stopped) return Promise.resolve();
    if (!this.#renewing) {
      this.#renewing = this.#renewOnce().finally(() => {
        this.#renewing = undefined;
      });
      return this.#renewing;
    }
    this.#next ??= this.#renewing.then(() => {
      this.#next = undefined;
      return this.renew();
    });
    return this.#next;
  }

  onDead(recover: Recover): void {
    this.#recover = recover;
    if (this.#confirmed > 0) void this.renew();
  }
  /** What else is cleared when a life is over; as with `onDead`. */
  alsoClear(clear: (dead: InstanceId) => Promise<void>): void {
    this.#clear.push(clear);
  }
  onFenced(listener: (was: InstanceId, now: InstanceId) => void): void {
    this.#fenced.push(listener);
  }
  onBack(listener: (lost: boolean) => void): void {
    this.#back.push(listener);
  }

  beforeLeaving(work: () => Promise<void>): void {
    this.#leaving.push(work);
  }

  async leave(): Promise<void> {
    if (this.#stopped) return;
    for (const before of this.#leaving) await before();
    this.stop();
    // What is on its way would only be answered with `dead` afterwards.
    await this.#renewing;
    try {
      await this.#redis.run(leaveScript, this.#keys, [this.#id]);
    } catch (error) {
      // The lease runs out then, and somebody finds nothing to recover.
      if (error instanceof RedisRefused) this.#options.signals.internalError('leave', error);
    }
  }

  /** No more renewals: the lease runs out unless it was given up. */
  stop(): void {
    this.#stopped = true;
    this.#confirmedAt = Number.NEGATIVE_INFINITY;
    this.#timer?.cancel();
    this.#stopListening();
    this.#wake();
  }

  async #renewOnce(): Promise<void> {
    this.#timer?.cancel();
    const id = this.#id;
    const sentAt = this.#options.monotonic();
    const asked = this.#options.shared.ownNow();
    const silent = sentAt - this.#confirmedAt;
    this.#beat += 1;
    const beat = this.#beat;
    const longAgo = this.#confirmed > 0 && silent > TOMBSTONE / 2 ? 1 : 0;
    if (this.#confirmed > 0 && silent >= MAY_ACT) this.#away = true;
    try {
      const answer = readRenewal(
        await this.#redis.run(renewScript, this.#keys, [
          id,
          beat,
          this.#confirmed,
          this.#told(),
          longAgo,
          ...this.#roster.carried,
        ]),
      );
      this.#refused = false;
      if (this.#stopped) return;
      if (!answer) {
        this.#fence();
        return;
      }
      for (const key of answer.broken) this.#options.signals.unreadable(key, 'another type than it must be; deleted');
      this.#confirmed = beat;
      this.#confirmedAt = sentAt;
      this.#redisTime = answer.now;
      this.#options.shared.learn(answer.now, asked);
      this.#roster.learn(answer, id);
      this.#lead = { id: answer.lead, from: answer.leadsFrom };
      this.#lost ||= answer.lost;
      if (!this.mayAct()) {
        // The answer was long on its way, or this process was stopped meanwhile: it proves nothing about now.
        this.#away = true;
        this.#schedule(1);
        return;
      }
      const [back, lost] = [this.#away || this.#lost, this.#lost];
      this.#away = false;
      this.#lost = false;
      this.#wake();
      if (back) for (const listener of this.#back) this.#tell('back', () => listener(lost));
      for (const dead of answer.mine) void this.#takeOver(dead);
      this.#schedule(answer.lost ? 1 : this.#untilNext(sentAt));
    } catch (error) {
      this.#away = true;
      if (error instanceof RedisRefused && !this.#refused) {
        this.#refused = true;
        this.#options.signals.internalError('renewal', error);
      }
      this.#schedule(AGAIN);
    }
  }

  #schedule(ms: number): void {
    if (this.#stopped) return;
    this.#timer?.cancel();
    this.#timer = this.#options.clock.after(Math.max(1, ms), () => void this.renew());
  }

  /** A second after the last was sent, or just when a lease that nobody renews is over. */
  #untilNext(sentAt: number): number {
    const { monotonic } = this.#options;
    let next = RENEW_EACH - (monotonic() - sentAt);
    const now = this.redisNow();
    for (const { id, expires } of this.#roster.leases) {
      if (id === this.#id) continue;
      const left = expires - now;
      if (left > 0 && left < next) next = left + LATER + Math.random() * JITTER;
    }
    return next;
  }

  #told(): string {
    try {
      const info = { ...this.#describe() };
      let text = JSON.stringify(info);
      while (text.length > MOST_INFO / 4 && Buffer.byteLength(text) > MOST_INFO) {
        // What is largest goes, so that the rest can be seen.
        const [largest = ''] = Object.keys(info).sort((a, b) => sizeOf(info[b]) - sizeOf(info[a]));
        this.#options.signals.bound('instance-info', { without: largest, bytes: Buffer.byteLength(text) });
        delete info[largest];
        text = JSON.stringify(info);
      }
      return text;
    } catch (error) {
      this.#options.signals.internalError('instance-info', error);
      return '{}';
    }
  }

  /** Declared dead: whatever this life held is somebody else's now. */
  #fence(): void {
    const was = this.#id;
    this.#life += 1;
    this.#id = lifeOf(this.address, this.#life);
    this.#beat = 0;
    this.#confirmed = 0;
    this.#confirmedAt = Number.NEGATIVE_INFINITY;
    this.#redisTime = 0;
    this.#lead = undefined;
    this.#lost = false;
    this.#roster.over(was);
    this.#recovering.clear();
    this.#recovered.clear();
    for (const listener of this.#fenced) this.#tell('fenced', () => listener(was, this.#id));
    this.#schedule(1);
  }

  #tell(what: string, tell: () => void): void {
    try {
      tell();
    } catch (error) {
      this.#options.signals.internalError(what, error);
    }
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const go of waiting) go();
  }

  async #takeOver(dead: InstanceId): Promise<void> {
    const recover = this.#recover;
    if (!recover || this.#recovering.has(dead)) return;
    const by = this.#id;
    this.#recovering.add(dead);
    let handled = this.#recovered.has(dead);
    try {
      if (!handled) {
        // Each to its end: a claim that is given up while one still runs would have two at work on the same calls.
        const work = [recover(dead, addressOf(dead)), ...this.#clear.map((clear) => clear(dead))];
        for (const done of await Promise.allSettled(work)) if (done.status === 'rejected') throw done.reason;
        handled = true;
        if (this.#id === by) this.#recovered.add(dead);
      }
    } catch (error) {
      if (!(error instanceof Unavailable)) this.#options.signals.internalError('recovery', error);
    }
    try {
      await this.#redis.run(claimOverScript, this.#keys, [by, dead, handled ? 1 : 0]);
      if (this.#id === by) this.#recovered.delete(dead);
    } catch (error) {
      // The claim is still ours: the next renewal says so, and this is tried again.
      if (error instanceof RedisRefused) this.#options.signals.internalError('recovery', error);
    } finally {
      if (this.#id === by) this.#recovering.delete(dead);
    }
  }
}

const sizeOf = (value: unknown): number => JSON.stringify(value)?.length ?? 0;
