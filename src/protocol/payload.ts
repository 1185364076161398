// Engine.IO's polling payloads (protocol revision 4): packets joined by 0x1e, binary ones as `b` + base64. Cuts named
// events out of what a browser posts, looks at what the legacy answers, and turns one transport's packets into the
// other's. Knows nothing of HTTP, sessions or sockets.
import { type Open, readOpen } from './engineio.js';
import { frame, Opcode } from './frame.js';
import type { Incomplete } from './gather.js';
import {
  type Interest,
  type LegacyInterest,
  type Outgoing,
  type Packet,
  PacketType,
  type Passage,
  type Verdict,
} from './packet.js';
import {
  Look,
  MAX_ATTACHMENTS,
  PEEK,
  parsePacket,
  peek,
  peekAck,
  peeked,
  readPacketHeader,
  textOf,
} from './socketio.js';

const SEPARATOR = 0x1e;
const BINARY = 0x62; // b
/** What is kept at most to be shown of the legacy's packets: larger ones pass unseen. */
const MAX_SHOWN = 1 << 20;

/** The packets of a payload, as slices of it. */
export function splitPayload(bytes: Buffer): Buffer[] {
  const items: Buffer[] = [];
  for (let from = 0; ; ) {
    const at = bytes.indexOf(SEPARATOR, from);
    if (at < 0) {
      items.push(bytes.subarray(from));
      return items;
    }
    items.push(bytes.subarray(from, at));
    from = at + 1;
  }
}

const between = Buffer.from([SEPARATOR]);

export function joinPayload(items: readonly Buffer[]): Buffer {
  return Buffer.concat(items.flatMap((item, i) => (i === 0 ? [item] : [between, item])));
}

/** A packet of ours as payload items: its text, then each attachment as `b…`. */
export const itemsOf = (packet: Outgoing): Buffer[] => [
  Buffer.from(packet.text, 'utf8'),
  ...packet.attachments.map((bytes) => Buffer.from(`b${bytes.toString('base64')}`, 'latin1')),
];

/** Several packets of ours as one payload. */
export const encodePayload = (packets: readonly Outgoing[]): Buffer => joinPayload(packets.flatMap(itemsOf));

/**
 * A polling answer of the legacy's as server frames, for a browser that has moved on to the WebSocket: `b…` as binary
 * frames, `6` (noop) and `1` (close, which is about the transport left behind) left out. Empty where nothing is left.
 */
export function payloadFrames(bytes: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (const item of splitPayload(bytes)) {
    if (item[0] === BINARY) frames.push(frame(Opcode.BINARY, attachmentOf(item)));
    else if (item.length > 0 && !(item.length === 1 && (item[0] === 0x36 || item[0] === 0x31))) {
      frames.push(frame(Opcode.TEXT, item));
    }
  }
  return Buffer.concat(frames);
}

const attachmentOf = (item: Buffer): Buffer => Buffer.from(item.toString('latin1', 1), 'base64');

export interface PostOut {
  /** A whole packet: CONNECT, DISCONNECT, or an event of interest. Called in order. */
  packet(packet: Packet): Verdict;
  /** The session speaks another parser; all passes unseen from here on. Called once at most. */
  foreign(): void;
}

export interface Filtered {
  /** The very same Buffer where nothing is taken; null where nothing is left for the legacy. */
  readonly rest: Buffer | null;
  /** What starts the serving of the packets taken, in order; to be called once the POST is answered. */
  readonly serve: (() => void)[];
}

/** A taken event whose attachments come in later items, perhaps of later POSTs. */
interface Taken {
  readonly text: string;
  readonly due: number;
  readonly raw: Buffer[];
  readonly attachments: Buffer[];
  /** Bytes of the attachments so far. */
  bytes: number;
}

/** One session's POSTs, in their order. */
export class PostFilter {
  private known = false;
  private alien = false;
  private taken: Taken | null = null;
  private due = 0;

  /** @param maxPayload bytes, as the handshake says; bounds the attachments that are kept for one event. */
  constructor(
    private readonly out: PostOut,
    private readonly interest: Interest,
    private readonly maxPayload: number,
    private readonly counters: { forwardedUp: number },
  ) {}

  /** Attachments that the legacy still expects of a packet that was forwarded. */
  get attachmentsDue(): number {
    return this.due;
  }

  /** Whether the session has proved to speak Socket.IO's own parser. */
  get isKnown(): boolean {
    return this.known;
  }

  get isForeign(): boolean {
    return this.alien;
  }

  filter(body: Buffer): Filtered {
    const serve: (() => void)[] = [];
    if (this.alien) return { rest: body, serve };
    const kept: Buffer[] = [];
    let changed = false;
    for (const item of splitPayload(body)) {
      if (this.alien) {
        kept.push(item);
        continue;
      }
      const before = this.taken;
      if (before !== null && item[0] === BINARY) {
        changed = true;
        this.attach(before, item, kept, serve);
        continue;
      }
      // An Engine.IO packet in between is no part of any Socket.IO packet.
      if (before !== null && (item.length === 0 || item[0] === 0x34)) {
        changed = true;
        kept.push(...before.raw); // the legacy decides
        this.due = before.due - before.attachments.length;
        this.taken = null;
      }
      if (this.take(item, serve)) changed = true;
      else kept.push(item);
    }
    if (!changed) return { rest: body, serve };
    return { rest: kept.length === 0 ? null : joinPayload(kept), serve };
  }

  /** A taken event that lacks attachments, for `BrowserSplice.adopt`, when the browser's `5` passes. It is no longer ours then. */
  takeIncomplete(): Incomplete | null {
    const { taken } = this;
    this.taken = null;
    return taken === null ? null : { text: taken.text, attachments: taken.attachments, due: taken.due };
  }

  /** An attachment of the event that is being taken. */
  private attach(taken: Taken, item: Buffer, kept: Buffer[], serve: (() => void)[]): void {
    const raw = Buffer.from(item); // outlives this body
    taken.raw.push(raw);
    taken.bytes += raw.length;
    if (taken.bytes > this.maxPayload * 2) {
      kept.push(...taken.raw);
      this.due = taken.due - taken.attachments.length - 1;
      this.taken = null;
      return;
    }
    taken.attachments.push(attachmentOf(raw));
    if (taken.attachments.length < taken.due) return;
    this.taken = null;
    const packet = parsePacket(taken.text, taken.attachments);
    const verdict = packet === null ? 'pass' : this.out.packet(packet);
    if (verdict !== 'pass') serve.push(verdict);
    else {
      kept.push(...taken.raw);
      this.counters.forwardedUp++;
    }
  }

  /** Whether the item is taken out. */
  private take(item: Buffer, serve: (() => void)[]): boolean {
    if (item[0] === BINARY) {
      if (this.due > 0) this.due--;
      else if (!this.known) this.stop();
      return false;
    }
    if (item.length === 0) this.due = 0; // the legacy closes the session
    if (item[0] !== 0x34) return false;
    const look = peek(item, 0, Math.min(item.length, PEEK), item.length <= PEEK);
    if (!this.known) {
      if (peeked.type >= 0) this.known = true;
      else if (item.length > 1) {
        this.stop();
        return false;
      }
    }
    // The legacy closes a session in which text follows where an attachment is due: it must see this text.
    const broken = this.due > 0;
    this.due = peeked.attachments;
    if (broken) return this.forwarded();
    const text = this.wanted(look) ? textOf(item) : null;
    if (text !== null) {
      const header = readPacketHeader(text);
      if (header !== null && header.attachments > 0) {
        if (look === Look.SLOW && !this.wantsSlow(text, header.attachments)) return this.forwarded();
        this.due = 0;
        this.taken = { text, due: header.attachments, raw: [Buffer.from(item)], attachments: [], bytes: 0 };
        return true;
      }
      const packet = parsePacket(text, []);
      if (packet !== null && (packet.name === undefined || this.interest.event(packet.ns, packet.name))) {
        const verdict = this.out.packet(packet);
        if (verdict !== 'pass') {
          serve.push(verdict);
          return true;
        }
      }
    }
    return this.forwarded();
  }

  private forwarded(): false {
    this.counters.forwardedUp++;
    return false;
  }

  private wanted(look: Look): boolean {
    if (peeked.attachments > MAX_ATTACHMENTS) return false;
    if (look === Look.NAMED) return this.interest.event(peeked.ns, peeked.name);
    if (look === Look.OTHER) return peeked.type === PacketType.CONNECT || peeked.type === PacketType.DISCONNECT;
    return look === Look.SLOW;
  }

  private wantsSlow(text: string, attachments: number): boolean {
    const packet = parsePacket(text, new Array<Buffer>(attachments));
    return packet?.name !== undefined && this.interest.event(packet.ns, packet.name);
  }

  private stop(): void {
    this.alien = true;
    this.out.foreign();
  }
}

export interface AnswerOut {
  /** CONNECT, DISCONNECT, CONNECT_ERROR, a watched event or an awaited acknowledgement. After `hold` comes `settle`. */
  packet(packet: Packet): Passage;
}

export interface Scanned {
  /** The legacy has closed the session (`1`). */
  readonly gone: boolean;
  /** The legacy's heartbeat (`2`) is in it. */
  readonly ping: boolean;
  /** The handshake (`0`), where it is in it. */
  readonly open: Open | null;
  /** What the browser is to get: the very same Buffer where nothing was replaced. */
  readonly body: Buffer;
}

/** An answer on its way through: how far it was looked at, and what was found so far. */
interface Run {
  readonly body: Buffer;
  readonly items: Buffer[];
  /** The next item. */
  at: number;
  gone: boolean;
  ping: boolean;
  open: Open | null;
  changed: boolean;
}

/** A shown packet whose attachments are still to come. */
interface Shown {
  readonly text: string;
  readonly attachments: Buffer[];
  readonly due: number;
  bytes: number;
  /** An acknowledgement must be whole in its answer: what has passed can't be held any more. */
  readonly ack: boolean;
}

/** One session's GET answers, in their order, decoded (not gzipped). */
export class AnswerScanner {
  private due = 0;
  private shown: Shown | null = null;
  private run: Run | null = null;

  constructor(
    private readonly out: AnswerOut,
    private readonly interest: LegacyInterest,
    private readonly watching: () => boolean,
    private readonly counters: { forwardedDown: number },
  ) {}

  /** Attachments that the browser still expects: while not 0, nothing of ours may be sent. */
  get attachmentsDue(): number {
    return this.due;
  }

  /**
   * Looks at an answer's packets; call it before the browser gets them. Null: the owner holds a packet, so the whole answer
   * waits for `settle`. `passing`: the answer goes on as it comes, so acknowledgements are not looked at.
   */
  scan(body: Buffer): Scanned | null;
  scan(body: Buffer, how: 'passing'): Scanned;
  scan(body: Buffer, how?: 'passing'): Scanned | null {
    const run = { body, items: splitPayload(body), at: 0, gone: false, ping: false, open: null, changed: false };
    this.run = how === 'passing' ? null : run;
    return this.go(run);
  }

  /** The packet that is held passes, or another in its place; the answer is looked at from there on. Null: held again. */
  settle(other?: Outgoing): Scanned | null {
    const { run } = this;
    if (run === null) throw new Error('no answer is held');
    if (other) this.replace(run, other);
    return this.go(run);
  }

  /** A watched packet that lacks attachments, for `LegacySplice.adopt` at the upgrade. */
  takeIncomplete(): Incomplete | null {
    const { shown } = this;
    this.shown = null;
    return shown;
  }

  private go(run: Run): Scanned | null {
    while (run.at < run.items.length) {
      const item = run.items[run.at++]!;
      let passage: Passage = 'pass';
      if (this.shown?.ack && item[0] !== BINARY) this.shown = null;
      switch (item[0]) {
        case BINARY:
          passage = this.attachment(item);
          break;
        case 0x30:
          run.open ??= readOpen(item.toString('utf8'));
          break;
        case 0x31:
          run.gone = true;
          break;
        case 0x32:
          run.ping = true;
          break;
        case 0x34:
          passage = this.message(item);
          break;
      }
      if (passage === 'hold') return null;
      if (passage !== 'pass') this.replace(run, passage);
    }
    if (this.shown?.ack) this.shown = null;
    this.run = null;
    const { gone, ping, open, changed } = run;
    return { gone, ping, open, body: changed ? joinPayload(run.items) : run.body };
  }

  /** Other items for the packet that ends before `run.at`, attachments included. */
  private replace(run: Run, other: Outgoing): void {
    let from = run.at - 1;
    while (from > 0 && run.items[from]![0] !== 0x34) from--;
    const items = itemsOf(other);
    run.items.splice(from, run.at - from, ...items);
    run.at = from + items.length;
    run.changed = true;
  }

  private attachment(item: Buffer): Passage {
    if (this.due > 0) this.due--;
    const { shown } = this;
    if (shown === null) return 'pass';
    shown.bytes += item.length;
    if (shown.bytes > MAX_SHOWN) {
      this.shown = null;
      return 'pass';
    }
    shown.attachments.push(attachmentOf(item));
    if (shown.attachments.length < shown.due) return 'pass';
    this.shown = null;
    return this.show(shown.text, shown.attachments);
  }

  private message(item: Buffer): Passage {
    this.counters.forwardedDown++;
    this.shown = null;
    const look = peek(item, 0, Math.min(item.length, PEEK), item.length <= PEEK);
    this.due = peeked.attachments;
    const ack = look === Look.OTHER && (peeked.type === PacketType.ACK || peeked.type === PacketType.BINARY_ACK);
    if (item.length > MAX_SHOWN || !(ack ? this.awaited(item) : this.wanted(look))) return 'pass';
    const text = textOf(item);
    if (text === null) return 'pass';
    if (this.due === 0) return this.show(text, []);
    this.shown = { text, attachments: [], due: this.due, bytes: item.length, ack };
    return 'pass';
  }

  private wanted(look: Look): boolean {
    if (look === Look.OTHER) return true; // CONNECT, DISCONNECT, CONNECT_ERROR
    if (look === Look.UNKNOWN || !this.watching()) return false;
    return look === Look.SLOW || this.interest.event(peeked.ns, peeked.name);
  }

  private awaited(item: Buffer): boolean {
    if (this.run === null || !this.interest.awaiting()) return false;
    const look = peekAck(item, 0, Math.min(item.length, PEEK), item.length <= PEEK);
    return look === Look.SLOW || (look === Look.NAMED && this.interest.acknowledgement(peeked.ns, peeked.id));
  }

  private show(text: string, attachments: readonly Buffer[]): Passage {
    const packet = parsePacket(text, attachments);
    if (packet === null) return 'pass';
    const { type, ns, id, name } = packet;
    const ack = type === PacketType.ACK || type === PacketType.BINARY_ACK;
    if (ack && (id === undefined || !this.interest.acknowledgement(ns, id))) return 'pass';
    return name === undefined || this.interest.event(ns, name) ? this.out.packet(packet) : 'pass';
  }
}
