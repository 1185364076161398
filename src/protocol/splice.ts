// The two directions of a browser's WebSocket, relayed as bytes and looked into on the way: named events are cut out
// of what the browser sends, packets of ours are put in between whole packets. Knows no socket, no service, no call.

import { Backlog } from './backlog.js';
import { type Open, readOpen } from './engineio.js';
import type { Violation } from './frame.js';
import { FrameWalk, Plan } from './frames.js';
import type { Incomplete, Named } from './gather.js';
import {
  type Interest,
  type LegacyInterest,
  type Outgoing,
  type Packet,
  PacketType,
  type Passage,
  type Verdict,
} from './packet.js';
import { Look, MAX_ATTACHMENTS, peek, peekAck, peeked } from './socketio.js';

export interface BrowserOut {
  /** Bytes for the legacy, in order. A slice of the chunk that was written where nothing had to be kept. */
  pass(bytes: Buffer): void;
  /** A whole packet: CONNECT, DISCONNECT, or an event of interest. */
  packet(packet: Packet): Verdict;
  /** The connection speaks another parser; all flows on unseen. Called once at most. */
  foreign(): void;
  /** An Engine.IO packet other than a message (`5`, `2probe`, `3`) has passed; `text` is what follows the type. */
  engine?(type: string, text: string): void;
  /** The browser's close frame has passed. */
  close?(code: number | undefined): void;
  /** What came is no frame that may stand there; all flows on unseen, the legacy decides. */
  violation?(why: Violation): void;
}

export interface BrowserSpliceOptions {
  /** Bytes of one message, as the handshake says; bounds what is gathered. */
  maxPayload: number;
  readonly counters: { forwardedUp: number };
  /** An upgrade from polling: nothing is looked into before the browser's `5`. */
  readonly upgrading?: boolean;
  /** The parser is already known to be Socket.IO's own (the session has spoken by polling). */
  readonly known?: boolean;
}

/** Browser to legacy: masked frames. */
export class BrowserSplice extends FrameWalk {
  /** Bytes; settable, since the handshake passes after this splice began. */
  maxPayload: number;
  private upgrading: boolean;
  private known: boolean;

  constructor(
    private readonly out: BrowserOut,
    private readonly interest: Interest,
    private readonly options: BrowserSpliceOptions,
  ) {
    super(true, true);
    this.maxPayload = options.maxPayload;
    this.upgrading = options.upgrading ?? false;
    this.known = options.known ?? false;
  }

  write(chunk: Buffer): void {
    this.walk(chunk);
  }

  /** A packet for the legacy, at the next whole-packet boundary. False: the legacy can't get it any more. */
  inject(packet: Outgoing): boolean {
    return this.put([packet]);
  }

  /**
   * Takes over an event that was taken from a POST and lacks attachments: call it when the browser's `5` passes.
   * Where the attachments don't come, it goes to the legacy as frames.
   */
  adopt(packet: Incomplete): void {
    this.takeOver(packet, false);
  }

  protected limit(): number {
    return this.maxPayload;
  }

  protected decide(b: Buffer, start: number, end: number, complete: boolean): Plan {
    peeked.attachments = 0;
    if (start === end) return complete ? Plan.PASS : Plan.MORE;
    const c = b[start]!;
    if (c === 0x62) return !this.known && !this.upgrading ? Plan.STOP : Plan.ATTACHMENT;
    if (c !== 0x34) return Plan.ENGINE;
    if (this.upgrading) return Plan.PASS;
    const look = peek(b, start, end, complete);
    if (look === Look.MORE) return Plan.MORE;
    if (!this.known) {
      if (peeked.type >= 0) this.known = true;
      else if (end - start > 1) return Plan.STOP;
    }
    if (peeked.attachments > MAX_ATTACHMENTS) return Plan.PASS;
    if (look === Look.NAMED) return this.interest.event(peeked.ns, peeked.name) ? Plan.SHOW : Plan.PASS;
    if (look === Look.SLOW) return Plan.SHOW;
    if (look === Look.UNKNOWN) return Plan.PASS;
    return peeked.type === PacketType.CONNECT || peeked.type === PacketType.DISCONNECT ? Plan.SHOW : Plan.PASS;
  }

  protected strayBinary(): boolean {
    return !this.known && !this.upgrading;
  }

  protected wants({ ns, name }: Named): boolean {
    return name === undefined || this.interest.event(ns, name);
  }

  protected show(packet: Packet): Verdict {
    return this.out.packet(packet);
  }

  protected engine(text: string): void {
    if (text === '5') this.upgrading = false;
    this.out.engine?.(text.charAt(0), text.slice(1));
  }

  protected closed(code: number | undefined): void {
    this.out.close?.(code);
  }

  protected violated(why: Violation): void {
    this.out.violation?.(why);
  }

  protected stopped(): void {
    this.out.foreign();
  }

  protected counted(): void {
    this.options.counters.forwardedUp++;
  }

  protected pass(bytes: Buffer): void {
    this.out.pass(bytes);
  }

  protected mayInject(): boolean {
    return !this.upgrading;
  }

  protected putOff(): void {
    // Nothing of the browser's waits for a word.
  }
}

export interface LegacyOut {
  /** Bytes for the browser, in order: the legacy's, and ours between its packets. */
  pass(bytes: Buffer): void;
  /**
   * CONNECT, DISCONNECT, CONNECT_ERROR, a watched event or an awaited acknowledgement, before the browser gets any of it.
   * After `hold` comes `settle`; the owner stops reading meanwhile.
   */
  packet(packet: Packet): Passage;
  /** The Engine.IO handshake; it has passed. */
  open?(handshake: Open): void;
  /** An Engine.IO packet other than a message has passed (`2`, `3probe`, `1`); `text` is what follows the type. */
  engine?(type: string, text: string): void;
  /** The legacy's close frame has passed. */
  close?(code: number | undefined): void;
  violation?(why: Violation): void;
}

export interface LegacySpliceOptions {
  readonly counters: { forwardedDown: number };
  /** Cheap; false: events are not looked at. */
  watching(): boolean;
  /** False until the browser's `5` where the session began by polling. Default true. */
  readonly enabled?: boolean;
}

/** What is gathered to be shown at most: larger packets pass unseen. */
const MAX_SHOWN = 1 << 20;

/** Legacy to browser: frames without a mask. Nothing is taken; an acknowledgement may be held back or replaced. */
export class LegacySplice extends FrameWalk {
  private injecting: boolean;
  private opened = false;
  /** The owner keeps all back. */
  private shut = false;
  /** Nothing waits any more. */
  private ending = false;
  private readonly backlog = new Backlog();

  constructor(
    private readonly out: LegacyOut,
    private readonly interest: LegacyInterest,
    private readonly options: LegacySpliceOptions,
  ) {
    super(false, false);
    this.injecting = options.enabled ?? true;
  }

  write(chunk: Buffer): void {
    if (this.holding) this.backlog.add(chunk);
    else this.walk(chunk);
  }

  /**
   * Packets for the browser, at the next whole-packet boundary; behind all that is kept back by then. False: the browser
   * can't get them any more.
   */
  inject(packets: readonly Outgoing[]): boolean {
    if (!this.holding) return this.put(packets);
    if (this.canPut) this.backlog.put(packets);
    return this.canPut;
  }

  override get queuedBytes(): number {
    return super.queuedBytes + this.backlog.ours;
  }

  /** Whether packets of ours may be put in; they wait until then. */
  get enabled(): boolean {
    return this.injecting;
  }

  set enabled(on: boolean) {
    this.injecting = on;
    this.drain();
  }

  /** Keeps back all that is written, and what is injected, until `release`. The owner stops reading meanwhile. */
  hold(): void {
    this.shut = true;
  }

  release(): void {
    this.shut = false;
    this.goOn();
  }

  /** The packet for which `packet` answered `hold` passes, or another in its place, and then what was kept back behind it. */
  settle(other?: Outgoing): void {
    if (!this.isWaiting) return;
    this.settled(other);
    this.goOn();
  }

  /** Whether anything is kept back, by `hold` or behind a packet that waits. */
  get holding(): boolean {
    return this.shut || this.isWaiting;
  }

  /** The sender's bytes that are kept back. */
  get heldBytes(): number {
    return this.backlog.bytes;
  }

  override end(): void {
    this.ending = true;
    this.settled();
    this.release();
    super.end();
  }

  private goOn(): void {
    while (!this.holding) {
      const next = this.backlog.take();
      if (next === undefined) break;
      if (Buffer.isBuffer(next)) this.walk(next);
      else this.put(next as readonly Outgoing[]);
    }
    this.drain();
  }

  /** A watched packet of which the browser got the header by polling; the rest is shown once it has come. */
  adopt(packet: Incomplete): void {
    this.takeOver(packet, true);
  }

  protected limit(): number {
    return MAX_SHOWN;
  }

  protected decide(b: Buffer, start: number, end: number, complete: boolean): Plan {
    peeked.attachments = 0;
    if (start === end) return complete ? Plan.PASS : Plan.MORE;
    const c = b[start]!;
    if (c === 0x62) return Plan.ATTACHMENT;
    if (c !== 0x34) return Plan.ENGINE;
    const look = peek(b, start, end, complete);
    if (look === Look.MORE) return Plan.MORE;
    if (look === Look.UNKNOWN) return Plan.PASS;
    if (look === Look.OTHER) {
      if (peeked.type <= 1 || peeked.type === PacketType.CONNECT_ERROR) return Plan.SHOW;
      return this.interest.awaiting() ? this.acknowledgement(b, start, end, complete) : Plan.PASS;
    }
    if (!this.options.watching()) return Plan.PASS;
    return look === Look.SLOW || this.interest.event(peeked.ns, peeked.name) ? Plan.SHOW : Plan.PASS;
  }

  protected strayBinary(): boolean {
    return false;
  }

  protected wants({ type, ns, id, name }: Named): boolean {
    if (type === PacketType.ACK || type === PacketType.BINARY_ACK) {
      return id !== undefined && this.interest.acknowledgement(ns, id);
    }
    return name === undefined || this.interest.event(ns, name);
  }

  protected show(packet: Packet): Verdict | 'hold' {
    const passage = this.out.packet(packet);
    if (passage === 'hold') return this.ending ? 'pass' : 'hold';
    return passage === 'pass' ? 'pass' : () => this.replace(passage);
  }

  private acknowledgement(b: Buffer, start: number, end: number, complete: boolean): Plan {
    const look = peekAck(b, start, end, complete);
    if (look === Look.MORE) return Plan.MORE;
    if (look === Look.SLOW) return Plan.SHOW;
    return look === Look.NAMED && this.interest.acknowledgement(peeked.ns, peeked.id) ? Plan.SHOW : Plan.PASS;
  }

  protected putOff(rest: Buffer): void {
    this.backlog.giveBack(rest);
  }

  protected engine(text: string): void {
    if (!this.opened && text.charCodeAt(0) === 0x30) {
      this.opened = true;
      const open = readOpen(text);
      if (open !== null) this.out.open?.(open);
    } else this.out.engine?.(text.charAt(0), text.slice(1));
  }

  protected closed(code: number | undefined): void {
    this.out.close?.(code);
  }

  protected violated(why: Violation): void {
    this.out.violation?.(why);
  }

  protected stopped(): void {
    // Nothing of the legacy's is foreign: its parser is its own business, and what we don't understand flows on.
  }

  protected counted(): void {
    this.options.counters.forwardedDown++;
  }

  protected pass(bytes: Buffer): void {
    this.out.pass(bytes);
  }

  protected mayInject(): boolean {
    return this.injecting && !this.holding;
  }
}
