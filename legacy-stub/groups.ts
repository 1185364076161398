// Group calls of the legacy: who is in one, and signals between two of its members. They stay with the legacy for good.
// Knows nothing of 1:1 calls.
import type { Namespace } from 'socket.io';
import { type Payload, Refusal, serve, text, userOf } from './events.js';
import type { MembershipStore } from './membership.js';

/** Most sockets in one group call. */
const MAX_MEMBERS = 64;

export function attachGroups(namespace: Namespace, membership: MembershipStore): void {
  /** Socket ids and user ids of a group call's members, by conversation. */
  const groups = new Map<string, Map<string, string>>();

  namespace.on('connection', (socket) => {
    const user = userOf(socket).id;
    const joined = new Set<string>();
    // A recovered socket gets its rooms back, but its place in a group call went with the connection.
    for (const room of socket.rooms) if (room.startsWith('group:')) void socket.leave(room);
    const conversation = (payload: Payload) => text(payload, 'conversationId', 256);

    function leave(conversationId: string): void {
      if (!joined.delete(conversationId)) throw new Refusal('Not in this group call');
      const members = groups.get(conversationId);
      members?.delete(socket.id);
      if (members?.size === 0) groups.delete(conversationId);
      void socket.leave(`group:${conversationId}`);
      const left = { conversationId, socketId: socket.id, userId: user };
      namespace.to(`group:${conversationId}`).emit('group-call-left', left);
    }

    serve(socket, 'group-call-join', async (payload) => {
      const conversationId = conversation(payload);
      const participants = await membership.participants(conversationId);
      if (!participants?.includes(user)) throw new Refusal('Not a participant');
      const members = groups.get(conversationId) ?? new Map<string, string>();
      if (socket.connected && !joined.has(conversationId)) {
        if (members.size >= MAX_MEMBERS) throw new Refusal('This group call is full');
        joined.add(conversationId);
        groups.set(conversationId, members.set(socket.id, user));
        await socket.join(`group:${conversationId}`);
        socket.to(`group:${conversationId}`).emit('group-call-joined', {
          conversationId,
          socketId: socket.id,
          userId: user,
        });
      }
      const others = [...members].filter(([id]) => id !== socket.id);
      return { conversationId, members: others.map(([socketId, userId]) => ({ socketId, userId })) };
    });

    serve(socket, 'group-call-signal', (payload) => {
      const to = text(payload, 'to', 256);
      const conversationId = [...joined].find((id) => groups.get(id)?.has(to));
      if (conversationId === undefined) throw new Refusal('No such member in a group call of yours');
      const { data } = payload;
      namespace.to(to).emit('group-call-signal', { conversationId, from: socket.id, fromUserId: user, data });
      return {};
    });

    serve(socket, 'group-call-leave', (payload) => {
      leave(conversation(payload));
      return {};
    });

    socket.on('disconnect', () => {
      for (const conversationId of [...joined]) leave(conversationId);
    });
  });
}
