// The least of WebSocket, Engine.IO and Socket.IO that two ends of a benchmark need, so that they cost little beside what is
// measured between them. Knows nothing of sigfig.
import { createHash } from 'node:crypto';

export const PATH = '/socket.io/?EIO=4&transport=websocket';

/** A whole text frame. A browser's is masked (RFC 6455, 5.3); with an all-zero key its payload stands there as it is. */
export function frame(text: string, masked: boolean): Buffer {
  const payload = Buffer.from(text, 'utf8');
  const short = payload.length < 126;
  if (payload.length > 65_535) throw new RangeError('a longer frame is not needed here');
  const head = Buffer.alloc((short ? 2 : 4) + (masked ? 4 : 0));
  head[0] = 0x81;
  head[1] = (masked ? 0x80 : 0) | (short ? payload.length : 126);
  if (!short) head.writeUInt16BE(payload.length, 2);
  return Buffer.concat([head, payload]);
}

/** Cuts a stream into the payloads of its frames, which must be whole, unfragmented, and masked with zeros if at all. */
export class Payloads {
  #rest: Buffer = Buffer.alloc(0);

  *of(chunk: Buffer): Generator<Buffer> {
    const bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, chunk]) : chunk;
    let pos = 0;
    while (bytes.length - pos >= 2) {
      const b = bytes[pos + 1]!;
      let length = b & 127;
      let at = pos + 2 + (b >= 128 ? 4 : 0);
      if (length === 126) {
        if (bytes.length - pos < 4) break;
        length = bytes.readUInt16BE(pos + 2);
        at += 2;
      }
      if (bytes.length < at + length) break;
      yield bytes.subarray(at, at + length);
      pos = at + length;
    }
    this.#rest = Buffer.from(bytes.subarray(pos));
  }
}

/** What answers `Sec-WebSocket-Key` (RFC 6455, 4.2.2). */
export const acceptOf = (key: string): string =>
  createHash('sha1').update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
