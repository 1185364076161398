// Whether one event's figures are within the limits of a guard, and the words that say so. A pure function of counts and limits.
import type { GuardLimits } from '../routing/route.js';
import type { Fault } from './blame.js';
import type { Counted } from './window.js';

export interface Figures {
  readonly event: string;
  readonly samples: number;
  readonly errors: number;
  readonly refusals: number;
  readonly p99Ms: number | null;
}

export type Verdict =
  /**
   * Too few samples to say anything, or too few beside those of the one user or conversation that most faults are of; the latter
   * with a `reason`.
   */
  | { readonly state: 'inconclusive'; readonly figures: Figures; readonly reason?: string }
  /** `pressure`: the largest figure as a share of its limit. `reason`: a figure is over one, but for a single user or conversation. */
  | { readonly state: 'well'; readonly figures: Figures; readonly pressure: number; readonly reason?: string }
  | { readonly state: 'over'; readonly figures: Figures; readonly pressure: number; readonly reason: string };

/**
 * A limit is crossed where it is without the user and without the conversation with the most faults, too: what one browser
 * sends, or what is wrong with one call, says nothing of the path, and nobody may take it back alone. Beside them must be at
 * least half as many samples as are needed, so that they can't make one fault of somebody else's into the path's.
 *
 * `ownedOnly`: judge a relay by the calls that the new path owns; null where most of what is in the window was peeled, since
 * faults are not told apart.
 */
export function judge(
  event: string,
  window: Counted,
  limits: GuardLimits,
  now: number,
  ownedOnly: boolean,
): Verdict | null {
  const { samples, peeled, errors, refusals, served, slow } = window.sums(now);
  if (ownedOnly && (samples === 0 || peeled * 2 > samples)) return null;
  const figures: Figures = { event, samples, errors, refusals, p99Ms: window.p99(now) };
  if ((ownedOnly ? samples - peeled : samples) < limits.minSamples) return { state: 'inconclusive', figures };
  const p99 = served >= limits.minSamples ? (figures.p99Ms ?? 0) : 0;
  const measures: readonly Measure[] = [
    {
      ...{ fault: 'errors', of: samples, count: errors, limit: limits.maxErrors },
      pressure: pressure(errors / samples, limits.maxErrors),
      reason: () => `${shareOf(errors, samples, limits.maxErrors)} ended in an internal error`,
    },
    {
      ...{ fault: 'refusals', of: samples, count: refusals, limit: limits.maxRefusals },
      pressure: pressure(refusals / samples, limits.maxRefusals),
      reason: () => `${shareOf(refusals, samples, limits.maxRefusals)} could not be served, which a legacy never says`,
    },
    {
      ...{ fault: 'slow', of: served, count: slow, limit: SLOW },
      pressure: pressure(p99, limits.maxP99Ms),
      reason: () =>
        `serving took ${round(p99)} ms at the 99th percentile of ${served} (limit ${round(limits.maxP99Ms)} ms)`,
    },
  ];
  const highest = measures.reduce(higher);
  if (highest.pressure <= 1) return { state: 'well', figures, pressure: highest.pressure };
  const loudest = window.loudest(now);
  const over = measures.filter(({ pressure: total }) => total > 1);
  const without = over.map((measure) => ({ measure, ...beside(measure, loudest[measure.fault]) }));
  const crossed = without.filter(({ share, of, measure }) => of * 2 >= limits.minSamples && share > measure.limit);
  if (crossed.length === 0) {
    const least = without.reduce((a, b) => (b.of < a.of ? b : a));
    const most = `${event}: ${least.measure.reason()}; most of it one user's or one conversation's`;
    return least.of >= limits.minSamples
      ? { state: 'well', figures, pressure: 1, reason: `${most}, without which it is within the limit` }
      : {
          state: 'inconclusive',
          figures,
          reason: `${most}, and ${least.of} samples beside that are too few to judge by`,
        };
  }
  const most = crossed.map(({ measure }) => measure).reduce(higher);
  const reason = `${event}: ${most.reason()}, in the last ${round(limits.windowMs / 1000)} s`;
  return { state: 'over', figures, pressure: most.pressure, reason };
}

interface Measure {
  readonly fault: Fault;
  readonly count: number;
  /** Of so many. */
  readonly of: number;
  /** The share that may be. */
  readonly limit: number;
  readonly pressure: number;
  reason(): string;
}

/** Over a 99th percentile are one in a hundred. */
const SLOW = 0.01;

const higher = (a: Measure, b: Measure): Measure => (b.pressure > a.pressure ? b : a);

/** What is left without so many faults that are all of one. */
function beside({ count, of }: Measure, ofOne: number): { readonly share: number; readonly of: number } {
  const [faults, left] = [count - ofOne, of - ofOne];
  return { share: faults === 0 ? 0 : faults / left, of: left };
}

/** Over 1 is over the limit. A limit of 0 is crossed by anything. */
const pressure = (figure: number, limit: number): number => (figure === 0 ? 0 : figure / limit);

/** `12 of 80 (15 %, limit 1 %)` */
const shareOf = (count: number, of: number, limit: number): string =>
  `${count} of ${of} (${round((100 * count) / of)} %, limit ${round(100 * limit)} %)`;

/** Three significant digits. */
const round = (value: number): string => String(Number(value.toPrecision(3)));
