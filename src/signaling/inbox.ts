// What other instances say of calls: what is known here of them is brought up to date before a browser of this instance hears
// anything, in the order of sending and behind a change of our own that is being told. Knows no rule of a call.
import type { SocketRef } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Role, ServerEvent, Session } from '../call/session.js';
import { type Calls, type CallsDeps, keyOf } from './calls.js';
import type { Standing } from './newest.js';
import { type Emit, read, type Told } from './told.js';
import type { ToldCalls } from './told-calls.js';

/** Messages that wait behind changes of ours, which takes 2 s at most; over it they don't wait. */
const mostWaiting = 10_000;

export class Inbox {
  readonly #deps: CallsDeps;
  readonly #calls: Calls;
  readonly #told: ToldCalls;
  readonly #elsewhere: (key: CallKey) => void;
  /** By call, what is to be heard once a change of ours is told. */
  readonly #waiting = new Map<string, Told[]>();
  #waits = 0;

  /** `elsewhere`: the legacy rings the callee of a call of its own on another instance. */
  constructor(deps: CallsDeps, calls: Calls, told: ToldCalls, elsewhere: (key: CallKey) => void) {
    this.#deps = deps;
    this.#calls = calls;
    this.#told = told;
    this.#elsewhere = elsewhere;
    deps.cluster.broker.on('call', (body) => {
      try {
        this.#comes(body);
      } catch (error) {
        deps.signals.internalError('hearing of a call', error);
      }
    });
  }

  get size(): number {
    return this.#waits;
  }

  #comes(body: unknown): void {
    const told = read(body, this.#deps.cluster.liveness.address);
    if (!told) {
      this.#deps.signals.internalError(
        'hearing of a call',
        new Error('a message of another instance is not understood'),
      );
      return;
    }
    const k = keyOf(told);
    const waiting = this.#waiting.get(k);
    const settled = waiting ? null : this.#calls.settled(told);
    if ((!waiting && !settled) || this.#waits >= mostWaiting) {
      this.#hear(told);
      return;
    }
    this.#waits += 1;
    if (waiting) {
      waiting.push(told);
      return;
    }
    this.#waiting.set(k, [told]);
    void settled?.then(() => {
      const all = this.#waiting.get(k) ?? [];
      this.#waiting.delete(k);
      this.#waits -= all.length;
      for (const one of all) this.#hear(one);
    });
  }

  #hear(told: Told): void {
    const { store, ended } = this.#deps;
    const { callId, version, session, emits, about } = told;
    const k = keyOf(told);
    if (about === 'unreadable') {
      this.#calls.lost(told);
      return;
    }
    if (about === 'rings-elsewhere') {
      this.#elsewhere(told);
      return;
    }
    const standing = this.#calls.newest.heard(told, store.peek(told)?.callId === callId);
    if (session === null) {
      store.heard(told, callId, version, null);
      // The end of a call before says nothing of the last one that ended.
      if (!standing.past || ended.last(k) === null) ended.add(k, callId);
    } else if (!standing.past && session !== undefined && ended.last(k) !== callId) {
      store.heard(told, callId, version, session === 'ask' ? undefined : session);
      // Another device has answered: of that call's end this instance is not told any more.
      if (emits.some(isEnd) && !this.#isSeated(session)) this.#told.ended(k, callId);
      else this.#told.add(k, callId);
    }
    // What was sent before its end and comes after it is about nothing any more, but for devices that ring: nobody else tells them.
    const over = session !== null && ended.last(k) === callId;
    for (const emit of emits) if (!over || emit.event === 'call-ended') this.#emit(told, emit, standing);
  }

  #isSeated(session: Session | 'ask'): boolean {
    if (session === 'ask') return false;
    const { address } = this.#deps.cluster.liveness;
    // It is checked by who keeps it.
    return session.seats?.offerer?.at === address || session.seats?.answerer?.at === address;
  }

  #emit(told: Told, emit: Emit, standing: Standing): void {
    const { delivery } = this.#deps;
    const { to, event, arg, seat } = emit;
    if ('user' in to) {
      for (const ref of delivery.socketsOf(told.ns, to.user)) {
        const except = to.except.some(({ id, connection }) => id === ref.id && connection === ref.connection);
        if (!except && standing.allows(emit, ref)) {
          delivery.emit(ref, event, arg);
        }
      }
      return;
    }
    for (const ref of to) {
      if (!standing.allows(emit, ref)) continue;
      if (delivery.emit(ref, event, arg) || seat === undefined || told.session === null || standing.past) continue;
      this.#follow(told, seat, ref, event as ServerEvent, arg);
    }
  }

  #follow(told: Told, seat: Role, ref: SocketRef, event: ServerEvent, arg: unknown): void {
    const { signals } = this.#deps;
    this.#calls.reach.follow(told, seat, ref, event, arg).catch((error) => {
      // Its sender was told that it is delivered; without Redis nobody knows where the seat is.
      if (error instanceof Unavailable) signals.candidateDropped('not-kept');
      else signals.internalError('following a seat that moved', error);
    });
  }
}

const isEnd = ({ event }: Emit): boolean => event === 'call-ended';
