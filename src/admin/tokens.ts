// Who may do what at the admin API: a file of tokens, re-read when it changes, compared in constant time. Knows no HTTP.
// A token is kept as its digest only, and never gets into a line about a fault.
import { createHash, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { CannotStart } from '../base/cannot-start.js';
import { type Clock, systemClock } from '../base/clock.js';

export type Access = 'read' | 'operate';

export interface Operator {
  readonly access: Access;
  readonly name: string;
}

export interface Tokens {
  /** Whose token this is. Takes as long for every token, whichever is right. */
  operator(token: string): Promise<Operator | undefined>;
}

interface Entry extends Operator {
  readonly digest: Buffer;
}

/** Each is compared with on every request. */
const MOST_TOKENS = 1_000;
const SHORTEST = 16;
const LONGEST = 512;
/** A token that was taken out of the file works at most this long. */
const LOOK_EVERY_MS = 1_000;
/** A disk that hangs must not keep anybody out, least of all whoever takes everything back. */
const MOST_LOOK_MS = 200;
/** As many tokens as there may be, with their names and some remarks. */
const MOST_BYTES = 2 * 1024 * 1024;

export interface TokensOptions {
  /** The file can't be read any more, or holds what is no token: one line each; the tokens read before stay. */
  onProblem(line: string): void;
  readonly clock?: Clock;
  /** How the file is opened, for tests of a disk that hangs. */
  readonly open?: typeof open;
}

/** @throws CannotStart with a line for each fault of the file. */
export async function loadTokens(file: string, options: TokensOptions): Promise<Tokens> {
  const clock = options.clock ?? systemClock;
  const opens = options.open ?? open;
  const first = await read(file, opens);
  if (!first.ok) throw new CannotStart([first.problem]);
  const parsed = parseTokens(first.text, file);
  if (!parsed.ok) throw new CannotStart(parsed.problems);
  let { stamp } = first;
  let { entries } = parsed;
  let lookedAt = clock.now();
  /** While the file is looked at; settles early where that takes too long. */
  let looking: Promise<void> | undefined;
  let slow = false;
  const problem = (line: string) => options.onProblem(`${line}; the tokens read before stay`);

  const look = async () => {
    const found = await read(file, opens);
    if (found.stamp === stamp) return;
    stamp = found.stamp;
    if (!found.ok) return problem(found.problem);
    const next = parseTokens(found.text, file);
    if (next.ok) entries = next.entries;
    else next.problems.forEach(problem);
  };

  /** One at a time: a disk that hangs holds one thread of the process's few. */
  function lookAgain(): Promise<void> {
    return new Promise<void>((resolve) => {
      let inTime = true;
      const timer = clock.after(MOST_LOOK_MS, () => {
        inTime = false;
        if (!slow) problem(`${file} could not be read within ${MOST_LOOK_MS} ms`);
        slow = true;
        resolve();
      });
      look()
        .catch((error: unknown) => problem(`${file} could not be read: ${String(error)}`))
        .finally(() => {
          timer.cancel();
          looking = undefined;
          if (inTime) slow = false;
          resolve();
        });
    });
  }

  return {
    async operator(token) {
      if (clock.now() - lookedAt >= LOOK_EVERY_MS && !looking) {
        lookedAt = clock.now();
        looking = lookAgain();
      }
      await looking;
      const digest = digestOf(token);
      let found: Entry | undefined;
      for (const entry of entries) if (timingSafeEqual(entry.digest, digest)) found = entry;
      return found && { access: found.access, name: found.name };
    },
  };
}

/** `stamp`: whatever way the file is replaced shows in it. */
type Found =
  | { readonly ok: true; readonly stamp: string; readonly text: string }
  | { readonly ok: false; readonly stamp: string; readonly problem: string };

/** Follows a link, which is what Kubernetes swaps. Opened so that a pipe to which nobody writes does not hang. */
async function read(file: string, opens: typeof open): Promise<Found> {
  try {
    const handle = await opens(file, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return await readOpen(file, handle);
    } finally {
      await handle.close();
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const problem = `can't read ${file} (${code}); name a file that this user may read`;
    return { ok: false, stamp: `gone ${code}`, problem };
  }
}

async function readOpen(file: string, handle: FileHandle): Promise<Found> {
  const stats = await handle.stat();
  const { ino, mtimeMs, size, ctimeMs } = stats;
  if (!stats.isFile()) {
    return { ok: false, stamp: 'no file', problem: `${file} is no plain file; name one with a token on each line` };
  }
  const stamp = `${ino} ${mtimeMs} ${ctimeMs} ${size}`;
  if (size <= MOST_BYTES) return { ok: true, stamp, text: await handle.readFile('utf8') };
  return { ok: false, stamp, problem: `${file} has over ${MOST_BYTES / 1024 / 1024} MiB; is it the file of tokens?` };
}

type Parsed =
  | { readonly ok: true; readonly entries: readonly Entry[] }
  | { readonly ok: false; readonly problems: readonly string[] };

const FORM = 'write "read NAME TOKEN" or "operate NAME TOKEN"';

/** One token a line, `read NAME TOKEN` or `operate NAME TOKEN`; empty lines and lines that begin with # don't count. */
export function parseTokens(text: string, file: string): Parsed {
  const entries: Entry[] = [];
  const problems: string[] = [];
  const names = new Set<string>();
  const digests = new Set<string>();
  for (const [i, raw] of text.split('\n').entries()) {
    const line = raw.trim();
    if (line === '' || line.startsWith('#')) continue;
    const problem = (what: string) => problems.push(`${file}:${i + 1}: ${what}`);
    const [access, name, token, ...more] = line.split(/\s+/);
    if ((access !== 'read' && access !== 'operate') || name === undefined || token === undefined || more.length > 0) {
      problem(`no token; ${FORM}, one on a line`);
    } else if (!isActor(name)) {
      problem('the name has over 64 characters, or some that can not be printed; give another');
    } else if (isReserved(name)) {
      problem(`the name ${name} is sigfig's own in the history; give another`);
    } else if (token.length < SHORTEST || token.length > LONGEST || !/^[!-~]+$/.test(token)) {
      problem(`the token has under ${SHORTEST} or over ${LONGEST} characters; make one with "openssl rand -base64 32"`);
    } else if (names.has(name)) {
      problem(`the name ${name} is there twice; give each token its own, since it stands in the history`);
    } else {
      const digest = digestOf(token);
      if (digests.has(digest.toString('hex'))) problem('this token is there twice; make another');
      names.add(name);
      digests.add(digest.toString('hex'));
      entries.push({ access, name, digest });
    }
  }
  if (entries.length > MOST_TOKENS) problems.push(`${file}:1: over ${MOST_TOKENS} tokens; remove some`);
  if (entries.length === 0 && problems.length === 0) problems.push(`${file}:1: holds no token; ${FORM}`);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, entries };
}

/** A name that may stand in a log and on a terminal: 1 to 64 printable characters, without blanks at its ends. */
export const isActor = (name: string): boolean => /^(?=.{1,64}$)[^\s\p{C}](?:[^\p{C}]*[^\s\p{C}])?$/u.test(name);

/** Names under which sigfig itself stands in the history: nobody else may pass for the guard, the watched file or the start. */
export const isReserved = (name: string): boolean => RESERVED.has(name.normalize('NFKC').toLowerCase());
const RESERVED: ReadonlySet<string> = new Set(['guard', 'file', 'start', 'sigfig']);

const digestOf = (token: string): Buffer => createHash('sha256').update(token).digest();
