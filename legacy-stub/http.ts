// The few pieces of HTTP that the legacy's REST needs: JSON in and out, cross-origin headers, static files.
// Knows no route.
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { extname, normalize, sep } from 'node:path';
import { pipeline } from 'node:stream';
import { fileURLToPath } from 'node:url';

/** Ends a request with this status and `{ error }`. */
export class HttpError extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const MAX_JSON = 1 << 20;

export function sendJson(
  res: ServerResponse,
  status: number,
  body: object,
  headers: Record<string, string> = {},
): void {
  const text = JSON.stringify(body);
  res.writeHead(status, {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
    ...headers,
  });
  res.end(text);
}

/** The JSON object of a request's body, of at most 1 MiB. Throws HttpError 400 or 413. */
export async function readJson(req: IncomingMessage): Promise<Record<string, unknown>> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of bodyOf(req)) {
    size += chunk.length;
    if (size > MAX_JSON) throw new HttpError(413, 'body too large');
    chunks.push(chunk);
  }
  let value: unknown;
  try {
    value = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    throw new HttpError(400, 'body must be JSON');
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new HttpError(400, 'body must be a JSON object');
  }
  return value as Record<string, unknown>;
}

/** The chunks of a body; a request that is refused in the middle stays open for the answer. */
export function bodyOf(req: IncomingMessage): AsyncIterable<Buffer> {
  return req.iterator({ destroyOnReturn: false });
}

/** Cross-origin headers for the one allowed origin. True where the request was a preflight and has been answered. */
export function cors(req: IncomingMessage, res: ServerResponse, origin: string | undefined): boolean {
  if (origin === undefined || req.headers.origin === undefined) return false;
  res.setHeader('access-control-allow-origin', origin);
  if (origin !== '*') {
    res.setHeader('vary', 'Origin');
    res.setHeader('access-control-allow-credentials', 'true');
  }
  if (req.method !== 'OPTIONS') return false;
  res.setHeader('access-control-allow-methods', 'GET, POST, HEAD');
  res.setHeader('access-control-allow-headers', 'authorization, content-type, range');
  res.writeHead(204).end();
  return true;
}

const TYPES: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.map': 'application/json',
};

/** Sends `path` from below `root`; false where there is no such file, or where it would lie outside. */
export async function sendStatic(req: IncomingMessage, res: ServerResponse, root: URL, path: string): Promise<boolean> {
  const base = normalize(fileURLToPath(root));
  if (path.includes('\0')) return false;
  const file = normalize(base + sep + (path.endsWith('/') ? `${path}index.html` : path));
  if (!file.startsWith(base.endsWith(sep) ? base : base + sep)) return false;
  const found = await stat(file).catch(() => undefined);
  if (!found?.isFile()) return false;
  res.writeHead(200, {
    'content-type': TYPES[extname(file)] ?? 'application/octet-stream',
    'content-length': found.size,
    'cache-control': 'no-cache',
  });
  if (req.method === 'HEAD') res.end();
  else pipeline(createReadStream(file), res, () => undefined); // a browser that leaves in the middle is no failure
  return true;
}
