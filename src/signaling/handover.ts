// Candidates that waited for an answer which the legacy accepted, on their way to whoever sent it: in the legacy's own
// acknowledgement of that answer, or as events behind it (docs/routes.md, "Peeled relays"). Knows no session.
import type { Clock } from '../base/clock.js';
import { type SocketRef, sameSocket } from '../base/ids.js';
import { type Acknowledged, mostAckWaitMs } from '../base/service.js';
import { type Asked, type Gate, gate } from './asked.js';
import type { Delivery } from './deliver.js';

interface Pending {
  readonly asked: Asked;
  readonly candidates: readonly unknown[];
  readonly over: Gate;
}

export class Handover {
  readonly #clock: Clock;
  readonly #delivery: Delivery;
  /** Waits for the acknowledgement that takes them. */
  #pending: Pending | null = null;

  constructor(clock: Clock, delivery: Delivery) {
    this.#clock = clock;
    this.#delivery = delivery;
  }

  /** What others must wait for who have candidates for the same socket: what came first goes first. */
  ahead(of: SocketRef): Gate | null {
    return this.#pending && !sameSocket(this.#pending.asked.peer.ref, of) ? this.#pending.over : null;
  }

  /** The legacy accepted this answer: whoever sent it gets the candidates. */
  give(asked: Asked, candidates: readonly unknown[]): void {
    this.finish();
    if (candidates.length === 0) return;
    if (asked.ack === 'held') {
      asked.letGo(candidates);
      return;
    }
    const pending: Pending = {
      asked,
      candidates,
      over: gate(this.#clock, mostAckWaitMs, () => {
        if (this.#pending === pending) this.finish();
      }),
    };
    this.#pending = pending;
    if (asked.ack !== 'due' || !asked.mayMerge) this.finish();
  }

  /**
   * An answer's acknowledgement is here; a promise keeps it back until its outcome is known. `awaits`: the candidates
   * may be due to it. `passes` is called once it goes on.
   */
  acknowledged(asked: Asked, args: readonly unknown[], awaits: boolean, passes: () => void): ReturnType<Acknowledged> {
    const list = Array.isArray(args[0]);
    if (this.#pending?.asked === asked) {
      const { candidates } = this.#pending;
      passes();
      if (list) this.#over();
      else this.finish();
      return list ? merged(args, candidates) : null;
    }
    if (asked.done || !asked.mayMerge || !list || !awaits) {
      passes();
      return null;
    }
    asked.ack = 'held';
    return new Promise((resolve) => {
      const timer = this.#clock.after(mostAckWaitMs, () => asked.letGo(null));
      asked.letGo = (candidates) => {
        asked.letGo = () => undefined;
        timer.cancel();
        passes();
        resolve(candidates ? merged(args, candidates) : null);
      };
    });
  }

  /** No acknowledgement takes them any more: they go as events. */
  finish(): void {
    const pending = this.#pending;
    if (!pending) return;
    const { asked, candidates } = pending;
    for (const candidate of candidates) this.#delivery.emit(asked.peer.ref, 'ice-candidate', candidate);
    this.#over();
  }

  #over(): void {
    const pending = this.#pending;
    this.#pending = null;
    pending?.over.open();
  }
}

/** The legacy's own list first, then ours. */
const merged = (args: readonly unknown[], candidates: readonly unknown[]): readonly unknown[] => [
  [...(args[0] as readonly unknown[]), ...candidates],
  ...args.slice(1),
];
