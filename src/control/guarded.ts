// One group of one namespace under its guard: what is counted of it, how that compares with its limits, and how it goes on where its
// route changes. Is given the time; knows no other instances, and nothing of how a group is taken back.
import { isDeepStrictEqual } from 'node:util';
import type { RouteVersion } from '../routing/change.js';
import { type Group, type GroupRoute, type GuardLimits, groups } from '../routing/route.js';
import { judge, type Verdict } from './judge.js';
import { type Figures, Summed, watchedKey } from './summed.js';
import { SlidingWindow } from './window.js';

/** What is shown of one group's guard. */
export interface GuardState {
  readonly ns: string;
  readonly group: Group;
  /**
   * `off`: no limits, or all on the legacy. `inconclusive`: too few samples, or too few beside those of one user or conversation
   * that most faults are of; never a pass.
   */
  readonly state: 'off' | 'inconclusive' | 'well' | 'tripped';
  readonly limits: GuardLimits | null;
  /** The worst event of the group within the window. */
  readonly figures: {
    readonly event: string | null;
    readonly samples: number;
    readonly errors: number;
    readonly refusals: number;
    readonly p99Ms: number | null;
  };
  /** ISO 8601, UTC. */
  readonly trippedAt: string | null;
  /** Why it tripped; else null, or which event has figures over a limit that are one user's or one conversation's for the most. */
  readonly reason: string | null;
}

/** One group of one namespace. */
export interface Guarded {
  readonly ns: string;
  readonly group: Group;
  readonly route: GroupRoute;
  /** By event; empty where nothing is watched. Bounded by the table, which names at most 200 namespaces. */
  readonly windows: ReadonlyMap<string, SlidingWindow>;
  readonly tripped: Tripped | null;
  /** The version of the routes that the windows begin with. */
  readonly since: number;
}

export interface Tripped {
  readonly at: string;
  readonly reason: string;
  /** Only of an alarm, where the group stayed: since when its figures are within the limits again. */
  readonly wellSince?: number | null;
}

/** `others`: what the other instances have counted under its routes; asked for only where it is guarded. */
export function stateOf(guarded: Guarded, others: () => readonly Figures[], now: number): GuardState {
  const { ns, group, route, tripped } = guarded;
  const limits = limitsOf(guarded);
  const verdicts = limits ? verdictsOf(guarded, others(), limits, now) : [];
  const worst = worstOf(verdicts);
  const single = verdicts.find((verdict) => verdict.state !== 'over' && verdict.reason !== undefined);
  return {
    ns,
    group,
    state: tripped
      ? 'tripped'
      : !limits
        ? 'off'
        : worst === null || worst.state === 'inconclusive'
          ? 'inconclusive'
          : 'well',
    limits: route.guard,
    figures: worst?.figures ?? { event: null, samples: 0, errors: 0, refusals: 0, p99Ms: null },
    trippedAt: tripped?.at ?? null,
    reason: tripped?.reason ?? single?.reason ?? null,
  };
}

/** Of each event on which there is one. */
export const verdictsOf = (
  { ns, group, windows }: Guarded,
  others: readonly Figures[],
  limits: GuardLimits,
  now: number,
): readonly Verdict[] =>
  [...windows].flatMap(([event, window]) => {
    const key = watchedKey({ ns, group, event });
    const told = others.flatMap(({ events }) => events.get(key) ?? []);
    const counted = told.length > 0 ? new Summed(window, told) : window;
    return judge(event, counted, limits, now, group === 'call-lifecycle' && isRelay(event)) ?? [];
  });

/** The event that comes closest to a limit, or is furthest over it; where none has enough samples, the one with the most. */
export const worstOf = (verdicts: readonly Verdict[]): Verdict | null =>
  verdicts.reduce<Verdict | null>((worst, verdict) => (worst && !worse(verdict, worst) ? worst : verdict), null);

export const keyOf = (ns: string, group: Group): string => `${ns}\n${group}`;

const relays: readonly string[] = [...groups['ice-candidate'], ...groups['call-renegotiation']];
const isRelay = (event: string): boolean => relays.includes(event);

/**
 * The events that a group's guard watches. Relays of a call that the new path owns are there whatever their own mode says, and
 * only the lifecycle's going back takes them away; so the lifecycle's guard watches them too.
 */
const watchedBy: Readonly<Record<Group, readonly string[]>> = {
  ...groups,
  'call-lifecycle': [...groups['call-lifecycle'], ...relays],
};

/** Null where there is nothing to guard: the guard is off, or new calls don't come here. */
export function limitsOf({ route }: Pick<Guarded, 'route'>): GuardLimits | null {
  return route.mode === 'legacy' ? null : route.guard;
}

export const trippedBy = ({ kind, at, reason }: RouteVersion): Tripped | null =>
  kind === 'guard' ? { at, reason } : null;

/**
 * A group under the table that is now in force. `changed`: undefined where this change did not touch it. Counts go on where
 * the group was watched before, and begin anew where it was not, or had tripped: what happened before an operator acted is
 * not held against what they did.
 */
export function succeed(
  before: Guarded | undefined,
  ns: string,
  group: Group,
  route: GroupRoute,
  changed: Tripped | null | undefined,
  version: number,
): Guarded {
  const tripped = changed === undefined ? (before?.tripped ?? null) : changed;
  const limits = limitsOf({ route });
  const goesOn =
    before !== undefined &&
    before.windows.size > 0 &&
    (before.tripped === null || changed === undefined) &&
    isDeepStrictEqual(limitsOf(before), limits);
  if (goesOn) return { ...before, route, tripped };
  const windows = limits
    ? new Map(watchedBy[group].map((event) => [event, new SlidingWindow(limits.windowMs, limits.maxP99Ms)]))
    : new Map();
  return { ns, group, route, windows, tripped, since: version };
}

function worse(a: Verdict, b: Verdict): boolean {
  if (a.state === 'inconclusive' || b.state === 'inconclusive') {
    return a.state === b.state ? a.figures.samples > b.figures.samples : b.state === 'inconclusive';
  }
  return a.pressure > b.pressure;
}

/** An alarm of a group that stayed is over once a whole window was well, with samples enough to say so. */
export function calmed(tripped: Tripped, worst: Verdict | null, limits: GuardLimits, now: number): Tripped | null {
  if (worst?.state !== 'well') return { ...tripped, wellSince: null };
  const wellSince = tripped.wellSince ?? now;
  return now - wellSince >= limits.windowMs ? null : { ...tripped, wellSince };
}
