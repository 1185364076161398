// The dashboard's built files, read once and kept in memory: what isn't in the folder can't be asked for. Knows nothing of
// what they do, and of the API.
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { extname, join } from 'node:path';

export interface Page {
  readonly status: number;
  readonly body: Uint8Array<ArrayBuffer>;
  readonly headers: Readonly<Record<string, string>>;
}

export interface Pages {
  /** By path: `/`, `/assets/index-abc.js`. */
  page(path: string): Page | undefined;
}

/** A built dashboard is a page, a script, a style and an icon; far more is a wrong folder. */
const MOST_FILES = 100;
const MOST_BYTES = 8 * 1024 * 1024;

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.json': 'application/json; charset=utf-8',
};

/** Only its own script, style and answers; in nobody's frame. Source: CSP level 3. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "font-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export const securityHeaders: Readonly<Record<string, string>> = {
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
};

const notBuilt = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>sigfig</title>
<h1>The dashboard is not built</h1>
<p>Run <code>npm run build</code> in the checkout and load this page again. The API is at <code>/api/status</code>,
and <code>sigfig routes list</code> works all the same.</p>
</html>
`;

export function dashboardPages(folder: string): Pages {
  let files: ReadonlyMap<string, Page> | undefined;
  return {
    page(path) {
      if (path !== '/' && !path.startsWith('/assets/')) return undefined;
      // Looked for again as long as it is not there: the build may still run.
      files ??= readPages(folder);
      if (files) return files.get(path === '/' ? '/index.html' : path);
      return path === '/' ? page(503, Buffer.from(notBuilt), '.html', 'no-store') : undefined;
    },
  };
}

function readPages(folder: string): ReadonlyMap<string, Page> | undefined {
  const files = new Map<string, Page>();
  let names: string[];
  try {
    names = readdirSync(folder, { recursive: true, encoding: 'utf8' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  let bytes = 0;
  for (const name of names) {
    const type = extname(name);
    const path = join(folder, name);
    if (!(type in types) || !statSync(path).isFile()) continue;
    const body = readFileSync(path);
    bytes += body.length;
    if (files.size >= MOST_FILES || bytes > MOST_BYTES) throw new Error(`${folder} is too large to be the dashboard`);
    const url = `/${name.replaceAll('\\', '/')}`;
    // Files under /assets have their content's hash in their name.
    const cache = url.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache';
    files.set(url, page(200, body, type, cache));
  }
  return files.has('/index.html') ? files : undefined;
}

function page(status: number, body: Buffer, type: string, cache: string): Page {
  return {
    status,
    body: new Uint8Array(body),
    headers: {
      ...securityHeaders,
      'content-type': types[type] ?? 'application/octet-stream',
      'content-security-policy': policy,
      'cache-control': cache,
    },
  };
}
