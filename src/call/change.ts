// How a session is made from the one before it, and what a step answers. Knows no event and no rule of when.
import { type SocketRef, sameSocket } from '../base/ids.js';
import type { Effect, Role, Session, Step } from './session.js';
import { opposite } from './transitions.js';

export const none: readonly unknown[] = Object.freeze([]);
/** Nothing is offered and nothing waits. */
export const settled = {
  offeredBy: null,
  rejoining: false,
  candidates: none,
  candidateBytes: undefined,
  keptOffer: null,
} as const;

/** Seats that are looked up here are taken: `transitions` relays to none that is not. */
export const seat = (session: Session, role: Role) => ({ socket: session.seats[role] ?? session.seats.offerer });

export const seated = (session: Session, role: Role, socket: SocketRef): Session['seats'] =>
  role === 'offerer' ? { ...session.seats, offerer: socket } : { ...session.seats, answerer: socket };

export function without(lost: Session['lost'], role: Role): Session['lost'] {
  const { [role]: _, ...rest } = lost;
  return rest;
}

/** What is still true of the planned moves once this seat changed hands, or was lost. */
export function stays({ held, beside, moved }: Session, role: Role): Pick<Session, 'held' | 'beside' | 'moved'> {
  const other = opposite(role);
  return {
    held: held?.[other] === undefined ? undefined : { [other]: held[other] },
    beside: beside?.[other] ? { [other]: beside[other] } : undefined,
    moved: moved?.[other] ? { [other]: true } : undefined,
  };
}

export const next = (session: Session, change: Partial<Session>): Session =>
  seal({ ...session, ...change, version: session.version + 1 });

/** Frozen but for what browsers sent, which is passed on as it came. */
export function seal(session: Session): Session {
  Object.freeze(session.users);
  Object.freeze(session.seats);
  Object.freeze(session.lost);
  if (session.held) Object.freeze(session.held);
  if (session.beside) Object.freeze(session.beside);
  if (session.moved) Object.freeze(session.moved);
  Object.freeze(session.candidates);
  return Object.freeze(session);
}

export const result = (session: Session | null, effects: readonly Effect[], because: string): Step => ({
  session,
  effects,
  because,
});
export const nothing = (session: Session | null, because: string): Step => result(session, [], because);
export const over = (effects: readonly Effect[], because: string): Step => result(null, effects, because);

/** Whose seat that very socket holds, or held last. */
export const holderOf = ({ seats: { offerer, answerer } }: Session, socket: SocketRef): Role | null =>
  sameSocket(offerer, socket) ? 'offerer' : answerer && sameSocket(answerer, socket) ? 'answerer' : null;
