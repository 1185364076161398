// What waits behind a packet, or a whole stream, that is held back: the sender's bytes and packets of ours, in the order in
// which they came. Knows nothing of what they say, nor of when they may go on.
import type { Outgoing } from './packet.js';

export type Waiting = Buffer | readonly Outgoing[];

export class Backlog {
  readonly #waiting: Waiting[] = [];
  #bytes = 0;
  #ours = 0;

  /** Bytes of the sender's. Few: the sender is not read meanwhile. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Bytes of ours, frame headers left out. Their bound is the owner's. */
  get ours(): number {
    return this.#ours;
  }

  /** Behind all that waits; the bytes are copied. */
  add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#waiting.push(Buffer.from(chunk));
  }

  put(packets: readonly Outgoing[]): void {
    this.#ours += sizeOf(packets);
    this.#waiting.push([...packets]);
  }

  /** Ahead of all that waits; the bytes are copied. */
  giveBack(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#waiting.unshift(Buffer.from(chunk));
  }

  take(): Waiting | undefined {
    const next = this.#waiting.shift();
    if (Buffer.isBuffer(next)) this.#bytes -= next.length;
    else if (next) this.#ours -= sizeOf(next as readonly Outgoing[]);
    return next;
  }
}

function sizeOf(packets: readonly Outgoing[]): number {
  let bytes = 0;
  for (const { text, attachments } of packets) {
    bytes += Buffer.byteLength(text);
    for (const { length } of attachments) bytes += length;
  }
  return bytes;
}
