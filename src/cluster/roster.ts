// Who lives, as the last renewal told it: lives by id and by address, those that are known to be gone, and those that are still counted
// where Redis forgot them. Knows nothing of when it is told.
import type { Address, InstanceId } from '../base/ids.js';
import type { Lease, Renewal } from './lease-answer.js';
import { LEASE } from './lease-scripts.js';
import { addressOf } from './lives.js';

/** Lives that were asked for and are not there: a few for each crash, so this is years of them. */
const MOST_GONE = 10_000;

export class Roster {
  readonly #own: Address;
  #leases: readonly Lease[] = [];
  #living = new Map<InstanceId, Lease>();
  #addresses = new Map<Address, InstanceId>();
  #others: readonly Address[] = [];
  /** Redis lost what it had: these lived, and until when (by its clock) that holds without a renewal. They are written again. */
  readonly #carried = new Map<InstanceId, Lease>();
  readonly #gone = new Set<InstanceId>();

  constructor(own: Address) {
    this.#own = own;
  }

  /** The own one included, once it was renewed. */
  get leases(): readonly Lease[] {
    return this.#leases;
  }
  /** Of every other living process. */
  get others(): readonly Address[] {
    return this.#others;
  }
  get carried(): Iterable<InstanceId> {
    return this.#carried.keys();
  }

  lifeAt(address: Address): InstanceId | undefined {
    return this.#addresses.get(address);
  }

  /** Undefined: it may have begun since. */
  knows(id: InstanceId): boolean | undefined {
    if (this.#living.has(id)) return true;
    return this.#gone.has(id) ? false : undefined;
  }

  learn({ leases, lost, now }: Renewal, own: InstanceId): void {
    const living = new Map(leases.map((lease) => [lease.id, lease]));
    if (lost) {
      for (const lease of this.#leases) {
        if (lease.id !== own) this.#carried.set(lease.id, { ...lease, expires: now + LEASE });
      }
    }
    for (const [id, lease] of this.#carried) {
      if (living.has(id) || lease.expires <= now) this.#carried.delete(id);
      else living.set(id, lease);
    }
    for (const id of this.#living.keys()) if (!living.has(id)) this.isGone(id);
    for (const id of living.keys()) this.#gone.delete(id);
    this.#take(living);
  }

  /** It was asked for and is not there. */
  isGone(id: InstanceId): void {
    this.#gone.add(id);
    if (this.#gone.size <= MOST_GONE) return;
    for (const oldest of this.#gone) {
      this.#gone.delete(oldest);
      break;
    }
  }

  /** The own life that is over. */
  over(was: InstanceId): void {
    this.#living.delete(was);
    this.#take(this.#living);
  }

  #take(living: Map<InstanceId, Lease>): void {
    this.#living = living;
    this.#leases = [...living.values()];
    this.#addresses = new Map(this.#leases.map(({ id }) => [addressOf(id), id]));
    this.#others = [...this.#addresses.keys()].filter((address) => address !== this.#own);
  }
}
