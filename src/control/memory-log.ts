// Versions of the route table that live as long as the process: where no file is to hold them. The contract of a log, with
// nothing behind it.
import type { RouteVersion } from '../routing/change.js';
import type { RouteLog } from './control.js';

/** The control keeps the newest versions itself, so there is nothing to keep here but the number. */
export function memoryLog() {
  return {
    where: null,
    read: async () => ({ versions: [], last: 0, problems: [] }),
    older: async () => [],
    append: async (_version: RouteVersion) => ({}),
    close: async () => undefined,
  } satisfies RouteLog;
}
