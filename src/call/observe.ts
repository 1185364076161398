// The observed session of a call that somebody else owns: what its owner was seen to deliver moves it, by the very steps of
// our own calls. Pure; knows no socket, clock or route, and nothing of how it was seen. Source: docs/routes.md, "Peeled relays".
import type { ConversationId, UserId } from '../base/ids.js';
import type { CallEvent, Sender, Session } from './session.js';
import { step } from './step.js';

/** What the owner delivered. `by`: the socket whose request it was, as far as it is known for certain. */
export type Delivered =
  | {
      readonly type: 'call-offer';
      readonly by: Sender;
      readonly callee: UserId;
      readonly conversationId: ConversationId;
      readonly callId: string;
    }
  | { readonly type: 'call-answer' | 'call-rejoin-offer' | 'call-rejoin-answer'; readonly by: Sender }
  | { readonly type: 'call-peer-disconnected'; readonly user: UserId };

/**
 * The session after it; null where it can't follow from `session`, so that this session says nothing true any more.
 * A session never waits for both seats here, and is never over: the claim that it belongs to ends with the call.
 */
export function observe(session: Session | null, delivered: Delivered, now: number): Session | null {
  const event = asEvent(session, delivered);
  if (event === null) return null;
  const { session: after } = step(session, event, now);
  return after === session ? null : after;
}

/** Whether the call is offered for the first time, by a rejoiner, or has what it needs. */
export const offered = (session: Session): 'first' | 'rejoin' | null =>
  session.state !== 'OFFERING' ? null : session.rejoining ? 'rejoin' : 'first';

/** Whether its owner may accept such an event in this state. */
export function mayAccept(event: Exclude<Delivered['type'], 'call-peer-disconnected'>, session: Session): boolean {
  switch (event) {
    case 'call-offer':
      return false;
    case 'call-rejoin-offer':
      return true;
    case 'call-answer':
      return offered(session) === 'first';
    case 'call-rejoin-answer':
      return offered(session) === 'rejoin';
  }
}

function asEvent(session: Session | null, delivered: Delivered): CallEvent | null {
  switch (delivered.type) {
    case 'call-offer': {
      if (session !== null) return null;
      const { by, callee, conversationId, callId } = delivered;
      const participants = [by.user, callee] as const;
      return { type: 'call-offer', by, conversationId, offer: null, participants, callId, early: [] };
    }
    case 'call-peer-disconnected': {
      if (session === null) return null;
      const { users, seats } = session;
      const socket =
        delivered.user === users.offerer ? seats.offerer : delivered.user === users.answerer ? seats.answerer : null;
      // Whoever was told of it is there.
      return socket && { type: 'drop', socket, cause: 'browser', otherPresent: true };
    }
    case 'call-answer':
    case 'call-rejoin-answer':
      return { type: delivered.type, by: delivered.by, answer: null, ackRequested: true };
    case 'call-rejoin-offer':
      return { type: delivered.type, by: delivered.by, offer: null };
  }
}
