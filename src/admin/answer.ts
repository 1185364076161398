// What the admin API answers: a body, or a refusal from one catalogue. Knows no HTTP library and no endpoint.
import type { ErrorBody } from './api.js';

export interface Answer {
  readonly status: number;
  /** Becomes JSON. */
  readonly body: object;
  /** The same, where it has been written already. */
  readonly text?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Each refusal and its status; source: the comment at `ErrorBody`, and openapi.yaml. */
export const refusalStatus = {
  invalid: 400,
  unauthorized: 401,
  forbidden: 403,
  'not-found': 404,
  method: 405,
  conflict: 409,
  'legacy-call': 409,
  'too-large': 413,
  'media-type': 415,
  refused: 422,
  'rate-limited': 429,
  internal: 500,
  unavailable: 503,
  unwritable: 503,
  'not-known': 503,
} as const;
export type RefusalCode = keyof typeof refusalStatus;

export const answer = (body: object): Answer => ({ status: 200, body });

/** With its text, which takes longer to write than most to have: whoever gets the same answer gets the same text. */
export const written = (given: Answer): Answer => ({ ...given, text: given.text ?? JSON.stringify(given.body) });

/** `problems`: what is wrong and what works, one line each. */
export function refuse(
  error: RefusalCode,
  problems: readonly string[],
  { current, headers }: { readonly current?: number; readonly headers?: Answer['headers'] } = {},
): Answer {
  const body: ErrorBody = { error, problems, ...(current === undefined ? {} : { current }) };
  return { status: refusalStatus[error], body, ...(headers ? { headers } : {}) };
}
