// Serves a `call-offer` on its turn: what becomes of it (offers.ts) is told to its sender, to the legacy where it goes there after
// all, and to whatever was held for it. Knows no tickets and no sessions.
import type { SocketRef } from '../base/ids.js';
import type { Decision, InboundEvent } from '../base/service.js';
import type { CallKey, Sender } from '../call/session.js';
import type { Signals } from '../telemetry/signals.js';
import type { Accepting } from './accepting.js';
import type { Answers, Waiting } from './answers.js';
import type { Shared } from './asking.js';
import { type Asker, keyOf } from './calls.js';
import type { Command } from './commands.js';
import { whoseOf } from './deliver.js';
import type { EarlyCandidates } from './early.js';
import type { Offers } from './offers.js';
import type { Ownership } from './ownership.js';
import type { Tracked } from './tracked.js';

export interface AskedOffer {
  readonly event: InboundEvent;
  readonly tracked: Tracked;
  readonly key: CallKey;
  readonly by: Sender;
  readonly command: Command;
  readonly accepting: Accepting;
  readonly decision: Decision;
  readonly shared: Shared | undefined;
  /** Milliseconds until it must be answered, but for what it waits for that instances do not share: that is told to `waited`. */
  readonly left: number;
  waited(): void;
}

export class Offering {
  readonly #signals: Signals;
  readonly #offers: Offers;
  readonly #ownership: Ownership;
  readonly #early: EarlyCandidates;
  readonly #answers: Answers;

  constructor(signals: Signals, offers: Offers, ownership: Ownership, early: EarlyCandidates, answers: Answers) {
    this.#signals = signals;
    this.#offers = offers;
    this.#ownership = ownership;
    this.#early = early;
    this.#answers = answers;
  }

  serve(asked: AskedOffer): Promise<void> {
    const { tracked, event, decision, left } = asked;
    const asker: Asker = { event: tracked.event, over: false };
    if (left <= 0) this.#signals.decided(event.name, decision, event.peer.ref.ns);
    return this.#answers.inTime(tracked, asker, (waiting) => this.#accept(asked, asker, waiting), left);
  }

  async #accept(asked: AskedOffer, asker: Asker, waiting: Waiting): Promise<void> {
    const { event, tracked, key, by, command, accepting, decision, shared } = asked;
    const signals = this.#signals;
    const started = performance.now();
    let waited = 0;
    const route = this.#ownership.offerRoute(key, by.user);
    const rides = decision.because === 'owned' || decision.because === 'claimed';
    const told: Waiting = {
      begins: () => waiting.begins(),
      ended: (ms) => {
        waited += ms;
        waiting.ended(ms);
        asked.waited();
      },
    };
    const outcome = await this.#offers
      .accept({
        key,
        event: tracked.event,
        asker,
        user: by.user,
        command,
        accepting,
        route,
        rides,
        shared,
        waiting: told,
      })
      .catch((error) => {
        signals.decided(event.name, decision, event.peer.ref.ns);
        throw error;
      });
    if (asker.over) {
      tracked.first?.givenAway();
      return;
    }
    switch (outcome.kind) {
      case 'stepped':
        signals.decided(event.name, decision, event.peer.ref.ns);
        if (outcome.step.session?.version === 1 && outcome.step.because === 'offered') {
          signals.began({ ...key, callId: outcome.step.session.callId, decision });
        } else this.#dropEarly(key, by.socket);
        this.#answers.settle(tracked, outcome.step, key);
        signals.served(event.name, performance.now() - started - waited, event.peer.ref.ns, whoseOf(event));
        return;
      case 'refused':
        signals.decided(event.name, decision, event.peer.ref.ns);
        this.#dropEarly(key, by.socket);
        this.#answers.refuse(tracked, outcome.refusal);
        return;
      case 'legacy': {
        signals.decided(event.name, { path: 'legacy', because: outcome.because }, event.peer.ref.ns, whoseOf(event));
        tracked.first?.givenAway();
        event.forward(outcome.acknowledged);
        for (const candidate of outcome.early) candidate.event.forward();
        this.forwardEarly(key, by.socket);
        return;
      }
      case 'gone':
        tracked.first?.givenAway();
        return;
    }
  }

  /** What was held for an offer that went to the legacy follows it. */
  forwardEarly(key: CallKey, ref: SocketRef): void {
    for (const { event } of this.#early.take(keyOf(key), ref)) event.forward();
  }

  /** What was held for an offer that is refused is about no call. */
  #dropEarly(key: CallKey, ref: SocketRef): void {
    for (const _ of this.#early.take(keyOf(key), ref)) this.#signals.candidateDropped('no-call');
  }
}
