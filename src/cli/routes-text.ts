// Routes, changes and versions as text for a person. Knows nothing of how they were got.
import type { ChangedBody, HistoryBody, PlanBody, RoutesBody, VersionBody } from '../admin/api.js';
import type { Difference } from '../routing/change.js';
import { shownDuration } from '../routing/duration.js';
import {
  type Canary,
  type Group,
  type GroupRoute,
  type GuardLimits,
  groupNames,
  type Mode,
  shownRoute,
} from '../routing/route.js';
import { counted, harmless, type Style, share, table, time } from './show.js';

/** The table in force, a line for each group of each namespace. */
export function routesText({ version, at, actor, reason, namespaces, fileProblems }: RoutesBody, style: Style): string {
  const rows = Object.entries(namespaces).flatMap(([ns, routes]) =>
    groupNames
      .filter((group) => routes[group] !== undefined)
      .map((group) => {
        const route = routes[group];
        return [
          harmless(ns),
          group,
          coloured(route, style),
          lists(route.canary) || style.dim('-'),
          // The legacy itself has nothing to fall back from.
          route.mode === 'legacy' ? style.dim('-') : route.fallback,
          limits(route.guard),
        ];
      }),
  );
  const head = ['NAMESPACE', 'GROUP', 'MODE', 'ALWAYS / NEVER', 'FALLBACK', 'GUARD'];
  const broken = fileLines(fileProblems).map((line) => `${style.red(line)}\n`);
  return `${style.bold(`version ${version}`)}, ${time(at)} by ${harmless(actor)}${because(reason)}\n${broken.join('')}\n${table(head, rows, style)}`;
}

/** Why the routes file is not in force. A server of an older version says nothing of it. */
export const fileLines = (problems: readonly string[] | undefined): readonly string[] => (problems ?? []).map(harmless);

/** What a change would do. `nothing`: said of the routes where they stay, which calls that it ends do not. */
export function planText(plan: PlanBody, nothing: string, style: Style): string {
  const { from, differences, endedCalls, lines } = plan;
  const head = `${style.bold('dry run')}, from version ${from}; nothing was changed`;
  if (!changesNothing(plan)) return listed(head, differences, lines, style);
  if (endedCalls === 0) return `nothing to do: ${harmless(nothing)}\n`;
  return listed(head, [], [`routes stay: ${nothing}`, ...endings(plan)], style);
}

/** The server's lines name the calls that end; one of another version might not. */
function endings({ lines, endedCalls }: PlanBody): readonly string[] {
  return lines.length > 0 ? lines : [`ends ${counted(endedCalls, 'call')}`];
}

/** A namespace that is named, or no more, is a change too. */
export function changesNothing({ differences, namespaces }: PlanBody): boolean {
  // A server of an older version says nothing of them.
  const { named, dropped } = namespaces ?? { named: [], dropped: [] };
  return differences.length + named.length + dropped.length === 0;
}

/** How a file differs from what is in force, and what applying it would do. */
export function diffText(file: string, plan: PlanBody, style: Style): string {
  const { from, differences, lines } = plan;
  if (changesNothing(plan)) return `${harmless(file)} says what is in force, version ${from}\n`;
  return listed(`${harmless(file)} is not version ${from}, which is in force; applied, it`, differences, lines, style);
}

function listed(head: string, differences: readonly Difference[], lines: readonly string[], style: Style): string {
  const shown = differenceTexts(differences, style).map((text) => `  ${text}`);
  return `${[head, ...shown, ...lines.map(harmless)].join('\n')}\n`;
}

/** What a change did. */
export function changedText({ version, changed, plan, confirmed, endedCalls }: ChangedBody, style: Style): string {
  const ended = endedCalls > 0 ? [`ended ${counted(endedCalls, 'call')}`] : [];
  if (!changed) {
    const like = `version ${version.version} is like that already`;
    return `${[ended.length > 0 ? `routes stay: ${like}` : `nothing to do: ${like}`, ...ended].join('\n')}\n`;
  }
  const head = `${style.bold(`version ${version.version}`)} is in force on ${confirmed.instances} of ${counted(confirmed.of, 'instance')}`;
  return listed(head, version.differences, [...plan.lines, ...ended], style);
}

export function historyText({ versions, more }: HistoryBody, style: Style): string {
  if (versions.length === 0) return 'no versions\n';
  const rows = versions.map(({ version, at, actor, via, kind, reason }) => [
    String(version),
    time(at),
    harmless(actor),
    via,
    kind,
    harmless(reason),
  ]);
  const [head = '', ...lines] = table(['VERSION', 'TIME', 'ACTOR', 'VIA', 'KIND', 'REASON'], rows, style).split('\n');
  const shown = [head, ...versions.flatMap((version, i) => [lines[i] ?? '', ...changes(version)])]
    .join('\n')
    .concat('\n');
  const last = versions.at(-1)?.version;
  return more ? `${shown}older ones: sigfig routes history --before ${last}\n` : shown;
}

/** What changed, a line each below the version's own. */
function changes({ differences, before, after }: VersionBody): readonly string[] {
  const [was, is] = [before, after].map(({ namespaces }) => Object.keys(namespaces)) as [string[], string[]];
  const texts = [
    ...is.filter((ns) => !was.includes(ns)).map((ns) => `${harmless(ns)}: added to the table`),
    ...was.filter((ns) => !is.includes(ns)).map((ns) => `${harmless(ns)}: removed from the table`),
    ...differenceTexts(differences),
  ];
  const more = texts.length > MOST_CHANGES ? [`and ${texts.length - MOST_CHANGES} more; --json shows all`] : [];
  return [...texts.slice(0, MOST_CHANGES), ...more].map((text) => `  ${text}`);
}
/** Of one version; a table may name 200 namespaces. */
const MOST_CHANGES = 12;

/** `/ call-lifecycle: legacy → canary 5 %, users +alice,bob`; one of `calls` where all three groups change in the same way. */
export function differenceTexts(differences: readonly Difference[], style?: Style): readonly string[] {
  const named = new Map<string, { ns: string; text: string; groups: Group[] }>();
  for (const difference of differences) {
    const { ns, group } = difference;
    const text = changeText(difference, style);
    const alike = named.get(`${ns} ${text}`);
    if (alike) alike.groups.push(group);
    else named.set(`${ns} ${text}`, { ns, text, groups: [group] });
  }
  return [...named.values()].flatMap(({ ns, text, groups }) => {
    const names = groups.length === groupNames.length ? ['calls'] : groups;
    return names.map((name) => `${harmless(ns)} ${name}: ${text}`);
  });
}

function changeText({ before, after }: Difference, style?: Style): string {
  const parts: string[] = [];
  const [was, is] = [shownRoute(before), shownRoute(after)];
  if (was !== is) parts.push(`${was} → ${style ? coloured(after, style) : is}`);
  for (const [name, of] of LISTS) {
    const [old, now] = [before.canary, after.canary].map((canary) => new Set(canary ? of(canary) : []));
    const added = [...(now ?? [])].filter((entry) => !old?.has(entry));
    const removed = [...(old ?? [])].filter((entry) => !now?.has(entry));
    // A canary that ends takes its lists with it.
    if (after.canary === null) continue;
    if (added.length > 0) parts.push(`${name} +${some(added)}`);
    if (removed.length > 0) parts.push(`${name} -${some(removed)}`);
  }
  if (before.canary && after.canary && before.canary.salt !== after.canary.salt) {
    parts.push(`salt ${harmless(before.canary.salt)} → ${harmless(after.canary.salt)}`);
  }
  // On the legacy it means nothing; where nothing else differs it is the change.
  const falls = before.fallback !== after.fallback;
  if (falls && after.mode !== 'legacy' && before.mode === 'legacy') parts.push(`fallback ${after.fallback}`);
  else if (falls && (after.mode !== 'legacy' || before.mode === 'legacy')) {
    parts.push(`fallback ${before.fallback} → ${after.fallback}`);
  }
  const guards = guardChange(before.guard, after.guard);
  if (guards !== '') parts.push(guards);
  return parts.join(', ') || is;
}

/** `guard: errors 1% → 2%, window 1m → 2m`; of the limits only those that differ. */
function guardChange(before: GuardLimits | null, after: GuardLimits | null): string {
  if (!before || !after) return before === after ? '' : after ? `guard ${limits(after)}` : 'guard off';
  const changed = LIMITS.flatMap(([name, of]) =>
    of(before) === of(after) ? [] : [`${name} ${of(before)} → ${of(after)}`],
  );
  return changed.length > 0 ? `guard: ${changed.join(', ')}` : '';
}
const LIMITS: readonly (readonly [string, (limits: GuardLimits) => string])[] = [
  ['errors', ({ maxErrors }) => share(maxErrors)],
  ['refusals', ({ maxRefusals }) => share(maxRefusals)],
  ['p99', ({ maxP99Ms }) => shownDuration(maxP99Ms)],
  ['from events', ({ minSamples }) => String(minSamples)],
  ['window', ({ windowMs }) => shownDuration(windowMs)],
];

const LISTS: readonly (readonly [string, (canary: Canary) => readonly string[]])[] = [
  ['users', (canary) => canary.users],
  ['conversations', (canary) => canary.conversations],
  ['not users', (canary) => canary.exclude.users],
  ['not conversations', (canary) => canary.exclude.conversations],
];

const lists = (canary: Canary | null): string =>
  LISTS.flatMap(([name, of]) => (canary && of(canary).length > 0 ? [`${name} ${some(of(canary))}`] : [])).join('; ');

/** A few names; `--json` shows all. */
function some(names: readonly string[]): string {
  const shown = names.slice(0, 5).map(harmless).join(',');
  return names.length > 5 ? `${shown} and ${names.length - 5} more` : shown;
}

export function limits(guard: GuardLimits | null): string {
  if (!guard) return 'off';
  const { maxErrors, maxRefusals, maxP99Ms, minSamples, windowMs } = guard;
  const over = `over ${share(maxErrors)} errors, ${share(maxRefusals)} refusals or p99 ${shownDuration(maxP99Ms)}`;
  return `${over}, from ${counted(minSamples, 'event')} in ${shownDuration(windowMs)} on`;
}

const because = (reason: string): string => (reason === '' ? '' : `: ${harmless(reason)}`);

const coloured = (route: GroupRoute, style: Style): string => modeColour(route.mode, style)(shownRoute(route));

export function modeColour(mode: Mode, { cyan, green, yellow }: Style): (text: string) => string {
  const colours: Partial<Record<string, (text: string) => string>> = { new: green, canary: yellow, legacy: cyan };
  return colours[mode] ?? ((text) => text);
}
