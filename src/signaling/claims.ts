// Calls that the legacy has, as far as they were seen to pass (docs/routes.md, rule 2): when one is claimed for it, whom that
// concerns, and when it is over. What is known of each is in claim.ts. Knows no store, ticket or transport.
import type { SocketRef } from '../base/ids.js';
import { sameSocket } from '../base/ids.js';
import type { Acknowledged, Decision, InboundEvent, LegacyEvent } from '../base/service.js';
import type { CallKey, State } from '../call/session.js';
import { groupOf } from '../routing/route.js';
import { digestOf, type WantedRelays } from './asked.js';
import { BegunBy } from './begun.js';
import { ObservedBudget } from './budget.js';
import { keyOf } from './calls.js';
import {
  answeredBy,
  asks,
  endedBy,
  isGuess,
  isOfEarlier,
  isParty,
  isRefuted,
  type LegacyClaim,
  newClaim,
  type Offered,
  offeredBy,
  offers,
  partiesOf,
  rejoinedBy,
  socketKey,
  states,
} from './claim.js';
import type { EndedCalls } from './ended.js';
import type { LiveCall } from './live.js';
import type { LegacyCalls } from './live-calls.js';
import { ObservedCall, type ObservedDeps } from './observed.js';
import { PastOffers } from './past-offers.js';

export interface ClaimsDeps extends Omit<ObservedDeps, 'budget'> {
  readonly newId: () => string;
  /** Calls of the legacy's that were seen to end. */
  readonly ended: EndedCalls;
  /** The other instances keep their offers of this conversation from the new path, until they are told that it is over. */
  readonly shared: {
    claim(call: CallKey, id: string): void;
    release(call: CallKey, id: string): void;
  };
}

/** Reasons to forget a claim that say nothing of what the legacy has. */
const lapses = new Set(['refuted', 'refused', 'max-age', 'bound', 'followed']);
/** Of those: it may well have that call still, and whatever was kept for it. */
const forgotten = new Set(['max-age', 'bound']);
/** Events that only the owner of a live call is sent; of a candidate that can't be said, it may run ahead of its offer. */
const ofLiveCalls = new Set([
  'call-answer',
  'call-rejoin-offer',
  'call-rejoin-answer',
  'call-renegotiate-offer',
  'call-renegotiate-answer',
]);
export const maxAge = 6 * 3_600_000;
/** Of all browsers; with what is observed of it a claim takes up to 6 KB while it begins. */
export const maxClaims = 100_000;
/** Begun by one socket: a flood of one browser's makes only its own calls be forgotten, and its leaving ends them in 0.2 s. */
export const maxClaimsOfOne = 6_000;
/** The legacy's words are shown to operators; a user's id is no longer than this. */
const maxShown = 256;

export class Claims implements LegacyCalls {
  readonly #claims = new Map<string, LegacyClaim>();
  readonly #bySocket = new Map<string, Set<LegacyClaim>>();
  readonly #begunBy = new BegunBy<LegacyClaim>();
  /** Of `#claims`: made by something that anybody can send for a call that is none. */
  #guesses = 0;
  readonly #budget = new ObservedBudget();
  readonly #past: PastOffers;
  readonly #deps: ClaimsDeps;

  constructor(deps: ClaimsDeps) {
    this.#deps = deps;
    this.#past = new PastOffers(deps.clock);
  }

  /** Forgets what is too old to matter. */
  sweep(): void {
    this.#past.sweep();
  }

  /** `opening`: asked for a `call-offer`, for which a guess does not count: anybody can send a stray answer. */
  has(key: string, opening: boolean): boolean {
    const claim = this.#claims.get(key);
    const old = claim !== undefined && this.#deps.clock.now() - claim.at > maxAge;
    if (old) this.#drop(claim, 'max-age');
    return claim !== undefined && !old && !(opening && isGuess(claim));
  }

  get size(): number {
    return this.#claims.size;
  }

  get counts(): { readonly legacy: number; readonly peeled: number } {
    return { legacy: this.#claims.size - this.#guesses, peeled: this.#budget.calls };
  }

  /** Bytes that observed sessions hold. */
  get observedBytes(): number {
    return this.#budget.bytes;
  }

  /** The observed call whose relays of this event's group are served here, or wait to be. */
  observed(key: string, event: string): ObservedCall | null {
    const observed = this.#claims.get(key)?.observed;
    return observed?.takes(groupOf.get(event)) ? observed : null;
  }

  /** The same, whichever relays it has. */
  observedCall(key: string): ObservedCall | null {
    const observed = this.#claims.get(key)?.observed;
    return observed && !observed.left ? observed : null;
  }

  /** Those that are more than guessed, oldest first; may be walked over several turns. */
  *calls(): Generator<Omit<LiveCall, 'path'>> {
    for (const claim of this.#claims.values()) {
      if (isGuess(claim)) continue;
      const { id, call, decision, at, observed } = claim;
      yield {
        id,
        ...call,
        because: decision.because,
        state: observed?.session?.state ?? claim.state,
        ...partiesOf(claim),
        peeled: observed?.peeled ?? [],
        createdAt: at,
        since: observed?.session?.since ?? claim.since,
      };
    }
  }

  /** The new path begins to accept an offer: what was only guessed says nothing any more. */
  forgetGuess(key: string): void {
    const guess = this.#claims.get(key);
    if (guess && isGuess(guess)) this.#drop(guess, 'refuted');
  }

  /**
   * A call event goes on to the legacy; `decision` says why. `wanted`: of an offer, the relays that would be served here if
   * it opens a call; `claimed`: under which name the other instances know of it already. Answers who wants to see its
   * acknowledgement.
   */
  forwarded(
    call: CallKey,
    event: InboundEvent,
    decision: Decision,
    wanted: WantedRelays | null,
    claimed?: string,
  ): Acknowledged | undefined {
    const key = keyOf(call);
    const { name, peer } = event;
    if (name === 'call-offer') {
      // A guess that the legacy may still refute says nothing of the call that begins here.
      this.forgetGuess(key);
      const claim = this.#claims.get(key) ?? this.#claim(call, decision, { event: name, peer }, wanted, claimed);
      if (claimed !== undefined) claim.shared = claimed;
      const offered = offers(claim, event, decision);
      if (!claim.confirmed) this.#index(claim, peer.ref);
      const watches = claim.observed?.forwarded(event, wanted);
      if (!event.ackRequested) return watches;
      return (args) => {
        this.#acknowledged(key, offered, args);
        return watches?.(args);
      };
    }
    let claim = this.#claims.get(key);
    // A call that began before this proxy, or whose other party is not behind it.
    if (ofLiveCalls.has(name)) claim ??= this.#claim(call, decision, { event: name, peer });
    if (!claim) return undefined;
    if (name === 'call-answer' || name === 'call-rejoin-offer') {
      asks(claim, name, peer);
      this.#index(claim, peer.ref);
    } else if (name === 'call-end' && isParty(claim, peer)) {
      this.#past.ended(key, endedBy(claim, peer));
      this.#end(claim, name, 'hangup');
    }
    return claim.observed?.forwarded(event, null);
  }

  /** An event about this conversation passes from the legacy to a browser. */
  passed(call: CallKey, event: LegacyEvent): void {
    const { peer, name, args } = event;
    const key = keyOf(call);
    let claim = this.#claims.get(key);
    if (name === 'call-offer') {
      if (this.#past.rings(key, claim, args)) return;
      if (claim) claim = this.#ringsNext(claim, args);
    }
    const ended = this.#deps.ended.last(key) !== null;
    // Right after an end it is that call's, which is told of late.
    if (name === 'call-offer' || (name === 'call-rejoin-offer' && !ended)) {
      claim ??= this.#claim(call, { path: 'legacy', because: 'default' });
    }
    if (!claim || isOfEarlier(claim, event, ended)) return;
    const payload = args[0] as Record<string, unknown>;
    const state = states[name];
    if (state) {
      if (name === 'call-offer' && !claim.confirmed) offeredBy(claim, payload);
      this.#confirm(claim);
      this.#enter(claim, name, state);
      claim.told.add(socketKey(peer.ref));
    }
    if (name !== 'call-ended' || payload.reason === 'answered-elsewhere') claim.observed?.passed(event);
    switch (name) {
      case 'call-offer':
        claim.callee ??= peer.user;
        claim.caller ??= shown(payload.fromUserId);
        this.#index(claim, peer.ref);
        break;
      case 'call-answer':
        answeredBy(claim, payload.fromUserId);
        break;
      case 'call-rejoin-offer':
        claim.callee ??= peer.user;
        this.#index(claim, peer.ref);
        rejoinedBy(claim, payload.fromUserId);
        break;
      case 'call-ended':
        if (payload.reason !== 'answered-elsewhere') this.#end(claim, name, shown(payload.reason) ?? 'ended');
        break;
      case 'error':
        if (this.#past.refused(key, peer, payload)) break;
        if (isRefuted(claim, peer, payload)) this.#drop(claim, 'refused', String(payload.event));
        break;
    }
  }

  /**
   * A socket is gone: the offerer's before the answer, or the second of both seats, ends the legacy's call. A call of
   * which nobody is left here is forgotten; whoever comes back to it says so.
   */
  disconnected(ref: SocketRef): void {
    this.#past.disconnected(ref);
    for (const claim of this.#bySocket.get(socketKey(ref)) ?? []) {
      claim.sockets.delete(socketKey(ref));
      if (claim.sockets.size === 0) {
        this.#drop(claim, 'nobody-here', 'drop');
        continue;
      }
      if (claim.begun && !claim.confirmed && sameSocket(claim.begun.peer.ref, ref)) {
        this.#drop(claim, 'offerer-left', 'drop');
        continue;
      }
      if (!claim.answered) {
        if (claim.seats.offerer && sameSocket(claim.seats.offerer.ref, ref)) this.#drop(claim, 'offerer-left', 'drop');
        else claim.observed?.disconnected(ref);
        continue;
      }
      claim.observed?.disconnected(ref);
      if (claim.observed?.session) {
        if (claim.observed.deserted) this.#drop(claim, 'both-gone', 'drop');
        continue;
      }
      for (const role of ['offerer', 'answerer'] as const) {
        const seat = claim.seats[role];
        if (seat && sameSocket(seat.ref, ref)) claim.lost.add(role);
      }
      if (claim.lost.size === 2) this.#drop(claim, 'both-gone', 'drop');
    }
    this.#bySocket.delete(socketKey(ref));
  }

  #claim(
    call: CallKey,
    decision: Decision,
    begun?: LegacyClaim['begun'],
    wanted: WantedRelays | null = null,
    claimed: string | null = null,
  ): LegacyClaim {
    const { clock, signals, newId } = this.#deps;
    const full = this.#claims.size >= maxClaims;
    const opener = begun && socketKey(begun.peer.ref);
    const own = opener === undefined ? undefined : this.#begunBy.oldest(opener, full ? 1 : maxClaimsOfOne);
    const oldest = own ?? (full ? this.#claims.values().next().value : undefined);
    if (oldest) {
      signals.bound('claims', {});
      this.#drop(oldest, 'bound');
    }
    const id = newId();
    const observed = ObservedCall.of({ ...this.#deps, budget: this.#budget }, call, id, wanted);
    const claim = newClaim({ key: keyOf(call), call, id, decision, at: clock.now(), begun, observed });
    this.#claims.set(claim.key, claim);
    claim.shared = claimed;
    if (begun) this.#index(claim, begun.peer.ref);
    if (opener !== undefined) this.#begunBy.add(opener, claim);
    if (isGuess(claim)) this.#guesses += 1;
    else this.#began(claim);
    if (begun?.event === 'call-offer') this.#enter(claim, begun.event, 'OFFERING');
    return claim;
  }

  #began(claim: LegacyClaim): void {
    const { call, id, decision } = claim;
    this.#deps.signals.began({ ...call, callId: id, decision });
    if (claim.shared !== null) return;
    claim.shared = id;
    this.#deps.shared.claim(call, id);
  }

  /** The legacy was seen to act on it. */
  #confirm(claim: LegacyClaim): void {
    if (claim.confirmed) return;
    const guessed = isGuess(claim);
    claim.confirmed = true;
    if (!guessed) return;
    this.#guesses -= 1;
    this.#began(claim);
  }

  #enter(claim: LegacyClaim, event: string, to: State): void {
    const from = claim.observed?.session?.state ?? claim.state;
    claim.state = to;
    if (from === to) return;
    claim.since = this.#deps.clock.now();
    this.#seen(claim, from, to, event, 'seen');
  }

  /** IDLE before anything was seen of it. */
  #seen(claim: LegacyClaim, from: LegacyClaim['state'], to: State | 'ENDED', event: string, why: string): void {
    const before = from === 'UNKNOWN' ? 'IDLE' : from;
    const { call, id } = claim;
    this.#deps.signals.observed({
      ...call,
      callId: id,
      users: partiesOf(claim),
      from: before,
      to,
      because: why,
      event,
    });
  }

  /** A forwarded offer is acknowledged. */
  #acknowledged(key: string, offered: Offered, args: readonly unknown[]): void {
    offered.due = false;
    this.#past.settled(key, offered);
    const claim = this.#claims.get(key);
    if (!claim?.offering.includes(offered)) return;
    claim.offering = claim.offering.filter((o) => o !== offered);
    const accepted = (args[0] as { readonly ok?: unknown } | undefined)?.ok === true;
    if (!accepted || claim.own === offered) return;
    // Another call is over, whether or not that was seen: this one has begun.
    this.#drop(claim, 'followed', 'call-offer');
    if (!this.#claims.has(key)) this.#follows(claim, offered);
  }

  /** An offer that was forwarded while another call was there may have opened one of its own. */
  #follows({ call, offering }: LegacyClaim, offered: Offered): void {
    const { peer, decision } = offered;
    const claim = this.#claim(call, decision, { event: 'call-offer', peer });
    claim.own = offered;
    claim.offering = offered.due ? [offered, ...offering.filter((o) => o !== offered)] : offering;
    claim.follows = true;
  }

  /** What rings may be another offer than that of the claim's call, which is over then. */
  #ringsNext(claim: LegacyClaim, args: readonly unknown[]): LegacyClaim | undefined {
    if (!claim.confirmed || claim.offering.length === 0) return claim;
    const description = digestOf((args[0] as Record<string, unknown>).offer);
    const next = claim.offering.find((o) => o !== claim.own && o.description === description);
    if (!next || claim.own?.description === description) return claim;
    this.#drop(claim, 'followed', 'call-offer');
    this.#follows(claim, next);
    return this.#claims.get(claim.key);
  }

  #index(claim: LegacyClaim, ref: SocketRef): void {
    const key = socketKey(ref);
    claim.sockets.add(key);
    const claims = this.#bySocket.get(key);
    if (claims) claims.add(claim);
    else this.#bySocket.set(key, new Set([claim]));
  }

  #end(claim: LegacyClaim, event: string, because: string): void {
    this.#drop(claim, because, event);
    this.#deps.ended.add(claim.key, 'legacy');
  }

  /** `event`: what was seen to end it; without one it is only forgotten here. */
  #drop(claim: LegacyClaim, because: string, event = 'sweep'): void {
    if (this.#claims.get(claim.key) !== claim) return;
    this.#claims.delete(claim.key);
    this.#begunBy.delete(claim);
    const state = claim.observed?.session?.state ?? claim.state;
    if (forgotten.has(because)) claim.observed?.leave(because);
    claim.observed?.close();
    for (const key of claim.sockets) {
      const claims = this.#bySocket.get(key);
      claims?.delete(claim);
      if (claims?.size === 0) this.#bySocket.delete(key);
    }
    if (claim.shared !== null) this.#deps.shared.release(claim.call, claim.shared);
    if (isGuess(claim)) this.#guesses -= 1;
    else this.#seen(claim, state, 'ENDED', event, because);
    if (claim.own) this.#past.dropped(claim.key, claim.own);
    const next = claim.offering.find((o) => o !== claim.own && o.due && this.#deps.delivery.isConnected(o.peer.ref));
    if (next && !lapses.has(because)) this.#follows(claim, next);
  }
}

const shown = (text: unknown): string | undefined => (typeof text === 'string' ? text.slice(0, maxShown) : undefined);
