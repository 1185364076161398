// The unmodified Socket.IO client with its usual options, through the proxy and without it.
import { once } from 'node:events';
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client';
import { Inbox } from './clients.js';
import { type Note, type Place, same } from './same.js';

type Options = Partial<ManagerOptions & SocketOptions>;

function client(place: Place, user: string, options: Options = {}, ns = ''): { socket: Socket; inbox: Inbox<string> } {
  const socket = io(place.url + ns, {
    forceNew: true,
    reconnection: false,
    auth: { token: place.token(user) },
    ...options,
  });
  const inbox = new Inbox<string>();
  socket.onAny((event: string, ...args: unknown[]) => inbox.put(`${event} ${JSON.stringify(args)}`));
  socket.on('disconnect', (reason) => inbox.put(`disconnect ${reason}`));
  socket.on('connect_error', (error) => inbox.put(`connect_error ${error.message}`));
  return { socket, inbox };
}

const connected = (socket: Socket): Promise<void> =>
  new Promise((resolve, reject) => {
    socket.once('connect', resolve);
    socket.once('connect_error', reject);
  });

async function conversation(place: Place, note: Note, options: Options): Promise<void> {
  const ada = client(place, 'ada', options);
  await connected(ada.socket);
  const bob = client(place, 'bob', options);
  await connected(bob.socket);
  const { engine } = ada.socket.io;
  if (options.transports?.length !== 1 && engine.transport.name !== 'websocket')
    await new Promise((r) => engine.once('upgrade', () => r(0)));
  note('transport', engine.transport.name);
  note('same id', ada.socket.id === (await ada.socket.emitWithAck('whoami')).socketId);
  const dm = { conversationId: 'dm:ada:bob' };
  note(
    'join',
    await ada.socket.emitWithAck('join-conversation', dm),
    await bob.socket.emitWithAck('join-conversation', dm),
  );
  note('chat', await ada.socket.emitWithAck('chat-message', { ...dm, text: 'hello 😀' }));
  note('received', await bob.inbox.next());
  note('file', await bob.socket.emitWithAck('chat-file', { ...dm, name: 'a.bin', data: Buffer.from('file content') }));
  note('received', await ada.inbox.next());
  const echoed = (await ada.socket.emitWithAck('echo', Buffer.alloc(100_000, 7), {
    deep: [Buffer.from('x')],
  })) as Buffer;
  note('large', Buffer.isBuffer(echoed), echoed.length);
  bob.socket.on('are-you-there', (_question, answer: (text: string) => void) => answer('yes'));
  note('asks', await bob.socket.emitWithAck('ask-me', {}));
  note('question', await bob.inbox.next());
  note('answered', await bob.inbox.next());
  note('refused', await ada.socket.emitWithAck('chat-message', { conversationId: 'dm:eve:bob', text: 'x' }));
  note('error', await ada.inbox.next());
  bob.socket.disconnect();
  note('bob', await bob.inbox.next());
  place.legacy.io.disconnectSockets(true);
  note('ada', await ada.inbox.next());
}

for (const [what, options] of Object.entries<Options>({
  'polling first, then upgraded': {},
  'WebSocket only': { transports: ['websocket'] },
  'polling only': { transports: ['polling'] },
  'WebSocket first': { transports: ['websocket', 'polling'] },
  'with headers, query and credentials': {
    extraHeaders: { 'x-own': '1' },
    query: { a: 'b' },
    withCredentials: true,
    timestampRequests: true,
  },
  'acknowledged with retries': { retries: 2, ackTimeout: 5_000 },
})) {
  same(what, 14, {}, (place, note) => conversation(place, note, options));
}

for (const transport of ['websocket', 'polling']) {
  same(`recovery after a lost ${transport} connection`, 7, { recovery: true }, async (place, note) => {
    const ada = client(place, 'ada', {
      transports: [transport],
      reconnection: true,
      reconnectionDelay: 50,
      randomizationFactor: 0,
    });
    const bob = client(place, 'bob', { transports: [transport] });
    await Promise.all([connected(ada.socket), connected(bob.socket)]);
    const dm = { conversationId: 'dm:ada:bob' };
    await ada.socket.emitWithAck('join-conversation', dm);
    await bob.socket.emitWithAck('chat-message', { ...dm, text: 'before' });
    note('before', await ada.inbox.next());
    const { id } = ada.socket;
    const lost = [...place.legacy.io.of('/').sockets.values()].find((s) => s.id === id)!;
    const gone = once(lost, 'disconnect');
    ada.socket.io.engine.close();
    note('the browser sees', await ada.inbox.next());
    note('the legacy sees', (await gone)[0]);
    await bob.socket.emitWithAck('chat-message', { ...dm, text: 'missed' });
    const back = connected(ada.socket);
    note('missed', await ada.inbox.next());
    await back;
    note('recovered', ada.socket.recovered, ada.socket.id === id);
    note('whoami', await ada.socket.emitWithAck('whoami'));
    await bob.socket.emitWithAck('chat-message', { ...dm, text: 'after' });
    note('after', await ada.inbox.next());
    ada.socket.disconnect();
    bob.socket.disconnect();
  });
}

same('volatile events, presence, two namespaces on one connection', 6, {}, async (place, note) => {
  const ada = client(place, 'ada', { transports: ['websocket'] });
  const there = client(place, 'ada', { forceNew: false, transports: ['websocket'] }, '/presence');
  note('online', await there.inbox.next());
  const bob = client(place, 'bob', { transports: ['websocket'] }, '/presence');
  note('bob came', await there.inbox.next());
  note('status', await bob.socket.emitWithAck('set-status', { status: 'busy' }));
  note('bob is busy', await there.inbox.next());
  bob.socket.disconnect();
  note('bob left', await there.inbox.next());
  const nowhere = client(place, 'ada', { transports: ['websocket'] }, '/nowhere');
  note('nowhere', await nowhere.inbox.next());
  const stranger = client(place, 'ada', { auth: { token: 'x' } });
  note('stranger', await stranger.inbox.next());
  for (const { socket } of [ada, there, nowhere, stranger]) socket.disconnect();
});

same('a message over the limit', 2, { maxPayload: 5_000 }, async (place, note) => {
  for (const transport of ['websocket', 'polling']) {
    const ada = client(place, 'ada', { transports: [transport] });
    await connected(ada.socket);
    note('below', await ada.socket.emitWithAck('echo', 'x'.repeat(4_900)).then((text: string) => text.length));
    ada.socket.emit('echo', 'x'.repeat(6_000));
    note(transport, await ada.inbox.next());
    const again = client(place, 'ada', { transports: [transport] });
    await connected(again.socket);
    again.socket.emit('echo', Buffer.alloc(6_000));
    note('binary', await again.inbox.next());
  }
});
