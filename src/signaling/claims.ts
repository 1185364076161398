// Calls that the legacy has, as far as they were seen to pass (docs/routes.md, rule 2): who claimed a conversation for it,
// in which state that call is, and when it is over. Knows no store, ticket or transport.
import type { SocketRef, UserId } from '../base/ids.js';
import { sameSocket } from '../base/ids.js';
import type { Acknowledged, Decision, InboundEvent, LegacyEvent, Peer } from '../base/service.js';
import type { CallKey, Role, State } from '../call/session.js';
import { type Group, groupOf } from '../routing/route.js';
import { digestOf } from './asked.js';
import { keyOf } from './calls.js';
import { EndedCalls } from './ended.js';
import type { LiveCall } from './live.js';
import type { LegacyCalls } from './live-calls.js';
import { ObservedBudget, ObservedCall, type ObservedDeps } from './observed.js';

/** A `call-offer` on its way to the legacy. */
interface Offered {
  readonly peer: Peer;
  readonly decision: Decision;
  /** Digest of its description. */
  readonly description: string;
  /** Its acknowledgement has not passed yet; false where none was asked for. */
  due: boolean;
}

/** A call that the legacy has. Built only from what passed; the legacy itself is never asked. */
interface LegacyClaim {
  readonly key: string;
  readonly call: CallKey;
  /** Names this one call for operators. */
  readonly id: string;
  readonly decision: Decision;
  readonly at: number;
  /** As far as it was seen, and since when. */
  state: State | 'UNKNOWN';
  since: number;
  /** What was forwarded and made us believe that the legacy has this call; undefined where it told a browser so itself. */
  begun: { readonly event: string; readonly peer: Peer } | undefined;
  /** The forwarded offer that opened it, or is to; null where there was none. */
  own: Offered | null;
  /** True once the legacy was seen to act on it. */
  confirmed: boolean;
  answered: boolean;
  /** Null where it is not known, or not behind this proxy. */
  readonly seats: Record<Role, Peer | null>;
  readonly lost: Set<Role>;
  /** Users and sockets that the legacy itself treated as parties. `caller`: in its own words, for operators only. */
  caller: string | undefined;
  callee: UserId | undefined;
  /** Set where its relays are served here, or wait until the legacy has accepted it. */
  observed: ObservedCall | null;
  /** Forwarded offers of which it is not known what became; at most `maxAsking`. */
  offering: Offered[];
  /** Who sent the last forwarded answers and rejoin offers: a seat, if the legacy relays it. At most `maxAsking` each. */
  answering: Peer[];
  rejoining: Peer[];
  /** Sockets that the legacy was seen to have in this very call, by `socketKey`. */
  readonly told: Set<string>;
  /** It was claimed when an earlier call ended: a refusal of its offer may have been about that one. */
  follows: boolean;
  /** Connected sockets that have to do with it, by `socketKey`; with the last of them the claim goes. */
  readonly sockets: Set<string>;
}

export interface ClaimsDeps extends Omit<ObservedDeps, 'budget'> {
  readonly newId: () => string;
  /** A call of the legacy's was seen to end. */
  readonly onEnd: (key: string) => void;
}

/** Refusals of a `call-offer` that say that a call is there: the claim stays. */
const stillThere = new Set(['Call already in progress', 'Call is recovering, rejoin instead']);
/** Of any other event: the only refusals that do not say so. */
const noneThere = /^(No such call|Malformed )/;
/** Reasons to forget a claim that say nothing of what the legacy has. */
const lapses = new Set(['refuted', 'refused', 'max-age', 'bound', 'followed']);
/** Events that only the owner of a live call is sent; of a candidate that can't be said, it may run ahead of its offer. */
const ofLiveCalls = new Set([
  'call-answer',
  'call-rejoin-offer',
  'call-rejoin-answer',
  'call-renegotiate-offer',
  'call-renegotiate-answer',
]);
/** What the legacy delivers, and the state that it is in then. */
const states: Readonly<Record<string, State>> = {
  'call-offer': 'OFFERING',
  'call-answer': 'CONNECTED',
  'call-peer-disconnected': 'AWAITING_REJOIN',
  'call-rejoin-offer': 'OFFERING',
  'call-rejoin-answer': 'CONNECTED',
};

export const maxAge = 6 * 3_600_000;
/** A claim is a few hundred bytes; the bound keeps a flood of offers for made-up conversations below 100 MB. */
export const maxClaims = 100_000;
/** Devices that answer or rejoin at once; the oldest is forgotten, which at worst keeps a claim until its call ends. */
const maxAsking = 8;
/** The legacy's words are shown to operators; a user's id is no longer than this. */
const maxShown = 256;

export class Claims implements LegacyCalls {
  readonly #claims = new Map<string, LegacyClaim>();
  readonly #bySocket = new Map<string, Set<LegacyClaim>>();
  /** Of `#claims`: made by something that anybody can send for a call that is none. */
  #guesses = 0;
  readonly #budget = new ObservedBudget();
  /** Descriptions of the offers of calls that were just dropped here, whose ringing may still be on its way. */
  readonly #former: EndedCalls;
  readonly #deps: ClaimsDeps;

  constructor(deps: ClaimsDeps) {
    this.#deps = deps;
    this.#former = new EndedCalls(deps.clock);
  }

  /** Forgets what is too old to matter. */
  sweep(): void {
    this.#former.sweep();
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

  /** Those that are more than guessed, oldest first; may be walked over several turns. */
  *calls(): Generator<Omit<LiveCall, 'path'>> {
    for (const claim of this.#claims.values()) {
      if (isGuess(claim)) continue;
      const { id, call, decision, seats, at, observed } = claim;
      yield {
        id,
        ...call,
        because: decision.because,
        state: observed?.session?.state ?? claim.state,
        offerer: seats.offerer?.user ?? claim.caller ?? null,
        answerer: seats.answerer?.user ?? claim.callee ?? null,
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
   * A call event goes on to the legacy; `decision` says why. `wanted`: of an offer, the groups of relays that would be
   * served here if it opens a call. Answers who wants to see its acknowledgement.
   */
  forwarded(
    call: CallKey,
    event: InboundEvent,
    decision: Decision,
    wanted: readonly Group[],
  ): Acknowledged | undefined {
    const key = keyOf(call);
    const { name, peer } = event;
    if (name === 'call-offer') {
      // A guess that the legacy may still refute says nothing of the call that begins here.
      this.forgetGuess(key);
      const claim = this.#claims.get(key) ?? this.#claim(call, decision, { event: name, peer }, wanted);
      const description = digestOf((event.args[0] as Record<string, unknown>).offer);
      const offered: Offered = { peer, decision, description, due: event.ackRequested };
      claim.offering.push(offered);
      if (claim.offering.length > maxAsking) claim.offering.shift();
      if (!claim.confirmed) {
        // The one before it was refused over a call that was not seen: who offers now may open the next.
        if (claim.own === null) {
          claim.own = offered;
          claim.begun = { event: name, peer };
          claim.seats.offerer = peer;
        }
        this.#index(claim, peer.ref);
      }
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
    if (name === 'call-answer') {
      this.#asks(claim, claim.answering, peer);
    } else if (name === 'call-rejoin-offer') {
      this.#asks(claim, claim.rejoining, peer);
    } else if (name === 'call-end' && this.#isParty(claim, peer)) this.#end(claim, name, 'hangup');
    return claim.observed?.forwarded(event, []);
  }

  /** An event about this conversation passes from the legacy to a browser. */
  passed(call: CallKey, event: LegacyEvent): void {
    const { peer, name, args } = event;
    const key = keyOf(call);
    let claim = this.#claims.get(key);
    if (name === 'call-offer') {
      if (this.#ringsLate(key, claim, args)) return;
      if (claim) claim = this.#ringsNext(claim, args);
    }
    if (name === 'call-offer' || name === 'call-rejoin-offer') {
      claim ??= this.#claim(call, { path: 'legacy', because: 'default' });
    }
    if (!claim || (name === 'call-answer' && answersEarlier(claim, peer))) return;
    const payload = args[0] as Record<string, unknown>;
    const state = states[name];
    if (state) {
      if (name === 'call-offer' && !claim.confirmed) this.#offeredBy(claim, payload);
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
        if (!claim.answered) {
          claim.answered = true;
          claim.seats.answerer = sentBy(claim.answering, payload.fromUserId);
          if (claim.seats.answerer) claim.told.add(socketKey(claim.seats.answerer.ref));
        }
        break;
      case 'call-rejoin-offer':
        claim.callee ??= peer.user;
        this.#index(claim, peer.ref);
        this.#rejoined(claim, payload.fromUserId);
        break;
      case 'call-ended':
        if (payload.reason !== 'answered-elsewhere' && !isOfEarlier(claim, peer)) {
          this.#end(claim, name, shown(payload.reason) ?? 'ended');
        }
        break;
      case 'error':
        this.#refused(claim, peer, payload);
        break;
    }
  }

  /**
   * A socket is gone: the offerer's before the answer, or the second of both seats, ends the legacy's call. A call of
   * which nobody is left here is forgotten; whoever comes back to it says so.
   */
  disconnected(ref: SocketRef): void {
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

  #claim(call: CallKey, decision: Decision, begun?: LegacyClaim['begun'], wanted: readonly Group[] = []): LegacyClaim {
    const { clock, signals, newId } = this.#deps;
    if (this.#claims.size >= maxClaims) {
      signals.bound('claims', {});
      const oldest = this.#claims.values().next().value;
      if (oldest) this.#drop(oldest, 'bound');
    }
    const now = clock.now();
    const id = newId();
    const opens = begun?.event === 'call-offer';
    const claim: LegacyClaim = {
      key: keyOf(call),
      call: { ns: call.ns, conversationId: call.conversationId },
      id,
      decision,
      at: now,
      state: 'UNKNOWN',
      since: now,
      begun,
      own: null,
      confirmed: begun === undefined,
      answered: false,
      seats: { offerer: opens ? begun.peer : null, answerer: null },
      lost: new Set(),
      caller: undefined,
      callee: undefined,
      observed: ObservedCall.of({ ...this.#deps, budget: this.#budget }, call, id, wanted),
      offering: [],
      answering: [],
      rejoining: [],
      follows: false,
      told: new Set(),
      sockets: new Set(),
    };
    this.#claims.set(claim.key, claim);
    if (begun) this.#index(claim, begun.peer.ref);
    if (isGuess(claim)) this.#guesses += 1;
    else this.#began(claim);
    if (opens) this.#enter(claim, begun.event, 'OFFERING');
    return claim;
  }

  #began({ call, id, decision }: LegacyClaim): void {
    this.#deps.signals.began({ ...call, callId: id, decision });
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
  #seen({ call, id }: LegacyClaim, from: LegacyClaim['state'], to: State | 'ENDED', event: string, why: string): void {
    const before = from === 'UNKNOWN' ? 'IDLE' : from;
    this.#deps.signals.observed({ ...call, callId: id, from: before, to, because: why, event });
  }

  /** The legacy delivers an offer, which need not be the one that was forwarded first. */
  #offeredBy(claim: LegacyClaim, { fromUserId: user, offer }: Record<string, unknown>): void {
    const { seats, own, offering } = claim;
    if (typeof user !== 'string') return;
    const description = digestOf(offer);
    const all = own ? [own, ...offering] : offering;
    const accepted =
      sentBy(
        all.filter((o) => o.description === description),
        user,
      ) ?? sentBy(offering, user);
    seats.offerer = accepted?.peer ?? (seats.offerer?.user === user ? seats.offerer : null);
    claim.own = accepted;
    claim.offering = offering.filter((o) => o !== accepted);
  }

  /** A forwarded offer is acknowledged. */
  #acknowledged(key: string, offered: Offered, args: readonly unknown[]): void {
    offered.due = false;
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

  /** The ringing of a call that was dropped here meanwhile. */
  #ringsLate(key: string, claim: LegacyClaim | undefined, args: readonly unknown[]): boolean {
    const former = this.#former.last(key);
    if (former === null || former !== digestOf((args[0] as Record<string, unknown>).offer)) return false;
    return claim?.own?.description !== former && !claim?.offering.some(({ description }) => description === former);
  }

  #refused(claim: LegacyClaim, peer: Peer, payload: Record<string, unknown>): void {
    const { begun, confirmed } = claim;
    const message = String(payload.message);
    if (payload.event !== 'call-offer') {
      if (!begun || confirmed || begun.event !== payload.event || !sameSocket(begun.peer.ref, peer.ref)) return;
      if (noneThere.test(message)) this.#drop(claim, 'refused', begun.event);
      return;
    }
    // A malformed offer claims nothing, so that refusal is about another one.
    const refused = message.startsWith('Malformed ')
      ? undefined
      : claim.offering.find((o) => sameSocket(o.peer.ref, peer.ref));
    if (!refused) return;
    claim.offering = claim.offering.filter((o) => o !== refused);
    if (refused !== claim.own || confirmed) return;
    claim.own = null;
    // There is another call, which was not seen to begin.
    if (stillThere.has(message) && !claim.follows) return;
    const [next] = claim.offering;
    if (next === undefined) {
      this.#drop(claim, 'refused', 'call-offer');
      return;
    }
    // Another offer is on its way, about which the legacy has not decided.
    claim.begun = { event: 'call-offer', peer: next.peer };
    claim.own = next;
    claim.seats.offerer = next.peer;
  }

  /** The legacy relays the last forwarded rejoin offer: that user's seat moved to the socket it came from. */
  #rejoined(claim: LegacyClaim, user: unknown): void {
    const peer = sentBy(claim.rejoining, user);
    if (!peer) return;
    const role = peer.user !== undefined && peer.user === claim.seats.offerer?.user ? 'offerer' : 'answerer';
    claim.seats[role] = peer;
    claim.told.add(socketKey(peer.ref));
    claim.lost.delete(role);
  }

  #isParty(claim: LegacyClaim, peer: Peer): boolean {
    const { offerer, answerer } = claim.seats;
    const begun = claim.begun?.peer ?? null;
    for (const seat of [offerer, answerer, begun]) if (seat && sameSocket(seat.ref, peer.ref)) return true;
    if (peer.user === undefined) return false;
    return [offerer, answerer, begun].some((seat) => seat?.user === peer.user) || peer.user === claim.callee;
  }

  #asks(claim: LegacyClaim, asking: Peer[], peer: Peer): void {
    asking.push(peer);
    if (asking.length > maxAsking) asking.shift();
    this.#index(claim, peer.ref);
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
    this.#deps.onEnd(claim.key);
  }

  /** `event`: what was seen to end it; without one it is only forgotten here. */
  #drop(claim: LegacyClaim, because: string, event = 'sweep'): void {
    if (this.#claims.get(claim.key) !== claim) return;
    this.#claims.delete(claim.key);
    const state = claim.observed?.session?.state ?? claim.state;
    claim.observed?.close();
    for (const key of claim.sockets) {
      const claims = this.#bySocket.get(key);
      claims?.delete(claim);
      if (claims?.size === 0) this.#bySocket.delete(key);
    }
    if (isGuess(claim)) this.#guesses -= 1;
    else this.#seen(claim, state, 'ENDED', event, because);
    if (claim.own) this.#former.add(claim.key, claim.own.description);
    const next = claim.offering.find((o) => o !== claim.own && o.due && this.#deps.delivery.isConnected(o.peer.ref));
    if (next && !lapses.has(because)) this.#follows(claim, next);
  }
}

/** The last of them that this user sent; users are unknown where their tokens could not be verified. */
function sentBy<T extends Peer | Offered>(all: readonly T[], user: unknown): T | null {
  const userOf = (one: Peer | Offered): UserId | undefined => ('peer' in one ? one.peer.user : one.user);
  return all.findLast((one) => userOf(one) === user) ?? all.findLast((one) => userOf(one) === undefined) ?? null;
}

/**
 * Whether a `call-ended` for this socket is about an earlier call of the conversation: before the offer that was forwarded
 * from it is acknowledged, or where this call was never heard of; its offerer, who is here, is told of its own end.
 */
function isOfEarlier({ own, sockets, told }: LegacyClaim, { ref }: Peer): boolean {
  if (!own) return false;
  if (sameSocket(own.peer.ref, ref)) return own.due;
  return !told.has(socketKey(ref)) && sockets.has(socketKey(own.peer.ref));
}

/** An answer goes to whoever offered; to anybody else it is of a call that is over. */
const answersEarlier = ({ own, offering }: LegacyClaim, { ref }: Peer): boolean =>
  own !== null && ![own, ...offering].some(({ peer }) => sameSocket(peer.ref, ref));

/** A claim from an event of a live call that nobody is known to own, which the legacy has not confirmed. */
const isGuess = ({ begun, confirmed }: LegacyClaim): boolean =>
  begun !== undefined && !confirmed && begun.event !== 'call-offer';

const shown = (text: unknown): string | undefined => (typeof text === 'string' ? text.slice(0, maxShown) : undefined);

const socketKey = (ref: SocketRef): string => `${ref.connection} ${ref.ns}`;
