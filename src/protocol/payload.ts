// Engine.IO's polling payloads (protocol revision 4): packets joined by 0x1e, binary ones as `b` + base64; one
// transport's packets turned into the other's. Knows nothing of HTTP, sessions or sockets, nor which packets anybody wants
// (post-filter.ts and answer-scanner.ts do).
import { frame, Opcode } from './frame.js';
import type { Outgoing } from './packet.js';

const SEPARATOR = 0x1e;
/** `b`: an attachment, as base64. */
export const BINARY = 0x62;

/** The packets of a payload, as slices of it. */
export function splitPayload(bytes: Buffer): Buffer[] {
  const items: Buffer[] = [];
  for (let from = 0; ; ) {
    const at = bytes.indexOf(SEPARATOR, from);
    if (at < 0) {
      items.push(bytes.subarray(from));
      return items;
    }
    items.push(bytes.subarray(from, at));
    from = at + 1;
  }
}

const between = Buffer.from([SEPARATOR]);

export function joinPayload(items: readonly Buffer[]): Buffer {
  return Buffer.concat(items.flatMap((item, i) => (i === 0 ? [item] : [between, item])));
}

/** A packet of ours as payload items: its text, then each attachment as `b…`. */
export const itemsOf = (packet: Outgoing): Buffer[] => [
  Buffer.from(packet.text, 'utf8'),
  ...packet.attachments.map((bytes) => Buffer.from(`b${bytes.toString('base64')}`, 'latin1')),
];

/** Several packets of ours as one payload. */
export const encodePayload = (packets: readonly Outgoing[]): Buffer => joinPayload(packets.flatMap(itemsOf));

/**
 * A polling answer of the legacy's as server frames, for a browser that has moved on to the WebSocket: `b…` as binary
 * frames, `6` (noop) and `1` (close, which is about the transport left behind) left out. Empty where nothing is left.
 */
export function payloadFrames(bytes: Buffer): Buffer {
  const frames: Buffer[] = [];
  for (const item of splitPayload(bytes)) {
    if (item[0] === BINARY) frames.push(frame(Opcode.BINARY, attachmentOf(item)));
    else if (item.length > 0 && !(item.length === 1 && (item[0] === 0x36 || item[0] === 0x31))) {
      frames.push(frame(Opcode.TEXT, item));
    }
  }
  return Buffer.concat(frames);
}

/** The bytes of a `b…` item. */
export const attachmentOf = (item: Buffer): Buffer => Buffer.from(item.toString('latin1', 1), 'base64');
