// Makes transcripts comparable: what differs between any two runs of the same thing (ids of users, conversations, sockets
// and messages, times, tokens) becomes a placeholder. Nothing else is touched: order, keys, their order and types stay.
// Knows nothing of what was expected.
import type { Entry, Transcripts } from '../play/transcript.js';
import { binaryForm, deepText } from '../values.js';

export interface Known {
  /** Real text → the name it gets, without the dollar: `alice-k3f-1` → `alice`. */
  readonly names: ReadonlyMap<string, string>;
  /** When the play ran, in milliseconds since 1970: numbers and dates near it are times. */
  readonly from: number;
  readonly to: number;
}

/** Times of a server whose clock is wrong by less than this are recognised. */
const clockSkew = 3_600_000;
/** Deeper values are shown by their depth; beyond this a recursive walk would be a risk. */
const deepest = 200;

const uuid = '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}';
/** A JWT: its header is the Base64 of `{"`. */
const token = 'eyJ[\\w-]{5,}\\.[\\w-]{8,}\\.[\\w-]{8,}';
const date = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(?:\\.\\d+)?(?:Z|[+-]\\d\\d:\\d\\d)';

export function normalise(transcripts: Transcripts, known: Known): Transcripts {
  const text = textNormaliser(known);
  const value = (given: unknown): unknown => {
    const depth = depthOf(given);
    if (depth <= deepest) return normaliseValue(given, text, known);
    return pierced(given, depth, (one) => normaliseValue(one, text, known));
  };
  const entry = (one: Entry): Entry => {
    switch (one.kind) {
      case 'event':
      case 'ack':
        return { ...one, args: one.args.map(value) };
      case 'response':
        return { ...one, name: String(text(one.name)), body: value(one.body) };
      case 'disconnected':
        return one;
    }
  };
  return Object.fromEntries(
    Object.entries(transcripts)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([device, entries]) => [device, entries.map(entry)]),
  );
}

function textNormaliser({ names }: Known): (text: string) => unknown {
  const ids = [...names.keys()].filter((id) => id !== '').sort((a, b) => b.length - a.length);
  const escaped = ids.map((id) => id.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const pattern = new RegExp([...escaped, uuid, token, date].join('|'), 'g');
  const uuids = new Map<string, number>();
  const nameOf = (found: string): string => {
    const known = names.get(found);
    if (known !== undefined) return known;
    if (found.includes('.') && !found.includes(':')) return 'token';
    if (found.includes(':')) return 'time';
    if (!uuids.has(found)) uuids.set(found, uuids.size + 1);
    return `uuid:${uuids.get(found)}`;
  };
  return (text) => {
    // Long texts are made of something else; and a pattern over megabytes would take its time.
    if (text.length > 16_384) return text;
    let whole: string | undefined;
    const replaced = text.replace(pattern, (found) => {
      const name = nameOf(found);
      if (found.length === text.length) whole = `$${name}`;
      return `\${${name}}`;
    });
    return whole ?? replaced;
  };
}

function normaliseValue(value: unknown, text: (text: string) => unknown, known: Known): unknown {
  if (typeof value === 'string') return text(value);
  if (typeof value === 'number') {
    return Number.isInteger(value) && value > known.from - clockSkew && value < known.to + clockSkew ? '$time' : value;
  }
  if (value instanceof Uint8Array) return binaryForm(value);
  if (value instanceof ArrayBuffer) return binaryForm(new Uint8Array(value));
  if (Array.isArray(value)) return value.map((one) => normaliseValue(one, text, known));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, one]) => [String(text(key)), normaliseValue(one, text, known)]),
  );
}

/** How deep a value is nested, without recursion. */
function depthOf(value: unknown): number {
  let deep = 0;
  let level: unknown[] = [value];
  while (level.length > 0 && deep < 1_000_000) {
    const next: unknown[] = [];
    for (const one of level) {
      if (typeof one === 'object' && one !== null && !(one instanceof Uint8Array)) next.push(...Object.values(one));
    }
    level = next;
    if (level.length > 0) deep++;
  }
  return deep;
}

/** A deep value with its deep members replaced by how deep they are. */
function pierced(value: unknown, depth: number, shallow: (value: unknown) => unknown): unknown {
  if (typeof value !== 'object' || value === null) return shallow(value);
  let lists = 0;
  let inner: unknown = value;
  while (Array.isArray(inner) && inner.length === 1) {
    lists++;
    inner = inner[0];
  }
  if (lists > deepest && Array.isArray(inner) && inner.length === 0) return deepText(lists + 1);
  if (depth > 1_000 && lists > 0) return `$deep:${depth} (of other things than lists)`;
  const member = (one: unknown): unknown => {
    const own = depthOf(one);
    return own > deepest ? pierced(one, own, shallow) : shallow(one);
  };
  if (Array.isArray(value)) return value.map(member);
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, member(one)]));
}
