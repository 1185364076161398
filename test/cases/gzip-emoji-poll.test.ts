// A compressed poll answer with emoji decodes to the same packets, also where something of ours waits for that GET.
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack } from '../harness.js';
import { type Answer, Polling } from '../transparency/clients.js';
import { same } from '../transparency/same.js';

const gzip = { 'accept-encoding': 'gzip' };
const emoji = (times: number) => '👩‍👩‍👧‍👦 ünï😀\u2028'.repeat(times);

const packets = (answer: Answer): string[] => {
  const compressed = answer.headers.includes('content-encoding: gzip');
  return (compressed ? gunzipSync(answer.body) : answer.body).toString('utf8').split('\x1e');
};

same('gzip-emoji-poll: decodes to the same packets', 4, {}, async (place, note) => {
  const polling = await Polling.open(place.url);
  await polling.post(`40{"token":"${place.token('ada')}"}`);
  await polling.packets(1);
  for (const times of [1, 20, 100, 5_000]) {
    await polling.post(`421["echo","${emoji(times)}"]\x1e451-2["echo",{"_placeholder":true,"num":0}]\x1eb8J+YgA==`);
    const got: string[] = [];
    const encodings: string[] = [];
    while (got.length < 3) {
      const answer = await polling.get(gzip);
      got.push(...packets(answer));
      encodings.push(...answer.headers.filter((h) => h.startsWith('content-encoding')));
    }
    note(`${times} times`, got, encodings);
  }
});

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

test('gzip-emoji-poll: an event that we serve beside it comes whole and once', async () => {
  const b = await connect(stack.proxy.url, 'gzip-b', { transports: ['websocket'] });
  const token = stack.legacy.tokens.issue({ id: 'gzip-a', name: 'gzip-a' });
  const polling = await Polling.open(stack.proxy.url);
  await polling.post(`40{"token":"${token}"}`);
  await polling.packets(1);
  const conversationId = 'dm:gzip-a:gzip-b';
  await b.ask('call-offer', { conversationId, offer: { sdp: emoji(200) } });
  await polling.post(`421["echo","${emoji(200)}"]`);
  const got: string[] = [];
  while (got.length < 2) got.push(...packets(await polling.get(gzip)));
  const offer = JSON.stringify(['call-offer', { conversationId, offer: { sdp: emoji(200) }, fromUserId: 'gzip-b' }]);
  expect(got.toSorted()).toEqual([`42${offer}`, `431["${emoji(200)}"]`]);
  await polling.post('1');
  b.close();
});
