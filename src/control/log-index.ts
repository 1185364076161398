// Where the versions stand in a log file of JSON lines, found without parsing them: only the number at a line's start is read.
// Knows nothing of what a version says.
import type { FileHandle } from 'node:fs/promises';

export interface Line {
  readonly offset: number;
  /** Bytes, without the line's end. */
  readonly length: number;
  /** Null: no line of a version. */
  readonly version: number | null;
}

/** Where a version's line begins. */
export interface Place {
  readonly version: number;
  readonly offset: number;
}

const CHUNK = 256 * 1024;
/** Two of the largest tables (256 Ki characters each, up to three bytes a character) and what goes with them. */
const LONGEST_LINE = 2 * 1024 * 1024;
const HEAD = /^\{"version":([1-9]\d{0,14}),/;
/** Bytes of a line that can hold its number. */
const HEAD_BYTES = 32;

/** Whole lines from `from` on, which must be a line's start; half a line at the end is none. Holds one chunk at a time. */
export async function* linesOf(handle: FileHandle, from: number): AsyncGenerator<Line> {
  const chunk = Buffer.allocUnsafe(CHUNK);
  let start = from;
  let position = from;
  let head = '';
  let lastByte = 0;
  for (;;) {
    const { bytesRead } = await handle.read(chunk, 0, CHUNK, position);
    if (bytesRead === 0) return;
    let at = 0;
    while (at < bytesRead) {
      const end = chunk.indexOf(0x0a, at);
      const stop = end < 0 || end >= bytesRead ? bytesRead : end;
      if (head.length < HEAD_BYTES) head += chunk.toString('latin1', at, Math.min(stop, at + HEAD_BYTES - head.length));
      if (stop > at) lastByte = chunk[stop - 1] as number;
      if (stop === bytesRead) break;
      const length = position + stop - start;
      const number = HEAD.exec(head)?.[1];
      const whole = number !== undefined && lastByte === 0x7d && length <= LONGEST_LINE;
      yield { offset: start, length, version: whole ? Number(number) : null };
      start += length + 1;
      head = '';
      lastByte = 0;
      at = stop + 1;
    }
    position += bytesRead;
  }
}

/** Every so many versions one offset is kept: a million versions are 16,000 numbers. */
const STEP = 64;

export class LogIndex {
  /** The highest number so far; 0 where there is none. */
  last = 0;
  /** Behind the last whole line. */
  end = 0;
  lines = 0;
  #count = 0;
  readonly #marks: Place[] = [];

  /** `late`: a line that lost a race with another of its number, or came after a higher one. */
  add(line: Line): 'version' | 'late' | 'garbage' {
    this.end = line.offset + line.length + 1;
    this.lines++;
    if (line.version === null) return line.length === 0 ? 'late' : 'garbage';
    if (line.version <= this.last) return 'late';
    if (this.#count++ % STEP === 0) this.#marks.push({ version: line.version, offset: line.offset });
    this.last = line.version;
    return 'version';
  }

  /** Forgets what stands behind a line. */
  backTo(line: Line): void {
    this.end = line.offset + line.length + 1;
    this.last = line.version ?? this.last;
    while ((this.#marks.at(-1)?.version ?? 0) > this.last) this.#marks.pop();
  }

  /** A place at or before the line of this version. */
  before(version: number): Place {
    return this.#marks.findLast((mark) => mark.version <= version) ?? this.#marks[0] ?? { version: 1, offset: 0 };
  }
}
