// The walk along one direction of a spliced WebSocket: which bytes flow on as they are, which message is looked at,
// where something may be put in between. Source: RFC 6455, 5; Socket.IO protocol revision 5, "attachments".
// Knows nothing of sockets, and not which packets anybody wants: that is its two heirs' business (splice.ts).
import { closeCode, emptyHeader, frame, Opcode, readHeader, readMessages, unmask, type Violation } from './frame.js';
import { Gather } from './gather.js';
import type { Outgoing, Packet, Verdict } from './packet.js';
import { eventName, PEEK, parsePacket, peeked, readPacketHeader, textOf } from './socketio.js';

/** What is to become of a text message, as far as its first bytes tell. */
export const Plan = {
  /** More bytes are needed. */
  MORE: 0,
  /** Flows on. */
  PASS: 1,
  /** Gathered whole, then shown (with its attachments). */
  SHOW: 2,
  /** An Engine.IO packet that is no message: shown where it is short and unfragmented, flows on. */
  ENGINE: 3,
  /** A base64 attachment (`b64=1`): flows on, or belongs to what is gathered. */
  ATTACHMENT: 4,
  /** Not Socket.IO as we know it: all flows on from here, unseen. */
  STOP: 5,
} as const;
export type Plan = (typeof Plan)[keyof typeof Plan];

/** A longer Engine.IO packet is none that we know: it flows on unseen. The handshake is the longest, some 120 bytes. */
const MAX_ENGINE = 4096;
/** Zero-length and tiny fragments must not make a gathered packet's raw bytes grow without end. */
const MAX_FRAMING = 65536;

/** A gathered packet whose header is whole and whose attachments are still to come. */
interface Taken {
  readonly text: string;
  readonly due: number;
  /** Attachments that came another way (polling), before those in `raw`. */
  readonly prior: readonly Buffer[];
  /** Where in `raw` the attachments' frames begin. */
  readonly from: number;
  got: number;
}

/** A packet of which the header and perhaps some attachments came by polling, and the rest is expected on the WebSocket. */
export interface Incomplete {
  /** With the leading `4`. */
  readonly text: string;
  readonly attachments: readonly Buffer[];
  /** How many attachments the header announces. */
  readonly due: number;
}

const scratch = Buffer.allocUnsafe(PEEK);
let work = Buffer.allocUnsafe(8192);
const WORK_KEPT = 1 << 20;
const header = emptyHeader();

export abstract class FrameWalk {
  private state: 'frames' | 'raw' | 'closed' | 'ended' = 'frames';
  /** Bytes of a frame that can't be decided on yet; always short. */
  private pending: Buffer | null = null;
  /** Payload bytes to come of the current frame, and whether they are gathered. */
  private left = 0;
  private keeping = false;
  private control = false;
  private fin = true;
  /** The current data message: between its first frame and its last. */
  private inMessage = false;
  private plan: Plan = Plan.PASS;
  private attachment = false;
  private counts = false;
  /** Attachments that must follow once the current message has passed. */
  private dueNext = 0;
  private due = 0;
  private raw: Gather | null = null;
  private payload = 0;
  private taken: Taken | null = null;
  /** First payload bytes of a fragmented message that is not decided on. */
  private first: Buffer | null = null;
  private firstLength = 0;
  private queue: Buffer[] = [];
  private queued = 0;
  private busy = false;
  private chunk: Buffer | null = null;
  private start = 0;

  protected constructor(private readonly masked: boolean) {}

  protected abstract limit(): number;
  protected abstract decide(b: Buffer, start: number, end: number, complete: boolean): Plan;
  /** A binary message that no header asked for; true: all flows on from here, unseen. */
  protected abstract strayBinary(): boolean;
  /** A whole packet; a function cuts it out, and is called once all before it has passed. */
  protected abstract show(packet: Packet): Verdict;
  /** Asked again once an event is whole, since the names of some are not known earlier. */
  protected abstract wants(ns: string, name: string): boolean;
  protected abstract engine(text: string): void;
  protected abstract closed(code: number | undefined): void;
  protected abstract violated(why: Violation): void;
  protected abstract stopped(): void;
  protected abstract counted(): void;
  protected abstract pass(bytes: Buffer): void;
  /** Whether anything may be put in at all. */
  protected abstract mayInject(): boolean;

  /** Bytes that wait for a whole-packet boundary to be put in. */
  get queuedBytes(): number {
    return this.queued;
  }

  /** Whether what has passed so far ends with a whole packet, attachments included. */
  get atBoundary(): boolean {
    return (
      this.state === 'frames' &&
      this.due === 0 &&
      (this.left === 0 || this.keeping) &&
      !(this.inMessage && !this.isKept())
    );
  }

  /** Attachments that the receiver still expects; settable where the run began on a polling answer. */
  get attachmentsDue(): number {
    return this.due;
  }

  set attachmentsDue(count: number) {
    this.due = count;
    if (!this.busy) this.drain();
  }

  /** From here on all flows unseen, and nothing is put in. */
  stopLooking(): void {
    if (this.state !== 'frames') return;
    this.state = 'raw';
    if (!this.busy) this.letGo();
  }

  /** The sender is gone: what was held back goes on, as it would have directly; then nothing more. */
  end(): void {
    if (this.state === 'ended') return;
    this.letGo();
    this.state = 'ended';
    this.drop();
  }

  protected walk(bytes: Buffer): void {
    if (this.state !== 'frames') {
      if (this.state !== 'ended') this.pass(bytes);
      return;
    }
    let chunk = bytes;
    if (this.pending !== null) {
      chunk = Buffer.concat([this.pending, bytes]);
      this.pending = null;
    }
    this.busy = true;
    this.chunk = chunk;
    this.start = 0;
    let pos = 0;
    while (pos >= 0 && this.isOpen()) {
      if (this.left > 0) {
        if (pos === chunk.length) break;
        pos = this.payloadAt(chunk, pos);
        continue;
      }
      if (this.queued > 0 && this.atBoundary && this.mayInject()) {
        this.flush(pos);
        this.emit();
      }
      if (pos === chunk.length) break;
      pos = this.frameAt(chunk, pos);
    }
    if (pos >= 0 && !this.isEnded()) {
      if (!this.isOpen()) this.letGo();
      this.flush(chunk.length);
    }
    this.chunk = null;
    this.busy = false;
    this.drain();
  }

  /** Puts packets in at the next whole-packet boundary. False: it can't be any more. */
  protected put(packets: readonly Outgoing[]): boolean {
    if (this.state !== 'frames') return false;
    for (const packet of packets) {
      this.enqueue(frame(Opcode.TEXT, packet.text, this.masked));
      for (const bytes of packet.attachments) this.enqueue(frame(Opcode.BINARY, bytes, this.masked));
    }
    if (!this.busy) this.drain();
    return true;
  }

  protected drain(): void {
    if (this.queued > 0 && this.atBoundary && this.mayInject()) this.emit();
  }

  /** Takes over a packet that began by polling; `passed`: the receiver has what there is of it. */
  protected takeOver(packet: Incomplete, passed: boolean): void {
    this.raw = new Gather();
    this.payload = 0;
    if (!passed) {
      const frames = [frame(Opcode.TEXT, packet.text, this.masked)];
      for (const bytes of packet.attachments) frames.push(frame(Opcode.BINARY, bytes, this.masked));
      for (const bytes of frames) this.raw.append(bytes, 0, bytes.length);
    }
    this.taken = {
      text: packet.text,
      due: packet.due,
      prior: packet.attachments,
      from: this.raw.length,
      got: packet.attachments.length,
    };
    if (passed) this.due = packet.due - packet.attachments.length;
  }

  private isOpen(): boolean {
    return this.state === 'frames';
  }

  private isEnded(): boolean {
    return this.state === 'ended';
  }

  private isKept(): boolean {
    return this.raw !== null && (this.plan === Plan.SHOW || this.plan === Plan.MORE || this.plan === Plan.ATTACHMENT);
  }

  private payloadAt(chunk: Buffer, pos: number): number {
    const n = Math.min(this.left, chunk.length - pos);
    this.left -= n;
    if (this.keeping && this.raw !== null) {
      this.raw.append(chunk, pos, pos + n);
      this.start = pos + n;
    }
    if (this.left === 0) this.frameEnd();
    return pos + n;
  }

  private frameEnd(): void {
    if (this.control || !this.fin) return;
    this.inMessage = false;
    if (this.keeping) {
      this.keeping = false;
      this.gathered();
    } else this.passed();
  }

  /** A data message has flowed on. */
  private passed(): void {
    if (this.attachment) {
      if (this.due > 0) this.due--;
    } else if (this.counts) {
      this.due = this.dueNext;
      this.counted();
    }
  }

  /** One frame from its header on; the position behind what was used of it, or -1 where the rest was put by. */
  private frameAt(chunk: Buffer, pos: number): number {
    const read = readHeader(chunk, pos, this.masked, header);
    if (read === false) return this.putBy(chunk, pos);
    if (read !== true) return this.violate(read, pos);
    const { fin, opcode, size, length } = header;
    const at = pos + size;
    if (opcode >= 8) {
      if (opcode === Opcode.CLOSE) return this.closeAt(chunk, pos);
      this.control = true;
      this.keeping = false;
      this.left = length;
      return at;
    }
    if (opcode === 0 ? !this.inMessage : this.inMessage) return this.violate('continuation', pos);
    if (opcode !== 0) {
      this.plan = Plan.PASS;
      this.attachment = false;
      this.counts = false;
      this.dueNext = 0;
      if (opcode === Opcode.BINARY) {
        this.attachment = true;
        if (this.taken !== null) this.plan = Plan.ATTACHMENT;
        else if (this.due === 0 && this.strayBinary()) return this.stop(pos);
      } else {
        const next = this.textAt(chunk, pos, at, fin, length);
        if (next !== pos) return next;
      }
    } else if (this.plan === Plan.MORE) {
      const next = this.moreAt(chunk, pos, at, fin, length);
      if (next !== pos) return next;
    }
    this.control = false;
    this.fin = fin;
    this.inMessage = !fin;
    this.left = length;
    this.keeping = this.plan === Plan.SHOW || this.plan === Plan.MORE || this.plan === Plan.ATTACHMENT;
    if (this.keeping) this.keep(chunk, pos, at, length);
    if (length === 0) this.frameEnd();
    return at;
  }

  /** The first frame of a text message. Returns `pos` where the frame goes the common way, by `this.plan`. */
  private textAt(chunk: Buffer, pos: number, at: number, fin: boolean, length: number): number {
    const available = chunk.length - at;
    const want = Math.min(length, PEEK);
    const have = Math.min(available, want);
    let plan: Plan;
    if (this.masked) {
      unmask(chunk, at - 4, at, have, scratch, 0);
      plan = this.decide(scratch, 0, have, fin && have === length);
    } else plan = this.decide(chunk, at, at + have, fin && have === length);
    const whole = fin && available >= length;
    if (plan === Plan.MORE && have < want) return this.putBy(chunk, pos);
    if (plan === Plan.STOP) return this.stop(pos);
    if (plan === Plan.ENGINE) {
      this.plan = Plan.PASS;
      if (!fin || length > MAX_ENGINE) return pos;
      if (!whole) return this.putBy(chunk, pos);
      const text = this.payloadOf(chunk, at, length).toString('utf8');
      this.flush(at + length);
      this.engine(text);
      return at + length;
    }
    if (plan === Plan.ATTACHMENT) {
      this.attachment = true;
      this.plan = this.taken === null ? Plan.PASS : Plan.ATTACHMENT;
      return pos;
    }
    if (this.taken !== null) this.giveUp(pos);
    // The legacy closes a session in which text follows where an attachment is due: it must see this text.
    if (this.due > 0 && this.masked && plan === Plan.SHOW) plan = Plan.PASS;
    this.counts = true;
    this.dueNext = peeked.attachments;
    this.plan = plan;
    if (plan === Plan.MORE) {
      this.first = Buffer.from(this.masked ? scratch.subarray(0, have) : chunk.subarray(at, at + have));
      this.firstLength = have;
    } else if (plan === Plan.SHOW && whole && this.dueNext === 0 && length <= this.limit()) {
      return this.showAt(chunk, pos, at, length);
    }
    return pos;
  }

  /** A further frame of a message that is not decided on yet. */
  private moreAt(chunk: Buffer, pos: number, at: number, fin: boolean, length: number): number {
    const before = this.firstLength;
    const want = Math.min(length, PEEK - before);
    const have = Math.min(chunk.length - at, want);
    this.first?.copy(scratch, 0, 0, before);
    if (this.masked) unmask(chunk, at - 4, at, have, scratch, before);
    else chunk.copy(scratch, before, at, at + have);
    const plan = this.decide(scratch, 0, before + have, fin && have === length);
    if (plan === Plan.MORE) {
      if (have < want) return this.putBy(chunk, pos);
      this.first = Buffer.from(scratch.subarray(0, before + have));
      this.firstLength = before + have;
      return pos;
    }
    this.first = null;
    if (plan === Plan.STOP) return this.stop(pos);
    this.dueNext = peeked.attachments;
    this.attachment = plan === Plan.ATTACHMENT;
    this.counts = plan === Plan.SHOW || plan === Plan.PASS;
    this.plan = plan === Plan.SHOW && !(this.due > 0 && this.masked) ? Plan.SHOW : Plan.PASS;
    if (this.plan === Plan.PASS) this.giveUp(pos);
    return pos;
  }

  /** The fast way: a whole packet without attachments, in one frame, in one chunk. Nothing is copied. */
  private showAt(chunk: Buffer, pos: number, at: number, length: number): number {
    const end = at + length;
    const text = textOf(this.payloadOf(chunk, at, length));
    const packet = text === null ? null : parsePacket(text, []);
    const verdict = packet === null ? 'pass' : this.judge(packet);
    if (verdict === 'pass') this.passed();
    else {
      this.flush(pos);
      this.start = end;
      verdict();
    }
    return end;
  }

  /** A whole payload, in place or in a buffer that the next call writes over. */
  private payloadOf(chunk: Buffer, at: number, length: number): Buffer {
    if (!this.masked) return chunk.subarray(at, at + length);
    let into = work;
    if (length > work.length) {
      into = Buffer.allocUnsafe(Math.max(length, work.length * 2));
      if (into.length <= WORK_KEPT) work = into;
    }
    unmask(chunk, at - 4, at, length, into, 0);
    return into.subarray(0, length);
  }

  /** Begins or goes on keeping a frame: its header now, its payload as it comes. Over a limit all of it flows on. */
  private keep(chunk: Buffer, pos: number, at: number, length: number): void {
    this.flush(pos);
    this.raw ??= new Gather();
    if (this.payload + length > this.limit() || this.raw.length - this.payload > MAX_FRAMING + this.limit()) {
      this.giveUp(pos);
      this.plan = Plan.PASS;
      this.keeping = false;
      return;
    }
    this.payload += length;
    this.raw.append(chunk, pos, at);
    this.start = at;
  }

  /** What was gathered flows on unseen, before the byte at `pos`. */
  private giveUp(pos: number): void {
    this.flush(pos);
    const { raw, taken } = this;
    if (taken !== null) this.due = taken.due - taken.got;
    this.drop();
    if (raw !== null && raw.length > 0) this.pass(raw.from(0));
  }

  private drop(): void {
    this.raw = null;
    this.taken = null;
    this.first = null;
    this.payload = 0;
  }

  /** A message that was kept is whole. */
  private gathered(): void {
    const { raw, taken } = this;
    if (raw === null) return;
    if (taken !== null) {
      if (++taken.got < taken.due) return;
      this.showTaken(raw, taken);
      return;
    }
    const message = readMessages(raw.from(0), this.masked)[0];
    const text = message === undefined ? null : textOf(message.payload);
    const head = text === null ? null : readPacketHeader(text);
    if (text === null || head === null) this.passGathered();
    else if (head.attachments > 0) {
      const name = eventName(text, head.dataStart);
      if (name === undefined || !this.wants(head.ns, name)) {
        this.passGathered();
        return;
      }
      this.taken = { text, due: head.attachments, prior: [], from: raw.length, got: 0 };
      this.payload = 0; // the limit is a message's, and the attachments together may be as long again
    } else this.finish(parsePacket(text, []));
  }

  private showTaken(raw: Gather, taken: Taken): void {
    const attachments = [...taken.prior];
    for (const { opcode, payload } of readMessages(raw.from(taken.from), this.masked)) {
      attachments.push(opcode === Opcode.TEXT ? Buffer.from(payload.toString('latin1', 1), 'base64') : payload);
    }
    this.dueNext = 0;
    this.finish(parsePacket(taken.text, attachments));
  }

  private finish(packet: Packet | null): void {
    const verdict = packet === null ? 'pass' : this.judge(packet);
    if (verdict === 'pass') this.passGathered();
    else {
      this.drop();
      verdict();
    }
  }

  private judge(packet: Packet): Verdict {
    return packet.name === undefined || this.wants(packet.ns, packet.name) ? this.show(packet) : 'pass';
  }

  private passGathered(): void {
    const { raw } = this;
    this.drop();
    this.attachment = false;
    this.counts = true;
    if (raw !== null && raw.length > 0) this.pass(raw.from(0));
    this.passed();
  }

  private closeAt(chunk: Buffer, pos: number): number {
    const end = pos + header.size + header.length;
    if (end > chunk.length) return this.putBy(chunk, pos);
    const code = closeCode(chunk, pos, header);
    this.giveUp(pos);
    this.state = 'closed';
    this.clearQueue();
    this.flush(end);
    this.closed(code);
    return end;
  }

  private violate(why: Violation, pos: number): number {
    this.stop(pos, false);
    this.violated(why);
    return pos;
  }

  private stop(pos: number, tell = true): number {
    this.giveUp(pos);
    this.state = 'raw';
    this.clearQueue();
    if (tell) this.stopped();
    return pos;
  }

  private putBy(chunk: Buffer, pos: number): number {
    this.flush(pos);
    this.pending = Buffer.from(chunk.subarray(pos));
    return -1;
  }

  /** All of the current chunk up to `end` that is not cut out goes on. */
  private flush(end: number): void {
    const { chunk, start } = this;
    if (chunk === null || start >= end) return;
    this.start = end;
    this.pass(start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end));
  }

  private letGo(): void {
    const { raw, pending } = this;
    this.raw = null;
    this.pending = null;
    this.clearQueue();
    if (raw !== null && raw.length > 0) this.pass(raw.from(0));
    if (pending !== null) this.pass(pending);
  }

  private enqueue(bytes: Buffer): void {
    this.queue.push(bytes);
    this.queued += bytes.length;
  }

  private emit(): void {
    const bytes = this.queue.length === 1 ? this.queue[0]! : Buffer.concat(this.queue, this.queued);
    this.clearQueue();
    this.pass(bytes);
  }

  private clearQueue(): void {
    this.queue = [];
    this.queued = 0;
  }
}
