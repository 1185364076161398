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
  /** Keeps a message and tells the room, but for the socket that sent it. */
  post(conversation: Conversation, from: User, text: string, sender?: Socket): Promise<Message>;
  /** Every message that is kept, with its participants, until the returned function is called. */
  listen(onMessage: (message: Message, participants: readonly string[]) => void): () => void;
}

export const MAX_TEXT = 65_536;
export const MAX_PARTICIPANTS = 64;
/** Messages kept per conversation, and conversations whose messages are kept; the oldest goes. */
const MAX_MESSAGES = 500;
const MAX_HISTORIES = 10_000;

export function createChat(membership: MembershipStore, main: Namespace): Chat {
  const histories = new Map<string, Message[]>();
  const feed = new EventEmitter().setMaxListeners(0);

  const roomOf = (conversationId: string) => `conversation:${conversationId}`;

  async function allowed(socket: Socket, id: string): Promise<Conversation> {
    const participants = await membership.participants(id);
    if (!participants?.includes(userOf(socket).id)) throw new Refusal('Not a participant');
    return { id, participants };
  }

  const chat: Chat = {
    attach(namespace) {
      namespace.on('connection', (socket) => {
        serve(socket, 'join-conversation', async (payload) => {
          const { id, participants } = await allowed(socket, text(payload, 'conversationId', 256));
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
          socket.to(roomOf(conversationId)).volatile.emit('typing', { conversationId, userId: userOf(socket).id });
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
      const history = histories.get(conversation.id);
      if (history) {
        history.push(message);
        if (history.length > MAX_MESSAGES) history.shift();
      } else {
        await membership.create(conversation);
        histories.set(conversation.id, [...(histories.get(conversation.id) ?? []), message]);
        if (histories.size > MAX_HISTORIES) {
          const [oldest] = histories.keys();
          if (oldest !== undefined) histories.delete(oldest);
        }
      }
      (sender ?? main).to(roomOf(conversation.id)).emit('chat-message', message);
      feed.emit('message', message, conversation.participants);
      return message;
    },

    listen(onMessage) {
      feed.on('message', onMessage);
      return () => feed.off('message', onMessage);
    },
  };
  return chat;
}
