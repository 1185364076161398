// bare-binary, forged-connect-error, binary-ack and namespace-ack in the middle of a call that is served here: what the
// legacy must see it sees, and the call is none the worse for it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Client, callsNew, connect, type Stack, startStack } from '../harness.js';
import { type Hand, hand } from './hand.js';

let stack: Stack;
let count = 0;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

const token = (user: string) => JSON.stringify({ token: stack.legacy.tokens.issue({ id: user, name: user }) });

/** A call that b has answered; a is by hand. */
async function inCall(transport: string, ns = ''): Promise<{ a: Hand; b: Client; conversationId: string }> {
  const [ua, ub] = [`packets-${++count}-a`, `packets-${count}-b`] as const;
  const options = { transports: ['websocket'], ...(ns ? { ns: ns.slice(0, -1) } : {}) };
  const b = await connect(stack.proxy.url, ub, options);
  const a = await hand(transport, stack.proxy.url, `40${ns}${token(ua)}`);
  const conversationId = `dm:${ua}:${ub}`;
  await a.send(`42${ns}0["call-offer",{"conversationId":"${conversationId}","offer":"o"}]`);
  expect(await a.next()).toBe(`43${ns}0[{"ok":true}]`);
  await b.ask('call-answer', { conversationId, answer: 'a' });
  expect(await a.next()).toMatch(/^42.*\["call-answer"/);
  return { a, b, conversationId };
}

const over = test.each(['websocket', 'polling']);

over('bare-binary: closes that session as direct, and its call waits for a rejoin, over %s', async (transport) => {
  const direct = await hand(transport, stack.legacy.url, `40${token('bare')}`);
  await direct.send(Buffer.from([1]));
  const { a, b, conversationId } = await inCall(transport);
  await a.send(Buffer.from([1]));
  expect(await a.next()).toBe(await direct.next());
  expect(await b.next('call-peer-disconnected')).toMatchObject({ conversationId });
  expect(await b.ask('call-end', { conversationId })).toEqual({ ok: true });
  b.close();
});

for (const forged of ['442["x"]', '44{"message":"no"}', '44/calls,{"message":"no"}', '44']) {
  over(`forged-connect-error: ${forged} is as direct, over %s`, async (transport) => {
    const probe = '427["echo","still here"]';
    const direct = await hand(transport, stack.legacy.url, `40${token('forger')}`);
    await direct.send(forged);
    await direct.send(probe);
    const { a, b, conversationId } = await inCall(transport);
    await a.send(forged);
    await a.send(probe);
    const outcome = await a.next();
    expect(outcome).toBe(await direct.next());
    if (outcome.startsWith('43')) {
      // No forged refusal makes us forget who that is.
      await a.send(`428["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":{"n":1}}]`);
      expect(await a.next()).toBe('438[{"ok":true}]');
      expect(await b.next('ice-candidate')).toEqual({ n: 1 });
    } else expect(await b.next('call-peer-disconnected')).toMatchObject({ conversationId });
    for (const one of [a, direct]) one.end();
    b.close();
  });
}

over(
  'binary-ack: buffers in acknowledgements of the legacy’s and of ours, both directions, over %s',
  async (transport) => {
    const [ua, ub] = [`binary-${transport}-a`, `binary-${transport}-b`];
    const a = await connect(stack.proxy.url, ua, { transports: ['websocket'] });
    const b = await hand(transport, stack.proxy.url, `40${token(ub)}`);
    const conversationId = `dm:${ua}:${ub}`;
    await a.ask('call-offer', { conversationId, offer: Buffer.from([0]) });
    for (const n of [1, 2])
      await a.ask('ice-candidate', { conversationId, iceCandidate: { n, data: Buffer.from([n]) } });
    expect(await b.take(2)).toEqual([
      `451-["call-offer",{"conversationId":"${conversationId}","offer":{"_placeholder":true,"num":0},"fromUserId":"${ua}"}]`,
      '<00>',
    ]);
    // Ours.
    await b.send(
      `451-12["call-answer",{"conversationId":"${conversationId}","answer":{"_placeholder":true,"num":0}}]`,
      Buffer.from([3]),
    );
    expect(await b.take(3)).toEqual([
      '462-12[[{"n":1,"data":{"_placeholder":true,"num":0}},{"n":2,"data":{"_placeholder":true,"num":1}}]]',
      '<01>',
      '<02>',
    ]);
    expect(await a.next('call-answer')).toEqual({ conversationId, answer: Buffer.from([3]), fromUserId: ub });
    // The legacy's.
    await b.send('4213["blob",{"bytes":3}]');
    expect(await b.take(2)).toEqual(['461-13[{"ok":true,"data":{"_placeholder":true,"num":0}}]', '<000102>']);
    // The browser's to the legacy, with one of ours between its packets.
    await b.send('4214["ask-me",{}]');
    const asked = await b.take(2);
    const id = /^42(\d+)\["are-you-there"/.exec(asked.find((p) => p.includes('are-you-there')) ?? '')?.[1];
    await b.send(
      `4215["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":1}]`,
      `461-${id}[{"_placeholder":true,"num":0}]`,
      Buffer.from([9]),
      `451-16["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":{"_placeholder":true,"num":0}}]`,
      Buffer.from([8]),
    );
    const got = (await b.take(4)).toSorted();
    expect(got).toEqual([
      '4315[{"ok":true}]',
      '4316[{"ok":true}]',
      '451-["you-answered",{"answer":{"_placeholder":true,"num":0}}]',
      '<09>',
    ]);
    expect([await a.next('ice-candidate'), await a.next('ice-candidate')]).toEqual([1, Buffer.from([8])]);
    b.end();
    a.close();
  },
);

over('namespace-ack: `42/ns,7[…]` is answered `43/ns,7[…]`, by the legacy and by us, over %s', async (transport) => {
  const { a, b, conversationId } = await inCall(transport, '/calls,');
  await a.send(`40/presence,${token('elsewhere')}`);
  await a.take(2);
  await a.send(
    '42/presence,7["online"]',
    `42/calls,7["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":1}]`,
  );
  expect((await a.take(2)).map((p) => p.replace(/\[.*/, '')).toSorted()).toEqual(['43/calls,7', '43/presence,7']);
  await a.send(
    `451-/calls,8["ice-candidate",{"conversationId":"${conversationId}","iceCandidate":{"_placeholder":true,"num":0}}]`,
    Buffer.from([1]),
  );
  expect(await a.next()).toBe('43/calls,8[{"ok":true}]');
  await a.send('42/calls,9["call-offer",[]]');
  expect(await a.take(2)).toEqual([
    '42/calls,["error",{"event":"call-offer","message":"Malformed call-offer: payload must be an object"}]',
    '43/calls,9[{"ok":false,"error":"Malformed call-offer: payload must be an object"}]',
  ]);
  await a.send('42/calls,10["call-answer"]');
  expect(await a.take(2)).toEqual([
    '42/calls,["error",{"event":"call-answer","message":"Malformed call-answer: payload must be an object"}]',
    '43/calls,10[[]]',
  ]);
  expect([await b.next('ice-candidate'), await b.next('ice-candidate')]).toEqual([1, Buffer.from([1])]);
  a.end();
  b.close();
});

over('namespace-ack: a call of one namespace is none of the other’s, on one connection, over %s', async (transport) => {
  const [ua, ub] = [`two-${transport}-a`, `two-${transport}-b`];
  const one = { transports: ['websocket'] };
  const [b, c] = await Promise.all([
    connect(stack.proxy.url, ub, one),
    connect(stack.proxy.url, ub, { ...one, ns: '/calls' }),
  ]);
  const a = await hand(transport, stack.proxy.url, `40${token(ua)}`, `40/calls,${token(ua)}`);
  const conversationId = `dm:${ua}:${ub}`;
  const offer = (text: string) => `["call-offer",{"conversationId":"${conversationId}","offer":"${text}"}]`;
  await a.send(`421${offer('main')}`, `42/calls,1${offer('calls')}`);
  expect((await a.take(2)).toSorted()).toEqual(['43/calls,1[{"ok":true}]', '431[{"ok":true}]']);
  expect(await b.next('call-offer')).toMatchObject({ offer: 'main' });
  expect(await c.next('call-offer')).toMatchObject({ offer: 'calls' });
  await b.ask('call-answer', { conversationId, answer: 'main' });
  await c.ask('call-answer', { conversationId, answer: 'calls' });
  expect((await a.take(2)).map((p) => p.slice(0, 9)).toSorted()).toEqual(['42/calls,', '42["call-']);
  // Only the one socket leaves.
  await a.send('41/calls,');
  expect(await c.next('call-peer-disconnected')).toEqual({ conversationId, userId: ua });
  await a.send(`422["call-end",{"conversationId":"${conversationId}"}]`);
  expect(await a.next()).toBe('432[{"ok":true}]');
  expect(await b.next('call-ended')).toMatchObject({ reason: 'hangup' });
  expect(b.got.map(({ event }) => event)).toEqual(['call-offer', 'call-ended']);
  expect(c.got.map(({ event }) => event)).toEqual(['call-offer', 'call-peer-disconnected']);
  a.end();
  for (const client of [b, c]) client.close();
});
