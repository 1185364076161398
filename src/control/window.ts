// What happened to one event within a sliding window: counts, and how long serving took. Each record is a few additions,
// whatever the window holds. Knows no routes and no clock; it is told the time, and from when on a time is slow.
import type { Whose } from '../telemetry/signals.js';
import { Blame, type Fault, type Loudest, loudestOf, type Named } from './blame.js';

/** Slots of a window: the oldest one leaves as a whole, so the window covers 11/12 to 12/12 of its length. */
const SLOTS = 12;
/** Buckets of the times: 8 for each doubling from 1/16 ms on, so each is 9 % wide; the last one is from 60 s on. */
const PER_DOUBLING = 8;
const SHORTEST_MS = 1 / 16;
export const BUCKETS = 160;

/** Places in a row of counts; the buckets follow. */
const SAMPLES = 0;
const PEELED = 1;
const ERRORS = 2;
const REFUSALS = 3;
const SERVED = 4;
const FIRST_BUCKET = 5;

export interface Sums {
  /** Events that the new path took, or would have taken had it been well. */
  readonly samples: number;
  /** Of these: relays of calls that the legacy owns. */
  readonly peeled: number;
  /** Ended in an internal error. */
  readonly errors: number;
  /** Refused for a fault of ours, internal errors aside. */
  readonly refusals: number;
  /** How many were timed. */
  readonly served: number;
  /** Of these: took longer than what is slow. */
  readonly slow: number;
}

/** What a limit is judged by: a window of this instance's, or the sum of all instances'. */
export interface Counted {
  sums(now: number): Sums;
  /** Milliseconds that at least one event in 100 took, at most 9 % too low and never too high; null where none was timed. */
  p99(now: number): number | null;
  /** The most faults of each kind that are one user's or one conversation's. */
  loudest(now: number): Loudest;
}

/** Takes 9 kB once something was counted, and next to nothing before: most events of most namespaces never come. */
export class SlidingWindow implements Counted {
  readonly #slotMs: number;
  /** The first bucket of times that are slow. */
  readonly #slowFrom: number;
  /** Whose the faults of each slot are; where nobody was named they are nobody's. */
  #blames: readonly Blame[] = [];
  #rows: readonly Uint32Array[] = [];
  /** The sum of all rows. */
  #total: Uint32Array = nothing;
  /** Number of the newest slot since the epoch. */
  #newest = 0;

  constructor(windowMs: number, slowMs: number) {
    this.#slotMs = windowMs / SLOTS;
    let slowFrom = 0;
    while (slowFrom < BUCKETS && lowerBoundOf(slowFrom) <= slowMs) slowFrom++;
    this.#slowFrom = slowFrom;
  }

  sample(now: number, peeled: boolean): void {
    const row = this.#row(now);
    this.#add(row, SAMPLES);
    if (peeled) this.#add(row, PEELED);
  }

  error(now: number, whose?: Whose): void {
    this.#add(this.#row(now), ERRORS);
    this.#blame(whose, 'errors');
  }

  refusal(now: number, whose?: Whose): void {
    this.#add(this.#row(now), REFUSALS);
    this.#blame(whose, 'refusals');
  }

  served(now: number, ms: number, whose?: Whose): void {
    const row = this.#row(now);
    const bucket = bucketOf(ms);
    this.#add(row, SERVED);
    this.#add(row, FIRST_BUCKET + bucket);
    if (bucket >= this.#slowFrom) this.#blame(whose, 'slow');
  }

  loudest(now: number): Loudest {
    return loudestOf(this.named(now));
  }

  /** Whose the faults are. */
  named(now: number): Named {
    this.#advance(now);
    return Blame.named(this.#blames);
  }

  /** How many were timed, by class of times; `BUCKETS` of them, or none where nothing was counted yet. */
  times(now: number): Uint32Array {
    this.#advance(now);
    return this.#total.subarray(FIRST_BUCKET);
  }

  /** Where times begin to be slow: what lies in this class, or above it, is. */
  get slowFrom(): number {
    return this.#slowFrom;
  }

  sums(now: number): Sums {
    this.#advance(now);
    const total = this.#total;
    const [errors = 0, refusals = 0] = [total[ERRORS], total[REFUSALS]];
    return {
      // Of an event whose decision was not told there is a fault only.
      samples: Math.max(total[SAMPLES] ?? 0, errors, refusals),
      peeled: total[PEELED] ?? 0,
      errors,
      refusals,
      served: total[SERVED] ?? 0,
      slow: total.subarray(FIRST_BUCKET + this.#slowFrom).reduce((sum, count) => sum + count, 0),
    };
  }

  p99(now: number): number | null {
    return p99Of(this.times(now));
  }

  /** The row that counts now. */
  #row(now: number): Uint32Array {
    if (this.#rows.length === 0) {
      this.#rows = Array.from({ length: SLOTS }, emptyRow);
      this.#total = emptyRow();
      this.#blames = Array.from({ length: SLOTS }, () => new Blame());
    }
    this.#advance(now);
    return this.#rows[this.#newest % SLOTS] ?? nothing;
  }

  #blame(whose: Whose | undefined, fault: Fault): void {
    if (whose) this.#blames[this.#newest % SLOTS]?.add(whose, fault);
  }

  #add(row: Uint32Array, place: number): void {
    row[place] = (row[place] ?? 0) + 1;
    this.#total[place] = (this.#total[place] ?? 0) + 1;
  }

  /** Lets slots leave that are too old. A clock that goes back counts into the newest slot. */
  #advance(now: number): void {
    const slot = Math.floor(now / this.#slotMs);
    if (slot <= this.#newest) return;
    // What lies further back than a whole window left long ago.
    for (let next = Math.max(this.#newest + 1, slot - SLOTS + 1); next <= slot; next++) {
      this.#leave(this.#rows[next % SLOTS] ?? nothing);
      this.#blames[next % SLOTS]?.clear();
    }
    this.#newest = slot;
  }

  #leave(row: Uint32Array): void {
    for (let i = 0; i < row.length; i++) this.#total[i] = (this.#total[i] ?? 0) - (row[i] ?? 0);
    row.fill(0);
  }
}

/** Of times by class; null where there are none. */
export function p99Of(times: Uint32Array): number | null {
  const served = times.reduce((sum, count) => sum + count, 0);
  if (served === 0) return null;
  const rank = Math.ceil(served * 0.99);
  let seen = 0;
  const bucket = times.findIndex((count) => {
    seen += count;
    return seen >= rank;
  });
  return lowerBoundOf(bucket);
}

const nothing = new Uint32Array(0);
const emptyRow = () => new Uint32Array(FIRST_BUCKET + BUCKETS);

function bucketOf(ms: number): number {
  if (!(ms > SHORTEST_MS)) return 0;
  return Math.min(BUCKETS - 1, Math.floor(Math.log2(ms / SHORTEST_MS) * PER_DOUBLING));
}

/** The first bucket holds all that took no measurable time. */
export function lowerBoundOf(bucket: number): number {
  return bucket === 0 ? 0 : SHORTEST_MS * 2 ** (bucket / PER_DOUBLING);
}
