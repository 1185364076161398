// Whose event the legacy has just acted on, where several sockets may have sent it: what passes next can make that clear, and where it does
// not in time, somebody else decides. Knows no session, only what was forwarded.
import type { Clock, Timer } from '../base/clock.js';
import { mostAckWaitMs, type Peer } from '../base/service.js';
import type { Asked, AskedEvents, AskedName } from './asked.js';

/** The legacy was seen to deliver what somebody's event makes it deliver. */
export interface Acted {
  readonly event: Exclude<AskedName, 'call-offer'>;
  readonly told: Peer;
  /** In whose name, and the description, by its own word. */
  readonly from: unknown;
  readonly description: unknown;
}

export class Tracing {
  readonly #asked: AskedEvents;
  readonly #clock: Clock;
  readonly #onUnclear: () => void;
  #acted: Acted | null = null;
  #timer: Timer | undefined;

  /** `onUnclear`: it has not become clear in time. */
  constructor(asked: AskedEvents, clock: Clock, onUnclear: () => void) {
    this.#asked = asked;
    this.#clock = clock;
    this.#onUnclear = onUnclear;
  }

  /** It is not clear yet whose event the last one was. */
  get isOpen(): boolean {
    return this.#acted !== null;
  }

  sees(acted: Acted): void {
    this.#acted = acted;
  }

  /** Once it is clear what was acted on: on whose event, or on one that nobody sent here. Null: nothing, or nothing more. */
  found(): (Acted & { readonly asked: Asked | undefined }) | null {
    const acted = this.#acted;
    if (!acted) return null;
    const behind = this.#asked.behind(acted.event, acted.from, acted.description);
    if (behind.length > 1) {
      this.#timer ??= this.#clock.after(mostAckWaitMs, this.#onUnclear);
      return null;
    }
    this.close();
    return { ...acted, asked: behind[0] };
  }

  /** It does not matter any more. */
  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#acted = null;
  }
}
