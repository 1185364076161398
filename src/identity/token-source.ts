// Where a browser's token stands: the CONNECT packet's auth, the query, a cookie or a header, several in order.
// Knows nothing of what a token means.
import type { IncomingHttpHeaders } from 'node:http';

export interface TokenSource {
  readonly from: 'auth' | 'query' | 'cookie' | 'header';
  readonly name: string;
}

/** What a connection brought: `auth` of the CONNECT packet as parsed, the handshake's URL (path and query) and headers. */
export interface TokenBearer {
  readonly auth: unknown;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

/** The first source that holds a token wins; undefined where none does. */
export function readToken(sources: readonly TokenSource[], bearer: TokenBearer): string | undefined {
  for (const source of sources) {
    const token = readOne(source, bearer);
    if (typeof token === 'string' && token !== '') return token;
  }
  return undefined;
}

/**
 * Reads `auth.token`, `query.token`, `cookie.session` or `header.authorization`.
 * @throws Error of one clear line for anything else.
 */
export function parseTokenSource(text: string): TokenSource {
  const match = /^(auth|query|cookie|header)\.(.+)$/.exec(text.trim());
  if (!match) throw new Error(`token source "${text}" is not one of auth.NAME, query.NAME, cookie.NAME, header.NAME`);
  const from = match[1] as TokenSource['from'];
  const name = match[2] as string;
  return { from, name: from === 'header' ? name.toLowerCase() : name };
}

function readOne({ from, name }: TokenSource, { auth, url, headers }: TokenBearer): unknown {
  switch (from) {
    case 'auth':
      return typeof auth === 'object' && auth !== null && Object.hasOwn(auth, name)
        ? (auth as Record<string, unknown>)[name]
        : undefined;
    case 'query': {
      const mark = url?.indexOf('?') ?? -1;
      return mark < 0 ? undefined : new URLSearchParams(url?.slice(mark + 1)).get(name);
    }
    case 'cookie':
      return readCookie(headers.cookie, name);
    case 'header': {
      const value = headers[name];
      const first = Array.isArray(value) ? value[0] : value;
      return name === 'authorization' ? first?.replace(/^Bearer +/i, '').trim() : first;
    }
  }
}

/** RFC 6265 section 5.4; the first of two cookies of one name counts, as in the `cookie` package. */
function readCookie(header: string | undefined, name: string): string | undefined {
  for (const pair of header?.split(';') ?? []) {
    const equals = pair.indexOf('=');
    if (equals < 0 || pair.slice(0, equals).trim() !== name) continue;
    const value = pair
      .slice(equals + 1)
      .trim()
      .replace(/^"(.*)"$/, '$1');
    try {
      return decodeURIComponent(value);
    } catch {
      return value; // Not percent-encoded: the bytes are the value.
    }
  }
  return undefined;
}
