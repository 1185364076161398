// One direction's bytes on their way on: what of the chunk under way has not passed yet, what is held back, and our own
// packets, which go in at whole-packet boundaries. Reads no frame: where a message or a packet ends the walk knows
// (frames.ts).
import { Gathering, type Incomplete } from './gather.js';
import { framesOf, Outbox } from './outbox.js';
import type { Outgoing } from './packet.js';

export abstract class Flow {
  /** `raw`: nothing is understood or wanted any more. `closed`: after the sender's close frame. Both let all flow on. */
  protected state: 'frames' | 'raw' | 'closed' | 'ended' = 'frames';
  /** Bytes of a frame that can't be decided on yet; short, see `putBy`. */
  protected pending: Buffer | null = null;
  /** Attachments that must follow now. */
  protected due = 0;
  protected kept: Gathering | null = null;
  protected readonly outbox: Outbox;
  /** A packet that waits for its owner's word, as it came: nothing behind it is looked at meanwhile. */
  protected waiting: Buffer | null = null;
  /** The chunk that is being walked, and where in it begins what flows on next. */
  protected chunk: Buffer | null = null;
  protected start = 0;

  protected constructor(protected readonly masked: boolean) {
    this.outbox = new Outbox(masked);
  }

  /** Whether what has passed so far ends with a whole packet, attachments included. What is held back has not passed. */
  abstract get atBoundary(): boolean;
  protected abstract counted(): void;
  protected abstract pass(bytes: Buffer): void;
  /** Whether anything may be put in at all. */
  protected abstract mayInject(): boolean;

  /** Bytes that wait for a whole-packet boundary to be put in. */
  get queuedBytes(): number {
    return this.outbox.bytes;
  }

  /** Attachments that the receiver still expects; settable where the run began by polling. */
  get attachmentsDue(): number {
    return this.due;
  }

  set attachmentsDue(count: number) {
    this.due = count;
    if (this.chunk === null) this.drain();
  }

  /** From here on all flows unseen, and nothing is put in. */
  stopLooking(): void {
    if (this.state !== 'frames') return;
    this.state = 'raw';
    if (this.chunk === null) this.letGo();
  }

  /** The sender is gone: what was held back goes on, as it would have directly; then nothing more. */
  end(): void {
    if (this.state === 'ended') return;
    this.letGo();
    this.state = 'ended';
  }

  /** Whether a packet waits for `settled`. */
  protected get isWaiting(): boolean {
    return this.waiting !== null;
  }

  /** Whether anything can be put in, now or later. */
  protected get canPut(): boolean {
    return this.state === 'frames';
  }

  /** The packet that waited passes: as it came, or another in its place. What was put off must be walked then. */
  protected settled(other?: Outgoing): void {
    const { waiting } = this;
    if (waiting === null) return;
    this.waiting = null;
    this.whole(other ? framesOf(other, this.masked) : waiting);
  }

  /** Another packet goes in the place of one that is cut out. */
  protected replace(other: Outgoing): void {
    this.whole(framesOf(other, this.masked));
  }

  private whole(packet: Buffer): void {
    this.pass(packet);
    this.due = 0;
    this.counted();
  }

  /** Puts packets in at the next whole-packet boundary. False: it can't be any more. */
  protected put(packets: readonly Outgoing[]): boolean {
    if (this.state !== 'frames') return false;
    for (const packet of packets) this.outbox.push(packet);
    if (this.chunk === null) this.drain();
    return true;
  }

  protected drain(): void {
    if (this.outbox.bytes > 0 && this.atBoundary && this.mayInject()) this.pass(this.outbox.take());
  }

  /** Takes over a packet that began by polling; `passed`: the receiver has what there is of it. */
  protected takeOver(packet: Incomplete, passed: boolean): void {
    this.kept = Gathering.of(packet, this.masked, passed);
    if (passed) this.due = packet.due - packet.attachments.length;
  }

  /** A method, since the state changes under calls that a compiler does not see through. */
  protected isIn(state: 'frames' | 'ended'): boolean {
    return this.state === state;
  }

  /** What was gathered flows on unseen, before the byte at `pos`. */
  protected giveUp(pos: number): void {
    this.flush(pos);
    const { kept } = this;
    if (kept === null) return;
    this.kept = null;
    if (kept.awaiting) this.due = kept.lacking;
    this.passRaw(kept);
  }

  protected stopAt(pos: number): void {
    this.giveUp(pos);
    this.state = 'raw';
    this.outbox.clear();
  }

  /** Keeps the rest of the chunk: less than a header, a peek, a control frame, or a short Engine.IO packet. */
  protected putBy(chunk: Buffer, pos: number): number {
    this.flush(pos);
    this.pending = Buffer.from(chunk.subarray(pos));
    return -1;
  }

  /** All of the current chunk up to `end` that is not cut out goes on. */
  protected flush(end: number): void {
    const { chunk, start } = this;
    if (chunk === null || start >= end) return;
    this.start = end;
    this.pass(start === 0 && end === chunk.length ? chunk : chunk.subarray(start, end));
  }

  protected letGo(): void {
    const { kept, pending } = this;
    this.kept = null;
    this.pending = null;
    this.outbox.clear();
    if (kept !== null) this.passRaw(kept);
    if (pending !== null) this.pass(pending);
  }

  protected passRaw(kept: Gathering): void {
    if (kept.raw.length > 0) this.pass(kept.raw);
  }
}
