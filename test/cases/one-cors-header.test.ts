// A browser drops an answer with two Access-Control-Allow-Origin headers: there is exactly one, the legacy's.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack } from '../harness.js';
import { type Answer, ask, Polling } from '../transparency/clients.js';

const origin = 'https://app.example';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew, legacy: { corsOrigin: origin } });
});
afterAll(() => stack.close());

const cors = (answer: Answer) => answer.headers.filter((line) => /^(access-control|vary)/.test(line));

test('one-cors-header: on handshake, GETs, POSTs and refusals, whoever answers', async () => {
  const b = await connect(stack.proxy.url, 'cors-b', { transports: ['websocket'] });
  const expected = cors((await Polling.open(stack.legacy.url, '', { origin })).handshake);
  expect(expected.filter((line) => line.startsWith('access-control-allow-origin'))).toEqual([
    `access-control-allow-origin: ${origin}`,
  ]);
  const polling = await Polling.open(stack.proxy.url, '', { origin });
  const token = stack.legacy.tokens.issue({ id: 'cors-a', name: 'cors-a' });
  const conversationId = 'dm:cors-a:cors-b';
  const answers = {
    handshake: polling.handshake,
    posted: await polling.post(`40{"token":"${token}"}`, { origin }),
    connected: await polling.get({ origin }),
    // Wholly ours: a POST of which nothing is left, and the GET that brings its acknowledgement.
    served: await polling.post(`421["call-offer",{"conversationId":"${conversationId}","offer":"o"}]`, { origin }),
    acknowledged: await polling.get({ origin }),
    mixed: await polling.post(`422["call-end",{"conversationId":"${conversationId}"}]\x1e423["whoami"]`, { origin }),
    merged: await polling.get({ origin }),
    unknown: await ask(stack.proxy.url, '/socket.io/?EIO=4&transport=polling&sid=nope', { headers: { origin } }),
    goodbye: await polling.post('1', { origin }),
  };
  expect(answers.acknowledged.text).toBe('431[{"ok":true}]');
  for (const [what, answer] of Object.entries(answers)) expect([what, cors(answer)]).toEqual([what, expected]);
  b.close();
});

test('one-cors-header: without an Origin as without the proxy', async () => {
  const direct = await Polling.open(stack.legacy.url);
  const proxied = await Polling.open(stack.proxy.url);
  expect(cors(proxied.handshake)).toEqual(cors(direct.handshake));
});
