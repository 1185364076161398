// What an operator has filled in for a route, and the request that it makes. Pure; knows no component and no HTTP.

import type { GroupRoute, GuardLimits, Mode } from '../../routing/route.js';
import type { SetRequest } from '../api.js';

/** Fields as they are typed. */
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

export function draftOf(route: GroupRoute): Draft {
  const { canary, guard } = route;
  const limits = guard ?? usualGuard;
  return {
    mode: route.mode,
    percent: String(canary?.percent ?? 1),
    users: list(canary?.users),
    conversations: list(canary?.conversations),
    excludeUsers: list(canary?.exclude.users),
    excludeConversations: list(canary?.exclude.conversations),
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

/** Leaves out what stays as it is. */
export function requestOf(draft: Draft, from: GroupRoute, namespace: string, target: string): Asked {
  const problems: string[] = [];
  const number = (text: string, what: string, low: number, high: number): number => {
    const value = Number(text.trim().replace(',', '.'));
    if (text.trim() === '' || !(value >= low && value <= high))
      problems.push(`${what}: a number from ${low} to ${high}`);
    return value;
  };
  const { mode } = draft;
  let request: SetRequest = { namespace, target, mode };
  if (mode === 'canary') {
    const percent = number(draft.percent, 'Share', 0, 100);
    if (Math.abs(percent * 100 - Math.round(percent * 100)) > 1e-6) problems.push('Share: at most two decimals');
    request = { ...request, percent };
    const before = draftOf(from);
    for (const field of ['users', 'conversations', 'excludeUsers', 'excludeConversations'] as const) {
      if (draft[field] !== before[field]) request = { ...request, [field]: names(draft[field]) };
    }
  }
  if (mode === 'new' && draft.sole !== from.sole) request = { ...request, sole: draft.sole };
  if (mode !== 'legacy' && (draft.fallback !== from.fallback || mode !== from.mode)) {
    request = { ...request, fallback: draft.fallback };
  }
  if (!draft.guardOn) {
    if (from.guard !== null) request = { ...request, guard: 'off' };
  } else {
    const limits: GuardLimits = {
      windowMs: number(draft.windowS, 'Guard window (seconds)', 1, 3600) * 1000,
      minSamples: number(draft.minSamples, 'Guard samples', 1, 1_000_000),
      maxErrors: number(draft.maxErrors, 'Guard errors (%)', 0, 100) / 100,
      maxRefusals: number(draft.maxRefusals, 'Guard refusals (%)', 0, 100) / 100,
      maxP99Ms: number(draft.maxP99Ms, 'Guard p99 (ms)', 1, 60_000),
    };
    if (!same(limits, from.guard)) request = { ...request, guard: limits };
  }
  return problems.length > 0 ? { ok: false, problems } : { ok: true, request };
}

const list = (all: readonly string[] | undefined) => (all ?? []).join(', ');
/** 0.05 → `5`, without the noise of binary fractions. */
const share = (n: number) => String(Number((n * 100).toFixed(4)));
const names = (text: string) => [...new Set(text.split(/[\s,]+/).filter((name) => name !== ''))];

function same(a: GuardLimits, b: GuardLimits | null): boolean {
  return b !== null && (Object.keys(a) as (keyof GuardLimits)[]).every((key) => Math.abs(a[key] - b[key]) < 1e-9);
}
