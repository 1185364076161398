// Material for this folder's fuzz tests: arbitrary messages, their frames cut and mixed at random, and a slow, plain
// model of what a splice or a payload filter has to do with them, written without any of the code under test.
import fc from 'fast-check';
import type { Interest, LegacyInterest } from './packet.js';

export const LONG_NAME = `long-${'n'.repeat(120)}`;
const WANTED = new Set(['call-offer', 'ice-candidate', 'wanted é', 'pass-me', LONG_NAME, '5']);
export const interest: Interest = { event: (ns, name) => ns !== '/other' && WANTED.has(name) };
/** The same, of the legacy's; of its acknowledgements those whose id is in the list, in `/` and `/app`. */
export const legacyInterest = (awaited: readonly number[] = []): LegacyInterest => ({
  ...interest,
  awaiting: () => awaited.length > 0,
  acknowledgement: (ns, id) => (ns === '/' || ns === '/app') && awaited.includes(id),
});
/** The verdict of the test's owner: what it is shown and does not take. */
export const takes = (name: string | undefined): boolean => name !== undefined && name !== 'pass-me';

export interface Message {
  readonly opcode: 1 | 2;
  readonly payload: Buffer;
  /** Sizes of all fragments but the last. */
  readonly cuts: readonly number[];
  /** Control frames (opcode, payload) after the fragment of that index. */
  readonly controls: readonly { after: number; opcode: number; payload: Buffer }[];
}

export interface Packet {
  readonly text: string;
  readonly attachments: readonly Buffer[];
}

/** A frame, written plainly. */
export function wireFrame(opcode: number, fin: boolean, payload: Buffer, mask: Buffer | null, wide = false): Buffer {
  const n = payload.length;
  const head = [(fin ? 0x80 : 0) | opcode];
  const bit = mask === null ? 0 : 0x80;
  if (wide || n > 65535) head.push(bit | 127, 0, 0, 0, 0, n >>> 24, (n >>> 16) & 255, (n >>> 8) & 255, n & 255);
  else if (n > 125) head.push(bit | 126, n >> 8, n & 255);
  else head.push(bit | n);
  if (mask === null) return Buffer.concat([Buffer.from(head), payload]);
  return Buffer.concat([Buffer.from(head), mask, Buffer.from(payload.map((byte, i) => byte ^ mask[i & 3]!))]);
}

export interface Wire {
  readonly bytes: Buffer;
  /** Each data message's own frames, in order, and where the first of them begins in `bytes`. */
  readonly data: readonly Buffer[];
}

/** The messages as frames. `masks`: a key for each frame in turn, or null for a server's. */
export function wire(messages: readonly Message[], masks: readonly Buffer[] | null): Wire {
  const all: Buffer[] = [];
  const data: Buffer[] = [];
  let turn = 0;
  const mask = () => (masks === null ? null : masks[turn++ % masks.length]!);
  for (const { opcode, payload, cuts, controls } of messages) {
    const own: Buffer[] = [];
    let at = 0;
    for (let i = 0; i <= cuts.length; i++) {
      const last = i === cuts.length;
      const end = last ? payload.length : Math.min(payload.length, at + cuts[i]!);
      const bytes = wireFrame(i === 0 ? opcode : 0, last, payload.subarray(at, end), mask(), turn % 7 === 3);
      own.push(bytes);
      all.push(bytes);
      at = end;
      for (const control of controls) {
        if (control.after === i) all.push(wireFrame(control.opcode, true, control.payload, mask()));
      }
    }
    data.push(Buffer.concat(own));
  }
  return { bytes: Buffer.concat(all), data };
}

export interface ReadFrame {
  readonly opcode: number;
  readonly fin: boolean;
  readonly payload: Buffer;
  readonly raw: Buffer;
}

/** Frames of a stream, read plainly; where it ends inside one: throws, or leaves that out if it may be `cut`. */
export function readWire(b: Buffer, cut = false): ReadFrame[] {
  const frames: ReadFrame[] = [];
  for (let pos = 0; pos < b.length; ) {
    if (cut && b.length - pos < 14) return frames;
    let n = b[pos + 1]! & 127;
    let at = pos + 2;
    if (n === 126) {
      n = b.readUInt16BE(at);
      at += 2;
    } else if (n === 127) {
      n = Number(b.readBigUInt64BE(at));
      at += 8;
    }
    let payload: Buffer;
    if (b[pos + 1]! >= 128) {
      const key = b.subarray(at, at + 4);
      at += 4;
      payload = Buffer.from(b.subarray(at, at + n).map((byte, i) => byte ^ key[i & 3]!));
    } else payload = b.subarray(at, at + n);
    if (at + n > b.length && cut) return frames;
    if (at + n > b.length) throw new Error('the stream ends inside a frame');
    frames.push({ opcode: b[pos]! & 15, fin: b[pos]! >= 128, payload, raw: b.subarray(pos, at + n) });
    pos = at + n;
  }
  return frames;
}

/** What the model makes of a text. */
interface Meaning {
  readonly kind: 'engine' | 'attachment' | 'packet';
  readonly count: number;
  readonly shown: boolean;
  readonly name: string | undefined;
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function meaningOf(payload: Buffer, up: boolean): Meaning {
  const nothing: Meaning = { kind: 'packet', count: 0, shown: false, name: undefined };
  if (payload.length === 0) return nothing;
  if (payload[0] === 0x62) return { ...nothing, kind: 'attachment' };
  if (payload[0] !== 0x34) return { ...nothing, kind: 'engine' };
  const loose = payload.toString('latin1');
  const count = Number(/^4[56](\d{1,9})-/.exec(loose)?.[1] ?? 0);
  let text: string;
  try {
    text = utf8.decode(payload);
  } catch (error) {
    if (error instanceof TypeError) return { ...nothing, count };
    throw error;
  }
  const form = /^4([0-6])((?<=[56])\d{1,9}-)?(\/[^,]*(?:,|$))?(\d{0,15})(?!\d)([\s\S]*)$/.exec(text);
  if (form === null) return { ...nothing, count };
  const type = Number(form[1]);
  if (type >= 5 !== (form[2] !== undefined) || (type >= 5 && count === 0)) return { ...nothing, count };
  if (type === 0 || type === 1 || (!up && type === 4)) return { ...nothing, count, shown: true };
  if (type !== 2 && type !== 5) return { ...nothing, count };
  const ns = form[3] === undefined ? '/' : form[3].replace(/,$/, '');
  const name = nameOf(form[5]!);
  const fits = count <= 10 || !up;
  return { kind: 'packet', count, shown: name !== undefined && fits && interest.event(ns, name), name };
}

function nameOf(json: string): string | undefined {
  if (!json.startsWith('[')) return undefined;
  const plain = /^\["([^"\\]*)"/.exec(json);
  if (plain) return plain[1];
  try {
    const value: unknown = JSON.parse(json);
    const first: unknown = Array.isArray(value) ? value[0] : undefined;
    return typeof first === 'string' || typeof first === 'number' ? String(first) : undefined;
  } catch {
    return undefined; // no JSON: no name
  }
}

export interface Expected {
  /** Indices of the messages that pass as data (neither cut out nor Engine.IO packets), in order. */
  readonly passed: readonly number[];
  /** `at`: the index of the header's message. */
  readonly shown: readonly (Packet & { readonly at: number })[];
  readonly taken: readonly Packet[];
}

/** The model: message by message. `up`: from the browser, where taken packets are cut out. */
export function expected(messages: readonly Message[], up: boolean, maxPayload: number): Expected {
  const passed: number[] = [];
  const shown: (Packet & { at: number })[] = [];
  const taken: Packet[] = [];
  let due = 0;
  let open: { text: string; name: string; count: number; size: number; at: number[]; attachments: Buffer[] } | null =
    null;
  const breakOpen = () => {
    if (open === null) return;
    passed.push(...open.at);
    due = open.count - open.attachments.length;
    open = null;
  };
  messages.forEach(({ opcode, payload, cuts }, index) => {
    const meaning = opcode === 1 ? meaningOf(payload, up) : null;
    // An empty first fragment of a text leaves open what it is: the packet before it is given up.
    if (opcode === 1 && open !== null && cuts.length > 0 && cuts[0] === 0) breakOpen();
    if (meaning?.kind === 'engine') return;
    if (meaning === null || meaning.kind === 'attachment') {
      if (open === null) {
        if (due > 0) due--;
        passed.push(index);
        return;
      }
      open.size += payload.length;
      if (open.size > maxPayload) {
        breakOpen();
        due--;
        passed.push(index);
        return;
      }
      open.at.push(index);
      open.attachments.push(meaning === null ? payload : Buffer.from(payload.toString('latin1', 1), 'base64'));
      if (open.attachments.length < open.count) return;
      const { text, name, attachments, at } = open;
      shown.push({ text, attachments, at: at[0]! });
      if (up && takes(name)) taken.push({ text, attachments });
      else passed.push(...at);
      open = null;
      due = 0;
      return;
    }
    breakOpen();
    const look = meaning.shown && payload.length <= maxPayload && !(up && due > 0);
    const text = payload.toString('utf8');
    if (look && meaning.count > 0 && meaning.name !== undefined) {
      open = { text, name: meaning.name, count: meaning.count, size: 0, at: [index], attachments: [] };
      return;
    }
    if (look) shown.push({ text, attachments: [], at: index });
    if (look && up && takes(meaning.name)) taken.push({ text, attachments: [] });
    else {
      passed.push(index);
      due = meaning.count;
    }
  });
  breakOpen(); // what is held at the end goes on
  return { passed, shown, taken };
}

// ---- arbitraries

const names = fc.constantFrom(
  'call-offer',
  'ice-candidate',
  'wanted é',
  'pass-me',
  LONG_NAME,
  'chat-message',
  'typing',
  'x',
  '',
);
const spaces = fc.constantFrom('', '/other,', '/app,', '/presence,', '/,');
const ids = fc.constantFrom('', '0', '17', '123456789012345', '1234567890123456');
const nameForms = fc.constantFrom('plain', 'plain', 'plain', 'escaped', 'number', 'space');
const sizes = fc.oneof({ weight: 4, arbitrary: fc.integer({ min: 0, max: 150 }) }, fc.integer({ min: 0, max: 3000 }));
const bytes = sizes.chain((n) => fc.integer({ min: 0, max: 255 }).map((seed) => Buffer.alloc(n, `${seed}€`)));

const head = (form: string, name: string): string => {
  if (form === 'escaped')
    return `["${[...name].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')}"`;
  if (form === 'number') return name.length % 2 === 0 ? '[5' : '[6';
  return form === 'space' ? `[ ${JSON.stringify(name)}` : `[${JSON.stringify(name)}`;
};

const text = (value: string): { opcode: 1; payload: Buffer } => ({ opcode: 1, payload: Buffer.from(value, 'utf8') });
type Bare = { opcode: 1 | 2; payload: Buffer };

const event = fc
  .tuple(names, spaces, ids, nameForms, sizes)
  .map(([name, ns, id, form, size]): Bare[] => [
    text(`42${ns}${id}${head(form, name)},${JSON.stringify('s'.repeat(size))}]`),
  ]);

const binaryEvent = fc
  .tuple(
    names,
    spaces,
    ids,
    nameForms,
    fc.array(bytes, { minLength: 1, maxLength: 3 }),
    fc.boolean(),
    fc.integer({ min: -1, max: 1 }),
  )
  .map(([name, ns, id, form, attachments, base64, drift]): Bare[] => {
    const slots = attachments.map((_, num) => `,{"_placeholder":true,"num":${num}}`).join('');
    const count = Math.max(1, attachments.length + (attachments.length > 1 ? drift : 0));
    return [
      text(`45${count}-${ns}${id}${head(form, name)}${slots}]`),
      ...attachments.map((payload): Bare => (base64 ? text(`b${payload.toString('base64')}`) : { opcode: 2, payload })),
    ];
  });

const fixed = fc
  .constantFrom(
    '40',
    '40/app,{"token":"t"}',
    '41',
    '41/app',
    '44{"message":"no"}',
    '4',
    '',
    '450-["call-offer"]',
    '42/',
    '42/ns',
    '42',
    '451-',
    '451',
    '451-["call-offer",1]',
    '4511-["call-offer",1]',
    '4599999999999-["x"]',
    '451-{"a":1}',
    '43/app,7[1,"x"]',
    '461-3[{"_placeholder":true,"num":0}]',
    '42["call-offer"',
    '42["call-offer","unfinished',
    '42{"a":1}',
    '42[]',
    '42[null]',
    '42[["call-offer"]]',
    '42 ["call-offer"]',
    '42["call-offer"]',
    '42/app',
    '2',
    '3',
    '2probe',
    '5',
    '47["call-offer"]',
    '4x',
    `42/${'n'.repeat(120)},["call-offer"]`,
    '42["call-offer\\',
    '42["call-offer",{"__proto__":1}]',
  )
  .map((value): Bare[] => [text(value)]);

const invalid = fc
  .constantFrom('34325b2263616c6c2d6f66666572222c22ff225d', '34325b22ff225d', '3430c328', 'ff', '34ff')
  .map((hex): Bare[] => [{ opcode: 1, payload: Buffer.from(hex, 'hex') }]);
const stray = bytes.map((payload): Bare[] => [{ opcode: 2, payload }]);

const bare = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: event },
      { weight: 4, arbitrary: binaryEvent },
      { weight: 3, arbitrary: fixed },
      { weight: 1, arbitrary: invalid },
      { weight: 1, arbitrary: stray },
    ),
    { maxLength: 12 },
  )
  .map((groups) => groups.flat());

const control = fc.record({
  after: fc.integer({ min: 0, max: 4 }),
  opcode: fc.constantFrom(9, 10),
  payload: fc.uint8Array({ maxLength: 125 }).map((b) => Buffer.from(b)),
});
const dressing = fc.record({
  cuts: fc.oneof(
    fc.constant<number[]>([]),
    fc.array(fc.oneof(fc.integer({ min: 0, max: 4 }), fc.integer({ min: 0, max: 1500 })), { maxLength: 4 }),
  ),
  controls: fc.array(control, { maxLength: 2 }),
});

/** Whole messages, bare: what a polling payload can carry (binary as `b…`). */
export const items = bare.map((list) =>
  list.map(({ opcode, payload }) => (opcode === 1 ? payload : Buffer.from(`b${payload.toString('base64')}`))),
);

/** Messages with the cuts and control frames of a WebSocket. */
export const messages: fc.Arbitrary<Message[]> = bare.chain((list) =>
  fc
    .array(dressing, { minLength: list.length, maxLength: list.length })
    .map((dress) => list.map((message, i) => ({ ...message, ...dress[i]! }))),
);

export const masks = fc.array(
  fc.uint8Array({ minLength: 4, maxLength: 4 }).map((b) => Buffer.from(b)),
  { minLength: 1, maxLength: 4 },
);

/** Where a stream is cut: whole, byte by byte, or at random. */
export const chunking = fc.oneof(
  fc.constant<number[] | 'whole' | 'bytes'>('whole'),
  fc.constant<number[] | 'whole' | 'bytes'>('bytes'),
  fc.array(fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 2000 })), {
    minLength: 1,
    maxLength: 20,
  }),
);

export function* chunks(b: Buffer, how: number[] | 'whole' | 'bytes'): Generator<Buffer> {
  let turn = 0;
  for (let at = 0; at < b.length; ) {
    const size = how === 'whole' ? b.length : how === 'bytes' ? 1 : how[turn++ % how.length]!;
    yield Buffer.from(b.subarray(at, at + size));
    at += size;
  }
}
