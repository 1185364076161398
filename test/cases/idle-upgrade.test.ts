// An idle polling session upgrades: its pending poll is released within about 100 ms and not at the next ping.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack, within } from '../harness.js';
import { ask, Polling, Ws } from '../transparency/clients.js';

/** A loaded machine is slow, the next ping is 25 s away. */
const aMoment = 2_000;

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

async function idle(url: string): Promise<Polling> {
  const polling = await Polling.open(url);
  await polling.post(`40{"token":"${stack.legacy.tokens.issue({ id: 'idle', name: 'idle' })}"}`);
  await polling.packets(1);
  return polling;
}

test.each(['direct', 'proxied'])('idle-upgrade: the pending poll is released at the probe, %s', async (way) => {
  const url = way === 'direct' ? stack.legacy.url : stack.proxy.url;
  const polling = await idle(url);
  const pending = polling.get();
  const ws = await Ws.open(url, { query: `&sid=${polling.sid}` });
  ws.send('2probe');
  expect(await ws.next()).toBe('3probe');
  expect((await within(aMoment, 'the poll is released', pending)).text).toBe('6');
  ws.send('5', '421["echo","by websocket"]');
  expect(await within(aMoment, 'the WebSocket answers', ws.next())).toBe('431["by websocket"]');
  ws.socket.terminate();
});

test('idle-upgrade: what is served here and now comes by poll before the `5` and by WebSocket after it', async () => {
  const b = await connect(stack.proxy.url, 'idle-b', { transports: ['websocket'] });
  const polling = await idle(stack.proxy.url);
  const conversationId = 'dm:idle:idle-b';
  const pending = polling.get();
  const ws = await Ws.open(stack.proxy.url, { query: `&sid=${polling.sid}` });
  await b.ask('call-offer', { conversationId, offer: 'o' });
  expect((await within(aMoment, 'the offer comes by the pending poll', pending)).text).toBe(
    `42["call-offer",${JSON.stringify({ conversationId, offer: 'o', fromUserId: 'idle-b' })}]`,
  );
  const next = polling.get();
  ws.send('2probe');
  expect(await ws.next()).toBe('3probe');
  expect((await within(aMoment, 'the poll is released', next)).text).toBe('6');
  await b.ask('call-end', { conversationId });
  const ended = `42["call-ended",${JSON.stringify({ conversationId, reason: 'hangup', userId: 'idle-b' })}]`;
  ws.send('5');
  expect(await within(aMoment, 'the end comes by WebSocket', ws.next())).toBe(ended);
  expect((await ask(stack.proxy.url, polling.path)).status).toBe(400);
  ws.socket.terminate();
  b.close();
});
