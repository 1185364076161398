// One route out of a routes file: a mode, or a map of a mode and what goes with it. Knows nothing of the groups and
// namespaces that it stands in.
import { quoted, routeFaults, shareOf } from './check.js';
import { durationOf } from './duration.js';
import type { Entry, Nodes } from './nodes.js';
import { type Canary, defaultGuard, type GroupRoute, type GuardLimits, type Mode, route } from './route.js';

const MODES: readonly Mode[] = ['legacy', 'new', 'canary'];
const CANARY_KEYS = ['percent', 'salt', 'users', 'conversations', 'exclude'] as const;
const ROUTE_KEYS = ['mode', 'sole', ...CANARY_KEYS, 'fallback', 'guard'];

type Writable<T> = { -readonly [K in keyof T]?: T[K] | undefined };

/** `route`: undefined where something is wrong with it, which `nodes` has collected then. `mode`: as far as that can be told. */
export interface ReadRoute {
  readonly mode: Mode | undefined;
  readonly route: GroupRoute | undefined;
}

/** Tells all that is wrong with it at once. `name` is the key that it stands under. */
export function readRoute(nodes: Nodes, name: string, at: number, node: unknown): ReadRoute {
  if (!nodes.isMap(node)) {
    const mode = readMode(nodes, name, node, at);
    if (mode === 'canary') {
      nodes.problem(
        at,
        `${quoted(name)} is a canary of nobody`,
        `write its share beside the mode: ${name}: { mode: canary, percent: 5 }`,
      );
      return { mode, route: undefined };
    }
    return { mode, route: mode && route({ mode }) };
  }
  const before = nodes.problems.length;
  const places = new Map<string, number>();
  const found: Writable<GroupRoute> = {};
  let canary: Partial<Canary> = {};
  for (const entry of nodes.entries(node, at, quoted(name), 'write "mode: new"')) {
    const { key, value } = entry;
    places.set(key, entry.at);
    if (key === 'mode') found.mode = readMode(nodes, name, value, entry.at);
    else if (key === 'sole') found.sole = readSole(nodes, name, entry);
    else if (key === 'fallback') found.fallback = readFallback(nodes, name, entry);
    else if (key === 'guard') found.guard = readGuard(nodes, name, entry, places);
    else if (isCanaryKey(key)) canary = { ...canary, ...readCanary(nodes, name, key, entry, places) };
    else {
      nodes.problem(
        entry.at,
        `unknown key ${quoted(key)} in ${quoted(name)}`,
        `its keys are ${ROUTE_KEYS.slice(0, -1).join(', ')} and ${ROUTE_KEYS.at(-1)}`,
      );
    }
  }
  if (!places.has('mode')) {
    nodes.problem(at, `${quoted(name)} has no mode`, 'write "mode: legacy", "mode: new" or "mode: canary"');
  }
  modeFaults(nodes, name, found, canary, places);
  const wanted = together(found, canary, places);
  for (const { key, what, mend } of routeFaults(name, wanted)) nodes.problem(places.get(key) ?? at, what, mend);
  return { mode: found.mode, route: nodes.problems.length > before ? undefined : wanted };
}

/** What does not go with the mode; nothing where that is not known. */
function modeFaults(
  nodes: Nodes,
  name: string,
  { mode }: Writable<GroupRoute>,
  canary: Partial<Canary>,
  places: ReadonlyMap<string, number>,
): void {
  const place = (key: string) => places.get(key) ?? 0;
  const misplaced = CANARY_KEYS.find((key) => places.has(key));
  if (mode !== undefined && mode !== 'canary' && misplaced) {
    nodes.problem(
      place(misplaced),
      `"${misplaced}" of ${quoted(name)} is of a canary, and its mode is ${mode}`,
      `write "mode: canary", or remove "${misplaced}"`,
    );
  }
  // One that was written and could not be read has been told.
  const takes = (key: 'percent' | 'users' | 'conversations') => places.has(key) && canary[key] === undefined;
  const somebody = canary.percent !== undefined || canary.users?.length || canary.conversations?.length;
  if (mode === 'canary' && !somebody && !takes('percent') && !takes('users') && !takes('conversations')) {
    nodes.problem(
      place('mode'),
      `${quoted(name)} is a canary of nobody`,
      'write "percent: 5", or a list of "users" or "conversations"',
    );
  }
}

/** What could be read, with the rest as it is by default, so that each value is judged whatever else is wrong. */
function together(
  { mode, sole, fallback, guard }: Writable<GroupRoute>,
  canary: Partial<Canary>,
  places: ReadonlyMap<string, number>,
): GroupRoute {
  const share = CANARY_KEYS.some((key) => places.has(key)) ? route({ mode: 'canary', canary }).canary : null;
  const wanted = route({
    mode: mode ?? (share ? 'canary' : 'new'),
    ...(sole === undefined || mode === undefined ? {} : { sole }),
    ...(mode === 'canary' ? { canary } : {}),
    ...(fallback === undefined ? {} : { fallback }),
    ...(guard === undefined ? {} : { guard }),
  });
  return { ...wanted, canary: share ?? wanted.canary };
}

function readMode(nodes: Nodes, name: string, node: unknown, at: number): Mode | undefined {
  const value = nodes.scalar(node);
  const mode = MODES.find((one) => one === value);
  if (mode) return mode;
  if (value === 'shadow') {
    nodes.problem(at, `mode shadow of ${quoted(name)} is not in this version`, 'write legacy, new or canary');
  } else {
    const shown =
      value === undefined || value === null || value === '' ? 'empty or no single word' : quoted(String(value));
    nodes.problem(at, `the mode of ${quoted(name)} is ${shown}`, 'write legacy, new or canary');
  }
  return undefined;
}

function readSole(nodes: Nodes, name: string, { at, value }: Entry): boolean | undefined {
  const sole = nodes.scalar(value);
  if (typeof sole === 'boolean') return sole;
  nodes.problem(at, `"sole" of ${quoted(name)} is neither true nor false`, 'write "sole: true" or remove it');
  return undefined;
}

function readFallback(nodes: Nodes, name: string, { at, value }: Entry): GroupRoute['fallback'] | undefined {
  const fallback = nodes.scalar(value);
  if (fallback === 'legacy' || fallback === 'refuse') return fallback;
  nodes.problem(at, `"fallback" of ${quoted(name)} is neither legacy nor refuse`, 'write one of the two, or remove it');
  return undefined;
}

const isCanaryKey = (key: string): key is (typeof CANARY_KEYS)[number] =>
  (CANARY_KEYS as readonly string[]).includes(key);

function readCanary(
  nodes: Nodes,
  name: string,
  key: (typeof CANARY_KEYS)[number],
  { at, value }: Entry,
  places: Map<string, number>,
): Partial<Canary> {
  switch (key) {
    case 'percent': {
      const percent = readNumber(nodes, `"percent" of ${quoted(name)}`, at, value, 'such as 5 or 0.25');
      return percent === undefined ? {} : { percent };
    }
    case 'salt': {
      const salt = nodes.scalar(value);
      if (typeof salt === 'string') return { salt };
      nodes.problem(at, `"salt" of ${quoted(name)} is no text`, 'write a word in quotes');
      return {};
    }
    case 'users':
    case 'conversations': {
      const ids = nodes.texts(value, at, `"${key}" of ${quoted(name)}`);
      return ids ? { [key]: ids } : {};
    }
    case 'exclude':
      return { exclude: readExclude(nodes, name, at, value, places) };
  }
}

function readExclude(nodes: Nodes, name: string, at: number, value: unknown, places: Map<string, number>) {
  const exclude: { users: readonly string[]; conversations: readonly string[] } = { users: [], conversations: [] };
  const what = `"exclude" of ${quoted(name)}`;
  for (const entry of nodes.entries(value, at, what, 'write "users: [alice]" under it')) {
    if (entry.key !== 'users' && entry.key !== 'conversations') {
      nodes.problem(
        entry.at,
        `unknown key ${quoted(entry.key)} in ${what}`,
        'its keys are "users" and "conversations"',
      );
      continue;
    }
    places.set(`exclude.${entry.key}`, entry.at);
    exclude[entry.key] = nodes.texts(entry.value, entry.at, `"exclude.${entry.key}" of ${quoted(name)}`) ?? [];
  }
  return exclude;
}

/** By the keys of the file. */
const GUARD_KEYS = {
  window: { limit: 'windowMs', as: 'duration' },
  'min-samples': { limit: 'minSamples', as: 'number' },
  'max-errors-percent': { limit: 'maxErrors', as: 'percent' },
  'max-refusals-percent': { limit: 'maxRefusals', as: 'percent' },
  'max-p99': { limit: 'maxP99Ms', as: 'duration' },
} as const satisfies Record<string, { limit: keyof GuardLimits; as: string }>;

function readGuard(
  nodes: Nodes,
  name: string,
  { at, value }: Entry,
  places: Map<string, number>,
): GuardLimits | null | undefined {
  if (!nodes.isMap(value)) {
    if (nodes.scalar(value) === 'off') return null;
    nodes.problem(
      at,
      `"guard" of ${quoted(name)} is neither off nor a map of limits`,
      'write "guard: off", limits such as "guard: { max-errors-percent: 1 }", or remove it',
    );
    return undefined;
  }
  const limits: Record<keyof GuardLimits, number> = { ...defaultGuard };
  for (const entry of nodes.entries(value, at, `"guard" of ${quoted(name)}`, 'write limits under it')) {
    const known = Object.hasOwn(GUARD_KEYS, entry.key) ? GUARD_KEYS[entry.key as keyof typeof GUARD_KEYS] : undefined;
    if (!known) {
      nodes.problem(
        entry.at,
        `unknown key ${quoted(entry.key)} in "guard" of ${quoted(name)}`,
        `its keys are ${Object.keys(GUARD_KEYS).join(', ')}`,
      );
      continue;
    }
    places.set(`guard.${entry.key}`, entry.at);
    const what = `"guard.${entry.key}" of ${quoted(name)}`;
    const read =
      known.as === 'duration'
        ? readDuration(nodes, what, entry)
        : readNumber(
            nodes,
            what,
            entry.at,
            entry.value,
            known.as === 'percent' ? 'of percent, such as 1' : 'such as 50',
          );
    if (read !== undefined) limits[known.limit] = known.as === 'percent' ? shareOf(read) : read;
  }
  return limits;
}

function readNumber(nodes: Nodes, what: string, at: number, node: unknown, such: string): number | undefined {
  const value = nodes.scalar(node);
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  nodes.problem(at, `${what} is no number`, `write one ${such}`);
  return undefined;
}

function readDuration(nodes: Nodes, what: string, { at, value }: Entry): number | undefined {
  const ms = durationOf(String(nodes.scalar(value) ?? ''));
  if (ms !== null) return ms;
  nodes.problem(at, `${what} is no duration`, 'write a number with ms, s, m or h, such as 60s');
  return undefined;
}
