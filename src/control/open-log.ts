// Which log the versions of the route table go into: the file that was named, one beside the routes file, or memory. Knows
// nothing of what a log does.
import { constants } from 'node:fs';
import { access, open } from 'node:fs/promises';
import { CannotStart } from '../base/cannot-start.js';
import type { RouteLog } from './control.js';
import { fileLog } from './file-log.js';
import { memoryLog } from './memory-log.js';

export interface OpenLogOptions {
  /** The routes file. */
  readonly file: string | undefined;
  /** The log's own file, where one is named. */
  readonly log: string | undefined;
  /** One line for the operator. */
  tell(level: 'info' | 'warn', line: string): void;
}

export const besideFile = (file: string): string => `${file}.history.jsonl`;

/** @throws CannotStart where the named file can't be one or be made; a full or read-only disk is for the control to tell. */
export async function openRouteLog({ file, log, tell }: OpenLogOptions): Promise<RouteLog> {
  if (log !== undefined) {
    const fault = await appendable(log);
    const kept = fault !== null && (await there(log));
    if (fault && (MISNAMED.has(fault) || (DENIED.has(fault) && !kept))) {
      throw new CannotStart([
        `--routes-log: can't write ${log} (${fault}); name a file in a folder that this user may write`,
      ]);
    }
    if (fault && kept) tell('warn', `${log} ${unwritable(fault)}`);
    return fileLog(log);
  }
  if (file === undefined) {
    tell('info', 'neither --routes nor --routes-log is given: changes of routes are lost at a restart');
    return memoryLog();
  }
  const beside = besideFile(file);
  const fault = await appendable(beside);
  if (!fault) return fileLog(beside);
  // What it holds rules all the same; changes are refused until it can be written.
  if (await there(beside)) {
    tell('warn', `${beside} ${unwritable(fault)}`);
    return fileLog(beside);
  }
  tell(
    'warn',
    `${beside} can't be written (${fault}): changes of routes are lost at a restart; name a file with --routes-log`,
  );
  return memoryLog();
}

const unwritable = (fault: string): string =>
  `can't be written (${fault}): routes can't be set until it can; name another with --routes-log`;

const MISNAMED: ReadonlySet<string> = new Set(['ENOENT', 'ENOTDIR', 'EISDIR', 'ENAMETOOLONG']);
/** What such a file holds rules all the same; where there is none, none can be made. */
const DENIED: ReadonlySet<string> = new Set(['EACCES', 'EPERM']);

/** Null where it can be appended to; otherwise the system's error. */
async function appendable(path: string): Promise<string | null> {
  try {
    const handle = await open(path, constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT, 0o640);
    await handle.close();
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}

const there = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
