// The values of the operator's flags, each parsed once from its text: shares, lists, versions, the guard's limits. A fault is
// commander's, which makes one line of it. Knows nothing of what they are for.
import { InvalidArgumentError } from 'commander';
import { duration, Unfit } from '../config/values.js';
import type { GuardLimits } from '../routing/route.js';

/** `5`, `2.25` or `5%`: 0 to 100, at most two decimals. */
export function percent(text: string): number {
  const value = Number(/^(\d{1,3}(?:\.\d{1,2})?)%?$/.exec(text)?.[1] ?? Number.NaN);
  if (!(value <= 100)) throw new InvalidArgumentError('Write 0 to 100 with at most two decimals, such as 2.5');
  return value;
}

/** `alice,bob`; given again it adds to the list. The empty text is the empty list. */
export function list(text: string, before: readonly string[] | undefined): readonly string[] {
  const names = text.split(',').map((name) => name.trim());
  return [...(before ?? []), ...names.filter((name) => name !== '')];
}

/** A call's; asked for without one, the API would answer about something else. */
export function callId(text: string): string {
  if (text.trim() === '')
    throw new InvalidArgumentError('Write its id, or how it begins; "sigfig calls list" shows it');
  return text;
}

export function instanceId(text: string): string {
  if (text.trim() === '') throw new InvalidArgumentError('Write its id, or how it begins; "sigfig status" shows it');
  return text;
}

export function versionNumber(text: string): number {
  if (!/^[1-9]\d{0,14}$/.test(text)) {
    throw new InvalidArgumentError('Write the number of a version; "sigfig routes history" lists them');
  }
  return Number(text);
}

export function count(most: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (value < 1 || value > most) throw new InvalidArgumentError(`Write a number from 1 to ${most}`);
    return value;
  };
}

/** `off`, or some of the limits, by their keys in a routes file: `window=60s,min-samples=50,max-errors-percent=1`. */
export function guard(text: string): 'off' | Partial<GuardLimits> {
  if (text === 'off') return 'off';
  const limits: { -readonly [Key in keyof GuardLimits]?: number } = {};
  for (const part of text.split(',')) {
    const [name = '', value = ''] = part.split('=').map((piece) => piece.trim());
    const limit = Object.hasOwn(LIMITS, name) ? LIMITS[name] : undefined;
    if (limit === undefined || part.split('=').length !== 2) throw new InvalidArgumentError(GUARD);
    try {
      limits[limit.key] = limit.parse(value);
    } catch (error) {
      if (!(error instanceof Unfit || error instanceof InvalidArgumentError)) throw error;
      throw new InvalidArgumentError(`${name}: ${error.message}`);
    }
  }
  return limits;
}
const GUARD =
  'Write off, or some of window=60s,min-samples=50,max-errors-percent=1,max-refusals-percent=5,max-p99=500ms';
const LIMITS: Readonly<Record<string, { key: keyof GuardLimits; parse(text: string): number }>> = {
  window: { key: 'windowMs', parse: (text) => duration(text) },
  'min-samples': { key: 'minSamples', parse: count(1_000_000) },
  'max-errors-percent': { key: 'maxErrors', parse: (text) => shareOf(text) },
  'max-refusals-percent': { key: 'maxRefusals', parse: (text) => shareOf(text) },
  'max-p99': { key: 'maxP99Ms', parse: (text) => duration(text) },
};
/** Percent to a share of 0 to 1, without what division leaves behind. */
const shareOf = (text: string): number => Number((percent(text) / 100).toFixed(4));
