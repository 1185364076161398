// How events are answered: each exactly once, the very same request again like the first one (accepted difference 2), and in time,
// whatever becomes of it then. Knows no routes and no sessions.
import type { Timer } from '../base/clock.js';
import type { InboundEvent } from '../base/service.js';
import { Unavailable } from '../base/unavailable.js';
import { refusals } from '../call/refusals.js';
import type { CallKey, Refusal, Step } from '../call/session.js';
import type { Shared } from './asking.js';
import { type Asker, type CallsDeps, keyOf } from './calls.js';
import { refuse, whoseOf } from './deliver.js';
import type { Ownership } from './ownership.js';
import { Retries } from './retries.js';
import { type Tracked, track, untracked } from './tracked.js';

/** Where what instances share does not answer, a browser is told so within 2 s of what it asked, whatever that waited for. */
export const answerWithinMs = 1_800;
/** A ticket takes 2 s at most, and is not one of those. */
const waitAtMostMs = 2_000;

/** Told of what is waited for that instances do not share: its time does not count. */
export interface Waiting {
  begins(): void;
  /** `ms`: how long it was. */
  ended(ms: number): void;
}

export class Answers {
  readonly retries = new Retries();
  readonly #deps: Pick<CallsDeps, 'delivery' | 'signals' | 'clock'>;
  readonly #ownership: Pick<Ownership, 'lastCall'>;

  constructor(deps: Pick<CallsDeps, 'delivery' | 'signals' | 'clock'>, ownership: Pick<Ownership, 'lastCall'>) {
    this.#deps = deps;
    this.#ownership = ownership;
  }

  /**
   * Null where the event repeats an earlier one, which answers it. `peeled`: the legacy's call that it is about; `shared`: what the
   * other instances have of its conversation, where they were asked.
   */
  track(
    event: InboundEvent,
    key: CallKey,
    arrived: number,
    peeled: string | undefined,
    shared: Shared | undefined,
  ): Tracked | null {
    if (!event.ackRequested || !this.#deps.delivery.isConnected(event.peer.ref)) return untracked(event);
    // The call that it is about: the live one, or, but for an offer, the one that just ended here.
    const { live, ended, sure } = this.#ownership.lastCall(key, event.peer.user, shared);
    // Nothing in an end tells which call it ends: it may be a newer one, which is not known here.
    const unknown = event.name === 'call-end' && !sure;
    const call = peeled ?? (unknown ? null : (live ?? (event.name === 'call-offer' ? null : ended)));
    const what = `${keyOf(key)}\n${event.name}\n${event.digest()}`;
    const first = this.retries.see(event.peer.ref, what, call, arrived, (answer) => event.ack(answer));
    return first && track(event, first);
  }

  settle({ first, answer }: Tracked, step: Step, key: CallKey): void {
    if (!first) return;
    if (step.effects.some((e) => e.kind === 'refuse')) first.refused(answer);
    else first.served(answer, step.session?.callId ?? this.#ownership.lastCall(key, undefined).ended);
  }

  /** Answered once, and nothing else stops. A fault of ours is told to the operator; that Redis is away is told already. */
  failed(tracked: Tracked, error: unknown): void {
    if (error instanceof Unavailable) {
      this.refuse(tracked, refusals.unavailable);
      return;
    }
    const { name, peer } = tracked.event;
    const whose = whoseOf(tracked.event);
    this.#deps.signals.internalError(`serving ${name}`, error, { event: name, ns: peer.ref.ns, whose });
    this.refuse(tracked, refusals.internal);
  }

  refuse(tracked: Tracked, refusal: Refusal): void {
    refuse(tracked.event, refusal, this.#deps.delivery, this.#deps.signals);
    tracked.first?.refused(tracked.answer);
  }

  /**
   * A request is answered within `ms`, whatever becomes of it then: what is made after that is told to everybody else. Where its time
   * was over before its turn came, nothing is begun.
   */
  async inTime(tracked: Tracked, asker: Asker, work: (waiting: Waiting) => Promise<void>, ms: number): Promise<void> {
    // Alone there is nothing that could be slow.
    const shared = tracked.event.peer.ref.at !== undefined;
    if (shared && ms <= 0) {
      this.refuse(tracked, refusals.unavailable);
      return;
    }
    let timer: Timer | undefined;
    let late: (() => void) | undefined;
    const arm = (within: number): void => {
      timer?.cancel();
      timer = this.#deps.clock.after(within, () => {
        asker.over = true;
        this.refuse(tracked, refusals.unavailable);
        late?.();
      });
    };
    if (shared) arm(ms);
    const again = (within: number): void => {
      if (shared && !asker.over) arm(within);
    };
    const working = work({
      begins: () => again(waitAtMostMs + answerWithinMs),
      ended: () => again(answerWithinMs),
    })
      .catch((error) => {
        if (!asker.over) this.failed(tracked, error);
        else if (!(error instanceof Unavailable)) this.#deps.signals.internalError('serving late', error);
      })
      .finally(() => timer?.cancel());
    await (shared ? Promise.race([working, new Promise<void>((resolve) => (late = resolve))]) : working);
  }
}
