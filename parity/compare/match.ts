// Holds normalised transcripts to what was expected of them: exactly these entries in this order, with equal keys in the
// same order and equal types, but for placeholders. Knows nothing of paths or reports.
import type { Entry, Transcripts } from '../play/transcript.js';
import type { AnyOrder, Expected, Outcome } from '../scenario.js';
import { expectedForm } from '../values.js';

/** An expected entry in the form in which it would be received, or several that may come in any order. */
export type Wanted = Entry | { readonly kind: 'any-order'; readonly entries: readonly Entry[] };

/** Where a device's transcript leaves the expected one. */
export interface Divergence {
  readonly device: string;
  /** Of the first entry that differs, in `got`. */
  readonly at: number;
  readonly wanted: readonly Wanted[];
  readonly got: readonly Entry[];
  /** In words. */
  readonly what: string;
}

export type Verdict = { readonly ok: true } | { readonly ok: false; readonly divergences: readonly Divergence[] };

const listed = new Set(['call-answer', 'call-rejoin-answer']);

/** Shorthands written out. */
export function wantedOf(expected: readonly Expected[]): Wanted[] {
  return expected.flatMap((one): Wanted[] => {
    if ('anyOrder' in one) {
      return [{ kind: 'any-order', entries: wantedOf((one as AnyOrder).anyOrder) as Entry[] }];
    }
    if ('refused' in one) {
      const {
        refused,
        because,
        conversation = '$call',
        ack,
      } = one as {
        refused: string;
        because: string;
        conversation?: string | null;
        ack?: false;
      };
      const message = String(expectedForm(because));
      const error =
        conversation === null
          ? { event: refused, message }
          : { event: refused, conversationId: expectedForm(conversation), message };
      const answer = listed.has(refused) ? [] : { ok: false, error: message };
      const told: Entry = { kind: 'event', name: 'error', args: [error] };
      return ack === false ? [told] : [told, { kind: 'ack', name: refused, args: [answer] }];
    }
    if ('ack' in one) {
      const { ack, args } = one as { ack: string; args?: unknown[] };
      const answer = 'with' in one ? expectedForm(one.with) : { ok: true };
      return [{ kind: 'ack', name: ack, args: args ? (expectedForm(args) as unknown[]) : [answer] }];
    }
    if ('response' in one) {
      const { response, status } = one as { response: string; status: number };
      return [{ kind: 'response', name: response, status, body: 'body' in one ? expectedForm(one.body) : '$any' }];
    }
    if ('disconnected' in one) return [{ kind: 'disconnected', name: String(one.disconnected) }];
    if ('event' in one && 'args' in one) {
      return [{ kind: 'event', name: String(one.event), args: expectedForm(one.args) as unknown[] }];
    }
    return Object.entries(one).map(([name, payload]) => ({ kind: 'event', name, args: [expectedForm(payload)] }));
  });
}

/**
 * Of several outcomes, any will do; where none does, the one that held longest says what differs. `apart`: what a device is
 * answered (acknowledgements, refusals) and what it hears from others are two lists, each with its order; between the two there is none.
 */
export function matchOutcomes(outcomes: readonly Outcome[], got: Transcripts, apart = false): Verdict {
  let closest: { readonly divergences: readonly Divergence[]; readonly held: number } | undefined;
  const came = apart
    ? Object.fromEntries(Object.entries(got).map(([device, entries]) => [device, answersFirst(entries) as Entry[]]))
    : got;
  for (const outcome of outcomes) {
    const { divergences, held } = matchOutcome(outcome, came, apart);
    if (divergences.length === 0) return { ok: true };
    if (!closest || held > closest.held) closest = { divergences, held };
  }
  return { ok: false, divergences: closest?.divergences ?? [] };
}

const isAnswer = (entry: Wanted): boolean =>
  entry.kind === 'ack' || entry.kind === 'response' || (entry.kind === 'event' && entry.name === 'error');

/** The same entries, answers before what came from others. */
function answersFirst(entries: readonly Wanted[]): Wanted[] {
  const flat = entries.flatMap((one): Wanted[] => {
    if (one.kind !== 'any-order') return [one];
    const parts = [one.entries.filter(isAnswer), one.entries.filter((entry) => !isAnswer(entry))];
    return parts.filter(({ length }) => length > 0).map((part) => ({ kind: 'any-order', entries: part }));
  });
  const isOwn = (one: Wanted) => isAnswer(one.kind === 'any-order' ? (one.entries[0] as Entry) : one);
  return [...flat.filter(isOwn), ...flat.filter((one) => !isOwn(one))];
}

function matchOutcome(outcome: Outcome, got: Transcripts, apart: boolean): { divergences: Divergence[]; held: number } {
  const bound = new Map<string, unknown>();
  const divergences: Divergence[] = [];
  let held = 0;
  for (const device of [...new Set([...Object.keys(outcome), ...Object.keys(got)])].sort()) {
    const written = wantedOf(outcome[device] ?? []);
    const wanted = apart ? answersFirst(written) : written;
    const entries = got[device] ?? [];
    const found = matchList(wanted, entries, bound);
    held += found.at;
    if (found.what !== undefined) divergences.push({ device, at: found.at, wanted, got: entries, what: found.what });
  }
  return { divergences, held };
}

function matchList(
  wanted: readonly Wanted[],
  got: readonly Entry[],
  bound: Map<string, unknown>,
): { readonly at: number; readonly what?: string } {
  let at = 0;
  for (const one of wanted) {
    if (one.kind !== 'any-order') {
      const what = differs(one, got[at], bound);
      if (what !== undefined) return { at, what };
      at++;
      continue;
    }
    const left = [...one.entries];
    while (left.length > 0) {
      const entry = got[at];
      const i = left.findIndex((candidate) => differs(candidate, entry, new Map(bound)) === undefined);
      if (i < 0) {
        const names = left.map((candidate) => titleOf(candidate)).join(', ');
        return { at, what: entry ? `${titleOf(entry)} is none of: ${names}` : `missing, in any order: ${names}` };
      }
      differs(left[i] as Entry, entry, bound);
      left.splice(i, 1);
      at++;
    }
  }
  const more = got[at];
  return more ? { at, what: `${titleOf(more)} was not expected any more` } : { at };
}

/** In words what differs between an expected entry and a received one; undefined where nothing does. */
export function differs(wanted: Entry, got: Entry | undefined, bound: Map<string, unknown>): string | undefined {
  if (!got) return `${titleOf(wanted)} is missing`;
  if (wanted.kind !== got.kind || !matches(wanted.name, got.name, bound)) {
    return `${titleOf(got)} instead of ${titleOf(wanted)}`;
  }
  if (wanted.kind === 'response' && got.kind === 'response') {
    if (wanted.status !== got.status) return `${wanted.name}: status ${got.status} instead of ${wanted.status}`;
    return valueDiffers(wanted.body, got.body, 'body', bound);
  }
  if ('args' in wanted && 'args' in got) {
    if (wanted.args.length !== got.args.length) {
      return `${titleOf(got)}: ${got.args.length} arguments instead of ${wanted.args.length}`;
    }
    for (const [i, arg] of wanted.args.entries()) {
      const found = valueDiffers(arg, got.args[i], wanted.args.length === 1 ? '' : `[${i}]`, bound);
      if (found !== undefined) return `${titleOf(got)}: ${found}`;
    }
  }
  return undefined;
}

const matches = (wanted: string, got: string, bound: Map<string, unknown>): boolean =>
  valueDiffers(wanted, got, '', bound) === undefined;

function valueDiffers(wanted: unknown, got: unknown, path: string, bound: Map<string, unknown>): string | undefined {
  const at = path === '' ? '' : `${path}: `;
  if (typeof wanted === 'string') {
    if (wanted === '$any') return undefined;
    const id = /^\$id:([\w-]+)$/.exec(wanted)?.[1];
    if (id !== undefined) {
      if (typeof got !== 'string') return `${at}${shown(got)} instead of an id`;
      if (bound.has(id) && bound.get(id) !== got)
        return `${at}${shown(got)} instead of ${shown(bound.get(id))}, as before ($id:${id})`;
      bound.set(id, got);
      return undefined;
    }
    const literal = wanted.startsWith('$$') ? wanted.slice(1) : wanted;
    return literal === got ? undefined : `${at}${shown(got)} instead of ${shown(wanted)}`;
  }
  if (typeof wanted !== 'object' || wanted === null) {
    return Object.is(wanted, got) ? undefined : `${at}${shown(got)} instead of ${shown(wanted)}`;
  }
  if (typeof got !== 'object' || got === null || Array.isArray(wanted) !== Array.isArray(got)) {
    return `${at}${shown(got)} instead of ${shown(wanted)}`;
  }
  const keys = Object.keys(wanted);
  const found = Object.keys(got);
  if (Array.isArray(wanted) && keys.length !== found.length) {
    return `${at}${found.length} items instead of ${keys.length}`;
  }
  if (keys.join('\n') !== found.join('\n')) return `${at}keys ${found.join(', ')} instead of ${keys.join(', ')}`;
  for (const key of keys) {
    const next = Array.isArray(wanted) ? `${path}[${key}]` : path === '' ? key : `${path}.${key}`;
    const inner = valueDiffers(own(wanted, key), own(got, key), next, bound);
    if (inner !== undefined) return inner;
  }
  return undefined;
}

/** Also where the key is `__proto__`. */
const own = (value: object, key: string): unknown => Object.getOwnPropertyDescriptor(value, key)?.value;

export function titleOf(entry: Wanted): string {
  switch (entry.kind) {
    case 'event':
      return entry.name;
    case 'ack':
      return `the acknowledgement of ${entry.name}`;
    case 'response':
      return `the answer to ${entry.name}`;
    case 'disconnected':
      return `the end of the connection (${entry.name})`;
    case 'any-order':
      return entry.entries.map(titleOf).join(', ');
  }
}

function shown(value: unknown): string {
  const text = value === undefined ? 'nothing' : (JSON.stringify(value) ?? String(value));
  return text.length > 120 ? `${text.slice(0, 100)}… (${text.length} characters)` : text;
}

/** Path against path: the same entries, nothing left open. */
export function compareTranscripts(base: Transcripts, other: Transcripts): Divergence[] {
  const divergences: Divergence[] = [];
  for (const device of [...new Set([...Object.keys(base), ...Object.keys(other)])].sort()) {
    const wanted = base[device] ?? [];
    const got = other[device] ?? [];
    const length = Math.max(wanted.length, got.length);
    for (let at = 0; at < length; at++) {
      const one = wanted[at];
      const what = one ? literally(one, got[at]) : `${titleOf(got[at] as Entry)} came besides`;
      if (what === undefined) continue;
      divergences.push({ device, at, wanted, got, what });
      break;
    }
  }
  return divergences;
}

/** Placeholders that a transcript holds stand for themselves here. */
function literally(wanted: Entry, got: Entry | undefined): string | undefined {
  if (got && JSON.stringify(wanted) === JSON.stringify(got)) return undefined;
  return differs(wanted, got, new Map()) ?? 'differs in type';
}
