// Messages between processes: each has a stream in Redis that only it reads, so that the work for a message does not grow with the
// number of processes. Knows topics only by name.

import type { Clock } from '../base/clock.js';
import type { Address } from '../base/ids.js';
import type { Redis } from '../redis/redis.js';
import type { Broker, Message } from './cluster.js';
import { Inbox } from './inbox.js';
import { Outbox, streamKeys } from './outbox.js';
import type { RedisLiveness } from './redis-liveness.js';
import type { ClusterSignals } from './told.js';

/** A message of a longer text is a mistake: a session at its largest is a fraction of it. */
const MOST_TEXT = 4 * 1_024 * 1_024;

export interface BrokerOptions {
  readonly redis: Redis;
  readonly liveness: RedisLiveness;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  readonly monotonic: () => number;
}

export class RedisBroker implements Broker {
  readonly #options: BrokerOptions;
  readonly #outboxes = new Map<Address, Outbox>();
  /** Where the count of those that were let go ended: one that began again would be taken for what was there before. */
  readonly #counts = new Map<Address, number>();
  readonly #listeners = new Map<string, (body: unknown) => void>();
  readonly #inbox: Inbox;
  readonly #stopListening: () => void;
  #closed = false;

  constructor(options: BrokerOptions) {
    this.#options = options;
    const { redis, liveness, signals, clock } = options;
    this.#inbox = new Inbox({
      redis,
      address: liveness.address,
      signals,
      clock,
      life: () => liveness.id,
      acting: () => liveness.acting(),
      deliver: (topic, text) => this.#deliver(topic, text),
    });
    this.#stopListening = redis.onWell((well) => {
      if (!well) return;
      this.#inbox.hurry();
      for (const outbox of this.#outboxes.values()) outbox.hurry();
    });
    liveness.onBack(() => this.#inbox.hurry());
    // What the life that is over had to say is not for anybody any more.
    liveness.onFenced(() => {
      for (const outbox of this.#outboxes.values()) outbox.clear();
    });
    void this.#inbox.run();
  }

  send(to: Address, message: Message): void {
    const text = this.#written(message);
    if (text !== undefined) this.#sendText(to, message.topic, text);
  }

  sendAll(message: Message): void {
    const text = this.#written(message);
    if (text === undefined) return;
    for (const address of this.#options.liveness.others()) this.#sendText(address, message.topic, text);
  }

  on(topic: string, listener: (body: unknown) => void): void {
    this.#listeners.set(topic, listener);
  }

  /** Resolves once all that was given is in Redis. */
  async drained(): Promise<void> {
    await Promise.all([...this.#outboxes.values()].map((outbox) => outbox.drained()));
  }

  /** Nothing comes to this process any more. */
  async forget(): Promise<void> {
    this.close();
    const { redis, liveness } = this.#options;
    await redis.call('DEL', ...streamKeys(redis, liveness.address));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stopListening();
    this.#inbox.close();
    for (const outbox of this.#outboxes.values()) outbox.close();
    this.#outboxes.clear();
  }

  #written({ topic, body }: Message): string | undefined {
    const text = JSON.stringify(body ?? null);
    if (text.length <= MOST_TEXT) return text;
    this.#options.signals.bound('message-size', { topic, bytes: text.length });
    return undefined;
  }

  #sendText(to: Address, topic: string, text: string): void {
    if (this.#closed) return;
    const { liveness, signals } = this.#options;
    const bytes = Buffer.byteLength(text);
    signals.message('out', topic, bytes);
    if (to === liveness.address) {
      // As it would come from elsewhere: later, and a copy.
      queueMicrotask(() => this.#deliver(topic, text));
      return;
    }
    this.#outbox(to).add(liveness.lifeAt(to) ?? '', topic, text, bytes);
  }

  #outbox(to: Address): Outbox {
    let outbox = this.#outboxes.get(to);
    if (outbox) return outbox;
    const { redis, liveness, signals, clock, monotonic } = this.#options;
    for (const [address, old] of this.#outboxes) {
      if (!old.empty || liveness.isLiving(address)) continue;
      old.close();
      this.#outboxes.delete(address);
      this.#counts.set(address, old.next);
    }
    outbox = new Outbox({ redis, from: liveness.address, to, signals, clock, monotonic }, this.#counts.get(to) ?? 1);
    this.#counts.delete(to);
    this.#outboxes.set(to, outbox);
    return outbox;
  }

  #deliver(topic: string, text: string): void {
    const { signals } = this.#options;
    if (this.#closed) return;
    let body: unknown;
    try {
      body = JSON.parse(text);
    } catch {
      signals.unreadable(
        this.#options.redis.key('stream', this.#options.liveness.address),
        'a message that is not JSON',
      );
      return;
    }
    signals.message('in', topic, Buffer.byteLength(text));
    try {
      this.#listeners.get(topic)?.(body);
    } catch (error) {
      signals.internalError(`message-${topic}`, error);
    }
  }
}
