// What a browser sent may hold bytes, which JSON does not: such a value is written as a Socket.IO packet with its attachments, everything
// else as plain JSON. Knows nothing of sessions.
import { decodeArgs, encodeEvent, parsePacket } from '../protocol/socketio.js';

export function writeValue(value: unknown): string {
  if (!holdsBytes(value)) return JSON.stringify(value);
  const { text, attachments } = encodeEvent('/', 'value', [value]);
  return JSON.stringify({ text, attachments: attachments.map((bytes) => bytes.toString('base64')) });
}

/** Undefined where that is nothing that was written here. A written value has no field `text` of its own at its top. */
export function readValue(json: string): unknown {
  const value = parsed(json);
  if (!isWritten(value)) return value;
  const packet = parsePacket(
    value.text,
    value.attachments.map((bytes) => Buffer.from(String(bytes), 'base64')),
  );
  return (packet && decodeArgs(packet))?.[0];
}

interface Written {
  readonly text: string;
  readonly attachments: readonly unknown[];
}

const isWritten = (value: unknown): value is Written =>
  typeof value === 'object' &&
  value !== null &&
  typeof (value as Written).text === 'string' &&
  Array.isArray((value as Written).attachments);

/** What browsers sent is nested 1,000 levels at most. */
const holdsBytes = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  (ArrayBuffer.isView(value) || value instanceof ArrayBuffer || Object.values(value).some(holdsBytes));

function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch {
    // Not JSON is one of the answers.
    return undefined;
  }
}
