// What a route, a table and a version of it must be, wherever they come from: a file, the log, the admin API. Knows no YAML
// and no line numbers; a fault names the key that it is about.
import { z } from 'zod';
import type { RouteVersion } from './change.js';
import {
  type Canary,
  type Group,
  type GroupRoute,
  type GuardLimits,
  groupNames,
  type RouteTable,
  route,
  routeTable,
  type TableJson,
} from './route.js';

/** Keys are as in a routes file: `percent`, `exclude.users`, `guard.window`. */
export interface Fault {
  readonly key: string;
  readonly what: string;
  readonly mend: string;
}

/** Of one list. A longer one is a cohort, which `percent` is for; it is looked up in memory for each offer. */
export const MOST_IDS = 1_000;
export const LONGEST_ID = 256;
export const LONGEST_SALT = 64;
/** Of a whole table. */
export const MOST_IDS_OF_ALL = 10_000;
/** A client's namespaces are few; each costs a line in every summary. */
export const MOST_NAMESPACES = 200;
/** Characters of a table as JSON. Each version keeps two of them, in memory and in the log. */
export const LARGEST_TABLE = 256 * 1024;
export const LONGEST_REASON = 1_000;
export const LONGEST_ACTOR = 100;

/** Everything that is wrong with a route that has the right types; `name` is how it is called in the lines. */
export function routeFaults(name: string, { mode, sole, canary, fallback, guard }: GroupRoute): readonly Fault[] {
  const faults: Fault[] = [];
  const fault = (key: string, what: string, mend: string) => void faults.push({ key, what, mend });
  if (sole && mode !== 'new') {
    fault(
      'sole',
      `${quoted(name)} is sole with mode ${mode}, but sole says that the legacy serves it no more`,
      'write "mode: new", or remove "sole"',
    );
  }
  if (sole && mode === 'new' && fallback === 'legacy') {
    fault(
      'fallback',
      `${quoted(name)} falls back to the legacy, but sole says that the legacy serves it no more`,
      'write "fallback: refuse", or remove "sole"',
    );
  }
  if (canary) canaryFaults(name, canary, fault);
  if (guard) guardFaults(name, guard, fault);
  return faults;
}

type Told = (key: string, what: string, mend: string) => void;

function canaryFaults(name: string, canary: Canary, fault: Told): void {
  if (!isPercent(canary.percent)) {
    fault(
      'percent',
      `"percent" of ${quoted(name)} is ${shown(canary.percent)}`,
      'write a number from 0 to 100 with at most two decimals, such as 5 or 0.25',
    );
  }
  if (canary.salt.length === 0 || canary.salt.length > LONGEST_SALT) {
    fault('salt', `"salt" of ${quoted(name)} has ${canary.salt.length} characters`, `write 1 to ${LONGEST_SALT}`);
  }
  const lists = [
    ['users', canary.users],
    ['conversations', canary.conversations],
    ['exclude.users', canary.exclude.users],
    ['exclude.conversations', canary.exclude.conversations],
  ] as const;
  for (const [key, ids] of lists) {
    if (ids.length > MOST_IDS) {
      fault(
        key,
        `"${key}" of ${quoted(name)} holds ${ids.length} ids, over ${MOST_IDS}`,
        'use "percent" for so many, or shorten the list',
      );
    }
    const wrong = ids.find((id) => id.length === 0 || id.length > LONGEST_ID);
    if (wrong !== undefined) {
      fault(
        key,
        `"${key}" of ${quoted(name)} holds ${wrong === '' ? 'an empty id' : `an id of ${wrong.length} characters`}`,
        `write ids of 1 to ${LONGEST_ID} characters`,
      );
    }
  }
}

const HOUR = 3_600_000;

function guardFaults(name: string, guard: GuardLimits, fault: Told): void {
  const whole = (key: string, value: number, least: number, most: number, mend: string) => {
    if (!Number.isInteger(value) || value < least || value > most)
      fault(`guard.${key}`, `"guard.${key}" of ${quoted(name)} is ${shown(value)}`, mend);
  };
  whole('window', guard.windowMs, 1_000, HOUR, 'write 1s to 60m');
  whole('min-samples', guard.minSamples, 1, 1_000_000, 'write a whole number from 1 to 1000000');
  whole('max-p99', guard.maxP99Ms, 1, 60_000, 'write 1ms to 60s');
  for (const [key, share] of [
    ['max-errors-percent', guard.maxErrors],
    ['max-refusals-percent', guard.maxRefusals],
  ] as const) {
    if (!isShare(share)) {
      fault(
        `guard.${key}`,
        `"guard.${key}" of ${quoted(name)} is ${shown(percentOf(share))}`,
        'write a number from 0 to 100 with at most two decimals',
      );
    }
  }
}

/** 0 to 100 with at most two decimals. */
export const isPercent = (value: number): boolean =>
  Number.isFinite(value) && value >= 0 && value <= 100 && Math.round(value * 100) / 100 === value;
/** A share that is a percentage with at most two decimals. */
const isShare = (share: number): boolean => isPercent(percentOf(share)) && shareOf(percentOf(share)) === share;
/** A share of 0 to 1 as a percentage, without the noise of binary fractions. */
export const percentOf = (share: number): number => Number((share * 100).toFixed(8));
export const shareOf = (percent: number): number => Number((percent / 100).toFixed(10));

const NAMESPACE = /^\/[^\s,?]*$/;
/** What is wrong with the name of a namespace, and the mend; null where nothing is. */
export function namespaceFault(ns: string): Omit<Fault, 'key'> | null {
  if (!ns.startsWith('/')) {
    return { what: `namespace ${quoted(ns)} does not start with "/"`, mend: `write ${quoted(`/${ns}`)}` };
  }
  if (NAMESPACE.test(ns) && ns.length <= LONGEST_ID) return null;
  if (ns.length > LONGEST_ID) {
    return { what: `namespace ${quoted(ns)} has ${ns.length} characters`, mend: `write at most ${LONGEST_ID}` };
  }
  return { what: `namespace ${quoted(ns)} holds a space, "," or "?"`, mend: 'no Socket.IO namespace can; remove it' };
}

/** What is wrong with a table as a whole, one line each. */
export function tableFaults(table: RouteTable): readonly string[] {
  const faults: string[] = [];
  if (table.namespaces.length > MOST_NAMESPACES) {
    faults.push(`the table names ${table.namespaces.length} namespaces, over ${MOST_NAMESPACES}; remove some`);
  }
  const json = table.toJSON();
  const ids = Object.values(json.namespaces)
    .flatMap((routes) => Object.values(routes))
    .reduce((sum, { canary }) => sum + (canary ? idsOf(canary) : 0), 0);
  if (ids > MOST_IDS_OF_ALL) {
    faults.push(`the table's lists hold ${ids} ids, over ${MOST_IDS_OF_ALL}; use "percent" for so many`);
  }
  const size = JSON.stringify(json).length;
  if (size > LARGEST_TABLE) {
    faults.push(`the table is ${size} characters as JSON, over ${LARGEST_TABLE}; shorten its lists`);
  }
  return faults;
}

const idsOf = ({ users, conversations, exclude }: Canary): number =>
  users.length + conversations.length + exclude.users.length + exclude.conversations.length;

const id = z.string();
const canaryShape = z.strictObject({
  percent: z.number(),
  salt: z.string(),
  users: z.array(id),
  conversations: z.array(id),
  exclude: z.strictObject({ users: z.array(id), conversations: z.array(id) }),
});
const guardShape = z.strictObject({
  windowMs: z.number(),
  minSamples: z.number(),
  maxErrors: z.number(),
  maxRefusals: z.number(),
  maxP99Ms: z.number(),
});
const routeShape = z
  .strictObject({
    mode: z.enum(['legacy', 'new', 'canary']),
    sole: z.boolean(),
    canary: canaryShape.nullable(),
    fallback: z.enum(['legacy', 'refuse']),
    guard: guardShape.nullable(),
  })
  .refine(({ mode, canary }) => (mode === 'canary') === (canary !== null), 'mode and canary do not go together');
const namespaceShape = z.strictObject(
  Object.fromEntries(groupNames.map((group) => [group, routeShape])) as Record<Group, typeof routeShape>,
);
const tableShape = z.strictObject({ namespaces: z.record(z.string(), namespaceShape) });
const versionShape = z.strictObject({
  version: z.int().min(1),
  at: z.iso.datetime(),
  actor: z.string().max(LONGEST_ACTOR),
  via: z.enum(['cli', 'dashboard', 'api', 'file', 'guard', 'start']),
  kind: z.enum(['set', 'apply', 'file', 'rollback', 'legacy', 'guard', 'start']),
  reason: z.string().max(LONGEST_REASON),
  before: tableShape,
  after: tableShape,
  fileHash: z
    .string()
    .regex(/^[0-9a-f]{64}$/)
    .optional(),
});

export type Checked<Key extends string, T> =
  | ({ readonly ok: true } & { readonly [K in Key]: T })
  | { readonly ok: false; readonly problems: readonly string[] };

/** A table from JSON that somebody else wrote: the log, Redis. Each problem is one line, with the place in the JSON. */
export function tableOf(json: unknown): Checked<'table', RouteTable> {
  const read = tableShape.safeParse(json);
  if (!read.success) return { ok: false, problems: issues(read.error) };
  const problems: string[] = [];
  const named = new Map<string, Record<Group, GroupRoute>>();
  for (const [ns, routes] of Object.entries(read.data.namespaces)) {
    const wrong = namespaceFault(ns);
    if (wrong) problems.push(`${wrong.what}; ${wrong.mend}`);
    for (const group of groupNames) {
      for (const fault of routeFaults(group, routes[group])) problems.push(`in ${quoted(ns)} ${line(fault)}`);
    }
    named.set(
      ns,
      Object.fromEntries(groupNames.map((group) => [group, route(routes[group])])) as Record<Group, GroupRoute>,
    );
  }
  const table = routeTable(named);
  problems.push(...tableFaults(table));
  return problems.length > 0 ? { ok: false, problems } : { ok: true, table };
}

/** An entry of a log. */
export function versionOf(json: unknown): Checked<'version', RouteVersion> {
  const read = versionShape.safeParse(json);
  if (!read.success) return { ok: false, problems: issues(read.error) };
  const { fileHash, ...rest } = read.data;
  const tables: { before?: TableJson; after?: TableJson } = {};
  for (const key of ['before', 'after'] as const) {
    const table = tableOf(rest[key]);
    if (!table.ok) return { ok: false, problems: table.problems.map((problem) => `${key}: ${problem}`) };
    tables[key] = table.table.toJSON();
  }
  const version = { ...rest, ...(tables as Required<typeof tables>), ...(fileHash === undefined ? {} : { fileHash }) };
  return { ok: true, version };
}

export const line = ({ what, mend }: Omit<Fault, 'key'>): string => `${what}; ${mend}`;
export const quoted = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
const shown = (value: number): string => (Number.isFinite(value) ? String(value) : 'no number');

/** Enough to mend it by; a wrong value of a thousand keys is not told a thousand times. */
const MOST_ISSUES = 5;
const issues = (error: z.ZodError): string[] =>
  error.issues.slice(0, MOST_ISSUES).map(({ path, message }) => `${path.map(String).join('.') || 'it'}: ${message}`);
