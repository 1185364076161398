// Sockets that come and go: a call that waits for a user hears of a new one, a call whose seat is lost hears of that, at once
// or as soon as what instances share can be reached again. Knows no routes and no payloads.
import { type SocketRef, sameSocket } from '../base/ids.js';
import type { DropCause, Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallEvent, CallKey, Sender, Session, Step } from '../call/session.js';
import { opposite } from '../call/transitions.js';
import type { Kept } from '../store/store.js';
import { type Calls, type CallsDeps, keyOf } from './calls.js';
import type { Lanes } from './lanes.js';
import type { Whereabouts } from './reach.js';

/** Calls of one socket that end between two turns of the event loop, some milliseconds: nothing bounds how many it may have. */
const mostDroppedAtOnce = 64;
/** Comings and goings that wait while Redis is away, 0.5 KB each: as many as one instance has browsers. */
const mostOwed = 100_000;
const retryMs = 500;
/** What a new socket sends is not kept waiting for longer by a Redis that does not answer. */
const mostWaitMs = 1_000;
/** A seat is held for 10 s, and a hold that nobody answered for is known within 2. */
const newForMs = 12_000;
/** Until a connection that was there when it was asked for is seen by all instances. */
const askAgainMs = 300;
/** Of those, looked at together when Redis is back, so that thousands don't all ask at once. */
const retriedAtOnce = 64;

export class Comings {
  readonly #deps: CallsDeps;
  readonly #calls: Calls;
  readonly #lanes: Lanes;
  /** What could not be done yet; null: the peer came, otherwise why it went. */
  readonly #owed = new Map<Peer, DropCause | null>();
  /** By socket; each for a round trip or two. */
  readonly #arriving = new Map<string, Promise<void>>();
  /** Sockets that a held seat may be for, the oldest first, and since when they are here; null while their arrival is owed or under way. */
  readonly #new = new Map<string, number | null>();
  #retrying = false;

  constructor(deps: CallsDeps, calls: Calls, lanes: Lanes) {
    this.#deps = deps;
    this.#calls = calls;
    this.#lanes = lanes;
  }

  /** How many wait until what instances share can be reached. */
  get owed(): number {
    return this.#owed.size;
  }

  /** The legacy accepted a socket of a verified user. */
  came(peer: Peer): Promise<void> {
    const arrival = this.#arrived(peer);
    const work = this.#orLater(peer, null, arrival);
    // Alone that is done before the browser can have sent anything.
    if (peer.ref.at === undefined) return work;
    const name = nameOf(peer.ref);
    this.#forgetOlder();
    this.#new.set(name, null);
    arrival.then(
      () => this.#new.has(name) && this.#new.set(name, this.#deps.clock.now()),
      () => undefined, // owed, and still new
    );
    this.#waitFor(peer.ref, work);
    return work;
  }

  /**
   * Calls that wait for this socket's user may not have been told of it, as their arrival is owed or since a seat was held for it only
   * then (that its hold was made was learnt late): one that it speaks of is told first.
   */
  isNew(ref: SocketRef): boolean {
    if (this.#new.size === 0) return false;
    const since = this.#new.get(nameOf(ref));
    return since === null || (since !== undefined && this.#deps.clock.now() - since < newForMs);
  }

  #forgetOlder(): void {
    const now = this.#deps.clock.now();
    for (const [name, since] of this.#new) {
      if (since === null || now - since < newForMs) break;
      this.#new.delete(name);
    }
  }

  /** A call may be about to give its held seat to this new socket: what it sends waits for that; null: not, or not any more. */
  arriving(ref: SocketRef): Promise<void> | null {
    return this.#arriving.get(nameOf(ref)) ?? null;
  }

  /** That call may hold a seat for this new socket. Where nobody can be asked, or not within `ms`, that shows when it is served. */
  async arrivesIn(key: CallKey, by: Sender, ms: number): Promise<void> {
    const { clock, signals } = this.#deps;
    let late = false;
    const arrives = this.#calls
      .apply(key, (now) => now && { type: 'arrived', by })
      .catch((error) => {
        if (error instanceof Unavailable) return;
        if (!late) throw error;
        signals.internalError('a new socket of a call', error);
      });
    await new Promise<void>((resolve, reject) => {
      const timer = clock.after(Math.max(0, ms), () => {
        late = true;
        resolve();
      });
      arrives.then(() => resolve(), reject).finally(() => timer.cancel());
    });
  }

  #waitFor(ref: SocketRef, work: Promise<void>): void {
    const name = nameOf(ref);
    const waiting = new Promise<void>((resolve) => {
      const timer = this.#deps.clock.after(mostWaitMs, () => done());
      const done = (): void => {
        timer.cancel();
        this.#arriving.delete(name);
        resolve();
      };
      work.then(done, done); // told by who asked for the work
    });
    this.#arriving.set(name, waiting);
  }

  went(peer: Peer, cause: DropCause): Promise<void> {
    this.#new.delete(nameOf(peer.ref));
    if (this.#owed.get(peer) === null) this.#owed.delete(peer);
    return this.#orLater(peer, cause, this.#dropped(peer, cause));
  }

  /**
   * A rejoin offer is kept for a user who may be coming back in this very moment: that socket looked for calls just before the offer was
   * there, and the offer for sockets just before that one was known. `found`: those that the offer went to.
   */
  offered({ session, effects }: Step, found: Whereabouts | undefined): void {
    const offer = effects.find((effect) => effect.kind === 'emit' && effect.event === 'call-rejoin-offer');
    if (!session || offer?.kind !== 'emit') return;
    this.#deps.clock.after(askAgainMs, () => {
      this.#offeredAgain(session, offer, found).catch((error) => {
        if (!(error instanceof Unavailable)) this.#deps.signals.internalError('looking again for a user', error);
      });
    });
  }

  async #offeredAgain(offered: Session, message: Kept, found: Whereabouts | undefined): Promise<void> {
    const { store, cluster } = this.#deps;
    const { ns, conversationId, callId, version, users, offeredBy } = offered;
    const key = { ns, conversationId };
    const now = store.peek(key) ?? (await store.get(key));
    // Whoever came meanwhile has it.
    if (now?.callId !== callId || now.version !== version) return;
    const role = opposite(offeredBy ?? 'offerer');
    const told = await found?.get(users[role]);
    if (!told) return; // every instance looked among its own
    const isNew = (socket: SocketRef): boolean => !told.some((one) => sameSocket(one, socket));
    const seat = now.seats[role];
    if (!now.lost[role]) {
      // It was back before the offer; a further device of that user has asked since, or is told of nothing that it could not do without.
      if (seat && isNew(seat) && now.held?.[role] === undefined) this.#calls.reach.tell(now, [seat], message);
      return;
    }
    for (const socket of (await cluster.presence.socketsOf(ns, users[role])).filter(isNew)) {
      await this.#calls.apply(key, (session) => session && { type: 'arrived', by: { user: users[role], socket } });
    }
  }

  async #arrived(peer: Peer): Promise<void> {
    const { store, delivery } = this.#deps;
    const { ref, user } = peer;
    if (user === undefined) return;
    for (const session of await store.awaiting(ref.ns, user)) {
      if (!session.held && session.state !== 'AWAITING_REJOIN' && !session.rejoining) continue;
      if (!delivery.isConnected(ref)) return;
      await this.#calls.apply(session, (now) => now && { type: 'arrived', by: { user, socket: ref } });
    }
  }

  async #dropped(peer: Peer, cause: DropCause): Promise<void> {
    const { ref } = peer;
    let dropped = 0;
    for (const session of await this.#deps.store.bySocket(ref)) {
      if (++dropped % mostDroppedAtOnce === 0) await new Promise((resume) => setImmediate(resume));
      if (this.#lanes.busy(ref.connection, keyOf(session))) continue;
      await this.#calls.apply(session, (now) => now && this.#drop(now, peer, cause));
    }
  }

  #drop(session: Session, { ref }: Peer, cause: DropCause): CallEvent | Promise<CallEvent> {
    const { offerer } = session.seats;
    const other = opposite(offerer.connection === ref.connection && offerer.id === ref.id ? 'offerer' : 'answerer');
    const seat = session.seats[other];
    const present =
      session.held?.[other] !== undefined ||
      (seat !== null && this.#deps.cluster.presence.isConnected(seat, session.users[other]));
    const as = (otherPresent: boolean): CallEvent => ({ type: 'drop', socket: ref, cause, otherPresent });
    return present instanceof Promise ? present.then(as) : as(present);
  }

  async #orLater(peer: Peer, cause: DropCause | null, work: Promise<void>): Promise<void> {
    try {
      await work;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      this.#owed.delete(peer); // a going is behind whatever else is owed
      this.#owed.set(peer, cause);
      if (this.#owed.size > mostOwed) {
        this.#owed.delete(this.#owed.keys().next().value as Peer);
        this.#deps.signals.bound('owed', {});
      }
      this.#retryLater();
    }
  }

  #retryLater(): void {
    if (this.#retrying) return;
    this.#retrying = true;
    this.#deps.clock.after(retryMs, () => {
      this.#retry()
        .catch((error) => this.#deps.signals.internalError('catching up with comings and goings', error))
        .finally(() => {
          this.#retrying = false;
          if (this.#owed.size > 0) this.#retryLater();
        });
    });
  }

  async #retry(): Promise<void> {
    const { cluster, delivery } = this.#deps;
    while (this.#owed.size > 0 && cluster.liveness.mayAct()) {
      const some = [...this.#owed].slice(0, retriedAtOnce);
      for (const [peer] of some) this.#owed.delete(peer);
      const left = this.#owed.size;
      await Promise.all(
        some.map(([peer, cause]) => {
          if (cause !== null) return this.went(peer, cause);
          return delivery.isConnected(peer.ref) ? this.came(peer) : undefined;
        }),
      );
      if (this.#owed.size > left) return; // away again
    }
  }
}

const nameOf = ({ ns, connection, id }: SocketRef): string => `${connection} ${id} ${ns}`;
