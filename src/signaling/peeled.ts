// Relays of calls that the legacy owns, on their turn: they wait until their call can judge them, are served, or go to the
// legacy after all. Knows no table and no session.
import type { Decision, InboundEvent } from '../base/service.js';
import type { CallEvent, CallKey, Step } from '../call/session.js';
import type { Signals } from '../telemetry/signals.js';
import { keyOf } from './calls.js';
import { type Delivery, whoseOf } from './deliver.js';
import type { Lanes } from './lanes.js';
import type { ObservedCall } from './observed.js';
import type { Ownership } from './ownership.js';

export interface PeeledDeps {
  readonly signals: Signals;
  readonly delivery: Delivery;
}

const served: Decision = { path: 'new', because: 'peeled' };
const fallback: Decision = { path: 'legacy', because: 'fallback' };

export class PeeledRelays {
  readonly #deps: PeeledDeps;
  readonly #lanes: Lanes;
  readonly #ownership: Ownership;

  constructor(deps: PeeledDeps, lanes: Lanes, ownership: Ownership) {
    this.#deps = deps;
    this.#lanes = lanes;
    this.#ownership = ownership;
  }

  /** A promise where it must wait: ask anew where it goes then. */
  waits(event: InboundEvent, key: CallKey, observed: ObservedCall): Promise<void> | null {
    const { ref } = event.peer;
    const outcome = observed.waits(ref);
    if (!outcome) return null;
    const over = this.#lanes.waits(ref.connection, keyOf(key), () => observed.hurry(ref));
    return outcome.then(over);
  }

  /**
   * What came of it, and where `tracked` is acknowledged: a step; `again`, since the legacy has its call's relays back; null,
   * since the legacy has it, after a fault of ours. Throws where a fault came too late for that.
   */
  serve(
    event: InboundEvent,
    tracked: InboundEvent,
    made: CallEvent,
    key: CallKey,
    observed: ObservedCall,
  ): Step | 'again' | null {
    const { signals, delivery } = this.#deps;
    const { ref } = event.peer;
    let step: Step | null | 'broken';
    try {
      step = observed.serve(tracked, made, event);
    } catch (error) {
      signals.decided(event.name, served, ref.ns);
      throw error;
    }
    if (step === null) return 'again';
    if (step !== 'broken') {
      signals.decided(event.name, served, ref.ns);
      return step;
    }
    signals.decided(event.name, fallback, ref.ns, whoseOf(event));
    if (delivery.isConnected(ref)) event.forward(this.#ownership.claim(event, key, fallback));
    return null;
  }
}
