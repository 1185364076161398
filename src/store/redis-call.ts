// One conversation in Redis: its keys, its scripts, and what is made of their answers. Knows nothing of indexes and of other calls.

import { createHash } from 'node:crypto';
import { type Late, Unavailable, Unreadable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import { tagOf } from '../redis/keys.js';
import { type Redis, RedisRefused, type Script } from '../redis/redis.js';
import { readSession, writeSession } from './format.js';
import type { KnownSessions } from './known.js';
import * as scripts from './redis-scripts.js';

/** An operation that was called off can still be on a connection that was given up: until Redis has surely read that. */
export const VOID_MS = 600_000;
/** As long as it is known that a call has ended. */
const DISCARDED_MS = 60_000;

export class RedisCall {
  readonly #redis: Redis;
  readonly #known: KnownSessions;
  readonly #marks = new WeakMap<Session, string>();

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
    this.#marks.set(session, markOf(text));
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

  /** As it is to be stored: its text, and the mark by which the next change finds that it is still this one. */
  written(session: Session): readonly [text: string, mark: string] {
    const text = writeSession(session);
    const mark = markOf(text);
    this.#marks.set(session, mark);
    return [text, mark];
  }

  /** Of a session that was read, written, or came in a message: those are equal where their texts are. */
  mark(session: Session): string {
    return this.#marks.get(session) ?? this.written(session)[1];
  }

  /** Whether an operation was executed, and then what it gave; otherwise it never will be. */
  settle<T extends boolean | Late>(
    key: CallKey,
    op: string,
    then: (made: boolean, given: readonly string[]) => T,
  ): () => Promise<T> {
    const { session, ended, void: called, given } = this.keys(key);
    return async () => {
      const answer = await this.#redis.run(scripts.settle, [session, ended, called, given], [op, VOID_MS]);
      const [made, ...items] = Array.isArray(answer) ? (answer as unknown[]) : [];
      return then(made === 1, items.map(String));
    };
  }

  /** Whatever stands there. */
  async discard(key: CallKey): Promise<void> {
    const { keptFor, void: called, ...keys } = this.keys(key);
    await this.#redis.run(scripts.discard, [called, ...Object.values(keys), ...Object.values(keptFor)], [DISCARDED_MS]);
  }

  #meant(key: CallKey, error: unknown): unknown {
    return error instanceof RedisRefused && error.message.includes('WRONGTYPE')
      ? new Unreadable(this.keys(key).session, 'a key of another type')
      : error;
  }
}

/** Enough that no two changes of one session have the same. */
const markOf = (text: string): string => createHash('sha1').update(text).digest('base64url').slice(0, 16);
