// The versions of the route table: changes one at a time, each in the log before it is in force; but what takes calls back to
// the legacy is in force first, and in the log as soon as that can be written. Knows nothing of files and their formats.
import { isDeepStrictEqual } from 'node:util';
import type { Clock, Timer } from '../base/clock.js';
import { type Change, type Planned, plan, type RouteVersion } from '../routing/change.js';
import { LONGEST_ACTOR, LONGEST_REASON, tableOf } from '../routing/check.js';
import { type RouteTable, routeTable } from '../routing/route.js';
import type { Signals } from '../telemetry/signals.js';
import type { Author, Outcome, RouteControl, RouteLog } from './control.js';
import { History } from './history.js';

export interface VersionsOptions {
  readonly log: RouteLog;
  /** What the log holds, as far as it is kept in memory, and its highest number. */
  readonly versions: readonly RouteVersion[];
  readonly last: number;
  readonly signals: Pick<Signals, 'routesChanged' | 'routesLog' | 'bound' | 'internalError'>;
  readonly clock: Clock;
  /** The routes file, where there is one. */
  readonly followed?:
    | { readonly hash: string | undefined; readonly problems: readonly string[]; overrule(): boolean }
    | undefined;
}

/** In force, and not in the log yet. */
interface Pending {
  readonly change: Change;
  version: RouteVersion;
  table: RouteTable;
  written: boolean;
  /** Others have appended since it was made. */
  overtaken: boolean;
}

const NOTHING = routeTable(new Map());

/** A log that takes longer is told as one that can't be written; what it was given may still come to be. */
const LOG_MS = 5_000;
/** The red switch is in force already; its author only waits to hear whether it is written. */
const URGENT_LOG_MS = 2_000;
const RETRY_MS = 1_000;
/** Operators and the guard together make a few changes a minute. */
const MOST_WAITING = 64;
const MOST_PENDING = 256;
/** Others append at most as fast as disks sync; who loses this often in a row is told so. */
const MOST_RACES = 8;

export class Versions implements RouteControl {
  table: RouteTable = NOTHING;
  problem: string | null = null;
  readonly #log: RouteLog;
  readonly #followed: VersionsOptions['followed'];
  readonly #signals: VersionsOptions['signals'];
  readonly #clock: Clock;
  readonly #history = new History();
  readonly #listeners = new Set<(version: RouteVersion) => void>();
  readonly #closing: (() => unknown)[] = [];
  #current: RouteVersion | undefined;
  /** The highest number in the log. */
  #last: number;
  /** The highest number that anybody was told of. It is never another version's, or a compare-and-set would take one for the other. */
  #told = 0;
  /** Oldest first; the last one is in force. */
  #pending: Pending[] = [];
  /** Grows with each change that was in force before it was written: whatever asked before it has lost. */
  #epoch = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #waiting = 0;
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
    this.#last = last;
    for (const version of versions) this.#history.push(version);
  }

  get current(): RouteVersion {
    if (!this.#current) throw new Error('the routes were not started');
    return this.#current;
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

  /** The first version of a log that holds none. It rules even where it can't be written yet. */
  async begin(table: RouteTable, reason: string): Promise<void> {
    const change: Change = { kind: 'start', table };
    const version = this.#next(change, { actor: 'sigfig', via: 'start', reason }, table, this.#free());
    await this.#ahead(change, version, table);
  }

  async plan(change: Change): Promise<Planned> {
    return this.#planned(change, await this.#target(change));
  }

  async change(change: Change, author: Author): Promise<Outcome> {
    if (this.#closed) return { kind: 'unwritable', problem: 'sigfig is shutting down' };
    if (change.kind === 'rollback' || change.kind === 'legacy' || change.kind === 'guard') {
      return this.#urgent(change, author);
    }
    if (this.#waiting >= MOST_WAITING) {
      return { kind: 'unwritable', problem: `${this.#waiting} changes wait for the log already; try again later` };
    }
    const epoch = this.#epoch;
    let state: 'waits' | 'runs' | 'given up' = 'waits';
    const work = this.#inTurn(async (): Promise<Outcome> => {
      if (state === 'given up') return this.#unwritable();
      state = 'runs';
      return this.#ordinary(change, author, epoch);
    });
    return this.#within(LOG_MS, work, () => {
      const begun = state === 'runs';
      if (!begun) state = 'given up';
      return this.#silent(begun);
    });
  }

  async history(limit: number, before = Number.POSITIVE_INFINITY): Promise<readonly RouteVersion[]> {
    const pending = this.#pending.map(({ version }) => version).filter(({ version }) => version < before);
    const found = [...pending.reverse(), ...this.#history.below(before, limit)].slice(0, limit);
    const oldest = found.at(-1)?.version ?? Math.min(before, this.#history.oldest?.version ?? 1);
    if (found.length === limit || oldest <= 1) return found;
    return [...found, ...(await this.#older(limit - found.length, oldest))];
  }

  onChange(listener: (version: RouteVersion) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  close(): Promise<void> {
    this.#ending ??= this.#close();
    return this.#ending;
  }

  async #close(): Promise<void> {
    this.#closed = true;
    this.#retry?.cancel();
    for (const close of this.#closing) await close();
    await this.#within(URGENT_LOG_MS, this.#turn, () => undefined);
    await this.#log.close();
  }

  // ---- one at a time, in the log before it is in force

  async #ordinary(change: Change, author: Author, epoch: number): Promise<Outcome> {
    for (let races = 0; races < MOST_RACES; races++) {
      if (epoch !== this.#epoch) return { kind: 'conflict', current: this.current };
      if (this.#pending.length > 0 && !(await this.#flush())) return this.#unwritable();
      if (author.ifVersion !== undefined && author.ifVersion !== this.current.version) {
        return { kind: 'conflict', current: this.current };
      }
      const planned = this.#planned(change, undefined);
      if (!planned.ok) return { kind: 'refused', problems: planned.problems };
      if (same(planned.table, this.table)) return { kind: 'unchanged', version: this.current };
      const version = this.#next(change, author, planned.table, this.#free());
      const appended = await this.#append(version, true);
      if (appended === 'failed') return this.#unwritable();
      if (appended === 'conflict') {
        if (author.ifVersion !== undefined) return { kind: 'conflict', current: this.current };
        continue;
      }
      // Written, and overruled while it was being written: what overruled it is written behind it.
      if (epoch !== this.#epoch) return { kind: 'conflict', current: this.current };
      this.#inForce(version, planned.table);
      return { kind: 'applied', version, confirmed: HERE, unwritten: null };
    }
    return { kind: 'conflict', current: this.current };
  }

  /** The log neither takes it nor refuses. What it was given by then is made once it is written, which nobody can tell now. */
  #silent(begun: boolean): Outcome {
    this.problem = `the log ${this.where} has not answered within ${LOG_MS / 1000} s; see to its disk, or name another with --routes-log`;
    this.#signals.routesLog(this.problem);
    return begun ? { kind: 'unwritable', problem: this.problem, begun } : this.#unwritable();
  }

  #unwritable(): Outcome {
    return { kind: 'unwritable', problem: this.problem ?? `the log ${this.where} can't be written` };
  }

  // ---- in force at once, in the log as soon as it can be

  async #urgent(change: Change, author: Author): Promise<Outcome> {
    const planned = this.#planned(change, change.kind === 'rollback' ? await this.#target(change) : undefined);
    if (!planned.ok) return { kind: 'refused', problems: planned.problems };
    const overruled = this.#followed?.overrule() ?? false;
    const idle = this.#waiting === 0 && this.#pending.length === 0 && !overruled;
    if (idle && same(planned.table, this.table)) return { kind: 'unchanged', version: this.current };
    const version = this.#next(change, author, planned.table, this.#free());
    const pending = await this.#ahead(change, version, planned.table);
    return {
      kind: 'applied',
      version: pending.version,
      confirmed: HERE,
      unwritten: pending.written ? null : (this.problem ?? `the log ${this.where} has not answered yet`),
    };
  }

  /** Puts a version in force, and then in the log; answers when it is there, or when that takes too long. */
  async #ahead(change: Change, version: RouteVersion, table: RouteTable): Promise<Pending> {
    this.#epoch++;
    const pending: Pending = { change, version, table, written: false, overtaken: false };
    this.#pending.push(pending);
    if (this.#pending.length > MOST_PENDING) {
      this.#pending.shift();
      this.#signals.bound('pending-route-versions', { most: MOST_PENDING });
    }
    this.#inForce(version, table);
    await this.#within(
      URGENT_LOG_MS,
      this.#inTurn(() => this.#flush()),
      () => false,
    );
    return pending;
  }

  /** Writes what is pending, oldest first, behind whatever the log holds by now. False: it can't be written. */
  async #flush(): Promise<boolean> {
    for (let races = 0; this.#pending.length > 0; ) {
      const [pending] = this.#pending as [Pending];
      this.#rebase(pending);
      const appended = await this.#append(pending.version, false);
      if (appended === 'conflict') {
        for (const one of this.#pending) one.overtaken = true;
        if (pending.change.kind === 'start') this.#yield(pending);
        if (++races < MOST_RACES) continue;
      }
      if (appended !== 'written') {
        this.#tryLater();
        return false;
      }
      pending.written = true;
      this.#pending = this.#pending.filter((one) => one !== pending);
    }
    return true;
  }

  /** Somebody else has begun this log. */
  #yield(start: Pending): void {
    this.#pending = this.#pending.filter((pending) => pending !== start);
    const newest = this.#history.newest;
    if (newest && this.#pending.length === 0) this.#inForce(newest, known(newest));
    start.written = true;
  }

  /** Gives what is pending its number, and what it starts from, behind the newest version of the log. */
  #rebase(pending: Pending): void {
    const { version, change } = pending;
    const base = this.#history.newest;
    const number = version.version > this.#last ? version.version : this.#free();
    if (!base || (version.version === number && version.before === base.after)) {
      if (version.version !== number) this.#renumber(pending, { ...version, version: number });
      return;
    }
    // A rollback says where to; what the others say depends on what they find.
    if (pending.overtaken && (change.kind === 'guard' || change.kind === 'legacy')) {
      const again = plan({ version: base, table: known(base), find: () => undefined }, change);
      if (again.ok) pending.table = again.table;
    }
    this.#renumber(pending, { ...version, version: number, before: base.after, after: pending.table.toJSON() });
  }

  #renumber(pending: Pending, version: RouteVersion): void {
    this.#told = Math.max(this.#told, version.version);
    const moved = version.version !== pending.version.version || !same(pending.table, this.table);
    pending.version = version;
    if (this.#pending.at(-1) !== pending) return;
    if (moved) this.#inForce(version, pending.table);
    else this.#current = version;
  }

  // ---- the log

  async #append(version: RouteVersion, ordinary: boolean): Promise<'written' | 'conflict' | 'failed'> {
    this.#writing = ordinary ? version.version : 0;
    try {
      const { conflict } = await this.#log.append(version);
      // It is well once nothing waits for it behind this one.
      if (this.#pending.length <= 1) this.problem = null;
      if (!conflict) {
        this.#logged(version);
        return 'written';
      }
      for (const theirs of conflict) this.#logged(theirs);
      const newest = this.#history.newest;
      if (newest && this.#pending.length === 0) this.#inForce(newest, known(newest));
      return 'conflict';
    } catch (error) {
      this.problem = `the log ${this.where} can't be written (${reasonOf(error)}); make room or make it writable, or name another with --routes-log`;
      this.#signals.routesLog(this.problem);
      return 'failed';
    } finally {
      this.#writing = 0;
    }
  }

  #logged(version: RouteVersion): void {
    this.#last = version.version;
    this.#history.push(version);
  }

  #tryLater(): void {
    if (this.#retry || this.#closed) return;
    this.#retry = this.#clock.after(RETRY_MS, () => {
      this.#retry = undefined;
      if (this.#closed) return;
      // Something waits for the log still.
      if (this.#waiting > 0) this.#tryLater();
      else void this.#inTurn(() => this.#flush());
    });
  }

  // ---- what both share

  #inForce(version: RouteVersion, table: RouteTable): void {
    this.table = table;
    this.#current = version;
    this.#told = Math.max(this.#told, version.version);
    const { version: number, kind, actor, reason } = version;
    this.#signals.routesChanged({ version: number, kind, actor, reason, summary: table.summary });
    for (const listener of this.#listeners) {
      try {
        listener(version);
      } catch (error) {
        this.#signals.internalError('routes listener', error);
      }
    }
  }

  /** A number that no version has, had or may get. Those between are left out where what was to have them was not written. */
  #free(): number {
    return Math.max(this.#last, this.#told, this.#writing) + 1;
  }

  #next(change: Change, author: Author, table: RouteTable, number: number): RouteVersion {
    const fileHash = change.kind === 'file' ? change.fileHash : this.#followed?.hash;
    return {
      version: number,
      at: new Date(this.#clock.now()).toISOString(),
      actor: author.actor.slice(0, LONGEST_ACTOR),
      via: author.via,
      kind: change.kind,
      reason: author.reason.slice(0, LONGEST_REASON),
      before: this.#current?.after ?? NOTHING.toJSON(),
      after: table.toJSON(),
      ...(fileHash === undefined ? {} : { fileHash }),
    };
  }

  /** The version that a rollback names, where it is no longer in memory. */
  async #target(change: Change): Promise<RouteVersion | undefined> {
    if (change.kind !== 'rollback' || change.to === undefined || this.#inMemory(change.to)) return undefined;
    return (await this.#older(1, change.to + 1)).find(({ version }) => version === change.to);
  }

  /** Nothing where the log can't be read: what is in memory is shown all the same. */
  async #older(limit: number, before: number): Promise<readonly RouteVersion[]> {
    try {
      return await this.#log.older(limit, before);
    } catch (error) {
      this.#signals.routesLog(`the log ${this.where} can't be read (${reasonOf(error)}); make it readable`);
      return [];
    }
  }

  #inMemory(number: number): RouteVersion | undefined {
    return this.#history.find(number) ?? this.#pending.find(({ version }) => version.version === number)?.version;
  }

  #planned(change: Change, older: RouteVersion | undefined): Planned {
    return plan(
      {
        version: this.current,
        table: this.table,
        find: (number) => this.#inMemory(number) ?? (older?.version === number ? older : undefined),
      },
      change,
    );
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting++;
    const done = this.#turn.then(work).finally(() => {
      this.#waiting--;
    });
    // A fault is its caller's; the next one has its turn all the same.
    this.#turn = done.catch(() => undefined);
    return done;
  }

  async #within<T, L>(ms: number, work: Promise<T>, late: () => L): Promise<T | L> {
    let timer: Timer | undefined;
    const tooLate = new Promise<L>((resolve) => {
      timer = this.#clock.after(ms, () => resolve(late()));
    });
    return Promise.race([work, tooLate]).finally(() => timer?.cancel());
  }
}

/** Until several instances share their routes. */
const HERE = { instances: 1, of: 1 } as const;

const same = (a: RouteTable, b: RouteTable): boolean => isDeepStrictEqual(a.toJSON(), b.toJSON());

/** Of a version that was checked when it was read. */
function known(version: RouteVersion): RouteTable {
  const read = tableOf(version.after);
  if (!read.ok) throw new Error(`version ${version.version} holds no route table: ${read.problems[0]}`);
  return read.table;
}

/** The system's error, or what was thrown. */
export const reasonOf = (error: unknown): string =>
  (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error));
