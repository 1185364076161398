// The route table as a value: which path serves which event in which namespace, read from YAML and checked so that no
// call can be split. Knows no file system, no live calls and no owner of a call; `decide.ts` weighs those.
import { type Document, isAlias, isMap, isScalar, LineCounter, type Node, type Pair, parseDocument } from 'yaml';

import {
  type Group,
  type GroupRoute,
  groupNames,
  groupOf,
  groups,
  type Mode,
  type RouteTable,
  route as routeOf,
  routeTable,
} from './route.js';

export * from './route.js';

export type ParsedTable =
  | { readonly ok: true; readonly table: RouteTable }
  | { readonly ok: false; readonly problems: readonly string[] };

/**
 * Reads a route table. Never throws: each problem is one line, `file:line: what is wrong; how to mend it`. `file` is only
 * used in those lines. An empty text is a table that leaves everything to the legacy.
 */
export function parseRouteTable(text: string, file: string): ParsedTable {
  if (text.length > MAX_CHARACTERS) {
    return { ok: false, problems: [`${file}:1: the file has over ${MAX_CHARACTERS} characters; is it a route table?`] };
  }
  const lines = new LineCounter();
  const doc = parseDocument(text, { lineCounter: lines, uniqueKeys: false, prettyErrors: false, logLevel: 'silent' });
  const reader = new Reader(doc, file, lines);
  for (const error of doc.errors) {
    reader.problem(error.pos[0], `not valid YAML: ${oneLine(error.message)}`, 'correct the syntax');
  }
  if (doc.errors.length > 0) return { ok: false, problems: reader.problems };
  const routes = reader.table();
  return reader.problems.length > 0
    ? { ok: false, problems: reader.problems }
    : { ok: true, table: routeTable(routes) };
}

/** Far over any sensible table; keeps a wrong file (a log, say) from being parsed on the event loop. */
const MAX_CHARACTERS = 256 * 1024;

const allEvents = [...groupOf.keys()];
const KEYS = [...new Set(['calls', ...groupNames, ...allEvents])];

/** What a key of a namespace stands for. */
const eventsOf = (key: string): readonly string[] | undefined => {
  if (key === 'calls') return allEvents;
  if (key in groups) return groups[key as Group];
  return groupOf.has(key) ? [key] : undefined;
};

const oneLine = (text: string) => text.replace(/\s+/g, ' ').trim();

/** A route of one event, and where it was written. */
interface Written extends GroupRoute {
  readonly key: string;
  readonly at: number;
}

/** Walks the document's nodes, because only they know their lines, and collects every problem instead of the first. */
class Reader {
  readonly problems: string[] = [];
  private readonly doc: Document;
  private readonly file: string;
  private readonly lines: LineCounter;

  constructor(doc: Document, file: string, lines: LineCounter) {
    this.doc = doc;
    this.file = file;
    this.lines = lines;
  }

  problem(at: number, what: string, mend: string): void {
    this.problems.push(`${this.file}:${this.line(at)}: ${what}; ${mend}`);
  }

  table(): Map<string, Partial<Record<Group, GroupRoute>>> {
    const tables = new Map<string, Partial<Record<Group, GroupRoute>>>();
    for (const { key, at, value } of this.entries(this.doc.contents, 0, 'the file', 'start it with "namespaces:"')) {
      if (key !== 'namespaces') {
        this.problem(at, `unknown key ${quoted(key)}`, 'the only key at the top is "namespaces", remove this one');
        continue;
      }
      for (const ns of this.entries(value, at, '"namespaces"', 'put a namespace under it, such as "/:"')) {
        if (!ns.key.startsWith('/')) {
          this.problem(ns.at, `namespace ${quoted(ns.key)} does not start with "/"`, `write ${quoted(`/${ns.key}`)}`);
        } else if (/[\s,?]/.test(ns.key)) {
          this.problem(
            ns.at,
            `namespace ${quoted(ns.key)} holds a space, "," or "?"`,
            'no Socket.IO namespace can; remove it',
          );
        } else {
          tables.set(ns.key, this.namespace(ns.key, ns.at, ns.value));
        }
      }
    }
    return tables;
  }

  private namespace(ns: string, at: number, node: unknown): Partial<Record<Group, GroupRoute>> {
    const written = new Map<string, Written>();
    const before = this.problems.length;
    for (const entry of this.entries(
      node,
      at,
      `namespace ${quoted(ns)}`,
      'put routes under it, such as "calls: new"',
    )) {
      const events = eventsOf(entry.key);
      if (!events) {
        this.problem(entry.at, `unknown event or group ${quoted(entry.key)}`, `write one of ${KEYS.join(', ')}`);
        continue;
      }
      const route = this.route(entry.key, entry.at, entry.value);
      if (!route) continue;
      const clash = events.map((event) => written.get(event)).find((earlier) => earlier !== undefined);
      if (clash) {
        const event = events.find((name) => written.has(name));
        this.problem(
          entry.at,
          `${quoted(entry.key)} sets ${event} again, which ${quoted(clash.key)} set on line ${this.line(clash.at)}`,
          `remove one of the two${entry.key === 'calls' || clash.key === 'calls' ? `, or name the groups instead of "calls": ${groupNames.join(', ')}` : ''}`,
        );
        continue;
      }
      for (const event of events) written.set(event, { ...route, key: entry.key, at: entry.at });
    }
    // What follows judges the whole; with keys missing for a reason already told it would only repeat that.
    return this.problems.length > before ? {} : this.whole(ns, written);
  }

  /** Refuses what would split a call. */
  private whole(ns: string, written: ReadonlyMap<string, Written>): Partial<Record<Group, GroupRoute>> {
    const routes: Partial<Record<Group, GroupRoute>> = {};
    for (const group of groupNames) {
      const named = groups[group].flatMap((event) => written.get(event) ?? []);
      const first = named[0];
      if (!first) continue;
      const missing = groups[group].filter((event) => !written.has(event));
      const differs = named.find((route) => route.mode !== first.mode || route.sole !== first.sole);
      if (differs || (missing.length > 0 && first.mode !== 'legacy')) {
        const what = differs
          ? `${differs.key} is ${asMode(differs)} and ${first.key} is ${asMode(first)}`
          : `${first.key} is ${asMode(first)} and ${missing.join(', ')} ${missing.length > 1 ? 'are' : 'is'} legacy`;
        const wanted = [...named].find((route) => route.mode === 'new') ?? first;
        this.problem(
          (differs ?? first).at,
          `in ${quoted(ns)} ${what}, but the events of ${group} share one state and must be on one path`,
          `write "${group}: ${asValue(wanted)}" instead of its events`,
        );
      }
      routes[group] = routeOf({ mode: first.mode, sole: first.sole });
    }
    if (routes['call-lifecycle']?.mode !== 'new') {
      for (const group of ['ice-candidate', 'call-renegotiation'] as const) {
        const relay = groups[group].flatMap((event) => written.get(event) ?? [])[0];
        if (relay?.mode !== 'new') continue;
        this.problem(
          relay.at,
          `in ${quoted(ns)} ${group} is new while call-lifecycle is legacy; a relay by itself is not in this version`,
          `write "call-lifecycle: new" as well, or "${group}: legacy"`,
        );
      }
    }
    return routes;
  }

  /** A mode, or an object of `mode` and `sole`. */
  private route(name: string, at: number, node: unknown): GroupRoute | undefined {
    const resolved = this.resolved(node);
    if (!isMap(resolved)) {
      const mode = this.mode(name, resolved, at);
      return mode && routeOf({ mode });
    }
    const found: { mode?: Mode | undefined; sole?: boolean } = {};
    const before = this.problems.length;
    let soleAt = at;
    for (const entry of this.entries(resolved, at, quoted(name), 'write "mode: new"')) {
      if (entry.key === 'mode') found.mode = this.mode(name, this.resolved(entry.value), entry.at);
      else if (entry.key === 'sole') {
        const sole = this.resolved(entry.value);
        soleAt = entry.at;
        if (isScalar(sole) && typeof sole.value === 'boolean') found.sole = sole.value;
        else
          this.problem(
            entry.at,
            `"sole" of ${quoted(name)} is neither true nor false`,
            'write "sole: true" or remove it',
          );
      } else {
        this.problem(entry.at, `unknown key ${quoted(entry.key)} in ${quoted(name)}`, 'its keys are "mode" and "sole"');
      }
    }
    if (this.problems.length > before) return undefined;
    if (!found.mode) {
      this.problem(at, `${quoted(name)} has no mode`, 'write "mode: legacy" or "mode: new"');
      return undefined;
    }
    if (found.sole && found.mode !== 'new') {
      this.problem(
        soleAt,
        `${quoted(name)} is sole with mode ${found.mode}, but sole says that the legacy serves it no more`,
        'write "mode: new", or remove "sole"',
      );
      return undefined;
    }
    return routeOf({ mode: found.mode, sole: found.sole ?? false });
  }

  private mode(name: string, node: unknown, at: number): Mode | undefined {
    const value = isScalar(node) ? node.value : undefined;
    if (value === 'legacy' || value === 'new') return value;
    if (value === 'canary' || value === 'shadow') {
      this.problem(at, `mode ${value} of ${quoted(name)} is not in this version`, 'write legacy or new');
    } else {
      const shownValue = isScalar(node) && value !== null ? quoted(String(value)) : 'empty or no single word';
      this.problem(at, `the mode of ${quoted(name)} is ${shownValue}`, 'write legacy or new');
    }
    return undefined;
  }

  /** The entries of a map, each key once. Nothing at all (`/:` and no more) counts as an empty map. */
  private entries(node: unknown, at: number, what: string, mend: string) {
    const map = this.resolved(node);
    if (map === null || map === undefined || (isScalar(map) && map.value === null)) return [];
    if (!isMap(map)) {
      this.problem((map as Node).range?.[0] ?? at, `${what} is not a map of keys and values`, mend);
      return [];
    }
    const seen = new Map<string, number>();
    const entries: { key: string; at: number; value: unknown }[] = [];
    for (const pair of map.items as Pair[]) {
      const keyNode = this.resolved(pair.key);
      const keyAt = (pair.key as Node | null)?.range?.[0] ?? at;
      if (!isScalar(keyNode) || typeof keyNode.value !== 'string') {
        this.problem(keyAt, `a key in ${what} is not a word`, 'write a plain name');
        continue;
      }
      const key = keyNode.value;
      const earlier = seen.get(key);
      if (earlier !== undefined) {
        this.problem(
          keyAt,
          `${quoted(key)} is written twice, first on line ${this.line(earlier)}`,
          'remove one of the two',
        );
        continue;
      }
      seen.set(key, keyAt);
      entries.push({ key, at: keyAt, value: pair.value });
    }
    return entries;
  }

  private resolved(node: unknown): unknown {
    return isAlias(node) ? node.resolve(this.doc) : node;
  }

  private line(at: number): number {
    return Math.max(1, this.lines.linePos(at).line);
  }
}

const quoted = (text: string) => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);
const asMode = (route: GroupRoute) => `${route.mode}${route.sole ? ' (sole)' : ''}`;
const asValue = (route: GroupRoute) => (route.sole ? `{ mode: ${route.mode}, sole: true }` : route.mode);
