// The port to where call sessions live, and to what else decides who has a conversation. Drivers stand beside it (memory, Redis)
// and answer the same contract suite, `store.contract.ts`. Knows nothing of what a session means: every change is a
// compare-and-set on its version. Of every method: @throws Unavailable where what is shared can't be reached, or this
// instance may not act on it now; Unreadable where what stands there is no session that we understand.
import type { InstanceId, SocketRef } from '../base/ids.js';
import type { CallKey, Role, ServerEvent, Session } from '../call/session.js';

/** A message that waits for a seat's next socket. */
export interface Kept {
  readonly event: ServerEvent;
  readonly arg: unknown;
}

/** When a call must be looked at again (milliseconds since the epoch) although nobody does anything: a timeout, a held seat. */
export type DueAt = (session: Session) => number;

/** Who has a conversation. */
export interface Found {
  readonly session: Session | null;
  /** Another living instance has seen a call of the legacy's begin (`claim`). */
  readonly claimed: boolean;
  /** The id of the call of the new path that ended within the last 60 s, wherever. */
  readonly ended: string | null;
}

export interface SessionStore {
  /**
   * What is known without asking anybody: the session, null where there is none, undefined where it must be fetched with `get`
   * first. The memory driver always knows. The Redis driver knows sessions with a seat on this instance, and offers of which it
   * has `heard`: they may have been changed elsewhere a moment ago, which a compare-and-set finds out; it never answers null,
   * and undefined for all while this instance may not act.
   */
  peek(key: CallKey): Session | null | undefined;
  get(key: CallKey): Promise<Session | null>;
  look(key: CallKey): Promise<Found>;
  /** Stores a new session unless the key has one or is claimed; answers what is in force afterwards. */
  create(
    session: Session,
  ): Promise<{ readonly created: boolean; readonly session: Session | null; readonly claimed: boolean }>;
  /**
   * Replaces `before` by `after` where the stored version is still `before.version`; answers what is in force. `kept`: what was
   * kept for seats that `before` held and `after` does not, by role, oldest first; it is not kept any more.
   */
  replace(
    before: Session,
    after: Session,
  ): Promise<{
    readonly replaced: boolean;
    readonly session: Session | null;
    readonly kept?: Readonly<Partial<Record<Role, readonly Kept[]>>>;
  }>;
  /** Deletes where the stored version is still `before.version`, and remembers for 60 s that its call has ended. */
  delete(before: Session): Promise<{ readonly deleted: boolean; readonly session: Session | null }>;
  /** Another instance has changed this call: `session` where it sent it along, null where it ended, undefined: ask again. */
  heard(key: CallKey, callId: string, version: number, session: Session | null | undefined): void;

  /**
   * The legacy gets a call: other instances keep their offers from the new path, for 6 h at most or until `release`. Answers the
   * session where the new path has one; then nothing is claimed. `id` tells this claim from a later one of this instance.
   */
  claim(key: CallKey, id: string): Promise<Session | null>;
  /** In the background, and tried again while it can't be reached. */
  release(key: CallKey, id: string): void;

  /** Calls in which this very socket, of this instance, holds (or last held) a seat; O(1) in the number of sessions. */
  bySocket(ref: SocketRef): Promise<readonly Session[]>;
  /** Calls that wait for this user's next socket: `waitsForBoth`, or a held seat of this user's. O(1) in the number of sessions. */
  awaiting(ns: string, user: string): Promise<readonly Session[]>;
  /** Live calls of this user with a seat on this instance, as far as that is known without asking. */
  knownOf(ns: string, user: string): readonly Session[];
  /** Keys of calls with a seat that a life of a process took, for whoever takes over from it; kept until `forget`. */
  seatedAt(instance: InstanceId): AsyncIterable<CallKey>;
  forget(instance: InstanceId): Promise<void>;
  /** Keys of calls whose time has come, as the driver's `dueAt` gave it when they were written; also of some that are over. */
  due(now: number): AsyncIterable<CallKey> | Iterable<CallKey>;

  /**
   * A message for a seat that is held for its user's next socket (`Session.held`): kept with the call, in order, at most 256, the
   * oldest dropped. Where the stored session of that call holds that seat no more it is not kept; answers what is in force.
   */
  keep(
    session: Session,
    role: Role,
    message: Kept,
  ): Promise<{ readonly kept: boolean; readonly session: Session | null }>;
  /**
   * Removes whatever stands under the key, also what we can't understand (`Unreadable`), and forgets it here. Says nothing to anybody.
   */
  discard(key: CallKey): Promise<void>;
  /** This instance was declared dead: forgets every session that it knew, so that `peek` answers nothing that was taken from it. */
  drop(): void;
  /**
   * Writes again what this instance knows, where that is absent or older: its sessions, and its claims under the id that it has now.
   * After what is shared was lost, and after `drop` (then there are only claims). `recent`, where nothing is known to be lost: only what it
   * was told of within the last 50 s, which is when a server that took over may be behind.
   */
  restore(what?: 'all' | 'recent'): Promise<void>;
  /** Every live session, for the operator; the driver pages. */
  all(): AsyncIterable<Session> | Iterable<Session>;
  /** Live sessions by state that are counted here, without a scan: over all instances each is counted once. */
  count(): Promise<Readonly<Record<Session['state'], number>>>;
  close(): Promise<void>;
}
