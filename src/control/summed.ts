// What the guards of all instances have counted, as one: each tells the others its figures with its lease, within a bound, and adds
// theirs to its own. Knows no limits and no table; what comes from other instances is checked.
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { type Group, groupNames } from '../routing/route.js';
import { type Counts, faults, type Loudest, loudestOf, none } from './blame.js';
import { BUCKETS, type Counted, lowerBoundOf, p99Of, type SlidingWindow, type Sums } from './window.js';

/** Bytes of JSON: an instance tells no more than 4 KiB of itself, and less than 1 KiB beside this. */
const MOST_BYTES = 2_900;
/** Classes of times that are told, the slowest ones; all that was faster counts into one class more. */
const MOST_CLASSES = 12;
/** Users, and conversations, that are told: those with the most faults. */
const MOST_NAMES = 3;

const count = z
  .int()
  .nonnegative()
  .max(2 ** 40);
const names = z.array(z.tuple([z.string().max(12), count, count, count])).max(MOST_NAMES);
const oneShape = z.object({
  ns: z.string().max(256),
  /** Which group's window: its place in `groupNames`. A relay is watched by its own group and by the lifecycle. */
  g: z
    .int()
    .min(0)
    .max(groupNames.length - 1),
  /** The event. */
  e: z.string().max(64),
  /** Samples, peeled, errors, refusals, served, slow. */
  n: z.tuple([count, count, count, count, count, count]),
  /** Class and count, one after the other, of those that are not 0. */
  t: z.array(count).max(2 * (MOST_CLASSES + 1)),
  /** Users, and conversations, with their errors, refusals and slow ones. */
  u: names.optional(),
  c: names.optional(),
});
/** A newer version may tell more; what it tells beside this is left out. */
const figuresShape = z.object({ version: z.int().nonnegative(), events: z.array(oneShape).max(100) });

type One = z.infer<typeof oneShape>;
export interface Figures {
  /** Of the route table in force when they were told: what was counted before an operator acted is not held against what they did. */
  readonly version: number;
  /** By namespace, group and event. */
  readonly events: ReadonlyMap<string, One>;
}

export interface Watched {
  readonly ns: string;
  readonly group: Group;
  readonly event: string;
  readonly window: SlidingWindow;
}

export const watchedKey = ({ ns, group, event }: Omit<Watched, 'window'>): string => `${ns}\n${group}\n${event}`;

/** What one instance tells, as JSON. Events with the most faults come first, then those with the most samples, as many as fit. */
export function figuresOf(version: number, windows: Iterable<Watched>, now: number): unknown {
  const all: One[] = [];
  for (const { ns, group, event, window } of windows) {
    const { samples, peeled, errors, refusals, served, slow } = window.sums(now);
    if (samples === 0 && served === 0) continue;
    const [users, conversations] = errors + refusals + slow > 0 ? window.named(now) : [new Map(), new Map()];
    const [u, c] = [loudest(users), loudest(conversations)];
    const n: One['n'] = [samples, peeled, errors, refusals, served, slow];
    const what = { ns, g: groupNames.indexOf(group), e: event };
    all.push({ ...what, n, t: classes(window, now), ...(u.length > 0 ? { u } : {}), ...(c.length > 0 ? { c } : {}) });
  }
  const faulty = ({ n }: One): number => n[2] + n[3] + n[5];
  all.sort((a, b) => faulty(b) - faulty(a) || b.n[0] - a.n[0]);
  let room = MOST_BYTES;
  const events = all.filter((one) => {
    room -= Buffer.byteLength(JSON.stringify(one)) + 1;
    return room >= 0;
  });
  return { version, events };
}

/** What another instance has told; undefined where that can't be understood. */
export function readFigures(told: unknown): Figures | undefined {
  const read = figuresShape.safeParse(told);
  if (!read.success) return undefined;
  const { version, events } = read.data;
  return { version, events: new Map(events.map((one) => [keyOf(one), one])) };
}

const keyOf = ({ ns, g, e }: One): string => watchedKey({ ns, group: groupNames[g] as Group, event: e });

/** One event's window here, and what others have told of theirs. */
export class Summed implements Counted {
  readonly #own: SlidingWindow;
  readonly #others: readonly One[];

  constructor(own: SlidingWindow, others: readonly One[]) {
    this.#own = own;
    this.#others = others;
  }

  sums(now: number): Sums {
    const sums = { ...this.#own.sums(now) };
    for (const { n } of this.#others) {
      sums.samples += n[0];
      sums.peeled += n[1];
      sums.errors += n[2];
      sums.refusals += n[3];
      sums.served += n[4];
      sums.slow += n[5];
    }
    return sums;
  }

  p99(now: number): number | null {
    const own = this.#own.times(now);
    const times = new Uint32Array(BUCKETS);
    times.set(own);
    for (const { t } of this.#others) {
      for (let i = 0; i + 1 < t.length; i += 2) {
        const bucket = Math.min(t[i] ?? 0, BUCKETS - 1);
        times[bucket] = (times[bucket] ?? 0) + (t[i + 1] ?? 0);
      }
    }
    const p99 = p99Of(times);
    if (p99 === null) return null;
    // How many were slow is told exactly, and the classes of the fast ones are not.
    const { served, slow } = this.sums(now);
    const limit = Math.min(this.#own.slowFrom, BUCKETS - 1);
    const isSlow = slow > served - Math.ceil(served * 0.99);
    return isSlow ? Math.max(p99, lowerBoundOf(limit)) : Math.min(p99, lowerBoundOf(limit - 1));
  }

  loudest(now: number): Loudest {
    const [users, conversations] = this.#own.named(now);
    const others = this.#others;
    return loudestOf([
      withOthers(
        users,
        others.flatMap(({ u = [] }) => u),
      ),
      withOthers(
        conversations,
        others.flatMap(({ c = [] }) => c),
      ),
    ]);
  }
}

function withOthers(own: ReadonlyMap<string, Counts>, others: z.infer<typeof names>): ReadonlyMap<string, Counts> {
  const sums = new Map<string, Counts>();
  for (const [name, counts] of own) sums.set(hidden(name), { ...counts });
  for (const [name, errors, refusals, slow] of others) {
    const sum = sums.get(name) ?? none();
    sum.errors += errors;
    sum.refusals += refusals;
    sum.slow += slow;
    sums.set(name, sum);
  }
  return sums;
}

/** Those with the most faults, with their errors, refusals and slow ones. */
function loudest(named: ReadonlyMap<string, Counts>): z.infer<typeof names> {
  const of = (counts: Counts): number => faults.reduce((sum: number, fault) => sum + counts[fault], 0);
  return [...named]
    .sort(([, a], [, b]) => of(b) - of(a))
    .slice(0, MOST_NAMES)
    .map(([name, { errors, refusals, slow }]) => [hidden(name), errors, refusals, slow]);
}

/** Short, and nobody's name. */
const hidden = (name: string): string => createHash('sha256').update(name).digest('base64url').slice(0, 8);

function classes(window: SlidingWindow, now: number): number[] {
  const times = window.times(now);
  const told: number[] = [];
  for (let bucket = times.length - 1; bucket >= 0; bucket--) {
    const here = times[bucket] ?? 0;
    if (here === 0) continue;
    if (told.length > 2 * MOST_CLASSES) told[told.length - 1] = (told.at(-1) ?? 0) + here;
    else told.push(bucket, here);
  }
  return told;
}
