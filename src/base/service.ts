// What the proxy and a service that stands behind it say to each other. The proxy knows services only by this page,
// a service knows nothing of transports, packets or HTTP. Signaling is the first service.
import type { ConversationId, Namespace, SocketRef, UserId } from './ids.js';

/** A Socket.IO socket that the legacy accepted. */
export interface Peer {
  readonly ref: SocketRef;
  /** Set where we could verify the token ourselves; without it the peer's events are never served here. */
  readonly user: UserId | undefined;
  /** The browser's own token, as it was in the CONNECT packet or where `--token-from` says. Never logged. */
  readonly token: string | undefined;
}

/** `lifecycle` events of one call always go together; a `relay` can be moved by itself. */
export type EventKind = 'lifecycle' | 'relay';

/** Where an event goes and why, in one word each, for log lines, metrics and the dashboard. */
export interface Decision {
  readonly path: 'legacy' | 'new';
  readonly because: Because;
}

export type Because =
  | 'owned' // the new path has a session for this conversation
  | 'claimed' // the path that accepted this call's offer
  | 'route' // the table says so
  | 'canary' // the table's canary says so: in its share or lists, or not
  | 'excluded' // the other participant is in the canary's exclude list
  | 'fallback' // the new path is unwell, and the route leaves such offers to the legacy
  | 'peeled' // a relay of a call that the legacy owns
  | 'callee-not-here' // the other participant has no socket that we can serve
  | 'token-expired' // the ticket request answered 401
  | 'unverified' // we could not verify the sender's token
  | 'ended-here' // the call ended on the new path within the last minute
  | 'early' // a candidate ahead of its offer
  | 'sole' // the legacy's handlers are gone
  | 'held' // a fact must be fetched first; the service answers or forwards later
  | 'default'; // belongs to a call from before the proxy, or to none

/** An event of a service's vocabulary, whole, with its attachments in place. */
export interface InboundEvent {
  readonly peer: Peer;
  readonly name: string;
  /** The event's arguments without its name and without the acknowledgement; parsed when first read. May throw never. */
  readonly args: readonly unknown[];
  readonly ackRequested: boolean;
  /** Bytes of the packet, attachments included. */
  readonly size: number;
  /** A digest of the payload as it came, attachments included, without the acknowledgement id. */
  digest(): string;
  /** Sends the acknowledgement. The first call counts; where none was asked for it does nothing. */
  ack(arg: unknown): void;
  /**
   * Gives the event to the legacy after all, with its original packet; only for an event whose decision was `new`.
   * Where it was acknowledged here already, it goes without its acknowledgement id. `acknowledged`: as in `Routed`.
   */
  forward(acknowledged?: Acknowledged): void;
}

/**
 * The legacy acknowledges a forwarded event: told its arguments before the browser gets them. An answer replaces them;
 * null or nothing lets the acknowledgement pass as it came. While a promise is pending, the acknowledgement and all that the
 * legacy sends behind it on that connection wait, so it must settle within `mostAckWaitMs`. Told once, or never: where the
 * legacy does not acknowledge, the socket leaves first, more than 64 are awaited on its connection, or the acknowledgement
 * can't be kept back (over 1 MiB; by polling also in an answer over 256 KiB, or without its attachments, which come later).
 */
export type Acknowledged = (args: readonly unknown[]) => Replaced | Promise<Replaced>;
// biome-ignore lint/suspicious/noConfusingVoidType: a watcher that replaces nothing returns nothing
export type Replaced = readonly unknown[] | null | void;
/** Milliseconds. The transport lets go by itself after a second of these. */
export const mostAckWaitMs = 1_000;

/** Decision, and for `new` what starts the serving: the transport calls it once the order of its answers allows. */
export interface Routed {
  readonly decision: Decision;
  readonly serve?: () => void;
  /** Only with `legacy`, where an acknowledgement was asked for: who wants to see it. */
  readonly acknowledged?: Acknowledged;
}

/** An event, or the acknowledgement of a forwarded one, on its way from the legacy to a browser. */
export interface LegacyEvent {
  readonly peer: Peer;
  readonly name: string;
  readonly args: readonly unknown[];
}

/**
 * Why a connection went away. `browser`: the browser closed, vanished or was given up by the heartbeat.
 * `legacy`: the legacy went away under it. `drain`: we closed it. `instance`: the process that held it died.
 */
export type DropCause = 'browser' | 'legacy' | 'drain' | 'instance';

export interface Service {
  readonly name: string;
  /** Names of the events that browsers send and this service may serve. */
  readonly events: ReadonlyMap<string, EventKind>;
  /** Names of events that the legacy sends and this service wants to see pass, while `watching()`. */
  readonly watched: ReadonlySet<string>;
  /** Cheap; asked for each packet of the legacy's that could be one of `watched`. */
  watching(): boolean;
  /** Decides synchronously. Called for every event of `events`, in every namespace. */
  route(event: InboundEvent): Routed;
  /** A watched event passes from the legacy to a browser. */
  passed(event: LegacyEvent): void;
  /** The legacy accepted a socket. */
  connected(peer: Peer): void;
  /** That very socket is gone. */
  disconnected(peer: Peer, cause: DropCause): void;
  /** Whether the new path holds a live state for this conversation. */
  owns(ns: Namespace, conversationId: ConversationId): boolean;
}
