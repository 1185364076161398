// How the legacy answers an ordinary Socket.IO event: one acknowledgement, or an `error` event where it is refused.
// Chat, groups, presence and the probes use it; calls answer by rules of their own.
import type { Socket } from 'socket.io';
import type { User } from './auth.js';

/** A refusal that the client is told; anything else that is thrown becomes `Internal error`. */
export class Refusal extends Error {}

export type Payload = Readonly<Record<string, unknown>>;

/** The authenticated user of a socket. */
export function userOf(socket: Socket): User {
  return socket.data.user as User;
}

/**
 * Serves `event`: acknowledges `{ ok: true, ...what `handle` returns }`. A refusal is first an `error` event
 * `{ event, conversationId?, message }`, then the acknowledgement `{ ok: false, error }`.
 */
export function serve(socket: Socket, event: string, handle: (payload: Payload) => Promise<object> | object): void {
  socket.on(event, async (...args: unknown[]) => {
    const last = args.at(-1);
    const ack = typeof last === 'function' ? (last as (answer: object) => void) : undefined;
    const first = ack && args.length === 1 ? undefined : args[0];
    const payload = typeof first === 'object' && first !== null && !Array.isArray(first) ? (first as Payload) : {};
    try {
      const answer = await handle(payload);
      ack?.({ ok: true, ...answer });
    } catch (error) {
      const message = error instanceof Refusal ? error.message : 'Internal error';
      const { conversationId } = payload;
      socket.emit(
        'error',
        typeof conversationId === 'string' ? { event, conversationId, message } : { event, message },
      );
      ack?.({ ok: false, error: message });
    }
  });
}

/** A non-empty string of the payload, or a refusal that names what is wrong with it. */
export function text(payload: Payload, field: string, maxLength: number): string {
  const value = payload[field];
  if (typeof value === 'string' && value !== '' && value.length <= maxLength) return value;
  throw new Refusal(`${field} must be a non-empty string of at most ${maxLength} characters`);
}
