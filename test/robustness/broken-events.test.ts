// Threat: served events that are no events. The legacy closes a session over them, so they must reach it; whatever the
// table says, nobody may see a difference.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { allLegacy, callsNew, connect, type Stack, startStack, until } from '../harness.js';

const broken = {
  'broken JSON': '2["call-offer",{"conversationId":"dm:a:b",]',
  'a raw control character': '2["call-offer",{"conversationId":"dm:a:b","offer":"a\x1fb"}]',
  'no list': '2{"conversationId":"dm:a:b"}',
};

describe.each([
  ['legacy', allLegacy],
  ['new', callsNew],
])('with calls on %s', (_path, routes) => {
  let stack: Stack;
  beforeAll(async () => {
    stack = await startStack({ routes });
  });
  afterAll(() => stack.close());

  it.each(['websocket', 'polling'])('over %s the legacy closes the session', async (transport) => {
    for (const text of Object.values(broken)) {
      const client = await connect(stack.proxy.url, 'a', { transports: [transport] });
      client.socket.io.engine.write(text);
      await until(() => !client.socket.connected, 'it is closed');
      expect(client.got.filter(({ event }) => event === 'error')).toEqual([]);
    }
  });
});
