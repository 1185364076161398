// The port to where call sessions live. Drivers stand beside it (memory now, Redis later) and answer the same contract
// suite, `store.contract.ts`. Knows nothing of what a session means: every change is a compare-and-set on its version.
import type { SocketRef } from '../base/ids.js';
import type { CallKey, Session } from '../call/session.js';

export interface SessionStore {
  /**
   * What is known without asking anybody: the session, null where there is none, undefined where it must be fetched with
   * `get` first. The memory driver always knows.
   */
  peek(key: CallKey): Session | null | undefined;
  get(key: CallKey): Promise<Session | null>;
  /** Stores a new session unless the key has one; answers the one that is in force afterwards. */
  create(session: Session): Promise<{ readonly created: boolean; readonly session: Session }>;
  /** Replaces `before` by `after` where the stored version is still `before.version`; answers what is in force. */
  replace(before: Session, after: Session): Promise<{ readonly replaced: boolean; readonly session: Session | null }>;
  /** Deletes where the stored version is still `before.version`. */
  delete(before: Session): Promise<{ readonly deleted: boolean; readonly session: Session | null }>;
  /** Calls in which this very socket holds (or last held) a seat; O(1) in the number of sessions. */
  bySocket(ref: SocketRef): Promise<readonly Session[]>;
  /** Calls of this user in any role; O(1) in the number of sessions. */
  byUser(ns: string, user: string): Promise<readonly Session[]>;
  /** Every live session, for the reaper and the operator; the driver may page. */
  all(): AsyncIterable<Session> | Iterable<Session>;
  /** Number of live sessions by state, without a scan. */
  count(): Promise<Readonly<Record<Session['state'], number>>>;
  close(): Promise<void>;
}
