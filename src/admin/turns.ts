// Whoever looks, one after another: reads that take the event loop's time, and with it the proxy's, run one of a kind at a time
// and all of them together within a small share of it. Knows nothing of what is read.
import { performance } from 'node:perf_hooks';
import { type Clock, systemClock } from '../base/clock.js';
import type { Answer } from './answer.js';

export interface Turns {
  /**
   * Runs `work` once its turn has come. What is asked with the same `key` by then gets its answer too, which is none the older
   * for that: it has not begun. `busy`: too many wait already, or too many of this one's.
   */
  take(asked: { readonly kind: string; readonly key: string; readonly actor: string }, work: Work): Promise<Taken>;
}

export type Taken = Answer | 'busy';
type Work = () => Promise<Answer>;

/** Of each kind. A walk through 5,000 calls takes a millisecond: who is last among these still has an answer at once. */
const MOST_WAITING = 16;
/** One token, or one script, doesn't keep the dashboards of others waiting. */
const MOST_OF_ONE = 4;
/** Of the event loop's time, all kinds together. */
const SHARE = 0.1;
/** That much at once, after a while in which nobody looked. */
const BURST_MS = 100;
/** What one read is taken to have used at most: the loop does the proxy's own work meanwhile, which counts as well. */
const MOST_USED_MS = 25;

interface Job {
  readonly key: string;
  readonly actor: string;
  readonly run: () => Promise<void>;
  readonly answer: Promise<Answer>;
}

interface Kind {
  running: boolean;
  /** In the order in which they came. */
  readonly waiting: Job[];
}

/** Milliseconds in which the event loop had work; what a read waits for a disk or a thread does not count. */
const activeMs = (): number => performance.eventLoopUtilization().active;

export function turns({
  clock = systemClock,
  active = activeMs,
}: {
  clock?: Clock;
  active?: () => number;
} = {}): Turns {
  const kinds = new Map<string, Kind>();
  let left = BURST_MS;
  let at = clock.now();

  /** What is to be waited for until there is time again; 0: now. */
  function short(): number {
    const now = clock.now();
    left = Math.min(BURST_MS, left + Math.max(0, now - at) * SHARE);
    at = now;
    return left > 0 ? 0 : Math.ceil(1 - left / SHARE);
  }

  async function run(kind: Kind): Promise<void> {
    kind.running = true;
    for (;;) {
      for (let ms = short(); ms > 0; ms = short()) await new Promise<void>((later) => clock.after(ms, later));
      const job = kind.waiting.shift();
      if (!job) break;
      const before = active();
      await job.run();
      left -= Math.min(active() - before, MOST_USED_MS);
    }
    kind.running = false;
  }

  return {
    async take({ kind: name, key, actor }, work) {
      const kind = kinds.get(name) ?? { running: false, waiting: [] };
      kinds.set(name, kind);
      const same = kind.waiting.find((job) => job.key === key);
      if (same) return same.answer;
      const { waiting } = kind;
      if (waiting.length >= MOST_WAITING || waiting.filter((job) => job.actor === actor).length >= MOST_OF_ONE) {
        return 'busy';
      }
      const job = jobOf(key, actor, work);
      waiting.push(job);
      if (!kind.running) void run(kind);
      return job.answer;
    },
  };
}

function jobOf(key: string, actor: string, work: Work): Job {
  let settle!: (answer: Promise<Answer>) => void;
  const answer = new Promise<Answer>((resolve) => (settle = resolve));
  const run = async () => {
    const working = work();
    settle(working);
    await working.catch(() => undefined);
  };
  return { key, actor, run, answer };
}
