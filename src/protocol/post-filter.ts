// Cuts named events out of what a browser posts, attachments included, and lets the rest go on as it came.
// Knows nothing of HTTP, sessions or sockets, nor of who serves what is taken.
import type { Incomplete } from './gather.js';
import { type Interest, type Packet, PacketType, type Verdict } from './packet.js';
import { attachmentOf, BINARY, joinPayload, splitPayload } from './payload.js';
import { Look, MAX_ATTACHMENTS, PEEK, parsePacket, peek, peeked, readPacketHeader, textOf } from './socketio.js';

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
