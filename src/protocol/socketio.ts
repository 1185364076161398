// Socket.IO packets of protocol revision 5 in text form: reading a header and an event's name in place, taking a packet
// apart, putting one together. Knows nothing of frames, payloads or what an event means.
import { isUtf8 } from 'node:buffer';
import { type Outgoing, type Packet, PacketType } from './packet.js';

/** Payload bytes after which an event's name is looked for by other means (the whole packet is gathered and parsed). */
export const PEEK = 96;
/** socket.io-parser's limit (`maxAttachments`); beyond it the legacy closes the session, so nothing of it is served. */
export const MAX_ATTACHMENTS = 10;
/** Ids of more digits are beyond what a number holds exactly: not understood. */
const MAX_ID_DIGITS = 15;
/**
 * Lists and objects nested deeper are not passed on: what writes them down (`JSON.stringify`, here and in browsers) runs
 * out of stack somewhere above 3,000 levels. Decoding has no such bound; encoding makes null of what is deeper.
 */
export const MAX_DEPTH = 1_000;

/** What `peek` found. */
export const Look = {
  /** More bytes are needed. */
  MORE: 0,
  /** Not understood: forwarded. `attachments` is 0 unless the count was readable. */
  UNKNOWN: 1,
  /** CONNECT, DISCONNECT, ACK, CONNECT_ERROR or BINARY_ACK; `type` and `attachments` are set. */
  OTHER: 2,
  /** EVENT or BINARY_EVENT with `ns` and `name`. */
  NAMED: 3,
  /** EVENT or BINARY_EVENT whose name holds escapes, is a number, or is longer than the peek: the whole array must be parsed. */
  SLOW: 4,
} as const;
export type Look = (typeof Look)[keyof typeof Look];

/** Where `peek` leaves what it read: one object, reused, since a splice asks for every message. */
export const peeked = { type: -1, attachments: 0, ns: '/', name: '', id: -1 };

/**
 * Reads header and event name from the first bytes of an Engine.IO message (`4…`), in place.
 * @param complete no more bytes of this message exist behind `end`.
 */
export function peek(b: Buffer, start: number, end: number, complete: boolean): Look {
  peeked.attachments = 0;
  peeked.type = -1;
  const more = complete ? Look.UNKNOWN : Look.MORE;
  if (end - start < 2) return end > start && b[start] !== 0x34 ? Look.UNKNOWN : more;
  if (b[start] !== 0x34) return Look.UNKNOWN;
  const type = b[start + 1]! - 48;
  if (type < 0 || type > 6) return Look.UNKNOWN;
  peeked.type = type;
  let i = start + 2;
  if (type === 5 || type === 6) {
    let count = 0;
    const digits = i;
    for (; i < end && b[i]! >= 48 && b[i]! <= 57; i++) count = count * 10 + b[i]! - 48;
    if (i === end) return i - digits > 9 ? Look.UNKNOWN : more;
    if (b[i] !== 0x2d || i === digits || i - digits > 9) return Look.UNKNOWN;
    peeked.attachments = count;
    if (count === 0) return Look.UNKNOWN; // the legacy closes the session
    if (type === 6) return Look.OTHER;
    i++;
  } else if (type !== 2) return Look.OTHER;
  // From here on a name that is not found within the peek is looked for in the whole packet.
  const unfinished = complete ? Look.UNKNOWN : end - start >= PEEK ? Look.SLOW : Look.MORE;
  i = peekNamespace(b, i, end);
  if (i < 0) return unfinished;
  const digits = i;
  while (i < end && b[i]! >= 48 && b[i]! <= 57) i++;
  if (i - digits > MAX_ID_DIGITS) return Look.UNKNOWN;
  if (i === end) return unfinished;
  if (b[i] !== 0x5b) return Look.UNKNOWN;
  i++;
  if (i === end) return unfinished;
  if (b[i] !== 0x22) return Look.SLOW;
  const name = ++i;
  let any = 0;
  for (let c = 0; i < end; i++) {
    c = b[i]!;
    if (c === 0x22) {
      peeked.name = any < 128 ? b.toString('latin1', name, i) : b.toString('utf8', name, i);
      return Look.NAMED;
    }
    if (c === 0x5c) return Look.SLOW;
    any |= c;
  }
  return unfinished;
}

/** Sets `peeked.ns`; the position behind it, or -1 where it does not end before `end`. */
function peekNamespace(b: Buffer, start: number, end: number): number {
  peeked.ns = '/';
  if (start >= end || b[start] !== 0x2f) return start;
  let comma = start;
  while (comma < end && b[comma] !== 0x2c) comma++;
  if (comma === end) return -1;
  peeked.ns = b.toString('utf8', start, comma);
  return comma + 1;
}

/**
 * Reads namespace and id of an acknowledgement, in place: call it where `peek` found OTHER with type ACK or BINARY_ACK.
 * NAMED: `peeked.ns` and `peeked.id` are set. SLOW: the namespace is longer than the peek.
 */
export function peekAck(b: Buffer, start: number, end: number, complete: boolean): Look {
  let i = start + 2;
  if (peeked.type === PacketType.BINARY_ACK) {
    while (b[i] !== 0x2d) i++; // `peek` has seen it
    i++;
  }
  const unfinished = complete ? Look.UNKNOWN : end - start >= PEEK ? Look.SLOW : Look.MORE;
  i = peekNamespace(b, i, end);
  if (i < 0) return unfinished;
  const digits = i;
  let id = 0;
  for (; i < end && b[i]! >= 48 && b[i]! <= 57; i++) id = id * 10 + b[i]! - 48;
  if (i - digits > MAX_ID_DIGITS) return Look.UNKNOWN;
  if (i === end) return unfinished; // arguments follow
  if (i === digits) return Look.UNKNOWN;
  peeked.id = id;
  return Look.NAMED;
}

/** A packet's header: `4`, type, attachments, namespace, id. */
export interface Header {
  readonly type: PacketType;
  readonly attachments: number;
  readonly ns: string;
  readonly id: number | undefined;
  readonly dataStart: number;
}

/** Reads `4type[attachments-][/namespace,][id]` at the start of `text`; null where it is not understood. */
export function readPacketHeader(text: string): Header | null {
  if (text.charCodeAt(0) !== 0x34) return null;
  const type = text.charCodeAt(1) - 48;
  if (!(type >= 0 && type <= 6)) return null; // NaN too
  let i = 2;
  let attachments = 0;
  if (type === 5 || type === 6) {
    const end = digitsEnd(text, i);
    if (end === i || end - i > 9 || text.charCodeAt(end) !== 0x2d) return null;
    attachments = Number(text.slice(i, end));
    if (attachments === 0) return null;
    i = end + 1;
  }
  let ns = '/';
  if (text.charCodeAt(i) === 0x2f) {
    const comma = text.indexOf(',', i);
    const end = comma < 0 ? text.length : comma;
    ns = text.slice(i, end);
    i = comma < 0 ? end : comma + 1;
  }
  const end = digitsEnd(text, i);
  if (end - i > MAX_ID_DIGITS) return null;
  const id = end > i ? Number(text.slice(i, end)) : undefined;
  return { type: type as PacketType, attachments, ns, id, dataStart: end };
}

/**
 * The name of the event whose array starts at `dataStart`; `undefined` where there is none. Only a name that holds
 * escapes, is a number or has space before it needs the whole array parsed. A number is named by its digits, as an
 * emitter's listeners are.
 */
export function eventName(text: string, dataStart: number): string | undefined {
  if (text.charCodeAt(dataStart) !== 0x5b) return undefined;
  if (text.charCodeAt(dataStart + 1) === 0x22) {
    const end = text.indexOf('"', dataStart + 2);
    if (end < 0) return undefined;
    const name = text.slice(dataStart + 2, end);
    if (!name.includes('\\')) return name;
  }
  const value = parseJson(text.slice(dataStart));
  const first: unknown = Array.isArray(value) ? value[0] : undefined;
  return typeof first === 'string' ? first : typeof first === 'number' ? String(first) : undefined;
}

/**
 * A whole packet from its text (with the leading `4`) and its attachments. Null where the header is not understood, an
 * event has no name, or the number of attachments is not the announced one. The JSON behind the name is not looked at.
 */
export function parsePacket(text: string, attachments: readonly Buffer[]): Packet | null {
  const header = readPacketHeader(text);
  if (header === null || header.attachments !== attachments.length) return null;
  const { type, ns, id, dataStart } = header;
  let name: string | undefined;
  if (type === PacketType.EVENT || type === PacketType.BINARY_EVENT) {
    name = eventName(text, dataStart);
    if (name === undefined) return null;
  }
  return { text, attachments, type, ns, id, name, dataStart };
}

/**
 * The packet's arguments with its attachments in place: for an event those behind its name, for an acknowledgement all,
 * for CONNECT and CONNECT_ERROR the one value or none.
 *
 * Never throws, however deep the nesting. **Null for what is not understood** (no JSON, no array, a placeholder without
 * an attachment): such a packet is forwarded, and null can't be mistaken for an event without arguments.
 * A `__proto__` in the JSON is a property like any other.
 */
export function decodeArgs(packet: Packet): unknown[] | null {
  const { type, text, dataStart, attachments } = packet;
  const lone = type === PacketType.CONNECT || type === PacketType.CONNECT_ERROR || type === PacketType.DISCONNECT;
  if (lone && dataStart >= text.length) return [];
  const value = parseJson(text.slice(dataStart));
  if (value === undefined) return null;
  const list: unknown = lone ? [value] : value;
  if (!Array.isArray(list)) return null;
  const binary = type === PacketType.BINARY_EVENT || type === PacketType.BINARY_ACK;
  if (binary && !fill(list, attachments)) return null;
  return packet.name === undefined ? list : list.slice(1);
}

/** Whether lists and objects in `value` are nested over `MAX_DEPTH` levels. Never runs out of stack. */
export function isTooDeep(value: unknown): boolean {
  let level: object[] = isNested(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth++) {
    if (depth > MAX_DEPTH) return true;
    const below: object[] = [];
    for (const one of level) for (const item of Object.values(one)) if (isNested(item)) below.push(item);
    level = below;
  }
  return false;
}

const isNested = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !ArrayBuffer.isView(value);

/** An EVENT, or a BINARY_EVENT where `args` hold Buffers, Uint8Arrays or ArrayBuffers at any depth. Never changes `args`. */
export const encodeEvent = (ns: string, name: string, args: readonly unknown[]): Outgoing =>
  encode(PacketType.EVENT, PacketType.BINARY_EVENT, ns, '', [name, ...args]);

/** The acknowledgement `id`: ACK, or BINARY_ACK. */
export const encodeAck = (ns: string, id: number, args: readonly unknown[]): Outgoing =>
  encode(PacketType.ACK, PacketType.BINARY_ACK, ns, String(id), args);

/** The text of a message's bytes; null where they are not UTF-8, for which an endpoint must fail the connection (RFC 6455, 8.1). */
export const textOf = (payload: Buffer): string | null => (isUtf8(payload) ? payload.toString('utf8') : null);

function encode(plain: PacketType, binary: PacketType, ns: string, id: string, args: readonly unknown[]): Outgoing {
  const place = ns === '/' ? '' : `${ns},`;
  const found: Found = { attachments: [], forged: false, scrub: false };
  let value = extract(args, found, 0);
  if (found.attachments.length === 0) {
    return { text: `4${plain}${place}${id}${JSON.stringify(value)}`, attachments: [] };
  }
  if (found.forged) {
    found.attachments = [];
    found.scrub = true;
    value = extract(args, found, 0);
  }
  const { attachments } = found;
  return { text: `4${binary}${attachments.length}-${place}${id}${JSON.stringify(value)}`, attachments };
}

interface Found {
  attachments: Buffer[];
  /** Somebody's data looks like a placeholder: in a binary packet it would make the receiver drop its connection. */
  forged: boolean;
  scrub: boolean;
}

/** The value with placeholders for its binary parts; the very same value where there are none. */
function extract(value: unknown, found: Found, depth: number): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (depth > MAX_DEPTH + 8) return null; // what we decoded, in an envelope of ours, is never that deep
  const bytes = bytesOf(value);
  if (bytes !== null) return { _placeholder: true, num: found.attachments.push(bytes) - 1 };
  if (Array.isArray(value)) {
    let copy: unknown[] | null = null;
    for (let i = 0; i < value.length; i++) {
      const now = extract(value[i], found, depth + 1);
      if (now !== value[i]) {
        copy ??= value.slice();
        copy[i] = now;
      }
    }
    return copy ?? value;
  }
  const source = value as Record<string, unknown>;
  let copy: Record<string, unknown> | null = null;
  if (Object.hasOwn(source, '_placeholder') && source._placeholder === true) {
    found.forged = true;
    if (found.scrub) copy = withoutPlaceholder(source);
  }
  for (const key of Object.keys(source)) {
    if (copy !== null && !Object.hasOwn(copy, key)) continue;
    const now = extract(source[key], found, depth + 1);
    if (now !== source[key]) {
      copy ??= Object.assign(Object.create(null) as Record<string, unknown>, source);
      copy[key] = now;
    }
  }
  return copy ?? value;
}

function withoutPlaceholder(source: Record<string, unknown>): Record<string, unknown> {
  const copy = Object.assign(Object.create(null) as Record<string, unknown>, source);
  delete copy._placeholder;
  return copy;
}

function bytesOf(value: object): Buffer | null {
  if (Buffer.isBuffer(value)) return value;
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? Buffer.from(value) : null;
}

/** Puts attachments in the place of their placeholders, in `list` itself, which nobody else has yet; false where one is missing. */
function fill(list: unknown[], attachments: readonly Buffer[]): boolean {
  const left: object[] = [list];
  for (let source = left.pop(); source !== undefined; source = left.pop()) {
    const holder = source as Record<string, unknown>;
    for (const key of Object.keys(holder)) {
      const item = holder[key];
      if (typeof item !== 'object' || item === null) continue;
      if (!Object.hasOwn(item, '_placeholder') || (item as Record<string, unknown>)._placeholder !== true) {
        left.push(item);
        continue;
      }
      const index = Object.hasOwn(item, 'num') ? (item as Record<string, unknown>).num : undefined;
      const bytes = typeof index === 'number' ? attachments[index] : undefined;
      if (bytes === undefined) return false;
      // An own `__proto__` (JSON.parse makes one) is written as the property that it is.
      holder[key] = bytes;
    }
  }
  return true;
}

/** `undefined` where it is no JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

function digitsEnd(text: string, from: number): number {
  let i = from;
  while (text.charCodeAt(i) >= 48 && text.charCodeAt(i) <= 57) i++;
  return i;
}
