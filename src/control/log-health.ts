// How the log of route versions fares: what is wrong with it, what an operator can do about that, and what a change is answered that
// it does not take. Knows no versions but by their number.
import type { Signals } from '../telemetry/signals.js';
import type { Outcome, RouteLog } from './control.js';
import { reasonOf } from './past.js';

export type Unwritable = Extract<Outcome, { kind: 'unwritable' }>;

export class LogHealth {
  /** Null where all is well; otherwise one line with the mend. */
  problem: string | null = null;
  #cause: string | null = null;
  readonly #log: Pick<RouteLog, 'where' | 'mend'>;
  readonly #signals: Pick<Signals, 'routesLog'>;

  constructor(log: Pick<RouteLog, 'where' | 'mend'>, signals: Pick<Signals, 'routesLog'>) {
    this.#log = log;
    this.#signals = signals;
  }

  /** Why what is in force already is not written. Without the mend: it waits for no operator. */
  get unwritten(): string {
    return (this.problem && this.#cause) ?? `the log ${this.#log.where} has not answered yet`;
  }

  /** Answers whether it may have been written all the same. */
  refuses(error: unknown): 'unknown' | 'failed' {
    this.#fails(
      `can't be written (${reasonOf(error)})`,
      'make room or make it writable, or name another with --routes-log',
    );
    return error instanceof Error && 'sent' in error && error.sent === true ? 'unknown' : 'failed';
  }

  /** The log neither takes it nor refuses. What it was given by then is made once it is written, which nobody can tell now. */
  silent(ms: number, begun: boolean): Unwritable {
    this.#fails(`has not answered within ${ms / 1000} s`, 'see to its disk, or name another with --routes-log');
    return begun ? { ...this.unwritable(), begun } : this.unwritable();
  }

  /** What is in force elsewhere can't be understood here, so nothing can be made from it. */
  foreign(version: number): Unwritable {
    const problem = `the log ${this.#log.where} holds version ${version}, which this sigfig can't understand; change routes on an instance that does, or upgrade this one`;
    return { kind: 'unwritable', problem };
  }

  unwritable(): Unwritable {
    return { kind: 'unwritable', problem: this.problem ?? `the log ${this.#log.where} can't be written` };
  }

  /** `mend`: what can be done about it where the log has no words of its own. */
  #fails(what: string, mend: string): void {
    this.#cause = `the log ${this.#log.where} ${what}`;
    this.problem = `${this.#cause}; ${this.#log.mend ?? mend}`;
    this.#signals.routesLog(this.problem);
  }
}
