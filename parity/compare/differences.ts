// The accepted differences: what one path does differently from the expectation, on purpose, with the reason. Each says
// exactly what comes instead, so that nothing else hides behind it. Knows nothing of how they are shown.
import { readFileSync } from 'node:fs';
import { LineCounter, parseDocument } from 'yaml';
import { z } from 'zod';
import { type Report, readOutcome } from '../read.js';
import { type Outcome, type Transport, transports } from '../scenario.js';

export interface AcceptedDifference {
  readonly scenario: string;
  readonly path: string;
  /** Undefined: on every transport. */
  readonly transport: Transport | undefined;
  readonly what: string;
  readonly why: string;
  /** A date. */
  readonly since: string;
  /** It need not occur each time: a race decides. */
  readonly sometimes: boolean;
  /** By device what comes instead of what the scenario expects; several where a race has several. */
  readonly outcomes: readonly Outcome[];
}

const difference = z.strictObject({
  scenario: z.string(),
  path: z.string(),
  transport: z.enum(transports).optional(),
  what: z.string().min(1),
  why: z.string().min(1),
  since: z.string().regex(/^\d{4}-\d\d-\d\d$/, 'must be a date such as "2026-12-01"'),
  sometimes: z.literal(true).optional(),
  instead: z.union([z.record(z.string(), z.unknown()), z.array(z.record(z.string(), z.unknown())).min(2)]),
});

export function readDifferences(
  text: string,
  file: string,
): { readonly differences: readonly AcceptedDifference[]; readonly problems: readonly string[] } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, merge: true });
  const problems: string[] = [];
  for (const error of document.errors) {
    problems.push(`${file}:${error.linePos?.[0].line ?? 1}: ${error.message.split('\n')[0]}; mend the YAML`);
  }
  const list: unknown = problems.length > 0 ? [] : (document.toJS({ maxAliasCount: 10_000 }) ?? []);
  if (!Array.isArray(list)) return { differences: [], problems: [`${file}:1: must be a list of differences`] };
  const differences = list.flatMap((one: unknown, i): AcceptedDifference[] => {
    const node = document.getIn([i], true) as { range?: [number] } | undefined;
    const line = lines.linePos(node?.range?.[0] ?? 0).line;
    const report: Report = (path, problem) => void problems.push(`${file}:${line}: ${[...path].join('.')} ${problem}`);
    const read = difference.safeParse(one);
    if (!read.success) {
      for (const issue of read.error.issues) report(issue.path as string[], issue.message);
      return [];
    }
    const { instead, transport, sometimes = false, ...rest } = read.data;
    const outcomes = (Array.isArray(instead) ? instead : [instead]).map((o) => readOutcome(o, ['instead'], report));
    if (outcomes.includes(undefined)) return [];
    return [{ ...rest, transport, sometimes, outcomes: outcomes as Outcome[] }];
  });
  differences.forEach((one, i) => {
    const before = differences.slice(0, i).find((other) => overlap(one, other));
    if (before) problems.push(`${file}: ${one.scenario} on ${one.path} is declared twice; join the two`);
  });
  return { differences, problems };
}

/** Of two for the same play only one would count, and the other never be missed. */
const overlap = (a: AcceptedDifference, b: AcceptedDifference): boolean =>
  a.scenario === b.scenario &&
  a.path === b.path &&
  (a.transport === undefined || b.transport === undefined || a.transport === b.transport);

export const readDifferencesFile = (file: string, shown: string) => readDifferences(readFileSync(file, 'utf8'), shown);

export function acceptedOf(
  all: readonly AcceptedDifference[],
  scenario: string,
  path: string,
  transport: Transport,
): AcceptedDifference | undefined {
  const on = (name: string) =>
    all.find(
      (one) =>
        one.scenario === scenario && one.path === name && (one.transport === undefined || one.transport === transport),
    );
  // What the new path does differently it does on several instances, too.
  return on(path) ?? (path === 'cluster' ? on('proxy-new') : undefined);
}
