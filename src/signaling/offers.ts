// Accepting a `call-offer` on the new path: who takes part (ticket), whether the callee can be served here, and the two
// ways back to the legacy that only show once that is known. Knows no packets. Rules: docs/routes.md, rule 3.
import type { Namespace, SocketRef, UserId } from '../base/ids.js';
import type { Acknowledged, Because, InboundEvent } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import { refusals } from '../call/refusals.js';
import type { CallEvent, CallKey, Refusal, Session, Step } from '../call/session.js';
import type { Memberships } from '../identity/identity.js';
import type { Accepting } from './accepting.js';
import type { Waiting } from './answers.js';
import type { Shared } from './asking.js';
import { type Asker, type Calls, type CallsDeps, keyOf } from './calls.js';
import type { Command } from './commands.js';
import { whoseOf } from './deliver.js';
import type { EarlyCandidates } from './early.js';
import type { OfferRoute, Ownership } from './ownership.js';

export type OfferOutcome =
  | { readonly kind: 'stepped'; readonly step: Step }
  | { readonly kind: 'refused'; readonly refusal: Refusal }
  /** Claimed for the legacy; the caller forwards the offer, then the candidates that ran ahead of it: `early` and those held. */
  | {
      readonly kind: 'legacy';
      readonly because: Because;
      readonly acknowledged: Acknowledged | undefined;
      readonly early: readonly HeldCandidate[];
    }
  /** The offerer's socket went away while the ticket was fetched, or it was answered meanwhile. */
  | { readonly kind: 'gone' };

export interface Offer {
  readonly key: CallKey;
  readonly event: InboundEvent;
  readonly asker: Asker;
  /** What the other instances have of its conversation, where that was asked. */
  readonly shared: Shared | undefined;
  readonly user: UserId;
  readonly command: Command;
  readonly accepting: Accepting;
  /** What the table said when it came. */
  readonly route: OfferRoute;
  /** It is here only since the new path had its conversation, or was accepting an offer for it. */
  readonly rides: boolean;
  /** Told of tickets, and of offers before it: serving is timed without them. */
  readonly waiting: Waiting;
}

type HeldCandidate = ReturnType<EarlyCandidates['take']>[number];

/** Until a connection that was there when it was asked for is seen by all instances. */
const askAgainMs = 50;

/** One try to accept an offer. */
interface Attempt extends Offer {
  /** From when on a session of it may have been saved. */
  saving: boolean;
  /** Candidates that ran ahead of it, taken for its session. */
  early: readonly HeldCandidate[];
  /** Who takes part, once that is known. */
  participants: readonly UserId[];
  /** The session that another instance was found to have. */
  found: Session | null;
}

export class Offers {
  readonly #deps: CallsDeps;
  readonly #calls: Calls;
  readonly #ownership: Ownership;
  readonly #early: EarlyCandidates;
  readonly #memberships: Memberships;
  readonly #newId: () => string;

  constructor(
    deps: CallsDeps,
    calls: Calls,
    ownership: Ownership,
    early: EarlyCandidates,
    memberships: Memberships,
    newId: () => string,
  ) {
    this.#deps = deps;
    this.#calls = calls;
    this.#ownership = ownership;
    this.#early = early;
    this.#memberships = memberships;
    this.#newId = newId;
  }

  async accept(offer: Offer): Promise<OfferOutcome> {
    const { key, user, shared } = offer;
    const participants = this.#memberships.cached(user, key.conversationId)?.participants ?? [user];
    const attempt: Attempt = { ...offer, saving: false, early: [], participants, found: shared?.session ?? null };
    try {
      return await this.#accept(attempt);
    } catch (error) {
      if (!offer.route.fallback || !(await this.#mayFallBack(attempt, error))) throw error;
      const { ns } = offer.key;
      const whose = whoseOf(offer.event);
      if (!(error instanceof Unavailable)) {
        this.#deps.signals.internalError('serving call-offer', error, { event: 'call-offer', ns, whose });
      }
      return this.#giveToLegacy(attempt, 'fallback');
    }
  }

  async #accept(offer: Attempt): Promise<OfferOutcome> {
    const { key, user, route } = offer;
    if (this.#session(offer)) return this.#step(offer, undefined);

    // Whatever it rode on is over: the table decides of a call that begins with this one.
    if (offer.rides && route.wanted.path === 'legacy') return this.#toLegacy(offer, route.wanted.because);

    const found = await this.#waitFor(offer, () => this.#participants(offer));

    // The world has moved: another offer may have won, here or at the legacy, and the browser may be gone.
    if (this.#isGone(offer)) return { kind: 'gone' };
    if (this.#session(offer)) return this.#step(offer, undefined);
    if (this.#ownership.claims.has(keyOf(key), true)) return this.#toLegacy(offer, 'claimed');

    if (found.kind === 'refused') {
      return found.refusal === refusals.unavailable && route.fallback
        ? this.#toLegacy(offer, 'fallback')
        : { kind: 'refused', refusal: found.refusal };
    }
    if (found.kind === 'token-expired') {
      return route.sole ? { kind: 'refused', refusal: refusals.tokenExpired } : this.#toLegacy(offer, 'token-expired');
    }
    offer.participants = found.participants;
    const callee = found.participants[0] === user ? found.participants[1] : found.participants[0];
    if (route.excludes(callee)) return this.#toLegacy(offer, 'excluded');
    if (route.sole) return this.#step(offer, found.participants);
    const known = this.#deps.cluster.presence.peek(key.ns, callee);
    const sockets = known ?? (await this.#socketsOf(key.ns, callee));
    if (!known && this.#isGone(offer)) return { kind: 'gone' };
    if (sockets.length === 0) return this.#toLegacy(offer, 'callee-not-here');
    return this.#step(offer, found.participants, new Map([[callee, sockets]]));
  }

  /** Who has just connected to another instance may not be known of in the moment. */
  async #socketsOf(ns: Namespace, callee: UserId): Promise<readonly SocketRef[]> {
    const { cluster, clock } = this.#deps;
    const sockets = await cluster.presence.socketsOf(ns, callee);
    if (sockets.length > 0) return sockets;
    await new Promise<void>((resolve) => clock.after(askAgainMs, resolve));
    return cluster.presence.socketsOf(ns, callee);
  }

  /**
   * The session as far as it is known here. Where it would have to be asked for there most likely is none: what is there all the
   * same shows when a new one is created. @throws Unavailable
   */
  #session(offer: Attempt): Session | null {
    const known = this.#deps.store.peek(offer.key);
    if (known !== undefined) return known;
    if (!this.#deps.cluster.liveness.mayAct()) throw new Unavailable('this instance has no lease now');
    return offer.found;
  }

  async #waitFor<T>({ waiting }: Offer, facts: () => Promise<T>): Promise<T> {
    const started = performance.now();
    waiting.begins();
    try {
      return await facts();
    } finally {
      waiting.ended(performance.now() - started);
    }
  }

  /** Nobody waits for its outcome any more. */
  #isGone({ event, asker }: Attempt): boolean {
    return asker.over || !this.#deps.delivery.isConnected(event.peer.ref);
  }

  async #step(
    offer: Attempt,
    participants: readonly [UserId, UserId] | undefined,
    sockets?: ReadonlyMap<UserId, readonly SocketRef[]>,
  ): Promise<OfferOutcome> {
    const { key, event, user, command, asker } = offer;
    const callId = this.#newId();
    const known = { session: participants ? null : offer.found, ...(sockets ? { sockets } : {}) };
    offer.saving = true;
    const step = await this.#calls.open(
      key,
      (session): CallEvent | null => {
        if (session === null && participants === undefined) return null;
        if (session === null) offer.early = [...offer.early, ...this.#early.take(keyOf(key), event.peer.ref)];
        return {
          type: 'call-offer',
          by: { user, socket: event.peer.ref },
          conversationId: key.conversationId,
          offer: command.body,
          ...(participants && session === null ? { participants } : {}),
          callId,
          early: offer.early.map((held) => held.iceCandidate),
        };
      },
      asker,
      known,
    );
    offer.found = null;
    if (step === 'claimed') return this.#toLegacy(offer, 'claimed');
    if (step === null && this.#isGone(offer)) return { kind: 'gone' };
    // The session ended between the look and the step: the offer is a first one after all.
    return step ? { kind: 'stepped', step } : this.#accept(offer);
  }

  async #participants({
    event,
    user,
    command,
  }: Offer): Promise<
    | { readonly kind: 'participants'; readonly participants: readonly [UserId, UserId] }
    | { readonly kind: 'refused'; readonly refusal: Refusal }
    | { readonly kind: 'token-expired' }
  > {
    const { signals } = this.#deps;
    const started = performance.now();
    const own =
      command.ticket === undefined ? undefined : this.#memberships.own(command.ticket, user, command.conversationId);
    if (own) {
      signals.ticket('own', performance.now() - started);
      return { kind: 'participants', participants: own.participants };
    }
    const cached = this.#memberships.cached(user, command.conversationId);
    if (cached) {
      signals.ticket('cached', performance.now() - started);
      return { kind: 'participants', participants: cached.participants };
    }
    const answer = await this.#memberships.ask(event.peer.token, user, command.conversationId);
    signals.ticket(answer.kind, performance.now() - started, answer.kind === 'unavailable' ? answer.why : undefined);
    switch (answer.kind) {
      case 'granted':
        return { kind: 'participants', participants: answer.membership.participants };
      case 'not-participant':
        return { kind: 'refused', refusal: refusals.notParticipant };
      case 'token-expired':
        return { kind: 'token-expired' };
      case 'unavailable':
        return { kind: 'refused', refusal: refusals.unavailable };
    }
  }

  /** In the order in which the offers came: the first one claims the call for the legacy, later ones follow it. */
  async #toLegacy(offer: Attempt, because: Because): Promise<OfferOutcome> {
    const { key, event } = offer;
    await this.#waitFor(offer, () => offer.accepting.earlierSettled());
    if (this.#isGone(offer)) return { kind: 'gone' };
    if (this.#session(offer)) return this.#step(offer, undefined);
    // Its own claim to be: `accepting` says that nobody else here may.
    const shared = this.#deps.store.peek(key) === null ? undefined : await this.#ownership.claimFirst(event, key);
    if (shared?.session) {
      offer.found = shared.session;
      return this.#step(offer, undefined);
    }
    if (shared && this.#isGone(offer)) {
      this.#ownership.unclaim(key, shared);
      return { kind: 'gone' };
    }
    return this.#claimForLegacy(offer, because, shared?.claim);
  }

  #claimForLegacy(offer: Attempt, because: Because, claimed?: string): OfferOutcome {
    const acknowledged = this.#ownership.claim(offer.event, offer.key, { path: 'legacy', because }, claimed);
    return { kind: 'legacy', because, acknowledged, early: offer.early };
  }

  /** The same where the new path is unwell: it is not asked any more. */
  async #giveToLegacy(offer: Attempt, because: Because): Promise<OfferOutcome> {
    await this.#waitFor(offer, () => offer.accepting.earlierSettled());
    if (this.#isGone(offer)) return { kind: 'gone' };
    return this.#claimForLegacy(offer, because);
  }

  /**
   * Whether serving an offer broke before it left a session behind; where that can't be told, it may have. And neither participant
   * has a call here, which the legacy knows nothing of.
   */
  async #mayFallBack({ key, saving, participants }: Attempt, error: unknown): Promise<boolean> {
    const { store, signals } = this.#deps;
    if (error instanceof Unavailable) {
      return !error.late && participants.every((user) => store.knownOf(key.ns, user).length === 0);
    }
    if (!saving) return true;
    try {
      return (await store.get(key)) === null;
    } catch (broken) {
      if (!(broken instanceof Unavailable)) signals.internalError('looking for a session', broken);
      return false;
    }
  }
}
