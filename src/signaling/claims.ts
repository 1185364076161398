// Which path has claimed a conversation: offers that the new path is accepting at this moment, and calls that the legacy
// has, as far as they were seen to pass (docs/routes.md, rule 2). Knows no store, ticket or transport.
import type { SocketRef, UserId } from '../base/ids.js';
import { sameSocket } from '../base/ids.js';
import type { LegacyEvent, Peer } from '../base/service.js';
import type { Role } from '../call/session.js';

/** A call that the legacy has. Built only from what passed; the legacy itself is never asked. */
interface LegacyClaim {
  readonly key: string;
  readonly at: number;
  /** What was forwarded and made us believe that the legacy has this call; undefined where it told a browser so itself. */
  readonly begun: { readonly event: string; readonly peer: Peer } | undefined;
  /** True once the legacy was seen to act on it. */
  confirmed: boolean;
  answered: boolean;
  /** Null where it is not known, or not behind this proxy. */
  readonly seats: Record<Role, Peer | null>;
  readonly lost: Set<Role>;
  /** Users and sockets that the legacy itself treated as parties. */
  callee: UserId | undefined;
  /** Who sent the last forwarded answers and rejoin offers: a seat, if the legacy relays it. At most `maxAsking` each. */
  answering: Peer[];
  rejoining: Peer[];
  /** Connected sockets that have to do with it, by `socketKey`; with the last of them the claim goes. */
  readonly sockets: Set<string>;
}

/** Refusals of a `call-offer` that say that a call is there: the claim stays. */
const stillThere = new Set(['Call already in progress', 'Call is recovering, rejoin instead']);
/** Of any other event: the only refusals that do not say so. */
const noneThere = /^(No such call|Malformed )/;
/** Events that only the owner of a live call is sent; of a candidate that can't be said, it may run ahead of its offer. */
const ofLiveCalls = new Set([
  'call-answer',
  'call-rejoin-offer',
  'call-rejoin-answer',
  'call-renegotiate-offer',
  'call-renegotiate-answer',
]);

export const maxAge = 6 * 3_600_000;
/** A claim is a few hundred bytes; the bound keeps a flood of offers for made-up conversations below 100 MB. */
export const maxClaims = 100_000;
/** Devices that answer or rejoin at once; the oldest is forgotten, which at worst keeps a claim until its call ends. */
const maxAsking = 8;

export class Claims {
  readonly #legacy = new Map<string, LegacyClaim>();
  readonly #bySocket = new Map<string, Set<LegacyClaim>>();
  /** Offers being accepted by the new path, in the order in which they came. */
  readonly #accepting = new Map<string, Set<Accepting>>();
  readonly #onBound: () => void;
  readonly #onEnd: (key: string) => void;

  /** `onEnd`: a call of the legacy's was seen to end. */
  constructor(onBound: () => void = () => undefined, onEnd: (key: string) => void = () => undefined) {
    this.#onBound = onBound;
    this.#onEnd = onEnd;
  }

  /** `opening`: asked for a `call-offer`, for which a guess does not count: anybody can send a stray answer. */
  legacyHas(key: string, now: number, opening: boolean): boolean {
    const claim = this.#legacy.get(key);
    if (claim && now - claim.at > maxAge) this.#drop(claim);
    return claim !== undefined && now - claim.at <= maxAge && !(opening && isGuess(claim));
  }

  newIsAccepting(key: string): boolean {
    return this.#accepting.has(key);
  }

  get legacyCount(): number {
    return this.#legacy.size;
  }

  /** An offer is being accepted by the new path, until `done`. */
  accept(key: string): Accepting {
    const guess = this.#legacy.get(key);
    if (guess && isGuess(guess)) this.#drop(guess);
    const all = this.#accepting.get(key) ?? new Set<Accepting>();
    this.#accepting.set(key, all);
    const earlier = [...all];
    let settle!: () => void;
    const settled = new Promise<void>((resolve) => (settle = resolve));
    const mine: Accepting = {
      settled,
      earlierSettled: () => Promise.all(earlier.map((a) => a.settled)).then(() => undefined),
      done: () => {
        if (!all.delete(mine)) return;
        if (all.size === 0) this.#accepting.delete(key);
        settle();
      },
    };
    all.add(mine);
    return mine;
  }

  /** A call event goes on to the legacy. */
  forwarded(key: string, event: string, peer: Peer, now: number): void {
    let claim = this.#legacy.get(key);
    if (event === 'call-offer') {
      // A guess that the legacy may still refute says nothing of the call that begins here.
      if (claim && isGuess(claim)) {
        this.#drop(claim);
        claim = undefined;
      }
      claim ??= this.#claim(key, now, { event, peer }, peer);
      return;
    }
    // A call that began before this proxy, or whose other party is not behind it.
    if (ofLiveCalls.has(event)) claim ??= this.#claim(key, now, { event, peer });
    if (!claim) return;
    if (event === 'call-answer') {
      this.#asks(claim, claim.answering, peer);
    } else if (event === 'call-rejoin-offer') {
      this.#asks(claim, claim.rejoining, peer);
    } else if (event === 'call-end' && this.#isParty(claim, peer)) this.#end(claim);
  }

  /** An event about this conversation passes from the legacy to a browser. */
  passed(key: string, { peer, name, args }: LegacyEvent, now: number): void {
    let claim = this.#legacy.get(key);
    if (name === 'call-offer' || name === 'call-rejoin-offer') claim ??= this.#claim(key, now);
    if (!claim) return;
    const payload = args[0] as Record<string, unknown>;
    switch (name) {
      case 'call-offer':
        claim.confirmed = true;
        claim.callee ??= peer.user;
        this.#index(claim, peer.ref);
        break;
      case 'call-answer':
        claim.confirmed = true;
        if (!claim.answered) {
          claim.answered = true;
          claim.seats.answerer = sentBy(claim.answering, payload.fromUserId);
        }
        break;
      case 'call-rejoin-offer':
        claim.confirmed = true;
        claim.callee ??= peer.user;
        this.#index(claim, peer.ref);
        this.#rejoined(claim, payload.fromUserId);
        break;
      case 'call-rejoin-answer':
        claim.confirmed = true;
        break;
      case 'call-ended':
        if (payload.reason !== 'answered-elsewhere') this.#end(claim);
        break;
      case 'error':
        if (this.#isRefused(claim, peer, payload)) this.#drop(claim);
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
        this.#drop(claim);
        continue;
      }
      if (claim.begun && !claim.confirmed && sameSocket(claim.begun.peer.ref, ref)) {
        this.#drop(claim);
        continue;
      }
      if (!claim.answered) {
        if (claim.seats.offerer && sameSocket(claim.seats.offerer.ref, ref)) this.#drop(claim);
        continue;
      }
      for (const role of ['offerer', 'answerer'] as const) {
        const seat = claim.seats[role];
        if (seat && sameSocket(seat.ref, ref)) claim.lost.add(role);
      }
      if (claim.lost.size === 2) this.#drop(claim);
    }
    this.#bySocket.delete(socketKey(ref));
  }

  #claim(key: string, now: number, begun?: LegacyClaim['begun'], offerer: Peer | null = null): LegacyClaim {
    if (this.#legacy.size >= maxClaims) {
      this.#onBound();
      const oldest = this.#legacy.values().next().value;
      if (oldest) this.#drop(oldest);
    }
    const claim: LegacyClaim = {
      key,
      at: now,
      begun,
      confirmed: begun === undefined,
      answered: false,
      seats: { offerer, answerer: null },
      lost: new Set(),
      callee: undefined,
      answering: [],
      rejoining: [],
      sockets: new Set(),
    };
    this.#legacy.set(key, claim);
    if (begun) this.#index(claim, begun.peer.ref);
    return claim;
  }

  /** The legacy refuses what made us believe that it has this call. */
  #isRefused({ begun, confirmed }: LegacyClaim, peer: Peer, { event, message }: Record<string, unknown>): boolean {
    if (!begun || confirmed || begun.event !== event || !sameSocket(begun.peer.ref, peer.ref)) return false;
    // A malformed offer claims nothing, so that refusal is about a later one of the same socket.
    if (event === 'call-offer') return !stillThere.has(String(message)) && !/^Malformed /.test(String(message));
    return noneThere.test(String(message));
  }

  /** The legacy relays the last forwarded rejoin offer: that user's seat moved to the socket it came from. */
  #rejoined(claim: LegacyClaim, user: unknown): void {
    const peer = sentBy(claim.rejoining, user);
    if (!peer) return;
    const role = peer.user !== undefined && peer.user === claim.seats.offerer?.user ? 'offerer' : 'answerer';
    claim.seats[role] = peer;
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

  #end(claim: LegacyClaim): void {
    this.#drop(claim);
    this.#onEnd(claim.key);
  }

  #drop(claim: LegacyClaim): void {
    if (this.#legacy.get(claim.key) === claim) this.#legacy.delete(claim.key);
    for (const key of claim.sockets) {
      const claims = this.#bySocket.get(key);
      claims?.delete(claim);
      if (claims?.size === 0) this.#bySocket.delete(key);
    }
  }
}

/** An offer that the new path is accepting. */
export interface Accepting {
  readonly settled: Promise<void>;
  /** Resolves when every offer for this conversation that came before this one is settled. */
  earlierSettled(): Promise<void>;
  done(): void;
}

/** The last of them that this user sent; users are unknown where their tokens could not be verified. */
function sentBy(peers: readonly Peer[], user: unknown): Peer | null {
  return peers.findLast((p) => p.user === user) ?? peers.findLast((p) => p.user === undefined) ?? null;
}

/** A claim from an event of a live call that nobody is known to own, which the legacy has not confirmed. */
const isGuess = ({ begun, confirmed }: LegacyClaim): boolean =>
  begun !== undefined && !confirmed && begun.event !== 'call-offer';

const socketKey = (ref: SocketRef): string => `${ref.connection} ${ref.ns}`;
