// Uploaded files: streamed to a directory of this process's own and back out again, whole or one range of them.
// Knows nothing of who may see which.
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import { pipeline as finished } from 'node:stream/promises';
import { bodyOf, HttpError } from './http.js';

export interface StoredFile {
  readonly id: string;
  readonly size: number;
  readonly sha256: string;
  readonly type: string;
}

export interface Files {
  /** Streams a request's body into a file. Throws HttpError 413 where it is over the limit. */
  save(req: IncomingMessage): Promise<StoredFile>;
  /** Streams a file out, or the range that the request asks for. Throws HttpError 404 or 416. */
  send(req: IncomingMessage, res: ServerResponse, id: string): void;
  close(): Promise<void>;
}

/** Files kept; the oldest is deleted when there is one more. */
const MAX_FILES = 1_000;

export function createFiles(maxBytes: number): Files {
  const stored = new Map<string, StoredFile>();
  let directory: Promise<string> | undefined;
  const home = () => {
    directory ??= mkdtemp(join(tmpdir(), 'legacy-stub-'));
    return directory;
  };

  return {
    async save(req) {
      const tooLarge = new HttpError(413, `a file may have at most ${maxBytes} bytes`);
      if (Number(req.headers['content-length'] ?? 0) > maxBytes) throw tooLarge;
      const id = randomUUID();
      const path = join(await home(), id);
      const hash = createHash('sha256');
      let size = 0;
      const measured = async function* () {
        for await (const chunk of bodyOf(req)) {
          size += chunk.length;
          if (size > maxBytes) throw tooLarge;
          hash.update(chunk);
          yield chunk;
        }
      };
      try {
        await finished(measured, createWriteStream(path));
      } catch (error) {
        await rm(path, { force: true });
        throw error;
      }
      const type = req.headers['content-type'] ?? 'application/octet-stream';
      const file = { id, size, sha256: hash.digest('hex'), type };
      stored.set(id, file);
      if (stored.size > MAX_FILES) {
        const [oldest] = stored.keys();
        if (oldest !== undefined && stored.delete(oldest)) await rm(join(await home(), oldest), { force: true });
      }
      return file;
    },

    send(req, res, id) {
      const file = stored.get(id);
      if (!file || !directory) throw new HttpError(404, 'no such file');
      const range = rangeOf(req.headers.range, file.size);
      if (range === 'unsatisfiable') {
        res.setHeader('content-range', `bytes */${file.size}`);
        throw new HttpError(416, 'no such range');
      }
      const { start, end } = range ?? { start: 0, end: file.size - 1 };
      res.writeHead(range ? 206 : 200, {
        // Never the uploader's type: a page from an upload would run in this origin.
        'content-type': 'application/octet-stream',
        'content-disposition': 'attachment',
        'content-length': end - start + 1,
        'accept-ranges': 'bytes',
        etag: `"${file.sha256}"`,
        ...(range ? { 'content-range': `bytes ${start}-${end}/${file.size}` } : {}),
      });
      if (req.method === 'HEAD' || file.size === 0) {
        res.end();
        return;
      }
      void directory.then((home) => {
        pipeline(createReadStream(join(home, id), { start, end }), res, () => undefined); // a reader may leave early
      });
    },

    async close() {
      if (directory) await rm(await directory, { recursive: true, force: true });
    },
  };
}

/** One `bytes=` range (RFC 9110, 14.1.2); several ranges or another unit are answered with the whole file. */
function rangeOf(
  header: string | undefined,
  size: number,
): { start: number; end: number } | 'unsatisfiable' | undefined {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header ?? '');
  if (!match || (match[1] === '' && match[2] === '')) return undefined;
  const [first, last] = [match[1] ?? '', match[2] ?? ''];
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1);
  return start > end || start >= size ? 'unsatisfiable' : { start, end };
}
