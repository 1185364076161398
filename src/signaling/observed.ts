// A call that the legacy owns and whose relays are served here ("peeled"): an observed session kept up by what the legacy was
// seen to deliver. Where that is in doubt, all goes back to the legacy, with what was kept. Knows no routes and no transport.
import type { Clock, Timer } from '../base/clock.js';
import { type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import { type Acknowledged, type InboundEvent, type LegacyEvent, mostAckWaitMs, type Peer } from '../base/service.js';
import { type Delivered, observe } from '../call/observe.js';
import type { CallEvent, CallKey, Session, Step } from '../call/session.js';
import { step } from '../call/step.js';
import type { Group } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import { type Asked, AskedEvents, type AskedName, type Gate, gate, mostOutcomeMs } from './asked.js';
import { type CommandName, fields, readCommand } from './commands.js';
import { type Delivery, deliver } from './deliver.js';
import { Handover } from './handover.js';

/** Bytes of all observed sessions: 1 KiB for each, and the candidates that wait on it. Calls beyond it stay whole at the legacy. */
const mostBytes = 64 * 1024 * 1024;
const bytesEach = 1024;
/** Once the legacy has accepted an offer, its delivery to a callee who is here takes a round trip at most. */
const mostRingingMs = 500;
/** Sockets that one offer rings and whose acknowledgements may be merged into; later ones get candidates as events. */
const mostRung = 64;

/** What observed sessions may hold, and how many there are. */
export class ObservedBudget {
  bytes = 0;
  /** Calls of which at least one relay is served here. */
  calls = 0;

  take(bytes: number): boolean {
    if (this.bytes + bytes > mostBytes) return false;
    this.bytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.bytes -= bytes;
  }
}

export interface ObservedDeps {
  readonly clock: Clock;
  readonly signals: Signals;
  readonly delivery: Delivery;
  readonly budget: ObservedBudget;
}

/** The legacy acted on somebody's event, and it is not clear yet on whose. */
interface Unclear {
  readonly event: Exclude<AskedName, 'call-offer'>;
  readonly told: Peer;
  readonly from: unknown;
  readonly description: unknown;
  timer: Timer | undefined;
}

/** Why the session says nothing true any more; one word for the call's timeline. */
type Doubt = string | null;

export class ObservedCall {
  /** Names the call. */
  readonly id: string;
  readonly #deps: ObservedDeps;
  readonly #call: CallKey;
  readonly #asked: AskedEvents;
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
  #unclear: Unclear | null = null;
  #left = false;

  private constructor(deps: ObservedDeps, call: CallKey, id: string, groups: readonly Group[]) {
    this.#deps = deps;
    this.#call = call;
    this.id = id;
    this.#groups = new Set(groups);
    this.#asked = new AskedEvents(deps.clock);
    this.#handover = new Handover(deps.clock, deps.delivery);
    this.#ringing = gate(deps.clock, mostOutcomeMs);
  }

  /** Null where none of its relays is to be served here, or there is no room to observe it. */
  static of(deps: ObservedDeps, call: CallKey, id: string, groups: readonly Group[]): ObservedCall | null {
    if (groups.length === 0) return null;
    if (deps.budget.take(bytesEach)) return new ObservedCall(deps, call, id, groups);
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
  forwarded(event: InboundEvent, wanted: readonly Group[]): Acknowledged | undefined {
    if (this.#left || !(event.name in asks)) return undefined;
    const read = readCommand(event.name as CommandName, event.args);
    const { ref, user } = event.peer;
    if ('refusal' in read || (user !== undefined && this.#isOutsider(user))) return undefined; // it is refused at once
    const asked = this.#asked.add(event, read.command.body, this.#isRung(ref, user), wanted);
    return event.ackRequested ? (args) => this.#acknowledged(asked, args) : undefined;
  }

  /** The legacy delivers something about this call, but for its end. */
  passed(event: LegacyEvent): void {
    const doubt = this.#left ? null : this.#sees(event);
    if (doubt !== null) this.leave(doubt);
  }

  /** A promise where a relay of this socket must wait before it can be served; ask again then. */
  waits(ref: SocketRef): Promise<void> | null {
    if (this.#left) return null;
    const own = this.#session ? this.#asked.unsettled(ref) : undefined;
    const awaited = this.#session ? (own?.settled ?? this.#handover.ahead(ref)) : this.#ringing;
    if (!awaited) return null;
    if (!awaited.late) return awaited.opened;
    // The legacy knows what came of it, and we don't: from here on it has this call whole.
    if (this.#session === null) this.leave('not-delivered-here');
    else if (own && !own.done && mayAccept(own.event, this.#session)) this.leave('outcome-unseen');
    else if (own) this.#asked.forget(own);
    return this.waits(ref);
  }

  /**
   * Serves a relay for which nothing must be waited; null: it goes to the legacy. `event` is acknowledged, `original` is
   * what the legacy would get.
   */
  serve(event: InboundEvent, made: CallEvent, original: InboundEvent): Step | null {
    const { clock, delivery, signals, budget } = this.#deps;
    const before = this.#session;
    if (before === null) return null;
    const result = step(before, made, clock.now());
    const after = result.session;
    if (result.because === 'too-large') {
      this.leave('too-large');
      return null;
    }
    if (after !== null && after.candidates.length > before.candidates.length) {
      if (!budget.take(original.size)) {
        signals.bound('observed', {});
        this.leave('no-room');
        return null;
      }
      this.#bytes += original.size;
      this.#buffered.push(original);
    }
    this.#session = after;
    if (after !== null && after.state !== before.state) {
      this.#tell(before.state, after.state, result.because, original.name);
    }
    deliver(result.effects, this.#call.ns, event, delivery, signals);
    return result;
  }

  /** That socket is gone. What it sent before counts, and what it asked for may still come true. */
  disconnected(ref: SocketRef): void {
    this.#asked.gone(ref);
    if (this.#isGone(ref)) for (const asked of this.#asked.held()) this.#acts('call-rejoin-answer', asked);
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
    for (const event of kept) event.forward();
    this.#release();
    if (state) this.#tell(state, state, why, 'unpeeled');
  }

  #release(): void {
    const { budget } = this.#deps;
    if (this.#session) budget.calls -= 1;
    budget.give(this.#bytes);
    this.#bytes = 0;
    this.#session = null;
    this.#left = true;
    this.#unclear?.timer?.cancel();
    this.#unclear = null;
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
        if (this.#unclear) return 'unclear';
        const description = payload[fields[name] as string];
        this.#unclear = { event: name, told: peer, from: payload.fromUserId, description, timer: undefined };
        return this.#trace();
      }
      case 'call-peer-disconnected':
        if (this.#unclear) return 'unclear';
        return this.#moves({ type: name, user: payload.userId as UserId });
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
      const first = state(session) === 'first-offer';
      // A device that fetches late is still told of the offer that another one has answered.
      const offered = !first && this.#asked.any('call-offer', ({ user }) => user === from);
      if (offered || has(this.#rung, to.ref) || from !== session.users.offerer) return 'another-call';
      if (first && to.user === session.users.answerer && this.#rung.length < mostRung) this.#rung.push(to.ref);
      return null;
    }
    if (to.user === undefined) return null; // another device of that user may be one that we can serve
    const [asked, ...others] = this.#asked.behind('call-offer', from, description);
    if (!asked || others.length > 0 || asked.peer.user === undefined) return 'another-call';
    // Where two offered at once, relays of both may have gone by either one's route.
    this.#groups = new Set([...this.#groups].filter((group) => asked.wanted.includes(group)));
    if (this.#groups.size === 0) return 'another-call';
    const by = { user: asked.peer.user, socket: asked.peer.ref };
    const doubt = this.#moves({ type: 'call-offer', by, callee: to.user, conversationId, callId: this.id });
    if (doubt !== null || by.socket.ns !== ns) return 'another-call';
    this.#deps.budget.calls += 1;
    this.#rung = [to.ref];
    this.#asked.done(asked);
    this.#ringing.open();
    return null;
  }

  /** Finds out whose event the legacy has just acted on; more that passes can make it clear. */
  #trace(): Doubt {
    const unclear = this.#unclear;
    if (!unclear) return null;
    const { event, from, description, told } = unclear;
    const behind = this.#asked.behind(event, from, description);
    if (behind.length > 1) {
      unclear.timer ??= this.#deps.clock.after(mostAckWaitMs, () => this.leave('unclear'));
      return null;
    }
    unclear.timer?.cancel();
    this.#unclear = null;
    const [asked] = behind;
    if (!asked) return 'sender-not-here';
    if (asked.peer.user === undefined) return 'sender-unverified';
    return this.#acts(event, asked, told);
  }

  #acts(event: Unclear['event'], asked: Asked, told?: Peer): Doubt {
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
    if (!session || !rejoiner || state(session) !== 'rejoin-offer' || !session.offeredBy) return false;
    const seat = session.seats[session.offeredBy];
    return seat !== null && sameSocket(seat, rejoiner) && !this.#deps.delivery.isConnected(rejoiner);
  }

  /** The legacy has rung this user, perhaps on a socket that is gone: an outsider it has not. */
  #isRung(ref: SocketRef, user: UserId | undefined): boolean {
    const session = this.#session;
    if (!session || this.#rung.length === 0) return false;
    return has(this.#rung, ref) || (state(session) === 'first-offer' && user === session.users.answerer);
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

const asks: Readonly<Record<AskedName, true>> = {
  'call-offer': true,
  'call-answer': true,
  'call-rejoin-offer': true,
  'call-rejoin-answer': true,
};

const state = (session: Session): string =>
  session.state !== 'OFFERING' ? 'other' : session.rejoining ? 'rejoin-offer' : 'first-offer';

/** Whether the legacy may accept such an event in this state. */
function mayAccept(event: AskedName, session: Session): boolean {
  switch (event) {
    case 'call-offer':
      return false;
    case 'call-rejoin-offer':
      return true;
    case 'call-answer':
      return state(session) === 'first-offer';
    case 'call-rejoin-answer':
      return state(session) === 'rejoin-offer';
  }
}

const has = (sockets: readonly SocketRef[], ref: SocketRef): boolean => sockets.some((s) => sameSocket(s, ref));
