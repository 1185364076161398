// What waits to be sent to one process, in order, until Redis has confirmed it. A lost reply is harmless: the script counts, so that a
// batch that comes again, or comes late, adds nothing twice, and one that overtook another waits. Knows nothing of who reads.

import type { Clock, Timer } from '../base/clock.js';
import type { Address, InstanceId } from '../base/ids.js';
import { type Arg, type Redis, RedisRefused, type Script } from '../redis/redis.js';
import { mend } from './mend.js';
import type { ClusterSignals } from './told.js';

/** For each process that is sent to: what is older, or over that, is dropped, the oldest first. */
const [MOST_AGE, MOST_BYTES] = [30_000, 16 * 1_024 * 1_024];
/** One script call blocks Redis for well under a millisecond with this much. */
const [BATCH, BATCH_BYTES] = [128, 512 * 1_024];
/** Batches on their way at once, so that a distant Redis delays a message by one round trip and not by those before it. */
const MOST_FLYING = 8;
const AGAIN = 200;
/** In the stream of a process that does not read: it is dead before there are as many, or Redis would fill up. */
const MOST_KEPT = 16_384;
/** Milliseconds after the last message: longer than any outage after which somebody still wants what is there. */
const TTL = 600_000;
/** Senders that a process remembers the count of. One that is forgotten counts from what it still has. */
const MOST_SENDERS = 512;

/**
 * KEYS: stream, counts of senders. ARGV: sender, number of its oldest message that is not confirmed, number of the first here, then for
 * each: life that it is for, topic, body. Answers the number up to which all is in the stream.
 */
export const sendScript: Script = {
  name: 'send',
  lua: `local from, base, first = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local last = tonumber(redis.call('HGET', KEYS[2], from) or '')
local expected = base
if last and last + 1 > expected then expected = last + 1 end
if first > expected then return expected - 1 end
for i = 4, #ARGV, 3 do
  local number = first + (i - 4) / 3
  if number >= expected then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ${MOST_KEPT}, '*', 'f', from, 'n', number, 'l', ARGV[i], 't', ARGV[i + 1], 'b', ARGV[i + 2])
    expected = number + 1
  end
end
if not last and redis.call('HLEN', KEYS[2]) > ${MOST_SENDERS} then redis.call('DEL', KEYS[2]) end
redis.call('HSET', KEYS[2], from, expected - 1)
redis.call('PEXPIRE', KEYS[1], ${TTL})
redis.call('PEXPIRE', KEYS[2], ${TTL})
return expected - 1`,
};

export const streamKeys = (redis: Redis, to: Address): readonly [stream: string, counts: string] => [
  redis.key('stream', to),
  redis.key('senders', to),
];

interface Waiting {
  readonly life: InstanceId | '';
  readonly topic: string;
  readonly text: string;
  readonly bytes: number;
  readonly at: number;
}

export interface OutboxOptions {
  readonly redis: Redis;
  readonly from: Address;
  readonly to: Address;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  readonly monotonic: () => number;
}

export class Outbox {
  readonly #options: OutboxOptions;
  readonly #keys: readonly [stream: string, counts: string];
  /** Unconfirmed, oldest first; the first has the number `#base`. Numbers begin at 1. */
  #queue: Waiting[] = [];
  #base: number;
  /** Number of the next to be sent. */
  #next: number;
  #bytes = 0;
  #flying = 0;
  /** Something failed: what flies is awaited, then all that is unconfirmed goes again, one batch before any other. */
  #trouble = false;
  #again: Timer | undefined;
  #scheduled = false;
  #closed = false;
  #refused = 0;
  #idle: (() => void)[] = [];

  /** `first`: the number of its first message; 1, or where an earlier one of the same two processes ended. */
  constructor(options: OutboxOptions, first: number) {
    this.#options = options;
    this.#base = first;
    this.#next = first;
    this.#keys = streamKeys(options.redis, options.to);
  }

  get empty(): boolean {
    return this.#queue.length === 0;
  }

  /** The number of the next message to be given where all were confirmed or forgotten. */
  get next(): number {
    return this.#base + this.#queue.length;
  }

  /** What is given in one turn of the event loop goes out together. */
  add(life: InstanceId | '', topic: string, text: string, bytes: number): void {
    if (this.#closed) return;
    this.#queue.push({ life, topic, text, bytes, at: this.#options.monotonic() });
    this.#bytes += bytes;
    if (this.#bytes > MOST_BYTES) this.#drop('bytes');
    if (this.#scheduled || this.#trouble) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      this.#pump();
    });
  }

  /** Redis is back: now instead of a little later. */
  hurry(): void {
    if (!this.#trouble || this.#flying > 0) return;
    this.#again?.cancel();
    this.#resend();
  }

  /** Forgets what was not sent. */
  clear(): void {
    this.#base += this.#queue.length;
    this.#next = Math.max(this.#next, this.#base);
    this.#queue = [];
    this.#bytes = 0;
    this.#rest();
  }

  /** Resolves once nothing waits. */
  drained(): Promise<void> {
    return this.empty ? Promise.resolve() : new Promise((resolve) => this.#idle.push(resolve));
  }

  close(): void {
    this.#closed = true;
    this.#again?.cancel();
    this.clear();
  }

  #pump(): void {
    const most = this.#trouble ? 1 : MOST_FLYING;
    while (!this.#closed && this.#flying < most) {
      const index = this.#next - this.#base;
      if (index >= this.#queue.length) return;
      const batch: Waiting[] = [];
      let bytes = 0;
      for (let i = index; i < this.#queue.length && batch.length < BATCH; i++) {
        const message = this.#queue[i] as Waiting;
        if (batch.length > 0 && bytes + message.bytes > BATCH_BYTES) break;
        batch.push(message);
        bytes += message.bytes;
      }
      void this.#send(batch);
    }
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    const { redis, from } = this.#options;
    const first = this.#next;
    const end = first + batch.length;
    const probe = this.#trouble;
    this.#next = end;
    this.#flying += 1;
    const args: Arg[] = [from, this.#base, first];
    for (const { life, topic, text } of batch) args.push(life, topic, text);
    let there = 0;
    try {
      there = Number(await redis.run(sendScript, this.#keys, args));
      this.#refused = 0;
    } catch (error) {
      if (error instanceof RedisRefused) await this.#mend(error, end);
    }
    this.#flying -= 1;
    this.#confirm(there);
    if (!(there >= end - 1)) this.#trouble = true;
    else if (probe) this.#trouble = false;
    if (!this.#trouble) this.#pump();
    else if (this.#flying === 0 && !this.#closed) {
      this.#again?.cancel();
      this.#again = this.#options.clock.after(AGAIN, () => this.#resend());
    }
  }

  #resend(): void {
    this.#drop('age');
    this.#next = this.#base;
    if (this.empty) this.#trouble = false;
    this.#pump();
  }

  #confirm(number: number): void {
    const count = Math.min(this.#queue.length, Math.max(0, number - this.#base + 1));
    if (count > 0) this.#remove(count);
    this.#rest();
  }

  #remove(count: number): void {
    for (const { bytes } of this.#queue.splice(0, count)) this.#bytes -= bytes;
    this.#base += count;
    this.#next = Math.max(this.#next, this.#base);
  }

  #rest(): void {
    if (!this.empty) return;
    for (const done of this.#idle.splice(0)) done();
  }

  #drop(why: 'age' | 'bytes'): void {
    const oldest = this.#options.monotonic() - MOST_AGE;
    let count = 0;
    let bytes = this.#bytes;
    for (const message of this.#queue) {
      if (why === 'age' ? message.at >= oldest : bytes <= MOST_BYTES) break;
      bytes -= message.bytes;
      count += 1;
    }
    if (count === 0) return;
    this.#remove(count);
    this.#rest();
    this.#options.signals.bound('messages-dropped', { to: this.#options.to, count, why });
  }

  /** A key held another type: deleted, and sent again. Where that does not help, the batch is given up. */
  async #mend(error: RedisRefused, end: number): Promise<void> {
    const { redis, signals } = this.#options;
    this.#refused += 1;
    if (this.#refused > 2) {
      signals.internalError('send', error);
      this.#confirm(end - 1);
      this.#refused = 0;
      return;
    }
    // Where neither key is of another type the second try is refused as well, and the batch is given up.
    const [stream, counts] = this.#keys;
    await mend(redis, signals, { key: stream, kind: 'stream', error });
    await mend(redis, signals, { key: counts, kind: 'hash', error });
  }
}
