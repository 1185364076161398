// The admin API's JSON, as types: what `http` answers, the command line reads and the dashboard shows. openapi.yaml says the
// same for everybody else, and a test holds both to it. Times are ISO 8601 UTC; rates are per second; shares 0 to 1.
import type { GuardState } from '../control/guarded.js';
import type { Difference, RouteVersion } from '../routing/change.js';
import type { GroupRoute, GuardLimits, NamespaceRoutes } from '../routing/route.js';
import type { LiveCall, LiveCounts, TimelineEntry } from '../signaling/live.js';
import type { LiveFigures } from '../telemetry/live.js';

/** `GET /api/status` */
export interface StatusBody {
  readonly version: string;
  readonly startedAt: string;
  /** Who asks: the token's name and kind; where no token is asked for, the name that was given or `local`, and `operate`. */
  readonly you: { readonly actor: string; readonly kind: 'read' | 'operate' };
  readonly ready: boolean;
  /** Why not; where it is ready, what does not work all the same. */
  readonly reasons: readonly string[];
  readonly routes: {
    readonly version: number;
    readonly summary: string;
    /** Where versions are kept; null: in memory only. */
    readonly log: string | null;
    readonly problem: string | null;
    /** Why what the routes file says is not in force, one line each with the mend; none where all is well. */
    readonly fileProblems: readonly string[];
  };
  readonly legacy: readonly { readonly url: string; readonly reachable: boolean }[];
  /** What instances share; null where this one is alone. */
  readonly redis: { readonly address: string; readonly reachable: boolean } | null;
  readonly instances: readonly InstanceBody[];
  readonly guard: readonly GuardBody[];
}

/** Of the others as they told with the last renewal of their lease, at most a second or so ago. */
export interface InstanceBody {
  readonly id: string;
  readonly version: string;
  readonly startedAt: string;
  /** The one that answers. */
  readonly self: boolean;
  readonly connections: number;
  /** Somebody with devices on two instances is a user of both. */
  readonly users: number;
  /** Each of the new path is counted by one instance; one of the legacy by each on which a user of it is. */
  readonly calls: LiveCounts;
  /** Event-loop delay, 99th percentile of the last 10 s; milliseconds. */
  readonly lagMs: number;
  /** Since the last renewal of its lease; null where instances share nothing. */
  readonly leaseAgeMs: number | null;
  readonly draining: boolean;
  /** Of the route table in force there. */
  readonly routesVersion: number;
  /** Whether it does what exactly one instance does at a time (ending calls that nobody came back to). */
  readonly leads: boolean;
}

/** `POST /api/instances/ID/drain`; `ID` may be `self`, or the beginning of one instance's id only. */
export interface DrainRequest {
  readonly reason: string;
  /** Takes it back: the instance is ready again, and closes no more connections. */
  readonly cancel?: boolean | undefined;
  /** Also where no other instance would be left that is not draining, which is refused otherwise. */
  readonly force?: boolean | undefined;
}
/** Its answer, 200, once the instance has begun (or was told to: another one follows within a second). */
export interface DrainBody {
  readonly id: string;
  readonly draining: boolean;
  /** Open when it began. */
  readonly connections: number;
  /** There was nothing to take back: it did not drain, by what it told last (a second ago at most). It was told all the same. */
  readonly unchanged?: true;
}

/** One group of one namespace. */
export type GuardBody = GuardState;

/** `GET /api/routes` */
export interface RoutesBody {
  readonly version: number;
  readonly at: string;
  readonly actor: string;
  readonly reason: string;
  readonly namespaces: Readonly<Record<string, NamespaceRoutes>>;
  /** The same as a routes file. */
  readonly yaml: string;
  /** Why what the watched routes file says is not in force. */
  readonly fileProblems: readonly string[];
}

/** Fields of every change. `reason` may be left out for `rollback`, `legacy` and dry runs only; at most 500 characters, one line. */
export interface ChangeRequest {
  readonly reason?: string;
  /** Compare-and-set; skipped by `rollback` and `legacy`. */
  readonly ifVersion?: number;
  readonly dryRun?: boolean;
}
/** `POST /api/routes/set` */
export interface SetRequest extends ChangeRequest {
  /** Default `/`. */
  readonly namespace?: string;
  /** A group, `calls`, or an event (which is refused with the command that works, unless its group is that event alone). */
  readonly target: string;
  readonly mode: string;
  /** 0 to 100, two decimals; with mode `canary` only, as are the lists. What is left out stays as it is in force. */
  readonly percent?: number;
  readonly users?: readonly string[];
  readonly conversations?: readonly string[];
  readonly excludeUsers?: readonly string[];
  readonly excludeConversations?: readonly string[];
  readonly salt?: string;
  readonly sole?: boolean;
  readonly fallback?: 'legacy' | 'refuse';
  readonly guard?: 'off' | Partial<GuardLimits>;
}
/** `POST /api/routes/diff` (needs `read` only) and `POST /api/routes/apply`: a whole routes file. */
export interface ApplyRequest extends ChangeRequest {
  readonly yaml: string;
  /** Only used in lines about faults: `routes.yaml:3: …`. */
  readonly file?: string;
}
/** `POST /api/routes/rollback` */
export interface RollbackRequest extends ChangeRequest {
  readonly version?: number;
  /** Ends the new path's calls in the namespaces whose lifecycle it takes back, wholly or in part. */
  readonly endCalls?: boolean;
}
/** `POST /api/routes/legacy` */
export interface LegacyRequest extends ChangeRequest {
  /** Ends every call of the new path. */
  readonly endCalls?: boolean;
}

/** What a change would do, in live terms; the answer to `dryRun: true`, 200. */
export interface PlanBody {
  readonly from: number;
  readonly differences: readonly Difference[];
  /** Those that the table names from then on, and no more; where all of one is on the legacy that is no difference. */
  readonly namespaces: { readonly named: readonly string[]; readonly dropped: readonly string[] };
  /** Events that move, by name; none where only a guard, a fallback or `sole` is set otherwise. */
  readonly events: readonly string[];
  /** Connected users (verified, in the namespaces where something moves): calls that they begin are concerned. */
  readonly connectedUsers: number;
  /** Of these: named by a canary's `users`. */
  readonly listedUsers: number;
  /** Live calls in the namespaces where something moves, which stay on their path until they end. */
  readonly liveCalls: { readonly new: number; readonly legacy: number };
  /** Of the new path's, with `endCalls`: these end. */
  readonly endedCalls: number;
  /** Connections that can't be served here, where something moves here or becomes `sole`; what the latter send is refused then. */
  readonly unservable: { readonly foreign: number; readonly unverified: number };
  /** Sentences to show: `moves 312 connected users to new: …`, `14 live calls stay on legacy until they end`. */
  readonly lines: readonly string[];
}

/** The answer to a change that was made, 200. */
export interface ChangedBody {
  readonly version: VersionBody;
  /** False: the table was already like that. */
  readonly changed: boolean;
  readonly plan: PlanBody;
  readonly confirmed: { readonly instances: number; readonly of: number };
  /** Null: it is in the log. Otherwise why it is only in force in memory. */
  readonly unwritten: string | null;
  readonly endedCalls: number;
}

export interface VersionBody extends RouteVersion {
  readonly differences: readonly Difference[];
}
/** `GET /api/routes/history?limit=50&before=N`: newest first. */
export interface HistoryBody {
  readonly versions: readonly VersionBody[];
  readonly more: boolean;
}

/** `GET /api/calls?path=&state=&search=&namespace=&limit=50` (at most 500): newest first. */
export interface CallsBody {
  readonly total: number;
  readonly counts: LiveCounts;
  /** How many live. Calls of the new path are those of all of them, calls of the legacy those that the one that answers has seen. */
  readonly instances: number;
  readonly calls: readonly LiveCall[];
}
/** `GET /api/calls/ID` */
export interface CallBody {
  readonly id: string;
  readonly namespace: string;
  readonly conversationId: string;
  /** Null: it has ended. What follows is as far as it was seen, also of a call that has ended. */
  readonly call: LiveCall | null;
  readonly path: LiveCall['path'] | null;
  readonly because: string | null;
  readonly offerer: string | null;
  readonly answerer: string | null;
  /** What happened on the instance that was asked. */
  readonly timeline: readonly TimelineEntry[];
  /** Ids of the other instances, which may have more of it: each keeps what it did itself. */
  readonly elsewhere: readonly string[];
}
/** `POST /api/calls/ID/end` with `{ reason }` answers this. */
export interface EndedBody {
  readonly id: string;
  readonly ended: true;
}

/** A route without its lists, which would make each second's figures as large as the table; `GET /api/routes` has them. */
export type LiveRoute = Pick<GroupRoute, 'mode' | 'sole'> & {
  /** Null where the mode is not `canary`. */
  readonly percent: number | null;
};

export interface EventFigures extends LiveFigures {
  /** By namespace of the table. */
  readonly route: Readonly<Record<string, LiveRoute>>;
}

/** `GET /api/live`, and once a second as `data:` of `event: live` on `GET /api/live/stream` (Server-Sent Events). */
export interface LiveBody {
  readonly at: string;
  readonly routes: {
    readonly version: number;
    readonly problem: string | null;
    readonly fileProblems: readonly string[];
  };
  /** Of the instance that answers. */
  readonly events: readonly EventFigures[];
  /** These three over all instances, as `InstanceBody` counts them. */
  readonly calls: LiveCounts;
  readonly connections: number;
  readonly users: number;
  readonly guard: readonly GuardBody[];
  readonly instances: readonly InstanceBody[];
}

/**
 * Every refusal: 400 `invalid`, 401 `unauthorized`, 403 `forbidden` (needs `operate`, or comes from a page of another site), 404
 * `not-found`, 405 `method`, 409 `conflict` (with `current`) and `legacy-call`, 413 `too-large`, 415 `media-type`, 422 `refused`, 429
 * `rate-limited`, 500 `internal`, 503 `unavailable` (what instances share can't be reached), `unwritable` (nothing was changed) and
 * `not-known` (the log has been given the change and does not answer: it is made if the log ever does, and the history shows it).
 */
export interface ErrorBody {
  readonly error: string;
  /** One line each: what is wrong and what works. At least one. */
  readonly problems: readonly string[];
  /** With `conflict`: the version in force. */
  readonly current?: number;
}
