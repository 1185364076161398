// The namespace /presence: who is online, with a status of their own choosing.
// Knows nothing of chat or calls.
import type { Namespace } from 'socket.io';
import { serve, text, userOf } from './events.js';

export function attachPresence(namespace: Namespace): void {
  const online = new Map<string, { status: string; sockets: number }>();
  const list = () => [...online].map(([userId, { status }]) => ({ userId, status }));

  namespace.on('connection', (socket) => {
    const userId = userOf(socket).id;
    const here = online.get(userId) ?? { status: 'online', sockets: 0 };
    here.sockets++;
    online.set(userId, here);
    if (here.sockets === 1) socket.broadcast.emit('status', { userId, status: here.status });
    socket.emit('online', { users: list() });

    serve(socket, 'set-status', (payload) => {
      here.status = text(payload, 'status', 64);
      socket.broadcast.emit('status', { userId, status: here.status });
      return {};
    });
    serve(socket, 'online', () => ({ users: list() }));
    socket.on('disconnect', () => {
      if (--here.sockets > 0) return;
      online.delete(userId);
      namespace.emit('status', { userId, status: 'offline' });
    });
  });
}
