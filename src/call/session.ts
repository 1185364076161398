// The state of a 1:1 call as a value, and everything that can happen to it. Knows no socket, clock, store or route.
// Source of every rule: the 1:1 call contract (docs/calls.md).
import type { ConversationId, Namespace, SocketRef, UserId } from '../base/ids.js';
import type { DropCause } from '../base/service.js';

export interface CallKey {
  readonly ns: Namespace;
  readonly conversationId: ConversationId;
}

export type Role = 'offerer' | 'answerer';
/** A call in IDLE or ENDED has no session. */
export type State = 'OFFERING' | 'CONNECTED' | 'RENEGOTIATING' | 'AWAITING_REJOIN';

export interface Session extends CallKey {
  /** Names this one call, as opposed to an earlier or later one of the same conversation. */
  readonly callId: string;
  /** Grows by one with every change; the store's compare-and-set goes by it. */
  readonly version: number;
  readonly state: State;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** When the state was entered; AWAITING_REJOIN times out from here. */
  readonly since: number;
  /**
   * The version in which it was last broken off: a seat was lost, or a rejoin was offered. What was said of it before then, between
   * the browsers, is of an ICE session that is over. Absent: never.
   */
  readonly broken?: number | undefined;
  /** Roles never change, whoever drops and rejoins. */
  readonly users: Readonly<Record<Role, UserId>>;
  /** The socket that holds each seat; the answerer has none before the answer. A lost seat keeps its last socket. */
  readonly seats: { readonly offerer: SocketRef; readonly answerer: SocketRef | null };
  /** Why each lost seat was lost; absent while it is held. */
  readonly lost: Readonly<Partial<Record<Role, DropCause>>>;
  /**
   * Seats whose socket was closed by a planned move and that wait for their user's next socket: until when, in milliseconds since
   * the epoch. They count as connected; what is for them is kept (`SessionStore.keep`).
   */
  readonly held?: Readonly<Partial<Record<Role, number>>> | undefined;
  /**
   * By held seat, the sockets that its user had then: none of them is the browser that comes back. Absent where that was not known; 16
   * at most.
   */
  readonly beside?: Readonly<Partial<Record<Role, readonly SocketRef[]>>> | undefined;
  /** Seats that came back by such a move, whose browser may still offer a rejoin from them. */
  readonly moved?: Readonly<Partial<Record<Role, true>>> | undefined;
  /**
   * Set from when both seats were lost to a cause that was neither user's own until a rejoin is answered (accepted
   * difference 4): the call waits for both, either may offer the rejoin, and whichever socket answers it takes the seat.
   */
  readonly waitsForBoth?: true;
  /** Who offers in OFFERING (the offerer, or the rejoiner) and in RENEGOTIATING; null otherwise. */
  readonly offeredBy: Role | null;
  /** True while OFFERING is a rejoin. */
  readonly rejoining: boolean;
  /** Candidates of the side that offers, waiting for the answer. At most 256. */
  readonly candidates: readonly unknown[];
  /** Bytes of the messages that they came in, where known; bounded by `MAX_BUFFERED_BYTES`. */
  readonly candidateBytes?: number | undefined;
  /** The rejoin offer of a call that waits for both, for every socket with which the other user comes back; null otherwise. */
  readonly keptOffer: unknown;
}

/** Who acts: the user from the verified token, and the socket it came on. */
export interface Sender {
  readonly user: UserId;
  readonly socket: SocketRef;
}

/** Everything that can happen to a call. Payloads were checked at the door (`signaling/commands.ts`). */
export type CallEvent =
  | {
      readonly type: 'call-offer';
      readonly by: Sender;
      /** Of a new call; its namespace is the sender's. */
      readonly conversationId: ConversationId;
      readonly offer: unknown;
      /** From the signed ticket; absent where a session exists (its own participants count then). */
      readonly participants?: readonly [UserId, UserId];
      /** Id for a new call. */
      readonly callId: string;
      /** The sender's candidates that arrived ahead of this offer (accepted difference 1), oldest first. */
      readonly early: readonly unknown[];
    }
  | { readonly type: 'call-answer'; readonly by: Sender; readonly answer: unknown; readonly ackRequested: boolean }
  | {
      readonly type: 'ice-candidate';
      readonly by: Sender;
      readonly iceCandidate: unknown;
      /** Bytes as it came; one that is far larger than candidates are is not buffered. */
      readonly size?: number;
    }
  | { readonly type: 'call-renegotiate-offer'; readonly by: Sender; readonly offer: unknown }
  | { readonly type: 'call-renegotiate-answer'; readonly by: Sender; readonly answer: unknown }
  | {
      readonly type: 'call-rejoin-offer';
      readonly by: Sender;
      readonly offer: unknown;
    }
  | {
      readonly type: 'call-rejoin-answer';
      readonly by: Sender;
      readonly answer: unknown;
      readonly ackRequested: boolean;
    }
  | { readonly type: 'call-end'; readonly by: Sender }
  /** A socket is gone; `otherPresent`: whether the other seat's socket is connected. */
  | { readonly type: 'drop'; readonly socket: SocketRef; readonly cause: DropCause; readonly otherPresent: boolean }
  /** A participant has a new socket: it takes a held seat, or a kept rejoin offer can be delivered to it. */
  | { readonly type: 'arrived'; readonly by: Sender }
  /** A seat's socket is about to be closed by a planned move; its seat is held until then. */
  | {
      readonly type: 'hold';
      readonly socket: SocketRef;
      readonly until: number;
      /** The user's sockets, as far as that is known. */
      readonly beside?: readonly SocketRef[] | undefined;
    }
  /** A held seat's user did not come back in time: the seat is lost (`drain`). */
  | { readonly type: 'hold-over'; readonly role: Role; readonly otherPresent: boolean }
  /** The reaper's sweep. */
  | { readonly type: 'sweep'; readonly rejoinTimeout: number; readonly maxAge: number }
  | { readonly type: 'operator-end' };

export type Target =
  | { readonly socket: SocketRef }
  /** Every socket of the user in the call's namespace but those excepted. */
  | { readonly user: UserId; readonly except: readonly SocketRef[] };

export const serverEvents = [
  'call-offer',
  'call-answer',
  'ice-candidate',
  'call-renegotiate-offer',
  'call-renegotiate-answer',
  'call-rejoin-offer',
  'call-rejoin-answer',
  'call-peer-disconnected',
  'call-ended',
] as const;
export type ServerEvent = (typeof serverEvents)[number];

/** What is to be done once the new session is saved, in this order. */
export type Effect =
  | { readonly kind: 'emit'; readonly to: Target; readonly event: ServerEvent; readonly arg: unknown }
  /** The acknowledgement, where one was asked for. */
  | { readonly kind: 'ack'; readonly arg: unknown }
  /** An `error` event to the sender, then the acknowledgement where one was asked for. */
  | { readonly kind: 'refuse'; readonly refusal: Refusal }
  /** A candidate was not delivered; never its content. */
  | { readonly kind: 'candidate-dropped'; readonly why: 'buffer-full' | 'too-large' | 'awaiting-rejoin' | 'no-call' };

/** One entry of the catalogue in `refusals.ts`: values, never exceptions. */
export interface Refusal {
  readonly code: string;
  /** The text on the wire, the legacy's own. */
  readonly message: string;
  /** Whether the same request can succeed later. */
  readonly retry: boolean;
  /** True for refusals that a legacy never gives; a guard counts these. */
  readonly own: boolean;
}

export interface Step {
  /** The very same object where nothing changed; null where the call is over or never was. */
  readonly session: Session | null;
  readonly effects: readonly Effect[];
  /** One word for the log: why this happened. */
  readonly because: string;
}
