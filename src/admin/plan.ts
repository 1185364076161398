// What a change would do in live terms: who is connected, which calls stay where they are, what can't be served here; and a
// request to set a group as a route. Knows no HTTP; the numbers come from whoever counts.

import { Unavailable } from '../base/unavailable.js';
import type { Difference } from '../routing/change.js';
import {
  type Canary,
  defaultGuard,
  type GroupRoute,
  groupNames,
  groups,
  type RouteInput,
  type RouteTable,
  type TableJson,
} from '../routing/route.js';
import type { LiveCalls } from '../signaling/live.js';
import type { PlanBody } from './api.js';
import { counted, differenceLines, moves, namespaceLines, namespaceNames, peeledLines } from './plan-lines.js';
import type { SetInput } from './requests.js';

/** Who is connected to this instance; `Registry` has these. */
export interface Connected {
  figures(): {
    readonly connections: number;
    readonly foreign: number;
    readonly users: number;
    readonly namespaces: ReadonlyMap<string, { readonly users: number; readonly unverified: number }>;
  };
  usersIn(namespaces: readonly string[]): number;
  socketsOf(ns: string, user: string): readonly unknown[];
}

export interface PlanDeps {
  readonly connected: Connected;
  readonly calls: Pick<LiveCalls, 'byNamespace'>;
  /** Of which this is one; users, and calls of the legacy, are those of this one. */
  readonly instances: { all(): Promise<readonly unknown[]> };
}

/** Calls of the new path that a change ends, by namespace: those that it would end, or how many it has ended. */
export type Ends = { readonly which: (ns: string) => boolean } | { readonly ended: number };

interface Asked {
  readonly from: number;
  readonly before: TableJson;
  readonly after: TableJson;
  /** Between the two. */
  readonly differences: readonly Difference[];
  readonly ends?: Ends | undefined;
}

export async function livePlan({ connected, calls, instances }: PlanDeps, asked: Asked): Promise<PlanBody> {
  const { from, before, after, differences, ends } = asked;
  const names = namespaceNames(before, after);
  const moving = differences.filter(moves);
  const namespaces = distinct(moving.map(({ ns }) => ns));
  const usersIn = (some: readonly string[]) => connected.usersIn(some);
  const isIn = (ns: string, user: string) => connected.socketsOf(ns, user).length > 0;
  const listed = moving.flatMap(({ ns, after }) => (after.canary?.users ?? []).filter((user) => isIn(ns, user)));
  const live = namespaces.length > 0 || (ends && 'which' in ends) ? await liveIn(calls) : NONE;
  const count = (path: 'new' | 'legacy', which: (ns: string) => boolean) =>
    [...(live ?? NONE)].reduce((sum, [ns, counts]) => sum + (which(ns) ? counts[path] : 0), 0);
  const concerned = (ns: string) => namespaces.includes(ns);
  const unservable = unservableIn(connected, differences);
  const figures = {
    from,
    differences,
    namespaces: names,
    events: eventsOf(moving),
    connectedUsers: connected.usersIn(namespaces),
    listedUsers: new Set(listed).size,
    liveCalls: { new: count('new', concerned), legacy: count('legacy', concerned) },
    endedCalls: !ends ? 0 : 'ended' in ends ? ends.ended : count('new', ends.which),
    unservable: { foreign: unservable.foreign, unverified: unservable.refused + unservable.left },
  };
  const staying = {
    legacy: figures.liveCalls.legacy,
    new: count('new', (ns) => concerned(ns) && !(ends && 'which' in ends && ends.which(ns))),
  };
  const lines = [
    ...(differences.length === 0 ? [] : differenceLines(differences, { usersIn, isIn })),
    ...namespaceLines(names, { usersIn }),
    ...peeledLines(differences, after),
  ];
  if (lines.length === 0) lines.push('changes nothing: the table is already like that');
  for (const path of ['legacy', 'new'] as const) if (staying[path] > 0) lines.push(stayingLine(staying[path], path));
  if (figures.endedCalls > 0) lines.push(`ends ${counted(figures.endedCalls, 'live call')} of the new path at once`);
  if (live === null) lines.push(UNCOUNTED);
  const several = moving.length > 0 ? (await instances.all()).length : 1;
  const whose =
    several > 1 ? [`of ${several} instances, users and calls of the legacy are counted on this one only`] : [];
  return { ...figures, lines: [...lines, ...unservableLines(unservable), ...whose] };
}

const NONE: ReadonlyMap<string, { readonly new: number; readonly legacy: number }> = new Map();
const UNCOUNTED = "how many live calls it concerns can't be counted: what the instances share can't be reached now";

/** Null: not while what is shared is away, which keeps nobody from looking at a change, or making it. */
async function liveIn(calls: PlanDeps['calls']): Promise<typeof NONE | null> {
  try {
    return await calls.byNamespace();
  } catch (error) {
    if (error instanceof Unavailable) return null;
    throw error;
  }
}

/** Where the numbers could not be had. */
export const uncountedPlan = ({ from, before, after, differences, ends }: Asked): PlanBody => ({
  from,
  differences,
  namespaces: namespaceNames(before, after),
  events: eventsOf(differences.filter(moves)),
  connectedUsers: 0,
  listedUsers: 0,
  liveCalls: { new: 0, legacy: 0 },
  endedCalls: ends && 'ended' in ends ? ends.ended : 0,
  unservable: { foreign: 0, unverified: 0 },
  lines: ['whom it concerns could not be counted; the log says why'],
});

const eventsOf = (moving: readonly Difference[]): readonly string[] =>
  distinct(moving.flatMap(({ group }) => groups[group]));

interface Unservable {
  readonly foreign: number;
  /** Sockets whose token can't be verified, by what becomes of what they send. */
  readonly refused: number;
  readonly left: number;
}

/** Where something is on the new path that was not, or is `sole` that was not. */
function unservableIn(connected: Connected, differences: readonly Difference[]): Unservable {
  const here = differences.filter(
    (difference) => difference.after.mode !== 'legacy' && (moves(difference) || soleFromNow(difference)),
  );
  if (here.length === 0) return { foreign: 0, refused: 0, left: 0 };
  const { foreign, namespaces } = connected.figures();
  const sole = new Set(here.filter(({ after }) => after.sole).map(({ ns }) => ns));
  const unverified = (which: (ns: string) => boolean) =>
    distinct(here.map(({ ns }) => ns))
      .filter(which)
      .reduce((sum, ns) => sum + (namespaces.get(ns)?.unverified ?? 0), 0);
  return { foreign, refused: unverified((ns) => sole.has(ns)), left: unverified((ns) => !sole.has(ns)) };
}
const soleFromNow = ({ before, after }: Difference): boolean => after.sole && !before.sole;

function unservableLines({ foreign, refused, left }: Unservable): string[] {
  const lines: string[] = [];
  const sockets = (n: number) => `${counted(n, 'socket')} whose token can't be verified`;
  if (foreign > 0) lines.push(`can't serve ${counted(foreign, 'connection')} with another protocol: the legacy does`);
  if (left > 0) lines.push(`can't serve ${sockets(left)}: the legacy does`);
  if (refused > 0) lines.push(`refuses ${sockets(refused)}: with sole the legacy is not asked`);
  return lines;
}

const distinct = <T>(all: readonly T[]): readonly T[] => [...new Set(all)];
const stayingLine = (live: number, path: string): string =>
  `${counted(live, 'live call')} ${live === 1 ? 'stays' : 'stay'} on ${path} until ${live === 1 ? 'it ends' : 'they end'}`;

/**
 * The route that a request asks for, with what it leaves out left out: it stays as it is in force. `merged`: limits of a guard
 * were completed from the table in force, which must not change meanwhile.
 */
export function routeAsked(
  { mode, sole, fallback, guard, ...rest }: SetInput,
  table: RouteTable,
): { readonly route: RouteInput; readonly merged: boolean } {
  const { percent, users, conversations, salt, excludeUsers, excludeConversations } = rest;
  const exclude = given({ users: excludeUsers, conversations: excludeConversations });
  const canary = {
    ...given({ percent, users, conversations, salt }),
    ...(Object.keys(exclude).length > 0 ? { exclude } : {}),
  };
  const limits = typeof guard === 'object' ? given(guard) : undefined;
  return {
    merged: limits !== undefined,
    route: {
      mode,
      ...given({ sole, fallback }),
      ...(Object.keys(canary).length > 0 ? { canary: canary as Partial<Canary> } : {}),
      ...(guard === 'off' ? { guard: null } : {}),
      ...(limits ? { guard: { ...(inForce(rest, table).guard ?? defaultGuard), ...limits } } : {}),
    },
  };
}

/** Of `calls`: the lifecycle's. */
function inForce({ namespace = '/', target }: Pick<SetInput, 'namespace' | 'target'>, table: RouteTable): GroupRoute {
  const group = groupNames.find((name) => name === target) ?? 'call-lifecycle';
  return table.route(namespace, groups[group][0] ?? group);
}

/** Without what is undefined. */
function given<T extends object>(fields: T): { [Key in keyof T]?: Exclude<T[Key], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never;
}
