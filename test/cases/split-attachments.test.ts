// A header and its attachments that travel apart: over POSTs, GETs and the upgrade between them. Whole or not at all.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { callsNew, connect, type Stack, startStack, within } from '../harness.js';
import { Polling, Ws } from '../transparency/clients.js';

let stack: Stack;
let count = 0;
beforeAll(async () => {
  stack = await startStack({ routes: callsNew });
});
afterAll(() => stack.close());

const bytes = [Buffer.from([1]), Buffer.from([2, 2]), Buffer.from([3, 3, 3])];
const item = (n: number) => `b${bytes[n]!.toString('base64')}`;
const places = bytes.map((_, n) => ({ _placeholder: true, num: n }));

async function pair() {
  const [ua, ub] = [`split-${++count}-a`, `split-${count}-b`] as const;
  const b = await connect(stack.proxy.url, ub, { transports: ['websocket'] });
  const a = await Polling.open(stack.proxy.url);
  await a.post(`40${JSON.stringify({ token: stack.legacy.tokens.issue({ id: ua, name: ua }) })}`);
  await a.packets(1);
  const conversationId = `dm:${ua}:${ub}`;
  const header = `453-7["call-offer",${JSON.stringify({ conversationId, offer: places })}]`;
  return { a, b, header, offered: { conversationId, offer: bytes, fromUserId: ua } };
}

/** The upgrade, with the poll that it releases. */
async function upgrade(a: Polling): Promise<Ws> {
  const pending = a.get();
  const ws = await Ws.open(stack.proxy.url, { query: `&sid=${a.sid}` });
  ws.send('2probe');
  expect(await ws.next()).toBe('3probe');
  expect((await pending).text).toBe('6');
  return ws;
}

test.each([0, 1, 2])(
  'a served event with %i of 3 attachments before the upgrade, the rest behind it',
  async (before) => {
    const { a, b, header, offered } = await pair();
    await a.post([header, ...bytes.slice(0, before).map((_, n) => item(n))].join('\x1e'));
    const ws = await upgrade(a);
    ws.send('5', ...bytes.slice(before));
    expect(await ws.next()).toBe('437[{"ok":true}]');
    expect(await b.next('call-offer')).toEqual(offered);
    ws.send('428["echo","still here"]');
    expect(await ws.next()).toBe('438["still here"]');
    ws.socket.terminate();
    b.close();
  },
);

test.each([0, 1, 2])('an event of the legacy’s with %i of 3 attachments before the upgrade', async (before) => {
  const { a, b } = await pair();
  const echo = `453-7["echo",${JSON.stringify(places)}]`;
  await a.post([echo, ...bytes.slice(0, before).map((_, n) => item(n))].join('\x1e'));
  const ws = await upgrade(a);
  ws.send('5', ...bytes.slice(before));
  expect(await ws.take(4)).toEqual([`463-7[${JSON.stringify(places)}]`, '<01>', '<0202>', '<030303>']);
  ws.socket.terminate();
  b.close();
});

test('a text in the place of an attachment behind the upgrade ends the session as direct', async () => {
  const { a, b, header } = await pair();
  await a.post(`${header}\x1e${item(0)}`);
  const ws = await upgrade(a);
  ws.send('5', '421["echo",1]');
  expect((await within(5_000, 'the session ends', ws.rest())).at(-1)).toMatch(/^close /);
  expect(b.got).toEqual([]);
  b.close();
});

test('a served event over four POSTs, with a heartbeat and an unanswered GET between', async () => {
  const { a, b, header, offered } = await pair();
  const pending = a.get();
  await a.post(header);
  await a.post(item(0));
  await a.post('3');
  await a.post(item(1));
  await a.post(`${item(2)}\x1e428["echo","next"]`);
  const got = (await pending).text.split('\x1e');
  while (got.length < 2) got.push(...(await a.packets(1)));
  expect(got.toSorted()).toEqual(['437[{"ok":true}]', '438["next"]']);
  expect(await b.next('call-offer')).toEqual(offered);
  await a.post('1');
  b.close();
});

test('one of ours never comes between a header of the legacy’s and its attachments, at the upgrade too', async () => {
  const { a, b } = await pair();
  const user = `split-${count}-a`;
  const [socket] = [...stack.legacy.io.of('/').sockets.values()].filter((s) => s.data.user.id === user);
  const conversationId = `dm:${user}:${b.user}`;
  const got: string[] = [];
  const events = 12;
  const pushing = (async () => {
    for (let n = 0; n < events; n++) {
      socket!.emit('theirs', n, ...bytes);
      await b.ask('ice-candidate', { conversationId, iceCandidate: n });
      await b.ask(n % 2 ? 'call-end' : 'call-offer', { conversationId, offer: { n, bytes } });
    }
  })();
  const ws = await Ws.open(stack.proxy.url, { query: `&sid=${a.sid}` });
  ws.send('2probe');
  let polling = true;
  const polls = (async () => {
    while (polling) got.push(...(await a.get()).text.split('\x1e'));
  })();
  expect(await ws.next()).toBe('3probe');
  polling = false;
  await polls;
  ws.send('5');
  await pushing;
  const expected = events + events; // Theirs, and an offer or an end of ours for each.
  const headers = () => got.filter((p) => p.startsWith('4')).length;
  while (headers() < expected || got.at(-1)!.startsWith('45')) got.push(await ws.next());
  while (attachmentsDue(got) > 0) got.push(await ws.next());
  expect(attachmentsDue(got)).toBe(0);
  expect(got.filter((p) => p.includes('"theirs"'))).toHaveLength(events);
  ws.socket.terminate();
  b.close();
});

/** Attachments that are still to come; throws where something else stands in their place. */
function attachmentsDue(packets: readonly string[]): number {
  let due = 0;
  for (const packet of packets) {
    if (packet === '6' || packet === '2') continue;
    const attachment = packet.startsWith('<') || packet.startsWith('b');
    if (attachment !== due > 0) throw new Error(`${packet} where ${due} attachments are due`);
    due = attachment ? due - 1 : Number(/^45(\d+)-/.exec(packet)?.[1] ?? 0);
  }
  return due;
}
