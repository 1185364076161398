// Changes one call: load → step → save with a version check → effects. On a conflict the step runs again on what is in
// force. Knows no routes, tickets or payload checks; every change to a session, whatever caused it, goes through here.
import type { Clock } from '../base/clock.js';
import type { SocketRef, UserId } from '../base/ids.js';
import type { InboundEvent } from '../base/service.js';
import { type Late, Unavailable, Unreadable } from '../base/unavailable.js';
import type { CallEvent, CallKey, Role, Session, Step } from '../call/session.js';
import { step } from '../call/step.js';
import type { Cluster } from '../cluster/cluster.js';
import type { Kept, SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import type { Delivery } from './deliver.js';
import type { EndedCalls } from './ended.js';
import { NewestCalls } from './newest.js';
import { Reach, type Whereabouts } from './reach.js';
import { type Told, write } from './told.js';

/** A conflict means that another event of the same call was saved first; more than this in a row is a fault. */
const mostConflicts = 64;
/** A change of which it is not known whether it was made keeps the next one waiting so long. */
const mostWaitMs = 2_000;
/** As long as it would ring, and then be ended. */
const mostTakingBackMs = 60_000;
const takeBackAgainMs = 500;

export interface CallsDeps {
  readonly store: SessionStore;
  /** The sockets of this instance. */
  readonly delivery: Delivery;
  readonly cluster: Cluster;
  readonly signals: Signals;
  readonly clock: Clock;
  readonly ended: EndedCalls;
}

/** Who waits for an event's outcome. */
export interface Asker {
  readonly event: InboundEvent;
  /** It was answered meanwhile: nothing is begun for it any more, and what was under way is delivered without an answer. */
  over: boolean;
  /** Where the users were whose every socket is told of it. */
  found?: Whereabouts;
}

/** What is known of a call already, so that it need not be asked for again. */
export interface Known {
  /** The session as it was found; null where there was none, or where a new call is likely. Only where the store must be asked. */
  readonly session?: Session | null;
  /** Sockets of users, on every instance. */
  readonly sockets?: ReadonlyMap<UserId, readonly SocketRef[]>;
}

/** What happens to a call, seen from the session as it is in force; null: nothing. */
export type Make = (session: Session | null) => CallEvent | null | Promise<CallEvent | null>;

export const keyOf = ({ ns, conversationId }: CallKey): string => `${ns}\n${conversationId}`;

interface Saved {
  readonly ok: boolean;
  readonly session: Session | null;
  readonly claimed?: boolean;
  readonly kept?: Readonly<Partial<Record<Role, readonly Kept[]>>> | undefined;
}

export class Calls {
  readonly reach: Reach;
  readonly newest: NewestCalls;
  readonly #deps: CallsDeps;
  /** Steps that are being saved, by call: nothing else is decided on a call before its parties were told of them. */
  readonly #saving = new Map<string, Promise<void>>();

  constructor(deps: CallsDeps) {
    this.#deps = deps;
    this.newest = new NewestCalls(deps.clock, deps.delivery);
    this.reach = new Reach(deps, (key) => this.settled(key));
  }

  /**
   * Applies an event that needs no save at once (a candidate after the answer, a refusal); null where the session must be
   * fetched or changed, or is being changed, which `apply` does.
   */
  tryNow(key: CallKey, event: CallEvent, inbound: InboundEvent): Step | null {
    if (this.#saving.has(keyOf(key))) return null;
    const session = this.#deps.store.peek(key);
    if (session === undefined) return null;
    const result = step(session, event, this.#deps.clock.now());
    if (result.session !== session || (isShared(session) && refuses(result))) return null;
    void this.#run(key, session, result, event, inbound, this.#find(key, result, undefined), undefined);
    return result;
  }

  /**
   * `make` gets the session as it is in force, so that what it says of it is true of what is saved; it is asked again on a
   * conflict. Null where it answers null, or nobody waits for the outcome any more.
   * @throws Unavailable
   */
  async apply(key: CallKey, make: Make, asker?: Asker, known?: Known): Promise<Step | null> {
    const outcome = await this.#change(key, make, asker, known);
    if (outcome === 'claimed') throw new Error('only an offer meets a claim');
    return outcome;
  }

  /** The same for what may open a call. `claimed`: the legacy has one on another instance. */
  open(key: CallKey, make: Make, asker?: Asker, known?: Known): Promise<Step | null | 'claimed'> {
    return this.#change(key, make, asker, known);
  }

  /** Resolves once the change that is being made to this call is told, or can't be waited for any longer; null where none is. */
  settled(key: CallKey): Promise<void> | null {
    const saving = this.#saving.get(keyOf(key));
    return saving ? this.#within(saving).then(() => undefined) : null;
  }

  async #change(
    key: CallKey,
    make: Make,
    asker: Asker | undefined,
    known: Known | undefined,
  ): Promise<Step | null | 'claimed'> {
    const { store, clock } = this.#deps;
    const k = keyOf(key);
    if (this.#saving.has(k)) await this.#turn(k);
    const peeked = store.peek(key);
    let session = peeked !== undefined ? peeked : known?.session !== undefined ? known.session : await this.#get(key);
    // Changed elsewhere a moment ago, perhaps.
    let cached = isShared(peeked);
    for (let conflicts = 0; conflicts < mostConflicts; conflicts++) {
      const made = make(session);
      const event = made instanceof Promise ? await made : made;
      if (event === null || asker?.over) return null;
      if (this.#saving.has(k)) {
        await this.#turn(k);
        session = await this.#get(key);
        cached = false;
        continue;
      }
      const result = step(session, event, clock.now());
      if (result.session === session) {
        if (cached && (refuses(result) || !asker)) {
          session = await this.#get(key);
          cached = false;
          continue;
        }
        const running = this.#run(key, session, result, event, asker?.event, this.#find(key, result, known), undefined);
        if (running) await running;
        return result;
      }
      const saved = await this.#save(key, session, result, event, asker, known);
      if (saved.ok) return result;
      if (saved.claimed) return 'claimed';
      session = saved.session;
      cached = false;
    }
    throw new Error(`more than ${mostConflicts} conflicts in a row on one call`);
  }

  /** Saves a step, and tells of it while nothing else is decided on its call. */
  async #save(
    key: CallKey,
    before: Session | null,
    result: Step,
    event: CallEvent,
    asker: Asker | undefined,
    known: Known | undefined,
  ): Promise<Saved> {
    const done = this.#begin(keyOf(key));
    let late: Promise<unknown> | undefined;
    try {
      const writing = this.#write(key, before, result.session);
      const found = this.#find(key, result, known);
      if (asker) asker.found = found;
      const saved = await writing.catch((error) => {
        if (error instanceof Unavailable && error.late) {
          late = error.late.then((made) =>
            made ? this.#madeLate(made, key, before, result, event, found) : undefined,
          );
        }
        throw error;
      });
      if (saved.ok && before === null && result.session && asker?.over) late = this.#takeBack(key, result.session);
      else if (saved.ok) {
        const inbound = asker?.over ? undefined : asker?.event;
        const running = this.#run(key, before, result, event, inbound, found, saved.kept);
        if (running) await running;
      }
      return saved;
    } finally {
      if (late) {
        late.catch((error) => this.#deps.signals.internalError('telling of a late change', error)).finally(done);
      } else done();
    }
  }

  /** It was refused: the parties are told all the same of what has become of their call, but no call has begun. */
  async #madeLate(
    made: true | Late,
    key: CallKey,
    before: Session | null,
    result: Step,
    event: CallEvent,
    found: Whereabouts,
  ): Promise<void> {
    const after = result.session;
    if (before === null && after) return this.#takeBack(key, after);
    if (this.#deps.ended.last(keyOf(key)) === (after ?? before)?.callId) {
      // Another instance has ended it meanwhile, and told its parties; but not devices that still ring for them.
      const effects = result.effects.filter((effect) => effect.kind === 'emit' && effect.event === 'call-ended');
      const due = this.newest.made(key, before, after, effects);
      return this.reach.run({ key, before, after, effects: due, event: undefined }, found);
    }
    const kept = made === true ? undefined : (made.kept as Saved['kept']);
    await this.#run(key, before, result, event, undefined, found, kept);
  }

  /** Nobody was told of this call but that it did not begin. Where it has changed since, others know of it. */
  async #takeBack(key: CallKey, session: Session): Promise<void> {
    const { clock } = this.#deps;
    for (const until = clock.now() + mostTakingBackMs; clock.now() < until; ) {
      try {
        await this.#write(key, session, null);
        return;
      } catch (error) {
        if (!(error instanceof Unavailable)) throw error;
        if (await error.late) return;
      }
      await new Promise<void>((resolve) => clock.after(takeBackAgainMs, resolve));
    }
  }

  async #get(key: CallKey): Promise<Session | null> {
    try {
      return await this.#deps.store.get(key);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      await this.unreadable(key, error);
      return null;
    }
  }

  /** What stands there is no session that we understand: that call is over, for all its parties that are known anywhere. */
  async unreadable(key: CallKey, { key: where, message }: Unreadable): Promise<void> {
    const { signals, cluster, store } = this.#deps;
    signals.unreadable(where, message);
    this.lost(key);
    const { ns, conversationId } = key;
    const told: Told = { ns, conversationId, callId: 'unknown', version: 0, emits: [], about: 'unreadable' };
    cluster.broker.sendAll({ topic: 'call', body: write(told) });
    await store.discard(key);
  }

  /** The same, as far as it is known here. */
  lost(key: CallKey): void {
    const { store, ended } = this.#deps;
    const session = store.peek(key);
    if (!session) return;
    this.reach.lost(session);
    store.heard(key, session.callId, session.version, null);
    ended.add(keyOf(key), session.callId);
  }

  async #turn(k: string): Promise<void> {
    for (let saving = this.#saving.get(k); saving; saving = this.#saving.get(k)) {
      // Nobody learns in the next moment what has become of that one.
      if (!this.#deps.cluster.liveness.mayAct()) throw new Unavailable('this instance has no lease now');
      if (!(await this.#within(saving))) throw new Unavailable('it is not known whether the change before was made');
    }
  }

  /** Whether it came about in time. */
  #within(saving: Promise<void>): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = this.#deps.clock.after(mostWaitMs, () => resolve(false));
      void saving.then(() => {
        timer.cancel();
        resolve(true);
      });
    });
  }

  #begin(k: string): () => void {
    let resolve!: () => void;
    const saving = new Promise<void>((done) => (resolve = done));
    this.#saving.set(k, saving);
    return () => {
      if (this.#saving.get(k) === saving) this.#saving.delete(k);
      resolve();
    };
  }

  async #write(key: CallKey, before: Session | null, after: Session | null): Promise<Saved> {
    try {
      return await this.#put(before, after);
    } catch (error) {
      if (!(error instanceof Unreadable)) throw error;
      await this.unreadable(key, error);
      return { ok: false, session: null };
    }
  }

  async #put(before: Session | null, after: Session | null): Promise<Saved> {
    const { store } = this.#deps;
    if (before === null) {
      const { created, session, claimed } = await store.create(after as Session);
      return { ok: created, session, claimed: claimed && !session };
    }
    if (after === null) {
      const { deleted, session } = await store.delete(before);
      return { ok: deleted, session };
    }
    const { replaced, session, kept } = await store.replace(before, after);
    return { ok: replaced, session, kept };
  }

  #find(key: CallKey, result: Step, known: Known | undefined): Whereabouts {
    return this.reach.find(result.effects, key.ns, known?.sockets);
  }

  #run(
    key: CallKey,
    before: Session | null,
    result: Step,
    event: CallEvent,
    inbound: InboundEvent | undefined,
    found: Whereabouts,
    kept: Saved['kept'],
  ): void | Promise<void> {
    const { signals, clock, ended } = this.#deps;
    const after = result.session;
    if (before !== null && after === null) ended.add(keyOf(key), before.callId);
    if (before?.state !== after?.state || before?.rejoining !== after?.rejoining) {
      const named = after ?? before;
      if (named) {
        signals.transition({
          ns: key.ns,
          conversationId: key.conversationId,
          callId: named.callId,
          users: named.users,
          from: before?.state ?? 'IDLE',
          to: after?.state ?? 'ENDED',
          because: result.because,
          event: event.type,
        });
      }
    }
    if (event.type === 'call-answer' && before?.state === 'OFFERING' && after?.state === 'CONNECTED') {
      signals.offerAnswered(clock.now() - before.since);
    }
    const effects = this.newest.made(key, before, after, result.effects);
    return this.reach.run({ key, before, after, effects, event: inbound, kept }, found);
  }
}

/** Others change it too: what is known here of it may be a moment old. */
const isShared = (session: Session | null | undefined): boolean => session?.seats.offerer.at !== undefined;
const refuses = ({ effects }: Step): boolean => effects.some(({ kind }) => kind === 'refuse');
