// Our own packets for a browser that polls, waiting for a GET. Knows nothing of when they may go.
import type { Outgoing } from '../protocol/packet.js';
import { itemsOf, joinPayload } from '../protocol/payload.js';

/** What waits for a browser that doesn't fetch it at most; bytes of a payload. */
export const MAX_OUTBOX = 1024 * 1024;
/** Four characters of base64 for three bytes. */
const BASE64 = 4 / 3;

export class Outbox {
  #packets: Outgoing[] = [];
  #bytes = 0;

  get empty(): boolean {
    return this.#packets.length === 0;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False where there is too much of it now. */
  add(packets: readonly Outgoing[]): boolean {
    for (const packet of packets) {
      this.#packets.push(packet);
      this.#bytes += Buffer.byteLength(packet.text);
      for (const { length } of packet.attachments) this.#bytes += length * BASE64;
    }
    return this.#bytes <= MAX_OUTBOX;
  }

  /** All of it, in order; the outbox is empty then. */
  take(): readonly Outgoing[] {
    const packets = this.#packets;
    this.#packets = [];
    this.#bytes = 0;
    return packets;
  }

  /** The same as a payload. */
  takePayload(): Buffer {
    return joinPayload(this.take().flatMap(itemsOf));
  }
}
