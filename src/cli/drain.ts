// What `sigfig drain` does: empties an instance or takes that back, and shows how many connections are left until there are none.
// Knows nothing of flags, nor of how connections are closed.
import { setTimeout as sleep } from 'node:timers/promises';
import type { DrainBody, DrainRequest, StatusBody } from '../admin/api.js';
import { type ExitCode, exitCodes, Failure } from './failure.js';
import { type Action, type Operation, readable } from './operate.js';
import { counted, harmless, json } from './show.js';

export interface DrainFlags {
  readonly reason?: string;
  readonly cancel?: boolean;
  readonly force?: boolean;
  /** Until nobody is connected there. */
  readonly wait: boolean;
}

/** Another instance hears of it by a message and tells of it with its next renewal, a second each at most. */
const HEARD_MS = 5_000;
/** One answer that is lost is no reason to end: the instance goes on draining. */
const MOST_FAILURES = 3;

export const drainInstance =
  (instance: string | undefined, flags: DrainFlags, everyMs = 1_000): Action =>
  async (operation) => {
    const { client, answer } = operation;
    const { cancel, force } = flags;
    const request: DrainRequest = {
      reason: await operation.reason(flags.reason),
      ...(cancel ? { cancel } : {}),
      ...(force ? { force } : {}),
    };
    const path = `/api/instances/${encodeURIComponent(instance ?? 'self')}/drain`;
    const body = await client.post<DrainBody>(path, request, ['id', 'draining', 'connections']);
    if (cancel || !flags.wait) {
      answer(body, () => {
        const id = harmless(body.id);
        if (body.unchanged) return `${id} takes connections: it was not draining, so there was nothing to take back\n`;
        return cancel
          ? `${id} takes connections again\n`
          : `${id} drains; ${counted(body.connections, 'connection')} open\n`;
      });
      return exitCodes.done;
    }
    const progress = progressOf(operation);
    try {
      return await emptied(operation, body, progress.show, everyMs);
    } finally {
      progress.end();
    }
  };

async function emptied(
  { client, world, warn }: Operation,
  begun: DrainBody,
  show: (now: DrainBody) => void,
  everyMs: number,
): Promise<ExitCode> {
  const stop = world.interrupted?.() ?? new AbortController().signal;
  const since = performance.now();
  const { id } = begun;
  let self = false;
  let failures = 0;
  show(begun);
  while (!stop.aborted) {
    const status = await client.get<StatusBody>('/api/status', ['instances']).catch((error: unknown) => {
      if (!(error instanceof Failure) || ++failures >= MOST_FAILURES) throw error;
      return null;
    });
    if (status !== null) {
      failures = 0;
      // The one that is asked may be declared dead and go on under another id.
      const found = status.instances.find((one) => one.id === id) ?? status.instances.find((one) => self && one.self);
      if (!found) {
        warn(`${id} is gone`);
        return exitCodes.done;
      }
      self = found.self;
      const { draining, connections } = found;
      if (draining) show({ id, draining, connections });
      if (draining && connections === 0) return exitCodes.done;
      if (!draining && performance.now() - since > HEARD_MS) {
        const line = `${id} does not drain: somebody took it back, or it was not told; "sigfig status" shows how it is`;
        throw new Failure(exitCodes.refused, 'refused', [line]);
      }
    }
    await sleep(everyMs, undefined, { signal: stop }).catch((error: unknown) => {
      if (!stop.aborted) throw error;
    });
  }
  warn(`${id} goes on draining; "sigfig drain ${id} --cancel" takes that back`);
  return exitCodes.done;
}

/** A line that is written over on a terminal; elsewhere one, or with `--json` an object, whenever the number is another. */
function progressOf({ world, json: asJson }: Operation): { show(now: DrainBody): void; end(): void } {
  const over = !asJson && world.terminal !== undefined;
  let last: number | undefined;
  let open = false;
  return {
    show(now) {
      if (now.connections === last) return;
      last = now.connections;
      const line = asJson
        ? json(now, 0)
        : readable(() => `${harmless(now.id)} drains; ${counted(now.connections, 'connection')} left`);
      world.out(over ? `\r${line}\x1b[K` : `${line}\n`);
      open = over;
    },
    end() {
      if (open) world.out('\n');
    },
  };
}
