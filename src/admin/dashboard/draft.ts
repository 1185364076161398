// What an operator has filled in for a route, and the request that it makes. Pure; knows no component and no HTTP.

import type { GroupRoute, GuardLimits, Mode, NamespaceRoutes } from '../../routing/route.js';
import type { SetRequest } from '../api.js';
import { type Ids, idsOf, textOf } from './ids.js';

/** Fields as they are typed; lists have one id a line. */
export interface Draft {
  readonly mode: Mode;
  readonly percent: string;
  readonly users: string;
  readonly conversations: string;
  readonly excludeUsers: string;
  readonly excludeConversations: string;
  readonly sole: boolean;
  readonly fallback: 'legacy' | 'refuse';
  readonly guardOn: boolean;
  readonly windowS: string;
  readonly minSamples: string;
  readonly maxErrors: string;
  readonly maxRefusals: string;
  readonly maxP99Ms: string;
}

/** The same as `defaultGuard` in routing/route.ts, which can't be had in a browser (a test compares them). */
export const usualGuard: GuardLimits = {
  windowMs: 60_000,
  minSamples: 50,
  maxErrors: 0.01,
  maxRefusals: 0.05,
  maxP99Ms: 500,
};
/** `defaultSalt`, likewise. */
export const usualSalt = 'sigfig';

export function draftOf(route: GroupRoute): Draft {
  const { canary, guard } = route;
  const limits = guard ?? usualGuard;
  return {
    mode: route.mode,
    percent: String(canary?.percent ?? 1),
    users: textOf(canary?.users ?? []),
    conversations: textOf(canary?.conversations ?? []),
    excludeUsers: textOf(canary?.exclude.users ?? []),
    excludeConversations: textOf(canary?.exclude.conversations ?? []),
    sole: route.sole,
    fallback: route.fallback,
    guardOn: guard !== null,
    windowS: String(limits.windowMs / 1000),
    minSamples: String(limits.minSamples),
    maxErrors: share(limits.maxErrors),
    maxRefusals: share(limits.maxRefusals),
    maxP99Ms: String(limits.maxP99Ms),
  };
}

/** A mode brings its usual fallback along: a canary leaves to the legacy what can't be served. */
export function withMode(draft: Draft, mode: Mode, from: GroupRoute): Draft {
  const fallback = mode === from.mode ? from.fallback : mode === 'canary' ? 'legacy' : 'refuse';
  return { ...draft, mode, fallback };
}

export type Asked =
  | { readonly ok: true; readonly request: SetRequest }
  | { readonly ok: false; readonly problems: readonly string[] };

const lists = {
  users: 'Always these users',
  conversations: 'Always these conversations',
  excludeUsers: 'Never these users',
  excludeConversations: 'Never these conversations',
} as const;
type List = keyof typeof lists;

/**
 * Leaves out what stays as it is. For `calls` nothing is left out: `from` is the lifecycle's route, and what is shown is what all
 * three groups get. On the legacy nothing but the mode counts, and the rest is not shown.
 */
export function requestOf(draft: Draft, from: GroupRoute, namespace: string, target: string): Asked {
  const problems: string[] = [];
  const asked = <T>(read: { value: T; problem: string | null }): T => {
    if (read.problem !== null) problems.push(read.problem);
    return read.value;
  };
  const { mode } = draft;
  const whole = target === 'calls';
  let request: SetRequest = { namespace, target, mode };
  if (mode === 'legacy') return { ok: true, request };
  if (mode === 'canary') {
    request = { ...request, percent: asked(percentage(draft.percent, 'Share')) };
    const before = draftOf(from);
    for (const field of Object.keys(lists) as List[]) {
      const now = ids(draft[field], lists[field]);
      const same = now.problem === null && sameIds(now.value, ids(before[field], '').value);
      if (whole || !same) request = { ...request, [field]: asked(now) };
    }
    if (whole) request = { ...request, salt: from.canary?.salt ?? usualSalt };
  }
  if (mode === 'new' && (whole || draft.sole !== from.sole)) request = { ...request, sole: draft.sole };
  if (whole || draft.fallback !== from.fallback || mode !== from.mode) {
    request = { ...request, fallback: draft.fallback };
  }
  if (!draft.guardOn) {
    if (whole || from.guard !== null) request = { ...request, guard: 'off' };
  } else {
    const limits: GuardLimits = {
      windowMs: Math.round(asked(number(draft.windowS, 'Guard window (seconds)', 1, 3600)) * 1000),
      minSamples: asked(wholeNumber(draft.minSamples, 'Guard samples', 1, 1_000_000)),
      maxErrors: shareOf(asked(percentage(draft.maxErrors, 'Guard errors (%)'))),
      maxRefusals: shareOf(asked(percentage(draft.maxRefusals, 'Guard refusals (%)'))),
      maxP99Ms: asked(wholeNumber(draft.maxP99Ms, 'Guard p99 (ms)', 1, 60_000)),
    };
    if (whole || !same(limits, from.guard)) request = { ...request, guard: limits };
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, request };
}

/** In what the groups of a namespace differ, a word each; empty where all three are alike. */
export function differing(groups: NamespaceRoutes): readonly string[] {
  const [first, ...others] = Object.values(groups);
  if (!first) return [];
  const among = (part: (route: GroupRoute) => unknown) =>
    others.some((other) => JSON.stringify(part(other)) !== JSON.stringify(part(first)));
  // On the legacy a fallback means nothing.
  const fallbacks = new Set([first, ...others].filter(({ mode }) => mode !== 'legacy').map(({ fallback }) => fallback));
  const words: readonly (readonly [string, (route: GroupRoute) => unknown])[] = [
    ['mode', ({ mode, sole }) => [mode, sole]],
    ['share', ({ canary }) => canary?.percent ?? null],
    ['lists', (route) => Object.keys(lists).map((list) => draftOf(route)[list as List])],
    ['salt', ({ canary }) => canary?.salt ?? usualSalt],
    ['fallback', ({ mode, fallback }) => (fallbacks.size > 1 && mode !== 'legacy' ? fallback : null)],
    ['guard', ({ guard }) => guard],
  ];
  return words.filter(([, part]) => among(part)).map(([word]) => word);
}

interface Read<T> {
  readonly value: T;
  readonly problem: string | null;
}

/** What a slider can show of what is typed beside it. */
export const shareShown = (text: string): number => percentage(text, '').value || 0;

/** `2.5` or `2,5`. */
function number(text: string, what: string, low: number, high: number): Read<number> {
  const typed = text.trim();
  const value = /^\d+(?:[.,]\d+)?$/.test(typed) ? Number(typed.replace(',', '.')) : Number.NaN;
  if (isAmbiguous(typed)) {
    const plain = typed.replace(/[.,]/g, '');
    return { value, problem: `${what}: ${typed} can be read in two ways; write ${plain}, without a separator` };
  }
  return { value, problem: value >= low && value <= high ? null : `${what}: a number from ${low} to ${high}` };
}

/** A separator with three digits behind it is of thousands to one reader and of decimals to another. */
const isAmbiguous = (text: string): boolean => /^[1-9]\d{0,2}(?:[.,]\d{3})+$/.test(text.trim());

function wholeNumber(text: string, what: string, low: number, high: number): Read<number> {
  const read = number(text, what, low, high);
  if (Number.isInteger(read.value) || isAmbiguous(text)) return read;
  return { ...read, problem: `${what}: a whole number from ${low} to ${high}` };
}

function percentage(text: string, what: string): Read<number> {
  const read = number(text, what, 0, 100);
  const decimals = /[.,](\d*)$/.exec(text.trim())?.[1]?.length ?? 0;
  return read.value <= 100 && decimals > 2 ? { ...read, problem: `${what}: at most two decimals` } : read;
}

function ids(text: string, what: string): Read<Ids['ids']> {
  const { ids: value, wrong } = idsOf(text);
  return { value, problem: wrong === null ? null : `${what}: ${wrong}` };
}

/** 0.05 → `5`, without the noise of binary fractions; and back, to what the routes take for two decimals. */
const share = (n: number) => String(Number((n * 100).toFixed(8)));
const shareOf = (percent: number) => Number((percent / 100).toFixed(10));
const sameIds = (a: readonly string[], b: readonly string[]) =>
  a.length === b.length && a.every((id, i) => id === b[i]);

function same(a: GuardLimits, b: GuardLimits | null): boolean {
  return b !== null && (Object.keys(a) as (keyof GuardLimits)[]).every((key) => Math.abs(a[key] - b[key]) < 1e-9);
}
