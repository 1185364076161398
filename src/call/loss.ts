// How a seat is lost: its socket went, or its user did not come back from a planned move in time; and how it is held
// for such a move. `transitions.ts` says what each loss does. Pure, as `step.ts` is, which asks it.
import { sameSocket } from '../base/ids.js';
import type { DropCause } from '../base/service.js';
import { holderOf, next, nothing, over, result, seat, settled, stays } from './change.js';
import { ended, tell } from './effects.js';
import type { CallEvent, Role, Session, Step } from './session.js';
import { drops, type Other, opposite, ownRole, situation } from './transitions.js';

/** Devices of one user, 100 bytes each. */
const mostBeside = 16;

export function drop(session: Session, event: Extract<CallEvent, { type: 'drop' }>, now: number): Step {
  const role = holderOf(session, event.socket);
  if (!role || session.lost[role]) return nothing(session, 'no-seat');
  // Its socket was to go, and the seat waits for the next one.
  if (session.held?.[role] !== undefined) return nothing(session, 'held');
  return lose(session, role, event.cause, event.otherPresent, now);
}

function lose(session: Session, role: Role, cause: DropCause, otherPresent: boolean, now: number): Step {
  const other = opposite(role);
  const lost = { ...session.lost, [role]: cause };
  const there = otherPresent || session.held?.[other] !== undefined;
  const here = there && !session.lost[other];
  const stands: Other = here ? 'here' : cause === 'browser' || session.lost[other] === 'browser' ? 'left' : 'taken';
  const left = { lost, ...stays(session, role) };
  const waiting = { ...settled, ...left, state: 'AWAITING_REJOIN', since: now, broken: session.version + 1 } as const;
  const told = tell(seat(session, other), 'call-peer-disconnected', {
    conversationId: session.conversationId,
    userId: session.users[role],
  });
  switch (drops[situation(session)][role === ownRole(session) ? 'own' : 'peer'][stands]) {
    case 'none':
      return nothing(session, 'no-seat');
    case 'ring-off': {
      const callee = { user: session.users.answerer, except: [] };
      return over(ended(session, [callee], 'offerer-left', session.users.offerer), 'offerer-left');
    }
    case 'over':
      return over([], 'both-gone');
    case 'await':
      return result(next(session, waiting), [told], 'peer-lost');
    case 'await-both': {
      // The other's own drop may still be on its way: it was taken by the same cause.
      const all = { lost: { [other]: cause, ...lost }, moved: undefined, waitsForBoth: true } as const;
      return result(next(session, { ...waiting, ...all }), [], 'both-lost');
    }
    case 'forget-offer':
      return result(next(session, waiting), here ? [told] : [], 'rejoiner-lost');
    case 'away':
      return result(next(session, { since: now, ...left }), [], 'away-again');
  }
}

/** The socket goes on purpose: what is for its seat is kept until its user comes on another one. */
export function hold(session: Session, { socket, until, beside }: Extract<CallEvent, { type: 'hold' }>): Step {
  const role = holderOf(session, socket);
  if (!role || session.lost[role]) return nothing(session, 'no-seat');
  if (session.held?.[role] !== undefined) return nothing(session, 'held');
  const held = { held: { ...session.held, [role]: until } };
  const others = beside?.filter((one) => !sameSocket(one, socket)).slice(0, mostBeside);
  const known = others ? { beside: { ...session.beside, [role]: Object.freeze(others) } } : {};
  return result(next(session, { ...held, ...known }), [], 'held');
}

/** Nobody came: the seat is lost as it would have been when its socket went. */
export function holdOver(session: Session, event: Extract<CallEvent, { type: 'hold-over' }>, now: number): Step {
  const until = session.held?.[event.role];
  if (until === undefined || now < until) return nothing(session, until === undefined ? 'not-held' : 'in-time');
  return lose(session, event.role, 'drain', event.otherPresent, now);
}
