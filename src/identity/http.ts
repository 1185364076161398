// One bounded HTTP question: a time limit, a size limit, and faults that can be shown because they hold no token.
// Knows nothing of what is asked.
import { type Dispatcher, request } from 'undici';

export interface Answer {
  readonly status: number;
  readonly body: string;
}

export interface Question {
  readonly method?: 'GET' | 'POST';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the whole answer, body included. */
  readonly timeoutMs: number;
  /** A longer body is a fault. */
  readonly mostBytes: number;
  readonly dispatcher?: Dispatcher | undefined;
}

/**
 * Never follows a redirect: a token must not reach another host. Rejects on network faults, lateness and size. Asks once
 * more where the connection broke: the other side may have given up a kept one in that very moment, and all questions
 * here only read.
 */
export async function ask(url: URL, question: Question): Promise<Answer> {
  const signal = AbortSignal.timeout(question.timeoutMs);
  try {
    return await askOnce(url, question, signal);
  } catch (error) {
    if (!BROKEN.has((error as NodeJS.ErrnoException).code)) throw error;
    return await askOnce(url, question, signal);
  }
}

const BROKEN: ReadonlySet<unknown> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

async function askOnce(url: URL, question: Question, signal: AbortSignal): Promise<Answer> {
  const response = await request(url, {
    method: question.method ?? 'GET',
    headers: { accept: 'application/json', ...question.headers },
    body: question.body ?? null,
    signal,
    ...(question.dispatcher ? { dispatcher: question.dispatcher } : {}),
  });
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of response.body as AsyncIterable<Buffer>) {
    size += part.length;
    // Leaving the loop destroys the body, and with it the connection.
    if (size > question.mostBytes) throw new Error(`its answer is over ${question.mostBytes} bytes`);
    parts.push(part);
  }
  return { status: response.statusCode, body: Buffer.concat(parts).toString('utf8') };
}

/**
 * What went wrong, in words that may be shown. Codes where there are any: messages of the system's could quote what was
 * sent, so only our own (plain `Error`s without a code) are passed on.
 */
export function faultOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown fault';
  if (error.name === 'TimeoutError' || error.name === 'AbortError') return 'no answer in time';
  const code = (error as NodeJS.ErrnoException).code;
  if (typeof code === 'string') return code;
  return error.constructor === Error ? error.message : error.name;
}

/** An absolute URL as it is; a path under a base that may have a path itself; null where there is no base. */
export function placed(urlOrPath: string, base: URL | null): URL | null {
  if (!urlOrPath.startsWith('/')) return new URL(urlOrPath);
  return base && new URL(base.pathname.replace(/\/+$/, '') + urlOrPath, base.origin);
}

/** JSON, or undefined for what is none: no schema matches that. */
export function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return undefined; // Not JSON, which is the answer.
  }
}
