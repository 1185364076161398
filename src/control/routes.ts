// The route table in force, from its log and its file: at a start the log's last version rules, and then operators, the file
// and the guard change it. Knows nothing of HTTP, of calls, and of what a log is made of.
import { CannotStart } from '../base/cannot-start.js';
import type { Clock } from '../base/clock.js';
import type { Signals } from '../telemetry/signals.js';
import type { RouteControl, RouteLog } from './control.js';
import { FollowedFile, type ReadFile } from './followed-file.js';
import { NOTHING } from './in-force.js';
import { reasonOf } from './past.js';
import { watchRoutes } from './routes-file.js';
import { Versions } from './versions.js';

export interface RoutesOptions {
  readonly log: RouteLog;
  /** The routes file, which is watched; without one a log that is empty starts with everything on the legacy. */
  readonly file?: string | undefined;
  readonly signals: Pick<
    Signals,
    'routesChanged' | 'routesLog' | 'routesLoaded' | 'routesRejected' | 'bound' | 'internalError'
  >;
  readonly clock: Clock;
}

/**
 * At a start the log's last version rules; the file counts where its hash differs from the one last logged.
 * @throws CannotStart where the file is broken and the log is empty, or the log is there and can't be read.
 */
export async function createRoutes(options: RoutesOptions): Promise<RouteControl> {
  const { log, file, signals, clock } = options;
  const { versions, last, problems } = await log.read().catch((error: unknown) => {
    throw new CannotStart([
      `the log of route changes ${log.where} can't be read (${reasonOf(error)}); make it readable for this user, or move it away to start from the routes file`,
    ]);
  });
  for (const problem of problems) signals.routesLog(problem);
  const shared = log.follow !== undefined;
  if (shared && last > 0 && versions.length === 0) {
    throw new CannotStart([
      `the log of route changes ${log.where} holds nothing that this sigfig can understand, up to version ${last}; upgrade it, or give it another --redis-prefix`,
    ]);
  }
  const followed =
    file === undefined ? undefined : new FollowedFile({ name: file, signals, clock, shared, by: log.by });
  if (followed) followed.hash = versions.at(-1)?.fileHash;
  const control = new Versions({ log, versions, last, signals, clock, followed });

  let first: ReadFile | undefined;
  let started = false;
  if (followed) {
    const watched = await watchRoutes(followed.name, {
      mayBeBroken: versions.length > 0,
      onTable(table, hash) {
        if (started) void followed.take(control, { table, hash });
        else first = { table, hash };
      },
      onProblems: (lines) => followed.broken(lines),
      clock,
    });
    control.closing(() => {
      followed.close();
      return watched.close();
    });
  }
  started = true;

  if (versions.length > 0) {
    control.resume();
    control.follow();
    if (followed && first) await followed.resumed(control, first, (hash) => control.seen(hash));
    return control;
  }
  control.follow();
  if (!followed || !first) {
    await control.begin(NOTHING, 'no routes file: everything goes to the legacy');
    return control;
  }
  followed.begins(first);
  if (await control.begin(first.table, `from ${followed.name}`)) followed.loaded(first);
  return control;
}
