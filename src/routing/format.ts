// A route table as a routes file that reads back to the same table, with no more words than it needs. Knows no comments:
// what an operator wrote beside a table is not part of it.
import { Document, isMap, isScalar, visit } from 'yaml';
import { percentOf } from './check.js';
import { shownDuration } from './duration.js';
import {
  type Canary,
  defaultGuard,
  defaultSalt,
  type GroupRoute,
  type GuardLimits,
  groupNames,
  type RouteTable,
  route,
} from './route.js';

const FIRST = '# yaml-language-server: $schema=./schema.json\n';

/** YAML, as `parseRouteTable` reads it. */
export function formatTable(table: RouteTable): string {
  const { namespaces } = table.toJSON();
  const value = Object.entries(namespaces).map(([ns, routes]) => [
    ns,
    new Map(groupNames.map((group) => [group, written(routes[group])])),
  ]);
  const doc = new Document({ namespaces: new Map(value as [string, unknown][]) });
  // Lists of ids and limits on one line each; lines are not folded, so that a diff shows what changed.
  visit(doc, {
    Seq(_key, list) {
      list.flow = true;
    },
    Pair(_key, { key, value }) {
      if (isScalar(key) && key.value === 'guard' && isMap(value)) value.flow = true;
    },
  });
  return FIRST + doc.toString({ lineWidth: 0, flowCollectionPadding: true });
}

/** A word where the mode says it all. */
function written(of: GroupRoute): unknown {
  const { mode, sole, canary, fallback, guard } = of;
  const usual = route({ mode });
  const entries: [string, unknown][] = [['mode', mode]];
  if (sole) entries.push(['sole', true]);
  if (canary) entries.push(...canaryEntries(canary));
  if (fallback !== usual.fallback) entries.push(['fallback', fallback]);
  if (guard === null) entries.push(['guard', 'off']);
  else {
    const limits = guardEntries(guard);
    if (limits.length > 0) entries.push(['guard', new Map(limits)]);
  }
  return entries.length === 1 ? mode : new Map(entries);
}

function canaryEntries({ percent, salt, users, conversations, exclude }: Canary): [string, unknown][] {
  const entries: [string, unknown][] = [['percent', percent]];
  if (salt !== defaultSalt) entries.push(['salt', salt]);
  if (users.length > 0) entries.push(['users', users]);
  if (conversations.length > 0) entries.push(['conversations', conversations]);
  const excluded: [string, unknown][] = [];
  if (exclude.users.length > 0) excluded.push(['users', exclude.users]);
  if (exclude.conversations.length > 0) excluded.push(['conversations', exclude.conversations]);
  if (excluded.length > 0) entries.push(['exclude', new Map(excluded)]);
  return entries;
}

function guardEntries(guard: GuardLimits): [string, unknown][] {
  const entries: [string, unknown][] = [];
  if (guard.windowMs !== defaultGuard.windowMs) entries.push(['window', shownDuration(guard.windowMs)]);
  if (guard.minSamples !== defaultGuard.minSamples) entries.push(['min-samples', guard.minSamples]);
  if (guard.maxErrors !== defaultGuard.maxErrors) entries.push(['max-errors-percent', percentOf(guard.maxErrors)]);
  if (guard.maxRefusals !== defaultGuard.maxRefusals) {
    entries.push(['max-refusals-percent', percentOf(guard.maxRefusals)]);
  }
  if (guard.maxP99Ms !== defaultGuard.maxP99Ms) entries.push(['max-p99', shownDuration(guard.maxP99Ms)]);
  return entries;
}
