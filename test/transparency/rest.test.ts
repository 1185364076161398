// Everything on the port that is not Socket.IO: REST, uploads, downloads, server-sent events, static files.
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { ask, bytes } from './clients.js';
import { type Place, same } from './same.js';

const bearer = (place: Place, user: string) => ({ authorization: `Bearer ${place.token(user)}` });
const jsonType = { 'content-type': 'application/json' };

same('requests and refusals', 30, {}, async (place, note) => {
  const ada = bearer(place, 'ada');
  const tries: [method: string, path: string, headers?: http.OutgoingHttpHeaders, body?: string][] = [
    ['POST', '/api/auth/login', jsonType, '{"username":"ada"}'],
    ['POST', '/api/auth/login', jsonType, '{"username":""}'],
    ['POST', '/api/auth/login', jsonType, '{'],
    ['POST', '/api/auth/login', { ...jsonType, 'content-length': 0 }],
    ['GET', '/api/me'],
    ['GET', '/api/me', ada],
    ['HEAD', '/api/me', ada],
    ['GET', '/api/me', { authorization: 'Bearer nonsense' }],
    ['GET', `/api/me?token=${place.token('ada')}`],
    ['POST', '/api/conversations', { ...ada, ...jsonType }, '{"participants":["bob"]}'],
    ['GET', '/api/conversations', ada],
    ['GET', '/api/conversations/dm:ada:bob', ada],
    ['GET', '/api/conversations/dm%3Aada%3Abob', ada],
    ['GET', '/api/conversations/dm:eve:bob', ada],
    ['POST', '/api/conversations/dm:ada:bob/messages', { ...ada, ...jsonType }, '{"text":"ünï 😀"}'],
    ['GET', '/api/conversations/dm:ada:bob/messages', ada],
    ['GET', '/api/calls/ticket?conversationId=dm:ada:bob', ada],
    ['GET', '/api/calls/ticket?conversationId=dm:eve:bob', ada],
    ['GET', '/api/calls/ticket', ada],
    ['GET', '/api/health'],
    ['GET', '/'],
    ['HEAD', '/'],
    ['GET', '/index.html?x=1'],
    ['GET', '/socket.io-client.js'],
    ['GET', '/../../etc/passwd'],
    ['GET', '/%2e%2e/%2e%2e/etc/passwd'],
    ['GET', '/nowhere'],
    ['GET', '/%'],
    ['GET', '//api/me'],
    ['GET', '/api/me?x=%zz&&=', ada],
    ['PUT', '/api/me', ada, 'body'],
    ['DELETE', '/api/me', ada],
    ['PATCH', '/api/me', ada],
    ['OPTIONS', '/api/me'],
    ['OPTIONS', '*'],
    ['PROPFIND', '/api/me'],
  ];
  for (const [method, path, headers = {}, body] of tries) {
    const answer = await ask(place.url, path, { method, headers, ...(body === undefined ? {} : { body }) });
    const sum = createHash('sha256').update(answer.body).digest('hex').slice(0, 12);
    note(`${method} ${path}`, answer.status, answer.headers, answer.text.length < 1_000 ? answer.text : sum);
  }
});

same('uploads and downloads', 8, { maxUpload: 3_000_000 }, async (place, note) => {
  const ada = bearer(place, 'ada');
  const content = Buffer.alloc(2_500_000, 'a file of some size ');
  const up = await ask(place.url, '/api/files', {
    method: 'POST',
    headers: { ...ada, 'content-type': 'text/x-own' },
    body: content,
  });
  const saved = JSON.parse(up.text) as { id: string };
  note(
    'upload',
    up.status,
    up.headers.filter((h) => !h.startsWith('content-length')),
    up.text,
  );
  const down = await ask(place.url, `/api/files/${saved.id}`, { headers: ada });
  note('download', down.status, down.headers, down.body.equals(content));
  for (const range of ['bytes=0-9', 'bytes=2499990-', 'bytes=-5', 'bytes=9999999-', 'bytes=5-1', 'nonsense']) {
    const part = await ask(place.url, `/api/files/${saved.id}`, { headers: { ...ada, range } });
    note(range, part.status, part.headers, part.body.length, part.text.slice(0, 20));
  }
  const chunked = http.request(`${place.url}/api/files`, { method: 'POST', agent: false, headers: ada });
  const chunkedAnswer = once(chunked, 'response') as Promise<[http.IncomingMessage]>;
  for (let i = 0; i < 20; i++) chunked.write(content.subarray(i * 100, i * 100 + 100));
  chunked.end();
  const [response] = await chunkedAnswer;
  note('in chunks', response.statusCode);
  response.resume();
  await once(response, 'end');
  const large = await ask(place.url, '/api/files', { method: 'POST', headers: ada, body: randomBytes(3_000_001) });
  note('too large', large.status, large.text);
});

same('Expect: 100-continue', 2, {}, async (place, note) => {
  for (const token of [place.token('ada'), 'nonsense']) {
    const request = http.request(`${place.url}/api/files`, {
      method: 'POST',
      agent: false,
      headers: { authorization: `Bearer ${token}`, expect: '100-continue', 'content-length': 5 },
    });
    let continued = false;
    request.on('continue', () => {
      continued = true;
      request.end('hello');
    });
    request.flushHeaders();
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    note('answer', continued, response.statusCode);
    response.resume();
    request.destroy();
  }
});

same('an upload that is broken off', 2, {}, async (place, note) => {
  const request = http.request(`${place.url}/api/files`, {
    method: 'POST',
    agent: false,
    headers: { ...bearer(place, 'ada'), 'content-length': 1_000_000 },
  });
  request.on('error', () => undefined); // Breaking off is the point.
  const seen = once(place.legacy.io.httpServer, 'request') as Promise<[http.IncomingMessage]>;
  request.write(Buffer.alloc(10_000));
  const [incoming] = await seen;
  const aborted = new Promise((resolve) => incoming.once('close', resolve));
  request.destroy();
  await aborted;
  note('the legacy saw it', incoming.complete, incoming.destroyed);
  note('it lives', (await ask(place.url, '/api/health')).status);
});

same('server-sent events, as they happen', 5, {}, async (place, note) => {
  const request = http.get(`${place.url}/api/events?token=${place.token('bob')}`, { agent: false });
  request.on('error', () => undefined); // The reader leaves in the middle.
  const [stream] = (await once(request, 'response')) as [http.IncomingMessage];
  note('head', stream.statusCode, stream.headers['content-type'], stream.headers['cache-control']);
  let text = '';
  const until = async (part: string): Promise<void> => {
    while (!text.includes(part)) text += String((await once(stream, 'data'))[0]);
  };
  await until('event: ready');
  note('ready', text.includes('"bob"'));
  const messages = '/api/conversations/dm:ada:bob/messages';
  for (const said of ['first', 'second']) {
    const asked = { method: 'POST', headers: { ...bearer(place, 'ada'), ...jsonType }, body: `{"text":"${said}"}` };
    await ask(place.url, messages, asked);
    await until(said);
    note(
      said,
      text.split('\n').filter((line) => line.includes(said)),
    );
  }
  const closed = once(stream, 'close');
  stream.destroy();
  await closed;
  note('head only', (await ask(place.url, `/api/events?token=${place.token('bob')}`, { method: 'HEAD' })).headers);
});

same('several requests on one connection, and what is no HTTP', 4, {}, async (place, note) => {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const ports = new Set<number | undefined>();
  for (let i = 0; i < 3; i++) {
    const request = http.get(`${place.url}/api/health`, { agent });
    const [response] = (await once(request, 'response')) as [http.IncomingMessage];
    ports.add(request.socket?.localPort);
    response.resume();
    await once(response, 'end');
  }
  agent.destroy();
  note('connections', ports.size);
  const last = 'GET /api/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
  const status = (text: string) => text.split('\r\n').filter((line) => line.startsWith('HTTP/1.1 '));
  note('pipelined', status((await bytes(place.url, last.replace('Connection: close\r\n', '') + last)).text));
  for (const [what, sent] of [
    ['HTTP/1.0', 'GET /api/health HTTP/1.0\r\n\r\n'],
    ['nonsense', 'nonsense\r\n\r\n'],
    ['no host', 'GET /api/health HTTP/1.1\r\n\r\n'],
    ['two lengths', 'POST /api/me HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab'],
    [
      'length and chunks',
      'POST /api/me HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
    ['a head that is too large', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`],
  ] as const) {
    note(what, status((await bytes(place.url, sent)).text));
  }
});
