// A packet that must be seen whole before it is decided on: its raw frames as they came, and what is known of it so
// far. Grows with what has arrived, never with what a header announces. Knows nothing of where bytes come from or go.
import { frame, Opcode, readMessages } from './frame.js';
import { type Packet, PacketType } from './packet.js';
import { eventName, PEEK, parsePacket, readPacketHeader, textOf } from './socketio.js';

/** Zero-length and tiny fragments must not make a packet's raw bytes grow without end. */
const MAX_FRAMING = 65536;
const FIRST = 1024;

/** A packet of which the header and perhaps some attachments came by polling, and the rest is expected on the WebSocket. */
export interface Incomplete {
  /** With the leading `4`. */
  readonly text: string;
  readonly attachments: readonly Buffer[];
  /** How many attachments the header announces. */
  readonly due: number;
}

/** What tells whether somebody wants to see a packet. */
export type Named = Pick<Packet, 'type' | 'ns' | 'id' | 'name'>;

/** The header, once it is whole and announces attachments. */
interface Head {
  readonly text: string;
  readonly due: number;
  /** Attachments that came another way, before those in the raw bytes. */
  readonly prior: readonly Buffer[];
  /** Where the attachments' frames begin in the raw bytes. */
  readonly from: number;
  got: number;
}

export class Gathering {
  private bytes = Buffer.allocUnsafe(FIRST);
  private length = 0;
  /** Payload bytes of the header, then of the attachments. */
  private payload = 0;
  private framing = 0;
  private head: Head | null = null;
  /** The first payload bytes of a header that is not decided on yet. */
  private readonly first = Buffer.allocUnsafe(PEEK);
  private known = 0;

  constructor(private readonly masked: boolean) {}

  /** A packet that began another way. `passed`: the receiver has what there is of it, so it is no part of `raw`. */
  static of(packet: Incomplete, masked: boolean, passed: boolean): Gathering {
    const { text, attachments, due } = packet;
    const it = new Gathering(masked);
    const frames = passed
      ? []
      : [frame(Opcode.TEXT, text, masked), ...attachments.map((b) => frame(Opcode.BINARY, b, masked))];
    for (const bytes of frames) it.append(bytes, 0, bytes.length);
    it.head = { text, due, prior: attachments, from: it.length, got: attachments.length };
    return it;
  }

  /** The frames as they came; nothing may be appended any more while they are in use. */
  get raw(): Buffer {
    return this.bytes.subarray(0, this.length);
  }

  /** Whether the header is whole and attachments are awaited. */
  get awaiting(): boolean {
    return this.head !== null;
  }

  /** Attachments that are awaited, one under way included. */
  get lacking(): number {
    return this.head === null ? 0 : this.head.due - this.head.got;
  }

  /**
   * Whether a frame of so many payload bytes may be gathered too. `limit` is a message's; the attachments together may
   * be as long as one message again.
   */
  fits(payload: number, limit: number): boolean {
    return this.payload + payload <= limit && this.framing <= MAX_FRAMING;
  }

  /** A frame begins: the bytes of its header, and how many payload bytes are to be appended. */
  begin(from: Buffer, start: number, end: number, payload: number): void {
    this.payload += payload;
    this.framing += end - start;
    this.append(from, start, end);
  }

  append(from: Buffer, start: number, end: number): void {
    const size = this.length + end - start;
    if (size > this.bytes.length) {
      const grown = Buffer.allocUnsafe(Math.max(size, this.bytes.length * 2));
      this.bytes.copy(grown, 0, 0, this.length);
      this.bytes = grown;
    }
    from.copy(this.bytes, this.length, start, end);
    this.length = size;
  }

  /** Puts the first payload bytes so far at the start of `into`; how many they are. */
  peeked(into: Buffer): number {
    this.first.copy(into, 0, 0, this.known);
    return this.known;
  }

  remember(from: Buffer, start: number, end: number): void {
    from.copy(this.first, 0, start, end);
    this.known = end - start;
  }

  /**
   * The header message is whole. `wants` is asked for a binary packet: an event's name may have been slow to find.
   * A packet: it is whole. `more`: attachments must follow. `pass`: nobody wants it, or it is not understood.
   */
  headerWhole(wants: (packet: Named) => boolean): Packet | 'more' | 'pass' {
    const message = readMessages(this.raw, this.masked)[0];
    const text = message === undefined ? null : textOf(message.payload);
    const header = text === null ? null : readPacketHeader(text);
    if (text === null || header === null) return 'pass';
    if (header.attachments === 0) return parsePacket(text, []) ?? 'pass';
    const event = header.type === PacketType.BINARY_EVENT;
    const name = event ? eventName(text, header.dataStart) : undefined;
    if ((event && name === undefined) || !wants({ ...header, name })) return 'pass';
    this.head = { text, due: header.attachments, prior: [], from: this.length, got: 0 };
    this.payload = 0;
    return 'more';
  }

  /** One more attachment is whole; the packet, where it was the last. */
  attachmentWhole(): Packet | 'more' | 'pass' {
    const { head } = this;
    if (head === null) return 'pass';
    if (++head.got < head.due) return 'more';
    const attachments = [...head.prior];
    for (const { opcode, payload } of readMessages(this.raw.subarray(head.from), this.masked)) {
      attachments.push(opcode === Opcode.TEXT ? Buffer.from(payload.toString('latin1', 1), 'base64') : payload);
    }
    return parsePacket(head.text, attachments) ?? 'pass';
  }
}
