// One event in the life of a call: (session, event, now) → (session, effects). Looks the cell up in `transitions.ts` and does
// what it names. Pure: knows no socket, clock, store or log, never throws on any payload, never looks into a description.
import { type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import { next, none, nothing, over, result, seal, seat, seated, settled, stays, without } from './change.js';
import { audience, ended, own, refuse, tell } from './effects.js';
import { buffer, MAX_BUFFERED_BYTES } from './ice.js';
import { drop, hold, holdOver } from './loss.js';
import { refusals } from './refusals.js';
import type { CallEvent, Effect, Role, Session, State, Step } from './session.js';
import { type Command, type Move, opposite, ownRole, type Place, situation, transitions } from './transitions.js';

/**
 * What `event` makes of `session` at `now` (milliseconds since the epoch). The result holds the very same session object
 * where nothing changed and null where the call is over; a changed session's `version` is one higher. The effects are due
 * in order, once the session is saved; those of a browser's event hold exactly one `ack` or `refuse`.
 */
export function step(session: Session | null, event: CallEvent, now: number): Step {
  switch (event.type) {
    case 'drop':
      return session ? drop(session, event, now) : nothing(null, 'no-call');
    case 'arrived':
      return session ? arrive(session, event.by.user, event.by.socket) : nothing(null, 'no-call');
    case 'hold':
      return session ? hold(session, event) : nothing(null, 'no-call');
    case 'hold-over':
      return session ? holdOver(session, event, now) : nothing(null, 'no-call');
    case 'sweep':
      return session ? sweep(session, event, now) : nothing(null, 'no-call');
    case 'operator-end':
      return session ? over(ended(session, audience(session), 'operator'), 'operator') : nothing(null, 'no-call');
    default:
      return command(session, event, now);
  }
}

type Commanded = Extract<CallEvent, { type: Command }>;

function command(session: Session | null, event: Commanded, now: number): Step {
  const cell = transitions[situation(session)][event.type][place(session, event)];
  if ('refuse' in cell) return result(session, [refuse(cell.refuse)], cell.because);
  if (cell.move === 'drop-candidate') {
    return result(
      session,
      [{ kind: 'candidate-dropped', why: session ? 'awaiting-rejoin' : 'no-call' }, ok],
      cell.because,
    );
  }
  if (!session || cell.move === 'open') return open(event, now, cell.because);
  const { by } = event;
  const role: Role = session.users.offerer === by.user ? 'offerer' : 'answerer';
  const to = cell.to === null || cell.to === 'ENDED' ? session.state : cell.to;
  return moves[cell.move]({ session, event, socket: by.socket, role, to, now, because: cell.because });
}

/** Where the sender stands: `Place`. Without a session a participant holds no seat yet. */
function place(session: Session | null, event: Commanded): Place {
  const { user, socket } = event.by;
  if (!session) {
    const participants = event.type === 'call-offer' ? event.participants : undefined;
    return !participants || takesPart(participants, user) ? 'ownOther' : 'outsider';
  }
  const mine = ownRole(session);
  const role = user === session.users[mine] ? mine : opposite(mine);
  if (user !== session.users[role]) return 'outsider';
  const seat = session.seats[role];
  // A browser that was moved may take that for a loss and offer a rejoin, from the very socket that has its seat by now.
  const newcomer = event.type === 'call-rejoin-offer' && session.moved?.[role] === true;
  const seated = seat !== null && sameSocket(seat, socket) && !newcomer;
  if (role === mine) return seated ? 'ownSeat' : 'ownOther';
  return seated ? 'peerSeat' : 'peerOther';
}

/** A conversation of one user with itself has nobody to ring. */
const takesPart = ([a, b]: readonly [UserId, UserId], user: UserId): boolean => a !== b && (user === a || user === b);

function open(event: Commanded, now: number, because: string): Step {
  // A session that ended between the decision and now leaves an offer without participants: they must be asked for again.
  if (event.type !== 'call-offer' || !event.participants) {
    return result(null, [refuse(refusals.unavailable)], 'participants-unknown');
  }
  const { by, participants, conversationId, callId } = event;
  const answerer = participants[0] === by.user ? participants[1] : participants[0];
  const buffered = buffer([], event.early);
  const session = seal({
    ns: by.socket.ns,
    conversationId,
    callId,
    version: 1,
    state: 'OFFERING',
    createdAt: now,
    since: now,
    users: { offerer: by.user, answerer },
    seats: { offerer: by.socket, answerer: null },
    lost: {},
    offeredBy: 'offerer',
    rejoining: false,
    candidates: buffered.candidates,
    keptOffer: null,
  });
  const ring = tell({ user: answerer, except: [] }, 'call-offer', {
    conversationId,
    offer: event.offer,
    fromUserId: by.user,
  });
  return result(session, [...buffered.effects, ring, ok], because);
}

interface Play {
  readonly session: Session;
  readonly event: Commanded;
  readonly socket: SocketRef;
  readonly role: Role;
  /** The state that follows, as the table has it. */
  readonly to: State;
  readonly now: number;
  readonly because: string;
}

/** One function for each move that needs a session. */
const moves: Readonly<Record<Exclude<Move, 'open' | 'drop-candidate'>, (play: Play) => Step>> = {
  buffer({ session, event, because }) {
    const size = event.type === 'ice-candidate' ? (event.size ?? 0) : 0;
    const candidateBytes = (session.candidateBytes ?? 0) + size;
    if (candidateBytes > MAX_BUFFERED_BYTES)
      return result(session, [{ kind: 'candidate-dropped', why: 'too-large' }, ok], 'too-large');
    const { candidates, effects } = buffer(session.candidates, [body(event)]);
    const after = candidates === session.candidates ? session : next(session, { candidates, candidateBytes });
    return result(after, [...effects, ok], after === session ? 'buffer-full' : because);
  },

  relay({ session, event, role, because }) {
    return result(session, [tell(seat(session, opposite(role)), 'ice-candidate', body(event)), ok], because);
  },

  answer({ session, event, socket, role, to, now, because }) {
    const after = next(session, { ...settled, state: to, since: now, seats: { ...session.seats, answerer: socket } });
    return result(
      after,
      [
        tell(seat(after, 'offerer'), 'call-answer', described(session, 'answer', event, role)),
        ...ended(session, [{ user: session.users[role], except: [socket] }], 'answered-elsewhere', session.users[role]),
        ...handOver(session, event),
      ],
      because,
    );
  },

  renegotiate({ session, event, role, to, now, because }) {
    const after = next(session, { state: to, since: now, offeredBy: role });
    const arg = described(session, 'offer', event, role);
    return result(after, [tell(seat(after, opposite(role)), 'call-renegotiate-offer', arg), ok], because);
  },

  settle({ session, event, role, to, now, because }) {
    const after = next(session, { ...settled, state: to, since: now });
    const arg = described(session, 'answer', event, role);
    return result(after, [tell(seat(after, opposite(role)), 'call-renegotiate-answer', arg), ok], because);
  },

  rejoin({ session, event, socket, role, to, now, because }) {
    const other = opposite(role);
    const offer = body(event);
    const after = next(session, {
      state: to,
      since: now,
      broken: session.version + 1,
      seats: seated(session, role, socket),
      lost: without(session.lost, role),
      ...stays(session, role),
      offeredBy: role,
      rejoining: true,
      candidates: none,
      candidateBytes: undefined,
      keptOffer: session.waitsForBoth ? offer : null,
    });
    // A user whose seat was lost is told on every socket that is back by now; `arrive` tells the later ones.
    const target = session.waitsForBoth ? { user: session.users[other], except: [] } : seat(after, other);
    return result(after, [tell(target, 'call-rejoin-offer', described(session, 'offer', event, role)), ok], because);
  },

  'answer-rejoin'({ session, event, socket, role, to, now, because }) {
    const { waitsForBoth: _, ...rest } = next(session, {
      ...settled,
      state: to,
      since: now,
      seats: seated(session, role, socket),
      lost: {},
      ...stays(session, role),
    });
    const after = seal(rest);
    const arg = described(session, 'answer', event, role);
    return result(
      after,
      [tell(seat(after, opposite(role)), 'call-rejoin-answer', arg), ...handOver(session, event)],
      because,
    );
  },

  'show-kept'({ session, socket, role, because }) {
    const after = comeBack(session, role, socket, true);
    return result(after, [refuse(refusals.answerTheRejoin), kept(session, socket)], because);
  },

  end({ session, socket, role, because }) {
    return over([...ended(session, audience(session, socket), 'hangup', session.users[role]), ok], because);
  },
};

/** A participant's new socket takes a seat that is held for it, and matters to a call that waits for both. */
function arrive(session: Session, user: UserId, socket: SocketRef): Step {
  const role: Role | null =
    user === session.users.offerer ? 'offerer' : user === session.users.answerer ? 'answerer' : null;
  if (!role) return nothing(session, 'not-awaited');
  const owes = session.waitsForBoth && session.offeredBy === opposite(role);
  const known = session.seats[role];
  const same = known !== null && sameSocket(known, socket);
  if (session.held?.[role] !== undefined) {
    if (same) return nothing(session, 'not-awaited');
    const seats = seated(session, role, socket);
    const after = next(session, {
      seats,
      ...stays(session, role),
      moved: { ...session.moved, [role]: true },
    });
    return result(after, owes ? [kept(session, socket)] : [], 'moved');
  }
  if (!session.waitsForBoth || session.offeredBy === role) return nothing(session, 'not-awaited');
  if (!session.lost[role] && same) return nothing(session, 'not-awaited');
  const after = comeBack(session, role, socket, false);
  if (!owes) return nothing(after, after === session ? 'not-awaited' : 'back');
  return result(after, [kept(session, socket)], 'kept-delivered');
}

function sweep(session: Session, event: Extract<CallEvent, { type: 'sweep' }>, now: number): Step {
  const age = now - session.since;
  if ((session.state === 'AWAITING_REJOIN' || session.waitsForBoth) && age >= event.rejoinTimeout) {
    const told = (['offerer', 'answerer'] as const).flatMap((role) =>
      ended(session, own(session, role), 'rejoin-timeout', session.users[missing(session, role)]),
    );
    return over(told, 'rejoin-timeout');
  }
  return age >= event.maxAge ? over([], 'max-age') : nothing(session, 'in-time');
}

/** Who did not come back, as `told` sees it: the one lost; the one who owes the answer; of two lost, the other. */
function missing(session: Session, told: Role): Role {
  const { offerer, answerer } = session.lost;
  if (offerer && !answerer) return 'offerer';
  if (answerer && !offerer) return 'answerer';
  return opposite(session.offeredBy ?? told);
}

/** The seat of a user who was lost with the other is the first socket that comes back, or the one that `takes` it. */
function comeBack(session: Session, role: Role, socket: SocketRef, takes: boolean): Session {
  const known = session.seats[role];
  if (!session.lost[role] && (!takes || (known && sameSocket(known, socket)))) return session;
  return next(session, {
    seats: seated(session, role, socket),
    lost: without(session.lost, role),
    ...stays(session, role),
  });
}

const kept = (session: Session, socket: SocketRef): Effect =>
  tell({ socket }, 'call-rejoin-offer', {
    conversationId: session.conversationId,
    offer: session.keptOffer,
    fromUserId: session.users[session.offeredBy ?? 'offerer'],
  });

/** The buffered candidates: in the acknowledgement, or after it was not asked for, one by one. */
function handOver(session: Session, event: Commanded): Effect[] {
  const asked = 'ackRequested' in event && event.ackRequested;
  const { candidates } = session;
  const loose = asked ? [] : candidates.map((c) => tell({ socket: event.by.socket }, 'ice-candidate', c));
  return [...loose, { kind: 'ack', arg: candidates }];
}

const body = (event: Commanded): unknown =>
  'offer' in event
    ? event.offer
    : 'answer' in event
      ? event.answer
      : 'iceCandidate' in event
        ? event.iceCandidate
        : null;

const described = (session: Session, what: 'offer' | 'answer', event: Commanded, from: Role) => ({
  conversationId: session.conversationId,
  [what]: body(event),
  fromUserId: session.users[from],
});

const ok: Effect = Object.freeze({ kind: 'ack', arg: Object.freeze({ ok: true }) });
