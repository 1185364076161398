// What several instances share can't be reached now. Knows nothing of what that is.

/** A change that was made although its reply was lost. */
export interface Late {
  /** What that change answers beside, as its method says. */
  readonly kept?: unknown;
}

/**
 * Thrown where shared state can't be reached, or this instance may not act on it (its lease is over). Nothing is known to have
 * changed, and the same request can succeed later.
 */
export class Unavailable extends Error {
  /**
   * Set where a change was on its way: resolves once it is known whether it was made after all (true, or what it answers),
   * or that it was not and never will be (false).
   */
  readonly late: Promise<boolean | Late> | undefined;

  constructor(why: string, late?: Promise<boolean | Late>) {
    super(why);
    this.name = 'Unavailable';
    this.late = late;
  }
}

/** What is stored can't be understood: another type, cut short, written by a newer version. `key` is where it stands. */
export class Unreadable extends Error {
  readonly key: string;

  constructor(key: string, why: string) {
    super(why);
    this.name = 'Unreadable';
    this.key = key;
  }
}
