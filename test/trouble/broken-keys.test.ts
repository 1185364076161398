// Somebody else wrote into our keys, or a newer version did: that call ends with `call-ended`, one log line names the key, and
// everything else goes on.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Bed, heard, type Instance, inCall, startBed, talk } from '../cluster/bed.js';
import { until } from '../harness.js';
import { callBetween } from './outage.js';

let bed: Bed;
beforeEach(async () => {
  bed = await startBed({ instances: 2 });
});
afterEach(() => bed.close());

const sessionKey = async (conversationId: string): Promise<string> => {
  const keys = (await bed.redis.ask('KEYS', 'sigfig:session:*')) as string[];
  const found = keys.filter((key) => key.includes(conversationId) || key.includes(encodeURIComponent(conversationId)));
  expect(found, keys.join(' ')).toHaveLength(1);
  return found[0] as string;
};

const breakIt: readonly [string, (key: string) => Promise<unknown>][] = [
  [
    'is of another type',
    async (key) => {
      await bed.redis.ask('DEL', key);
      return bed.redis.ask('SET', key, 'not ours', 'EX', 600);
    },
  ],
  [
    'is cut short',
    async (key) => {
      const fields = (await bed.redis.ask('HGETALL', key)) as string[];
      for (let i = 0; i < fields.length; i += 2) {
        const [field, value] = [fields[i] as string, fields[i + 1] as string];
        if (value.startsWith('{')) await bed.redis.ask('HSET', key, field, value.slice(0, value.length / 2));
      }
    },
  ],
  [
    'was written by a newer version',
    async (key) => {
      await bed.redis.ask('HSET', key, 'f', '2', 'd', JSON.stringify({ state: 'IN_ORBIT', everything: 'else' }));
    },
  ],
];

describe('a session', () => {
  it.each(breakIt)(
    'that %s: that call ends, one line names its key, and everything else goes on',
    async (what, broken) => {
      const [one, two] = bed.instances as [Instance, Instance];
      const { a, b, conversationId } = await callBetween(bed, one, two, 'broken');
      const other = await callBetween(bed, one, two, 'other');
      const key = await sessionKey(conversationId);
      await broken(key);
      await a.ask('call-renegotiate-offer', { conversationId, offer: 're' });
      for (const party of [a, b]) {
        expect(await party.next('call-ended'), what).toMatchObject({ conversationId, reason: 'operator' });
        expect(heard(party).filter((name) => name.startsWith('call-ended'))).toHaveLength(1);
      }
      await talk(other.conversationId, other.a, other.b);
      // The key is gone, and the same two can call each other again.
      await until(async () => (await bed.redis.ask('EXISTS', key)) === 0, 'the key is gone');
      a.forget();
      b.forget();
      await inCall(a, b);
      const lines = [one, two].flatMap(({ stderr }) => stderr().split('\n')).filter((line) => line.includes(key));
      expect(lines.length, lines.join('\n')).toBeGreaterThanOrEqual(1);
      expect(lines.length, lines.join('\n')).toBeLessThanOrEqual(2);
    },
  );
});
