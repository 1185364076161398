// WebSocket frames as bytes (RFC 6455, section 5): reading a header in place, unmasking into a buffer that is already
// there, building whole frames. Knows nothing of Socket.IO, of connections or of what a frame is for.

/** RFC 6455, 5.2. 3-7 and 11-15 are reserved. */
export const Opcode = { CONTINUATION: 0, TEXT: 1, BINARY: 2, CLOSE: 8, PING: 9, PONG: 10 } as const;

/** The longest header: two bytes, a 64-bit length, a masking key. */
export const MAX_HEADER = 14;
/** RFC 6455, 5.5: a control frame carries at most 125 bytes and is never fragmented. */
export const MAX_CONTROL = 125;

/** A frame header as `readHeader` fills it in; one object is reused, for this is a hot path. */
export interface FrameHeader {
  fin: boolean;
  opcode: number;
  masked: boolean;
  /** Bytes of the header, masking key included. */
  size: number;
  /** Bytes of the payload. */
  length: number;
}

export const emptyHeader = (): FrameHeader => ({ fin: false, opcode: 0, masked: false, size: 0, length: 0 });

/** Why a frame cannot be understood; what to do about it is the endpoint's business (RFC 6455, 7.1.7). */
export type Violation = 'reserved-bits' | 'reserved-opcode' | 'masking' | 'control-frame' | 'length' | 'continuation';

/**
 * Reads the header at `pos`. `true`: `into` is filled in. `false`: more bytes are needed. A word: it is not a frame
 * that may stand here (`masked` says what this direction requires, RFC 6455, 5.1). No extension is ever negotiated, so
 * a reserved bit is a violation.
 */
export function readHeader(b: Buffer, pos: number, masked: boolean, into: FrameHeader): boolean | Violation {
  const available = b.length - pos;
  if (available < 2) return false;
  const b0 = b[pos]!;
  const b1 = b[pos + 1]!;
  const opcode = b0 & 15;
  let length = b1 & 127;
  if ((b0 & 0x70) !== 0) return 'reserved-bits';
  if (opcode > 10 || (opcode > 2 && opcode < 8)) return 'reserved-opcode';
  if (b1 >= 128 !== masked) return 'masking';
  if (opcode >= 8 && (b0 < 128 || length > MAX_CONTROL)) return 'control-frame';
  let size = masked ? 6 : 2;
  if (length === 126) {
    size += 2;
    if (available < size) return false;
    length = (b[pos + 2]! << 8) | b[pos + 3]!;
  } else if (length === 127) {
    size += 8;
    if (available < size) return false;
    const high = b.readUInt32BE(pos + 2);
    if (high >= 0x200000) return 'length'; // more than 2^53 bytes
    length = high * 4294967296 + b.readUInt32BE(pos + 6);
  }
  if (available < size) return false;
  into.fin = b0 >= 128;
  into.opcode = opcode;
  into.masked = masked;
  into.size = size;
  into.length = length;
  return true;
}

/** Copies `n` payload bytes from `from` on, unmasked with the key at `key`, to `to[at…]`. The payload's first byte is at `from`. */
export function unmask(b: Buffer, key: number, from: number, n: number, to: Buffer, at: number): void {
  const k0 = b[key]!;
  const k1 = b[key + 1]!;
  const k2 = b[key + 2]!;
  const k3 = b[key + 3]!;
  let i = 0;
  for (; i + 3 < n; i += 4) {
    to[at + i] = b[from + i]! ^ k0;
    to[at + i + 1] = b[from + i + 1]! ^ k1;
    to[at + i + 2] = b[from + i + 2]! ^ k2;
    to[at + i + 3] = b[from + i + 3]! ^ k3;
  }
  if (i < n) to[at + i] = b[from + i]! ^ k0;
  if (i + 1 < n) to[at + i + 1] = b[from + i + 1]! ^ k1;
  if (i + 2 < n) to[at + i + 2] = b[from + i + 2]! ^ k2;
}

/**
 * One whole frame (FIN). `masked`: as a client must send it (RFC 6455, 5.3), with `key` or an all-zero key; masking
 * protects caches between a browser and a server from scripts (10.3), which our own hop to the legacy needs not.
 */
export function frame(opcode: number, payload: Buffer | string, masked = false, key = 0): Buffer {
  const length = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const extra = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const size = 2 + extra + (masked ? 4 : 0);
  const b = Buffer.allocUnsafe(size + length);
  b[0] = 0x80 | opcode;
  b[1] = (masked ? 0x80 : 0) | (extra === 0 ? length : extra === 2 ? 126 : 127);
  if (extra === 2) b.writeUInt16BE(length, 2);
  else if (extra === 8) b.writeBigUInt64BE(BigInt(length), 2);
  if (typeof payload === 'string') b.write(payload, size, 'utf8');
  else payload.copy(b, size);
  if (masked) {
    b.writeUInt32BE(key >>> 0, 2 + extra);
    if (key !== 0) unmask(b, 2 + extra, size, length, b, size);
  }
  return b;
}

/** A close frame; without a code an empty one. The reason is cut at 123 bytes, on a character's edge. */
export function closeFrame(code?: number, reason = '', masked = false, key = 0): Buffer {
  if (code === undefined) return frame(Opcode.CLOSE, Buffer.alloc(0), masked, key);
  let text = Buffer.from(reason, 'utf8');
  if (text.length > MAX_CONTROL - 2) {
    let end = MAX_CONTROL - 2;
    while (end > 0 && (text[end]! & 0xc0) === 0x80) end--;
    text = text.subarray(0, end);
  }
  const payload = Buffer.allocUnsafe(2 + text.length);
  payload.writeUInt16BE(code, 0);
  text.copy(payload, 2);
  return frame(Opcode.CLOSE, payload, masked, key);
}

/** The code of a whole close frame at `pos`, `undefined` where it carries none (seen as 1005 by an endpoint). */
export function closeCode(b: Buffer, pos: number, header: FrameHeader): number | undefined {
  if (header.length < 2) return undefined;
  const at = pos + header.size;
  if (!header.masked) return b.readUInt16BE(at);
  return ((b[at]! ^ b[at - 4]!) << 8) | (b[at + 1]! ^ b[at - 3]!);
}

/** A data message put together from its frames. */
export interface Message {
  readonly opcode: number;
  readonly payload: Buffer;
}

/** The data messages in `b`, which must be whole frames without control frames, as they were gathered. Copies the payload. */
export function readMessages(b: Buffer, masked: boolean): Message[] {
  const messages: Message[] = [];
  const header = emptyHeader();
  let parts: Buffer[] = [];
  let opcode = 0;
  for (let pos = 0; pos < b.length && readHeader(b, pos, masked, header) === true; ) {
    const { size, length } = header;
    const at = pos + size;
    if (header.opcode !== Opcode.CONTINUATION) opcode = header.opcode;
    const part = Buffer.allocUnsafe(length);
    if (masked) unmask(b, at - 4, at, length, part, 0);
    else b.copy(part, 0, at, at + length);
    parts.push(part);
    pos = at + length;
    if (header.fin) {
      messages.push({ opcode, payload: parts.length === 1 ? part : Buffer.concat(parts) });
      parts = [];
    }
  }
  return messages;
}
