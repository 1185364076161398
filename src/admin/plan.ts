// What a change would do in live terms: who is connected, which calls stay where they are, what can't be served here; and a
// request to set a group as a route. Knows no HTTP; the numbers come from whoever counts.

import type { Difference } from '../routing/change.js';
import {
  type Canary,
  defaultGuard,
  type GroupRoute,
  groupNames,
  groups,
  type RouteInput,
  type RouteTable,
} from '../routing/route.js';
import type { LiveCalls } from '../signaling/live.js';
import type { PlanBody } from './api.js';
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
  readonly calls: Pick<LiveCalls, 'list' | 'counts'>;
}

export async function livePlan(
  { connected, calls }: PlanDeps,
  { from, differences, endCalls }: { from: number; differences: readonly Difference[]; endCalls: boolean },
): Promise<PlanBody> {
  const namespaces = [...new Set(differences.map(({ ns }) => ns))];
  const { foreign, namespaces: counted } = connected.figures();
  const unverified = namespaces.reduce((sum, ns) => sum + (counted.get(ns)?.unverified ?? 0), 0);
  const listedUsers = new Set(
    differences.flatMap(({ ns, after }) =>
      (after.canary?.users ?? []).filter((user) => connected.socketsOf(ns, user).length > 0),
    ),
  ).size;
  const live = async (path: 'new' | 'legacy') => (await calls.list({ ns: namespaces, path, limit: 1 })).total;
  const liveCalls =
    namespaces.length === 0 ? { new: 0, legacy: 0 } : { new: await live('new'), legacy: await live('legacy') };
  const figures = {
    from,
    differences,
    events: [...new Set(differences.flatMap(({ group }) => groups[group]))],
    connectedUsers: connected.usersIn(namespaces),
    listedUsers,
    liveCalls,
    endedCalls: endCalls ? (await calls.counts()).new : 0,
    unservable: { foreign: differences.length > 0 ? foreign : 0, unverified },
  };
  return { ...figures, lines: sentences(figures, endCalls) };
}

/** Where the numbers could not be had. */
export const uncountedPlan = (from: number, differences: readonly Difference[]): PlanBody => ({
  from,
  differences,
  events: [...new Set(differences.flatMap(({ group }) => groups[group]))],
  connectedUsers: 0,
  listedUsers: 0,
  liveCalls: { new: 0, legacy: 0 },
  endedCalls: 0,
  unservable: { foreign: 0, unverified: 0 },
  lines: ['whom it concerns could not be counted; the log says why'],
});

function sentences(plan: Omit<PlanBody, 'lines'>, endCalls: boolean): readonly string[] {
  const { differences, connectedUsers, listedUsers, liveCalls, endedCalls, unservable } = plan;
  const lines: string[] = [];
  if (differences.length === 0) lines.push('changes nothing: the table is already like that');
  else {
    lines.push(`moves ${counted(connectedUsers, 'connected user')}: calls that they begin from now on`);
    const share = shares(differences);
    if (share !== null) lines.push(`takes ${share} of their conversations into the canary`);
    if (listedUsers > 0) lines.push(`of these, ${counted(listedUsers, 'user')} always in the canary`);
    for (const path of ['legacy', 'new'] as const) {
      const live = liveCalls[path];
      if (live > 0 && !(endCalls && path === 'new')) lines.push(staying(live, path));
    }
  }
  if (endedCalls > 0) lines.push(`ends ${counted(endedCalls, 'live call')} of the new path at once`);
  if (unservable.foreign > 0) {
    lines.push(`can't serve ${counted(unservable.foreign, 'connection')} with another protocol: the legacy does`);
  }
  if (unservable.unverified > 0) {
    lines.push(
      `can't serve ${counted(unservable.unverified, 'socket')} whose token can't be verified: the legacy does`,
    );
  }
  return lines;
}

const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;
const staying = (n: number, path: string): string =>
  `${counted(n, 'live call')} ${n === 1 ? 'stays' : 'stay'} on ${path} until ${n === 1 ? 'it ends' : 'they end'}`;

/** The shares of the canaries that change, lowest to highest; null where none does. */
function shares(differences: readonly Difference[]): string | null {
  const percents = differences.flatMap(({ after }) => (after.canary ? [after.canary.percent] : []));
  if (percents.length === 0) return null;
  const [least, most] = [Math.min(...percents), Math.max(...percents)];
  return least === most ? `${least} %` : `${least} to ${most} %`;
}

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
