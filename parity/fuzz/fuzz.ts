// Plays random lifecycles on every path, many at once, and has fast-check shrink each that differs to a smallest one. Knows
// nothing of flags, files or how a play is done.
import fc from 'fast-check';
import type { Played } from '../play/play.js';
import type { PathName } from '../targets/targets.js';
import { lifecycles } from './arbitrary.js';
import { type Difference, judge } from './judge.js';
import { type Lifecycle, type Scripted, scripted, withoutOne } from './moves.js';

export interface FuzzOptions {
  /** The same seed makes the same lifecycles. */
  readonly seed: number;
  readonly runs: number;
  readonly jobs: number;
  /** At most so many are shrunk; all others are still reported. */
  readonly mostShrunk: number;
  /** Shrinking one ends after this. */
  readonly shrinkMs: number;
  readonly paths: readonly PathName[];
  /** `id` is of this one play alone. */
  play(script: Scripted, path: PathName, id: string): Promise<Played>;
  onPlayed?(done: number, found: number): void;
  onShrinking?(index: number, tries: number): void;
}

export interface Found {
  /** Of the lifecycle within the seed's. */
  readonly index: number;
  /** The smallest that still differs; the lifecycle as it was made where it was not shrunk. */
  readonly scripted: Scripted;
  readonly differences: readonly Difference[];
  /** `not-again`: it differed once and not when it was played again, alone. */
  readonly shrunk: 'smallest' | 'out-of-time' | 'not-tried' | 'not-again';
  /** How often it was played to shrink it. */
  readonly tries: number;
}

export interface FuzzResult {
  readonly played: number;
  readonly steps: number;
  readonly avoided: Readonly<Record<1 | 2, number>>;
  readonly found: readonly Found[];
  readonly ms: number;
}

export async function fuzz(options: FuzzOptions): Promise<FuzzResult> {
  const started = performance.now();
  const { seed, runs, jobs } = options;
  const all = fc.sample(lifecycles, { seed, numRuns: runs });
  const failed = new Map<number, readonly Difference[]>();
  const avoided = { 1: 0, 2: 0 };
  let [next, done, steps] = [0, 0, 0];
  const worker = async (): Promise<void> => {
    for (let index = next++; index < all.length; index = next++) {
      const script = scripted(all[index] as Lifecycle);
      const differences = await differencesOf(script, options, `${index}`);
      if (differences.length > 0) failed.set(index, differences);
      steps += script.play.steps.length;
      avoided[1] += script.avoided[1];
      avoided[2] += script.avoided[2];
      done++;
      options.onPlayed?.(done, failed.size);
    }
  };
  await Promise.all(Array.from({ length: Math.min(jobs, runs) }, worker));
  const found: Found[] = [];
  for (const [index, differences] of [...failed].sort(([a], [b]) => a - b)) {
    const smaller = found.length < options.mostShrunk ? await shrink(index, options) : undefined;
    found.push(
      smaller ?? { index, scripted: scripted(all[index] as Lifecycle), differences, shrunk: 'not-tried', tries: 0 },
    );
    if (smaller?.shrunk === 'not-again') found.splice(-1, 1, { ...smaller, differences });
  }
  return { played: done, steps, avoided, found, ms: performance.now() - started };
}

async function shrink(index: number, options: FuzzOptions): Promise<Found> {
  let smallest: { readonly lifecycle: Lifecycle; readonly differences: readonly Difference[] } | undefined;
  let first: Lifecycle | undefined;
  let tries = 0;
  let late = false;
  const until = performance.now() + options.shrinkMs;
  const differs = async (lifecycle: Lifecycle): Promise<boolean> => {
    first ??= lifecycle;
    late ||= tries > 0 && performance.now() > until;
    if (late) return false; // no smaller one is looked for any more
    tries++;
    options.onShrinking?.(index, tries);
    const differences = await differencesOf(scripted(lifecycle), options, `${index}s${tries}`);
    if (differences.length > 0) smallest = { lifecycle, differences };
    return differences.length > 0;
  };
  const property = fc.asyncProperty(lifecycles, async (lifecycle) => !(await differs(lifecycle)));
  // `path` is the number of the lifecycle among those of the seed; from there fast-check shrinks.
  await fc.check(property, { seed: options.seed, path: `${index}`, numRuns: 1, endOnFailure: false });
  if (!smallest) return { index, scripted: scripted(first as Lifecycle), differences: [], shrunk: 'not-again', tries };
  // It leaves some moves in a list that could go as well.
  for (let lifecycle: Lifecycle | undefined = smallest.lifecycle; lifecycle && !late; ) {
    lifecycle = await firstThat(differs, withoutOne(lifecycle));
  }
  const { lifecycle, differences } = smallest;
  return { index, scripted: scripted(lifecycle), differences, shrunk: late ? 'out-of-time' : 'smallest', tries };
}

async function firstThat<T>(holds: (one: T) => Promise<boolean>, of: readonly T[]): Promise<T | undefined> {
  for (const one of of) if (await holds(one)) return one;
  return undefined;
}

/** All paths at once: they share nothing but the machine. */
async function differencesOf(script: Scripted, { paths, play }: FuzzOptions, id: string): Promise<Difference[]> {
  const plays = await Promise.all(
    paths.map(async (path, i) => [path, await play(script, path, `${id}p${i}`)] as const),
  );
  return judge(script.outcome, new Map(plays));
}
