// The door for payloads: turns an event's arguments into a typed command, or into the malformed refusal. Inside, the types
// are trusted. Knows nothing of sessions, tickets or transports. Texts and their order: docs/calls.md, "Malformed input".
import type { ConversationId } from '../base/ids.js';
import type { InboundEvent } from '../base/service.js';
import { malformed, refusals } from '../call/refusals.js';
import type { CallEvent, Refusal, Sender } from '../call/session.js';
import { isTooDeep } from '../protocol/socketio.js';
import { conversationOf } from './deliver.js';

export type CommandName =
  | 'call-offer'
  | 'call-answer'
  | 'ice-candidate'
  | 'call-renegotiate-offer'
  | 'call-renegotiate-answer'
  | 'call-rejoin-offer'
  | 'call-rejoin-answer'
  | 'call-end';

export interface Command {
  readonly name: CommandName;
  readonly conversationId: ConversationId;
  /** The offer, answer or iceCandidate; undefined for `call-end`. */
  readonly body: unknown;
  /** A client's own ticket, `call-offer` only. */
  readonly ticket: string | undefined;
}

/** The field that each event must carry besides `conversationId`. */
export const fields: Readonly<Record<CommandName, 'offer' | 'answer' | 'iceCandidate' | null>> = {
  'call-offer': 'offer',
  'call-answer': 'answer',
  'ice-candidate': 'iceCandidate',
  'call-renegotiate-offer': 'offer',
  'call-renegotiate-answer': 'answer',
  'call-rejoin-offer': 'offer',
  'call-rejoin-answer': 'answer',
  'call-end': null,
};

export function readCommand(name: CommandName, args: readonly unknown[]): { command: Command } | { refusal: Refusal } {
  const payload = args[0];
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload) || Buffer.isBuffer(payload)) {
    return { refusal: malformed(name, 'payload') };
  }
  const conversationId = conversationOf(args);
  if (conversationId === undefined) {
    return { refusal: malformed(name, 'conversationId') };
  }
  const field = fields[name];
  const body = field === null ? undefined : own(payload, field);
  if (field !== null && (body === undefined || body === null)) return { refusal: malformed(name, field) };
  // What nobody could write down again is refused before it changes anything.
  if (isTooDeep(body)) return { refusal: refusals.internal };
  const ticket = name === 'call-offer' ? own(payload, 'ticket') : undefined;
  return {
    command: {
      name,
      conversationId: conversationId as ConversationId,
      body,
      ticket: typeof ticket === 'string' && ticket !== '' ? ticket : undefined,
    },
  };
}

/** `JSON.parse` makes `__proto__` an own property, so only own properties count. */
function own(payload: object, key: string): unknown {
  return Object.hasOwn(payload, key) ? (payload as Record<string, unknown>)[key] : undefined;
}

/** What a command does to a call; offers go through `Offers`, which knows their participants. */
export function toCallEvent(
  { name, body }: Command,
  by: Sender,
  { ackRequested, size }: Pick<InboundEvent, 'ackRequested' | 'size'>,
): CallEvent {
  switch (name) {
    case 'call-answer':
    case 'call-rejoin-answer':
      return { type: name, by, answer: body, ackRequested };
    case 'call-renegotiate-answer':
      return { type: name, by, answer: body };
    case 'call-renegotiate-offer':
    case 'call-rejoin-offer':
      return { type: name, by, offer: body };
    case 'ice-candidate':
      return { type: name, by, iceCandidate: body, size };
    case 'call-end':
      return { type: name, by };
    case 'call-offer':
      throw new Error('offers go through Offers, which knows their participants');
  }
}
