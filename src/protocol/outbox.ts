// Packets of ours as frames, waiting for a place between the sender's packets. Knows nothing of when that is.
import { frame, Opcode } from './frame.js';
import type { Outgoing } from './packet.js';

export class Outbox {
  private frames: Buffer[] = [];
  private length = 0;

  constructor(private readonly masked: boolean) {}

  /** Bytes that wait. Their bound is the owner's. */
  get bytes(): number {
    return this.length;
  }

  push(packet: Outgoing): void {
    this.add(this.masked ? framesOf(packet, true) : framedOnce(packet));
  }

  /** All that waits, as one piece; nothing waits any more. */
  take(): Buffer {
    const bytes = this.frames.length === 1 ? this.frames[0]! : Buffer.concat(this.frames, this.length);
    this.clear();
    return bytes;
  }

  clear(): void {
    this.frames = [];
    this.length = 0;
  }

  private add(bytes: Buffer): void {
    this.frames.push(bytes);
    this.length += bytes.length;
  }
}

/** A packet that goes to many browsers is framed once, and waits once. */
function framedOnce(packet: Outgoing): Buffer {
  let bytes = framed.get(packet);
  if (!bytes) {
    bytes = framesOf(packet, false);
    framed.set(packet, bytes);
  }
  return bytes;
}
const framed = new WeakMap<Outgoing, Buffer>();

/** A packet as whole frames. */
export function framesOf({ text, attachments }: Outgoing, masked: boolean): Buffer {
  const header = frame(Opcode.TEXT, text, masked);
  if (attachments.length === 0) return header;
  return Buffer.concat([header, ...attachments.map((bytes) => frame(Opcode.BINARY, bytes, masked))]);
}
