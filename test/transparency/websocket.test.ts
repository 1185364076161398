// WebSocket connections through the proxy are what they are without it: frames, acknowledgements, refusals, ends.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, type Socket } from 'socket.io';
import { bytes, frame, upgradeRequest, Ws } from './clients.js';
import { type Place, same, sameFor } from './same.js';

const connect = (place: Place, user: string, ns = '') => `40${ns}{"token":"${place.token(user)}"}`;

async function connected(place: Place, user: string): Promise<Ws> {
  const ws = await Ws.open(place.url);
  ws.send(connect(place, user));
  await ws.take(2);
  return ws;
}

same('connect, echo, acknowledgements, what is malformed', 12, {}, async (place, note) => {
  const ws = await Ws.open(place.url);
  note('101', ws.headers);
  note('open', await ws.next());
  ws.send(connect(place, 'ada'));
  note('connected', await ws.next());
  const packets = [
    '42["echo",1,"two",{"three":[3]}]',
    '427["echo",1e3,  1.0 ,"\\u0041",{"b":1,"a":2}]',
    '421["whoami"]',
    '422["chat-message",{"conversationId":"dm:ada:bob","text":"hi"}]',
    '423["chat-message",{"conversationId":"dm:eve:bob","text":"hi"}]',
    '42["chat-message"]',
    '424["join-conversation",{"conversationId":"dm:ada:bob"}]',
    '425["\\u0065cho","escaped name"]',
    '426["echo"]',
    '42["echo",null,true,""]',
  ];
  for (const packet of packets) {
    ws.send(packet);
    note(packet, await ws.next());
    if (packet.startsWith('423')) note('and', await ws.next());
  }
  // What nobody answers changes nothing for what follows.
  ws.send('42["unknown-event",1]', '4299["unknown-event",1]', '42["echo","still here"]');
  note('after unknown events', await ws.next());
  ws.close(1000);
  note('end', await ws.rest());
});

same('binary both ways, in events and in acknowledgements', 6, {}, async (place, note) => {
  const ws = await connected(place, 'ada');
  ws.send('451-["echo",{"_placeholder":true,"num":0}]', Buffer.from([1, 2, 3]));
  note('event', await ws.take(2));
  ws.send('452-9["echo",{"b":{"_placeholder":true,"num":1},"a":{"_placeholder":true,"num":0}}]');
  ws.send(Buffer.from([0]), Buffer.alloc(0));
  note('acknowledged', await ws.take(3));
  ws.send('4210["blob",{"bytes":70000}]');
  const [header, data] = await ws.take(2);
  note('large', header, data?.length);
  ws.send('4211["ask-me",{}]');
  const question = await ws.take(2);
  note('asked', question);
  const id = /^42(\d+)\["are-you-there"/.exec(question.find((p) => p.includes('are-you-there')) ?? '')?.[1];
  ws.send(`43${id}["yes"]`);
  note('answered', await ws.next());
  ws.send('4212["ask-me",{}]');
  const again = await ws.take(2);
  const second = /^42(\d+)\["are-you-there"/.exec(again.find((p) => p.includes('are-you-there')) ?? '')?.[1];
  ws.send(`461-${second}[{"_placeholder":true,"num":0}]`, Buffer.from('bytes'));
  note('answered with bytes', await ws.take(2));
  ws.send('43999["to nothing"]', '42["echo","still here"]');
  note('after', await ws.next());
  ws.close();
  note('end', await ws.rest());
});

same('fragments, pings of the WebSocket layer, empty messages between', 4, {}, async (place, note) => {
  const ws = await connected(place, 'ada');
  const send = (data: string | Buffer, fin: boolean) => ws.socket.send(data, { fin, binary: Buffer.isBuffer(data) });
  send('42["ec', false);
  ws.socket.ping('between');
  send('ho","in ', false);
  send('', false);
  send('pieces"]', true);
  note('fragments', await ws.take(2));
  ws.send('451-["echo",{"_placeholder":true,"num":0}]');
  send(Buffer.from([1]), false);
  ws.socket.ping('again');
  send(Buffer.from([2]), true);
  note('a fragmented attachment', await ws.take(3));
  ws.socket.pong('unasked');
  ws.send(`42["echo","${'ö'.repeat(40_000)}"]`);
  const long = await ws.next();
  note('long', long.length, long.slice(-20));
  ws.close(1000, 'done');
  note('end', await ws.rest());
});

same('namespaces', 10, {}, async (place, note) => {
  const ws = await connected(place, 'ada');
  ws.send(connect(place, 'ada', '/presence,'));
  note('presence', await ws.take(2));
  ws.send('42/presence,3["set-status",{"status":"away"}]');
  note('acknowledged there', await ws.next());
  ws.send('42/presence,4["online"]');
  note('online', await ws.next());
  ws.send(connect(place, 'ada', '/nowhere,'));
  note('nowhere', await ws.next());
  ws.send('40/calls,');
  note('without a token', await ws.next());
  ws.send('41/presence,');
  ws.send('42/presence,5["online"]', '42["echo","main lives"]');
  note('after leaving', await ws.next());
  ws.send(connect(place, 'ada', '/presence,'));
  note('again', await ws.take(2));
  ws.send('41', '42["echo","nobody hears"]', '42/presence,6["online"]');
  note('main left', await ws.next());
  ws.send(connect(place, 'ada'));
  note('main again', await ws.next());
  ws.close();
  note('end', await ws.rest());
});

for (const [code, reason] of [
  [1000, 'done'],
  [1001, ''],
  [3000, 'application'],
  [4000, 'r'.repeat(123)],
  [undefined, undefined],
] as const) {
  same(`the browser closes with ${code ?? 'no code'}`, 2, {}, async (place, note) => {
    const ws = await connected(place, 'ada');
    const [socket] = [...place.legacy.io.of('/').sockets.values()] as [Socket];
    const gone = once(socket, 'disconnect');
    ws.close(code, reason);
    const [why, detail] = await gone;
    note('the legacy saw', why, detail instanceof Error ? detail.message : (detail as object));
    note('the browser saw', await ws.rest());
  });
}

same('the browser vanishes without a close frame', 1, {}, async (place, note) => {
  const ws = await connected(place, 'ada');
  const [socket] = [...place.legacy.io.of('/').sockets.values()] as [Socket];
  const gone = once(socket, 'disconnect');
  ws.socket.terminate();
  note('the legacy saw', (await gone)[0]);
});

const ends: [string, (socket: Socket) => void][] = [
  ['disconnects the socket', (socket) => socket.disconnect()],
  ['disconnects the connection', (socket) => socket.disconnect(true)],
  ['closes the engine', (socket) => socket.conn.close()],
  ['discards the engine', (socket) => socket.conn.close(true)],
];
for (const [what, end] of ends) {
  same(`the legacy ${what}`, 1, {}, async (place, note) => {
    const ws = await connected(place, 'ada');
    const [socket] = [...place.legacy.io.of('/').sockets.values()] as [Socket];
    socket.emit('farewell', Buffer.from('last words'));
    end(socket);
    if (what === 'disconnects the socket') {
      note('packets', await ws.take(3));
      ws.send(connect(place, 'ada'));
      note('again', await ws.next());
      ws.close();
    }
    note('end', await ws.rest());
  });
}

same('a browser that answers no ping', 2, { pingIntervalMs: 150, pingTimeoutMs: 100 }, async (place, note) => {
  const ws = await connected(place, 'ada');
  const [socket] = [...place.legacy.io.of('/').sockets.values()] as [Socket];
  const gone = once(socket, 'disconnect');
  note('end', await ws.rest());
  note('the legacy saw', (await gone)[0]);
});

same('a browser that answers three pings', 4, { pingIntervalMs: 150, pingTimeoutMs: 2_000 }, async (place, note) => {
  const ws = await connected(place, 'ada');
  for (let i = 0; i < 3; i++) {
    note('ping', await ws.next());
    ws.send('3');
  }
  ws.send('42["echo","alive"]');
  note('alive', await ws.next());
  ws.close();
});

const oddities: [string, (string | Buffer)[]][] = [
  ['not a packet', ['hello']],
  ['an empty text', ['']],
  ['an unknown packet type', ['9']],
  ['an unknown Socket.IO type', ['48["x"]']],
  ['broken JSON', ['42["echo",{]']],
  ['an event without a name', ['42[]']],
  ['a name that is an object', ['42[{}]']],
  ['a name that is a number', ['42[7,"x"]']],
  ['a reserved name', ['42["disconnect"]']],
  ['a payload that is no list', ['42{"a":1}']],
  ['a bare binary frame', [Buffer.from([1, 2, 3])]],
  ['a text between a header and its attachment', ['451-["echo",{"_placeholder":true,"num":0}]', '42["echo",1]']],
  ['no attachments announced', ['450-["echo"]']],
  ['attachments without a number', ['45-["echo"]']],
  ['eleven attachments', ['4511-["echo"]', Buffer.from([1])]],
  ['a placeholder that is nowhere', ['451-["echo",{"_placeholder":true,"num":5}]', Buffer.from([1])]],
  ['a call event with a broken header', ['45x-["call-offer",{}]']],
  ['a forged connect error', ['44{"message":"x"}']],
  ['a forged connect error as an event', ['442["echo"]']],
  ['a second connect', ['40{"token":"nonsense"}']],
  ['an event of a namespace that was not joined', ['42/presence,["online"]']],
  ['an acknowledgement id with letters', ['42x["echo"]']],
  ['a huge acknowledgement id', ['4299999999999999999999["echo",1]']],
  ['engine.io ping from the browser', ['2']],
  ['an upgrade packet', ['5']],
  ['a noop', ['6']],
  ['a close packet', ['1']],
  ['an open packet', ['0']],
];
same('what is odd, each on a connection of its own', oddities.length, {}, async (place, note) => {
  for (const [what, packets] of oddities) {
    const ws = await connected(place, 'ada');
    ws.send(...packets);
    ws.send('428["echo","still here"]');
    const all: string[] = [];
    while (!all.at(-1)?.startsWith('close') && !all.at(-1)?.startsWith('438')) all.push(await ws.next());
    note(what, all);
    ws.socket.terminate();
  }
});

same('events before CONNECT', 2, {}, async (place, note) => {
  const ws = await Ws.open(place.url);
  ws.send('42["call-offer",{"conversationId":"dm:ada:bob","offer":{}}]', '42["echo",1]');
  note('end', await ws.rest());
  const refused = await Ws.open(place.url);
  refused.send('40{"token":"nonsense"}');
  note('refused', await refused.take(2));
  refused.send('42["echo",1]');
  note('end', await refused.rest());
});

const broken: [string, Buffer][] = [
  ['an unmasked frame', frame(1, '42["echo",1]', { masked: false })],
  ['a reserved opcode', frame(3, 'x')],
  ['a reserved control opcode', frame(11, '')],
  ['RSV1 without compression', frame(1, '42["echo",1]', { rsv: 4 })],
  ['RSV2', frame(1, '42["echo",1]', { rsv: 2 })],
  ['a fragmented ping', frame(9, '', { fin: false })],
  ['a ping over 125 bytes', frame(9, 'x'.repeat(126))],
  ['a continuation of nothing', frame(0, 'x')],
  ['a text inside a fragmented text', Buffer.concat([frame(1, '42[', { fin: false }), frame(1, '42["echo",1]')])],
  ['invalid UTF-8', frame(1, Buffer.from([0x34, 0xc3, 0x28]))],
  ['a close code of one byte', frame(8, Buffer.from([3]))],
  ['a close code that is reserved', frame(8, Buffer.from([0x03, 0xed]))],
  ['a close reason of invalid UTF-8', frame(8, Buffer.from([0x03, 0xe8, 0xc3, 0x28]))],
  ['a length over 2^53', Buffer.from([0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0])],
  ['a close with a code', frame(8, Buffer.from([0x03, 0xe8, 0x6f, 0x6b]))],
];
same('what breaks the WebSocket protocol', broken.length, {}, async (place, note) => {
  const request = upgradeRequest('/socket.io/?EIO=4&transport=websocket');
  for (const [what, frames] of broken) {
    const { text, error } = await bytes(place.url, request, 'maxPayload', frames);
    note(what, text.split('\r\n')[0]!, text.slice(text.indexOf('\r\n\r\n') + 4), error);
  }
});

same('compression that is offered is not negotiated, as by the legacy', 3, {}, async (place, note) => {
  const ws = await Ws.open(place.url, { deflate: true });
  note('101', ws.headers);
  ws.send(connect(place, 'ada'));
  note('open', await ws.take(2));
  ws.send(`421["echo","${'long '.repeat(1_000)}"]`);
  note('echo', (await ws.next()).length);
  ws.close();
});

sameFor(
  'a legacy that would compress: not negotiating that is the one difference',
  3,
  async () => {
    const http = createServer();
    const server = new Server(http, { perMessageDeflate: { threshold: 0 } });
    server.on('connection', (socket) => socket.on('echo', (text: string) => socket.emit('echo', text)));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}`, close: async () => await server.close() };
  },
  async (url, note) => {
    const ws = await Ws.open(url, { deflate: true });
    note(
      '101',
      ws.headers.filter((line) => !line.startsWith('sec-websocket-extensions')),
    );
    ws.send('40');
    note('open', await ws.take(2));
    ws.send(`42["echo","${'long '.repeat(1_000)}"]`);
    note('echo', await ws.next());
    ws.close();
  },
);

same('a cookie with the 101, subprotocols, headers that the legacy sees', 4, { cookie: true }, async (place, note) => {
  const seen: unknown[] = [];
  place.legacy.io.engine.on('connection', (socket: { request: { headers: Record<string, unknown> } }) => {
    const {
      host,
      origin,
      cookie,
      authorization,
      'x-own': own,
      'sec-websocket-extensions': ext,
    } = socket.request.headers;
    seen.push({ host: typeof host, origin, cookie, authorization, own, ext });
  });
  const ws = await Ws.open(place.url, {
    headers: { origin: 'http://elsewhere', cookie: 'a=1; b=2', authorization: 'Bearer x', 'x-own': 'ünicode' },
  });
  note('101', ws.headers);
  note('open', await ws.next());
  note('seen', seen);
  ws.close();
  const withProtocol = await Ws.open(place.url, { protocols: ['chat', 'superchat'] });
  note('subprotocol', withProtocol.headers, withProtocol.socket.protocol);
  note('first', await withProtocol.next());
  withProtocol.socket.terminate();
});
