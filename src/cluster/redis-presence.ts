// Which user has which sockets on which instance, in a hash for each user. Told in the background, in batches, with a constant number
// of commands for each connect; a dead instance's sockets count no more as soon as its lease is over. Knows nothing of calls.

import type { Clock } from '../base/clock.js';
import type { Address, ConnectionNumber, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import { type Redis, RedisAway, RedisRefused } from '../redis/redis.js';
import type { LocalSockets } from './alone.js';
import type { Broker, Presence } from './cluster.js';
import { addressOf, readLife } from './lives.js';
import { mend } from './mend.js';
import { fieldOf, PresenceWriter, presenceKey } from './presence-writer.js';
import type { RedisLiveness } from './redis-liveness.js';
import type { ClusterSignals } from './told.js';

export interface PresenceOptions {
  readonly redis: Redis;
  readonly liveness: RedisLiveness;
  readonly broker: Broker;
  readonly sockets: LocalSockets;
  readonly signals: ClusterSignals;
  readonly clock: Clock;
  readonly monotonic: () => number;
}

/** Between instances: a user's sockets are to be written again by whoever holds them. */
const TOPIC = 'presence';

export class RedisPresence implements Presence {
  readonly #options: PresenceOptions;
  readonly writer: PresenceWriter;

  constructor(options: PresenceOptions) {
    this.#options = options;
    const { broker, liveness } = options;
    this.writer = new PresenceWriter({ ...options, refused: (ns, user, error) => this.#mend(ns, user, error) });
    broker.on(TOPIC, (body) => {
      const { ns, user } = (body ?? {}) as Readonly<Record<string, unknown>>;
      if (typeof ns === 'string' && typeof user === 'string') this.writer.again(ns, user);
    });
    liveness.alsoClear((dead) => this.writer.clear(dead));
  }

  add(peer: Peer): void {
    this.writer.add(peer);
  }

  remove(peer: Peer): void {
    this.writer.remove(peer);
  }

  /** What other instances hold is never known without asking. */
  peek(): undefined {
    return undefined;
  }

  async socketsOf(ns: Namespace, user: UserId): Promise<readonly SocketRef[]> {
    const { sockets, liveness } = this.#options;
    const fields = await this.#ask(ns, user, (key) => this.#options.redis.call('HGETALL', key));
    const found: SocketRef[] = [];
    for (const [field, life] of entriesOf(fields)) {
      const socket = readField(field);
      const id = readLife(life);
      if (!socket || !id) {
        this.#options.signals.unreadable(this.#key(ns, user), 'an entry that is no socket; left out');
        continue;
      }
      const at = addressOf(id);
      if (at === liveness.address || !(await liveness.settle(id))) continue;
      found.push({ ns, ...socket, at });
    }
    return [...sockets.socketsOf(ns, user), ...found];
  }

  isConnected(ref: SocketRef, user: UserId): boolean | Promise<boolean> {
    const { sockets, liveness } = this.#options;
    if (ref.at === undefined || ref.at === liveness.address) return sockets.isConnected(ref);
    return this.#isElsewhere(ref, ref.at, user);
  }

  async #isElsewhere(ref: SocketRef, at: Address, user: UserId): Promise<boolean> {
    const { liveness, redis } = this.#options;
    const life = await this.#ask(ref.ns, user, (key) => redis.call('HGET', key, fieldOf(ref)));
    const id = readLife(life);
    return id !== undefined && addressOf(id) === at && (await liveness.settle(id));
  }

  async #ask(ns: Namespace, user: UserId, ask: (key: string) => Promise<unknown>): Promise<unknown> {
    const { liveness } = this.#options;
    if (!liveness.mayAct()) throw new Unavailable('the lease of this instance is over');
    const key = this.#key(ns, user);
    try {
      return await ask(key);
    } catch (error) {
      if (error instanceof RedisAway) throw new Unavailable(error.message);
      if (!(error instanceof RedisRefused)) throw error;
      await this.#mend(ns, user, error);
      return null;
    }
  }

  async #mend(ns: string, user: string, error: RedisRefused): Promise<void> {
    const { redis, signals, broker } = this.#options;
    if (!(await mend(redis, signals, { key: this.#key(ns, user), kind: 'hash', error }))) return;
    this.writer.again(ns, user);
    broker.sendAll({ topic: TOPIC, body: { ns, user } });
  }

  #key(ns: string, user: string): string {
    return presenceKey(this.#options.redis, ns, user);
  }
}

function readField(field: string): Pick<SocketRef, 'id' | 'connection'> | undefined {
  const end = field.lastIndexOf('\n');
  const connection = Number(field.slice(end + 1));
  if (end < 1 || !Number.isSafeInteger(connection) || connection < 1) return undefined;
  return { id: field.slice(0, end) as SocketId, connection: connection as ConnectionNumber };
}

/** Of HGETALL, which drivers answer as a list or as an object. */
function entriesOf(answer: unknown): (readonly [string, unknown])[] {
  if (Array.isArray(answer)) {
    return Array.from({ length: answer.length >> 1 }, (_, i) => [String(answer[2 * i]), answer[2 * i + 1]] as const);
  }
  return typeof answer === 'object' && answer !== null ? Object.entries(answer) : [];
}
