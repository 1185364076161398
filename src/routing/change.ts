// What a change makes of a route table: set a group, take over a whole table, go back to a version, everything to the legacy.
// A pure function from the table in force to the next one. Knows no log, no clock and nobody who asks.
import { isDeepStrictEqual } from 'node:util';
import { type Fault, line, namespaceFault, quoted, routeFaults, tableFaults, tableOf } from './check.js';
import {
  type Group,
  type GroupRoute,
  groupNames,
  groupOf,
  groups,
  type NamespaceRoutes,
  type RouteInput,
  type RouteTable,
  route,
  routeTable,
  type TableJson,
} from './route.js';
import { setCommand } from './set-command.js';

/** `target` names: a group, or `calls` for all three. */
export type Target = Group | 'calls';

export type Change =
  | { readonly kind: 'set'; readonly ns: string; readonly target: string; readonly route: RouteInput }
  | { readonly kind: 'apply'; readonly table: RouteTable }
  /** The watched file changed, or differs at the start from what was last logged. */
  | { readonly kind: 'file'; readonly table: RouteTable; readonly fileHash: string }
  /** To the table of that version; without one, to the table before the one in force. */
  | { readonly kind: 'rollback'; readonly to?: number }
  /** The big red switch. */
  | { readonly kind: 'legacy' }
  | { readonly kind: 'guard'; readonly ns: string; readonly group: Group }
  /** The first entry of a log. */
  | { readonly kind: 'start'; readonly table: RouteTable; readonly fileHash?: string };

/** One entry of the log, as plain JSON. */
export interface RouteVersion {
  /**
   * From 1, growing. Never one that was shown for another version since this process began; so a number may be left out,
   * where what was to have it could not be written.
   */
  readonly version: number;
  /** ISO 8601, UTC. */
  readonly at: string;
  readonly actor: string;
  readonly via: 'cli' | 'dashboard' | 'api' | 'file' | 'guard' | 'start';
  readonly kind: Change['kind'];
  readonly reason: string;
  readonly before: TableJson;
  readonly after: TableJson;
  /** SHA-256 (hex) of the routes file that this version came from, or that was last seen. */
  readonly fileHash?: string;
}

export interface Difference {
  readonly ns: string;
  readonly group: Group;
  readonly before: GroupRoute;
  readonly after: GroupRoute;
}

export type Planned =
  | { readonly ok: true; readonly table: RouteTable; readonly differences: readonly Difference[] }
  /** One line each: what is wrong, and the command that works. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** What `plan` starts from. */
export interface InForce {
  readonly version: RouteVersion;
  readonly table: RouteTable;
  /** A version by its number; undefined where there is none. Only asked for a `rollback` with a number. */
  find(version: number): RouteVersion | undefined;
}

/** The table that a change makes of the one in force, or why not. What is left out of a `set` stays as it is in force. */
export function plan(inForce: InForce, change: Change): Planned {
  const { table } = inForce;
  switch (change.kind) {
    case 'set':
      return planSet(table, change);
    case 'apply':
    case 'file':
    case 'start':
      return checked(table, change.table);
    case 'legacy':
      return planned(table, changed(table, table.namespaces, groupNames, allLegacy));
    case 'guard':
      return planGuard(table, change.ns, change.group);
    case 'rollback':
      return planRollback(inForce, change.to);
  }
}

/** By namespace and group; what a table does not name is on the legacy. */
export function differences(before: TableJson, after: TableJson): readonly Difference[] {
  const namespaces = new Set([...Object.keys(before.namespaces), ...Object.keys(after.namespaces)]);
  return [...namespaces].flatMap((ns) =>
    groupNames.flatMap((group) => {
      const [from, to] = [before, after].map((json) => json.namespaces[ns]?.[group] ?? UNNAMED) as [
        GroupRoute,
        GroupRoute,
      ];
      return isDeepStrictEqual(from, to) ? [] : [{ ns, group, before: from, after: to }];
    }),
  );
}
const UNNAMED = route({ mode: 'legacy' });

type SetChange = Extract<Change, { kind: 'set' }>;

function planSet(table: RouteTable, set: SetChange): Planned {
  const { ns, target, route: input } = set;
  const wrong = namespaceFault(ns);
  if (wrong) return refused(line(wrong));
  const targets = groupsOf(table, ns, target, input);
  if ('problems' in targets) return refused(...targets.problems);
  const { mode } = input as { readonly mode: string };
  if (mode !== 'legacy' && mode !== 'new' && mode !== 'canary') {
    return refused(
      mode === 'shadow'
        ? 'mode shadow is not in this version; write legacy, new or canary'
        : `there is no mode ${quoted(mode)}; write legacy, new or canary`,
    );
  }
  if (mode !== 'canary' && input.canary) {
    const command = canaryCommand(table, ns, target, input);
    return refused(
      `percent, salt and lists are of a canary, and this is mode ${mode}; leave them out${command ? `, or: ${command}` : ', or write canary'}`,
    );
  }
  const problems = new Set<string>();
  const next = changed(table, [...new Set([...table.namespaces, ns])], targets.groups, (current, group, at) => {
    if (at !== ns) return current;
    const wanted = merged(current, input);
    if (wanted.canary && !current.canary && takesNobody(input.canary)) {
      const command = canaryCommand(table, ns, target, input);
      problems.add(
        `a canary of ${group} needs a share or a list of who is in it; ${command ? `try: ${command}` : 'give --percent 5'}`,
      );
    }
    for (const fault of routeFaults(group, wanted)) {
      problems.add(line(COMMANDED.has(fault.key) ? asCommand(table, fault, group, set) : fault));
    }
    return wanted;
  });
  return problems.size > 0 ? { ok: false, problems: [...problems] } : checked(table, next);
}

/** Faults of what a routes file says together and a command leaves as it is in force. */
const COMMANDED: ReadonlySet<string> = new Set(['sole', 'fallback']);

/** With the command that works: "sole" means that nothing falls back; another mode, or a fallback, that it is no longer so. */
function asCommand(table: RouteTable, fault: Fault, group: Group, { ns, target, route: input }: SetChange): Fault {
  const way: RouteInput =
    input.sole && input.mode === 'new' ? { ...input, fallback: 'refuse' } : { ...input, sole: false };
  const taken = planSet(table, { kind: 'set', ns, target, route: way }).ok;
  const command = taken ? setCommand(ns, target, way) : null;
  // Said once for all groups of a target.
  const what = fault.what.replace(quoted(group), quoted(target));
  return command === null ? fault : { ...fault, what, mend: `try: ${command}` };
}

const takesNobody = (canary: RouteInput['canary']): boolean =>
  canary?.percent === undefined && !canary?.users?.length && !canary?.conversations?.length;

/**
 * The same as a canary that is taken: with a share where nobody would be in it, and without what no canary has. Null where
 * there is none, or no command line says it.
 */
function canaryCommand(
  table: RouteTable,
  ns: string,
  target: string,
  { sole: _, ...input }: RouteInput,
): string | null {
  const canary = input.canary ?? {};
  const asked: RouteInput = { ...input, mode: 'canary', canary };
  const begins = groupNames.some(
    (group) => (target === 'calls' || target === group) && !table.route(ns, groups[group][0] ?? group).canary,
  );
  const taken = [asked, { ...asked, canary: { ...canary, percent: 5 } }].find(
    (one) => !(begins && takesNobody(one.canary)) && planSet(table, { kind: 'set', ns, target, route: one }).ok,
  );
  return taken ? setCommand(ns, target, taken) : null;
}

/** The groups that a target names; an event that has others beside it in its group can't flip by itself. */
function groupsOf(
  table: RouteTable,
  ns: string,
  target: string,
  input: RouteInput,
): { readonly groups: readonly Group[] } | { readonly problems: readonly string[] } {
  if (target === 'calls') return { groups: groupNames };
  const named = groupNames.find((group) => group === target);
  if (named) return { groups: [named] };
  const group = groupOf.get(target);
  if (!group) {
    return {
      problems: [`there is no event or group ${quoted(target)}; write one of calls, ${groupNames.join(', ')}`],
    };
  }
  const others = groups[group].filter((event) => event !== target).join(', ');
  // What the group would be refused for as well is told with it, with its own mend.
  const whole = planSet(table, { kind: 'set', ns, target: group, route: input });
  const command = whole.ok ? setCommand(ns, group, input) : null;
  const how = command ? `flip the group: ${command}` : `flip the group: write ${group} in place of ${target}`;
  const problem = `${target} shares one state with ${others} and can't flip without them; ${how}`;
  return { problems: whole.ok ? [problem] : [problem, ...whole.problems] };
}

/** What is left out stays as it is in force; with another mode `fallback` and `sole` are that mode's own again. */
function merged(current: GroupRoute, input: RouteInput): GroupRoute {
  const same = current.mode === input.mode;
  const { exclude, ...rest } = given(input.canary ?? {});
  const fallback = input.fallback ?? (same ? current.fallback : undefined);
  return route({
    mode: input.mode,
    sole: input.sole ?? (same && current.sole),
    canary: input.mode === 'canary' ? { ...current.canary, ...rest, ...excluded(current, exclude) } : null,
    ...(fallback === undefined ? {} : { fallback }),
    guard: input.guard === undefined ? current.guard : input.guard,
  });
}

type Exclude = NonNullable<NonNullable<RouteInput['canary']>['exclude']>;
function excluded(current: GroupRoute, exclude: Partial<Exclude> | undefined): { readonly exclude?: Exclude } {
  if (!exclude) return {};
  return { exclude: { users: [], conversations: [], ...current.canary?.exclude, ...given(exclude) } };
}

/** Without what is undefined, which would overwrite. */
const given = <T extends object>(value: T): Partial<T> =>
  Object.fromEntries(Object.entries(value).filter(([, v]) => v !== undefined)) as Partial<T>;

const allLegacy = (current: GroupRoute): GroupRoute => route({ mode: 'legacy', guard: current.guard });

/**
 * Back to the legacy. With the lifecycle go the relays of its namespace: left on `new` they would begin to be served here for
 * the legacy's calls, which nobody asked for. A `sole` group has no legacy to go back to.
 */
function planGuard(table: RouteTable, ns: string, group: Group): Planned {
  if (table.route(ns, groups[group][0] ?? group).sole) {
    return refused(`${group} in ${quoted(ns)} is sole: the legacy serves it no more, so it can't go back there`);
  }
  const taken = group === 'call-lifecycle' ? groupNames : [group];
  return planned(
    table,
    changed(table, table.namespaces, taken, (current, _group, at) =>
      at !== ns || current.sole || current.mode === 'legacy' ? current : allLegacy(current),
    ),
  );
}

function planRollback({ version, table, find }: InForce, to: number | undefined): Planned {
  if (to === undefined && version.version === 1) {
    return refused('version 1 is the first, there is none before it; try: sigfig routes legacy --all');
  }
  const target = to === undefined ? version.before : to === version.version ? version.after : find(to)?.after;
  if (!target) return refused(`there is no version ${to}; "sigfig routes history" shows those that there are`);
  const read = tableOf(target);
  return read.ok ? planned(table, read.table) : { ok: false, problems: read.problems };
}

/** A table with some groups of some namespaces made anew. */
function changed(
  table: RouteTable,
  namespaces: readonly string[],
  which: readonly Group[],
  make: (current: GroupRoute, group: Group, ns: string) => GroupRoute,
): RouteTable {
  const json: TableJson = table.toJSON();
  return routeTable(
    new Map(
      namespaces.map((ns) => {
        const routes: NamespaceRoutes | undefined = json.namespaces[ns];
        const next = groupNames.map((group) => {
          const current = routes?.[group] ?? UNNAMED;
          return [group, which.includes(group) ? make(current, group, ns) : current] as const;
        });
        return [ns, Object.fromEntries(next)] as const;
      }),
    ),
  );
}

const refused = (...problems: string[]): Planned => ({ ok: false, problems });
const planned = (from: RouteTable, table: RouteTable): Planned => ({
  ok: true,
  table,
  differences: differences(from.toJSON(), table.toJSON()),
});
/** What comes from outside is looked at as a whole. */
function checked(from: RouteTable, table: RouteTable): Planned {
  const problems = tableFaults(table);
  return problems.length > 0 ? { ok: false, problems } : planned(from, table);
}
