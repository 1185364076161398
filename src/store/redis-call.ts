// One conversation in Redis: its keys, its scripts, and what is made of their answers. Knows nothing of indexes and of other calls.

import { Unavailable, Unreadable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { type Redis, RedisRefused, type Script } from '../redis/redis.js';
import { readSession } from './format.js';
import type { KnownSessions } from './known.js';
import * as scripts from './redis-scripts.js';

/** An operation that was called off can still be on a connection that was given up: until Redis has surely read that. */
const VOID_MS = 600_000;

export class RedisCall {
  readonly #redis: Redis;
  readonly #known: KnownSessions;

  constructor(redis: Redis, known: KnownSessions) {
    this.#redis = redis;
    this.#known = known;
  }

  keys({ ns, conversationId }: CallKey) {
    const tag = tagOf(ns, conversationId);
    const key = (kind: string): string => this.#redis.key(kind, tag);
    return {
      session: key('session'),
      ended: key('ended'),
      claim: key('claim'),
      void: key('void'),
      keptFor: { offerer: key('kept-o'), answerer: key('kept-a') } as const,
      given: key('given'),
    };
  }

  /** Answers as texts. @throws RedisAway, Unreadable */
  async run(
    script: Script,
    key: CallKey,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<string[]> {
    try {
      const answer = await this.#redis.run(script, keys, args);
      return (Array.isArray(answer) ? answer : [answer]).map((one) => String(one ?? ''));
    } catch (error) {
      throw this.#meant(key, error);
    }
  }

  /** @throws RedisAway, Unreadable */
  async get(key: CallKey): Promise<Session | null> {
    let answer: unknown;
    try {
      answer = await this.#redis.call('HMGET', this.keys(key).session, 'f', 'd', 'c');
    } catch (error) {
      throw this.#meant(key, error);
    }
    const [format, text, call] = Array.isArray(answer) ? (answer as (string | null)[]) : [];
    if (format === null && text === null && call === null) return this.gone(key);
    return this.inForce(key, format ?? '', text ?? '');
  }

  /** What a script answered as in force. @throws Unreadable */
  inForce(key: CallKey, format = '', text = ''): Session {
    const session = readSession(key, format, text);
    if (typeof session === 'string') throw new Unreadable(this.keys(key).session, session);
    this.#known.inForce(session);
    return session;
  }

  gone(key: CallKey): null {
    this.#known.absent(key);
    return null;
  }

  /** Of a script that changed nothing. @throws Unreadable, Unavailable */
  found(key: CallKey, [word, format, text]: readonly string[]): Session | null {
    if (word === 'there') return this.inForce(key, format, text);
    if (word === 'broken') throw new Unreadable(this.keys(key).session, 'not whole: cut short or changed by hand');
    if (word === 'void') throw new Unavailable('the change was called off');
    return this.gone(key);
  }

  /** Whether an operation was executed; otherwise it never will be. */
  settle(key: CallKey, op: string, then: (made: boolean) => void): () => Promise<boolean> {
    const { session, ended, void: called } = this.keys(key);
    return async () => {
      const made = (await this.#redis.run(scripts.settle, [session, ended, called], [op, VOID_MS])) === 1;
      then(made);
      return made;
    };
  }

  /** Whatever stands there. */
  async discard(key: CallKey): Promise<void> {
    const { keptFor, ...keys } = this.keys(key);
    await this.#redis.call('DEL', ...Object.values(keys), ...Object.values(keptFor));
  }

  #meant(key: CallKey, error: unknown): unknown {
    return error instanceof RedisRefused && error.message.includes('WRONGTYPE')
      ? new Unreadable(this.keys(key).session, 'a key of another type')
      : error;
  }
}
