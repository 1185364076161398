// Clients of Socket.IO 2 (EIO=3), where the legacy lets them in: passed through as they are.
import { ask, Ws } from './clients.js';
import { same } from './same.js';

/** EIO=3 payloads: each packet with its length in UTF-16 units before it. */
const payload = (...packets: string[]): string => packets.map((p) => `${p.length}:${p}`).join('');

same('polling', 8, { allowEio3: true }, async (place, note) => {
  const base = `/socket.io/?EIO=3&transport=polling&token=${place.token('ada')}`;
  const opened = await ask(place.url, base);
  note('handshake', opened.status, opened.headers, opened.body.toString('latin1'));
  const sid = /"sid":"([^"]+)"/.exec(opened.text)?.[1] ?? '';
  const path = `${base}&sid=${sid}`;
  const post = (body: string) =>
    ask(place.url, path, { method: 'POST', body, headers: { 'content-type': 'text/plain;charset=UTF-8' } });
  const first = await ask(place.url, path);
  note('connected without asking', first.status, first.headers, first.body.toString('latin1'));
  note('event', (await post(payload('42["echo","ünï 😀"]', '421["whoami"]'))).text);
  let got = '';
  while (!got.includes('431[')) got += (await ask(place.url, path)).text;
  note('answers', got);
  note('ping', (await post(payload('2'))).text);
  note('pong', (await ask(place.url, path)).text);
  await post(payload('42["call-offer",{"conversationId":"dm:eve:bob","offer":{"sdp":"x"}}]'));
  note('a call event is the legacy its own', (await ask(place.url, path)).text);
  await post(payload('451-["echo",{"_placeholder":true,"num":0}]', 'b4AQID'));
  const binary = await ask(place.url, path);
  note('binary', binary.headers, binary.body.toString('hex'));
  note('end', (await post(payload('1'))).text);
  const after = await ask(place.url, path);
  note('after', after.status, after.text);
});

same('WebSocket', 7, { allowEio3: true }, async (place, note) => {
  const ws = await Ws.open(place.url, {
    path: `/socket.io/?EIO=3&transport=websocket&token=${place.token('ada')}`,
    deflate: true,
  });
  note('101', ws.headers);
  note('open', await ws.take(2));
  ws.send('2', '2x');
  note('pongs', await ws.take(2));
  ws.send('421["echo",1,  1e3]');
  note('echo', await ws.next());
  ws.send('451-["echo",{"_placeholder":true,"num":0}]', Buffer.from([4, 1, 2]));
  note('binary', await ws.take(2));
  ws.send('42["call-answer",{"conversationId":"dm:ada:bob","answer":{}}]');
  note('a call event', await ws.next());
  ws.close(1000);
  note('end', await ws.rest());
});

same('an upgrade from polling', 4, { allowEio3: true }, async (place, note) => {
  const base = `/socket.io/?EIO=3&transport=polling&token=${place.token('ada')}`;
  const opened = await ask(place.url, base);
  const sid = /"sid":"([^"]+)"/.exec(opened.text)?.[1] ?? '';
  await ask(place.url, `${base}&sid=${sid}`);
  const ws = await Ws.open(place.url, { path: `${base.replace('polling', 'websocket')}&sid=${sid}` });
  const pending = ask(place.url, `${base}&sid=${sid}`);
  ws.send('2probe');
  note('probe', await ws.next());
  note('released', (await pending).text);
  ws.send('5', '421["echo","upgraded"]');
  note('upgraded', await ws.next());
  ws.close();
  note('end', await ws.rest());
});

same('refused where the legacy lets them not in', 2, {}, async (place, note) => {
  const polling = await ask(place.url, '/socket.io/?EIO=3&transport=polling');
  note('polling', polling.status, polling.headers, polling.text);
  const ws = await Ws.open(place.url, { path: '/socket.io/?EIO=3&transport=websocket' });
  note('WebSocket', ws.headers, await ws.rest());
});
