// The placeholders of a scenario: turned into real values on the way out ($alice into a user's id), and into the form that
// a normalised transcript has in an expectation. Knows nothing of connections.

/** Whole texts `$word`, besides the scenario's own parties and conversations. */
export const placeholders = ['any', 'time', 'id', 'socket', 'nobody', 'token'] as const;

/** Maps with one key that stand for a value that is unhandy in YAML. */
export const generators: ReadonlySet<string> = new Set([
  '$binary',
  '$binaryHex',
  '$deep',
  '$long',
  '$each',
  'value',
  '$ticket',
]);

/** What the names of a scenario are in one play of it. */
export interface Cast {
  /** A party's user id, or a conversation's id; `$nobody` is the id of a conversation that does not exist. */
  word(name: string): string;
  socketId(device: string): string;
  ticket(spec: TicketSpec): string;
}

export interface TicketSpec {
  /** Default: a ticket of `user` for `conversation`, valid for a minute. */
  readonly user: string;
  readonly conversation: string;
  readonly participants: readonly string[];
  readonly audience?: string;
  /** Seconds from now. */
  readonly expires?: number;
  readonly forged?: boolean;
}

/** Too deep for JSON.stringify: written into the packet's text by the device. */
export class Deep {
  readonly depth: number;

  constructor(depth: number) {
    this.depth = depth;
  }
}

/** What is sent for a value of a scenario; `n` counts the repeats of a step. */
export function outgoing(value: unknown, cast: Cast, n = 0): unknown {
  if (typeof value === 'string') return outgoingText(value, cast, n);
  if (Array.isArray(value)) return value.flatMap((item) => each(item, (one, i) => outgoing(one, cast, i ?? n)));
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  const entries = Object.entries(value);
  const [key, given] = entries[0] ?? [];
  if (entries.length === 1 && key?.startsWith('$')) {
    if (key === '$binary') return Buffer.from(String(outgoing(given, cast, n)));
    if (key === '$binaryHex') return Buffer.from(String(given), 'hex');
    if (key === '$deep') return new Deep(Number(given));
    if (key === '$long') return 'x'.repeat(Number(given));
    if (key === '$ticket') return cast.ticket(outgoing(given, cast, n) as TicketSpec);
  }
  // fromEntries defines `__proto__` as a key like any other.
  return Object.fromEntries(entries.map(([name, item]) => [outgoingText(name, cast, n), outgoing(item, cast, n)]));
}

function outgoingText(text: string, cast: Cast, n: number): unknown {
  if (text.startsWith('$$')) return text.slice(1);
  if (text === '$n') return n;
  const whole = /^\$([a-z][\w-]*)(?::([\w-]+))?$/i.exec(text);
  if (whole) return wordOf(whole[1] as string, whole[2], cast);
  return text.replace(/\$\{(\w[\w-]*)(?::([\w-]+))?\}/g, (_all, word: string, rest: string | undefined) =>
    word === 'n' ? String(n) : wordOf(word, rest, cast),
  );
}

const wordOf = (word: string, rest: string | undefined, cast: Cast): string =>
  word === 'socket' ? cast.socketId(rest ?? '') : cast.word(word);

/** The form in which a normalised transcript would have this value; placeholders stay. */
export function expectedForm(value: unknown, n = 0): unknown {
  if (typeof value === 'string') {
    if (value === '$n') return n;
    return value.replace(/\$\{n\}/g, String(n));
  }
  if (Array.isArray(value)) return value.flatMap((item) => each(item, (one, i) => expectedForm(one, i ?? n)));
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value);
  const [key, given] = entries[0] ?? [];
  if (entries.length === 1 && key?.startsWith('$')) {
    if (key === '$deep') return deepText(Number(given));
    if (key === '$long') return 'x'.repeat(Number(given));
    if (key === '$binary') return binaryForm(Buffer.from(String(given)));
    if (key === '$binaryHex') return binaryForm(Buffer.from(String(given), 'hex'));
  }
  return Object.fromEntries(entries.map(([name, item]) => [name, expectedForm(item, n)]));
}

/** How a transcript shows binary data. */
export function binaryForm(data: Uint8Array): object {
  const text = Buffer.from(data).toString('utf8');
  return Buffer.from(text).equals(Buffer.from(data))
    ? { $binary: text }
    : { $binaryHex: Buffer.from(data).toString('hex') };
}

/** How a transcript shows lists nested this deep. */
export const deepText = (depth: number): string => `$deep:${depth}`;

/** `{ $each: 3, value: v }` in a list: v three times, with $n from 0. */
function each(item: unknown, make: (one: unknown, n: number | undefined) => unknown): unknown[] {
  if (typeof item === 'object' && item !== null && '$each' in item && 'value' in item) {
    const { $each, value } = item as { $each: unknown; value: unknown };
    return Array.from({ length: Number($each) }, (_none, n) => make(value, n));
  }
  return [make(item, undefined)];
}
