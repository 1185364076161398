// What the field's cases share: the packets that an unmodified client sends and gets, as they are on the wire, and the
// transports that every case is played on. Knows nothing of what a case does with them.
import type { ManagerOptions } from 'socket.io-client';
import { type Client, within } from '../harness.js';

export const transports: Readonly<Record<string, Partial<ManagerOptions>>> = {
  websocket: { transports: ['websocket'] },
  polling: { transports: ['polling'] },
  upgrade: { transports: ['polling', 'websocket'] },
};

/** Socket.IO packets in order: texts as they are, attachments as `<hex>`. */
export interface Tap {
  readonly sent: string[];
  readonly got: string[];
}

/** From here on; a client shows its packets only once it is connected. */
export function tap(client: Client): Tap {
  const taps: Tap = { sent: [], got: [] };
  const note = (list: string[]) => (packet: { type: string; data?: unknown }) => {
    if (packet.type !== 'message') return;
    const { data } = packet;
    list.push(typeof data === 'string' ? data : `<${Buffer.from(data as Uint8Array).toString('hex')}>`);
  };
  client.socket.io.engine.on('packetCreate', note(taps.sent));
  client.socket.io.engine.on('packet', note(taps.got));
  return taps;
}

/** The acknowledgement ids of packets like `2[/ns,]7[…]` (sent) or `3[/ns,]7[…]` (got), also of binary ones. */
export const idsOf = (packets: readonly string[], type: 'event' | 'ack', ns = ''): number[] =>
  packets.flatMap((packet) => {
    const kinds = type === 'event' ? '(?:2|5\\d+-)' : '(?:3|6\\d+-)';
    const id = new RegExp(`^${kinds}${ns}(\\d+)\\[`).exec(packet)?.[1];
    return id === undefined ? [] : [Number(id)];
  });

/** Resolves once the client speaks WebSocket; at once where it does already, or never will. */
export async function settled(client: Client, transport: string): Promise<void> {
  const { engine } = client.socket.io;
  if (transport !== 'upgrade' || engine.transport.name === 'websocket') return;
  await within(
    10_000,
    'the client has upgraded',
    new Promise<void>((resolve) => engine.once('upgrade', () => resolve())),
  );
}
