// Whether one event's figures are within the limits of a guard, and the words that say so. A pure function of counts and limits.
import type { GuardLimits } from '../routing/route.js';
import type { SlidingWindow } from './window.js';

export interface Figures {
  readonly event: string;
  readonly samples: number;
  readonly errors: number;
  readonly refusals: number;
  readonly p99Ms: number | null;
}

export type Verdict =
  /** Too few samples to say anything. */
  | { readonly state: 'inconclusive'; readonly figures: Figures }
  /** `pressure`: the largest figure as a share of its limit. */
  | { readonly state: 'well'; readonly figures: Figures; readonly pressure: number }
  | { readonly state: 'over'; readonly figures: Figures; readonly pressure: number; readonly reason: string };

/**
 * `ownedOnly`: judge a relay by the calls that the new path owns; null where most of what is in the window was peeled, since
 * faults are not told apart.
 */
export function judge(
  event: string,
  window: SlidingWindow,
  limits: GuardLimits,
  now: number,
  ownedOnly: boolean,
): Verdict | null {
  const { samples, peeled, errors, refusals, served } = window.sums(now);
  if (ownedOnly && (samples === 0 || peeled * 2 > samples)) return null;
  const figures: Figures = { event, samples, errors, refusals, p99Ms: window.p99(now) };
  if ((ownedOnly ? samples - peeled : samples) < limits.minSamples) return { state: 'inconclusive', figures };
  const p99 = served >= limits.minSamples ? (figures.p99Ms ?? 0) : 0;
  const measures = [
    {
      pressure: pressure(errors / samples, limits.maxErrors),
      reason: () => `${shareOf(errors, samples, limits.maxErrors)} ended in an internal error`,
    },
    {
      pressure: pressure(refusals / samples, limits.maxRefusals),
      reason: () => `${shareOf(refusals, samples, limits.maxRefusals)} could not be served, which a legacy never says`,
    },
    {
      pressure: pressure(p99, limits.maxP99Ms),
      reason: () =>
        `serving took ${round(p99)} ms at the 99th percentile of ${served} (limit ${round(limits.maxP99Ms)} ms)`,
    },
  ];
  const most = measures.reduce((a, b) => (b.pressure > a.pressure ? b : a));
  if (most.pressure <= 1) return { state: 'well', figures, pressure: most.pressure };
  const reason = `${event}: ${most.reason()}, in the last ${round(limits.windowMs / 1000)} s`;
  return { state: 'over', figures, pressure: most.pressure, reason };
}

/** Over 1 is over the limit. A limit of 0 is crossed by anything. */
const pressure = (figure: number, limit: number): number => (figure === 0 ? 0 : figure / limit);

/** `12 of 80 (15 %, limit 1 %)` */
const shareOf = (count: number, of: number, limit: number): string =>
  `${count} of ${of} (${round((100 * count) / of)} %, limit ${round(100 * limit)} %)`;

/** Three significant digits. */
const round = (value: number): string => String(Number(value.toPrecision(3)));
