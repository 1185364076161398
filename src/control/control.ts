// The route table in force, and who changes it: the port that the admin listener, the watched file and the guard work with.
// Knows nothing of HTTP, of calls, or of where versions are kept.
import type { Change, Planned, RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';

/** Where versions are kept: a file, or Redis once several instances share one. Append-only. */
export interface RouteLog {
  /**
   * The newest versions, oldest first, as many as are kept in memory; `problems`: what could not be read (half a line after
   * a crash, say), one line each.
   */
  read(): Promise<{
    readonly versions: readonly RouteVersion[];
    /** The highest number in it; over the newest version's only where that one could not be understood. */
    readonly last: number;
    readonly problems: readonly string[];
  }>;
  /** Versions below `before`, newest first, at most `limit`. */
  older(limit: number, before: number): Promise<readonly RouteVersion[]>;
  /**
   * Resolves once the version is durable. `after`: the highest number that the control knows of in it. `conflict`: somebody else
   * has appended since; theirs are answered, and may be among those that `follow` told of meanwhile.
   * @throws where it can't be written (full, read-only, away); `sent` of what is thrown: it may have been written all the same.
   */
  append(version: RouteVersion, after: number): Promise<{ readonly conflict?: readonly RouteVersion[] }>;
  /** Where several instances share it; a log that is this process's alone has no such method. Set once, right after `read`. */
  follow?(follower: LogFollower): void;
  /** Tells the follower what others have appended by now, where the log can be read. Never rejects. */
  refresh?(): Promise<unknown>;
  /**
   * A version is in force here: answers on how many instances it is in force, of how many, as soon as that is all of them, or
   * after a second. A log that is this process's alone has no such method: 1 of 1.
   */
  confirm?(version: number): Promise<{ readonly instances: number; readonly of: number }>;
  /** This instance, in a log that several write to. */
  readonly by?: string;
  /** What an operator can do where it can't be written; a file has words of its own. */
  readonly mend?: string;
  /** What is shown of it: the file's path, or Redis's address without its password; null: in memory only. */
  readonly where: string | null;
  close(): Promise<void>;
}

/** Whoever is told of a log that several instances share. */
export interface LogFollower {
  /**
   * Versions that were appended since, oldest first, as soon as they are there; also ones that it knows already. `last` and
   * `problems` as in `read`.
   * @returns the number of the log's version that is in force here; 0: another one is, which is not in the log yet.
   */
  appended(log: {
    readonly versions: readonly RouteVersion[];
    readonly last: number;
    readonly problems: readonly string[];
  }): number;
  /**
   * The log holds others now, or less, than what was there: Redis lost what it held, or an older copy took its place. `log`: what
   * it holds now.
   * @returns what it must hold behind that, oldest first, with growing numbers; none: what it holds is in force now.
   */
  replaced(log: { readonly versions: readonly RouteVersion[]; readonly last: number }): readonly RouteVersion[];
}

export interface Author {
  readonly actor: string;
  readonly via: RouteVersion['via'];
  readonly reason: string;
  /** Compare-and-set: the version that the change was made from. Not looked at for `rollback`, `legacy` and `guard`. */
  readonly ifVersion?: number | undefined;
}

export type Outcome =
  | {
      readonly kind: 'applied';
      readonly version: RouteVersion;
      /** On how many instances it is in force, of how many. */
      readonly confirmed: { readonly instances: number; readonly of: number };
      /** Null: it is in the log. Otherwise in force in memory, and why it is not written yet (`rollback`, `legacy`, `guard` only). */
      readonly unwritten: string | null;
    }
  /** The table is already like that; no version was made. */
  | { readonly kind: 'unchanged'; readonly version: RouteVersion }
  /** Made from an older version; `current` is in force. */
  | { readonly kind: 'conflict'; readonly current: RouteVersion }
  | { readonly kind: 'refused'; readonly problems: readonly string[] }
  /**
   * The log can't be written, so nothing was changed. `begun`: the log was given it and has not answered, so it is made if that
   * ever does; whether is not known, and the history shows it.
   */
  | { readonly kind: 'unwritable'; readonly problem: string; readonly begun?: true };

export interface RouteControl {
  /** In force now; read for each decision. */
  readonly table: RouteTable;
  /** The version in force. */
  readonly current: RouteVersion;
  /** Null where all is well; otherwise what is wrong with the log, one line. */
  readonly problem: string | null;
  /** Why what the routes file says is not in force, one line each with the mend; until the file is mended. */
  readonly fileProblems: readonly string[];
  readonly where: string | null;
  /** What the change would make of the table in force. Asynchronous since an old version may have to be read from the log. */
  plan(change: Change): Promise<Planned>;
  change(change: Change, author: Author): Promise<Outcome>;
  /** Newest first; `before`: only versions below it. At most `limit`. */
  history(limit: number, before?: number): Promise<readonly RouteVersion[]>;
  /** Told of each version right after it is in force. Returns how to stop. */
  onChange(listener: (version: RouteVersion) => void): () => void;
  close(): Promise<void>;
}

/** The routes file, where there is one. */
export interface Followed {
  /** Of the text that was last taken over, or last overruled; each version says it. */
  readonly hash: string | undefined;
  readonly problems: readonly string[];
  overrule(): boolean;
  /** A version is in force, of a log that several instances share: what its file said counts for all of them. */
  adopted(version: RouteVersion): void;
  /** The log that was to begin with this file's table was begun by others. */
  yielded(control: RouteControl, seen: (hash: string) => boolean): void;
}
