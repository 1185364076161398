// An event whose answer is remembered, so that the very same request again can be answered alike (retries.ts). Knows
// nothing of what the event asks for.
import type { Acknowledged, InboundEvent, Peer } from '../base/service.js';
import type { First } from './retries.js';

export interface Tracked {
  /** Acknowledge this one, not the original. */
  readonly event: InboundEvent;
  /** Null where nothing is to be remembered. */
  readonly first: First | null;
  answer: unknown;
}

export const untracked = (event: InboundEvent): Tracked => ({ event, first: null, answer: undefined });

export function track(event: InboundEvent, first: First): Tracked {
  const tracked: Tracked = {
    first,
    answer: undefined,
    event: new AckedTo(event, (arg) => {
      tracked.answer = arg;
      event.ack(arg);
    }),
  };
  return tracked;
}

/** The same event, whose acknowledgement is told to somebody on its way. */
class AckedTo implements InboundEvent {
  readonly peer: Peer;
  readonly name: string;
  readonly ackRequested: boolean;
  readonly #event: InboundEvent;
  readonly ack: (arg: unknown) => void;

  constructor(event: InboundEvent, ack: (arg: unknown) => void) {
    this.#event = event;
    this.peer = event.peer;
    this.name = event.name;
    this.ackRequested = event.ackRequested;
    this.ack = ack;
  }

  get args(): readonly unknown[] {
    return this.#event.args;
  }

  get size(): number {
    return this.#event.size;
  }

  digest(): string {
    return this.#event.digest();
  }

  forward(acknowledged?: Acknowledged): void {
    this.#event.forward(acknowledged);
  }
}
