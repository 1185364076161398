// Versions of the route table in Redis, for instances that share one: a stream whose ids are their numbers. An append is one script
// that compares; what others append is looked for twice a second, and at once when they say so. Knows nothing of what a table does.
import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.js';
import type { Cluster } from '../cluster/cluster.js';
import { type Arg, type Redis, RedisAway, RedisRefused, type Script } from '../redis/redis.js';
import type { RouteVersion } from '../routing/change.js';
import { versionOf } from '../routing/check.js';
import type { Signals } from '../telemetry/signals.js';
import { Confirmations } from './confirmations.js';
import type { LogFollower, RouteLog } from './control.js';
import { MOST_CHARACTERS, MOST_IN_MEMORY } from './file-log.js';
import { appendScript, clearScript, newerScript, olderScript } from './redis-log-scripts.js';
import { Turns } from './turns.js';

export interface RedisRouteLogOptions {
  readonly redis: Redis;
  readonly cluster: Pick<Cluster, 'broker' | 'liveness'>;
  readonly clock: Clock;
  readonly signals: Pick<Signals, 'unreadable'>;
}

/** Also where a message is lost, a version is in force everywhere within a second. */
const LOOK_MS = 500;
/** The routes outlive every instance: with all of them stopped, this long. */
const TTL_S = 90 * 24 * 3600;
const TOUCH_MS = 10 * 60_000;
/** Of one answer; versions are 2 KB as a rule and half a megabyte at most. */
const MOST_BYTES = 1024 * 1024;
/** Of one answer with what is new. */
const MOST_NEWER = 100;
/** Kept in Redis: the newest ones, of about so many bytes, but at least a few. */
const MOST_KEPT_BYTES = 8 * 1024 * 1024;
const LEAST_KEPT = 16;
/** An append without a reply is repeated: it is known by its text. */
const APPEND_MS = 1_500;
const REPEAT_MS = 100;
/** Others write the same again after a loss; a look half a second later goes on. */
const MOST_TRIES = 4;

interface Known {
  readonly number: number;
  readonly mark: string;
}
interface Entry extends Known {
  readonly text: string;
}

export function redisRouteLog({ redis, cluster, clock, signals }: RedisRouteLogOptions): RouteLog {
  const key = redis.key('routes', 'live');
  const { liveness, broker } = cluster;
  let known: Known = { number: 0, mark: '' };
  /** That was ever in it, as far as we know. */
  let highest = 0;
  let follower: LogFollower | undefined;
  /** What reads and moves `known` does so one after the other. */
  const turns = new Turns();
  let looking: Promise<number> | undefined;
  let touched = Number.NEGATIVE_INFINITY;
  let next: Timer | undefined;
  /** What is there is no log, which is told once. */
  let broken = false;
  let closed = false;
  const confirmations = new Confirmations({ broker, liveness, clock, look });
  const unsubscribe = redis.onWell((well) => {
    if (well && follower) void look();
  });

  const run = async (script: Script, ...args: Arg[]): Promise<readonly unknown[]> => {
    const answer = await redis.run(script, [key], args);
    if (!Array.isArray(answer)) throw new Error(`${script.name} answered no list`);
    return answer;
  };

  /** Newest first, as many as fit. */
  async function below(before: number, most: number): Promise<readonly Entry[]> {
    const found: Entry[] = [];
    let room = MOST_CHARACTERS;
    for (let from = before; found.length < most && room > 0 && from > 1; ) {
      const page = entriesOf(await run(olderScript, from, most - found.length, MOST_BYTES));
      for (const entry of page) {
        room -= entry.text.length;
        if (room < 0 && found.length > 0) break;
        found.push(entry);
      }
      const last = page.at(-1);
      if (!last) break;
      from = last.number;
    }
    return found;
  }

  async function newest() {
    const entries = [...(await below(Number.MAX_SAFE_INTEGER, MOST_IN_MEMORY))].reverse();
    const { number = 0, mark = '' } = entries.at(-1) ?? {};
    return { ...understood(entries, redis.shown), known: { number, mark } };
  }

  /** Takes over what others have appended; answers the version of the log in force here. Never rejects. */
  function look(): Promise<number> {
    looking ??= turns
      .run(async () => {
        // What is appended from here on is not in this look.
        looking = undefined;
        if (closed || !follower) return 0;
        const told = follower;
        const inForce = await mended(() => takeOver(told));
        broken = false;
        return inForce;
      })
      .catch((error: unknown) => {
        looking = undefined;
        // That Redis is away its own signal tells. Looked at again soon.
        if (!(error instanceof RedisAway) && !broken) {
          broken = true;
          const problem = `the log ${redis.shown} can't be read (${String(error)}); see what stands at the key ${key}, or remove it: what is in force is written again`;
          follower?.appended({ versions: [], last: known.number, problems: [problem] });
        }
        return 0;
      });
    return looking;
  }

  /** Whatever else stands at the key was written by something else: it goes, and what is in force here is written again. */
  async function mended<T>(ask: () => Promise<T>): Promise<T> {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof RedisRefused) || !error.message.includes('WRONGTYPE')) throw error;
      const found = String(await redis.run(clearScript, [key], []));
      // Otherwise another instance was faster.
      if (found !== 'stream' && found !== 'none') {
        signals.unreadable(key, `a ${found} where the stream of route versions must be; deleted`);
      }
      if (follower) await takeOver(follower);
      return ask();
    }
  }

  async function takeOver(told: LogFollower): Promise<number> {
    const now = clock.now();
    const touch = now - touched >= TOUCH_MS;
    for (;;) {
      if (highest === 0) {
        const log = await newest();
        knows(log.known);
        return told.appended({ versions: log.versions, last: known.number, problems: log.problems });
      }
      const [what, last, ...rest] = await run(
        newerScript,
        ...[known.number, known.mark, MOST_NEWER, MOST_BYTES, touch ? TTL_S : 0],
      );
      if (touch) touched = now;
      if (what === 'replaced' || Number(last) < highest) {
        await replaced(told);
        return told.appended({ versions: [], last: known.number, problems: [] });
      }
      const entries = entriesOf(rest);
      const end = entries.at(-1);
      if (end) knows({ number: end.number, mark: end.mark });
      const inForce = told.appended({ ...understood(entries, redis.shown), last: known.number });
      if (!end || Number(last) <= known.number) return inForce;
    }
  }

  function knows(newest: Known): void {
    known = newest;
    highest = Math.max(highest, newest.number);
  }

  /** Redis holds other versions than we know: what it must hold is written again, by whichever instance comes first. */
  async function replaced(told: LogFollower): Promise<void> {
    for (let tries = 0; tries < MOST_TRIES; tries++) {
      const log = await newest();
      const missing = told.replaced({ versions: log.versions, last: log.known.number });
      known = log.known;
      const whole = await writeAll(missing);
      if (!whole) continue;
      highest = known.number;
      if (missing.length > 0) confirmations.appended(known.number);
      return;
    }
  }

  /** False: somebody else has written meanwhile. */
  async function writeAll(versions: readonly RouteVersion[]): Promise<boolean> {
    for (let from = 0; from < versions.length; ) {
      let to = from;
      let bytes = 0;
      while (to < versions.length && (to === from || bytes < MOST_BYTES)) {
        bytes += JSON.stringify(versions[to++]).length;
      }
      const written = await append(versions.slice(from, to), known.number);
      if (!written) return false;
      known = written;
      from = to;
    }
    return true;
  }

  /** The last one of them, or undefined where others have appended since. */
  async function append(versions: readonly RouteVersion[], after: number): Promise<Known | undefined> {
    const entries = versions.map((version) => {
      const text = JSON.stringify(version);
      return { number: version.version, mark: createHash('sha1').update(text).digest('hex'), text };
    });
    const longest = Math.max(...entries.map(({ text }) => Buffer.byteLength(text)));
    const kept = Math.min(MOST_IN_MEMORY, Math.max(LEAST_KEPT, Math.floor(MOST_KEPT_BYTES / longest)));
    const args = entries.flatMap(({ number, mark, text }) => [number, mark, text]);
    const [written] = await run(appendScript, after, TTL_S, kept, ...args);
    const last = entries.at(-1);
    return written === 1 && last ? { number: last.number, mark: last.mark } : undefined;
  }

  async function appended(version: RouteVersion, after: number): Promise<Known | undefined> {
    const until = clock.now() + APPEND_MS;
    for (let sent = false; ; ) {
      try {
        return await append([version], after);
      } catch (error) {
        if (!(error instanceof RedisAway)) throw error;
        sent ||= error.sent;
        if (!sent) throw error;
        if (closed || clock.now() >= until) throw new RedisAway(error.message, sent);
        await new Promise<void>((resolve) => clock.after(REPEAT_MS, resolve));
      }
    }
  }

  function lookLater(): void {
    if (closed) return;
    next = clock.after(LOOK_MS, () => void look().then(lookLater));
  }

  return {
    where: redis.shown,
    by: liveness.address,
    mend: 'try again when Redis is back',

    read: () =>
      turns.run(async () => {
        try {
          const log = await newest();
          knows(log.known);
          return { versions: log.versions, last: known.number, problems: log.problems };
        } catch (error) {
          // Something else stands there. Who has nothing to put in its place deletes nothing.
          if (error instanceof RedisRefused) throw new Error(`${error.message}; its key is ${key}`);
          if (!(error instanceof RedisAway)) throw error;
          // What others have in force is taken over when it is back; until then nothing of the new path is served anyway.
          const problem = `the log ${redis.shown} can't be read (${error.message}); what it holds is in force as soon as Redis answers`;
          return { versions: [], last: 0, problems: [problem] };
        }
      }),

    async older(limit, before) {
      return [...understood([...(await below(before, limit))].reverse(), redis.shown).versions].reverse();
    },

    append: (version, after) =>
      turns.run(async () => {
        const written = await mended(() => appended(version, after));
        if (written) {
          if (after === known.number) knows(written);
          confirmations.appended(version.version);
          return {};
        }
        const conflict: RouteVersion[] = [];
        if (follower) {
          const { appended, replaced } = follower;
          await takeOver({
            appended(log) {
              conflict.push(...log.versions);
              return appended(log);
            },
            replaced,
          });
        }
        return { conflict };
      }),

    follow(told) {
      follower = told;
      lookLater();
    },

    refresh: look,

    confirm: async (version) => {
      // In force here and not in the log yet, so nowhere else.
      if (version > known.number) return { instances: 1, of: Math.max(1, liveness.living().length) };
      return confirmations.of(version);
    },

    async close() {
      closed = true;
      next?.cancel();
      unsubscribe();
    },
  };
}

function entriesOf(answer: readonly unknown[]): Entry[] {
  const entries: Entry[] = [];
  for (let i = 0; i + 2 < answer.length; i += 3) {
    const [number, mark, text] = answer.slice(i, i + 3).map(String) as [string, string, string];
    entries.push({ number: Number(number), mark, text });
  }
  return entries;
}

/** Oldest first. What can't be understood is told and passed over. */
function understood(entries: readonly Entry[], where: string) {
  const versions: RouteVersion[] = [];
  const problems: string[] = [];
  for (const { number, text } of entries) {
    const read = versionOf(jsonOf(text));
    if (read.ok && read.version.version === number) versions.push(read.version);
    else if (problems.length < MOST_PROBLEMS) {
      const why = read.ok ? `it calls itself ${read.version.version}` : read.problems[0];
      problems.push(
        `the log ${where}: version ${number} can't be understood and is passed over: ${why}; a newer sigfig may have written it, then upgrade this one`,
      );
    }
  }
  return { versions, problems };
}
const MOST_PROBLEMS = 5;

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // Told as what it is: no version.
    return error;
  }
}
