// Which path owns the call that an event is about: gathers the facts for `decide` (session, claims, what ended lately, the
// table) and keeps those that signaling itself makes. Knows no payloads beyond their conversation, and no transport.
import type { ConversationId, SocketRef, UserId } from '../base/ids.js';
import type { Acknowledged, Decision, InboundEvent, LegacyEvent, Peer } from '../base/service.js';
import type { CallKey } from '../call/session.js';
import { decide } from '../routing/decide.js';
import { type Group, groups, type Wanted } from '../routing/route.js';
import type { RouteTable } from '../routing/table.js';
import { type Accepting, AcceptingOffers } from './accepting.js';
import type { WantedRelays } from './asked.js';
import { type CallsDeps, keyOf } from './calls.js';
import { Claims } from './claims.js';
import { readCommand } from './commands.js';
import { EndedCalls } from './ended.js';
import type { ObservedCall } from './observed.js';

export interface OwnershipDeps extends Omit<CallsDeps, 'ended'> {
  /** The table in force, read anew for each decision. */
  readonly routes: () => RouteTable;
  readonly newId: () => string;
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
  readonly #deps: OwnershipDeps;

  constructor(deps: OwnershipDeps) {
    this.#deps = deps;
    this.ended = new EndedCalls(deps.clock);
    this.#endedAtLegacy = new EndedCalls(deps.clock);
    this.claims = new Claims({ ...deps, ended: this.#endedAtLegacy });
  }

  /** `key` undefined: the payload names no conversation. */
  decide(event: InboundEvent, key: CallKey | undefined): Decision {
    const { ref, user } = event.peer;
    const k = key && keyOf(key);
    const table = this.#deps.routes();
    return decide({
      opens: event.name === 'call-offer',
      candidate: event.name === 'ice-candidate' && (k === undefined || this.#endedAtLegacy.last(k) === null),
      verified: user !== undefined,
      owner: key === undefined ? null : this.#ownerOf(event, key),
      endedHere: k !== undefined && this.ended.last(k) !== null,
      peeled: k !== undefined && this.claims.observed(k, event.name) !== null,
      offer: () => table.wants(ref.ns, 'call-offer', key?.conversationId ?? '', user),
      sole: table.sole(ref.ns, event.name),
    });
  }

  /** The legacy's call whose relay this event is, where it is served here or waits to be. */
  observed(key: CallKey, event: string): ObservedCall | null {
    return this.claims.observed(keyOf(key), event);
  }

  /** No session, none just ended, and an offer would be served here: a candidate that runs ahead of its offer. */
  isEarly(key: CallKey, user: UserId): boolean {
    const k = keyOf(key);
    return (
      this.#deps.store.peek(key) === null &&
      this.ended.last(k) === null &&
      this.#endedAtLegacy.last(k) === null &&
      this.#deps.routes().wants(key.ns, 'call-offer', key.conversationId, user).path === 'new'
    );
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

  /** The live call, or the one that just ended here. */
  lastCall(key: CallKey): { readonly live: string | null; readonly ended: string | null } {
    return { live: this.#deps.store.peek(key)?.callId ?? null, ended: this.ended.last(keyOf(key)) };
  }

  /** An event goes to the legacy; `decision` says why. Answers who wants to see its acknowledgement. */
  forwarded(event: InboundEvent, key: CallKey | undefined, decision: Decision): Acknowledged | undefined {
    this.#deps.signals.decided(event.name, decision, event.peer.ref.ns);
    if (key === undefined) return undefined;
    // An unverified sender claims nothing while the new path has this call.
    const live = decision.because === 'unverified' && this.#ownerOf(event, key) !== null;
    // Nor does an offer that the legacy will find malformed.
    const opensNone = event.name === 'call-offer' && 'refusal' in readCommand('call-offer', event.args);
    return live || opensNone ? undefined : this.claim(event, key, decision);
  }

  /** As `forwarded`, where somebody else tells of the decision. */
  claim(event: InboundEvent, key: CallKey, decision: Decision): Acknowledged | undefined {
    const wanted = event.name === 'call-offer' ? this.#relays(key, event.peer, decision) : null;
    return this.claims.forwarded(key, event, decision, wanted);
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
    this.claims.passed(key, event);
  }

  /** The new path begins to accept an offer. */
  accept(key: CallKey): Accepting {
    this.claims.forgetGuess(keyOf(key));
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
    'ended-calls': () => this.ended.size + this.#endedAtLegacy.size,
  };

  sweep(): void {
    this.ended.sweep();
    this.#endedAtLegacy.sweep();
    this.claims.sweep();
  }

  #ownerOf(event: InboundEvent, key: CallKey): 'session' | 'claimed-new' | 'claimed-legacy' | null {
    const k = keyOf(key);
    if (this.#deps.store.peek(key)) return 'session';
    if (this.claims.has(k, event.name === 'call-offer')) return 'claimed-legacy';
    return this.accepting.has(k) ? 'claimed-new' : null;
  }
}
