// A served event over the legacy's limit ends the session as direct, however it comes; one within it is served.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack } from '../harness.js';
import { Polling, Ws } from '../transparency/clients.js';

const maxPayload = 2_000;
let stack: Stack;
let count = 0;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew, legacy: { maxPayload } });
});
afterAll(() => stack.close());

const auth = (user: string) => JSON.stringify({ token: stack.legacy.tokens.issue({ id: user, name: user }) });

/** A `call-offer` of so many bytes. */
function offer(conversationId: string, size: number): string {
  const around = `421["call-offer",${JSON.stringify({ conversationId, offer: '' })}]`;
  return around.replace('"offer":""', `"offer":"${'x'.repeat(size - around.length)}"`);
}

const sends: [what: string, send: (ws: Ws, packet: string) => void][] = [
  ['in one frame', (ws, packet) => ws.send(packet)],
  [
    'in many fragments',
    (ws, packet) => {
      for (let at = 0; at < packet.length; at += 100)
        ws.socket.send(packet.slice(at, at + 100), { fin: at + 100 >= packet.length });
    },
  ],
  [
    'in an attachment',
    (ws, packet) => {
      ws.send(
        `451-1["call-offer",${JSON.stringify({ conversationId: /dm:[^"]+/.exec(packet)?.[0], offer: { _placeholder: true, num: 0 } })}]`,
      );
      ws.send(Buffer.alloc(packet.length));
    },
  ],
];

describe('an offer over WebSocket', () => {
  test.each(sends)('%s: served up to the limit, and over it the session ends as direct', async (_what, send) => {
    const b = await connect(stack.proxy.url, `large-${++count}-b`, { transports: ['websocket'] });
    const user = `large-${count}-a`;
    const conversationId = `dm:${user}:${b.user}`;
    const outcome = async (url: string, size: number) => {
      const ws = await Ws.open(url);
      ws.send(`40${auth(user)}`);
      await ws.take(2);
      send(ws, offer(conversationId, size));
      const answer = await ws.next();
      ws.socket.terminate();
      return answer;
    };
    expect(await outcome(stack.proxy.url, maxPayload)).toBe('431[{"ok":true}]');
    await b.next('call-offer');
    await b.next('call-ended');
    expect(await outcome(stack.proxy.url, maxPayload + 1)).toBe(await outcome(stack.legacy.url, maxPayload + 1));
    expect(b.got.map(({ event }) => event)).toEqual(['call-offer', 'call-ended']);
    b.close();
  });
});

test('an offer by polling: served up to the limit, and over it 413 as direct', async () => {
  const b = await connect(stack.proxy.url, `large-${++count}-b`, { transports: ['websocket'] });
  const user = `large-${count}-a`;
  const conversationId = `dm:${user}:${b.user}`;
  const outcome = async (url: string, size: number) => {
    const polling = await Polling.open(url);
    await polling.post(`40${auth(user)}`);
    await polling.packets(1);
    const posted = await polling.post(offer(conversationId, size));
    const got = await polling.get();
    await polling.post('1');
    return [posted.status, posted.text, posted.headers, got.status, got.text];
  };
  expect((await outcome(stack.proxy.url, maxPayload))[4]).toBe('431[{"ok":true}]');
  await b.next('call-offer');
  await b.next('call-ended');
  expect(await outcome(stack.proxy.url, maxPayload + 1)).toEqual(await outcome(stack.legacy.url, maxPayload + 1));
  expect(b.got.map(({ event }) => event)).toEqual(['call-offer', 'call-ended']);
  b.close();
});
