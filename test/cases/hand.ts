// A socket by hand, over either transport: sends packets as they are written, and shows what comes as it came. Knows
// nothing of calls.
import { Polling, Ws } from '../transparency/clients.js';

export interface Hand {
  /** Socket.IO messages with their leading `4`, attachments as Buffers; over polling all in one POST. */
  send(...packets: (string | Buffer)[]): Promise<void>;
  /** The next packets but for heartbeats; attachments as `<hex>`; the end is `end …`. */
  take(count: number): Promise<string[]>;
  next(): Promise<string>;
  end(): void;
}

/** `connect`: CONNECT packets to begin with, such as `40{"token":"…"}`; their answers are taken already. */
export async function hand(transport: string, url: string, ...connect: string[]): Promise<Hand> {
  const one = transport === 'websocket' ? await byWebSocket(url) : await byPolling(url);
  if (connect.length > 0) {
    await one.send(...connect);
    await one.take(connect.length);
  }
  return one;
}

async function byWebSocket(url: string): Promise<Hand> {
  const ws = await Ws.open(url);
  await ws.next();
  const next = async (): Promise<string> => {
    const packet = await ws.next();
    return packet === '2' ? next() : packet.replace(/^close /, 'end ');
  };
  return {
    async send(...packets) {
      ws.send(...packets);
    },
    next,
    take: (count) => several(next, count),
    end: () => ws.socket.terminate(),
  };
}

async function byPolling(url: string): Promise<Hand> {
  const polling = await Polling.open(url);
  const here: string[] = [];
  const next = async (): Promise<string> => {
    while (here.length === 0) {
      const { status, text } = await polling.get();
      if (status !== 200) return `end ${status} ${text}`;
      here.push(...text.split('\x1e').filter((packet) => packet !== '2' && packet !== '6'));
    }
    const packet = here.shift()!;
    return packet.startsWith('b') ? `<${Buffer.from(packet.slice(1), 'base64').toString('hex')}>` : packet;
  };
  return {
    async send(...packets) {
      await polling.post(packets.map((p) => (typeof p === 'string' ? p : `b${p.toString('base64')}`)).join('\x1e'));
    },
    next,
    take: (count) => several(next, count),
    end: () => void polling.post('1'),
  };
}

async function several(next: () => Promise<string>, count: number): Promise<string[]> {
  const packets: string[] = [];
  while (packets.length < count) packets.push(await next());
  return packets;
}
