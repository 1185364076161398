// What keeps the process from starting and an operator can mend: a wrong file, a taken port. Knows nothing of which.

/** Thrown by what is composed at the start; `main.ts` prints each problem as one line and exits with 2. */
export class CannotStart extends Error {
  /** One clear line each: what is wrong, and what to do. */
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'CannotStart';
    this.problems = problems;
  }
}
