// The guard over two instances: neither has samples enough to say anything, both together have, and the group goes back on both as one
// version. Limits and sums: src/control/summed.test.ts.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { GuardBody, HistoryBody, StatusBody } from '../../src/admin/api.js';
import { until } from '../harness.js';
import { type Bed, type Instance, startBed } from './bed.js';

const routes = `namespaces:
  /:
    calls: { mode: new, guard: { window: 60s, min-samples: 12, max-p99: 10s } }
`;

let bed: Bed;
beforeEach(async () => {
  // Nobody grants tickets there, so every offer is refused for a fault that a legacy never has.
  const nobody = 'http://127.0.0.1:1';
  bed = await startBed({ routes, args: ['--ticket-url', `${nobody}/ticket`, '--tickets-url', 'none'] });
});
afterEach(() => bed.close());

const json = async <T>(url: string): Promise<T> => (await (await fetch(url)).json()) as T;
const guardOn = async ({ admin }: Instance): Promise<GuardBody | undefined> =>
  (await json<StatusBody>(`${admin}/api/status`)).guard.find(({ group }) => group === 'call-lifecycle');
const historyOf = async ({ admin }: Instance) => (await json<HistoryBody>(`${admin}/api/routes/history`)).versions;

/** Each of four users on that instance offers twice. */
async function refusedOn(instance: Instance): Promise<void> {
  const users = [1, 2, 3, 4].map((i) => `${instance.name}-u${i}`);
  const clients = await Promise.all(users.map((user) => bed.on(instance, user)));
  for (let round = 0; round < 2; round++) {
    for (const [i, client] of clients.entries()) {
      const conversationId = `dm:${users[i]}:${users[(i + 1) % 4]}`;
      const answer = await client.ask('call-offer', { conversationId, offer: `o${round}` });
      expect(answer).toMatchObject({ error: expect.stringContaining('unavailable') });
    }
  }
}

describe('the guard of two instances', () => {
  it('sums what they counted, and takes the group back once for both', { timeout: 60_000 }, async () => {
    const [one, two] = bed.instances as [Instance, Instance];
    await refusedOn(one);
    await until(async () => (await guardOn(two))?.figures.samples === 8, 'two shows what one has counted');
    expect(await guardOn(two)).toMatchObject({ state: 'inconclusive', figures: { event: 'call-offer', refusals: 8 } });
    await refusedOn(two);
    for (const instance of [one, two]) {
      await until(async () => (await guardOn(instance))?.state === 'tripped', `tripped on ${instance.name}`, 10_000);
    }
    const [history, other] = await Promise.all([one, two].map(historyOf));
    expect(history).toEqual(other);
    expect(history?.map(({ kind }) => kind)).toEqual(['guard', 'start']);
    expect(history?.[0]?.reason).toMatch(/^call-offer: 1\d of 1\d \(100 %, limit 5 %\) .*, over 2 instances$/);
  });
});
