// The last net under calls whose instance is gone: whoever takes an instance over goes by the index of its seats, and each of the others
// by what it knows (`recovery.ts`); both can be lost together with it. So the instance that leads walks all calls, slowly, for seats
// on instances that live no more. Knows nothing of leases.
import type { Timer } from '../base/clock.js';
import type { Address } from '../base/ids.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey } from '../call/session.js';
import type { CallsDeps } from './calls.js';
import { isTaken, type LostSeatsDeps, loseSeats, roles } from './lost-seats.js';

export interface StraysDeps extends Pick<CallsDeps, 'store' | 'cluster' | 'signals' | 'clock'>, LostSeatsDeps {
  readonly cluster: CallsDeps['cluster'];
}

/** Between two walks; milliseconds. */
const walkEachMs = 60_000;
/** A thousand calls a second at most: a few per cent of what Redis does. */
const pageOf = 250;
const pauseMs = 250;
/** An instance that is not known may have begun a moment ago, and one that has just died is handled: this long they have. Milliseconds. */
const doubtMs = 10_000;
/** The rest is found with the next walk. */
const mostFound = 10_000;
/** Calls that are handled together. */
const atOnce = 16;

interface Found {
  readonly key: CallKey;
  readonly address: Address;
}

export class Strays {
  readonly #deps: StraysDeps;
  #closed = false;
  #timer: Timer | undefined;

  /** Walks from here on, a minute from now for the first time. */
  constructor(deps: StraysDeps) {
    this.#deps = deps;
    this.#later();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Once; resolves when it is done, at the latest with the end of its lead. Never rejects. */
  async walk(): Promise<void> {
    const { signals } = this.#deps;
    try {
      const found = await this.#find();
      if (found.length === 0) return;
      await this.#pause(doubtMs);
      for (let i = 0; i < found.length && this.#goesOn(); i += atOnce) {
        await Promise.all(found.slice(i, i + atOnce).map((one) => this.#lose(one)));
      }
    } catch (error) {
      // Whoever leads when Redis is back walks again.
      if (!(error instanceof Unavailable)) signals.internalError('calls of instances that are gone', error);
    }
  }

  async #find(): Promise<readonly Found[]> {
    const { store, cluster } = this.#deps;
    const found: Found[] = [];
    if (!this.#goesOn()) return found;
    let seen = 0;
    for await (const session of store.all()) {
      const gone = new Set(
        roles.flatMap((role) => {
          const address = isTaken(session, role) ? session.seats[role]?.at : undefined;
          return address === undefined || cluster.liveness.isLiving(address) ? [] : [address];
        }),
      );
      for (const address of gone)
        found.push({ key: { ns: session.ns, conversationId: session.conversationId }, address });
      if (found.length >= mostFound) break;
      if (++seen % pageOf === 0) await this.#pause(pauseMs);
      if (!this.#goesOn()) return [];
    }
    return found;
  }

  async #lose({ key, address }: Found): Promise<void> {
    if (this.#deps.cluster.liveness.isLiving(address)) return;
    try {
      await loseSeats(this.#deps, key, address, 'instance');
    } catch (error) {
      if (error instanceof Unavailable) throw error;
      // One that can't be handled keeps none of the others.
      this.#deps.signals.internalError('a call of an instance that is gone', error);
    }
  }

  /** Only while this instance knows who lives. */
  #goesOn(): boolean {
    return !this.#closed && this.#deps.cluster.liveness.leads();
  }

  #later(): void {
    if (this.#closed) return;
    this.#timer = this.#deps.clock.after(walkEachMs, () => void this.walk().finally(() => this.#later()));
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.#deps.clock.after(ms, () => resolve()));
  }
}
