// The route table as a value: which path serves which event in which namespace, read from YAML and checked so that no
// call can be split. Knows no file system, no live calls and no owner of a call; `decide.ts` weighs those.
import { isDeepStrictEqual } from 'node:util';
import { LineCounter, parseDocument } from 'yaml';
import { type Checked, namespaceFault, quoted, tableFaults } from './check.js';
import { Nodes } from './nodes.js';
import { type ReadRoute, readRoute } from './read-route.js';
import {
  type Group,
  type GroupRoute,
  groupNames,
  groupOf,
  groups,
  type RouteTable,
  routeTable,
  shownRoute,
} from './route.js';

export { tableOf } from './check.js';
export { formatTable } from './format.js';
export * from './route.js';

export type ParsedTable = Checked<'table', RouteTable>;

/**
 * Reads a route table. Never throws: each problem is one line, `file:line: what is wrong; how to mend it`. `file` is only
 * used in those lines. An empty text is a table that leaves everything to the legacy.
 */
export function parseRouteTable(text: string, file: string): ParsedTable {
  if (text.length > MAX_CHARACTERS) {
    return { ok: false, problems: [`${file}:1: the file has over ${MAX_CHARACTERS} characters; is it a route table?`] };
  }
  if (marks(text) > MOST_MARKS) {
    return { ok: false, problems: [`${file}:1: the file has over ${MOST_MARKS} entries; is it a route table?`] };
  }
  const lines = new LineCounter();
  const doc = parseDocument(text, { lineCounter: lines, uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
  const nodes = new Nodes(doc, file, lines);
  for (const error of doc.errors) {
    nodes.problem(error.pos[0], `not valid YAML: ${oneLine(error.message)}`, 'correct the syntax');
  }
  if (doc.errors.length > 0) return { ok: false, problems: shortened(nodes.problems, file) };
  const table = routeTable(readTable(nodes));
  nodes.problems.push(...tableFaults(table).map((fault) => `${file}:1: ${fault}`));
  return nodes.problems.length > 0 ? { ok: false, problems: shortened(nodes.problems, file) } : { ok: true, table };
}

/** Far over any sensible table; keeps a wrong file (a log, say) from being parsed on the event loop. */
const MAX_CHARACTERS = 256 * 1024;

/**
 * Reading a file takes the event loop for about 6 µs an entry. The most that a table may hold are 10,000 ids and, with 200
 * namespaces, some 30,000 words around them.
 */
const MOST_MARKS = 50_000;
/** How many characters there are that begin or end an entry: , [ { and the line's end, : and - before a space. */
function marks(text: string): number {
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === 0x2c || code === 0x5b || code === 0x7b || code === 0x0a) count++;
    else if ((code === 0x3a || code === 0x2d) && text.charCodeAt(i + 1) === 0x20) count++;
  }
  return count;
}

/** Enough to mend it by. */
const MOST_PROBLEMS = 20;
const shortened = (problems: readonly string[], file: string): readonly string[] =>
  problems.length <= MOST_PROBLEMS
    ? problems
    : [
        ...problems.slice(0, MOST_PROBLEMS),
        `${file}:1: and ${problems.length - MOST_PROBLEMS} more like these; mend the first ones, then look again`,
      ];

const allEvents = [...groupOf.keys()];
const KEYS = [...new Set(['calls', ...groupNames, ...allEvents])];

/** What a key of a namespace stands for. */
const eventsOf = (key: string): readonly string[] | undefined => {
  if (key === 'calls') return allEvents;
  if (Object.hasOwn(groups, key)) return groups[key as Group];
  return groupOf.has(key) ? [key] : undefined;
};

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

type Routes = Partial<Record<Group, GroupRoute>>;

function readTable(nodes: Nodes): Map<string, Routes> {
  const tables = new Map<string, Routes>();
  for (const { key, at, value } of nodes.entries(nodes.root, 0, 'the file', 'start it with "namespaces:"')) {
    if (key !== 'namespaces') {
      nodes.problem(at, `unknown key ${quoted(key)}`, 'the only key at the top is "namespaces", remove this one');
      continue;
    }
    for (const ns of nodes.entries(value, at, '"namespaces"', 'put a namespace under it, such as "/:"')) {
      const wrong = namespaceFault(ns.key);
      if (wrong) nodes.problem(ns.at, wrong.what, wrong.mend);
      const routes = readNamespace(nodes, ns.key, ns.at, ns.value);
      if (!wrong) tables.set(ns.key, routes);
    }
  }
  return tables;
}

/** A route of one event, and where it was written. */
interface Written extends ReadRoute {
  readonly key: string;
  readonly at: number;
}

function readNamespace(nodes: Nodes, ns: string, at: number, node: unknown): Routes {
  const written = new Map<string, Written>();
  let strange = false;
  const what = `namespace ${quoted(ns)}`;
  for (const entry of nodes.entries(node, at, what, 'put routes under it, such as "calls: new"')) {
    const events = eventsOf(entry.key);
    if (!events) {
      strange = true;
      nodes.problem(entry.at, `unknown event or group ${quoted(entry.key)}`, `write one of ${KEYS.join(', ')}`);
      // What is a route all the same is wrong for itself.
      if (nodes.value(entry.value, 'mode') !== undefined) readRoute(nodes, entry.key, entry.at, entry.value);
      continue;
    }
    const read = readRoute(nodes, entry.key, entry.at, entry.value);
    const clash = events.map((event) => written.get(event)).find((earlier) => earlier !== undefined);
    if (clash) {
      const event = events.find((name) => written.has(name));
      nodes.problem(
        entry.at,
        `${quoted(entry.key)} sets ${event} again, which ${quoted(clash.key)} set on line ${nodes.line(clash.at)}`,
        `remove one of the two${entry.key === 'calls' || clash.key === 'calls' ? `, or name the groups instead of "calls": ${groupNames.join(', ')}` : ''}`,
      );
      continue;
    }
    for (const event of events) written.set(event, { ...read, key: entry.key, at: entry.at });
  }
  return wholeGroups(nodes, ns, written, strange);
}

/** Refuses what would split a call. `strange`: a key was not known, which may be one that is missing, and has been told. */
function wholeGroups(nodes: Nodes, ns: string, written: ReadonlyMap<string, Written>, strange: boolean): Routes {
  const routes: Routes = {};
  for (const group of groupNames) {
    const named = groups[group].flatMap((event) => written.get(event) ?? []);
    // Of a route whose mode can't be told nothing is said here.
    const [first, ...others] = named.filter(({ mode }) => mode !== undefined);
    if (!first) continue;
    const missing = strange ? [] : groups[group].filter((event) => !written.has(event));
    const differs = others.find((other) => !alike(first, other));
    if (differs || (missing.length > 0 && first.mode !== 'legacy')) {
      const wanted = [first, ...others].find(({ mode }) => mode !== 'legacy') ?? first;
      nodes.problem(
        (differs ?? first).at,
        `in ${quoted(ns)} ${differs ? difference(first, differs) : alone(first, missing)}, but the events of ${group} share one state and must be on one path`,
        `write "${group}: ${asValue(wanted)}" instead of its events`,
      );
    }
    if (first.route) routes[group] = first.route;
  }
  return routes;
}

/** Of one that is faulty the mode alone is compared. */
const alike = (a: Written, b: Written): boolean =>
  a.route && b.route ? isDeepStrictEqual(a.route, b.route) : a.mode === b.mode;

const shown = ({ mode, route }: Written): string => (route ? shownRoute(route) : String(mode));

function difference(first: Written, other: Written): string {
  const [a, b] = [shown(first), shown(other)];
  return a === b
    ? `${other.key} and ${first.key} are both ${a} but differ in what goes with it`
    : `${other.key} is ${b} and ${first.key} is ${a}`;
}

const alone = (first: Written, missing: readonly string[]): string =>
  `${first.key} is ${shown(first)} and ${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} legacy`;

function asValue({ mode, route }: Written): string {
  if (mode === 'canary') return `{ mode: canary, percent: ${route?.canary?.percent ?? 5}, … }`;
  return route?.sole ? `{ mode: ${mode}, sole: true }` : String(mode);
}
