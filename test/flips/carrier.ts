// One browser's connection through the proxy, as queues: up to the proxy, on to the legacy, back, and down. It does with the
// real connection what a transport does. Knows nothing of calls.
import type { IncomingMessage } from 'node:http';
import { type Outgoing, type Packet, PacketType } from '../../src/protocol/packet.js';
import { parsePacket } from '../../src/protocol/socketio.js';
import type { Connections, PacketOwner } from '../../src/proxy/transport.js';
import type { LegacyEnd } from './legacy.js';
import type { Links } from './links.js';

export type Origin = 'here' | 'legacy';

/** What a test wants to see pass. */
export interface Sight {
  /** The proxy gives it to the legacy: as it came, or after all. */
  forwarded(packet: Packet): void;
  /** The proxy itself says this to the browser. */
  injected(packet: Packet): void;
  /** The legacy's passes the proxy. */
  passes(packet: Packet): void;
  arrives(packet: Packet, origin: Origin): void;
  closed(): void;
}

export interface Carrier {
  send(text: string): void;
  /** After all that was sent; or at once, and what is still on its way is lost. */
  close(sudden: boolean): void;
  /** Nothing of the proxy's process is left. */
  cut(): void;
}

/** Packets of a POST that are decided before the first of them is served. */
const mostInAPost = 3;

export function carry(
  {
    links,
    connections,
    polling,
    toLegacyEnd,
  }: {
    readonly links: Links;
    readonly connections: Connections;
    readonly polling: boolean;
    readonly toLegacyEnd: (send: (text: string) => void) => LegacyEnd;
  },
  sight: Sight,
): Carrier {
  let taken = 0;
  let closed = false;
  const owner = connections.open({ headers: {}, url: '/' } as IncomingMessage);

  const down = links.open<{ readonly text: string; readonly origin: Origin }>(({ text, origin }) =>
    sight.arrives(packetOf(text), origin),
  );
  /** What the proxy itself says while a packet of the legacy's waits at it follows that packet. */
  let behind: Outgoing[] | null = null;
  const inject = (packets: readonly Outgoing[]): void => {
    for (const { text } of packets) {
      sight.injected(packetOf(text));
      down.push({ text, origin: 'here' });
    }
  };
  const fromLegacy = links.open<string>(
    (text) => {
      if (closed) return;
      const packet = packetOf(text);
      const pass = (instead: Outgoing | undefined): void => {
        sight.passes(packet);
        down.push({ text: instead?.text ?? text, origin: 'legacy' });
      };
      const passing = isShown(owner, packet) ? owner.fromLegacy(packet) : undefined;
      if (!(passing instanceof Promise)) return pass(passing);
      behind = [];
      void passing.then((instead) => {
        pass(instead);
        const waited = behind ?? [];
        behind = null;
        inject(waited);
      });
    },
    () => behind !== null,
  );
  const legacyEnd = toLegacyEnd((text) => fromLegacy.push(text));
  const toLegacy = links.open<string | null>((text) => {
    if (text !== null) return legacyEnd.receive(text);
    legacyEnd.closed();
    fromLegacy.cut();
  });
  const serving = links.open<() => void>((serve) => {
    taken--;
    serve();
  });

  const forward = (text: string): void => {
    sight.forwarded(packetOf(text));
    toLegacy.push(text);
  };
  const close = (): void => {
    if (closed) return;
    closed = true;
    owner.closed('browser');
    sight.closed();
    for (const link of [up, serving, down]) link.cut();
    toLegacy.push(null);
  };
  const up = links.open<string | null>(
    (text) => {
      if (text === null) return close();
      const packet = packetOf(text);
      const shown = packet.name === undefined || owner.interest.event(packet.ns, packet.name);
      const verdict = shown ? owner.fromBrowser(packet) : 'pass';
      if (verdict === 'pass') return forward(text);
      if (!polling) return verdict();
      taken++;
      serving.push(verdict);
    },
    () => taken >= mostInAPost,
  );
  owner.attach({
    kind: polling ? 'polling' : 'websocket',
    send(packets: readonly Outgoing[]) {
      if (behind) behind.push(...packets);
      else inject(packets);
    },
    forward: ({ text }) => forward(text),
    end: (code, reason) => {
      throw new Error(`the proxy ended a connection: ${code} ${reason}`);
    },
  });
  return {
    send: (text) => up.push(text),
    close: (sudden) => (sudden ? close() : up.push(null)),
    cut() {
      closed = true;
      for (const link of [up, serving, down]) link.cut();
      toLegacy.push(null);
    },
  };
}

function isShown(owner: PacketOwner, { type, name, ns, id }: Packet): boolean {
  if (name !== undefined) return owner.watching() && owner.legacyInterest.event(ns, name);
  if (type !== PacketType.ACK) return type === PacketType.CONNECT;
  return id !== undefined && owner.legacyInterest.awaiting() && owner.legacyInterest.acknowledgement(ns, id);
}

function packetOf(text: string): Packet {
  const packet = parsePacket(text, []);
  if (!packet) throw new Error(`not a packet: ${text}`);
  return packet;
}
