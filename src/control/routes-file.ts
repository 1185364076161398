// Keeps the route table in step with its file: editors that replace it, `cp` that truncates it first, Kubernetes that
// swaps a symlink above it. A broken file never takes the table in force away. Knows nothing of what a table does.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { watch } from 'chokidar';
import { CannotStart } from '../base/cannot-start.js';
import { type Clock, systemClock, type Timer } from '../base/clock.js';
import { parseRouteTable, type RouteTable } from '../routing/table.js';

export interface RoutesFileOptions {
  /** What the file says: called once before `watchRoutes` answers, then for each change. `hash`: SHA-256 (hex) of its text. */
  onTable(table: RouteTable, hash: string): void;
  /** The file is broken or gone, one clear line each; the table in force stays. Told once for each such content. */
  onProblems(problems: readonly string[]): void;
  /** A file that is broken at the start is told like any other, since there is another table to be in force. */
  readonly mayBeBroken?: boolean;
  readonly clock?: Clock;
}

export interface WatchedRoutes {
  close(): Promise<void>;
}

/** A writer that pauses longer than this between two writes shows what it has so far, if that is a valid table. */
const SETTLED_MS = 25;
/** What is broken, empty or gone is mostly a file that is being written right now. */
const SUSPECT_MS = 150;
/** A file that keeps changing is looked at again at the next look, instead of for ever. */
const MOST_READS = 40;
/** A net below the watcher: file systems that tell nothing (NFS, some bind mounts). */
const LOOK_MS = 1_000;

/** @throws CannotStart with the problems of a file that is broken at the start. */
export async function watchRoutes(file: string, options: RoutesFileOptions): Promise<WatchedRoutes> {
  const path = resolve(file);
  const clock = options.clock ?? systemClock;
  const read = reader(path, file);
  let seen = await read();
  if (seen.problems && !options.mayBeBroken) throw new CannotStart(seen.problems);
  const tell = () => {
    if (seen.problems) options.onProblems(seen.problems);
    else options.onTable(seen.table, createHash('sha256').update(seen.text).digest('hex'));
  };
  tell();

  let closed = false;
  let looking: Promise<void> | undefined;
  let again = false;
  let timer: Timer | undefined;

  const look = async () => {
    const found = await settled(clock, read);
    if (closed || found === undefined || found.text === seen.text) return;
    seen = found;
    tell();
  };
  /** One look at a time; what is noticed meanwhile leads to another. */
  const notice = () => {
    if (closed) return;
    if (looking) {
      again = true;
      return;
    }
    looking = look().finally(() => {
      looking = undefined;
      if (again) {
        again = false;
        notice();
      }
    });
  };
  const repeat = () => {
    timer = clock.after(LOOK_MS, () => {
      // A cheap look first: most of the time nothing has changed.
      void read().then((now) => {
        if (now.text !== seen.text) notice();
        if (!closed) repeat();
      });
    });
  };
  repeat();

  const folder = dirname(path);
  const watcher = watch(folder, {
    depth: 0,
    ignoreInitial: true,
    // Only the file, and the `..data` that Kubernetes swaps beside it.
    ignored: (entry) => entry !== folder && entry !== path && !basename(entry).startsWith('..'),
  });
  watcher.on('all', notice);
  // Out of inotify watches, say: the looks once a second remain.
  watcher.on('error', notice);
  await new Promise<void>((ready) => {
    watcher.once('ready', ready);
    watcher.once('error', () => ready());
  });
  // What changed between the first reading and the watcher's start.
  notice();

  return {
    async close() {
      closed = true;
      timer?.cancel();
      await watcher.close();
      await looking;
    },
  };
}

/** `text` is undefined where the file can't be read. */
type Reading =
  | { readonly text: string; readonly table: RouteTable; readonly problems?: undefined }
  | { readonly text: string | undefined; readonly problems: readonly string[] };

/** Reads the file; a text that is as it was at the last look is not parsed again. */
function reader(path: string, shownAs: string): () => Promise<Reading> {
  let last: Reading | undefined;
  return async () => {
    let text: string;
    try {
      text = await readFile(path, 'utf8');
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      return { text: undefined, problems: [`${shownAs}:1: can't be read (${code}); put the file there, readable`] };
    }
    if (last?.text !== text) last = parsed(text, shownAs);
    return last;
  };
}

function parsed(text: string, shownAs: string): Reading {
  // What a full disk or a failed deployment leaves behind; nobody means it.
  if (text.trim() === '') {
    return {
      text,
      problems: [`${shownAs}:1: the file is empty; write "namespaces: {}" to leave everything to the legacy`],
    };
  }
  const read = parseRouteTable(text, shownAs);
  return read.ok ? { text, table: read.table } : { text, problems: read.problems };
}

/** The first reading that stays the same for a moment; undefined where none does. */
async function settled(clock: Clock, take: () => Promise<Reading>): Promise<Reading | undefined> {
  let last = await take();
  for (let reads = 0; reads < MOST_READS; reads++) {
    const suspect = last.problems !== undefined || last.text.trim() === '';
    await new Promise<void>((done) => {
      clock.after(suspect ? SUSPECT_MS : SETTLED_MS, done);
    });
    const next = await take();
    if (next.text === last.text) return next;
    last = next;
  }
  return undefined;
}
