// Figures, times and routes as short English text. Pure; knows no component.

import type { GroupRoute } from '../../routing/route.js';
import type { ChangedBody, GuardBody } from '../api.js';
import { named } from './ids.js';

const whole = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 0 });
const oneDecimal = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 1 });
const twoDecimals = new Intl.NumberFormat('en-GB', { maximumFractionDigits: 2 });
const clockFormat = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayFormat = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });

export const NOTHING = '–';

export const count = (n: number): string => whole.format(n);

/** Per second: one decimal below ten, so that a slow event does not look like none. */
export const rate = (n: number): string => (n > 0 && n < 0.05 ? '<0.1' : (n < 10 ? oneDecimal : whole).format(n));

export function milliseconds(ms: number | null): string {
  if (ms === null) return NOTHING;
  if (ms >= 10_000) return `${oneDecimal.format(ms / 1000)}\u00a0s`;
  return `${(ms < 10 ? oneDecimal : whole).format(ms)}\u00a0ms`;
}

/** The blank before a unit does not break. */
export const percent = (n: number): string => `${twoDecimals.format(n)}\u00a0%`;

/** `4 s`, `3 min 12 s`, `2 h 05 min`, `3 d 4 h`. */
export function duration(ms: number): string {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  const two = (n: number) => String(n).padStart(2, '0');
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

/** The time of day, with the day where it is not today's. */
export function clock(at: number | string, now: number): string {
  const date = new Date(at);
  const time = clockFormat.format(date);
  return dayFormat.format(date) === dayFormat.format(now) ? time : `${dayFormat.format(date)}, ${time}`;
}

/** `1 call`, `1,204 calls` */
export const some = (n: number, one: string, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** `legacy`, `canary 5 %`, `new, sole` */
export function routeName(route: GroupRoute): string {
  if (route.canary) return `canary ${percent(route.canary.percent)}`;
  return route.sole ? `${route.mode}, sole` : route.mode;
}

/** What else is set, a few words each. */
export function routeDetails(route: GroupRoute): readonly string[] {
  const { canary, fallback, mode } = route;
  const details: string[] = [];
  if (canary) {
    const always = [
      ...(canary.users.length > 0 ? [some(canary.users.length, 'user')] : []),
      ...(canary.conversations.length > 0 ? [some(canary.conversations.length, 'conversation')] : []),
    ];
    if (always.length > 0) details.push(`always ${always.join(' and ')}`);
    const never = canary.exclude.users.length + canary.exclude.conversations.length;
    if (never > 0) details.push(`never ${count(never)} excluded`);
  }
  if (mode !== 'legacy') details.push(fallback === 'legacy' ? 'falls back to legacy' : 'no fallback');
  return details;
}

/** What differs besides mode and share, a few words each. */
export function routeChanges(before: GroupRoute, after: GroupRoute): readonly string[] {
  const changes: string[] = [];
  const [was, is] = [before.canary, after.canary];
  if (is) {
    changes.push(
      ...listChanges('always', was?.users, is.users),
      ...listChanges('always', was?.conversations, is.conversations),
      ...listChanges('never', was?.exclude.users, is.exclude.users),
      ...listChanges('never', was?.exclude.conversations, is.exclude.conversations),
    );
    if (was && was.salt !== is.salt) changes.push('another salt, so another share');
  }
  if (before.mode !== 'legacy' && after.mode !== 'legacy' && before.fallback !== after.fallback) {
    changes.push(after.fallback === 'legacy' ? 'falls back to legacy' : 'no fallback');
  }
  if (before.guard === null && after.guard !== null) changes.push('guard on');
  if (before.guard !== null && after.guard === null) changes.push('guard off');
  if (before.guard && after.guard) {
    const { windowMs, minSamples, maxErrors, maxRefusals, maxP99Ms } = after.guard;
    if (maxErrors !== before.guard.maxErrors) changes.push(`guard: errors over ${percent(maxErrors * 100)}`);
    if (maxRefusals !== before.guard.maxRefusals) changes.push(`guard: refusals over ${percent(maxRefusals * 100)}`);
    if (maxP99Ms !== before.guard.maxP99Ms) changes.push(`guard: p99 over ${milliseconds(maxP99Ms)}`);
    if (windowMs !== before.guard.windowMs) changes.push(`guard: window of ${count(windowMs / 1000)}\u00a0s`);
    if (minSamples !== before.guard.minSamples) changes.push(`guard: from ${some(minSamples, 'event')} on`);
  }
  return changes;
}

/** Longer lists are counted. */
const NAMED = 4;

function listChanges(what: string, before: readonly string[] = [], after: readonly string[] = []): readonly string[] {
  const several = (all: readonly string[]) =>
    all.slice(0, NAMED).map(named).join(', ') + (all.length > NAMED ? ` and ${count(all.length - NAMED)} more` : '');
  const [old, now] = [new Set(before), new Set(after)];
  const added = after.filter((one) => !old.has(one));
  const gone = before.filter((one) => !now.has(one));
  return [
    ...(added.length > 0 ? [`${what} ${several(added)}`] : []),
    ...(gone.length > 0 ? [`no longer ${what} ${several(gone)}`] : []),
  ];
}

const guardWord: Readonly<Record<GuardBody['state'], string>> = {
  off: 'off',
  inconclusive: 'too few samples',
  well: 'well',
  tripped: 'tripped',
};

/** A reason without a trip: what is over a limit is one user's or one conversation's for the most. */
export const guardStateWord = ({ state, reason }: Pick<GuardBody, 'state' | 'reason'>): string =>
  state === 'inconclusive' && reason !== null ? 'undecided: faults of one user or call' : guardWord[state];

/** `1,204 events in 60 s, errors 0 %, refusals 0.2 %, p99 12 ms` */
export function guardFigures({ figures, limits }: GuardBody): string {
  const { samples, errors, refusals, p99Ms } = figures;
  const share = (n: number) => percent(samples > 0 ? (100 * n) / samples : 0);
  const within = limits ? ` in ${count(limits.windowMs / 1000)}\u00a0s` : '';
  const parts = [`${some(samples, 'event')}${within}`];
  if (samples > 0) parts.push(`errors ${share(errors)}`, `refusals ${share(refusals)}`);
  if (p99Ms !== null) parts.push(`p99 ${milliseconds(p99Ms)}`);
  return parts.join(', ');
}

export function guardLimits({ limits }: GuardBody): string {
  if (!limits) return '';
  return (
    `trips over ${percent(limits.maxErrors * 100)} errors, ${percent(limits.maxRefusals * 100)} refusals or ` +
    `p99 ${milliseconds(limits.maxP99Ms)}, from ${some(limits.minSamples, 'event')} on`
  );
}

/** A guard that tripped, as a title and what follows from it. `sole`: the group has no legacy to go back to. */
export function guardTripped(
  { ns, group, reason, trippedAt, limits }: GuardBody,
  sole: boolean,
  now: number,
): {
  readonly title: string;
  readonly text: string;
} {
  const when = trippedAt ? clock(trippedAt, now) : null;
  const window = limits ? ` of ${count(limits.windowMs / 1000)}\u00a0s` : '';
  const then = sole
    ? `It stays where it is, since it is sole: the legacy serves it no more. The alarm ends by itself after a whole window${window} within the limits.`
    : 'It stays on the legacy until the route is changed by an operator.';
  return {
    title: sole
      ? `The guard of ${group} in ${ns} gives the alarm${when ? ` since ${when}` : ''}.`
      : `The guard tripped for ${group} in ${ns}${when ? ` at ${when}` : ''}.`,
    text: reason ? `${reason.replace(/\.$/, '')}. ${then}` : then,
  };
}

/** What a change did. */
export function changeMade({ changed, version, confirmed, endedCalls, unwritten }: ChangedBody): string {
  const where = confirmed.of === 1 ? '' : ` on ${confirmed.instances} of ${confirmed.of} instances`;
  const parts = [
    changed
      ? `Version ${version.version} is in force${where}.`
      : `The routes were like that already (version ${version.version}).`,
  ];
  if (endedCalls > 0) parts.push(`${some(endedCalls, 'call was', 'calls were')} ended.`);
  if (unwritten) parts.push(`It is not in the log yet: ${unwritten}`);
  if (unwritten && confirmed.of > 1)
    parts.push('(The other instances go on as before until it is: make the change on each of them as well.)');
  return parts.join(' ');
}
