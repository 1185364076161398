// What a route is: modes, the groups of events that flip as one, the share of a canary, the limits of a guard; and a whole
// table of them as a value. Knows no file format (`table.ts`), no change (`change.ts`) and no live call.
import { inShare } from './cohort.js';

export type Mode = 'legacy' | 'new' | 'canary';
export type Group = 'call-lifecycle' | 'ice-candidate' | 'call-renegotiation';

/** Events that always flip as one. Source: the 1:1 call contract, a call's events share one state. */
export const groups: Readonly<Record<Group, readonly string[]>> = {
  'call-lifecycle': ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer', 'call-end'],
  'ice-candidate': ['ice-candidate'],
  'call-renegotiation': ['call-renegotiate-offer', 'call-renegotiate-answer'],
};
export const groupNames: readonly Group[] = ['call-lifecycle', 'ice-candidate', 'call-renegotiation'];

/** The group of an event; undefined for what is no event of a call. */
export const groupOf: ReadonlyMap<string, Group> = new Map(
  groupNames.flatMap((group) => groups[group].map((event) => [event, group] as const)),
);

/** Which calls a canary takes. `exclude` wins over the lists, the lists over the share. */
export interface Canary {
  /** Share of the conversations: 0 to 100, two decimals. Raising it never takes a conversation out. */
  readonly percent: number;
  /** Another salt draws another share. */
  readonly salt: string;
  /** Calls that one of these users offers are always in. */
  readonly users: readonly string[];
  readonly conversations: readonly string[];
  /** Never in: calls of these users, whether they offer or are offered, and these conversations. */
  readonly exclude: { readonly users: readonly string[]; readonly conversations: readonly string[] };
}

/** When the guard takes a group back to the legacy; shares are 0 to 1. Crossed means over, not at. */
export interface GuardLimits {
  /** Length of the sliding window, milliseconds. */
  readonly windowMs: number;
  /** Below this many events in the window nothing is concluded. */
  readonly minSamples: number;
  /** Share of events that ended in an internal error. */
  readonly maxErrors: number;
  /** Share of events refused with what a legacy never says (`own` in the catalogue, internal errors aside). */
  readonly maxRefusals: number;
  /** 99th percentile of serving, without the ticket; milliseconds. */
  readonly maxP99Ms: number;
}

export const defaultGuard: GuardLimits = Object.freeze({
  windowMs: 60_000,
  minSamples: 50,
  maxErrors: 0.01,
  maxRefusals: 0.05,
  maxP99Ms: 500,
});
export const defaultSalt = 'sigfig';

export interface GroupRoute {
  readonly mode: Mode;
  /** The legacy's handlers are gone: nothing of the group is forwarded any more. Only with mode `new`. */
  readonly sole: boolean;
  /** Set with mode `canary` and only then. */
  readonly canary: Canary | null;
  /** Where the new path is unwell: `legacy` sends new offers there; `refuse` answers that signaling is unavailable. */
  readonly fallback: 'legacy' | 'refuse';
  /** Null: the guard is off for this group. */
  readonly guard: GuardLimits | null;
}

/** A route with what may be left out; `route` fills it in. */
export type RouteInput = { readonly mode: Mode } & {
  readonly [Key in Exclude<keyof GroupRoute, 'mode' | 'canary'>]?: GroupRoute[Key];
} & { readonly canary?: Partial<Canary> | null };

/** `fallback` is `legacy` by default for a canary, `refuse` otherwise; a guard has the default limits. */
export function route(input: RouteInput): GroupRoute {
  const { mode, sole = false, guard = defaultGuard } = input;
  const canary =
    mode === 'canary'
      ? {
          percent: 0,
          salt: defaultSalt,
          users: [],
          conversations: [],
          exclude: { users: [], conversations: [] },
          ...input.canary,
        }
      : null;
  const fallback = input.fallback ?? (mode === 'canary' ? 'legacy' : 'refuse');
  return { mode, sole, canary, fallback, guard };
}

export type NamespaceRoutes = Readonly<Record<Group, GroupRoute>>;
/** A table as plain JSON: what the log keeps and the admin API shows. */
export interface TableJson {
  readonly namespaces: Readonly<Record<string, NamespaceRoutes>>;
}

export interface RouteTable {
  /** The route of the event's group; mode `legacy` for everything that the table does not name. */
  route(ns: string, event: string): GroupRoute;
  mode(ns: string, event: string): Mode;
  sole(ns: string, event: string): boolean;
  /** Whether a canary has an `exclude.users` list that holds this user, for the group of the event. */
  excludes(ns: string, event: string, user: string): boolean;
  /**
   * Where a call that begins now would have the events of this event's group: `new` or `legacy`, and whether a canary
   * or a plain mode says so. `user`: who offers the call.
   */
  wants(ns: string, event: string, conversationId: string, user: string | undefined): Wanted;
  /** The named ones, `/` among them, in the order of the file. */
  readonly namespaces: readonly string[];
  /** One line: `/: call-lifecycle canary 5 %, ice-candidate new, call-renegotiation legacy`. */
  readonly summary: string;
  toJSON(): TableJson;
}

export interface Wanted {
  readonly path: 'legacy' | 'new';
  readonly because: 'route' | 'canary';
}

const byRoute = { legacy: { path: 'legacy', because: 'route' }, new: { path: 'new', because: 'route' } } as const;
const byCanary = { legacy: { path: 'legacy', because: 'canary' }, new: { path: 'new', because: 'canary' } } as const;

/** A table as a value from the routes of each namespace's groups; what is not named is `legacy`. */
export function routeTable(
  named: ReadonlyMap<string, Readonly<Partial<Record<Group, GroupRoute | RouteInput>>>>,
): RouteTable {
  const byNamespace = new Map<string, NamespaceRoutes>();
  const byEvent = new Map<string, Map<string, Compiled>>();
  const withRoot = named.has('/') ? named : new Map([['/', {}] as const, ...named]);
  for (const [ns, routes] of withRoot) {
    const full = Object.fromEntries(
      groupNames.map((group) => [group, route(routes[group] ?? { mode: 'legacy' })]),
    ) as unknown as NamespaceRoutes;
    byNamespace.set(ns, full);
    byEvent.set(
      ns,
      new Map(
        groupNames.flatMap((group) => {
          const compiled = compile(full[group]);
          return groups[group].map((event) => [event, compiled] as const);
        }),
      ),
    );
  }
  const found = (ns: string, event: string): Compiled => byEvent.get(ns)?.get(event) ?? LEGACY;
  const summary = [...byNamespace].map(
    ([ns, routes]) => `${ns}: ${groupNames.map((group) => `${group} ${shownRoute(routes[group])}`).join(', ')}`,
  );
  return {
    route: (ns, event) => found(ns, event).route,
    mode: (ns, event) => found(ns, event).route.mode,
    sole: (ns, event) => found(ns, event).route.sole,
    excludes: (ns, event, user) => found(ns, event).excludedUsers.has(user),
    wants(ns, event, conversationId, user) {
      const { route: wanted, ...lists } = found(ns, event);
      if (wanted.canary === null) return wanted.mode === 'new' ? byRoute.new : byRoute.legacy;
      if (lists.excludedConversations.has(conversationId)) return byCanary.legacy;
      if (user !== undefined && lists.excludedUsers.has(user)) return byCanary.legacy;
      if (lists.conversations.has(conversationId)) return byCanary.new;
      if (user !== undefined && lists.users.has(user)) return byCanary.new;
      return inShare(wanted.canary.salt, conversationId, wanted.canary.percent) ? byCanary.new : byCanary.legacy;
    },
    namespaces: [...byNamespace.keys()],
    summary: summary.join('; '),
    toJSON: () => ({ namespaces: Object.fromEntries(byNamespace) }),
  };
}

/** `canary 5 %`, `new (sole)`, `legacy`. */
export function shownRoute({ mode, sole, canary }: GroupRoute): string {
  if (canary) return `canary ${canary.percent} %`;
  return sole ? `${mode} (sole)` : mode;
}

interface Compiled {
  readonly route: GroupRoute;
  readonly users: ReadonlySet<string>;
  readonly conversations: ReadonlySet<string>;
  readonly excludedUsers: ReadonlySet<string>;
  readonly excludedConversations: ReadonlySet<string>;
}

function compile(of: GroupRoute): Compiled {
  const { canary } = of;
  return {
    route: of,
    users: new Set(canary?.users),
    conversations: new Set(canary?.conversations),
    excludedUsers: new Set(canary?.exclude.users),
    excludedConversations: new Set(canary?.exclude.conversations),
  };
}
const LEGACY: Compiled = compile(route({ mode: 'legacy' }));
