// What a step makes others hear: who is told of an end, in which words. Knows no rule of when.
import { type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import type { Effect, Refusal, Role, ServerEvent, Session, Target } from './session.js';

export type EndReason = 'hangup' | 'offerer-left' | 'answered-elsewhere' | 'rejoin-timeout' | 'operator';

export const tell = (to: Target, event: ServerEvent, arg: unknown): Effect => ({ kind: 'emit', to, event, arg });

export const refuse = (refusal: Refusal): Effect => ({ kind: 'refuse', refusal });

/** `call-ended` to each of `to`; `userId` is who caused it, absent for an operator. */
export function ended(session: Session, to: readonly Target[], reason: EndReason, userId?: UserId): Effect[] {
  const { conversationId } = session;
  const arg = userId === undefined ? { conversationId, reason } : { conversationId, reason, userId };
  return to.map((target) => tell(target, 'call-ended', arg));
}

/** Everyone who must hear of the call's end, the offerer's side first, but the socket that ended it. */
export const audience = (session: Session, except?: SocketRef): Target[] => [
  ...own(session, 'offerer', except),
  ...own(session, 'answerer', except),
];

/**
 * Where one side of the call hears of it: on its seat; on every socket while it has none, which is before the answer and while the call
 * waits for both; nowhere where it was lost alone.
 */
export function own(session: Session, role: Role, except?: SocketRef): Target[] {
  const seat = session.seats[role];
  if (!seat || (session.waitsForBoth && session.lost[role])) {
    return [{ user: session.users[role], except: except ? [except] : [] }];
  }
  if (session.lost[role] || (except && sameSocket(seat, except))) return [];
  return [{ socket: seat }];
}
