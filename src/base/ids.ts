// Branded ids. A value gets its brand once, at the door where it was checked; inside, the type is trusted.
// Knows nothing of where the values come from.

declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** The user's id: the token's `sub` (or the claim named by `--user-claim`). */
export type UserId = Brand<string, 'UserId'>;
/** 1 to 256 characters. */
export type ConversationId = Brand<string, 'ConversationId'>;
/** A Socket.IO namespace, with its leading slash: `/`, `/presence`. */
export type Namespace = Brand<string, 'Namespace'>;
/** The Socket.IO id that the legacy gave in `40{"sid":"…"}`. */
export type SocketId = Brand<string, 'SocketId'>;
/**
 * Counts the browsers' connections of a process; never reused, so a late close can't touch a later connection. From 1, or, where
 * several processes share their calls, from a random multiple of 2³² of each.
 */
export type ConnectionNumber = Brand<number, 'ConnectionNumber'>;
/** One running process among those that share their calls; new at each start. What is sent to its sockets is sent there. */
export type Address = Brand<string, 'Address'>;
/** One life of such a process: what was declared dead and comes back does so under another. */
export type InstanceId = Brand<string, 'InstanceId'>;

/**
 * One Socket.IO socket on one connection. With connection state recovery the same `id` comes back on another
 * `connection`: that is the same socket for the browser, but a close of the earlier one must not touch it.
 */
export interface SocketRef {
  readonly ns: Namespace;
  readonly id: SocketId;
  readonly connection: ConnectionNumber;
  /** The process that holds it; absent where there is only this one. */
  readonly at?: Address;
}

export const sameSocket = (a: SocketRef, b: SocketRef): boolean =>
  a.connection === b.connection && a.id === b.id && a.ns === b.ns && a.at === b.at;
