// Conversations and their messages: what the legacy keeps of them, the chat events, and the feed for server-sent events.
// Knows nothing of HTTP or calls.
import { createHash, randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';
import type { Namespace, Socket } from 'socket.io';
import type { User } from './auth.js';
import { Refusal, serve, text, userOf } from './events.js';
import type { Conversation, MembershipStore } from './membership.js';
import { directParticipants } from './membership.js';

export interface Message {
  readonly id: string;
  readonly conversationId: string;
  readonly text: string;
  readonly from: string;
  /** Milliseconds since 1970. */
  readonly time: number;
}

export interface Chat {
  attach(namespace: Namespace): void;
  /** The conversation, where there is one; one lookup. */
  conversation(id: string): Promise<Conversation | undefined>;
  /** A new conversation of these users (two of them get their `dm:` one), or the one that they have. */
  create(participants: readonly string[]): Promise<Conversation>;
  ofUser(userId: string): Promise<Conversation[]>;
  messages(conversationId: string): readonly Message[];
  /** Keeps a message and tells the room and the participants' other sockets, but not the one that sent it. */
  post(conversation: Conversation, from: User, text: string, sender?: Socket): Promise<Message>;
  /** Every message that is kept, with its participants, until the returned function is called. */
  listen(onMessage: (message: Message, participants: readonly string[]) => void): () => void;
}

export const MAX_TEXT = 65_536;
export const MAX_PARTICIPANTS = 64;
/** Messages kept per conversation, and conversations remembered; the oldest goes. */
const MAX_MESSAGES = 500;
const MAX_REMEMBERED = 10_000;

export function createChat(membership: MembershipStore, main: Namespace): Chat {
  const histories = new Map<string, Message[]>();
  /** Conversations that somebody joined: who takes part in one never changes. */
  const joined = new Map<string, Conversation>();
  const feed = new EventEmitter().setMaxListeners(0);

  const roomOf = (conversationId: string) => `conversation:${conversationId}`;

  /** The conversation, where this socket's user takes part in it; one lookup, but for a socket that joined before. */
  async function allowed(socket: Socket, id: string): Promise<Conversation> {
    const known = socket.rooms.has(roomOf(id)) ? joined.get(id) : undefined;
    if (known) return known;
    const participants = await membership.participants(id);
    if (!participants?.includes(userOf(socket).id)) throw new Refusal('Not a participant');
    return { id, participants };
  }

  const chat: Chat = {
    attach(namespace) {
      namespace.on('connection', (socket) => {
        serve(socket, 'join-conversation', async (payload) => {
          const conversation = await allowed(socket, text(payload, 'conversationId', 256));
          const { id, participants } = conversation;
          keep(joined, id, conversation);
          await socket.join(roomOf(id));
          return { conversationId: id, participants };
        });
        serve(socket, 'chat-message', async (payload) => {
          const body = text(payload, 'text', MAX_TEXT);
          const conversation = await allowed(socket, text(payload, 'conversationId', 256));
          const { id, time } = await chat.post(conversation, userOf(socket), body, socket);
          return { id, time };
        });
        serve(socket, 'typing', (payload) => {
          const conversationId = text(payload, 'conversationId', 256);
          if (!socket.rooms.has(roomOf(conversationId))) throw new Refusal('Join the conversation first');
          const typing = payload.typing !== false;
          const message = { conversationId, from: userOf(socket).id, typing };
          socket.to(roomOf(conversationId)).volatile.emit('typing', message);
          return {};
        });
        serve(socket, 'chat-file', async (payload) => {
          const name = text(payload, 'name', 256);
          const { data } = payload;
          if (!Buffer.isBuffer(data)) throw new Refusal('data must be binary');
          const { id } = await allowed(socket, text(payload, 'conversationId', 256));
          const sha256 = createHash('sha256').update(data).digest('hex');
          socket.to(roomOf(id)).emit('chat-file', { conversationId: id, name, from: userOf(socket).id, data, sha256 });
          return { size: data.length, sha256 };
        });
      });
    },

    async conversation(id) {
      const participants = await membership.participants(id);
      return participants && { id, participants };
    },

    async create(participants) {
      const sorted = [...participants].sort();
      const direct = `dm:${sorted.join(':')}`;
      const id = sorted.length === 2 && directParticipants(direct) ? direct : `conversation-${randomUUID()}`;
      const conversation = { id, participants: sorted };
      await membership.create(conversation);
      return conversation;
    },

    ofUser: (userId) => membership.ofUser(userId),

    messages: (conversationId) => histories.get(conversationId) ?? [],

    async post(conversation, from, body, sender) {
      const message = {
        id: randomUUID(),
        conversationId: conversation.id,
        text: body,
        from: from.id,
        time: Date.now(),
      };
      const { id, participants } = conversation;
      const history = histories.get(id);
      if (history) {
        history.push(message);
        if (history.length > MAX_MESSAGES) history.shift();
      } else {
        keep(histories, id, [message]);
      }
      // Whoever joined, and every other device of the participants: a first message finds somebody who knew of nothing.
      const audience = [roomOf(id), ...participants.map((user) => `user:${user}`)];
      (sender ?? main).to(audience).emit('chat-message', message);
      feed.emit('message', message, participants);
      if (!history) await membership.create(conversation);
      return message;
    },

    listen(onMessage) {
      feed.on('message', onMessage);
      return () => feed.off('message', onMessage);
    },
  };
  return chat;
}

function keep<T>(map: Map<string, T>, id: string, value: T): void {
  map.set(id, value);
  if (map.size <= MAX_REMEMBERED) return;
  const [oldest] = map.keys();
  if (oldest !== undefined) map.delete(oldest);
}
