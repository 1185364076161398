// Engine.IO 4 knows no binary POSTs: 400, and the session that sent one is over, as without the proxy. No other is.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack } from '../harness.js';
import { Polling } from '../transparency/clients.js';

let stack: Stack;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

const bodies: [string, Buffer][] = [
  ['bytes', Buffer.from([4, 0x32, 0xff])],
  ['a served event', Buffer.from('42["call-offer",{"conversationId":"dm:octet-0:octet-1","offer":"o"}]')],
  ['nothing', Buffer.alloc(0)],
];

test.each(bodies)('octet-stream-post: of %s, as direct, and only that session ends', async (_what, body) => {
  const other = await connect(stack.proxy.url, 'octet-1', { transports: ['polling'] });
  const outcome = async (url: string) => {
    const polling = await Polling.open(url);
    await polling.post(`40{"token":"${stack.legacy.tokens.issue({ id: 'octet-0', name: 'octet-0' })}"}`);
    await polling.packets(1);
    const posted = await polling.post(body, { 'content-type': 'application/octet-stream' });
    const after = await polling.get();
    return [posted.status, posted.text, posted.headers, after.status, after.text];
  };
  const proxied = await outcome(stack.proxy.url);
  expect(proxied).toEqual(await outcome(stack.legacy.url));
  expect(proxied[0]).toBe(400);
  expect(await other.ask('whoami')).toMatchObject({ ok: true });
  expect(other.got).toEqual([]);
  other.close();
});
