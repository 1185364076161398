// What the routes file last said, and whether that is in force: each new text becomes a change like any other, and waits where
// the log can't be written. Knows no file system.
import type { Clock, Timer } from '../base/clock.js';
import type { RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { Followed, RouteControl } from './control.js';

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
  /** The log is one that several instances write to, each with a file that is meant to be the same one. */
  readonly shared: boolean;
  /** This instance, where others write to the log as well: the history says whose file it was. */
  readonly by?: string | undefined;
}

const RETRY_MS = 1_000;

export class FollowedFile implements Followed {
  /** Of the text that was last taken over, or last overruled. Each version says it. */
  hash: string | undefined;
  /** Why what it says is not in force; none once it says something that is, or that was overruled. */
  problems: readonly string[] = [];
  readonly #options: FollowedFileOptions;
  /** What it said when it was last read. */
  #read: ReadFile | undefined;
  /** Of the text that another instance took over, where that was told of already. */
  #differs: string | undefined;
  /** Read, and not in force since the log can't be written. */
  #waiting: ReadFile | undefined;
  #retry: Timer | undefined;
  #closed = false;
  /** For the history, of the text that waits or was taken over last. */
  #why = '';

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
    this.problems = [];
    return true;
  }

  /** A new log is to begin with it. */
  begins(read: ReadFile): void {
    this.#read = read;
    this.hash = read.hash;
  }

  /** The first table of a new log is this file's. */
  loaded({ table }: ReadFile): void {
    this.#options.signals.routesLoaded(this.name, table.summary, true);
  }

  /**
   * At a start with a log that holds versions: a text that is not the one last taken over is a change. Where instances share the
   * log, one that was taken over before is an old copy, and no instance may bring that back by starting. `seen`: it was.
   */
  async resumed(control: RouteControl, read: ReadFile, seen: (hash: string) => boolean): Promise<void> {
    this.#read = read;
    if (read.hash === this.hash) return;
    if (this.#options.shared && seen(read.hash)) this.#tellOther(control.current);
    else await this.take(control, read, true);
  }

  yielded(control: RouteControl, seen: (hash: string) => boolean): void {
    if (this.#read) void this.resumed(control, this.#read, seen);
  }

  adopted(version: RouteVersion): void {
    if (version.fileHash === undefined || this.#waiting) return;
    this.hash = version.fileHash;
    if (!this.#read) return;
    if (this.#read.hash !== version.fileHash) this.#tellOther(version);
    else if (this.#differs) {
      this.#differs = undefined;
      this.problems = [];
    }
  }

  /** It is broken or gone, and a text that waited is no longer what it says. */
  broken(lines: readonly string[]): void {
    this.#retry?.cancel();
    this.#waiting = undefined;
    this.#differs = undefined;
    this.#reject(lines);
  }

  /** The file says this now. `atStart`: and nothing is known of what it said before. */
  async take(control: RouteControl, read: ReadFile, atStart = false): Promise<void> {
    this.#retry?.cancel();
    this.#read = read;
    this.#differs = undefined;
    this.problems = [];
    if (this.#options.shared && read.hash === this.hash) {
      // Another instance, whose copy of the file changed first, has taken it over; what was set since stays.
      this.#waiting = undefined;
      this.#options.signals.routesLoaded(this.name, read.table.summary, false);
      return;
    }
    this.#waiting = read;
    this.#why = this.#reason(atStart);
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
      { actor: 'file', via: 'file', reason: this.#why },
    );
    // A newer text, or the red switch, came in between.
    const overruled = this.#waiting !== read;
    if (outcome.kind === 'unwritable') {
      const line = `${this.name}: not in force yet, since ${outcome.problem}`;
      if (first) signals.routesRejected(this.name, [line]);
      if (overruled) return;
      this.problems = [line];
      this.#tryLater(control, read);
      return;
    }
    if (!overruled) {
      this.#waiting = undefined;
      this.problems = [];
    }
    if (outcome.kind === 'applied' || outcome.kind === 'unchanged') {
      if (!overruled) this.hash = read.hash;
      signals.routesLoaded(this.name, read.table.summary, outcome.kind === 'applied');
    } else if (outcome.kind === 'refused') {
      const lines = outcome.problems.map((problem) => `${this.name}: ${problem}`);
      signals.routesRejected(this.name, lines);
      if (!overruled) this.problems = lines;
    } else {
      const { version, actor } = outcome.current;
      signals.routesRejected(this.name, [
        `${this.name}: version ${version} by ${actor} came in between and is in force; change the file again to have it`,
      ]);
    }
  }

  #reason(atStart: boolean): string {
    const { by } = this.#options;
    if (by === undefined) return `${this.name} has changed`;
    return atStart ? `${by} was started with another ${this.name}` : `${this.name} has changed, seen by ${by}`;
  }

  #tellOther(version: RouteVersion): void {
    if (this.#differs === version.fileHash) return;
    this.#differs = version.fileHash;
    const why = version.kind === 'file' ? `: ${version.reason}` : '';
    this.#reject([
      `${this.name}: another instance has taken over another text of its routes file, and what that says is in force (version ${version.version}${why}); give all instances the same file`,
    ]);
  }

  #reject(lines: readonly string[]): void {
    this.problems = lines;
    this.#options.signals.routesRejected(this.name, lines);
  }

  #tryLater(control: RouteControl, read: ReadFile): void {
    if (this.#closed) return;
    this.#retry = this.#options.clock.after(RETRY_MS, () => {
      if (!this.#closed && this.#waiting === read) void this.#change(control, read, false);
    });
  }
}
