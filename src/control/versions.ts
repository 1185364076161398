// The versions of the route table: changes one at a time, each in the log before it is in force; but what takes calls back to
// the legacy is in force first, and in the log as soon as that can be written. Knows nothing of files and their formats.
import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../base/clock.js';
import { type Change, type Planned, plan, type RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { Author, Followed, LogFollower, Outcome, RouteControl, RouteLog } from './control.js';
import { History, known, same } from './history.js';
import { InForce, type Listener } from './in-force.js';
import { LogHealth } from './log-health.js';
import { reconciled } from './lost.js';
import { Past } from './past.js';
import { type Pending, PendingVersions, pendingOf, rebased } from './pending.js';
import { Turns, within } from './turns.js';

export interface VersionsOptions {
  readonly log: RouteLog;
  /** What the log holds, as far as it is kept in memory, and its highest number. */
  readonly versions: readonly RouteVersion[];
  readonly last: number;
  readonly signals: Pick<Signals, 'routesChanged' | 'routesLog' | 'bound' | 'internalError'>;
  readonly clock: Clock;
  /** The routes file, where there is one. */
  readonly followed?: Followed | undefined;
}

/** A log that takes longer is told as one that can't be written; what it was given may still come to be. */
const LOG_MS = 5_000;
/** The red switch is in force already; its author only waits to hear whether it is written. */
const URGENT_LOG_MS = 2_000;
const RETRY_MS = 1_000;
/** Operators and the guard together make a few changes a minute. */
const MOST_WAITING = 64;
/** Others append at most as fast as disks sync; who loses this often in a row is told so. */
const MOST_RACES = 8;

export class Versions implements RouteControl {
  readonly #log: RouteLog;
  readonly #followed: VersionsOptions['followed'];
  readonly #signals: VersionsOptions['signals'];
  readonly #clock: Clock;
  readonly #history = new History();
  readonly #past: Past;
  readonly #health: LogHealth;
  readonly #now: InForce;
  readonly #closing: (() => unknown)[] = [];
  readonly #pending: PendingVersions;
  /** Grows with each change that was in force before it was written: whatever asked before it has lost. */
  #epoch = 0;
  readonly #turns = new Turns();
  /** Of an ordinary change that is being written, so that it may be taken; 0 where there is none. */
  #writing = 0;
  #retry: Timer | undefined;
  #closed = false;
  #ending: Promise<void> | undefined;

  constructor({ log, versions, last, signals, clock, followed }: VersionsOptions) {
    this.#log = log;
    this.#followed = followed;
    this.#signals = signals;
    this.#clock = clock;
    this.#history.last = last;
    this.#now = new InForce(signals);
    this.#health = new LogHealth(log, signals);
    for (const version of versions) this.#history.push(version);
    this.#pending = new PendingVersions(signals);
    this.#past = new Past({ log, history: this.#history, signals, pending: () => this.#pending.versions });
  }

  get table(): RouteTable {
    return this.#now.table;
  }

  get current(): RouteVersion {
    return this.#now.version;
  }

  get problem(): string | null {
    return this.#health.problem;
  }

  get where(): string | null {
    return this.#log.where;
  }

  get fileProblems(): readonly string[] {
    return this.#followed?.problems ?? [];
  }

  closing(close: () => unknown): void {
    this.#closing.push(close);
  }

  /** Puts the log's last version in force. */
  resume(): void {
    const newest = this.#history.newest;
    if (newest) this.#inForce(newest, known(newest));
  }

  /** From here on, what others append to a log that instances share is in force here as well. */
  follow(): void {
    this.#log.follow?.(this.#follower);
  }

  /** Whether a version that is kept in memory came from this text of a routes file. */
  seen(hash: string): boolean {
    return this.#history.all().some(({ fileHash }) => fileHash === hash);
  }

  /** The first version of a log that holds none. It rules even where it can't be written yet. False: others have begun it. */
  async begin(table: RouteTable, reason: string): Promise<boolean> {
    const change: Change = { kind: 'start', table };
    const version = this.#next(change, { actor: 'sigfig', via: 'start', reason }, table);
    return !(await this.#ahead(change, version, table)).yielded;
  }

  async plan(change: Change): Promise<Planned> {
    return this.#planned(change, await this.#past.target(change));
  }

  async change(change: Change, author: Author): Promise<Outcome> {
    if (this.#closed) return { kind: 'unwritable', problem: 'sigfig is shutting down' };
    if (change.kind === 'rollback' || change.kind === 'legacy' || change.kind === 'guard') {
      return this.#urgent(change, author);
    }
    if (this.#turns.waiting >= MOST_WAITING) {
      return {
        kind: 'unwritable',
        problem: `${this.#turns.waiting} changes wait for the log already; try again later`,
      };
    }
    const epoch = this.#epoch;
    const work = () => this.#ordinary(change, author, epoch);
    const late = (begun: boolean) => this.#health.silent(LOG_MS, begun);
    const outcome = await this.#turns.runWithin(this.#clock, LOG_MS, work, late);
    return outcome.kind === 'applied' ? { ...outcome, confirmed: await this.#confirmed(outcome.version) } : outcome;
  }

  history(limit: number, before = Number.POSITIVE_INFINITY): Promise<readonly RouteVersion[]> {
    return this.#past.page(limit, before);
  }

  onChange(listener: Listener): () => void {
    return this.#now.onChange(listener);
  }

  close(): Promise<void> {
    this.#ending ??= this.#close();
    return this.#ending;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    this.#retry?.cancel();
    for (const close of this.#closing) await close();
    await within(this.#clock, URGENT_LOG_MS, this.#turns.idle, () => undefined);
    await this.#log.close();
  }

  // ---- one at a time, in the log before it is in force

  async #ordinary(change: Change, author: Author, epoch: number): Promise<Outcome> {
    for (let races = 0; races < MOST_RACES; races++) {
      if (epoch !== this.#epoch) return { kind: 'conflict', current: this.current };
      if (this.#pending.size > 0 && !(await this.#flush())) return this.#health.unwritable();
      if (author.ifVersion !== undefined && author.ifVersion !== this.current.version) {
        return { kind: 'conflict', current: this.current };
      }
      if (this.#shared && this.#history.last > (this.#history.newest?.version ?? 0))
        return this.#health.foreign(this.#history.last);
      const planned = this.#planned(change, undefined);
      if (!planned.ok) return { kind: 'refused', problems: planned.problems };
      if (same(planned.table, this.table)) {
        if (await this.#newest()) return { kind: 'unchanged', version: this.current };
        continue;
      }
      const version = this.#next(change, author, planned.table);
      const appended = await this.#append(version, true);
      if (appended === 'failed') return this.#health.unwritable();
      if (appended === 'unknown') return { kind: 'unwritable', problem: this.problem ?? '', begun: true };
      if (appended === 'conflict') {
        if (author.ifVersion !== undefined) return { kind: 'conflict', current: this.current };
        continue;
      }
      // Written, and overruled while it was being written: what overruled it is written behind it.
      if (epoch !== this.#epoch) return { kind: 'conflict', current: this.current };
      // Unless it was found in the log before the log had answered.
      if (this.current.version < version.version) this.#inForce(version, planned.table);
      return { kind: 'applied', version, confirmed: HERE, unwritten: null };
    }
    return { kind: 'conflict', current: this.current };
  }

  // ---- in force at once, in the log as soon as it can be

  async #urgent(change: Change, author: Author): Promise<Outcome> {
    const planned = this.#planned(change, change.kind === 'rollback' ? await this.#past.target(change) : undefined);
    if (!planned.ok) return { kind: 'refused', problems: planned.problems };
    const overruled = this.#followed?.overrule() ?? false;
    const idle = this.#turns.waiting === 0 && this.#pending.size === 0 && !overruled;
    if (idle && same(planned.table, this.table)) {
      if (await this.#newest()) return { kind: 'unchanged', version: this.current };
      return this.#urgent(change, author);
    }
    const version = this.#next(change, author, planned.table);
    const pending = await this.#ahead(change, version, planned.table);
    if (pending.dropped) return { kind: 'unchanged', version: this.current };
    return {
      kind: 'applied',
      version: pending.version,
      confirmed: await this.#confirmed(pending.version),
      unwritten: pending.written ? null : this.#health.unwritten,
    };
  }

  /** Whether what is in force is the newest of the log. False: others have appended, and theirs is in force by now. */
  async #newest(): Promise<boolean> {
    if (!this.#log.refresh) return true;
    const { version } = this.current;
    await within(this.#clock, URGENT_LOG_MS, this.#log.refresh(), () => undefined);
    return this.current.version === version;
  }

  /** Puts a version in force, and then in the log; answers when it is there, or when that takes too long. */
  async #ahead(change: Change, version: RouteVersion, table: RouteTable): Promise<Pending> {
    this.#epoch++;
    const pending = pendingOf(change, version, table);
    this.#pending.add(pending);
    this.#inForce(version, table);
    const flushed = this.#turns.run(() => this.#flush());
    await within(this.#clock, URGENT_LOG_MS, flushed, () => false);
    return pending;
  }

  /** Writes what is pending, oldest first, behind whatever the log holds by now. False: it can't be written. */
  async #flush(): Promise<boolean> {
    let races = 0;
    for (let pending = this.#pending.first; pending; pending = this.#pending.first) {
      if (!this.#rebase(pending)) continue;
      const appended = await this.#append(pending.version, false);
      if (appended === 'conflict' && ++races < MOST_RACES) continue;
      if (appended !== 'written') {
        this.#tryLater();
        return false;
      }
      this.#pending.written(pending);
    }
    return true;
  }

  /** Somebody else has begun this log. */
  #yield(start: Pending): void {
    start.yielded = true;
    this.#pending.written(start);
    this.#resumeLog();
    if (this.#shared) this.#followed?.yielded(this, (hash) => this.seen(hash));
  }

  /** What the log says is in force, unless something is pending. */
  #resumeLog(): void {
    const newest = this.#history.newest;
    if (newest && this.#pending.size === 0) this.#inForce(newest, known(newest));
  }

  /** Gives what is pending its number, and what it starts from, behind the newest version of the log. False: it is not needed. */
  #rebase(pending: Pending): boolean {
    const base = this.#history.newest;
    const { version } = pending.version;
    const next = rebased(pending, base, version > this.#history.last ? version : this.#free(), this.#shared);
    if (!next) {
      this.#pending.written(pending);
      pending.dropped = true;
      this.#resumeLog();
      return false;
    }
    this.#now.told = Math.max(this.#now.told, next.version.version);
    Object.assign(pending, next);
    if (this.#pending.last !== pending) return true;
    if (next.version.version !== version || !same(next.table, this.table)) this.#inForce(next.version, next.table);
    else this.#now.says(next.version);
    return true;
  }

  // ---- the log

  async #append(version: RouteVersion, ordinary: boolean): Promise<'written' | 'conflict' | 'failed' | 'unknown'> {
    this.#writing = ordinary ? version.version : 0;
    try {
      const { conflict } = await this.#log.append(version, this.#history.last);
      // It is well once nothing waits for it behind this one.
      if (this.#pending.size <= 1) this.#health.problem = null;
      if (!conflict) {
        this.#history.logged(version);
        return 'written';
      }
      this.#theirs(conflict);
      return 'conflict';
    } catch (error) {
      return this.#health.refuses(error);
    } finally {
      this.#writing = 0;
    }
  }

  /** Found in the log, oldest first: each is in force, one after the other, unless something of ours is that waits for the log. */
  #theirs(versions: readonly RouteVersion[]): void {
    for (const version of versions) {
      if (!this.#history.logged(version)) continue;
      // Ours after all: it was written, and the answer was lost.
      const own = this.#pending.find((pending) => isDeepStrictEqual(pending.version, version));
      if (own) {
        this.#pending.written(own);
        continue;
      }
      this.#pending.overtake();
      if (this.#pending.size === 0) this.#inForce(version, known(version));
    }
    const start = this.#pending.find(({ change }) => change.kind === 'start');
    if (start?.overtaken) this.#yield(start);
  }

  readonly #follower: LogFollower = {
    appended: ({ versions, last, problems }) => {
      for (const problem of problems) this.#signals.routesLog(problem);
      this.#theirs(versions);
      this.#history.last = Math.max(this.#history.last, last);
      if (this.#pending.size > 0) return 0;
      this.#health.problem = null;
      return this.#history.newest?.version ?? 0;
    },
    replaced: ({ versions, last }) => {
      const { missing, history, again, told } = reconciled(this.#history.all(), versions, last);
      this.#history.reset(history);
      this.#history.last = history.at(-1)?.version ?? last;
      if (told !== null) this.#signals.routesLog(`the log ${this.where} ${told}`);
      if (again && this.#pending.size === 0) {
        this.#epoch++;
        const change = { kind: again.kind } as Change;
        this.#pending.add({ ...pendingOf(change, again, known(again)), overtaken: true });
        this.#tryLater();
      } else if (missing.length === 0 && told !== null) this.#resumeLog();
      return missing;
    },
  };

  get #shared(): boolean {
    return this.#log.follow !== undefined;
  }

  async #confirmed({ version }: RouteVersion): Promise<{ readonly instances: number; readonly of: number }> {
    return (await this.#log.confirm?.(version)) ?? HERE;
  }

  #tryLater(): void {
    if (this.#retry || this.#closed) return;
    this.#retry = this.#clock.after(RETRY_MS, () => {
      this.#retry = undefined;
      if (this.#closed) return;
      // Something waits for the log still.
      if (this.#turns.waiting > 0) this.#tryLater();
      else void this.#turns.run(() => this.#flush());
    });
  }

  // ---- what both share

  #inForce(version: RouteVersion, table: RouteTable): void {
    if (this.#shared) this.#followed?.adopted(version);
    this.#now.put(version, table);
  }

  /** A number that no version has, had or may get. Those between are left out where what was to have them was not written. */
  #free(): number {
    return Math.max(this.#history.last, this.#now.told, this.#writing) + 1;
  }

  #next(change: Change, author: Author, table: RouteTable): RouteVersion {
    const ours = this.#followed?.hash ?? (this.#shared ? this.#history.newest?.fileHash : undefined);
    const fileHash = change.kind === 'file' ? change.fileHash : ours;
    return this.#now.next(change, author, table, { number: this.#free(), now: this.#clock.now(), fileHash });
  }

  #planned(change: Change, older: RouteVersion | undefined): Planned {
    return plan(
      {
        version: this.current,
        table: this.table,
        find: (number) => this.#past.find(number) ?? (older?.version === number ? older : undefined),
      },
      change,
    );
  }
}

/** A log that is this process's alone. */
const HERE = { instances: 1, of: 1 } as const;
