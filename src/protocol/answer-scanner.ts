// Looks at what the legacy answers to a polling browser: shows packets of interest, holds or replaces an acknowledgement.
// Everything else keeps its bytes. Knows nothing of HTTP, sessions or sockets, nor of who waits for what.
import { type Open, readOpen } from './engineio.js';
import type { Incomplete } from './gather.js';
import { type LegacyInterest, type Outgoing, type Packet, PacketType, type Passage } from './packet.js';
import { attachmentOf, BINARY, itemsOf, joinPayload, splitPayload } from './payload.js';
import { Look, PEEK, parsePacket, peek, peekAck, peeked, textOf } from './socketio.js';

/** What is kept at most to be shown of the legacy's packets: larger ones pass unseen. */
const MAX_SHOWN = 1 << 20;

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
