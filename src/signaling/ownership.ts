// Which path owns the call that an event is about: gathers the facts for `decide` (session, claims, what ended lately, the
// table, what other instances have) and keeps those that signaling itself makes. Knows no payloads beyond their conversation.
import type { ConversationId, SocketRef, UserId } from '../base/ids.js';
import type { Acknowledged, Decision, InboundEvent, LegacyEvent, Peer } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey } from '../call/session.js';
import type { Memberships } from '../identity/identity.js';
import { decide } from '../routing/decide.js';
import { type Group, groups, type Wanted } from '../routing/route.js';
import type { RouteTable } from '../routing/table.js';
import { type Accepting, AcceptingOffers } from './accepting.js';
import type { WantedRelays } from './asked.js';
import { Asking, type Shared } from './asking.js';
import { type CallsDeps, keyOf } from './calls.js';
import { Claims, type ClaimsDeps } from './claims.js';
import { readCommand } from './commands.js';
import { Elsewhere } from './elsewhere.js';
import { EndedCalls } from './ended.js';
import type { ObservedCall } from './observed.js';
import { Quiet } from './quiet.js';
import { ToldCalls } from './told-calls.js';

export interface OwnershipDeps extends Omit<CallsDeps, 'ended'> {
  /** The table in force, read anew for each decision. */
  readonly routes: () => RouteTable;
  readonly newId: () => string;
  readonly memberships: Pick<Memberships, 'cached'>;
}

/** An offer whose serving never starts (its transport broke) must not hold its claim. */
const acceptingAtMost = 30_000;

/** The call that an event names; undefined where its payload names none. */
export function callOf(event: Pick<InboundEvent, 'peer'>, conversationId: string | undefined): CallKey | undefined {
  if (conversationId === undefined) return undefined;
  return { ns: event.peer.ref.ns, conversationId: conversationId as ConversationId };
}

export interface OfferRoute {
  /** The legacy's handlers are gone, nothing goes back to it. */
  readonly sole: boolean;
  readonly fallback: boolean;
  readonly wanted: Wanted;
  excludes(callee: UserId): boolean;
}

const relays: readonly Group[] = ['ice-candidate', 'call-renegotiation'];

export class Ownership {
  readonly claims: Claims;
  readonly accepting = new AcceptingOffers();
  /** Calls that ended on the new path. */
  readonly ended: EndedCalls;
  /** What trails in for a call that ended at the legacy is not ahead of anything. */
  readonly #endedAtLegacy: EndedCalls;
  /** Calls of the new path on other instances, as far as they ring here. */
  readonly told: ToldCalls;
  readonly #asking: Asking;
  readonly #elsewhere: Elsewhere;
  readonly #quiet: Quiet;
  readonly #deps: OwnershipDeps;

  constructor(deps: OwnershipDeps) {
    this.#deps = deps;
    this.#elsewhere = new Elsewhere(deps);
    this.#quiet = new Quiet(deps);
    this.#asking = new Asking(deps);
    this.told = new ToldCalls(deps.clock, (key) => this.#asking.forget(key));
    this.ended = new EndedCalls(deps.clock, (key, callId) => this.told.ended(key, callId));
    this.#endedAtLegacy = new EndedCalls(deps.clock);
    this.claims = new Claims({ ...deps, ended: this.#endedAtLegacy, shared: sharedClaims(deps) });
  }

  /**
   * What must be asked of the others before it is known whose call this event is about: whether anybody has one, or also that an
   * offer which goes to the legacy keeps theirs from the new path. Null: nothing, or nobody could answer.
   */
  asks(event: InboundEvent, key: CallKey): 'look' | 'claim' | null {
    const { store, cluster, routes } = this.#deps;
    const { user } = event.peer;
    if (user === undefined || store.peek(key) !== undefined) return null;
    const k = keyOf(key);
    const opens = event.name === 'call-offer';
    if (this.claims.has(k, opens) || this.accepting.has(k)) return null;
    if (!opens && this.#isOver(k, event.name)) return null;
    const begins = (): Wanted['path'] => routes().wants(key.ns, 'call-offer', key.conversationId, user).path;
    const said = event.name === 'ice-candidate' ? this.#asking.last(k) : null;
    // Where calls begin on the new path one may have begun meanwhile, on instances that have nothing to tell this one.
    if (said === 'unanswered' || (said === 'nothing' && begins() === 'legacy')) return null;
    const { liveness } = cluster;
    if (!liveness.mayAct() || !liveness.well() || this.#quiet.in(key.ns)) return null;
    if (!opens) return 'look';
    if (begins() === 'new') return null;
    return 'refusal' in readCommand('call-offer', event.args) ? null : 'claim';
  }

  /** Undefined where the answer does not come in time, `atMost` milliseconds. @throws Unreadable */
  async ask(what: 'look' | 'claim', key: CallKey, atMost?: number): Promise<Shared | undefined> {
    return this.#asking.ask(what, key, atMost);
  }

  /** An offer is about to go to the legacy after all. Undefined where nobody could answer. */
  async claimFirst({ peer }: InboundEvent, key: CallKey): Promise<Shared | undefined> {
    const { liveness } = this.#deps.cluster;
    if (peer.user === undefined || this.claims.has(keyOf(key), true) || !liveness.mayAct() || !liveness.well()) {
      return undefined;
    }
    return this.ask('claim', key);
  }

  /** What was claimed is not forwarded after all. */
  unclaim(key: CallKey, shared: Shared | undefined): void {
    if (shared?.claim !== undefined && !shared.session) this.#deps.store.release(key, shared.claim);
  }

  /** `key` undefined: the payload names no conversation. */
  decide(event: InboundEvent, key: CallKey | undefined, shared?: Shared): Decision {
    const { ref, user } = event.peer;
    const k = key && keyOf(key);
    const table = this.#deps.routes();
    return decide({
      opens: event.name === 'call-offer',
      candidate: event.name === 'ice-candidate' && (k === undefined || this.#endedAtLegacy.last(k) === null),
      verified: user !== undefined,
      owner: key === undefined ? null : this.#ownerOf(event, key, shared),
      endedHere: k !== undefined && (this.ended.last(k) !== null || Boolean(shared?.ended)),
      peeled: k !== undefined && this.claims.observed(k, event.name) !== null,
      offer: () => table.wants(ref.ns, 'call-offer', key?.conversationId ?? '', user),
      sole: table.sole(ref.ns, event.name),
    });
  }

  /** The legacy's call whose relay this event is, where it is served here or waits to be. */
  observed(key: CallKey, event: string): ObservedCall | null {
    return this.claims.observed(keyOf(key), event);
  }

  /**
   * No session, none just ended, and an offer would be served here: a candidate that runs ahead of its offer. Where nobody could be
   * asked it is taken for one only if its offer would go to the legacy then, which gets it too.
   */
  isEarly(key: CallKey, user: UserId, shared: Shared | undefined): boolean {
    const k = keyOf(key);
    const peeked = this.#deps.store.peek(key);
    const none = peeked === null || (peeked === undefined && !shared?.session && this.#knownCall(key, user) === null);
    if (!none || shared?.ended || this.ended.last(k) !== null || this.#endedAtLegacy.last(k) !== null) return false;
    const { wanted, fallback } = this.offerRoute(key, user);
    if (wanted.path !== 'new') return false;
    const unanswered = peeked === undefined && !shared && !this.accepting.has(k) && this.#asking.last(k) !== 'nothing';
    return !unanswered || fallback;
  }

  /** What the table in force says of this user's offer. */
  offerRoute({ ns, conversationId }: CallKey, user: UserId): OfferRoute {
    const table = this.#deps.routes();
    const { sole, fallback } = table.route(ns, 'call-offer');
    return {
      sole,
      fallback: !sole && fallback === 'legacy',
      wanted: table.wants(ns, 'call-offer', conversationId, user),
      excludes: (callee) => !sole && table.excludes(ns, 'call-offer', callee),
    };
  }

  /**
   * The live call, and the one that just ended here. `sure`: a newer one would be known. `shared`: what the other instances answered.
   */
  lastCall(
    key: CallKey,
    user: UserId | undefined,
    shared?: Shared,
  ): { readonly live: string | null; readonly ended: string | null; readonly sure: boolean } {
    const peeked = this.#deps.store.peek(key);
    const known = peeked === undefined ? shared?.session : peeked;
    const live = known === undefined ? this.#knownCall(key, user) : (known?.callId ?? null);
    return { live, ended: this.ended.last(keyOf(key)), sure: known !== undefined || this.#quiet.in(key.ns) };
  }

  /** An event goes to the legacy; `decision` says why. Answers who wants to see its acknowledgement. */
  forwarded(
    event: InboundEvent,
    key: CallKey | undefined,
    decision: Decision,
    shared?: Shared,
  ): Acknowledged | undefined {
    this.#deps.signals.decided(event.name, decision, event.peer.ref.ns);
    if (key === undefined) return undefined;
    // An unverified sender claims nothing while the new path has this call.
    const live = decision.because === 'unverified' && this.#ownerOf(event, key, shared) !== null;
    // Nor does an offer that the legacy will find malformed.
    const opensNone = event.name === 'call-offer' && 'refusal' in readCommand('call-offer', event.args);
    return live || opensNone ? undefined : this.claim(event, key, decision, shared?.claim);
  }

  /** As `forwarded`, where somebody else tells of the decision. */
  claim(event: InboundEvent, key: CallKey, decision: Decision, claimed?: string): Acknowledged | undefined {
    const wanted = event.name === 'call-offer' ? this.#relays(key, event.peer, decision) : null;
    const acknowledged = this.claims.forwarded(key, event, decision, wanted, claimed);
    if (wanted && wanted.groups.length > 0) this.#elsewhere.forwarded(key, event.peer, () => this.ringsElsewhere(key));
    return acknowledged;
  }

  /** Relays that are served here if the legacy accepts this offer. */
  #relays({ ns, conversationId }: CallKey, { user }: Peer, { because }: Decision): WantedRelays | null {
    // Without a verified offerer and a callee's socket that we can serve nothing of a call can be relayed here.
    if (user === undefined || because === 'callee-not-here') return null;
    const table = this.#deps.routes();
    const event = (group: Group): string => groups[group][0] as string;
    return {
      groups: relays.filter((group) => table.wants(ns, event(group), conversationId, user).path === 'new'),
      excludes: (group, callee) => table.excludes(ns, event(group), callee),
    };
  }

  /** An event about a call passes from the legacy to a browser. */
  passed(event: LegacyEvent, key: CallKey): void {
    const unseen = event.name === 'call-offer' && !this.claims.has(keyOf(key), false);
    this.claims.passed(key, event);
    if (unseen) this.#elsewhere.ringsHere(key, event);
  }

  /** The callee of this call of the legacy's is on another instance, or nowhere: what it takes to serve its relays is not seen here. */
  ringsElsewhere(key: CallKey): void {
    this.claims.observedCall(keyOf(key))?.leave('rings-elsewhere');
  }

  /** The new path begins to accept an offer. */
  accept(key: CallKey): Accepting {
    this.claims.forgetGuess(keyOf(key));
    this.#asking.forget(keyOf(key));
    const accepting = this.accepting.add(key);
    const timer = this.#deps.clock.after(acceptingAtMost, () => accepting.done());
    void accepting.settled.then(() => timer.cancel());
    return accepting;
  }

  disconnected(ref: SocketRef): void {
    this.claims.disconnected(ref);
  }

  /** Entries of what is bounded, by name. */
  readonly sizes: Readonly<Record<string, () => number>> = {
    'legacy-claims': () => this.claims.size,
    'observed-bytes': () => this.claims.observedBytes,
    'told-calls': () => this.told.size,
    'ended-calls': () => this.ended.size + this.#endedAtLegacy.size,
  };

  sweep(): void {
    this.ended.sweep();
    this.#endedAtLegacy.sweep();
    this.told.sweep();
    this.claims.sweep();
  }

  #ownerOf(
    event: InboundEvent,
    key: CallKey,
    shared: Shared | undefined,
  ): 'session' | 'claimed-new' | 'claimed-legacy' | null {
    const k = keyOf(key);
    const peeked = this.#deps.store.peek(key);
    if (peeked) return 'session';
    if (this.claims.has(k, event.name === 'call-offer')) return 'claimed-legacy';
    if (this.accepting.has(k)) return 'claimed-new';
    if (peeked === null) return null;
    if (shared) return shared.session ? 'session' : shared.claimed ? 'claimed-legacy' : null;
    const { user } = event.peer;
    // What only rang here may be over, of which nobody tells: it keeps no offer from the legacy.
    const told = event.name !== 'call-offer' || this.#wants(key, user).path === 'new';
    return (told ? this.#knownCall(key, user) : this.#seatedCall(key, user)) === null ? null : 'session';
  }

  /** The call of the new path that this instance knew of when it could be asked for last. */
  #knownCall(key: CallKey, user: UserId | undefined): string | null {
    return this.#seatedCall(key, user) ?? this.told.last(keyOf(key));
  }

  #seatedCall({ ns, conversationId }: CallKey, user: UserId | undefined): string | null {
    const seated = user === undefined ? [] : this.#deps.store.knownOf(ns, user);
    return seated.find((s) => s.conversationId === conversationId)?.callId ?? null;
  }

  #wants({ ns, conversationId }: CallKey, user: UserId | undefined): Wanted {
    return this.#deps.routes().wants(ns, 'call-offer', conversationId, user);
  }

  /** What comes in is about a call that ended lately, as far as this instance was told. */
  #isOver(k: string, event: string): boolean {
    const told = this.told.last(k);
    const ended = this.ended.last(k);
    // Candidates trail in behind an end; whatever else comes may be about a call that began at the legacy since, over another instance.
    if (ended !== null) return event === 'ice-candidate' && (told === null || told === ended);
    return told === null && event === 'ice-candidate' && this.#endedAtLegacy.last(k) !== null;
  }
}

/** In the background; the store tells it again where it is lost. */
function sharedClaims({ store, signals }: OwnershipDeps): ClaimsDeps['shared'] {
  return {
    claim(call, id) {
      store.claim(call, id).catch((error) => {
        if (!(error instanceof Unavailable)) signals.internalError('claiming a call for the legacy', error);
      });
    },
    release: (call, id) => store.release(call, id),
  };
}
