// The walk along one direction of a spliced WebSocket: which bytes flow on as they are (flow.ts passes them), which
// message is looked at, where something may be put in between. Source: RFC 6455, 5; Socket.IO protocol revision 5,
// "attachments". Knows nothing of sockets, and not which packets anybody wants: its two heirs do (splice.ts).
import { Flow } from './flow.js';
import { closeCode, emptyHeader, Opcode, readHeader, unmask, type Violation } from './frame.js';
import { Gathering, type Named } from './gather.js';
import type { Packet, Verdict } from './packet.js';
import { PEEK, parsePacket, peeked, textOf } from './socketio.js';

export type { Incomplete } from './gather.js';

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
  /** An attachment: flows on, or belongs to what is gathered. As text it is base64 (`b…`, with `b64=1`). */
  ATTACHMENT: 4,
  /** Not Socket.IO as we know it: all flows on from here, unseen. */
  STOP: 5,
} as const;
export type Plan = (typeof Plan)[keyof typeof Plan];

/** A longer Engine.IO packet is none that we know: it flows on unseen. The handshake is the longest, some 120 bytes. */
const MAX_ENGINE = 4096;

const scratch = Buffer.allocUnsafe(PEEK);
let work = Buffer.allocUnsafe(8192);
const WORK_KEPT = 1 << 20;
const header = emptyHeader();

export abstract class FrameWalk extends Flow {
  /** Payload bytes to come of the current frame; whether they are gathered; whether a message ends with them. */
  private left = 0;
  private keeping = false;
  private last = false;
  /** The current data message, between its first frame and its last. */
  private inMessage = false;
  private plan: Plan = Plan.PASS;
  private attachment = false;
  private counts = false;
  /** Attachments that must follow once the current message has passed. */
  private dueNext = 0;

  protected constructor(
    masked: boolean,
    /** Whether text in an attachment's place must be left to the receiver, which ends the session over it. */
    private readonly strict: boolean,
  ) {
    super(masked);
  }

  protected abstract limit(): number;
  protected abstract decide(b: Buffer, start: number, end: number, complete: boolean): Plan;
  /** A binary message that no header asked for; true: all flows on from here, unseen. */
  protected abstract strayBinary(): boolean;
  /**
   * A whole packet; a function cuts it out, and is called once all before it has passed. `hold`: it waits for `settled`, and
   * the walk ends behind it.
   */
  protected abstract show(packet: Packet): Verdict | 'hold';
  /** Asked again once a packet is whole, since the names of some are not known earlier. */
  protected abstract wants(packet: Named): boolean;
  protected abstract engine(text: string): void;
  protected abstract closed(code: number | undefined): void;
  protected abstract violated(why: Violation): void;
  protected abstract stopped(): void;
  /** What of a chunk stands behind a packet that waits; valid during the call only. */
  protected abstract putOff(rest: Buffer): void;

  get atBoundary(): boolean {
    if (this.state !== 'frames' || this.due > 0) return false;
    if (this.left > 0 && !this.keeping) return false;
    return !this.inMessage || (this.kept !== null && this.keeps());
  }

  protected walk(bytes: Buffer): void {
    if (this.state !== 'frames') {
      if (this.state !== 'ended') this.pass(bytes);
      return;
    }
    const chunk = this.pending === null ? bytes : Buffer.concat([this.pending, bytes]);
    this.pending = null;
    this.chunk = chunk;
    this.start = 0;
    let pos = 0;
    while (pos >= 0 && this.isIn('frames')) {
      if (this.waiting !== null) {
        // All before it has passed.
        this.chunk = null;
        if (pos < chunk.length) this.putOff(chunk.subarray(pos));
        return;
      }
      if (this.left > 0) {
        if (pos === chunk.length) break;
        pos = this.payloadAt(chunk, pos);
        continue;
      }
      if (this.outbox.bytes > 0 && this.atBoundary && this.mayInject()) {
        this.flush(pos);
        this.pass(this.outbox.take());
      }
      if (pos === chunk.length) break;
      pos = this.frameAt(chunk, pos);
    }
    if (pos >= 0 && !this.isIn('ended')) {
      if (!this.isIn('frames')) this.letGo();
      this.flush(chunk.length);
    }
    this.chunk = null;
    this.drain();
  }

  private keeps(): boolean {
    const { plan } = this;
    return plan === Plan.SHOW || plan === Plan.MORE || (plan === Plan.ATTACHMENT && this.kept !== null);
  }

  private payloadAt(chunk: Buffer, pos: number): number {
    const end = pos + Math.min(this.left, chunk.length - pos);
    this.left -= end - pos;
    if (this.keeping) {
      this.kept?.append(chunk, pos, end);
      this.start = end;
    }
    if (this.left === 0 && this.last) this.messageEnd();
    return end;
  }

  private messageEnd(): void {
    this.inMessage = false;
    if (!this.keeping) this.passed();
    else {
      this.keeping = false;
      this.gathered();
    }
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
      this.keeping = false;
      this.last = false;
      this.left = length;
      return at;
    }
    if (opcode === 0 ? !this.inMessage : this.inMessage) return this.violate('continuation', pos);
    if (opcode === Opcode.BINARY) {
      if (this.kept === null && this.due === 0 && this.strayBinary()) return this.stop(pos);
      this.attachment = true;
      this.plan = this.kept === null ? Plan.PASS : Plan.ATTACHMENT;
    } else if (opcode === Opcode.TEXT || this.plan === Plan.MORE) {
      const next = this.textAt(chunk, pos, at, opcode === Opcode.TEXT);
      if (next !== pos) return next;
    }
    this.last = fin;
    this.inMessage = !fin;
    this.left = length;
    this.keeping = this.keeps();
    if (this.keeping) this.keep(chunk, pos, at, length);
    if (length === 0 && fin) this.messageEnd();
    return at;
  }

  /**
   * A text message's first frame, or a further one while it is not decided on. Returns `pos` where the frame goes the
   * common way, by `this.plan`; otherwise where to go on.
   */
  private textAt(chunk: Buffer, pos: number, at: number, first: boolean): number {
    const { fin, length } = header;
    const before = first || this.kept === null ? 0 : this.kept.peeked(scratch);
    const available = chunk.length - at;
    const want = Math.min(length, PEEK - before);
    const have = Math.min(available, want);
    const inPlace = !this.masked && before === 0;
    if (this.masked) unmask(chunk, at - 4, at, have, scratch, before);
    else if (!inPlace) chunk.copy(scratch, before, at, at + have);
    const seen = inPlace ? chunk : scratch;
    const from = inPlace ? at : 0;
    let plan = this.decide(seen, from, from + before + have, fin && have === length);
    if (plan === Plan.MORE && have < want) return this.putBy(chunk, pos);
    if (plan === Plan.STOP) return this.stop(pos);
    this.attachment = plan === Plan.ATTACHMENT;
    this.counts = plan !== Plan.ATTACHMENT && plan !== Plan.ENGINE;
    if (first) {
      this.plan = plan;
      if (plan === Plan.ENGINE) return this.engineAt(chunk, pos, at);
      if (plan === Plan.ATTACHMENT) return pos;
      if (this.kept !== null) this.giveUp(pos); // not the attachment that was due
    } else if (plan === Plan.ENGINE || plan === Plan.ATTACHMENT) plan = Plan.PASS;
    if (plan === Plan.SHOW && this.strict && this.due > 0) plan = Plan.PASS;
    this.plan = plan;
    this.dueNext = peeked.attachments;
    if (plan === Plan.MORE) {
      this.kept ??= new Gathering(this.masked);
      this.kept.remember(seen, from, from + before + have);
    } else if (plan === Plan.PASS) {
      if (this.kept !== null) this.giveUp(pos);
    } else if (first && fin && available >= length && this.dueNext === 0 && length <= this.limit()) {
      return this.showAt(chunk, pos, at, length);
    }
    return pos;
  }

  /** An Engine.IO packet: it does not break a packet that is gathered, and goes ahead of it. */
  private engineAt(chunk: Buffer, pos: number, at: number): number {
    const { fin, length } = header;
    const end = at + length;
    this.plan = Plan.PASS;
    if (!fin || length > MAX_ENGINE) return pos;
    if (end > chunk.length) return this.putBy(chunk, pos);
    const text = this.payloadOf(chunk, at, length).toString('utf8');
    this.flush(end);
    this.engine(text);
    return end;
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
      if (verdict === 'hold') this.waiting = Buffer.from(chunk.subarray(pos, end));
      else verdict();
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

  /** Begins to keep a frame: its header now, its payload as it comes. Over a limit all of it flows on. */
  private keep(chunk: Buffer, pos: number, at: number, length: number): void {
    this.flush(pos);
    this.kept ??= new Gathering(this.masked);
    if (this.kept.fits(length, this.limit())) {
      this.kept.begin(chunk, pos, at, length);
      this.start = at;
    } else {
      this.giveUp(pos);
      this.plan = Plan.PASS;
      this.keeping = false;
    }
  }

  /** A message that was kept is whole. */
  private gathered(): void {
    const { kept } = this;
    if (kept === null) return;
    const found = kept.awaiting ? kept.attachmentWhole() : kept.headerWhole((packet) => this.wants(packet));
    if (found === 'more') return;
    const awaited = kept.awaiting;
    const verdict = found === 'pass' ? found : this.judge(found);
    this.kept = null;
    if (verdict === 'pass') {
      this.attachment = false;
      this.counts = true;
      if (awaited) this.dueNext = 0;
      this.passRaw(kept);
      this.passed();
    } else if (verdict === 'hold') this.waiting = kept.raw;
    else verdict();
  }

  private judge(packet: Packet): Verdict | 'hold' {
    return this.wants(packet) ? this.show(packet) : 'pass';
  }

  private closeAt(chunk: Buffer, pos: number): number {
    const end = pos + header.size + header.length;
    if (end > chunk.length) return this.putBy(chunk, pos);
    const code = closeCode(chunk, pos, header);
    this.giveUp(pos);
    this.state = 'closed';
    this.outbox.clear();
    this.flush(end);
    this.closed(code);
    return end;
  }

  private violate(why: Violation, pos: number): number {
    this.stopAt(pos);
    this.violated(why);
    return pos;
  }

  private stop(pos: number): number {
    this.stopAt(pos);
    this.stopped();
    return pos;
  }
}
