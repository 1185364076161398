import type { Open } from './engineio.js';
import type { Outgoing, Packet, Passage } from './packet.js';
import { BrowserSplice, type BrowserSpliceOptions, LegacySplice } from './splice.js';
import { interest, legacyInterest, takes, wireFrame } from './wire.fixture.js';

export const KEY = Buffer.from([1, 2, 3, 4]);
export const up = (text: string, fin = true, opcode = 1) => wireFrame(opcode, fin, Buffer.from(text), KEY);
export const upBinary = (text: string, fin = true) => up(text, fin, 2);
export const down = (text: string, fin = true, opcode = 1) => wireFrame(opcode, fin, Buffer.from(text), null);
export const ours: Outgoing = { text: '431[]', attachments: [] };
export const oursUp = wireFrame(1, true, Buffer.from(ours.text), Buffer.alloc(4));
export const oursDown = wireFrame(1, true, Buffer.from(ours.text), null);

export const offer = '42["call-offer",{"conversationId":"c"}]';
export const chat = '42["chat-message","hi"]';
export const binaryOffer = '452-7["call-offer",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]';

export function browser(options: Partial<BrowserSpliceOptions> = {}) {
  const out: Buffer[] = [];
  const log: string[] = [];
  const shown: Packet[] = [];
  const served: Packet[] = [];
  const counters = { forwardedUp: 0 };
  const it: BrowserSplice = new BrowserSplice(
    {
      pass: (bytes) => out.push(Buffer.from(bytes)),
      packet(packet) {
        shown.push(packet);
        return takes(packet.name) ? () => served.push(packet) : 'pass';
      },
      foreign: () => log.push('foreign'),
      engine: (type, text) => log.push(`engine ${type}${text}`),
      close: (code) => log.push(`close ${code}`),
      violation: (why) => log.push(why),
    },
    interest,
    { maxPayload: 1000, counters, known: true, ...options },
  );
  return { it, out, log, shown, served, counters, passed: () => Buffer.concat(out) };
}

export interface LegacyCase {
  readonly watching?: boolean;
  readonly enabled?: boolean;
  /** Ids of acknowledgements that are awaited, and what becomes of them. */
  readonly awaited?: readonly number[];
  readonly passage?: (packet: Packet) => Passage;
}

export function legacy({ watching = true, enabled = true, awaited = [], passage = () => 'hold' }: LegacyCase = {}) {
  const out: Buffer[] = [];
  const log: string[] = [];
  const shown: Packet[] = [];
  const opens: Open[] = [];
  const counters = { forwardedDown: 0 };
  const it: LegacySplice = new LegacySplice(
    {
      pass: (bytes) => out.push(Buffer.from(bytes)),
      packet(packet) {
        shown.push(packet);
        return packet.type === 3 || packet.type === 6 ? passage(packet) : 'pass';
      },
      open: (open) => opens.push(open),
      engine: (type, text) => log.push(`engine ${type}${text}`),
      close: (code) => log.push(`close ${code}`),
      violation: (why) => log.push(why),
    },
    legacyInterest(awaited),
    { watching: () => watching, counters, enabled },
  );
  return { it, out, log, shown, opens, counters, passed: () => Buffer.concat(out) };
}

/** Every cut of the bytes in two. */
export const cuts = (bytes: Buffer): [Buffer, Buffer][] =>
  Array.from({ length: bytes.length + 1 }, (_, i) => [
    Buffer.from(bytes.subarray(0, i)),
    Buffer.from(bytes.subarray(i)),
  ]);
