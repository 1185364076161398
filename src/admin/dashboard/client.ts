// Asks the admin API over `fetch`. Knows who the operator is; knows nothing of what is shown or of any single path.
import type { ErrorBody } from '../api.js';

export interface Credentials {
  readonly token: string | null;
  /** Where the API wants no token: under which name changes are logged; sent with these only. */
  readonly actor: string | null;
}

export interface Client {
  get<T>(path: string): Promise<T>;
  post<T>(path: string, body: object): Promise<T>;
  /** The bytes of a Server-Sent Events answer. Rejects as `get` does. */
  stream(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** The API said no. */
export class Refused extends Error {
  readonly status: number;
  /** `conflict`, `unauthorized`, …: see `ErrorBody`. */
  readonly code: string;
  /** One line each, to show as they are. */
  readonly problems: readonly string[];
  /** With `conflict`: the version in force. */
  readonly current: number | undefined;
  /** The API's own answer, not that of somebody between us and it. */
  readonly ours: boolean;

  constructor(status: number, body: Partial<ErrorBody>) {
    const problems = body.problems?.length ? body.problems : [`The admin listener answered ${status}.`];
    super(problems[0]);
    this.status = status;
    this.ours = body.error !== undefined;
    this.code = body.error ?? 'unknown';
    this.problems = problems;
    this.current = body.current;
  }
}

/** Longer than any answer takes that is of use; the listener itself gives up on a request after less. */
const PATIENCE_MS = 10_000;

/**
 * @param onUnauthorized is told of every 401, with the token that was refused; the call rejects with `Refused` all the same.
 * @param base where the page lies; paths are relative to it.
 */
export function createClient(
  credentials: () => Credentials,
  onUnauthorized: (token: string | null) => void,
  base: string = document.baseURI,
): Client {
  async function ask(path: string, init: RequestInit): Promise<Response> {
    const { token, actor } = credentials();
    const headers = new Headers(init.headers);
    headers.set('x-sigfig-client', 'dashboard');
    if (token) headers.set('authorization', `Bearer ${token}`);
    // A name that the API takes from nobody is refused where it was typed, and keeps no figure away.
    else if (actor && init.method === 'POST') headers.set('x-sigfig-actor', actor);
    const response = await fetch(new URL(path, base), { ...init, headers, cache: 'no-store', redirect: 'error' });
    if (response.ok) return response;
    const refused = new Refused(response.status, await bodyOf(response));
    if (response.status === 401) onUnauthorized(token);
    throw refused;
  }
  const soon = () => AbortSignal.timeout(PATIENCE_MS);
  return {
    async get<T>(path: string) {
      return (await (await ask(path, { signal: soon() })).json()) as T;
    },
    async post<T>(path: string, body: object) {
      const headers = { 'content-type': 'application/json' };
      const init = { method: 'POST', headers, body: JSON.stringify(body), signal: soon() };
      return (await (await ask(path, init)).json()) as T;
    },
    async stream(path, signal) {
      const { body } = await ask(path, { signal, headers: { accept: 'text/event-stream' } });
      if (!body) throw new TypeError('an answer without a body');
      return body;
    },
  };
}

/** What went wrong, in lines to show; `change`: of a request that may have changed something, `where` that shows. */
export function problemsOf(error: unknown, change = false, where = 'the history'): readonly string[] {
  if (error instanceof Refused) return error.problems;
  const unknown = ` Whether the change was made shows in ${where} once it is back.`;
  return [`The admin listener could not be reached.${change ? unknown : ''}`];
}

async function bodyOf(response: Response): Promise<Partial<ErrorBody>> {
  try {
    const body: unknown = await response.json();
    return typeof body === 'object' && body !== null ? body : {};
  } catch {
    return {}; // somebody between us and the API answered with a page of their own; the status says enough
  }
}
