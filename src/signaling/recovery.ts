// What becomes of calls when an instance goes: another one died and this one takes its calls over, this one was declared dead, or
// leaves in order; and when Redis comes back empty. One step for each call, however many of its seats are gone. Knows no leases.
import type { Address, InstanceId, SocketRef } from '../base/ids.js';
import type { DropCause, Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey, Session } from '../call/session.js';
import type { CallsDeps, Make } from './calls.js';
import { loseSeats, roles } from './lost-seats.js';

/** What recovery needs of a browser's connection to this instance; the proxy's registry knows them. */
export interface ConnectionHere {
  sockets(): readonly SocketRef[];
  peer(ns: string): Peer | undefined;
  readonly transport: { end(code: number, reason: string): void } | null;
}

export interface RecoveryDeps extends Pick<CallsDeps, 'store' | 'delivery' | 'cluster' | 'signals' | 'clock'> {
  readonly calls: { apply(key: CallKey, make: Make): Promise<unknown> };
  connections(): Iterable<ConnectionHere>;
}

/** Calls that are handled together, each in two or three round trips: 200 calls take a few of them, and no burst of thousands goes out. */
const atOnce = 64;
/** Until Redis answers again. */
const retryMs = 250;
/** How often it is looked for instances that are gone, and how long the regular way has for their calls. Milliseconds. */
const lookEachMs = 1_000;
const goneForMs = 10_000;
/** A WebSocket ends at the next whole packet, after 250 ms at the latest. */
const closesWithinMs = 2_000;

export class Recovery {
  readonly #deps: RecoveryDeps;
  #closed = false;
  readonly #toRestore = new Set<'all' | 'recent'>();
  #restoring: Promise<void> = Promise.resolve();

  /** Listens from here on. */
  constructor(deps: RecoveryDeps) {
    this.#deps = deps;
    const { liveness } = deps.cluster;
    liveness.onDead((dead, address) => this.#recover(dead, address));
    liveness.onFenced((was, now) => this.#guard('fenced', this.#fenced(was, now)));
    // A server that took over from another may lack the last moment of it, which nothing tells.
    liveness.onBack((lost) => this.#writeAgain(lost ? 'all' : 'recent'));
    this.#watch(this.#addresses());
  }

  /**
   * Whoever takes over goes by the index in Redis, which can be lost together with an instance: each instance looks after the calls of its
   * own browsers besides, once that instance has been gone for a while. What was handled already does not change again.
   */
  #watch(before: ReadonlySet<Address>): void {
    this.#deps.clock.after(lookEachMs, () => {
      if (this.#closed) return;
      const now = this.#deps.cluster.liveness.mayAct() ? this.#addresses() : before;
      for (const address of before) {
        if (now.has(address)) continue;
        this.#deps.clock.after(goneForMs, () => {
          if (!this.#closed && !this.#deps.cluster.liveness.isLiving(address)) {
            this.#guard('calls of an instance that is gone', this.#dropKnown(this.#knownOn(address), address));
          }
        });
      }
      this.#watch(now);
    });
  }

  #addresses(): ReadonlySet<Address> {
    return new Set(this.#deps.cluster.liveness.living().map(({ address }) => address));
  }

  /** Calls of users who are connected here with a seat over there. */
  #knownOn(address: Address): readonly Session[] {
    const calls = new Map<string, Session>();
    for (const connection of this.#deps.connections()) {
      for (const session of this.#knownAt(connection, (seat) => seat?.at === address)) {
        calls.set(session.callId, session);
      }
    }
    return [...calls.values()];
  }

  /**
   * This instance leaves, and its connections are closed: whatever seat of its own is neither held nor lost by now is lost. Nothing
   * is left to recover then. @throws Unavailable
   */
  async handOver(): Promise<void> {
    const { store, cluster } = this.#deps;
    const { id, address } = cluster.liveness;
    await this.#drop(id, address, 'drain');
    await store.forget(id);
  }

  close(): void {
    this.#closed = true;
  }

  async #recover(dead: InstanceId, address: Address): Promise<void> {
    const started = performance.now();
    const calls = await this.#drop(dead, address, 'instance');
    await this.#deps.store.forget(dead);
    this.#deps.signals.instanceDied(dead, calls, performance.now() - started);
  }

  /** Every seat that was taken on that instance and whose socket is gone is lost. Answers in how many calls. */
  async #drop(life: InstanceId, address: Address, cause: DropCause): Promise<number> {
    let touched = 0;
    let away: Unavailable | undefined;
    const one = async (key: CallKey): Promise<void> => {
      try {
        if (await this.#dropIn(key, address, cause)) touched++;
      } catch (error) {
        // Taken up again as a whole; what is done stays done. Another fault of one call keeps none of the others.
        if (error instanceof Unavailable) away = error;
        else this.#deps.signals.internalError('a call of an instance that is gone', error);
      }
    };
    let some: Promise<void>[] = [];
    for await (const key of this.#deps.store.seatedAt(life)) {
      if (some.push(one(key)) < atOnce) continue;
      await Promise.all(some);
      some = [];
      if (away) break;
    }
    await Promise.all(some);
    if (away) throw away;
    return touched;
  }

  #dropIn(key: CallKey, address: Address, cause: DropCause): Promise<boolean> {
    return loseSeats(this.#deps, key, address, cause);
  }

  /** Others have taken over what this instance held: it forgets that, and browsers with a seat come back as after a loss. */
  async #fenced(was: InstanceId, now: InstanceId): Promise<void> {
    const { store, signals, delivery, cluster } = this.#deps;
    const { address } = cluster.liveness;
    const seated: ConnectionHere[] = [];
    const calls: Session[] = [];
    for (const connection of this.#deps.connections()) {
      const held = [...this.#knownAt(connection, (seat, ref) => isSocket(seat, ref))];
      if (held.length > 0) seated.push(connection);
      calls.push(...held);
    }
    const sockets = seated.flatMap((connection) => connection.sockets());
    store.drop();
    for (const { transport } of seated) transport?.end(1001, 'going away');
    signals.fenced(was, now, seated.length);
    await this.#until(() => !sockets.some((ref) => delivery.isConnected(ref)), closesWithinMs);
    // Those who took over left alone whose socket was still here then, and forgot the index; or something was seated after they had looked.
    await this.#dropKnown(calls, address);
    await this.#persist(() => this.#drop(was, address, 'instance'));
    await this.#persist(() => store.forget(was));
    await this.#persist(() => store.restore());
  }

  /** Calls that are known here of this connection's users, by what is asked of a seat. */
  *#knownAt(connection: ConnectionHere, is: (seat: SocketRef | null, ref: SocketRef) => boolean): Iterable<Session> {
    for (const ref of connection.sockets()) {
      const user = connection.peer(ref.ns)?.user;
      if (user === undefined) continue;
      for (const session of this.#deps.store.knownOf(ref.ns, user)) {
        if (roles.some((role) => is(session.seats[role], ref))) yield session;
      }
    }
  }

  async #dropKnown(calls: readonly CallKey[], address: Address): Promise<void> {
    for (let i = 0; i < calls.length; i += atOnce) {
      await Promise.all(
        calls
          .slice(i, i + atOnce)
          .map((key) =>
            this.#persist(() => this.#dropIn(key, address, 'instance')).catch((error) =>
              this.#deps.signals.internalError('a call of an instance that is gone', error),
            ),
          ),
      );
    }
  }

  /** One after the other; a Redis that is in and out of reach makes no heap of them. */
  #writeAgain(what: 'all' | 'recent'): void {
    if (this.#toRestore.has(what)) return;
    this.#toRestore.add(what);
    const work = this.#restoring.then(() =>
      this.#persist(() => {
        this.#toRestore.delete(what);
        return this.#deps.store.restore(what);
      }),
    );
    this.#restoring = this.#guard('restore', work);
  }

  /** Tries until what is shared can be reached. */
  async #persist<T>(work: () => Promise<T>): Promise<T | undefined> {
    while (!this.#closed) {
      try {
        if (this.#deps.cluster.liveness.mayAct()) return await work();
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
      }
      await this.#pause(retryMs);
    }
    return undefined;
  }

  async #until(done: () => boolean, ms: number): Promise<void> {
    for (let waited = 0; !done() && waited < ms && !this.#closed; waited += retryMs) await this.#pause(retryMs);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#deps.clock.after(ms, () => resolve()));
  }

  async #guard(what: string, work: Promise<unknown>): Promise<void> {
    try {
      await work;
    } catch (error) {
      this.#deps.signals.internalError(what, error);
    }
  }
}

/** The same socket here, whatever life it was seated in. */
const isSocket = (seat: SocketRef | null, { id, connection }: SocketRef): boolean =>
  seat !== null && seat.id === id && seat.connection === connection;
