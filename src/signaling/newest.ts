// The newest call of each conversation, as far as this instance was told or made it: several instances speak of one conversation, in
// order each for itself, so that what comes late of the call before, or of before a rejoin, is kept from browsers that are
// past it: the wire names no call. Knows no store and no transport.
import type { Clock } from '../base/clock.js';
import { type Namespace, type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import type { CallKey, Effect, Role, Session } from '../call/session.js';
import { checkedSession } from '../store/format.js';
import type { Delivery } from './deliver.js';
import type { Emit, Told } from './told.js';

/** Longer than a message can be late: it is sent again for 30 s, and an instance that pauses for long does not hear it at all. */
export const lateFor = 2 * 60_000;
/** About 500 bytes each. Of a call that was forgotten everything is passed on. */
const most = 50_000;
/** Calls before it: more than begin within `lateFor` between the same two, but by machines. */
const mostBefore = 16;

interface Newest {
  readonly callId: string;
  readonly version: number;
  /** `Session.broken`; 0: never. */
  readonly broken: number;
  /** Whether a first offer may still ring. */
  readonly rings: boolean;
  /** Where it was told in full. */
  readonly session: Session | undefined;
  /** Sockets here that it was told to ring, where it was not told in full. */
  readonly rung: readonly SocketRef[];
  readonly callee: UserId | undefined;
  /** Earlier calls, the latest first. */
  readonly before: readonly string[];
  readonly until: number;
}

type Fresh = Omit<Newest, 'before' | 'until'>;

/** How what is said of a call stands to what is known. `past`: it is of a call before. */
export interface Standing {
  readonly past: boolean;
  /** Whether this socket is still to hear it. */
  allows(emit: Pick<Emit, 'event'>, ref: SocketRef): boolean;
}

const current: Standing = { past: false, allows: () => true };
const roles: readonly Role[] = ['offerer', 'answerer'];

export class NewestCalls {
  readonly #calls = new Map<string, Newest>();
  readonly #clock: Pick<Clock, 'now'>;
  readonly #delivery: Pick<Delivery, 'socketsOf'>;

  constructor(clock: Pick<Clock, 'now'>, delivery: Pick<Delivery, 'socketsOf'>) {
    this.#clock = clock;
    this.#delivery = delivery;
  }

  get size(): number {
    return this.#calls.size;
  }

  /** Another instance says something of a call. `inForce`: it is the one that the store knows here. */
  heard(told: Told, inForce: boolean): Standing {
    const k = nameOf(told);
    const known = this.#of(k);
    const { callId, version, session } = told;
    // Whoever was not told of its beginning needs not hear how it goes on or ends.
    const past =
      known !== undefined && known.callId !== callId && !inForce && (known.before.includes(callId) || !session);
    if (past) {
      if (session === null && !known.before.includes(callId))
        this.#put(k, { ...known, before: [...known.before, callId] });
      return { past, allows: (_, ref) => !this.#involves(known, told.ns, ref) };
    }
    const full = session === 'ask' ? undefined : checkedSession(session);
    if (session !== undefined && (session === null || session === 'ask' || full)) this.#note(k, full ?? partial(told));
    if (known?.callId !== callId || known.version <= version) return current;
    return {
      past,
      allows: ({ event }, ref) => {
        if (event === 'call-ended') return session === null || !hasSeat(known.session, ref);
        return event === 'call-offer' ? known.rings : known.broken <= version;
      },
    };
  }

  /** This instance has changed a call. Answers what its browsers, and others, are still to hear of that. */
  made(key: CallKey, before: Session | null, after: Session | null, effects: readonly Effect[]): readonly Effect[] {
    const call = after ?? before;
    // Alone everything comes in its order.
    if (before === after || call?.seats.offerer.at === undefined) return effects;
    const k = nameOf(key);
    const known = this.#of(k);
    if (known?.before.includes(call.callId)) return effects.flatMap((effect) => pastIt(effect, known));
    this.#note(k, call);
    if (!after || known?.callId !== call.callId || known.broken <= after.version) return effects;
    return effects.filter((effect) => effect.kind !== 'emit' || effect.event === 'call-ended');
  }

  #of(k: string): Newest | undefined {
    const known = this.#calls.get(k);
    return known && known.until > this.#clock.now() ? known : undefined;
  }

  #note(k: string, call: Session | Fresh): void {
    const known = this.#of(k);
    if (known?.callId === call.callId) {
      this.#put(k, known.version > call.version ? known : { ...known, ...fresh(call, known) });
    } else {
      const before = known ? [known.callId, ...known.before].slice(0, mostBefore) : [];
      this.#put(k, { ...fresh(call), before });
    }
  }

  /** Entries are in the order of their time. */
  #put(k: string, newest: Fresh & Pick<Newest, 'before'>): void {
    const now = this.#clock.now();
    this.#calls.delete(k);
    this.#calls.set(k, { ...newest, before: newest.before.slice(0, mostBefore), until: now + lateFor });
    let looked = 0;
    for (const [key, { until }] of this.#calls) {
      if (this.#calls.size <= most && (until > now || ++looked > 4)) return;
      this.#calls.delete(key);
    }
  }

  /** Whether that socket heard of this call, or takes part in it: then it is past any call before. */
  #involves({ session, rung, callee }: Newest, ns: Namespace, ref: SocketRef): boolean {
    if (hasSeat(session, ref) || rung.some((one) => sameSocket(one, ref))) return true;
    return callee !== undefined && this.#delivery.socketsOf(ns, callee).some((one) => sameSocket(one, ref));
  }
}

const nameOf = ({ ns, conversationId }: CallKey): string => `${ns}\n${conversationId}`;

function fresh(call: Session | Fresh, known?: Newest): Fresh {
  if (!('seats' in call)) {
    if (!known) return call;
    return {
      ...call,
      session: known.session,
      callee: call.callee ?? known.callee,
      rung: [...known.rung, ...call.rung],
    };
  }
  const { callId, version, broken = 0, state, rejoining, users } = call;
  const rings = state === 'OFFERING' && !rejoining;
  return { callId, version, broken, rings, session: call, rung: [], callee: users.answerer };
}

/** Of a call that was not told in full. */
function partial({ callId, version, session, broken = 0, emits }: Told): Fresh {
  const rings = session === 'ask' && broken === 0;
  let callee: UserId | undefined;
  const rung: SocketRef[] = [];
  for (const { event, to } of rings ? emits : []) {
    if (event !== 'call-offer') continue;
    if ('user' in to) callee = to.user;
    else rung.push(...to);
  }
  return { callId, version, broken, rings, session: undefined, rung, callee };
}

/** An effect of a call before, without those who are past it. */
function pastIt(effect: Effect, { session, callee }: Newest): Effect[] {
  if (effect.kind !== 'emit') return [effect];
  const { to } = effect;
  if ('socket' in to) return hasSeat(session, to.socket) ? [] : [effect];
  if (to.user === callee) return [];
  const seats = session ? roles.flatMap((role) => session.seats[role] ?? []) : [];
  return [{ ...effect, to: { user: to.user, except: [...to.except, ...seats] } }];
}

const hasSeat = (session: Session | undefined, ref: SocketRef): boolean =>
  session !== undefined &&
  roles.some((role) => {
    const seat = session.seats[role];
    return seat !== null && sameSocket(seat, ref);
  });
