// What the routes file last said, and whether that is in force: each new text becomes a change like any other, and waits where
// the log can't be written. Knows no file system.
import type { Clock, Timer } from '../base/clock.js';
import type { RouteTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { RouteControl } from './control.js';

export interface ReadFile {
  readonly table: RouteTable;
  /** SHA-256 (hex) of its text. */
  readonly hash: string;
}

export interface FollowedFileOptions {
  /** As it is shown. */
  readonly name: string;
  readonly signals: Pick<Signals, 'routesLoaded' | 'routesRejected'>;
  readonly clock: Clock;
}

const RETRY_MS = 1_000;

export class FollowedFile {
  /** Of the text that was last taken over, or last overruled. Each version says it. */
  hash: string | undefined;
  readonly #options: FollowedFileOptions;
  /** Read, and not in force since the log can't be written. */
  #waiting: ReadFile | undefined;
  #retry: Timer | undefined;
  #closed = false;

  constructor(options: FollowedFileOptions) {
    this.#options = options;
  }

  get name(): string {
    return this.#options.name;
  }

  /** What takes calls back to the legacy also wins over a text that waits. False: none does. */
  overrule(): boolean {
    if (!this.#waiting) return false;
    this.hash = this.#waiting.hash;
    this.#waiting = undefined;
    return true;
  }

  /** The first table of a new log is this file's. */
  loaded({ table }: ReadFile): void {
    this.#options.signals.routesLoaded(this.name, table.summary, true);
  }

  /** The file says this now. */
  async take(control: RouteControl, read: ReadFile): Promise<void> {
    this.#retry?.cancel();
    this.#waiting = read;
    await this.#change(control, read, true);
  }

  close(): void {
    this.#closed = true;
    this.#retry?.cancel();
  }

  async #change(control: RouteControl, read: ReadFile, first: boolean): Promise<void> {
    const { signals } = this.#options;
    const outcome = await control.change(
      { kind: 'file', table: read.table, fileHash: read.hash },
      { actor: 'file', via: 'file', reason: `${this.name} has changed` },
    );
    // A newer text, or the red switch, came in between.
    const overruled = this.#waiting !== read;
    if (outcome.kind === 'unwritable') {
      if (first) signals.routesRejected(this.name, [`${this.name}: not in force yet, since ${outcome.problem}`]);
      if (!overruled) this.#tryLater(control, read);
      return;
    }
    if (!overruled) this.#waiting = undefined;
    if (outcome.kind === 'applied' || outcome.kind === 'unchanged') {
      if (!overruled) this.hash = read.hash;
      signals.routesLoaded(this.name, read.table.summary, outcome.kind === 'applied');
    } else if (outcome.kind === 'refused') {
      signals.routesRejected(
        this.name,
        outcome.problems.map((problem) => `${this.name}: ${problem}`),
      );
    } else {
      const { version, actor } = outcome.current;
      signals.routesRejected(this.name, [
        `${this.name}: version ${version} by ${actor} came in between and is in force; change the file again to have it`,
      ]);
    }
  }

  #tryLater(control: RouteControl, read: ReadFile): void {
    if (this.#closed) return;
    this.#retry = this.#options.clock.after(RETRY_MS, () => {
      if (!this.#closed && this.#waiting === read) void this.#change(control, read, false);
    });
  }
}
