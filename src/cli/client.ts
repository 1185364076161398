// Asks the admin API: the operator's token, JSON both ways, and for each thing that can go wrong one line that says what
// works. Knows nothing of commands or of how answers are shown.
import { Agent, type Dispatcher, request } from 'undici';
import type { ErrorBody } from '../admin/api.js';
import type { ClientConfig } from '../config/client.js';
import { type ExitCode, exitCodes, Failure } from './failure.js';

export interface AdminClient {
  /** `needs`: fields without which the answer isn't one of the admin API. */
  get<T>(path: string, needs: readonly (keyof T & string)[]): Promise<T>;
  post<T>(path: string, body: unknown, needs: readonly (keyof T & string)[]): Promise<T>;
  /** Bytes of Server-Sent Events until the server ends them, the connection breaks (a `Failure`) or `signal` is aborted. */
  stream(path: string, signal: AbortSignal): Promise<AsyncIterable<Buffer>>;
  readonly url: string;
  close(): Promise<void>;
}

const CONNECT_MS = 5_000;
/** A change waits until other instances have confirmed it, a second or so. */
const ANSWER_MS = 15_000;
/** A stream says something each second. */
const SILENCE_MS = 10_000;
/** 500 versions with full lists, both tables of each; more is no answer of ours. */
const MOST_BYTES = 64 * 1024 * 1024;

export interface ClientOptions {
  /** Shown as who makes a change, where the server asks for no token. */
  readonly actor: string;
  /** For a whole answer; by default 15 s. */
  readonly answerMs?: number;
  /** Between two pieces of a stream; by default 10 s. */
  readonly silenceMs?: number;
}

export function adminClient(
  { admin, token }: ClientConfig,
  { actor, answerMs = ANSWER_MS, silenceMs = SILENCE_MS }: ClientOptions,
): AdminClient {
  const dispatcher = new Agent({ connect: { timeout: CONNECT_MS }, headersTimeout: answerMs });
  const headers: Record<string, string> = { accept: 'application/json', 'x-sigfig-client': 'cli' };
  if (token === undefined) headers['x-sigfig-actor'] = actorName(actor);
  else headers.authorization = `Bearer ${token}`;

  async function ask<T>(method: 'GET' | 'POST', path: string, needs: readonly string[], body?: unknown): Promise<T> {
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const more = body === undefined ? {} : { 'content-type': 'application/json' };
    try {
      const response = await request(admin + path, {
        method,
        dispatcher,
        headers: { ...headers, ...more },
        ...sent,
        // The whole answer, so that one that trickles is not waited for without end.
        signal: AbortSignal.timeout(answerMs),
      });
      const answer = parsed(await whole(response.body));
      if (response.statusCode !== 200) throw refusal(admin, response, answer, token !== undefined);
      if (!holds(answer, needs)) throw stranger(admin, response.statusCode);
      return answer as T;
    } catch (error) {
      throw error instanceof Failure ? error : unreachable(admin, error, method === 'POST' ? shownBy(path) : null);
    }
  }

  return {
    url: admin,
    get: (path, needs) => ask('GET', path, needs),
    post: (path, body, needs) => ask('POST', path, needs, body),
    async stream(path, signal) {
      try {
        const response = await request(admin + path, {
          method: 'GET',
          dispatcher,
          headers: { ...headers, accept: 'text/event-stream' },
          bodyTimeout: silenceMs,
          signal,
        });
        const type = String(response.headers['content-type'] ?? '');
        if (response.statusCode === 200 && type.startsWith('text/event-stream')) {
          return readable(admin, response.body);
        }
        if (response.statusCode === 200) {
          response.body.destroy();
          throw stranger(admin, 200);
        }
        throw refusal(admin, response, parsed(await whole(response.body)), token !== undefined);
      } catch (error) {
        throw error instanceof Failure ? error : unreachable(admin, error, null);
      }
    },
    close: () => dispatcher.destroy(),
  };
}

async function* readable(admin: string, body: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  try {
    yield* body;
  } catch (error) {
    throw unreachable(admin, error, null);
  }
}

/** Header values are ASCII, and the server takes 64 characters. */
const actorName = (name: string): string => name.replace(/[^!-~]/g, '').slice(0, 64) || 'cli';

async function whole(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body) {
    size += chunk.length;
    if (size > MOST_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Undefined: no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Told apart by the caller, who knows the status.
    return undefined;
  }
}

const holds = (answer: unknown, fields: readonly string[]): boolean =>
  typeof answer === 'object' && answer !== null && fields.every((field) => field in answer);

function isErrorBody(answer: unknown): answer is ErrorBody {
  if (!holds(answer, ['error', 'problems'])) return false;
  const { error, problems } = answer as Record<string, unknown>;
  return (
    typeof error === 'string' &&
    Array.isArray(problems) &&
    problems.length > 0 &&
    problems.every((line) => typeof line === 'string')
  );
}

function refusal(admin: string, response: Dispatcher.ResponseData, answer: unknown, hasToken: boolean): Failure {
  const { statusCode } = response;
  const body = isErrorBody(answer) ? answer : undefined;
  if (statusCode === 401 || statusCode === 403) {
    const said = body?.problems ?? [`${admin} answers ${statusCode}`];
    const works =
      statusCode === 403
        ? []
        : hasToken
          ? ['the token that was given is not one of them; name its file by --token-file or SIGFIG_TOKEN_FILE']
          : ['no token was given; name a file that holds it alone by --token-file, or set SIGFIG_TOKEN_FILE'];
    return new Failure(exitCodes.unauthorized, body?.error ?? 'unauthorized', [...said, ...works]);
  }
  // What reads heads refuses one before the API sees it, and says nothing more.
  if (statusCode === 431 && !body) {
    return new Failure(exitCodes.refused, 'too-large', [
      `${admin} takes no request with a head as long as this one; give an id as "sigfig calls list" shows it, and a token of at most 512 characters`,
    ]);
  }
  if (!body) return stranger(admin, statusCode);
  return new Failure(CODES[body.error] ?? exitCodes.refused, body.error, body.problems, body.current);
}
const CODES: Readonly<Record<string, ExitCode>> = {
  conflict: exitCodes.conflict,
  // As where no answer came: scripts must look before they try again.
  'not-known': exitCodes.unreachable,
};

const stranger = (admin: string, statusCode: number): Failure =>
  new Failure(exitCodes.unreachable, 'unreachable', [
    `${admin} answers (${statusCode}), but not as sigfig's admin API does; give the address that "sigfig start" was told ` +
      'by --admin, not the one of browsers or metrics',
  ]);

/** The command that shows whether what was asked for is made. */
const shownBy = (path: string): string =>
  path.startsWith('/api/routes/') ? 'routes history' : path.startsWith('/api/calls/') ? 'calls list' : 'status';

/** `shown`: of a change, the command that shows whether it is made. */
function unreachable(admin: string, error: unknown, shown: string | null): Failure {
  const { code = '', name, message } = error as NodeJS.ErrnoException;
  const why = WHY[code] ?? WHY[name] ?? (code || message);
  // Once it was sent, it may have been made.
  const sent = shown !== null && !UNSENT.has(code);
  return new Failure(exitCodes.unreachable, 'unreachable', [
    `can't reach ${admin}: ${why}; give the admin address of a running sigfig by --admin URL or SIGFIG_ADMIN`,
    ...(sent ? [`whether the change was made is not known; "sigfig ${shown}" shows it`] : []),
  ]);
}
const UNTRUSTED = 'its certificate is not trusted; name its CA by NODE_EXTRA_CA_CERTS';
const WHY: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there',
  ECONNRESET: 'it closed the connection without an answer',
  UND_ERR_SOCKET: 'it closed the connection without an answer',
  ENOTFOUND: 'there is no such host',
  EAI_AGAIN: 'the name can not be looked up now',
  EHOSTUNREACH: 'there is no way to that host',
  ENETUNREACH: 'there is no way to that network',
  ETIMEDOUT: 'no answer in time',
  UND_ERR_CONNECT_TIMEOUT: `no connection within ${CONNECT_MS / 1000} s`,
  UND_ERR_HEADERS_TIMEOUT: 'no answer in time',
  UND_ERR_BODY_TIMEOUT: 'nothing comes any more',
  TimeoutError: 'no whole answer in time',
  HTTPParserError: 'it does not speak HTTP',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS; write http:// instead of https://',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS; write http:// instead of https://',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  CERT_HAS_EXPIRED: 'its certificate has expired',
};
const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);
