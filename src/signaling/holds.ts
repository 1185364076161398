// A planned move: before a browser's connection is closed its seats are held, so that its peers see nothing of it; and what a held
// seat's user was to hear of a call that ended meanwhile is told to that user's next socket. Knows no transports.
import type { SocketRef, UserId } from '../base/ids.js';
import { sameSocket } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import { holderOf } from '../call/change.js';
import type { CallKey, Role, Session } from '../call/session.js';
import type { Kept } from '../store/store.js';
import type { CallsDeps, Make } from './calls.js';

export interface HoldsDeps extends Pick<CallsDeps, 'store' | 'cluster' | 'signals' | 'clock'> {
  readonly calls: {
    apply(key: CallKey, make: Make): Promise<unknown>;
    readonly reach: {
      tell(call: Session, sockets: readonly SocketRef[], message: Kept): void;
      owe: ((session: Session, role: Role, message: Kept) => void) | undefined;
    };
  };
}

/** How long a seat waits for its user's next socket; a browser is back within one or two seconds. Milliseconds. */
export const HELD_MS = 10_000;
/** Connections are not kept open for longer by a Redis that does not answer. */
const mostWaitMs = 2_000;
/** What peers sent before they heard of the hold still comes to the socket that is about to go, ahead of what is kept. Milliseconds. */
const onItsWayMs = 100;
/** Ends that are owed to a browser on the move, 1 KB each: more than move in the 10 s that a seat is held. */
const mostOwed = 4_096;
const lookEachMs = 500;

export class Holds {
  readonly #deps: HoldsDeps;
  #owed = 0;

  /** Is asked for what is owed from here on. */
  constructor(deps: HoldsDeps) {
    this.#deps = deps;
    deps.calls.reach.owe = (session, role, message) => this.owe(session, role, message);
  }

  /** Resolves once the seats of these sockets are held, or can't be in time: then closing them is a loss as any other. Never rejects. */
  async hold(sockets: readonly SocketRef[]): Promise<void> {
    const { cluster, clock } = this.#deps;
    if (!cluster.liveness.mayAct()) return;
    let timer: { cancel(): void } | undefined;
    const late = new Promise<readonly boolean[]>((resolve) => {
      timer = clock.after(mostWaitMs, () => resolve([]));
    });
    const held = await Promise.race([late, Promise.all(sockets.map((socket) => this.#holdOne(socket)))]);
    timer?.cancel();
    if (held.includes(true)) await new Promise<void>((resolve) => clock.after(onItsWayMs, () => resolve()));
  }

  /** Whether it had a seat. */
  async #holdOne(socket: SocketRef): Promise<boolean> {
    const { store, calls, clock, signals } = this.#deps;
    try {
      const sessions = await store.bySocket(socket);
      const held: Make = async (now) => {
        const role = now && holderOf(now, socket);
        if (!now || !role) return null;
        const beside = await this.#sockets(now, now.users[role]);
        return { type: 'hold', socket, until: clock.now() + HELD_MS, beside };
      };
      await Promise.all(sessions.map((session) => calls.apply(session, held)));
      return sessions.length > 0;
    } catch (error) {
      if (!(error instanceof Unavailable)) signals.internalError('holding a seat', error);
      return false;
    }
  }

  /**
   * The call is over while a seat of it was held, so that nothing can be kept with it any more: its user's next socket hears of it, as
   * long as the seat would have been held. It may be there already; devices that were there beside it hear nothing of a call that is not
   * theirs.
   */
  owe(session: Session, role: Role, message: Kept): void {
    const until = session.held?.[role];
    if (until === undefined) return;
    if (this.#owed >= mostOwed) {
      this.#deps.signals.bound('owed-ends', {});
      return;
    }
    this.#owed++;
    this.#watch(session, role, until, message)
      .catch((error) => this.#deps.signals.internalError('the end of a call for a browser on the move', error))
      .finally(() => this.#owed--);
  }

  async #watch(session: Session, role: Role, until: number, message: Kept): Promise<void> {
    const { clock, store, calls } = this.#deps;
    const user = session.users[role];
    const seat = session.seats[role];
    const tell = calls.reach.tell.bind(calls.reach);
    const beside = session.beside?.[role];
    const old: readonly SocketRef[] = [...(seat ? [seat] : []), ...(beside ?? [])];
    let known = await this.#sockets(session, user);
    const there = known?.filter((ref) => !old.some((one) => sameSocket(one, ref))) ?? [];
    if (there.length > 0) tell(session, there, message);
    // Otherwise these may be devices that were there all the time.
    if (there.length > 0 && beside) return;
    while (clock.now() < until) {
      await new Promise<void>((resolve) => clock.after(lookEachMs, () => resolve()));
      const now = await this.#sockets(session, user);
      const before = known ?? old;
      const fresh = now?.filter((ref) => !before.some((one) => sameSocket(one, ref))) ?? [];
      known = now ?? known;
      if (fresh.length === 0) continue;
      // The conversation has a call again: that is what this user hears of. Where that can't be asked, there can hardly be one.
      const again = store.peek(session) ?? (await store.get(session).catch(() => null));
      if (!again) tell(session, fresh, message);
      return;
    }
  }

  /** Undefined where that can't be asked now. */
  async #sockets({ ns }: Session, user: UserId): Promise<readonly SocketRef[] | undefined> {
    const { presence } = this.#deps.cluster;
    try {
      return presence.peek(ns, user) ?? (await presence.socketsOf(ns, user));
    } catch (error) {
      if (error instanceof Unavailable) return undefined;
      throw error;
    }
  }
}
