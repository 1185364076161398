// Versions of the route table as a file of JSON lines, oldest first: one line and one fsync for each. Several processes may
// append to it, without a lock: of two lines with one number the first counts. Knows nothing of what a table does.
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { RouteVersion } from '../routing/change.js';
import { versionOf } from '../routing/check.js';
import type { RouteLog } from './control.js';
import { type Line, LogIndex, linesOf, type Place } from './log-index.js';

/** Versions kept in memory; the rest is read from the file when somebody pages that far back. */
export const MOST_IN_MEMORY = 1_000;
/** Characters of their lines: a thousand of the largest tables would be half a gigabyte. */
export const MOST_CHARACTERS = 8 * 1024 * 1024;
/** A half line may be one that another process is writing right now. */
const HALF_LINE_MS = 100;
const MOST_PROBLEMS = 5;

/**
 * Nothing is opened before `read`, and no handle stays open between two changes, so that the file may be moved away.
 * `read` throws where the file is there and can't be read, or is no file.
 */
export function fileLog(path: string) {
  let index = new LogIndex();
  // Two processes may have the same to say in the same millisecond: an edit of one routes file.
  const writer = randomUUID();

  /** Looks at what is new behind the index; answers the lines that count. */
  async function scan(handle: FileHandle, problems: string[]): Promise<Line[]> {
    const found: Line[] = [];
    for await (const line of linesOf(handle, index.end)) {
      const kind = index.add(line);
      if (kind === 'version') found.push(line);
      else if (kind === 'garbage' && problems.length < MOST_PROBLEMS) {
        problems.push(`${path}:${index.lines}: is no version of a route table and is passed over`);
      }
    }
    return found;
  }

  async function understood(handle: FileHandle, line: Line, problems: string[]): Promise<RouteVersion | undefined> {
    const text = (await bytes(handle, line.offset, line.length)).toString('utf8');
    const read = versionOf(withoutWriter(jsonOf(text)));
    if (read.ok) return read.version;
    if (problems.length < MOST_PROBLEMS) {
      problems.push(`${path}: version ${line.version} can't be understood and is passed over: ${read.problems[0]}`);
    }
    return undefined;
  }

  /** The last of `lines` that fit into memory, oldest first. */
  async function newest(handle: FileHandle, lines: readonly Line[], most: number, problems: string[]) {
    const versions: RouteVersion[] = [];
    let room = MOST_CHARACTERS;
    for (const line of lines.slice(-most).reverse()) {
      room -= line.length;
      if (room < 0 && versions.length > 0) break;
      const version = await understood(handle, line, problems);
      if (version) versions.push(version);
    }
    return versions.reverse();
  }

  return {
    where: path,

    async read() {
      index = new LogIndex();
      const problems: string[] = [];
      const handle = await open(path, 'r').catch(absent);
      if (!handle) return { versions: [], last: 0, problems };
      try {
        await regular(handle, path);
        const lines = await scan(handle, problems);
        if ((await handle.stat()).size > index.end)
          lines.push(...(await cutHalfLine(handle, path, index, problems, scan)));
        const versions = await newest(handle, lines, MOST_IN_MEMORY, problems);
        return { versions, last: index.last, problems };
      } finally {
        await handle.close();
      }
    },

    async older(limit: number, before: number): Promise<readonly RouteVersion[]> {
      const handle = await open(path, 'r').catch(absent);
      if (!handle) return [];
      try {
        // Numbers may be left out, so that many versions can lie further back than as many numbers.
        let lines: Line[] = [];
        for (let back = limit; lines.length < limit; back *= 4) {
          lines = await linesBelow(handle, index.before(before - back), before, limit);
          if (before - back <= 1) break;
        }
        return (await newest(handle, lines, limit, [])).reverse();
      } finally {
        await handle.close();
      }
    },

    async append(version: RouteVersion): Promise<{ readonly conflict?: readonly RouteVersion[] }> {
      const { O_RDWR, O_APPEND, O_CREAT } = constants;
      const handle = await open(path, O_RDWR | O_APPEND | O_CREAT, 0o640);
      try {
        await regular(handle, path);
        let { size } = await handle.stat();
        // Somebody has shortened or replaced it: what is there now counts.
        if (size < index.end) index = new LogIndex();
        const created = size === 0;
        const ignored: string[] = [];
        const theirs = await scan(handle, ignored);
        if (index.last >= version.version) {
          const conflict = await newest(handle, theirs, MOST_IN_MEMORY, ignored);
          if (conflict.length > 0) return { conflict };
          throw new Error(
            `it holds a version ${index.last} that can't be understood; move the file away to start anew`,
          );
        }
        ({ size } = await handle.stat());
        // Half a line of somebody else's: ours must not become its end.
        const text = `${size > index.end ? '\n' : ''}${lineOf(version, writer)}`;
        await written(handle, text, size);
        if (created) await syncFolder(path);
        const ours = await scan(handle, ignored);
        const first = ours.find((line) => line.version === version.version);
        if (
          first &&
          (await bytes(handle, first.offset, first.length)).toString('utf8') === lineOf(version, writer).trimEnd()
        ) {
          // What others have put behind it is found, and answered, at the next append.
          index.backTo(first);
          return {};
        }
        const conflict = await newest(handle, ours, MOST_IN_MEMORY, ignored);
        if (conflict.length > 0) return { conflict };
        throw new Error('the line was not there after it was written');
      } finally {
        await handle.close();
      }
    },

    close: async () => undefined,
  } satisfies RouteLog;
}

/** The last `limit` lines of versions below `before`, oldest first, from a place in the file on. */
async function linesBelow(handle: FileHandle, from: Place, before: number, limit: number): Promise<Line[]> {
  const lines: Line[] = [];
  let last = from.version - 1;
  for await (const line of linesOf(handle, from.offset)) {
    if (line.version === null || line.version <= last) continue;
    if (line.version >= before) break;
    last = line.version;
    lines.push(line);
    if (lines.length > limit) lines.shift();
  }
  return lines;
}

/** The number stands first: the index looks no further. */
const lineOf = ({ version, ...rest }: RouteVersion, writer: string): string =>
  `${JSON.stringify({ version, ...rest, writer })}\n`;

/** Who wrote a line says only which of two with one number is whose. */
function withoutWriter(json: unknown): unknown {
  if (typeof json !== 'object' || json === null || !('writer' in json)) return json;
  const { writer: _, ...rest } = json;
  return rest;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // Told as what it is: no version.
    return error;
  }
}

/** Durable, or as if nothing had been written: a full disk takes half of a line before it says so. */
async function written(handle: FileHandle, text: string, size: number): Promise<void> {
  try {
    await handle.writeFile(text);
    await handle.sync();
  } catch (error) {
    // Where even that fails, the half line stays and the next append begins a line of its own behind it.
    await handle
      .stat()
      .then((now) => (now.size <= size + Buffer.byteLength(text) ? handle.truncate(size) : undefined))
      .catch(() => undefined);
    throw error;
  }
}

/** After a crash in mid-write. What stands before it is untouched, and so is what another process is writing. */
async function cutHalfLine(
  handle: FileHandle,
  path: string,
  index: LogIndex,
  problems: string[],
  scan: (handle: FileHandle, problems: string[]) => Promise<Line[]>,
): Promise<Line[]> {
  const more: Line[] = [];
  for (let looks = 0; looks < MOST_LOOKS; looks++) {
    const { size } = await handle.stat();
    if (size === index.end) return more;
    const { end } = index;
    await new Promise((resolve) => setTimeout(resolve, HALF_LINE_MS));
    more.push(...(await scan(handle, problems)));
    if (index.end !== end || (await handle.stat()).size !== size) continue;
    const how = await cut(path, end, size);
    problems.push(
      `${path}: ends in half a line of ${size - end} bytes, as after a crash; it ${how}, nothing before it is lost`,
    );
    return more;
  }
  return more;
}
/** A file that grows all the time ends in what others are writing. */
const MOST_LOOKS = 10;

async function cut(path: string, end: number, size: number): Promise<string> {
  try {
    const handle = await open(path, 'r+');
    try {
      if ((await handle.stat()).size !== size) return 'was left to another process, which has appended to it';
      await handle.truncate(end);
      await handle.sync();
    } finally {
      await handle.close();
    }
    return 'was cut off';
  } catch (error) {
    return `is passed over (it can't be cut off: ${(error as NodeJS.ErrnoException).code})`;
  }
}

async function bytes(handle: FileHandle, offset: number, length: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(length);
  let have = 0;
  while (have < length) {
    const { bytesRead } = await handle.read(buffer, have, length - have, offset + have);
    if (bytesRead === 0) break;
    have += bytesRead;
  }
  return buffer.subarray(0, have);
}

/** A device or a pipe has no end to read to. */
async function regular(handle: FileHandle, path: string): Promise<void> {
  if (!(await handle.stat()).isFile()) {
    throw Object.assign(new Error(`${path} is no file`), { code: 'is no file' });
  }
}

/** The file's own fsync does not make its name durable. Some file systems (network ones) know no fsync of a folder. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(dirname(path), 'r');
  try {
    await folder.sync();
  } catch (error) {
    if (!NO_FOLDER_SYNC.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
  } finally {
    await folder.close();
  }
}
const NO_FOLDER_SYNC: ReadonlySet<string> = new Set(['EINVAL', 'ENOTSUP', 'EPERM']);

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
