// Several instances' stores over one Redis, with a lease for each that a test takes away, and a link that loses replies. For tests.
import { randomUUID } from 'node:crypto';
import type { StartedPlace } from '../../test/redis/places.js';
import type { Address, InstanceId } from '../base/ids.js';
import { connectRedis } from '../redis/connection.js';
import { redisPlace } from '../redis/place.js';
import { type Redis, RedisAway } from '../redis/redis.js';
import { redisSessionStore } from './redis.js';
import { dueAfterAMinute } from './store.contract.js';
import type { DueAt, SessionStore } from './store.js';

/** What becomes of a command: it goes through, only its reply is lost, it is lost itself, or it never ends. */
export type Fate = 'through' | 'reply-lost' | 'lost' | 'hangs';

export interface Instance {
  readonly store: SessionStore;
  readonly address: Address;
  /** The life that it has now. */
  life: number;
  readonly id: InstanceId;
  mayAct: boolean;
  /** Its clock goes on by so many milliseconds. */
  later(ms: number): void;
  /** Of each command from now on, by its name. */
  fate: (name: string) => Fate;
  /** Lost commands, which a network can still bring: executes them now. */
  deliverLost(): Promise<readonly unknown[]>;
  readonly asked: string[];
  readonly unreadable: string[];
}

export interface Population {
  instance(name: string, tidyEvery?: number): Promise<Instance>;
  kill(instance: Instance): void;
  /** Every key with its time to live, in milliseconds. */
  keys(): Promise<readonly { readonly key: string; readonly ttl: number }[]>;
  /** Writes something under the key that no script of ours wrote. */
  spoil(kind: string, tag: string, ...command: string[]): Promise<string>;
  flush(): Promise<void>;
  close(): Promise<void>;
}

export async function population(place: StartedPlace, dueAt: DueAt = dueAfterAMinute): Promise<Population> {
  const prefix = `test-${randomUUID()}`;
  const living = new Set<Instance>();
  const all: { readonly instance: Instance; readonly redis: Redis }[] = [];
  const link = await connectRedis({ place: redisPlace(place.url.split(',')), prefix });

  async function keys(): Promise<{ key: string; ttl: number }[]> {
    const found = await Promise.all(
      place.nodes.map(async (ask) => {
        const names: string[] = [];
        for (let cursor = '0'; ; ) {
          const [next, page] = (await ask('SCAN', cursor, 'MATCH', `${prefix}:*`, 'COUNT', 1_000)) as [
            string,
            string[],
          ];
          names.push(...page);
          cursor = next;
          if (cursor === '0') break;
        }
        return Promise.all(names.map(async (key) => ({ key, ttl: Number(await ask('PTTL', key)) })));
      }),
    );
    // A key that was gone meanwhile has no time to live, and is none. The probe of the link is not the store's.
    return found.flat().filter(({ key, ttl }) => ttl !== -2 && !key.startsWith(`${prefix}:probe:`));
  }

  async function flush(): Promise<void> {
    for (const { key } of await keys()) await link.call('DEL', key);
  }

  return {
    async instance(name, tidyEvery) {
      const redis = await connectRedis({ place: redisPlace(place.url.split(',')), prefix });
      const address = name as Address;
      const lost: (() => Promise<unknown>)[] = [];
      const asked: string[] = [];
      const unreadable: string[] = [];
      const through = (command: string, send: () => Promise<unknown>): Promise<unknown> => {
        asked.push(command);
        switch (instance.fate(command)) {
          case 'through':
            return send();
          case 'reply-lost':
            return send().then(() => Promise.reject(new RedisAway('the reply is lost', true)));
          case 'lost':
            lost.push(send);
            return Promise.reject(new RedisAway('lost', true));
          case 'hangs':
            return new Promise(() => undefined);
        }
      };
      const lossy: Redis = {
        ...redis,
        run: (script, names, args) => through(script.name, () => redis.run(script, names, args)),
        call: (command, ...args) => through(command.toLowerCase(), () => redis.call(command, ...args)),
      };
      let ahead = 0;
      const store = redisSessionStore({
        redis: lossy,
        address,
        id: () => instance.id,
        mayAct: () => instance.mayAct,
        isLivingId: (id) => [...living].some((one) => one.id === id),
        dueAt,
        now: () => Date.now() + ahead,
        ...(tidyEvery === undefined ? {} : { tidyEvery }),
        signals: {
          unreadable: (key) => void unreadable.push(key),
          internalError: (where, error) => {
            throw new Error(where, { cause: error });
          },
        },
      });
      const instance: Instance = {
        store,
        address,
        life: 1,
        get id() {
          return `${address}.${this.life}` as InstanceId;
        },
        mayAct: true,
        later: (ms) => {
          ahead += ms;
        },
        fate: () => 'through',
        deliverLost: () => Promise.all(lost.splice(0).map((send) => send())),
        asked,
        unreadable,
      };
      living.add(instance);
      all.push({ instance, redis });
      return instance;
    },
    kill(instance) {
      living.delete(instance);
      instance.mayAct = false;
    },
    keys,
    async spoil(kind, tag, command = '', ...args) {
      const key = link.key(kind, tag);
      await link.call('DEL', key);
      await link.call(command, key, ...args);
      return key;
    },
    flush,
    async close() {
      await Promise.all(all.map(({ instance }) => instance.store.close()));
      await flush();
      await Promise.all([link, ...all.map(({ redis }) => redis)].map((redis) => redis.close()));
    },
  };
}
