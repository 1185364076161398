// Reads the stream of this process. What was read is trimmed in the background; after any trouble it is read from its beginning
// again and what was seen is left out by its sender's count, since the ids of a failed-over Redis prove nothing. Knows no topic.

import type { Clock, Timer } from '../base/clock.js';
import type { Address, InstanceId } from '../base/ids.js';
import { type Redis, RedisRefused } from '../redis/redis.js';
import { readAddress } from './lives.js';
import { mend } from './mend.js';
import { streamKeys } from './outbox.js';
import type { ClusterSignals } from './told.js';

/** At once: what this process holds of it at a time. */
const COUNT = 256;
/** Milliseconds that Redis waits with its answer; short, so that a connection that is silently gone is noticed. */
const BLOCK = 1_500;
const AGAIN = 200;
/** Milliseconds from reading to trimming, and how much is trimmed sooner. */
const [TRIM_AFTER, TRIM_AT] = [1_000, 512];
/** Senders whose count is remembered: more than run at a time by far. */
const MOST_SENDERS = 1_024;

export interface InboxOptions {
  readonly redis: Redis;
  readonly address: Address;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  /** This process's life now: what was sent to an earlier one is left out. */
  readonly life: () => InstanceId;
  /** Nothing is told while this instance may not act: by then it may be another life. */
  readonly acting: () => Promise<void>;
  readonly deliver: (topic: string, text: string) => void;
}

interface Entry {
  readonly id: string;
  readonly fields: ReadonlyMap<string, string>;
}

export class Inbox {
  readonly #options: InboxOptions;
  readonly #key: string;
  /** Up to which it was read, on this connection to this Redis. */
  #read = '0-0';
  #untrimmed = 0;
  #trim: Timer | undefined;
  readonly #seen = new Map<Address, number>();
  #closed = false;
  #pause: { readonly timer: Timer; readonly end: () => void } | undefined;

  constructor(options: InboxOptions) {
    this.#options = options;
    this.#key = streamKeys(options.redis, options.address)[0];
  }

  /** Until `close`. */
  async run(): Promise<void> {
    while (!this.#closed) {
      try {
        const answer = await this.#options.redis.waiting(
          'XREAD',
          'COUNT',
          COUNT,
          'BLOCK',
          BLOCK,
          'STREAMS',
          this.#key,
          this.#read,
        );
        const entries = readEntries(answer);
        if (entries.length === 0) continue;
        await this.#options.acting();
        if (this.#closed) return;
        for (const entry of entries) this.#take(entry);
        this.#done(entries.length);
      } catch (error) {
        this.#read = '0-0';
        if (error instanceof RedisRefused) {
          const { redis, signals } = this.#options;
          await mend(redis, signals, { key: this.#key, kind: 'stream', error });
        }
        await this.#rest();
      }
    }
  }

  /** Redis is back, maybe with other data: reads on at once, from the beginning of what is there. */
  hurry(): void {
    this.#read = '0-0';
    this.#pause?.end();
  }

  close(): void {
    this.#closed = true;
    this.#trim?.cancel();
    this.#pause?.end();
  }

  #take({ id, fields }: Entry): void {
    this.#read = id;
    const from = readAddress(fields.get('f'));
    const number = Number(fields.get('n'));
    const topic = fields.get('t');
    const text = fields.get('b');
    if (!from || !Number.isSafeInteger(number) || number < 1 || topic === undefined || text === undefined) {
      this.#options.signals.unreadable(this.#key, 'an entry that is no message; left out');
      return;
    }
    const seen = this.#seen.get(from) ?? 0;
    if (number <= seen) return;
    if (number > seen + 1) this.#options.signals.bound('messages-missed', { from, count: number - seen - 1 });
    this.#seen.delete(from);
    this.#seen.set(from, number);
    if (this.#seen.size > MOST_SENDERS) {
      for (const oldest of this.#seen.keys()) {
        this.#seen.delete(oldest);
        break;
      }
    }
    const life = fields.get('l');
    if (life !== '' && life !== this.#options.life()) return;
    this.#options.deliver(topic, text);
  }

  #done(count: number): void {
    this.#untrimmed += count;
    if (this.#untrimmed >= TRIM_AT) this.#cut();
    else this.#trim ??= this.#options.clock.after(TRIM_AFTER, () => this.#cut());
  }

  #cut(): void {
    this.#trim?.cancel();
    this.#trim = undefined;
    this.#untrimmed = 0;
    const next = after(this.#read);
    if (!next) return;
    this.#options.redis.call('XTRIM', this.#key, 'MINID', next).catch((error: unknown) => {
      // Trimmed with what is read next; without that it is bounded, and goes with its time to live.
      if (error instanceof RedisRefused) this.#options.signals.internalError('trim', error);
    });
  }

  #rest(): Promise<void> {
    if (this.#closed) return Promise.resolve();
    return new Promise((resolve) => {
      const end = (): void => {
        this.#pause?.timer.cancel();
        this.#pause = undefined;
        resolve();
      };
      this.#pause = { timer: this.#options.clock.after(AGAIN, end), end };
    });
  }
}

/** The id after this one; undefined where it is none, or nothing was read. */
function after(id: string): string | undefined {
  const match = /^(\d+)-(\d+)$/.exec(id);
  if (!match || id === '0-0') return undefined;
  return `${match[1]}-${BigInt(match[2] as string) + 1n}`;
}

/** What XREAD answers: `[[key, [[id, [field, value, …]], …]]]`, or null where nothing came. */
function readEntries(answer: unknown): Entry[] {
  const stream = Array.isArray(answer) ? (answer[0] as unknown) : undefined;
  const entries = Array.isArray(stream) ? (stream[1] as unknown) : undefined;
  if (!Array.isArray(entries)) return [];
  return entries.flatMap((entry: unknown) => {
    if (!Array.isArray(entry) || !Array.isArray(entry[1])) return [];
    const flat = entry[1] as unknown[];
    const fields = new Map<string, string>();
    for (let i = 0; i + 1 < flat.length; i += 2) fields.set(String(flat[i]), String(flat[i + 1]));
    return [{ id: String(entry[0]), fields }];
  });
}
