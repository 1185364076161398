// Runs all cases of a test file at the same time, over one real Redis, each with keys of its own: they mostly wait for leases. Knows no
// case.
import { afterAll, beforeAll, test } from 'vitest';
import { type RedisServer, startRedis } from '../../test/redis/server.js';
import { Bed } from './cluster.fixture.js';

/** At the top of a file, once. `server` is there while cases run; `most` of them run at a time. */
export function atOnce(most = Number.POSITIVE_INFINITY): {
  readonly server: Pick<RedisServer, 'ask' | 'port'>;
  it(name: string, run: (bed: Bed) => Promise<void>): void;
} {
  let server: RedisServer | undefined;
  const cases: (() => void)[] = [];
  const next = (): void => cases.shift()?.();
  beforeAll(async () => {
    server = await startRedis();
    for (let i = Math.min(most, cases.length); i > 0; i--) next();
  });
  afterAll(() => server?.close());
  const running = (): RedisServer => {
    if (!server) throw new Error('only while cases run');
    return server;
  };
  return {
    server: {
      ask: (command, ...args) => running().ask(command, ...args),
      get port() {
        return running().port;
      },
    },
    it(name, run) {
      const result = new Promise<void>((resolve, reject) => {
        cases.push(() => {
          const bed = new Bed(running().url);
          void run(bed)
            .finally(() => bed.close())
            .then(resolve, reject)
            .finally(next);
        });
      });
      // Told by the test, which may be asked later.
      result.catch(() => undefined);
      test(name, () => result, 60_000);
    },
  };
}
