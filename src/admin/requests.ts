// What operators may ask, checked at the door: bodies and query parameters become typed values, or one line for each thing
// that is wrong. Knows no HTTP and nothing of what is done with it.
import { z } from 'zod';
import type { LiveCall } from '../signaling/live.js';

/** Entries of one list; a whole routes file has at most 256 KiB, and so has a body. */
const MOST_LISTED = 10_000;
const LONGEST_NAME = 256;
const LONGEST_REASON = 500;

/** White space becomes one blank; what a terminal would act on is refused: reasons are shown there, and stay in the log. */
const oneLine = (what: string, longest: number, example: string) =>
  z
    .string({ error: `${what} must be a text, such as ${example}` })
    .transform((text) => text.replace(/\s+/g, ' ').trim())
    .refine((text) => text !== '', `${what} is empty; write ${example}`)
    .refine((text) => text.length <= longest, `${what} is over ${longest} characters; make it shorter`)
    .refine((text) => !/\p{Cc}|\p{Cf}/u.test(text), `${what} has control characters; write plain text`);

const reason = oneLine('reason', LONGEST_REASON, '"raise the canary after a calm hour"').optional();
const whole = (what: string) => z.int({ error: `${what} must be a whole number` }).min(1, `${what} must be 1 or more`);
const flag = (what: string) => z.boolean({ error: `${what} must be true or false` }).optional();
const change = { reason, ifVersion: whole('ifVersion').optional(), dryRun: flag('dryRun') };

const name = (what: string) =>
  z
    .string({ error: `${what} must be a text` })
    .min(1, `${what} is empty`)
    .max(LONGEST_NAME, `${what} is over ${LONGEST_NAME} characters`);
const names = (what: string) =>
  z
    .array(name(`each of ${what}`), { error: `${what} must be a list of texts` })
    .max(MOST_LISTED, `${what} has over ${MOST_LISTED} entries`)
    .optional();
const share = (what: string) =>
  z
    .number({ error: `${what} must be a share from 0 to 1` })
    .min(0, `${what} is below 0`)
    .max(1, `${what} is over 1`);

const guard = z
  .union([
    z.literal('off'),
    z.strictObject({
      windowMs: z.int({ error: 'guard.windowMs must be whole milliseconds' }).min(1_000).max(3_600_000).optional(),
      minSamples: whole('guard.minSamples').optional(),
      maxErrors: share('guard.maxErrors').optional(),
      maxRefusals: share('guard.maxRefusals').optional(),
      maxP99Ms: z.number({ error: 'guard.maxP99Ms must be milliseconds' }).positive().max(3_600_000).optional(),
    }),
  ])
  .optional();

const namespaceName = name('namespace').refine(
  (ns) => /^\/[^\s,?]*$/.test(ns),
  'namespace must begin with / and have no blanks, commas or question marks, such as / or /calls',
);

/** Modes and targets are words of the routing's; it says itself which combinations make no sense. */
export const setRequest = z.strictObject({
  ...change,
  namespace: namespaceName.optional(),
  target: name('target'),
  mode: z.enum(['legacy', 'new', 'canary'], {
    error: ({ input }) =>
      input === 'shadow'
        ? 'mode shadow is planned; this version knows legacy, new and canary'
        : 'mode must be legacy, new or canary',
  }),
  percent: z
    .number({ error: 'percent must be a number from 0 to 100' })
    .min(0, 'percent is below 0; write 0 to 100')
    .max(100, 'percent is over 100; write 0 to 100')
    .refine((n) => Math.abs(n * 100 - Math.round(n * 100)) < 1e-6, 'percent has over two decimals; write 0.25, say')
    .optional(),
  users: names('users'),
  conversations: names('conversations'),
  excludeUsers: names('excludeUsers'),
  excludeConversations: names('excludeConversations'),
  salt: name('salt').optional(),
  sole: flag('sole'),
  fallback: z.enum(['legacy', 'refuse'], { error: 'fallback must be legacy or refuse' }).optional(),
  guard,
});
export const applyRequest = z.strictObject({
  ...change,
  yaml: z.string({ error: 'yaml must be the text of a routes file' }),
  file: oneLine('file', LONGEST_NAME, '"routes.yaml"').optional(),
});
export const rollbackRequest = z.strictObject({
  ...change,
  version: whole('version').optional(),
  endCalls: flag('endCalls'),
});
export const legacyRequest = z.strictObject({ ...change, endCalls: flag('endCalls') });
export const endRequest = z.strictObject({ reason });
export const drainRequest = z.strictObject({
  reason: reason.unwrap(),
  cancel: flag('cancel'),
  force: flag('force'),
});

/** A whole number as a query parameter. */
const count = (what: string, most: number) =>
  z
    .string()
    .regex(/^\d{1,15}$/, `${what} must be a whole number`)
    .transform(Number)
    .refine((n) => n >= 1 && n <= most, `${what} must be 1 to ${most}`);

export const historyQuery = z.strictObject({
  limit: count('limit', 200).default(50),
  before: count('before', Number.MAX_SAFE_INTEGER).optional(),
});
/** As `LiveCall` has them: a call of the legacy's may be in one that was not seen. */
export const callStates = [
  'OFFERING',
  'CONNECTED',
  'RENEGOTIATING',
  'AWAITING_REJOIN',
  'UNKNOWN',
] as const satisfies readonly LiveCall['state'][];

export const callsQuery = z.strictObject({
  path: z.enum(['new', 'legacy'], { error: 'path must be new or legacy' }).optional(),
  state: z.enum(callStates, { error: `state must be one of ${callStates.join(', ')}` }).optional(),
  search: z.string().max(LONGEST_NAME, `search is over ${LONGEST_NAME} characters`).optional(),
  namespace: namespaceName.optional(),
  limit: count('limit', 500).default(50),
});
export const noQuery = z.strictObject({});

export type SetInput = z.infer<typeof setRequest>;
export type ApplyInput = z.infer<typeof applyRequest>;
export type RollbackInput = z.infer<typeof rollbackRequest>;
export type LegacyInput = z.infer<typeof legacyRequest>;

export type Checked<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problems: readonly string[] };

/** Lines about one request; more are no help. */
const MOST_PROBLEMS = 20;

export function check<S extends z.ZodObject>(schema: S, input: unknown): Checked<z.output<S>> {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    return { ok: false, problems: ['the body is no JSON object; write {"reason": "…"} and what the request needs'] };
  }
  const read = schema.safeParse(input);
  if (read.success) return { ok: true, value: read.data };
  const fields = Object.keys(schema.shape);
  const problems = read.error.issues.flatMap((issue) => lines(issue, fields, input));
  return { ok: false, problems: [...new Set(problems)].slice(0, MOST_PROBLEMS) };
}

function lines(issue: z.core.$ZodIssue, fields: readonly string[], input: object): readonly string[] {
  const at = issue.path.join('.');
  if (issue.code === 'unrecognized_keys') {
    const known = at === '' ? `known are ${fields.join(', ') || 'none'}` : 'see /api/openapi.json';
    return issue.keys.map((key) => `unknown field ${shown(at === '' ? key : `${at}.${key}`)}; ${known}`);
  }
  // Of a choice, what is wrong with the branch that fits the input's kind says most.
  if (issue.code === 'invalid_union') {
    const given = (input as Record<string, unknown>)[at];
    const branch = typeof given === 'object' && given !== null ? issue.errors.at(-1) : undefined;
    if (!branch) return [`${at} must be off, or an object of limits`];
    return branch.flatMap((inner) => lines({ ...inner, path: [...issue.path, ...inner.path] }, fields, input));
  }
  if (issue.path.length > 0 && !(issue.path[0]! in input)) return [`${at} is missing`];
  return [
    issue.message.startsWith(at.split('.')[0]!) || issue.message.startsWith('each')
      ? issue.message
      : `${at}: ${issue.message}`,
  ];
}

/** Words from outside, short and on one line. */
export const shown = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
