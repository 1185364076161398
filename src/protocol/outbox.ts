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

  push({ text, attachments }: Outgoing): void {
    this.add(frame(Opcode.TEXT, text, this.masked));
    for (const bytes of attachments) this.add(frame(Opcode.BINARY, bytes, this.masked));
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
