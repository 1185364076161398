// What happens to each event right now, for the dashboard: rates, refusals, times of serving and a graph of the last minutes,
// in rings of a fixed size. Knows no table and nobody who looks; a signal costs a few additions, whoever looks.
import { type Clock, systemClock } from '../base/clock.js';
import { type Group, groupOf } from '../routing/route.js';
import type { Signals } from './signals.js';

/** Figures of one event, over all namespaces. */
export interface LiveFigures {
  readonly event: string;
  readonly group: Group;
  /** Per second, over the last 10 whole seconds. */
  readonly rate: { readonly legacy: number; readonly new: number };
  /** Within the last minute: refused by the new path, and of these with an internal error. */
  readonly refusals: number;
  readonly errors: number;
  /** Serving on the new path within the last minute, within 9 %; null where nothing was served. Milliseconds. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** The last 5 minutes of whole steps, oldest first: how many in each. The step under way would look like a drop. */
  readonly graph: {
    readonly stepMs: number;
    readonly legacy: readonly number[];
    readonly new: readonly number[];
    readonly refused: readonly number[];
  };
}

export interface Live {
  readonly signals: Pick<Signals, 'decided' | 'refused' | 'served'>;
  /** One for each event of the call vocabulary, in its order. */
  figures(): readonly LiveFigures[];
}

const STEP_MS = 5_000;
const STEPS = 60;
const RATE_SECONDS = 10;
/** Buckets of 10 s; six of them are the last minute. */
const MINUTE_MS = 10_000;
const MINUTE_SLOTS = 6;

export function createLive(clock: Pick<Clock, 'now'> = systemClock): Live {
  // Only names of the vocabulary: browsers can't make up others.
  const events = new Map([...groupOf].map(([event, group]) => [event, new Ongoing(event, group)]));
  return {
    signals: {
      decided(event, { path, because }) {
        // What was held is decided again once its fact is here.
        if (because !== 'held') events.get(event)?.decided(path, clock.now());
      },
      refused: (event, code) => events.get(event)?.refused(code, clock.now()),
      served: (event, ms) => events.get(event)?.served(ms, clock.now()),
    },
    figures: () => [...events.values()].map((ongoing) => ongoing.figures(clock.now())),
  };
}

class Ongoing {
  readonly event: string;
  readonly group: Group;
  readonly #seconds = { legacy: new Ring(1_000, RATE_SECONDS + 1), new: new Ring(1_000, RATE_SECONDS + 1) };
  readonly #graph = {
    legacy: new Ring(STEP_MS, STEPS + 1),
    new: new Ring(STEP_MS, STEPS + 1),
    refused: new Ring(STEP_MS, STEPS + 1),
  };
  readonly #refusals = new Ring(MINUTE_MS, MINUTE_SLOTS);
  readonly #errors = new Ring(MINUTE_MS, MINUTE_SLOTS);
  readonly #times = new Ring(MINUTE_MS, MINUTE_SLOTS, TIMES);

  constructor(event: string, group: Group) {
    this.event = event;
    this.group = group;
  }

  decided(path: 'legacy' | 'new', now: number): void {
    this.#seconds[path].add(now);
    this.#graph[path].add(now);
  }

  refused(code: string, now: number): void {
    this.#refusals.add(now);
    this.#graph.refused.add(now);
    if (code === 'internal') this.#errors.add(now);
  }

  served(ms: number, now: number): void {
    this.#times.add(now, placeOf(ms));
  }

  figures(now: number): LiveFigures {
    const perSecond = (ring: Ring) => sum(ring.read(now).slice(0, RATE_SECONDS)) / RATE_SECONDS;
    const wholeSteps = (ring: Ring) => ring.read(now).slice(0, STEPS);
    const times = this.#times.totals(now);
    return {
      event: this.event,
      group: this.group,
      rate: { legacy: perSecond(this.#seconds.legacy), new: perSecond(this.#seconds.new) },
      refusals: sum(this.#refusals.read(now)),
      errors: sum(this.#errors.read(now)),
      p50Ms: quantile(times, 0.5),
      p99Ms: quantile(times, 0.99),
      graph: {
        stepMs: STEP_MS,
        legacy: wholeSteps(this.#graph.legacy),
        new: wholeSteps(this.#graph.new),
        refused: wholeSteps(this.#graph.refused),
      },
    };
  }
}

/** Counts by time: `slots` of `stepMs` each, of `width` counters each. What is older is overwritten. */
class Ring {
  readonly #stepMs: number;
  readonly #slots: number;
  readonly #width: number;
  readonly #counts: Uint32Array;
  /** Which step each slot holds. */
  readonly #steps: Float64Array;

  constructor(stepMs: number, slots: number, width = 1) {
    this.#stepMs = stepMs;
    this.#slots = slots;
    this.#width = width;
    this.#counts = new Uint32Array(slots * width);
    this.#steps = new Float64Array(slots).fill(-1);
  }

  add(now: number, counter = 0): void {
    const step = Math.floor(now / this.#stepMs);
    const slot = step % this.#slots;
    if (this.#steps[slot] !== step) {
      this.#steps[slot] = step;
      this.#counts.fill(0, slot * this.#width, (slot + 1) * this.#width);
    }
    this.#counts[slot * this.#width + counter]!++;
  }

  /** The first counter of each step, oldest first; the step under way is the last. */
  read(now: number): number[] {
    const last = Math.floor(now / this.#stepMs);
    return Array.from({ length: this.#slots }, (_, i) => {
      const step = last - this.#slots + 1 + i;
      const slot = step % this.#slots;
      return this.#steps[slot] === step ? this.#counts[slot * this.#width]! : 0;
    });
  }

  /** Each counter summed over all steps. */
  totals(now: number): number[] {
    const last = Math.floor(now / this.#stepMs);
    const totals = new Array<number>(this.#width).fill(0);
    for (let step = last - this.#slots + 1; step <= last; step++) {
      const slot = step % this.#slots;
      if (this.#steps[slot] !== step) continue;
      for (let i = 0; i < this.#width; i++) totals[i]! += this.#counts[slot * this.#width + i]!;
    }
    return totals;
  }
}

// Times go into buckets that grow by a quarter of an octave, from 0.05 ms on: 64 of them reach 3,277 ms and what is longer.
const TIMES = 66;
const FIRST_MS = 0.05;
const PER_OCTAVE = 4;
const placeOf = (ms: number): number => {
  if (!(ms > FIRST_MS)) return 0;
  return Math.min(TIMES - 1, 1 + Math.floor(Math.log2(ms / FIRST_MS) * PER_OCTAVE));
};
/** The middle of a bucket, in its own proportion. */
const timeOf = (place: number): number =>
  place === 0 ? FIRST_MS : rounded(FIRST_MS * 2 ** ((place - 0.5) / PER_OCTAVE));
const rounded = (ms: number): number => Number(ms.toPrecision(3));

function quantile(counts: readonly number[], share: number): number | null {
  const total = sum(counts);
  if (total === 0) return null;
  const rank = Math.ceil(total * share);
  let seen = 0;
  for (const [place, count] of counts.entries()) {
    seen += count;
    if (seen >= rank) return timeOf(place);
  }
  return null;
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, n) => total + n, 0);
