// Live calls as operators see them, on either path: the port between signaling and the admin listener. Knows no HTTP, and
// has no place for descriptions or candidates.
import type { State } from '../call/session.js';

export interface LiveCall {
  /** Names this one call; of the new path it is the session's `callId`. */
  readonly id: string;
  readonly ns: string;
  readonly conversationId: string;
  readonly path: 'new' | 'legacy';
  /** Why it is on that path, one word: `route`, `canary`, `callee-not-here`, … */
  readonly because: string;
  /** Of a call of the legacy's: as far as was seen to pass. */
  readonly state: State | 'UNKNOWN';
  /** Null where it is not known. */
  readonly offerer: string | null;
  readonly answerer: string | null;
  /** Groups of relays that are served here although the legacy owns the call. */
  readonly peeled: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly since: number;
}

export interface TimelineEntry {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly because: string;
  /** The event that caused it: `call-answer`, `drop`, `sweep`, … */
  readonly event: string;
}

export interface LiveCounts {
  readonly new: number;
  readonly legacy: number;
  /** Of `legacy`: with at least one relay served here. */
  readonly peeled: number;
  /** Calls of the new path. */
  readonly byState: Readonly<Record<State, number>>;
}

export interface CallFilter {
  readonly path?: 'new' | 'legacy' | undefined;
  readonly state?: LiveCall['state'] | undefined;
  /** Part of a call's id, conversation or user. */
  readonly search?: string | undefined;
  readonly ns?: string | undefined;
  readonly limit: number;
}

export interface LiveCalls {
  counts(): Promise<LiveCounts>;
  /** How many there are, for each namespace that has any. */
  byNamespace(): Promise<ReadonlyMap<string, { readonly new: number; readonly legacy: number }>>;
  /** Newest first, at most `limit`; `total`: how many match. Looks at a bounded number of calls at a time between turns. */
  list(filter: CallFilter): Promise<{ readonly total: number; readonly calls: readonly LiveCall[] }>;
  /** Also of calls that ended lately; `call` is null then. Null: never heard of. */
  show(id: string): Promise<{
    readonly call: LiveCall | null;
    readonly timeline: readonly TimelineEntry[];
    /** As far as it was seen; also where the call has ended. */
    readonly path: LiveCall['path'] | null;
    readonly because: string | null;
    readonly offerer: string | null;
    readonly answerer: string | null;
    readonly ns: string;
    readonly conversationId: string;
  } | null>;
  /** Ids of live calls, and of those that ended lately, that begin so. */
  ids(prefix: string): Promise<readonly string[]>;
  /** Ends a call of the new path (`call-ended`, reason `operator`). `legacy`: its owner is the legacy, which we can't tell. */
  end(id: string): Promise<'ended' | 'unknown' | 'legacy'>;
  /** Ends every call of the new path, or those of the namespaces that `which` names; answers how many. */
  endAll(which?: (ns: string) => boolean): Promise<number>;
}
