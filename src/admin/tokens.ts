// Who may do what at the admin API: a file of tokens, re-read when it changes, compared in constant time. Knows no HTTP.
// A token is kept as its digest only, and never gets into a line about a fault.
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
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

export interface TokensOptions {
  /** The file can't be read any more, or holds what is no token: one line each; the tokens read before stay. */
  onProblem(line: string): void;
  readonly clock?: Pick<Clock, 'now'>;
}

/** @throws CannotStart with a line for each fault of the file. */
export async function loadTokens(file: string, options: TokensOptions): Promise<Tokens> {
  const clock = options.clock ?? systemClock;
  let stamp = await stampOf(file).catch(() => '');
  const first = await read(file);
  if (!first.ok) throw new CannotStart(first.problems);
  let entries = first.entries;
  let lookedAt = clock.now();
  let looking: Promise<void> | undefined;

  const look = async () => {
    const now = await stampOf(file).catch((error: NodeJS.ErrnoException) => `gone ${error.code}`);
    if (now === stamp) return;
    stamp = now;
    const next = await read(file);
    if (next.ok) entries = next.entries;
    else for (const line of next.problems) options.onProblem(`${line}; the tokens read before stay`);
  };

  return {
    async operator(token) {
      if (clock.now() - lookedAt >= LOOK_EVERY_MS && !looking) {
        lookedAt = clock.now();
        looking = look().finally(() => {
          looking = undefined;
        });
      }
      await looking;
      const digest = digestOf(token);
      let found: Entry | undefined;
      for (const entry of entries) if (timingSafeEqual(entry.digest, digest)) found = entry;
      return found && { access: found.access, name: found.name };
    },
  };
}

/** Any way of replacing a file shows in one of these; Kubernetes swaps a link, which `stat` follows. */
async function stampOf(file: string): Promise<string> {
  const { ino, mtimeMs, size, ctimeMs } = await stat(file);
  return `${ino} ${mtimeMs} ${ctimeMs} ${size}`;
}

type Read =
  | { readonly ok: true; readonly entries: readonly Entry[] }
  | { readonly ok: false; readonly problems: readonly string[] };

async function read(file: string): Promise<Read> {
  let text: string;
  try {
    text = await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { ok: false, problems: [`can't read ${file} (${code}); name a file that this user may read`] };
  }
  return parseTokens(text, file);
}

const FORM = 'write "read NAME TOKEN" or "operate NAME TOKEN"';

/** One token a line, `read NAME TOKEN` or `operate NAME TOKEN`; empty lines and lines that begin with # don't count. */
export function parseTokens(text: string, file: string): Read {
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

const digestOf = (token: string): Buffer => createHash('sha256').update(token).digest();
