// How a command of the operator's ends: exit codes that scripts can use, and a failure as a value with its lines.
// Knows nothing of HTTP or of what failed.

/** Documented in docs/cli.md and by `--help`; don't change their meaning. */
export const exitCodes = {
  /** Done, or nothing to do, or a dry run was shown. `routes diff`: the file says what is in force. */
  done: 0,
  /** The server refused: invalid, not found, not writable, too many requests. `routes diff`: there are differences. */
  refused: 1,
  /** The command line is wrong; nothing was asked. `routes diff`: a file that can't be compared. */
  usage: 2,
  /** Not reachable, no answer in time, or what answers isn't sigfig's admin API; of a change: not known whether it is made. */
  unreachable: 3,
  /** No token, a wrong one, or one that may only read. */
  unauthorized: 4,
  /** Somebody else changed the routes meanwhile. */
  conflict: 5,
} as const;
export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

export class Failure extends Error {
  /**
   * @param error one word, as in the admin API's `error`; of our own are `usage` and `unreachable`, and `not-known` is of both.
   * @param problems one line each: what is wrong and what works. At least one.
   */
  constructor(
    readonly code: ExitCode,
    readonly error: string,
    readonly problems: readonly string[],
    /** The version in force, with a conflict. */
    readonly current?: number,
  ) {
    super(problems.join('; '));
  }
}

export const usage = (line: string): Failure => new Failure(exitCodes.usage, 'usage', [line]);

/** As a shell takes it: quoted where it must be. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
