// The Socket.IO packet as a value, as the splice and the polling payload hand it up and take it down.
// Knows nothing of the transport that carries it.

/** Socket.IO v5 packet types (socket.io-protocol, revision 5). */
export const PacketType = {
  CONNECT: 0,
  DISCONNECT: 1,
  EVENT: 2,
  ACK: 3,
  CONNECT_ERROR: 4,
  BINARY_EVENT: 5,
  BINARY_ACK: 6,
} as const;
export type PacketType = (typeof PacketType)[keyof typeof PacketType];

/** A packet to send: the Engine.IO message text with its leading `4`, and the attachments that must follow it unbroken. */
export interface Outgoing {
  readonly text: string;
  readonly attachments: readonly Buffer[];
}

/** A whole packet as it was received, attachments included. */
export interface Packet extends Outgoing {
  readonly type: PacketType;
  /** `/` where the packet names none. */
  readonly ns: string;
  readonly id: number | undefined;
  /** The event's name, for EVENT and BINARY_EVENT only. */
  readonly name: string | undefined;
  /** Where the JSON starts in `text`. */
  readonly dataStart: number;
}

/** Which packets a splice or payload filter shows to its owner; CONNECT, DISCONNECT and CONNECT_ERROR are always shown. */
export interface Interest {
  /** Asked for each EVENT and BINARY_EVENT; a hot path: a branch and a Set lookup, no more. */
  event(ns: string, name: string): boolean;
}

/** The same for what the legacy sends. */
export interface LegacyInterest extends Interest {
  /** Cheap; false: acknowledgements are not looked at. */
  awaiting(): boolean;
  /** Asked for each ACK and BINARY_ACK while `awaiting()`. */
  acknowledgement(ns: string, id: number): boolean;
}

/** `pass`: its bytes go on as they came. A function: the packet is cut out, and the function starts its serving. */
export type Verdict = 'pass' | (() => void);

/**
 * What becomes of a packet of the legacy's. `pass`: its bytes go on as they came. A packet: that goes in its place. `hold`: it
 * waits, and all that follows it, until it is settled.
 */
export type Passage = 'pass' | 'hold' | Outgoing;
