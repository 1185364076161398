// The signaling service: the first service behind the proxy. Routes each call event (rules in routing/decide.ts), keeps
// the order of one browser's events about one conversation, and has them served or forwarded. Knows no transport.
import type { ConversationId, Namespace, SocketRef } from '../base/ids.js';
import type {
  Decision,
  DropCause,
  EventKind,
  InboundEvent,
  LegacyEvent,
  Peer,
  Routed,
  Service,
} from '../base/service.js';
import { refusals } from '../call/refusals.js';
import type { CallEvent, CallKey, Refusal, Sender, Step } from '../call/session.js';
import type { Memberships } from '../identity/identity.js';
import { decide } from '../routing/decide.js';
import type { RouteTable } from '../routing/table.js';
import { Calls, type CallsDeps, keyOf } from './calls.js';
import { type Accepting, Claims } from './claims.js';
import { type Command, type CommandName, readCommand } from './commands.js';
import { conversationOf, refuse } from './deliver.js';
import { EarlyCandidates } from './early.js';
import { EndedCalls } from './ended.js';
import { Lanes } from './lanes.js';
import { Offers } from './offers.js';
import { type First, Retries } from './retries.js';

export interface SignalingDeps extends Omit<CallsDeps, 'ended'> {
  readonly memberships: Memberships;
  /** The table in force, read anew for each decision. */
  readonly routes: () => RouteTable;
  readonly newId: () => string;
}

/** An offer whose serving never starts (its transport broke) must not hold its claim. */
const acceptingAtMost = 30_000;

const held: Decision = { path: 'new', because: 'held' };

export class Signaling implements Service {
  readonly name = 'signaling';
  readonly events: ReadonlyMap<CommandName, EventKind> = new Map([
    ['call-offer', 'lifecycle'],
    ['call-answer', 'lifecycle'],
    ['call-rejoin-offer', 'lifecycle'],
    ['call-rejoin-answer', 'lifecycle'],
    ['call-end', 'lifecycle'],
    ['ice-candidate', 'relay'],
    ['call-renegotiate-offer', 'relay'],
    ['call-renegotiate-answer', 'relay'],
  ]);
  readonly watched: ReadonlySet<string> = new Set([
    'call-offer',
    'call-answer',
    'call-ended',
    'call-rejoin-offer',
    'call-rejoin-answer',
    'error',
  ]);

  readonly calls: Calls;
  readonly #deps: SignalingDeps;
  readonly #ended: EndedCalls;
  /** What trails in for a call that ended at the legacy is not ahead of anything. */
  readonly #endedAtLegacy: EndedCalls;
  readonly #claims: Claims;
  readonly #early: EarlyCandidates;
  readonly #retries = new Retries();
  readonly #lanes = new Lanes();
  readonly #offers: Offers;

  constructor(deps: SignalingDeps) {
    this.#deps = deps;
    this.#ended = new EndedCalls(deps.clock);
    this.#endedAtLegacy = new EndedCalls(deps.clock);
    this.#early = new EarlyCandidates(deps.clock);
    this.#claims = new Claims(
      () => deps.signals.bound('claims', {}),
      (key) => this.#endedAtLegacy.add(key, 'legacy'),
    );
    this.calls = new Calls({ ...deps, ended: this.#ended });
    this.#offers = new Offers(
      { ...deps, ended: this.#ended },
      this.calls,
      this.#claims,
      this.#early,
      deps.memberships,
      deps.newId,
    );
  }

  watching(): boolean {
    // Always: an offer that the legacy delivers may come from someone who is not behind this proxy.
    return true;
  }

  route(event: InboundEvent): Routed {
    const { ref } = event.peer;
    const id = conversationOf(event.args);
    if (id === undefined) {
      const decision = this.#decide(event, undefined);
      if (decision.path === 'legacy') return this.#toLegacy(event, undefined, decision);
      return { decision, serve: () => this.#serveMalformed(event, decision) };
    }
    const key: CallKey = { ns: ref.ns, conversationId: id as ConversationId };
    const k = keyOf(key);
    if (this.#lanes.busy(ref.connection, k))
      return { decision: held, serve: () => this.#enqueue(event, key, undefined, undefined) };
    const decision = this.#decide(event, k);
    if (decision.path === 'legacy') return this.#toLegacy(event, k, decision);
    const accepting = event.name === 'call-offer' ? this.#accept(k) : undefined;
    return { decision, serve: () => this.#enqueue(event, key, decision, accepting) };
  }

  passed(event: LegacyEvent): void {
    const id = conversationOf(event.args);
    if (id !== undefined)
      this.#claims.passed(
        keyOf({ ns: event.peer.ref.ns, conversationId: id as ConversationId }),
        event,
        this.#deps.clock.now(),
      );
  }

  connected(peer: Peer): void {
    if (peer.user !== undefined) this.#guard('connected', this.#arrived({ user: peer.user, socket: peer.ref }));
  }

  /** What this socket sent before it left may still wait for a ticket: the call loses its seat only after that. */
  disconnected(peer: Peer, cause: DropCause): void {
    const waiting = this.#lanes.idle(peer.ref.connection);
    this.#forget(peer.ref);
    this.#guard('disconnected', this.#dropped(peer, cause));
    if (!waiting) return;
    const after = waiting.then(() => {
      this.#forget(peer.ref);
      return this.#dropped(peer, cause);
    });
    this.#guard('disconnected', after);
  }

  #forget(ref: SocketRef): void {
    this.#claims.disconnected(ref);
    this.#early.disconnected(ref);
    this.#retries.disconnected(ref);
  }

  owns(ns: Namespace, conversationId: ConversationId): boolean {
    return Boolean(this.#deps.store.peek({ ns, conversationId }));
  }

  /** How much is held of what is bounded, by name, for the metrics. */
  readonly sizes: Readonly<Record<string, () => number>> = {
    'legacy-claims': () => this.#claims.legacyCount,
    'ended-calls': () => this.#ended.size + this.#endedAtLegacy.size,
    'early-candidates': () => this.#early.size,
  };

  /** Forgets what is too old to matter; the reaper calls it. */
  sweep(): void {
    this.#early.sweep();
    this.#ended.sweep();
    this.#endedAtLegacy.sweep();
  }

  #accept(k: string): Accepting {
    const accepting = this.#claims.accept(k);
    const timer = this.#deps.clock.after(acceptingAtMost, () => accepting.done());
    void accepting.settled.then(() => timer.cancel());
    return accepting;
  }

  #decide(event: InboundEvent, k: string | undefined): Decision {
    const { ref, user } = event.peer;
    const table = this.#deps.routes();
    return decide({
      opens: event.name === 'call-offer',
      candidate: event.name === 'ice-candidate' && (k === undefined || this.#endedAtLegacy.last(k) === null),
      verified: user !== undefined,
      owner: k === undefined ? null : this.#ownerOf(k, event),
      endedHere: k !== undefined && this.#ended.last(k) !== null,
      offerMode: table.mode(ref.ns, 'call-offer'),
      sole: table.sole(ref.ns, event.name),
    });
  }

  #ownerOf(k: string, event: InboundEvent): 'session' | 'claimed-new' | 'claimed-legacy' | null {
    const { store, clock } = this.#deps;
    const id = conversationOf(event.args) as ConversationId;
    if (store.peek({ ns: event.peer.ref.ns, conversationId: id })) return 'session';
    if (this.#claims.legacyHas(k, clock.now(), event.name === 'call-offer')) return 'claimed-legacy';
    return this.#claims.newIsAccepting(k) ? 'claimed-new' : null;
  }

  #toLegacy(event: InboundEvent, k: string | undefined, decision: Decision): Routed {
    const { signals, clock } = this.#deps;
    if (k !== undefined) {
      // An unverified sender claims nothing while the new path has this call.
      const live = decision.because === 'unverified' && this.#ownerOf(k, event) !== null;
      if (!live) this.#claims.forwarded(k, event.name, event.peer, clock.now());
    }
    signals.decided(event.name, decision);
    return { decision };
  }

  #serveMalformed(event: InboundEvent, decision: Decision): void {
    const { signals, delivery } = this.#deps;
    signals.decided(event.name, decision);
    const read = readCommand(event.name as CommandName, event.args);
    if ('refusal' in read) refuse(event, read.refusal, delivery, signals);
  }

  #enqueue(event: InboundEvent, key: CallKey, decided: Decision | undefined, accepting: Accepting | undefined): void {
    const { signals, delivery } = this.#deps;
    // Its socket has left, and so has its seat: only an end can still be meant.
    if (event.name !== 'call-end' && !delivery.isConnected(event.peer.ref)) {
      accepting?.done();
      return;
    }
    const arrived = this.#retries.arrival();
    const taken = this.#lanes.run(event.peer.ref.connection, keyOf(key), event.size, () => {
      try {
        return this.#serve(event, key, arrived, decided, accepting);
      } catch (error) {
        this.#failed({ event, first: null, answer: undefined }, error);
        accepting?.done();
      }
    });
    if (!taken) {
      signals.bound('held', { event: event.name });
      accepting?.done();
      refuse(event, refusals.unavailable, delivery, signals);
    }
  }

  /** One event on its turn. Returns a promise only where something must be awaited. */
  #serve(
    event: InboundEvent,
    key: CallKey,
    arrived: number,
    decided: Decision | undefined,
    accepting: Accepting | undefined,
  ): void | Promise<void> {
    const { signals, delivery } = this.#deps;
    const k = keyOf(key);
    let decision = decided;
    if (!decision) {
      decision = this.#decide(event, k);
      if (decision.path === 'legacy') {
        if (!delivery.isConnected(event.peer.ref)) return;
        this.#toLegacy(event, k, decision);
        event.forward();
        return;
      }
      if (event.name === 'call-offer') accepting = this.#accept(k);
    }
    const started = performance.now();
    const read = readCommand(event.name as CommandName, event.args);
    const { user, ref } = event.peer;
    if ('refusal' in read || user === undefined) {
      accepting?.done();
      signals.decided(event.name, decision);
      refuse(event, 'refusal' in read ? read.refusal : refusals.notParticipant, delivery, signals);
      return;
    }
    const { command } = read;
    const tracked = this.#track(event, k, arrived);
    if (tracked === null) {
      accepting?.done();
      signals.decided(event.name, decision);
      return;
    }
    const by: Sender = { user, socket: ref };
    if (command.name === 'call-offer') {
      const claim = accepting ?? this.#accept(k);
      return this.#offer(event, tracked, key, by, command, claim, decision)
        .catch((error) => this.#failed(tracked, error))
        .finally(() => claim.done());
    }
    signals.decided(event.name, decision);
    if (command.name === 'ice-candidate' && this.#isEarly(key, k)) {
      if (!this.#early.hold(k, event, command.body)) signals.candidateDropped('early-bound');
      tracked.event.ack({ ok: true });
      tracked.first?.served({ ok: true }, null);
      return;
    }
    const made = toCallEvent(command, by, event);
    const step = this.calls.tryNow(key, made, tracked.event);
    if (step) {
      this.#settle(tracked, step, k);
      signals.served(event.name, performance.now() - started);
      return;
    }
    return this.calls
      .apply(key, () => made, tracked.event)
      .then((applied) => {
        if (applied) this.#settle(tracked, applied, k);
        signals.served(event.name, performance.now() - started);
      })
      .catch((error) => this.#failed(tracked, error));
  }

  /** No session, none being accepted that this candidate could belong to, none just ended, and an offer would come here. */
  #isEarly(key: CallKey, k: string): boolean {
    return (
      this.#deps.store.peek(key) === null &&
      this.#ended.last(k) === null &&
      this.#endedAtLegacy.last(k) === null &&
      this.#deps.routes().mode(key.ns, 'call-offer') === 'new'
    );
  }

  async #offer(
    event: InboundEvent,
    tracked: Tracked,
    key: CallKey,
    by: Sender,
    command: Command,
    accepting: Accepting,
    decision: Decision,
  ): Promise<void> {
    const { signals, routes } = this.#deps;
    const started = performance.now();
    let waited = 0;
    const sole = routes().sole(key.ns, 'call-offer');
    const outcome = await this.#offers.accept(
      { key, event: tracked.event, user: by.user, command, accepting, sole },
      (ms) => {
        waited += ms;
      },
    );
    switch (outcome.kind) {
      case 'stepped':
        signals.decided(event.name, decision);
        this.#settle(tracked, outcome.step, keyOf(key));
        signals.served(event.name, performance.now() - started - waited);
        return;
      case 'refused':
        signals.decided(event.name, decision);
        this.#refuse(tracked, outcome.refusal);
        return;
      case 'legacy': {
        const early = this.#early.take(keyOf(key), by.socket);
        signals.decided(event.name, { path: 'legacy', because: outcome.because });
        tracked.first?.givenAway();
        event.forward();
        for (const candidate of early) candidate.event.forward();
        return;
      }
      case 'gone':
        tracked.first?.givenAway();
        return;
    }
  }

  /** Null where the event repeats an earlier one, which answers it. */
  #track(event: InboundEvent, k: string, arrived: number): Tracked | null {
    if (!event.ackRequested || !this.#deps.delivery.isConnected(event.peer.ref))
      return { event, first: null, answer: undefined };
    const call = this.#callOf(event, k);
    const what = `${k}\n${event.name}\n${event.digest()}`;
    const first = this.#retries.see(event.peer.ref, what, call, arrived, (answer) => event.ack(answer));
    if (first === null) return null;
    const tracked: Tracked = {
      first,
      answer: undefined,
      event: new AckedTo(event, (arg) => {
        tracked.answer = arg;
        event.ack(arg);
      }),
    };
    return tracked;
  }

  /** The call that a request is about: the live one, or, but for an offer, the one that just ended here. */
  #callOf(event: InboundEvent, k: string): string | null {
    const id = conversationOf(event.args) as ConversationId;
    const session = this.#deps.store.peek({ ns: event.peer.ref.ns, conversationId: id });
    return session?.callId ?? (event.name === 'call-offer' ? null : this.#ended.last(k));
  }

  #settle({ first, answer }: Tracked, step: Step, k: string): void {
    if (!first) return;
    if (step.effects.some((e) => e.kind === 'refuse')) first.refused(answer);
    else first.served(answer, step.session?.callId ?? this.#ended.last(k));
  }

  async #arrived(by: Sender): Promise<void> {
    for (const session of await this.#deps.store.byUser(by.socket.ns, by.user)) {
      if (session.state !== 'AWAITING_REJOIN' && !session.rejoining) continue;
      if (!this.#deps.delivery.isConnected(by.socket)) return;
      await this.calls.apply(session, (now) => (now === null ? null : { type: 'arrived', by }));
    }
  }

  async #dropped(peer: Peer, cause: DropCause): Promise<void> {
    const { store, delivery } = this.#deps;
    for (const session of await store.bySocket(peer.ref)) {
      if (this.#lanes.busy(peer.ref.connection, keyOf(session))) continue;
      await this.calls.apply(session, (now) => {
        if (now === null) return null;
        const { offerer, answerer } = now.seats;
        const other = offerer.connection === peer.ref.connection && offerer.id === peer.ref.id ? answerer : offerer;
        return { type: 'drop', socket: peer.ref, cause, otherPresent: other !== null && delivery.isConnected(other) };
      });
    }
  }

  /** A fault of ours: answered once, told to the operator, and nothing else stops. */
  #failed(tracked: Tracked, error: unknown): void {
    this.#deps.signals.internalError(`serving ${tracked.event.name}`, error);
    this.#refuse(tracked, refusals.internal);
  }

  #refuse(tracked: Tracked, refusal: Refusal): void {
    refuse(tracked.event, refusal, this.#deps.delivery, this.#deps.signals);
    tracked.first?.refused(tracked.answer);
  }

  #guard(what: string, work: Promise<void>): void {
    work.catch((error) => this.#deps.signals.internalError(what, error));
  }
}

/** The same event, whose acknowledgement is told to somebody on its way. */
class AckedTo implements InboundEvent {
  readonly peer: Peer;
  readonly name: string;
  readonly ackRequested: boolean;
  readonly #event: InboundEvent;
  readonly ack: (arg: unknown) => void;

  constructor(event: InboundEvent, ack: (arg: unknown) => void) {
    this.#event = event;
    this.peer = event.peer;
    this.name = event.name;
    this.ackRequested = event.ackRequested;
    this.ack = ack;
  }

  get args(): readonly unknown[] {
    return this.#event.args;
  }

  get size(): number {
    return this.#event.size;
  }

  digest(): string {
    return this.#event.digest();
  }

  forward(): void {
    this.#event.forward();
  }
}

interface Tracked {
  readonly event: InboundEvent;
  readonly first: First | null;
  answer: unknown;
}

function toCallEvent({ name, body }: Command, by: Sender, { ackRequested, size }: InboundEvent): CallEvent {
  switch (name) {
    case 'call-answer':
    case 'call-rejoin-answer':
      return { type: name, by, answer: body, ackRequested };
    case 'call-renegotiate-answer':
      return { type: name, by, answer: body };
    case 'call-renegotiate-offer':
    case 'call-rejoin-offer':
      return { type: name, by, offer: body };
    case 'ice-candidate':
      return { type: name, by, iceCandidate: body, size };
    case 'call-end':
      return { type: name, by };
    case 'call-offer':
      throw new Error('offers go through Offers, which knows their participants');
  }
}
