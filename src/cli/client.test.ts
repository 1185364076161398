// Servers that hang: each is given up in time, with a line that says what was waited for.
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { adminClient } from './client.js';

let behave: (response: ServerResponse) => void = () => undefined;
const server = createServer((_request, response) => behave(response));
let admin = '';
beforeAll(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  admin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
const client = () =>
  adminClient({ admin, token: undefined, colors: false }, { actor: 'ops', answerMs: 200, silenceMs: 200 });

test('never an answer', async () => {
  behave = () => undefined;
  const asking = client();
  await expect(asking.get('/api/routes', [])).rejects.toMatchObject({
    code: 3,
    problems: [expect.stringContaining('in time')],
  });
  await asking.close();
});

test('an answer that trickles', async () => {
  behave = (response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    const timer = setInterval(() => response.write(' '), 20);
    response.once('close', () => clearInterval(timer));
  };
  const asking = client();
  await expect(asking.post('/api/routes/legacy', {}, [])).rejects.toMatchObject({
    code: 3,
    problems: [
      expect.stringContaining('no whole answer in time'),
      expect.stringContaining('whether the change was made is not known'),
    ],
  });
  await asking.close();
});

test('a stream that falls silent', async () => {
  behave = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write('event: live\n');
  };
  const asking = client();
  const read = async () => {
    let text = '';
    for await (const chunk of await asking.stream('/api/live/stream', new AbortController().signal)) text += chunk;
    return text;
  };
  await expect(read()).rejects.toMatchObject({
    code: 3,
    problems: [expect.stringContaining('nothing comes any more')],
  });
  await asking.close();
});

test('a stream that is stopped by who reads it lets go of the connection', async () => {
  const closed = new Promise<void>((resolve) => {
    behave = (response) => {
      response.once('close', resolve);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('event: live\n');
    };
  });
  const asking = client();
  for await (const _chunk of await asking.stream('/api/live/stream', new AbortController().signal)) break;
  await closed;
  await asking.close();
});
