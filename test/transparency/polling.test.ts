// Long polling through the proxy is what it is without it, and so is the upgrade out of it.
import { once } from 'node:events';
import http from 'node:http';
import type { Socket } from 'socket.io';
import { ask, Polling, Ws } from './clients.js';
import { type Place, same } from './same.js';

const connect = (place: Place, user: string, ns = '') => `40${ns}{"token":"${place.token(user)}"}`;

async function connected(place: Place, user: string): Promise<Polling> {
  const polling = await Polling.open(place.url);
  await polling.post(connect(place, user));
  await polling.packets(1);
  return polling;
}

const onlySocket = (place: Place): Socket => [...place.legacy.io.of('/').sockets.values()][0] as Socket;

same('handshake, connect, events, acknowledgements, binary', 12, {}, async (place, note) => {
  const polling = await Polling.open(place.url, '&extra=1', { origin: 'http://elsewhere' });
  note('handshake', polling.handshake.status, polling.handshake.headers, polling.handshake.text);
  const posted = await polling.post(connect(place, 'ada'));
  note('posted', posted.status, posted.headers, posted.text);
  const got = await polling.get();
  note(
    'connected',
    got.status,
    got.headers.filter((h) => !h.startsWith('content-length')),
    got.text,
  );
  await polling.post('42["echo",1,  1e3,"\\u0041"]\x1e421["whoami"]');
  note('two at once', await polling.packets(2));
  await polling.post('451-["echo",{"_placeholder":true,"num":0}]\x1ebAQID');
  note('binary', await polling.packets(2));
  await polling.post('452-7["echo",{"a":{"_placeholder":true,"num":1},"b":{"_placeholder":true,"num":0}}]');
  await polling.post('bAA==');
  await polling.post('b');
  note('a header and its attachments, each on its own', await polling.packets(3));
  await polling.post('428["blob",{"bytes":5000}]');
  const blob = await polling.packets(2);
  note('blob', blob[0]!, blob[1]!.length);
  await polling.post('42["unknown"]\x1e42["echo","emoji 😀 ünïcode"]');
  note('unicode', await polling.packets(1));
  await polling.post(`${connect(place, 'ada', '/presence,')}\x1e42/presence,1["online"]`);
  note('namespace', await polling.packets(3));
  note('bad chat', (await polling.post('429["chat-message",{"conversationId":"dm:eve:bob","text":"x"}]')).text);
  note('refused', await polling.packets(2));
  const pending = polling.get();
  const bye = await polling.post('1');
  note('close', bye.status, bye.text);
  const last = await pending;
  note('the pending one', last.status, last.text);
  const after = await polling.get();
  note('after', after.status, after.text);
});

const ends: [string, (polling: Polling, place: Place) => Promise<unknown[]>][] = [
  [
    'a second GET',
    async (polling) => {
      const first = polling.get();
      // The second must come second.
      await polling.post('42["echo",1]');
      await first;
      const pending = polling.get();
      const [a, b] = await Promise.all([pending, new Promise((go) => setImmediate(go)).then(() => polling.get())]);
      return [a, b].map(({ status, text }) => `${status} ${text}`).sort();
    },
  ],
  ['an empty POST', async (polling) => shown(await polling.post(''))],
  ['a POST of nonsense', async (polling) => shown(await polling.post('nonsense'))],
  ['a POST of an unknown type', async (polling) => shown(await polling.post('9'))],
  [
    'octet-stream',
    async (polling) =>
      shown(await polling.post(Buffer.from([4, 0x32]), { 'content-type': 'application/octet-stream' })),
  ],
  ['a separator alone', async (polling) => shown(await polling.post('\x1e'))],
  ['broken JSON', async (polling) => shown(await polling.post('42["echo",{]'))],
  ['a bare attachment', async (polling) => shown(await polling.post('bAQID'))],
  [
    'text in place of an attachment',
    async (polling) => shown(await polling.post('451-["echo",{"_placeholder":true,"num":0}]\x1e42["echo",1]')),
  ],
  ['eleven attachments', async (polling) => shown(await polling.post('4511-["echo"]'))],
  [
    'the legacy disconnects',
    async (polling, place) => {
      const pending = polling.get();
      onlySocket(place).disconnect(true);
      return shown(await pending);
    },
  ],
  [
    'the legacy closes the engine',
    async (polling, place) => {
      const pending = polling.get();
      onlySocket(place).conn.close();
      return shown(await pending);
    },
  ],
  ['too large', async (polling) => shown(await polling.post(`42["echo","${'x'.repeat(3_000)}"]`))],
  [
    'too large in chunks',
    async (polling) => {
      const { status, text } = await chunked(polling, ['42["echo","', 'x'.repeat(1_500), 'x'.repeat(1_500), '"]']);
      return [status, text];
    },
  ],
  [
    'as large as allowed',
    async (polling) => {
      const packet = `42["echo","${'x'.repeat(2_000 - 13)}"]`;
      return [packet.length, ...shown(await polling.post(packet)), (await polling.packets(1))[0]?.length];
    },
  ],
];
const shown = ({ status, text, headers }: { status: number; text: string; headers: readonly string[] }): unknown[] => [
  status,
  text,
  headers,
];

async function chunked(polling: Polling, parts: readonly string[]): Promise<{ status: number; text: string }> {
  const request = http.request(polling.base + polling.path, {
    method: 'POST',
    agent: false,
    headers: { 'content-type': 'text/plain;charset=UTF-8' },
  });
  const answered = once(request, 'response') as Promise<[http.IncomingMessage]>;
  request.on('error', () => undefined); // The answer may come before the whole body went out.
  for (const part of parts) request.write(part);
  request.end();
  const [response] = await answered;
  let text = '';
  for await (const part of response) text += String(part);
  return { status: response.statusCode ?? 0, text };
}

same('what ends a session, or just does not', ends.length * 2, { maxPayload: 2_000 }, async (place, note) => {
  for (const [what, end] of ends) {
    const polling = await connected(place, 'ada');
    note(what, await end(polling, place));
    const posted = await polling.post('42["echo","still here"]');
    note('then', posted.status, posted.text);
    if (posted.status === 200) note('and', await polling.packets(1));
    await polling.post('1');
  }
});

same('a browser that abandons its waiting GET', 2, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  const gone = once(onlySocket(place), 'disconnect');
  const request = http.get(polling.base + polling.path, { agent: false });
  request.on('error', () => undefined); // Abandoning it is the point.
  await once(request, 'socket');
  const asked = once(place.legacy.io.httpServer, 'request');
  await asked;
  request.destroy();
  note('the legacy saw', (await gone)[0]);
  const after = await polling.get();
  note('after', after.status, after.text);
});

same('requests that are no session', 12, {}, async (place, note) => {
  const tries: [string, string?][] = [
    ['/socket.io/?EIO=4&transport=polling&sid=nope'],
    ['/socket.io/?EIO=4&transport=polling&sid=nope', 'POST'],
    ['/socket.io/?EIO=4&transport=polling', 'POST'],
    ['/socket.io/?EIO=4&transport=polling', 'PUT'],
    ['/socket.io/?EIO=4&transport=polling', 'DELETE'],
    ['/socket.io/?EIO=4&transport=polling', 'OPTIONS'],
    ['/socket.io/?EIO=4&transport=nope'],
    ['/socket.io/?EIO=4'],
    ['/socket.io/?EIO=4&transport=websocket'],
    ['/socket.io/?EIO=4&transport=webtransport'],
    ['/socket.io/?EIO=3&transport=polling'],
    ['/socket.io/?EIO=5&transport=polling'],
    ['/socket.io/?transport=polling'],
    ['/socket.io/'],
    ['/socket.io'],
    ['/socket.io/?EIO=4&transport=polling&transport=websocket'],
    ['/socket.io/?EIO=4&transport=polling&sid=a&sid=b'],
    ['/socket.io/?EIO=4&transport=polling&sid='],
    ['/socket.io/other?EIO=4&transport=polling&sid=x'],
    ['/socket.io-else/'],
    ['//socket.io/?EIO=4&transport=polling'],
    ['/socket.io/?EIO=4&transport=constructor'],
    ['/socket.io/?EIO=4&transport=polling&sid=__proto__'],
  ];
  for (const [path, method = 'GET'] of tries) {
    const answer = await ask(place.url, path, { method });
    note(`${method} ${path}`, answer.status, answer.headers, answer.text);
  }
});

same('transports that do not match a session', 4, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  const plain = await ask(place.url, polling.path.replace('transport=polling', 'transport=websocket'));
  note('a plain GET as websocket', plain.status, plain.text);
  await polling.post('42["echo","lives"]');
  note('the session lives', await polling.packets(1));
  const ws = await Ws.open(place.url);
  const sid = /"sid":"([^"]+)"/.exec(await ws.next())?.[1] ?? '';
  const get = await ask(place.url, `/socket.io/?EIO=4&transport=polling&sid=${sid}`);
  note('a GET for a WebSocket session', get.status, get.text);
  ws.send(connect(place, 'ada'));
  note('it lives', await ws.next());
  ws.socket.terminate();
});

same('answers over 1 kB are compressed for who asks for it', 4, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  for (const encoding of ['gzip', 'deflate', 'br', 'identity']) {
    await polling.post(`42["echo","${'😀 compress me '.repeat(400)}"]`);
    const answer = await polling.get({ 'accept-encoding': encoding });
    // The proxy reads such an answer whole, so it tells its length where the legacy sends chunks.
    const headers = answer.headers.filter((h) => !h.startsWith('content-length'));
    note(encoding, answer.status, headers, answer.body.length, answer.body.toString('hex', 0, 200));
  }
});

same('JSONP and b64', 5, { allowEio3: true }, async (place, note) => {
  const opened = await ask(place.url, '/socket.io/?EIO=4&transport=polling&j=0');
  note('handshake', opened.status, opened.headers, opened.text);
  const sid = /sid\\":\\"([^"\\]+)/.exec(opened.text)?.[1] ?? '';
  const path = `/socket.io/?EIO=4&transport=polling&sid=${sid}&j=`;
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const posted = await ask(place.url, `${path}1`, {
    method: 'POST',
    headers: form,
    body: `d=${encodeURIComponent(connect(place, 'ada'))}`,
  });
  note('posted', posted.status, posted.headers, posted.text);
  note('connected', (await ask(place.url, `${path}2`)).text);
  await ask(place.url, `${path}3`, {
    method: 'POST',
    headers: form,
    body: `d=${encodeURIComponent('421["echo","\\n 😀"]')}`,
  });
  const echo = await ask(place.url, `${path}4`);
  note('echo', echo.status, echo.text);
  const b64 = await Polling.open(place.url, '&b64=1');
  await b64.post(connect(place, 'ada'));
  await b64.packets(1);
  await b64.post('451-["echo",{"_placeholder":true,"num":0}]\x1ebAQID');
  note('b64', await b64.packets(2));
});

same('an upgrade in the middle of a conversation', 8, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  await polling.post('421["echo","by post"]');
  const ws = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  note('101', ws.headers);
  ws.send('2probe');
  note('probe', await ws.next());
  note('waiting since before', await polling.packets(1));
  const pending = polling.get();
  note('released', (await pending).text);
  await polling.post('422["echo","the last by post"]');
  note('the last by GET', await polling.packets(1));
  ws.send('5', '423["echo","by websocket"]');
  note('by websocket', await ws.next());
  ws.send('451-4["echo",{"_placeholder":true,"num":0}]', Buffer.from([1, 2]));
  note('binary', await ws.take(2));
  const late = await polling.get();
  note('polling is over', late.status, late.text);
  const post = await polling.post('425["echo","too late"]');
  note('posting too', post.status, post.text);
  note('the socket is the same', place.legacy.io.of('/').sockets.size);
  ws.close();
  note('end', await ws.rest());
});

same('an upgrade while the legacy pushes', 3, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  const socket = onlySocket(place);
  const got: string[] = [];
  let polled = true;
  const loop = (async () => {
    while (polled) got.push(...(await polling.get()).text.split('\x1e'));
  })();
  const ws = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  ws.send('2probe');
  await ws.next();
  for (let i = 0; i < 20; i++) {
    socket.emit('push', i, Buffer.from([i]));
    await new Promise((resolve) => setImmediate(resolve));
  }
  polled = false;
  await loop;
  ws.send('5');
  socket.emit('push', 'last');
  while (!got.at(-1)?.includes('"last"')) got.push(await ws.next());
  const packets = got
    .filter((p) => p !== '6')
    .map((p) => (p.startsWith('<') ? `b${Buffer.from(p.slice(1, -1), 'hex').toString('base64')}` : p));
  note('nothing lost, doubled or out of order', packets);
  note('state', socket.connected);
  ws.close();
  note('end', (await ws.rest()).at(-1));
});

same('an upgrade that is given up, one that fails, and one too many', 6, {}, async (place, note) => {
  const polling = await connected(place, 'ada');
  const first = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  first.send('2probe');
  note('probe', await first.next());
  first.close(1000);
  note('given up', await first.rest());
  await polling.post('42["echo","polls on"]');
  const packets = await polling.packets(1);
  note('polls on', packets.includes('6') ? await polling.packets(1) : packets);
  const second = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  second.send('nonsense');
  note('no probe', await second.rest());
  const third = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  third.send('2probe');
  note('third', await third.next());
  const fourth = await Ws.open(place.url, { query: `&sid=${polling.sid}` });
  note('fourth', await fourth.rest());
  third.send('5', '42["echo","on the third"]');
  note('upgraded', await third.next());
  const none = await Ws.open(place.url, { query: '&sid=nope' });
  note('of no session', none.headers, await none.rest());
  third.socket.terminate();
});

same('a silent browser is given up', 2, { pingIntervalMs: 150, pingTimeoutMs: 100 }, async (place, note) => {
  const polling = await connected(place, 'ada');
  const gone = once(onlySocket(place), 'disconnect');
  note('ping', (await polling.get()).text);
  note('the legacy saw', (await gone)[0]);
  const after = await polling.get();
  note('after', after.status, after.text);
});
