// What a connection and its transport (WebSocket splice or polling session) need of one another. Knows nothing of calls.
import type { IncomingMessage } from 'node:http';
import type { SocketRef } from '../base/ids.js';
import type { DropCause } from '../base/service.js';
import type { Interest, LegacyInterest, Outgoing, Packet, Verdict } from '../protocol/packet.js';

/** The side that carries bytes. At an upgrade from polling the connection stays and its transport is replaced. */
export interface Transport {
  readonly kind: 'websocket' | 'polling';
  /** Injects packets for the browser, in this order, each at a whole-packet boundary. Over its bound the transport ends the connection. */
  send(packets: readonly Outgoing[]): void;
  /** Gives a packet that was taken to the legacy after all, at a whole-packet boundary. */
  forward(packet: Outgoing): void;
  /** Closes the browser's connection and the legacy's. 1001 for a drain. */
  end(code: number, reason: string): void;
}

/**
 * What becomes of a packet of the legacy's: it passes as it came (undefined), or another goes in its place. A promise, which
 * settles in bounded time and never rejects: the packet waits for that, with all that follows it.
 */
export type Passing = Outgoing | undefined | Promise<Outgoing | undefined>;

/** The side that understands packets; `connection.ts` implements it, one for each Engine.IO session. */
export interface PacketOwner {
  readonly interest: Interest;
  /** What is to be shown of the legacy's packets; of its events only asked while `watching()` is true. */
  readonly legacyInterest: LegacyInterest;
  /** Sockets that the legacy accepted on it, in any namespace. */
  sockets(): readonly SocketRef[];
  /** Cheap; false: the legacy's EVENT packets need no look at their names. */
  watching(): boolean;
  /** A whole packet from the browser that `interest` asked for, or a CONNECT or DISCONNECT. */
  fromBrowser(packet: Packet): Verdict;
  /** A whole packet from the legacy, before it passes: CONNECT, DISCONNECT, CONNECT_ERROR, or one of `legacyInterest`. */
  fromLegacy(packet: Packet): Passing;
  /** The browser speaks something that is not Socket.IO's default parser (msgpack, say): from now on nothing is shown or served. */
  foreign(): void;
  /** The transport that now carries this connection. */
  attach(transport: Transport): void;
  /** Nothing can reach the browser any more; called exactly once. What was held settles now. */
  closed(cause: DropCause): void;
}

/** What the listener makes of a browser's first request; `compose.ts` wires it to `connection.ts`. */
export interface Connections {
  /** A new Engine.IO session (EIO=4) begins, with the request of its handshake (for tokens in query, cookie or header). */
  open(request: IncomingMessage): PacketOwner;
}

/** Limits the legacy announced in its handshake (`0{"sid",…}`): bytes and milliseconds. */
export interface Handshake {
  readonly sid: string;
  readonly upgrades: readonly string[];
  readonly pingInterval: number;
  readonly pingTimeout: number;
  readonly maxPayload: number;
}
