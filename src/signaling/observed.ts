// A call that the legacy owns and whose relays are served here ("peeled"): an observed session kept up by what the legacy was
// seen to deliver. Where that is in doubt, all goes back to the legacy, with what was kept. Knows no routes and no transport.
import type { Clock } from '../base/clock.js';
import { type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import type { Acknowledged, InboundEvent, LegacyEvent, Peer } from '../base/service.js';
import { type Delivered, mayAccept, observe, offered } from '../call/observe.js';
import type { CallEvent, CallKey, Session, Step } from '../call/session.js';
import { step } from '../call/step.js';
import { groups as eventsOf, type Group } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import { type Asked, AskedEvents, type Gate, gate, isAsked, mostOutcomeMs, type WantedRelays } from './asked.js';
import { bytesEach, type ObservedBudget } from './budget.js';
import { type CommandName, fields, readCommand } from './commands.js';
import { type Delivery, deliver, whoseOf } from './deliver.js';
import { Handover } from './handover.js';
import { type Acted, Tracing } from './tracing.js';

/** Once the legacy has accepted an offer, its delivery to a callee who is here takes a round trip at most. */
const mostRingingMs = 500;
/**
 * An event of the lifecycle waits for the outcome of an answer before it only where the other side's candidates are due to that:
 * given to the legacy now, they would come after it. It is a round trip to the legacy away.
 */
const mostHurriedMs = 500;
/** Sockets that one offer rings and whose acknowledgements may be merged into; later ones get candidates as events. */
const mostRung = 64;

export interface ObservedDeps {
  readonly clock: Clock;
  readonly signals: Signals;
  readonly delivery: Delivery;
  readonly budget: ObservedBudget;
}

/** Why the session says nothing true any more; one word for the call's timeline. */
type Doubt = string | null;

export class ObservedCall {
  /** Names the call. */
  readonly id: string;
  readonly #deps: ObservedDeps;
  readonly #call: CallKey;
  readonly #asked: AskedEvents;
  readonly #tracing: Tracing;
  readonly #handover: Handover;
  /** Opens when the legacy was seen to deliver the offer. */
  readonly #ringing: Gate;
  #groups: ReadonlySet<Group>;
  #session: Session | null = null;
  /** The offering side's candidates that wait on the session, as they came. */
  #buffered: InboundEvent[] = [];
  #bytes = bytesEach;
  /** Sockets to which the legacy delivered the offer that waits for its answer. */
  #rung: SocketRef[] = [];
  #left = false;

  private constructor(deps: ObservedDeps, call: CallKey, id: string, groups: readonly Group[]) {
    this.#deps = deps;
    this.#call = call;
    this.id = id;
    this.#groups = new Set(groups);
    this.#asked = new AskedEvents(deps.clock);
    this.#tracing = new Tracing(this.#asked, deps.clock, () => this.leave('unclear'));
    this.#handover = new Handover(deps.clock, deps.delivery);
    this.#ringing = gate(deps.clock, mostOutcomeMs);
  }

  /** Null where none of its relays is to be served here, or there is no room to observe it. */
  static of(deps: ObservedDeps, call: CallKey, id: string, wanted: WantedRelays | null): ObservedCall | null {
    if (!wanted || wanted.groups.length === 0) return null;
    if (deps.budget.take(bytesEach)) return new ObservedCall(deps, call, id, wanted.groups);
    deps.signals.bound('observed', {});
    return null;
  }

  /** Its relays are not served here any more. */
  get left(): boolean {
    return this.#left;
  }

  /** Null before the legacy was seen to accept the call, and once it has its relays back. */
  get session(): Session | null {
    return this.#session;
  }

  /** Groups whose events are served here, once the legacy has accepted the call. */
  get peeled(): readonly Group[] {
    return this.#session ? [...this.#groups] : [];
  }

  /** Whether relays of this group are served here, or wait to be. */
  takes(group: Group | undefined): boolean {
    return !this.#left && group !== undefined && this.#groups.has(group);
  }

  /** An event goes to the legacy. `wanted`: of an offer, where its relays would go. */
  forwarded(event: InboundEvent, wanted: WantedRelays | null): Acknowledged | undefined {
    if (this.#left || !isAsked(event.name)) return undefined;
    return this.#safely(`observing ${event.name}`, undefined, () => this.#forwards(event, wanted));
  }

  #forwards(event: InboundEvent, wanted: WantedRelays | null): Acknowledged | undefined {
    const read = readCommand(event.name as CommandName, event.args);
    const { ref, user } = event.peer;
    if ('refusal' in read || (user !== undefined && this.#isOutsider(user))) return undefined; // it is refused at once
    const asked = this.#asked.add(event, read.command.body, this.#isRung(ref, user), wanted);
    if (!event.ackRequested) return undefined;
    return (args) =>
      this.#safely(`observing an acknowledgement of ${event.name}`, null, () => this.#acknowledged(asked, args));
  }

  /** The legacy delivers something about this call, but for its end. */
  passed(event: LegacyEvent): void {
    if (this.#left) return;
    const doubt = this.#safely(`observing ${event.name}`, null, () => this.#sees(event));
    if (doubt !== null) this.leave(doubt);
  }

  /** A promise where a relay of this socket must wait before it can be served; ask again then. */
  waits(ref: SocketRef): Promise<void> | null {
    return this.#safely('waiting for an outcome', null, () => this.#waits(ref));
  }

  /** An event of the lifecycle is behind a relay of this socket that waits. */
  hurry(ref: SocketRef): void {
    this.#safely('hurrying', undefined, () => {
      const own = this.#session ? this.#asked.unsettled(ref) : undefined;
      const due = own ? this.#buffered.length > 0 && own.settled : this.#handover.ahead(ref);
      if (due) due.soon(mostHurriedMs);
      else this.leave('overtaken');
    });
  }

  #waits(ref: SocketRef): Promise<void> | null {
    if (this.#left) return null;
    const own = this.#session ? this.#asked.unsettled(ref) : undefined;
    const awaited = this.#session ? (own?.settled ?? this.#handover.ahead(ref)) : this.#ringing;
    if (!awaited) return null;
    if (!awaited.late) return awaited.opened;
    // The legacy knows what came of it, and we don't: from here on it has this call whole.
    if (this.#session === null) this.leave('not-delivered-here');
    else if (own && !own.done && mayAccept(own.event, this.#session)) this.leave('outcome-unseen');
    else if (own) this.#asked.forget(own);
    return this.#waits(ref);
  }

  /**
   * Serves a relay for which nothing must be waited. `event` is acknowledged, `original` is what the legacy would get: null,
   * because it has the call's relays back; `broken`, because of a fault of ours, of which the operator was told. Throws where
   * somebody has had something of it already.
   */
  serve(event: InboundEvent, made: CallEvent, original: InboundEvent): Step | null | 'broken' {
    const progress = { begun: false };
    try {
      return this.#serve(event, made, original, progress);
    } catch (error) {
      this.leave('internal');
      if (progress.begun) throw error;
      const { name, peer } = original;
      const about = { event: name, ns: peer.ref.ns, whose: whoseOf(original) };
      this.#deps.signals.internalError(`serving ${name}`, error, about);
      return 'broken';
    }
  }

  #serve(event: InboundEvent, made: CallEvent, original: InboundEvent, progress: { begun: boolean }): Step | null {
    const { clock, delivery, signals, budget } = this.#deps;
    const before = this.#session;
    if (before === null) return null;
    const result = step(before, made, clock.now());
    const after = result.session;
    if (result.because === 'too-large') {
      this.leave('too-large');
      return null;
    }
    const waits = after !== null && after.candidates.length > before.candidates.length;
    if (waits) {
      if (!budget.take(original.size)) {
        signals.bound('observed', {});
        this.leave('no-room');
        return null;
      }
      this.#bytes += original.size;
    }
    this.#session = after;
    if (after !== null && after.state !== before.state) {
      this.#tell(before.state, after.state, result.because, original.name);
    }
    for (const effect of result.effects) {
      deliver([effect], this.#call.ns, event, delivery, signals);
      progress.begun = true;
    }
    if (waits) this.#buffered.push(original);
    return result;
  }

  /** That socket is gone. What it sent before counts, and what it asked for may still come true. */
  disconnected(ref: SocketRef): void {
    this.#safely('observing a disconnect', undefined, () => {
      this.#asked.gone(ref);
      if (this.#isGone(ref)) for (const asked of this.#asked.held()) this.#acts('call-rejoin-answer', asked);
    });
  }

  /** Both seats' sockets are gone, and neither user is on the way back. */
  get deserted(): boolean {
    const { delivery } = this.#deps;
    const { offerer, answerer } = this.#session?.seats ?? {};
    if (!offerer || !answerer || delivery.isConnected(offerer) || delivery.isConnected(answerer)) return false;
    return !this.#asked.any('call-rejoin-offer', ({ ref }) => delivery.isConnected(ref));
  }

  /** The call is over, or forgotten. */
  close(): void {
    this.#buffered = [];
    this.#release();
  }

  /** From here on the legacy has all of this call, and gets what was kept of it. */
  leave(why: string): void {
    const state = this.#session?.state;
    const kept = this.#buffered;
    this.#buffered = [];
    this.#left = true;
    for (const event of kept) {
      try {
        event.forward();
      } catch (error) {
        this.#deps.signals.internalError(`giving ${event.name} back`, error);
      }
    }
    this.#release();
    if (state) this.#tell(state, state, why, 'unpeeled');
  }

  /** A fault of ours must not break the legacy's call, which it gets back whole. */
  #safely<T>(where: string, otherwise: T, observing: () => T): T {
    try {
      return observing();
    } catch (error) {
      const { conversationId, ns } = this.#call;
      const [group = 'ice-candidate'] = this.#groups;
      const whose = { user: this.#session?.users.offerer ?? `call ${this.id}`, conversationId };
      this.#deps.signals.internalError(where, error, { event: eventsOf[group][0] as string, ns, whose });
      this.leave('internal');
      return otherwise;
    }
  }

  #release(): void {
    const { budget } = this.#deps;
    if (this.#session) budget.calls -= 1;
    budget.give(this.#bytes);
    this.#bytes = 0;
    this.#session = null;
    this.#left = true;
    this.#tracing.close();
    this.#handover.finish();
    this.#asked.clear();
    this.#ringing.open();
  }

  #sees({ peer, name, args }: LegacyEvent): Doubt {
    const payload = args[0] as Record<string, unknown>;
    switch (name) {
      case 'call-offer':
        return this.#rings(peer, payload.fromUserId, payload.offer);
      case 'call-answer':
      case 'call-rejoin-offer':
      case 'call-rejoin-answer': {
        if (this.#tracing.isOpen) return 'unclear';
        const description = payload[fields[name] as string];
        this.#tracing.sees({ event: name, told: peer, from: payload.fromUserId, description });
        return this.#trace();
      }
      case 'call-peer-disconnected':
        if (this.#tracing.isOpen) return 'unclear';
        return this.#drops(peer, payload.userId as UserId);
      case 'call-ended':
        this.#asked.answeredElsewhere(peer.ref);
        return this.#trace();
      case 'error':
        this.#asked.refused(String(payload.event), peer.ref, String(payload.message));
        return this.#trace();
      default:
        return null;
    }
  }

  /** The legacy delivers an offer, and so has accepted it. */
  #rings(to: Peer, from: unknown, description: unknown): Doubt {
    const { ns, conversationId } = this.#call;
    const session = this.#session;
    if (session) {
      const first = offered(session) === 'first';
      // A device that fetches late is still told of the offer that another one has answered.
      const another = !first && this.#asked.any('call-offer', ({ user }) => user === from);
      if (another || has(this.#rung, to.ref) || from !== session.users.offerer) return 'another-call';
      if (first && to.user === session.users.answerer && this.#rung.length < mostRung) this.#rung.push(to.ref);
      return null;
    }
    if (to.user === undefined) return null; // another device of that user may be one that we can serve
    const [asked, ...others] = this.#asked.behind('call-offer', from, description);
    if (!asked || others.length > 0 || asked.peer.user === undefined) return 'another-call';
    // Where two offered at once, relays of both may have gone by either one's route.
    const { wanted } = asked;
    const groups = [...this.#groups].filter((group) => wanted?.groups.includes(group));
    if (groups.length === 0) return 'another-call';
    this.#groups = new Set(groups.filter((group) => !wanted?.excludes(group, to.user as UserId)));
    if (this.#groups.size === 0) return 'excluded';
    const by = { user: asked.peer.user, socket: asked.peer.ref };
    const doubt = this.#moves({ type: 'call-offer', by, callee: to.user, conversationId, callId: this.id });
    if (doubt !== null || by.socket.ns !== ns) return 'another-call';
    this.#deps.budget.calls += 1;
    this.#rung = [to.ref];
    this.#asked.done(asked);
    this.#ringing.open();
    return null;
  }

  /** The legacy tells the other seat that this user is lost. */
  #drops(told: Peer, user: UserId): Doubt {
    const { offerer, answerer } = this.#session?.seats ?? {};
    const stays = user === this.#session?.users.offerer ? answerer : offerer;
    if (!stays || !sameSocket(stays, told.ref)) return 'unexpected';
    return this.#moves({ type: 'call-peer-disconnected', user });
  }

  #trace(): Doubt {
    const found = this.#tracing.found();
    if (!found) return null;
    const { event, asked, told } = found;
    if (!asked) return 'sender-not-here';
    if (asked.peer.user === undefined) return 'sender-unverified';
    return this.#acts(event, asked, told);
  }

  #acts(event: Acted['event'], asked: Asked, told?: Peer): Doubt {
    const candidates = this.#session?.candidates ?? [];
    const by = { user: asked.peer.user as UserId, socket: asked.peer.ref };
    const doubt = this.#moves({ type: event, by });
    if (doubt !== null) return doubt;
    if (event !== 'call-rejoin-offer') this.#handover.give(asked, candidates);
    this.#rung = event === 'call-rejoin-offer' && told ? [told.ref] : [];
    this.#asked.done(asked);
    return null;
  }

  #moves(delivered: Delivered): Doubt {
    const after = observe(this.#session, delivered, this.#deps.clock.now());
    if (after === null) return 'unexpected';
    this.#session = after;
    this.#handover.finish();
    this.#buffered = [];
    this.#deps.budget.give(this.#bytes - bytesEach);
    this.#bytes = bytesEach;
    return null;
  }

  #acknowledged(asked: Asked, args: readonly unknown[]): ReturnType<Acknowledged> {
    const passes = (): void => this.#asked.acknowledged(asked);
    const session = this.#session;
    if (!session) {
      passes();
      if (!this.#left && asked.event === 'call-offer' && !asked.done) this.#ringing.soon(mostRingingMs);
      return null;
    }
    const awaits = !asked.done && session.candidates.length > 0 && mayAccept(asked.event, session);
    if (awaits && asked.mayMerge && this.#isGone(session.seats[session.offeredBy ?? 'offerer'])) {
      this.#acts('call-rejoin-answer', asked);
    }
    return this.#handover.acknowledged(asked, args, awaits, passes);
  }

  /**
   * The rejoiner is lost again, so that it can't be seen any more whether the legacy tells it of the answer. The survivor's
   * acknowledgement tells, since an `error` would have come before it.
   */
  #isGone(rejoiner: SocketRef | null): boolean {
    const session = this.#session;
    if (!session || !rejoiner || offered(session) !== 'rejoin' || !session.offeredBy) return false;
    const seat = session.seats[session.offeredBy];
    return seat !== null && sameSocket(seat, rejoiner) && !this.#deps.delivery.isConnected(rejoiner);
  }

  /** The legacy has rung this user, perhaps on a socket that is gone: an outsider it has not. */
  #isRung(ref: SocketRef, user: UserId | undefined): boolean {
    const session = this.#session;
    if (!session || this.#rung.length === 0) return false;
    return has(this.#rung, ref) || (offered(session) === 'first' && user === session.users.answerer);
  }

  #isOutsider(user: UserId): boolean {
    const users = this.#session?.users;
    return users !== undefined && user !== users.offerer && user !== users.answerer;
  }

  /** The session's own moves, for the timeline; those of the lifecycle are told by the claim. */
  #tell(from: Session['state'], to: Session['state'], because: string, event: string): void {
    const { ns, conversationId } = this.#call;
    this.#deps.signals.observed({ ns, conversationId, callId: this.id, from, to, because, event });
  }
}

const has = (sockets: readonly SocketRef[], ref: SocketRef): boolean => sockets.some((s) => sameSocket(s, ref));
