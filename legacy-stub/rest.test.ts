import { createHash, randomBytes } from 'node:crypto';
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Legacy, startLegacy } from './server.js';
import { type Clients, clientsOf } from './test-clients.js';

let legacy: Legacy;
let clients: Clients;

beforeAll(async () => {
  legacy = await startLegacy({ maxUpload: 300_000, corsOrigin: 'http://app.example', cookie: true });
  clients = clientsOf(legacy);
});

afterAll(async () => {
  clients.close();
  await legacy.close();
});

/** Sends a path as it is written: fetch would tidy it up first. */
function raw(path: string, method = 'GET'): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(legacy.url);
    request({ hostname, port, path, method }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk) => chunks.push(chunk));
      res.on('end', () => resolve({ status: res.statusCode ?? 0, body: Buffer.concat(chunks).toString() }));
    })
      .on('error', reject)
      .end();
  });
}

describe('login', () => {
  it('takes any name and answers with a token for it', async () => {
    const answer = await clients.request(undefined, 'POST', '/api/auth/login', { username: ' zoë ' });
    const { token, user } = (await answer.json()) as { token: string; user: object };
    expect(user).toEqual({ id: 'zoë', name: 'zoë' });
    expect(answer.headers.get('set-cookie')).toContain(`token=${token}; `);
    const headers = { authorization: `Bearer ${token}` };
    const me = await fetch(`${legacy.url}/api/me`, { headers });
    expect(await me.json()).toEqual({ user });
    const withCookie = await fetch(`${legacy.url}/api/me`, { headers: { cookie: `a=b; token=${token}` } });
    expect(await withCookie.json()).toEqual({ user });
  });

  it.each([
    ['{}'],
    ['{"username":""}'],
    ['{"username":"   "}'],
    ['{"username":5}'],
    [JSON.stringify({ username: 'x'.repeat(65) })],
    ['[]'],
    ['null'],
    ['{'],
    [''],
  ])('refuses %s', async (body) => {
    const answer = await clients.request(undefined, 'POST', '/api/auth/login', body);
    expect(answer.status).toBe(400);
    expect(await answer.json()).toEqual({ error: expect.any(String) });
  });

  it('is needed for all else', async () => {
    for (const path of ['/api/me', '/api/conversations', '/api/files/x', '/api/events', '/api/calls/ticket']) {
      expect((await clients.request(undefined, 'GET', path)).status, path).toBe(401);
    }
  });
});

describe('conversations', () => {
  it('are created, listed and shown to their members', async () => {
    const three = await clients.request('ann', 'POST', '/api/conversations', { participants: ['ben', 'cleo'] });
    expect(three.status).toBe(201);
    const { id } = (await three.json()) as { id: string };
    const two = await clients.request('ann', 'POST', '/api/conversations', { participants: ['ben'] });
    expect(await two.json()).toEqual({ id: 'dm:ann:ben', participants: [{ id: 'ann' }, { id: 'ben' }] });
    const list = await clients.request('ann', 'GET', '/api/conversations');
    const { conversations } = (await list.json()) as { conversations: { id: string }[] };
    expect(conversations.map((conversation) => conversation.id)).toEqual([id, 'dm:ann:ben']);
    const shown = await clients.request('cleo', 'GET', `/api/conversations/${id}`);
    expect(await shown.json()).toEqual({ id, participants: [{ id: 'ann' }, { id: 'ben' }, { id: 'cleo' }] });
    expect((await clients.request('dora', 'GET', `/api/conversations/${id}`)).status).toBe(403);
    expect((await clients.request('dora', 'GET', '/api/conversations/nope')).status).toBe(404);
    expect((await clients.request('ann', 'GET', '/api/conversations/dm%3Aann%3Axeno')).status).toBe(200);
  });

  it.each([[undefined], [[]], [['ann']], [[5]], [['']], [Array.from({ length: 70 }, (_, i) => `u${i}`)]])(
    'refuse the participants %j',
    async (participants) => {
      expect((await clients.request('ann', 'POST', '/api/conversations', { participants })).status).toBe(400);
    },
  );

  it('keep their messages, and are listed once they have some', async () => {
    const path = '/api/conversations/dm:eve:finn/messages';
    expect(await (await clients.request('finn', 'GET', path)).json()).toEqual({ messages: [] });
    const posted = await clients.request('eve', 'POST', path, { text: 'hello' });
    expect(posted.status).toBe(201);
    const message = await posted.json();
    expect(message).toEqual({
      id: expect.any(String),
      conversationId: 'dm:eve:finn',
      text: 'hello',
      from: 'eve',
      time: expect.any(Number),
    });
    expect(await (await clients.request('finn', 'GET', path)).json()).toEqual({ messages: [message] });
    const list = await clients.request('finn', 'GET', '/api/conversations');
    expect(await list.json()).toMatchObject({ conversations: [{ id: 'dm:eve:finn' }] });
    expect((await clients.request('gus', 'POST', path, { text: 'hi' })).status).toBe(403);
    expect((await clients.request('eve', 'POST', path, { text: '' })).status).toBe(400);
  });
});

describe('files', () => {
  it('come back as they went, whole and in ranges', async () => {
    const bytes = randomBytes(200_000);
    const posted = await clients.request('ann', 'POST', '/api/files', bytes);
    expect(posted.status).toBe(201);
    const file = (await posted.json()) as { id: string };
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    expect(file).toMatchObject({ id: expect.any(String), size: 200_000, sha256 });
    const got = await clients.request('ben', 'GET', `/api/files/${file.id}`);
    expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true);

    const authorization = `Bearer ${clients.token('ann')}`;
    const ranges: [string, number, number, number][] = [
      ['bytes=0-9', 206, 0, 10],
      ['bytes=199990-', 206, 199_990, 200_000],
      ['bytes=-5', 206, 199_995, 200_000],
      ['bytes=100-999999', 206, 100, 200_000],
      ['bytes=0-1,5-6', 200, 0, 200_000],
      ['lines=1-2', 200, 0, 200_000],
    ];
    for (const [range, status, from, to] of ranges) {
      const part = await fetch(`${legacy.url}/api/files/${file.id}`, { headers: { authorization, range } });
      expect(part.status, range).toBe(status);
      expect(Buffer.from(await part.arrayBuffer()).equals(bytes.subarray(from, to)), range).toBe(true);
      if (status === 206) expect(part.headers.get('content-range')).toBe(`bytes ${from}-${to - 1}/200000`);
    }
    for (const range of ['bytes=200000-', 'bytes=9-3', 'bytes=-0']) {
      const none = await fetch(`${legacy.url}/api/files/${file.id}`, { headers: { authorization, range } });
      expect(none.status, range).toBe(416);
    }
  });

  it('may be empty, and are not known by any other id', async () => {
    const { id, size } = (await (await clients.request('ann', 'POST', '/api/files')).json()) as {
      id: string;
      size: number;
    };
    expect(size).toBe(0);
    const got = await clients.request('ann', 'GET', `/api/files/${id}`);
    expect([got.status, await got.text()]).toEqual([200, '']);
    expect((await clients.request('ann', 'GET', '/api/files/..%2F..%2Fetc%2Fpasswd')).status).toBe(404);
  });

  it('over the limit are refused, whether they say so before or not', async () => {
    const bytes = Buffer.alloc(400_000);
    expect((await clients.request('ann', 'POST', '/api/files', bytes)).status).toBe(413);
    const stream = new ReadableStream({
      start(controller) {
        for (let i = 0; i < 4; i++) controller.enqueue(bytes.subarray(i * 100_000, (i + 1) * 100_000));
        controller.close();
      },
    });
    const answer = await fetch(`${legacy.url}/api/files`, {
      method: 'POST',
      headers: { authorization: `Bearer ${clients.token('ann')}` },
      body: stream,
      duplex: 'half',
    } as RequestInit);
    expect([answer.status, await answer.json()]).toEqual([413, { error: 'a file may have at most 300000 bytes' }]);
  });
});

describe('server-sent events', () => {
  it('bring new messages of own conversations, and a tick in between', async () => {
    const abort = new AbortController();
    const answer = await fetch(`${legacy.url}/api/events?token=${clients.token('hal')}`, { signal: abort.signal });
    expect(answer.headers.get('content-type')).toBe('text/event-stream');
    await clients.request('ivy', 'POST', '/api/conversations/dm:ivy:jon/messages', { text: 'not for hal' });
    await clients.request('ivy', 'POST', '/api/conversations/dm:hal:ivy/messages', { text: 'for hal' });
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let seen = '';
    while (!/\n: tick \d+\n/.test(seen)) seen += (await reader.read()).value;
    expect(seen).toMatch(/^event: ready\ndata: {"user":{"id":"hal","name":"hal"}}\n\n/);
    expect(seen).toMatch(/\nid: \S+\nevent: message\ndata: {"id":"[^\n]*"text":"for hal"[^\n]*}\n\n/);
    expect(seen).not.toContain('not for hal');
    abort.abort();
  });
});

describe('everything else', () => {
  it('is the Socket.IO client, and a 404', async () => {
    const client = await raw('/socket.io-client.js');
    expect(client.status).toBe(200);
    expect(client.body).toContain('Socket.IO v4');
    expect((await raw('/socket.io/socket.io.js')).body).toBe(client.body);
    expect((await raw('/api/nope')).status).toBe(404);
    expect((await raw('/api/me', 'DELETE')).status).toBe(404);
    expect((await raw('/api/constructor/x')).status).toBe(404);
    expect((await raw('/nope.js')).status).toBe(404);
  });

  // The threat: reading files of the machine through the static files.
  it.each(['/../server.ts', '/..%2fserver.ts', '/%2e%2e/server.ts', '/..%5cserver.ts', '//etc/passwd', '/a%00b', '/%'])(
    'is no way out: %s',
    async (path) => {
      expect([400, 404]).toContain((await raw(path)).status);
    },
  );

  it('answers a preflight of the one origin, and names it once', async () => {
    const headers = { origin: 'http://app.example' };
    const preflight = await fetch(`${legacy.url}/api/me`, { method: 'OPTIONS', headers });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-headers')).toContain('authorization');
    const poll = await fetch(`${legacy.url}/socket.io/?EIO=4&transport=polling`, { headers });
    expect(poll.headers.get('access-control-allow-origin')).toBe('http://app.example');
    expect(poll.headers.get('set-cookie')).toMatch(/^io=/);
  });
});
