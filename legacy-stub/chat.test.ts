import { createHash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import WebSocket from 'ws';
import { type Legacy, startLegacy } from './server.js';
import { type Clients, clientsOf, type Device } from './test-clients.js';

let legacy: Legacy;
let clients: Clients;
let alice: Device, second: Device, bob: Device, carol: Device;
const conversationId = 'dm:alice:bob';

beforeAll(async () => {
  legacy = await startLegacy();
  clients = clientsOf(legacy);
});

afterAll(async () => {
  clients.close();
  await legacy.close();
});

beforeEach(async () => {
  clients.close();
  [alice, second, bob, carol] = (await Promise.all(
    ['alice', 'alice', 'bob', 'carol'].map((user) => clients.connect(user)),
  )) as [Device, Device, Device, Device];
});

async function settled(): Promise<void> {
  await Promise.all([alice, second, bob, carol].map((device) => device.settle()));
}

describe('a connection', () => {
  it.each([
    ['no token', {}],
    ['a bad token', { auth: { token: 'x' } }],
    ['a token that is no text', { auth: { token: { a: 1 } } }],
  ])('with %s is refused', async (_, options) => {
    for (const namespace of ['/', '/presence', '/calls']) {
      await expect(clients.connect('mallory', namespace, { auth: {}, ...options })).rejects.toThrow(/^unauthorized$/);
    }
  });

  it('may bring its token in the query or a cookie', async () => {
    const token = clients.token('dave');
    const query = await clients.connect('', '/', { auth: {}, query: { token } });
    const cookie = await clients.connect('', '/', { auth: {}, extraHeaders: { cookie: `token=${token}` } });
    for (const device of [query, cookie]) {
      expect(await device.ask('whoami')).toEqual([
        { ok: true, user: { id: 'dave', name: 'dave' }, socketId: device.socket.id, recovered: false },
      ]);
    }
  });

  it.each(['polling', 'websocket'])('works over %s', async (transport) => {
    const device = await clients.connect('dave', '/', { transports: [transport as 'polling'] });
    expect(await device.ask('echo', 1, { two: [Buffer.from('3')] })).toEqual([1, { two: [Buffer.from('3')] }]);
  });
});

describe('chat', () => {
  it('reaches the room, but not the socket that sent it', async () => {
    for (const device of [alice, second, bob]) {
      expect(await device.ask('join-conversation', { conversationId })).toEqual([
        { ok: true, conversationId, participants: ['alice', 'bob'] },
      ]);
    }
    const [answer] = await alice.ask('chat-message', { conversationId, text: 'hi' });
    expect(answer).toEqual({ ok: true, id: expect.any(String), time: expect.any(Number) });
    await settled();
    const { id, time } = answer as { id: string; time: number };
    const message = ['chat-message', { id, conversationId, text: 'hi', from: 'alice', time }];
    expect([alice, second, bob, carol].map((device) => device.take())).toEqual([[], [message], [message], []]);
  });

  it('reaches a participant who joined nothing, and a message by REST reaches everybody', async () => {
    await alice.ask('chat-message', { conversationId, text: 'first' });
    await clients.request('alice', 'POST', `/api/conversations/${conversationId}/messages`, { text: 'by REST' });
    await settled();
    const texts = (device: Device) => device.take().map(([, message]) => (message as { text: string }).text);
    expect([alice, second, bob, carol].map(texts)).toEqual([
      ['by REST'],
      ['first', 'by REST'],
      ['first', 'by REST'],
      [],
    ]);
  });

  it('keeps the order of one sender', async () => {
    for (let n = 0; n < 50; n++) alice.socket.emit('chat-message', { conversationId, text: `${n}` });
    await alice.ask('chat-message', { conversationId, text: '50' });
    await settled();
    const texts = bob.take().map(([, message]) => (message as { text: string }).text);
    expect(texts).toEqual(Array.from({ length: 51 }, (_, n) => `${n}`));
  });

  it('shows who is typing', async () => {
    await alice.ask('join-conversation', { conversationId });
    await bob.ask('join-conversation', { conversationId });
    await alice.tell('typing', { conversationId });
    expect(await bob.next()).toEqual(['typing', { conversationId, from: 'alice', typing: true }]);
  });

  it('relays a file as binary', async () => {
    await bob.ask('join-conversation', { conversationId });
    const data = Buffer.from([0, 1, 254, 255]);
    const sha256 = createHash('sha256').update(data).digest('hex');
    expect(await alice.ask('chat-file', { conversationId, name: 'a.bin', data })).toEqual([
      { ok: true, size: 4, sha256 },
    ]);
    expect(await bob.next()).toEqual(['chat-file', { conversationId, name: 'a.bin', from: 'alice', data, sha256 }]);
  });

  it.each([
    ['join-conversation', {}],
    ['join-conversation', undefined],
    ['join-conversation', { conversationId: 'dm:bob:carol' }],
    ['chat-message', { conversationId }],
    ['chat-message', { conversationId: 'dm:bob:carol', text: 'x' }],
    ['typing', { conversationId: 'dm:bob:carol' }],
    ['chat-file', { conversationId, name: 'a', data: 'text' }],
    ['group-call-join', { conversationId: 'dm:bob:carol' }],
    ['group-call-signal', { to: 'nobody' }],
    ['group-call-leave', { conversationId }],
    ['flood', { bytes: -1 }],
    ['blob', { bytes: 'many' }],
  ])('refuses %s %j', async (event, payload) => {
    const [answer] = await alice.ask(event, payload);
    expect(answer).toEqual({ ok: false, error: expect.any(String) });
    const { error } = answer as { error: string };
    expect(await alice.next()).toEqual(['error', expect.objectContaining({ event, message: error })]);
  });

  // The threat: a payload that ends the process.
  it('survives anything', async () => {
    const odd = [undefined, null, 0, '', [], [[]], { conversationId: { toString: 1 } }, Buffer.alloc(3), '__proto__'];
    const events = 'join-conversation chat-message typing chat-file group-call-join group-call-signal group-call-leave';
    for (const event of [...events.split(' '), 'echo', 'whoami', 'flood', 'blob', 'ask-me', 'error', 'unknown']) {
      for (const payload of odd) carol.socket.emit(event, payload);
      carol.socket.emit(event);
    }
    await carol.settle();
    expect(carol.socket.connected).toBe(true);
  });
});

describe('a group call', () => {
  it('tells its members who comes, signals and goes', async () => {
    expect(await alice.ask('group-call-join', { conversationId })).toEqual([{ ok: true, conversationId, members: [] }]);
    const me = { socketId: alice.socket.id, userId: 'alice' };
    expect(await bob.ask('group-call-join', { conversationId })).toEqual([{ ok: true, conversationId, members: [me] }]);
    const him = { socketId: bob.socket.id, userId: 'bob' };
    expect(await alice.next()).toEqual(['group-call-joined', { conversationId, ...him }]);
    await bob.ask('group-call-signal', { to: alice.socket.id, data: { sdp: 'x' } });
    expect(await alice.next()).toEqual([
      'group-call-signal',
      { conversationId, from: bob.socket.id, fromUserId: 'bob', data: { sdp: 'x' } },
    ]);
    await bob.ask('group-call-leave', { conversationId });
    expect(await alice.next()).toEqual(['group-call-left', { conversationId, ...him }]);
    await bob.ask('group-call-join', { conversationId });
    await alice.next();
    await bob.drop(legacy);
    expect(await alice.next()).toEqual(['group-call-left', { conversationId, ...him }]);
  });
});

describe('presence', () => {
  it('tells who is online, with a status', async () => {
    const [here, there] = [await clients.connect('erin', '/presence'), await clients.connect('fred', '/presence')];
    expect(await here.next()).toEqual(['online', { users: [{ userId: 'erin', status: 'online' }] }]);
    expect(await here.next()).toEqual(['status', { userId: 'fred', status: 'online' }]);
    expect(await there.ask('set-status', { status: 'busy' })).toEqual([{ ok: true }]);
    expect(await here.next()).toEqual(['status', { userId: 'fred', status: 'busy' }]);
    const [list] = await here.ask('online');
    expect(list).toEqual({
      ok: true,
      users: [
        { userId: 'erin', status: 'online' },
        { userId: 'fred', status: 'busy' },
      ],
    });
    await there.drop(legacy);
    expect(await here.next()).toEqual(['status', { userId: 'fred', status: 'offline' }]);
  });
});

describe('the probes', () => {
  it('ask the client', async () => {
    alice.socket.on('are-you-there', (_question: unknown, answer: (text: string) => void) => answer('here'));
    await alice.ask('ask-me');
    expect((await alice.next())[0]).toBe('are-you-there');
    expect(await alice.next()).toEqual(['you-answered', { answer: 'here' }]);
  });

  it('answer with binary', async () => {
    const [{ data }] = (await alice.ask('blob', { bytes: 300 })) as [{ data: Buffer }];
    expect(data).toEqual(Buffer.from(Array.from({ length: 300 }, (_, i) => i % 251)));
  });

  it('flood', async () => {
    expect(await alice.ask('flood', { bytes: 5_000_001, chunk: 100_000 })).toEqual([{ ok: true, sent: 5_000_001 }]);
    const parts = alice.take().map(([, part]) => part as { sequence: number; data: Buffer });
    expect(parts.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 51 }, (_, i) => i));
    expect(parts.reduce((sum, { data }) => sum + data.length, 0)).toBe(5_000_001);
  });
});

describe('a legacy that stops', () => {
  it('does not wait for a browser that reads nothing', async () => {
    const other = await startLegacy();
    const token = other.tokens.issue({ id: 'deaf', name: 'deaf' });
    const ws = new WebSocket(`${other.url.replace('http', 'ws')}/socket.io/?EIO=4&transport=websocket`);
    const frames: string[] = [];
    ws.on('message', (data) => frames.push(data.toString()));
    ws.on('open', () => ws.send(`40${JSON.stringify({ token })}`));
    await expect.poll(() => frames.length).toBe(2);
    ws.pause();
    const started = performance.now();
    await other.close();
    expect(performance.now() - started).toBeLessThan(5_000);
    ws.terminate();
  });
});

describe('a client of Socket.IO 2', () => {
  it.each([true, false])('is let in only where it is allowed: %s', async (allowEio3) => {
    const other = await startLegacy({ allowEio3 });
    try {
      const token = other.tokens.issue({ id: 'old', name: 'old' });
      const query = `EIO=3&transport=websocket&token=${token}`;
      const ws = new WebSocket(`${other.url.replace('http', 'ws')}/socket.io/?${query}`);
      const frames: string[] = [];
      const ended = new Promise((resolve) => ws.on('close', () => resolve('closed')));
      ws.on('message', (data) => frames.push(data.toString()));
      ws.on('error', () => frames.push('refused')); // a 101 that goes on as plain HTTP, as engine.io refuses
      if (allowEio3) {
        await expect.poll(() => frames[1]).toBe('40');
        ws.send('420["echo","x"]');
        await expect.poll(() => frames[2]).toBe('430["x"]');
        ws.close();
      }
      expect(await ended).toBe('closed');
      expect(frames.includes('refused')).toBe(!allowEio3);
    } finally {
      await other.close();
    }
  });
});

describe('recovery', () => {
  it('brings back the socket, its rooms and what it missed', async () => {
    const other = await startLegacy({ recovery: true });
    const theirs = clientsOf(other);
    try {
      const mine = await theirs.connect('alice', '/', { reconnection: true, reconnectionDelay: 50 });
      const yours = await theirs.connect('bob');
      await mine.ask('join-conversation', { conversationId });
      await yours.ask('chat-message', { conversationId, text: 'before' });
      expect((await mine.next())[0]).toBe('chat-message');
      const { id } = mine.socket;
      const back = new Promise((resolve) => mine.socket.once('connect', () => resolve(undefined)));
      mine.socket.io.engine.close();
      await yours.ask('chat-message', { conversationId, text: 'missed' });
      await back;
      expect([mine.socket.recovered, mine.socket.id]).toEqual([true, id]);
      expect((await mine.next())[1]).toMatchObject({ text: 'missed' });
    } finally {
      theirs.close();
      await other.close();
    }
  });
});
