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
import { Unreadable } from '../base/unavailable.js';
import { refusals } from '../call/refusals.js';
import type { CallKey, Sender, Step } from '../call/session.js';
import type { Memberships } from '../identity/identity.js';
import type { Accepting } from './accepting.js';
import { Answers, answerWithinMs } from './answers.js';
import { askAtMost, type Shared } from './asking.js';
import { type Asker, Calls, keyOf } from './calls.js';
import { Comings } from './comings.js';
import { type CommandName, readCommand, toCallEvent } from './commands.js';
import { conversationOf, refuse, whoseOf } from './deliver.js';
import { EarlyCandidates } from './early.js';
import { Inbox } from './inbox.js';
import { Lanes } from './lanes.js';
import type { LegacyCalls } from './live-calls.js';
import { Offering } from './offering.js';
import { Offers } from './offers.js';
import { callOf, Ownership, type OwnershipDeps } from './ownership.js';
import { PeeledRelays } from './peeled.js';
import { untracked } from './tracked.js';

export interface SignalingDeps extends OwnershipDeps {
  readonly memberships: Memberships;
}

const held: Decision = { path: 'new', because: 'held' };
/** An event on its turn. */
interface Turn {
  readonly event: InboundEvent;
  readonly key: CallKey;
  readonly arrived: number;
  /** By the clock. */
  readonly came: number;
  readonly decided: Decision | undefined;
  readonly accepting?: Accepting | undefined;
  /** What the other instances have of its conversation, once they were `asked` and where they answered. */
  readonly shared?: Shared | undefined;
  readonly asked?: true;
  /** The call that it is about knows of its socket, where it waited for that. */
  readonly arrivedIn?: true;
}

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
    'call-peer-disconnected',
    'call-rejoin-offer',
    'call-rejoin-answer',
    'error',
  ]);

  readonly calls: Calls;
  readonly #deps: SignalingDeps;
  readonly #ownership: Ownership;
  readonly #early: EarlyCandidates;
  readonly #lanes = new Lanes();
  /** Offers taken whose serving has not begun, which it never does where their socket leaves first: one for each POST under way. */
  readonly #unserved = new Map<Accepting, SocketRef>();
  readonly #answers: Answers;
  readonly #offering: Offering;
  readonly #peeled: PeeledRelays;
  readonly #comings: Comings;
  readonly #inbox: Inbox;

  constructor(deps: SignalingDeps) {
    this.#deps = deps;
    this.#early = new EarlyCandidates(deps.clock);
    this.#ownership = new Ownership(deps);
    this.#peeled = new PeeledRelays(deps, this.#lanes, this.#ownership);
    const { ended } = this.#ownership;
    this.calls = new Calls({ ...deps, ended });
    this.#comings = new Comings({ ...deps, ended }, this.calls, this.#lanes);
    this.#inbox = new Inbox({ ...deps, ended }, this.calls, this.#ownership.told, (key) =>
      this.#ownership.ringsElsewhere(key),
    );
    this.#answers = new Answers(deps, this.#ownership);
    const offers = new Offers(
      { ...deps, ended },
      this.calls,
      this.#ownership,
      this.#early,
      deps.memberships,
      deps.newId,
    );
    this.#offering = new Offering(deps.signals, offers, this.#ownership, this.#early, this.#answers);
  }

  watching(): boolean {
    // Always: an offer that the legacy delivers may come from someone who is not behind this proxy.
    return true;
  }

  route(event: InboundEvent): Routed {
    const { connection } = event.peer.ref;
    const key = callOf(event, conversationOf(event.args));
    const opens = event.name === 'call-offer';
    if (key && this.#lanes.busy(connection, keyOf(key))) return this.#taken(event, key, undefined);
    if (key && this.#ownership.asks(event, key)) return this.#taken(event, key, undefined);
    const decision = this.#ownership.decide(event, key);
    if (decision.path === 'legacy') {
      // Its candidates that ran ahead are here, and must follow it.
      if (key && opens && this.#early.has(keyOf(key), event.peer.ref)) return this.#taken(event, key, undefined);
      const acknowledged = this.#ownership.forwarded(event, key, decision);
      return acknowledged ? { decision, acknowledged } : { decision };
    }
    if (key === undefined) return { decision, serve: () => this.#serveMalformed(event, decision) };
    return this.#taken(event, key, decision, opens ? this.#ownership.accept(key) : undefined);
  }

  /** Served once the transport says so, in the order of its lane; undecided, it is decided on its turn. */
  #taken(event: InboundEvent, key: CallKey, decision: Decision | undefined, accepting?: Accepting): Routed {
    const { ref } = event.peer;
    const begins = this.#lanes.expect(ref.connection, keyOf(key));
    if (accepting) this.#unserved.set(accepting, ref);
    const serve = (): void => {
      begins();
      if (accepting) this.#unserved.delete(accepting);
      this.#enqueue(event, key, decision, accepting);
    };
    return { decision: decision ?? held, serve };
  }

  passed(event: LegacyEvent): void {
    const key = callOf(event, conversationOf(event.args));
    if (key) this.#ownership.passed(event, key);
  }

  connected(peer: Peer): void {
    if (peer.user === undefined) return;
    this.#deps.cluster.presence.add(peer);
    this.#guard('connected', this.#comings.came(peer));
  }

  /** What this socket sent before it left may still wait for a ticket: the call loses its seat only after that. */
  disconnected(peer: Peer, cause: DropCause): void {
    const waiting = this.#lanes.idle(peer.ref.connection);
    this.#forget(peer.ref);
    if (peer.user !== undefined) this.#deps.cluster.presence.remove(peer);
    this.#guard('disconnected', this.#comings.went(peer, cause));
    if (!waiting) return;
    const after = waiting.then(() => {
      this.#forget(peer.ref);
      return this.#comings.went(peer, cause);
    });
    this.#guard('disconnected', after);
  }

  #forget(ref: SocketRef): void {
    this.#ownership.disconnected(ref);
    this.#early.disconnected(ref);
    this.#answers.retries.disconnected(ref);
    for (const [accepting, { connection, ns }] of this.#unserved) {
      if (connection !== ref.connection || ns !== ref.ns) continue;
      this.#unserved.delete(accepting);
      accepting.done();
    }
    this.#lanes.disconnected(ref.connection);
  }

  owns(ns: Namespace, conversationId: ConversationId): boolean {
    return Boolean(this.#deps.store.peek({ ns, conversationId }));
  }

  /** The legacy's calls, as far as they were seen to pass. */
  get legacyCalls(): LegacyCalls {
    return this.#ownership.claims;
  }

  /** Offers that the new path is accepting at this moment. */
  get accepting(): Iterable<Accepting> {
    return this.#ownership.accepting;
  }

  /** How much is held of what is bounded, by name, for the metrics. */
  get sizes(): Readonly<Record<string, () => number>> {
    return {
      ...this.#ownership.sizes,
      'early-candidates': () => this.#early.size,
      'owed-drops': () => this.#comings.owed,
      'call-messages': () => this.#inbox.size,
    };
  }

  /** Forgets what is too old to matter; the reaper calls it. */
  sweep(): void {
    this.#early.sweep();
    this.#ownership.sweep();
  }

  #serveMalformed(event: InboundEvent, decision: Decision): void {
    const { signals, delivery } = this.#deps;
    signals.decided(event.name, decision, event.peer.ref.ns);
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
    const arrived = this.#answers.retries.arrival();
    const came = event.peer.ref.at === undefined ? 0 : this.#deps.clock.now();
    const task = (): void | Promise<void> => {
      try {
        return this.#serve({ event, key, arrived, came, decided, accepting });
      } catch (error) {
        this.#answers.failed(untracked(event), error);
        accepting?.done();
      }
    };
    const urgent = this.events.get(event.name as CommandName) === 'lifecycle';
    const taken = this.#lanes.run(event.peer.ref.connection, keyOf(key), event.size, task, urgent);
    if (!taken) {
      signals.bound('held', { event: event.name });
      accepting?.done();
      refuse(event, refusals.overflow, delivery, signals);
    }
  }

  /** One event on its turn. Returns a promise only where something must be awaited. */
  #serve(turn: Turn): void | Promise<void> {
    const { signals, delivery } = this.#deps;
    const { event, key, arrived, came, shared } = turn;
    let { decided: decision, accepting } = turn;
    // Its call's relays may have gone back to the legacy since that was decided.
    if (decision?.because === 'peeled' && !this.#ownership.observed(key, event.name)) decision = undefined;
    const ask = decision || turn.asked ? null : this.#ownership.asks(event, key);
    const askFor = ask ? askAtMost - this.#waited(turn) : 0;
    if (ask && askFor > 0) return this.#ask(turn, ask, askFor);
    const arriving = this.#comings.arriving(event.peer.ref);
    if (arriving) return arriving.then(() => this.#afterArrival(turn));
    if (!turn.arrivedIn && this.#comings.isNew(event.peer.ref)) return this.#afterArrival(turn);
    if (!decision) {
      decision = this.#ownership.decide(event, key, shared);
      if (decision.path === 'legacy') {
        if (!delivery.isConnected(event.peer.ref)) {
          this.#ownership.unclaim(key, shared);
          return;
        }
        event.forward(this.#ownership.forwarded(event, key, decision, shared));
        if (event.name === 'call-offer') this.#offering.forwardEarly(key, event.peer.ref);
        return;
      }
      this.#ownership.unclaim(key, shared);
      if (event.name === 'call-offer') accepting = this.#ownership.accept(key);
    }
    const observed = decision.because === 'peeled' ? this.#ownership.observed(key, event.name) : null;
    const { user, ref } = event.peer;
    const again = (): void | Promise<void> => {
      if (ref.at !== undefined) this.#lanes.held(ref.connection, keyOf(key), this.#deps.clock.now());
      return this.#serve({ event, key, arrived, came, decided: undefined });
    };
    const wait = observed && this.#peeled.waits(event, key, observed);
    if (wait) return wait.then(again).catch((error) => this.#answers.failed(untracked(event), error));
    if (observed?.left) return again();
    const started = performance.now();
    const read = readCommand(event.name as CommandName, event.args);
    if ('refusal' in read || user === undefined) {
      accepting?.done();
      signals.decided(event.name, decision, event.peer.ref.ns);
      refuse(event, 'refusal' in read ? read.refusal : refusals.notParticipant, delivery, signals);
      return;
    }
    const { command } = read;
    const tracked = this.#answers.track(event, key, arrived, observed?.id, shared);
    if (tracked === null) {
      accepting?.done();
      signals.decided(event.name, decision, event.peer.ref.ns);
      return;
    }
    const by: Sender = { user, socket: ref };
    if (command.name === 'call-offer') {
      const claim = accepting ?? this.#ownership.accept(key);
      return this.#offering
        .serve({
          ...{ event, tracked, key, by, command, accepting: claim, decision, shared },
          // Without a lease nobody is asked: it is the legacy's, or refused, at once.
          left: this.#deps.cluster.liveness.mayAct() ? this.#left(turn) : answerWithinMs,
          waited: () => this.#lanes.held(ref.connection, keyOf(key), this.#deps.clock.now()),
        })
        .finally(() => claim.done());
    }
    if (observed) {
      let relayed: Step | 'again' | null;
      try {
        relayed = this.#peeled.serve(event, tracked.event, toCallEvent(command, by, event), key, observed);
      } catch (error) {
        this.#answers.failed(tracked, error);
        return;
      }
      if (relayed === null || relayed === 'again') {
        tracked.first?.givenAway();
        return relayed === null ? undefined : again();
      }
      this.#answers.settle(tracked, relayed, key);
      signals.served(event.name, performance.now() - started, event.peer.ref.ns, whoseOf(event));
      return;
    }
    signals.decided(event.name, decision, event.peer.ref.ns);
    if (command.name === 'ice-candidate' && this.#ownership.isEarly(key, user, shared)) {
      if (!this.#early.hold(keyOf(key), event, command.body)) signals.candidateDropped('early-bound');
      tracked.event.ack({ ok: true });
      tracked.first?.served({ ok: true }, null);
      return;
    }
    const made = toCallEvent(command, by, event);
    const step = this.calls.tryNow(key, made, tracked.event);
    if (step) {
      this.#answers.settle(tracked, step, key);
      signals.served(event.name, performance.now() - started, event.peer.ref.ns, whoseOf(event));
      return;
    }
    const asker: Asker = { event: tracked.event, over: false };
    const known = shared ? { session: shared.session } : undefined;
    return this.#answers.inTime(
      tracked,
      asker,
      async () => {
        const applied = await this.calls.apply(key, () => made, asker, known);
        if (asker.over) return;
        if (applied) this.#answers.settle(tracked, applied, key);
        const keeps = event.name === 'call-rejoin-offer' && applied?.session?.waitsForBoth;
        if (keeps && ref.at !== undefined) this.#comings.offered(applied, asker.found);
        signals.served(event.name, performance.now() - started, event.peer.ref.ns, whoseOf(event));
      },
      this.#left(turn),
    );
  }

  /** How long it has waited for what instances share, here and in its lane; milliseconds. */
  #waited({ event, key, came }: Turn): number {
    const { connection, at } = event.peer.ref;
    if (at === undefined) return 0;
    return this.#deps.clock.now() - Math.max(came, this.#lanes.heldUntil(connection, keyOf(key)));
  }

  readonly #left = (turn: Turn): number => answerWithinMs - this.#waited(turn);

  /** Its socket may have a seat by now that was held for it. */
  async #afterArrival(turn: Turn): Promise<void> {
    const { event, key, accepting } = turn;
    const { user, ref } = event.peer;
    if (event.name !== 'call-end' && !this.#deps.delivery.isConnected(event.peer.ref)) {
      accepting?.done();
      return;
    }
    try {
      const held = (this.#deps.store.peek(key) ?? turn.shared?.session)?.held;
      if (held && user !== undefined && this.#comings.isNew(ref)) {
        await this.#comings.arrivesIn(key, { user, socket: ref }, this.#left(turn));
      }
      await this.#serve({ ...turn, arrivedIn: true });
    } catch (error) {
      this.#answers.failed(untracked(event), error);
      accepting?.done();
    }
  }

  /** What the others have of its conversation is asked, and then it is decided with that, or without where nobody answers. */
  async #ask(turn: Turn, what: 'look' | 'claim', atMost: number): Promise<void> {
    const { event, key } = turn;
    try {
      const shared = await this.#ownership.ask(what, key, atMost).catch(async (error) => {
        if (!(error instanceof Unreadable)) throw error;
        await this.calls.unreadable(key, error);
        return undefined;
      });
      await this.#serve({ ...turn, asked: true, shared });
    } catch (error) {
      this.#answers.failed(untracked(event), error);
    }
  }

  #guard(what: string, work: Promise<void>): void {
    work.catch((error) => this.#deps.signals.internalError(what, error));
  }
}
