// A seat whose socket went with its instance is lost: one step for each call, however many of its seats are gone. Knows nothing of who finds
// that an instance is gone, and of how its calls are found.
import type { Address } from '../base/ids.js';
import type { DropCause } from '../base/service.js';
import type { CallEvent, CallKey, Role, Session } from '../call/session.js';
import { opposite } from '../call/transitions.js';
import type { Cluster } from '../cluster/cluster.js';
import type { Make } from './calls.js';

export const roles = ['offerer', 'answerer'] as const;

export interface LostSeatsDeps {
  readonly calls: { apply(key: CallKey, make: Make): Promise<unknown> };
  readonly cluster: Pick<Cluster, 'presence'>;
}

/** Its socket was there when this was saved, and is not known to be on the move. */
export const isTaken = (session: Session, role: Role): boolean =>
  session.seats[role] !== null && !session.lost[role] && session.held?.[role] === undefined;

/** Every seat of that call on that instance whose socket is gone is lost. Answers whether one was. @throws Unavailable */
export async function loseSeats(
  deps: LostSeatsDeps,
  key: CallKey,
  address: Address,
  cause: DropCause,
): Promise<boolean> {
  let lost = false;
  // The first step takes both seats where both are gone, but for a call that waited for both already.
  for (const _ of roles) {
    const step = await deps.calls.apply(key, (now) => (now ? lossOf(deps, now, address, cause) : null));
    if (step === null) break;
    lost = true;
  }
  return lost;
}

async function lossOf(
  deps: LostSeatsDeps,
  session: Session,
  address: Address,
  cause: DropCause,
): Promise<CallEvent | null> {
  const isThere = async (role: Role): Promise<boolean> => {
    const seat = session.seats[role];
    return seat !== null && (await deps.cluster.presence.isConnected(seat, session.users[role]));
  };
  for (const role of roles) {
    const socket = session.seats[role];
    // The process may go on under a later life, and the seat's socket with it.
    if (socket?.at !== address || !isTaken(session, role) || (await isThere(role))) continue;
    const other = opposite(role);
    const otherPresent = isTaken(session, other) && (await isThere(other));
    return { type: 'drop', socket, cause, otherPresent };
  }
  return null;
}
