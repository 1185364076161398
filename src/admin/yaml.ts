// Routes files read and written in a thread of their own, one at a time and bounded in time, so that no file keeps the event
// loop, and with it every call, waiting. Knows nothing of HTTP.
import { Worker } from 'node:worker_threads';
import { type Clock, systemClock, type Timer } from '../base/clock.js';
import { tableOf } from '../routing/check.js';
import type { RouteTable } from '../routing/route.js';
import { type Done, type Job, work } from './yaml-job.js';

export type ReadTable =
  | { readonly ok: true; readonly table: RouteTable }
  /** `busy`: it was not looked at, since others wait already. */
  | { readonly ok: false; readonly problems: readonly string[]; readonly busy?: true };

export interface Yaml {
  /** `file` is only used in lines about faults. Never throws. */
  parse(text: string, file: string): Promise<ReadTable>;
  /** @throws where the thread takes too long or breaks. */
  format(table: RouteTable): Promise<string>;
  close(): Promise<void>;
}

/** A real table of 4,000 ids takes under half a second. */
const MOST_MS = 5_000;
/** Each waits for those before it, which must not take longer than its sender waits. */
const MOST_WAITING = 4;
/** The thread holds its own copy of the YAML library; it goes when it was idle for this long. */
const IDLE_MS = 60_000;
/** A quarter of a megabyte of YAML becomes some ten megabytes of nodes. */
const MOST_MEGABYTES = 256;

/** `worker`: the thread's file, compiled. */
export function yamlThread(worker: URL, clock: Clock = systemClock): Yaml {
  let thread: Worker | undefined;
  let turn: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  let idle: Timer | undefined;

  const stop = async () => {
    const ending = thread;
    thread = undefined;
    await ending?.terminate();
  };

  async function run(job: Job): Promise<Done> {
    idle?.cancel();
    thread ??= new Worker(worker, { resourceLimits: { maxOldGenerationSizeMb: MOST_MEGABYTES } });
    const own = thread;
    // It must not keep a process alive that has ended otherwise.
    own.unref();
    let timer: Timer | undefined;
    try {
      return await new Promise<Done>((resolve, reject) => {
        own.once('message', resolve);
        own.once('error', reject);
        own.once('exit', () => reject(new Error('the thread ended')));
        timer = clock.after(MOST_MS, () => reject(new Error(`it takes over ${MOST_MS / 1_000} s`)));
        own.postMessage(job);
      });
    } catch (error) {
      await stop();
      throw error;
    } finally {
      timer?.cancel();
      // Only these: the Worker itself listens for who listens, and without that no second answer ever comes.
      for (const name of ['message', 'error', 'exit']) own.removeAllListeners(name);
      // Whatever it still says is nobody's any more, but an error without a listener would end the process.
      own.on('error', () => undefined);
      idle = clock.after(IDLE_MS, () => void stop());
    }
  }

  async function inTurn(job: Job): Promise<Done & { readonly busy?: true }> {
    // The table in force is written once for each version: that waits its turn, whatever is read.
    if (job.kind === 'parse' && waiting >= MOST_WAITING)
      return { ok: false, busy: true, problems: ['other routes files are being read; try again in a few seconds'] };
    waiting++;
    const done = turn.then(() => run(job));
    turn = done.catch(() => undefined);
    return done.finally(() => {
      waiting--;
    });
  }

  return yamlBy(inTurn, async () => {
    idle?.cancel();
    await stop();
  });
}

/** The same on the caller's own thread, for tests that run from TypeScript, which a thread can't load. */
export const yamlHere = (): Yaml =>
  yamlBy(
    async (job) => work(job),
    async () => undefined,
  );

function yamlBy(run: (job: Job) => Promise<Done & { readonly busy?: true }>, close: () => Promise<void>): Yaml {
  return {
    async parse(text, file) {
      try {
        const done = await run({ kind: 'parse', text, file });
        if (!done.ok) return done;
        if ('table' in done) return tableOf(done.table);
        throw new Error('no table came back');
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        return { ok: false, problems: [`${file}:1: can't be read: ${why}; is it a routes file?`] };
      }
    },
    async format(table) {
      const done = await run({ kind: 'format', table: table.toJSON() });
      if (done.ok && 'text' in done) return done.text;
      throw new Error(done.ok ? 'no text came back' : done.problems.join('; '));
    },
    close,
  };
}
