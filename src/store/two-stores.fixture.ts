// Two instances' stores over a Redis of the test file's own, anew for each test, and a call with a seat on each. For tests.
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import type { Address } from '../base/ids.js';
import type { Session } from '../call/session.js';
import { type Instance, type Population, population } from './redis.fixture.js';
import { sessionOf, socket } from './store.contract.js';

export interface TwoStores {
  readonly server: RedisServer;
  readonly all: Population;
  readonly a: Instance;
  readonly b: Instance;
}

export function useTwoStores(): TwoStores {
  const two = {} as { -readonly [Name in keyof TwoStores]: TwoStores[Name] };
  beforeAll(async () => {
    two.server = await startRedis();
  });
  afterAll(() => two.server.close());
  beforeEach(async () => {
    const { server } = two;
    two.all = await population({ url: server.url, nodes: [server.ask], close: async () => undefined });
    [two.a, two.b] = [await two.all.instance('a'), await two.all.instance('b')];
  });
  afterEach(() => two.all.close());
  return two;
}

export const call = (change: Partial<Session> = {}): Session =>
  sessionOf({
    seats: { offerer: socket('a1', 1, 'a' as Address), answerer: socket('b1', 2, 'b' as Address) },
    ...change,
  });

export const next = (session: Session, change: Partial<Session> = {}): Session => ({
  ...session,
  version: session.version + 1,
  ...change,
});
