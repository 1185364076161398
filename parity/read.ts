// Reads scenario files: YAML with one scenario per document, into what the runner plays. Whatever is wrong is one line
// `file:line: problem; mend`. Knows nothing of how a scenario is played.
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Document, isCollection, isMap, isNode, isPair, LineCounter, parseAllDocuments } from 'yaml';
import type { z } from 'zod';
import { checkNames } from './names.js';
import {
  devicesOf,
  type Expected,
  entrySchemas,
  type Outcome,
  type Scenario,
  type ScenarioFile,
  type Step,
  scenarioSchema,
  stepSchemas,
} from './scenario.js';

type Path = readonly (string | number)[];
export type Report = (path: Path, problem: string) => void;

export interface Read {
  readonly scenarios: readonly Scenario[];
  readonly problems: readonly string[];
}

/** Every `*.yaml` in a folder, in the order of the names. */
export function readFolder(folder: string): Read {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /\.ya?ml$/.test(file));
  const scenarios: Scenario[] = [];
  const problems: string[] = [];
  const seen = new Map<string, string>();
  for (const file of files.sort()) {
    const shown = join(basename(folder), file);
    const read = readScenarios(readFileSync(join(folder, file), 'utf8'), shown);
    problems.push(...read.problems);
    for (const scenario of read.scenarios) {
      const first = seen.get(scenario.name);
      if (first !== undefined) {
        problems.push(`${shown}:${scenario.line}: ${scenario.name} is also in ${first}; give it another name`);
        continue;
      }
      seen.set(scenario.name, `${shown}:${scenario.line}`);
      scenarios.push(scenario);
    }
  }
  return { scenarios, problems };
}

export function readScenarios(text: string, file: string): Read {
  const lines = new LineCounter();
  const scenarios: Scenario[] = [];
  const problems: string[] = [];
  const documents = parseAllDocuments(text, { lineCounter: lines, merge: true });
  for (const document of Array.isArray(documents) ? documents : []) {
    for (const error of document.errors) {
      const line = error.linePos?.[0].line ?? 1;
      problems.push(`${file}:${line}: ${oneLine(error.message)}; mend the YAML`);
    }
    if (document.errors.length > 0 || document.contents === null) continue;
    const at = (path: Path) => lines.linePos(offsetOf(document, path)).line;
    const before = problems.length;
    const report: Report = (path, problem) => {
      const line = `${file}:${at(path)}: ${problem}`;
      if (!problems.includes(line)) problems.push(line);
    };
    const value = plain(document, report);
    if (value === undefined) continue;
    for (const one of expandCases(value, report)) {
      if (problems.length > before) break; // the other cases would say the same again
      const read = readOne(one, report);
      if (read) scenarios.push({ ...read, file, line: at([]) });
    }
  }
  return { scenarios, problems };
}

function readOne(value: unknown, report: Report): Omit<Scenario, 'file' | 'line'> | undefined {
  const given = check<ScenarioFile>(scenarioSchema, value, [], report);
  // Whatever can be read is, so that one look shows all that is to be mended.
  const raw = isRecord(value) ? value : {};
  const steps = (Array.isArray(raw.steps) ? raw.steps : []).map((step, i) => readStep(step, ['steps', i], report));
  const outcomes = 'expect' in raw ? readExpect(raw.expect, report) : undefined;
  if (!given || steps.some((step) => !step) || !outcomes) return undefined;
  const parties = Object.keys(given.parties);
  const scenario = {
    name: given.name,
    about: given.about,
    devices: devicesOf(given.parties),
    conversations: given.conversations ?? (parties.length >= 2 ? { call: parties.slice(0, 2) } : {}),
    steps: steps as Step[],
    outcomes,
    onlyOurs: given.onlyOurs ?? [],
  };
  return checkNames(scenario, given, report) ? scenario : undefined;
}

function readStep(step: unknown, path: Path, report: Report): Step | undefined {
  if (step === 'barrier') return { barrier: true };
  const kinds = Object.keys(stepSchemas);
  const kind = isRecord(step) ? kinds.find((key) => key in step) : undefined;
  if (kind === undefined) {
    report(path, `this step is none of ${kinds.join(', ')}; begin it with one of them`);
    return undefined;
  }
  if (kind === 'together' && isRecord(step) && Array.isArray(step.together)) {
    const inner = step.together.map((one, i) => readStep(one, [...path, 'together', i], report));
    if (inner.some((one) => !one)) return undefined;
  }
  return check<Step>(stepSchemas[kind] as z.ZodType, step, path, report);
}

function readExpect(expect: unknown, report: Report): Outcome[] | undefined {
  if (!isRecord(expect)) {
    report(['expect'], 'expect must name devices and what each receives; "expect: {}" where nobody receives anything');
    return undefined;
  }
  const { oneOf, ...common } = expect;
  if (oneOf !== undefined && (!Array.isArray(oneOf) || oneOf.length < 2)) {
    report(['expect', 'oneOf'], 'oneOf must list two or more whole outcomes');
    return undefined;
  }
  const base = readOutcome(common, ['expect'], report);
  if (oneOf === undefined) return base ? [base] : undefined;
  const outcomes = (oneOf as unknown[]).map((one, i) => readOutcome(one, ['expect', 'oneOf', i], report));
  if (!base || outcomes.some((one) => !one)) return undefined;
  return outcomes.map((one) => joined(base, one as Outcome));
}

/** What stands beside oneOf comes first, whichever outcome it is. */
function joined(before: Outcome, outcome: Outcome): Outcome {
  const devices = new Set([...Object.keys(before), ...Object.keys(outcome)]);
  return Object.fromEntries([...devices].map((name) => [name, [...(before[name] ?? []), ...(outcome[name] ?? [])]]));
}

/** By device what it receives; used for the accepted differences as well. */
export function readOutcome(outcome: unknown, path: Path, report: Report): Outcome | undefined {
  if (!isRecord(outcome)) {
    report(path, 'an outcome must name devices and what each receives');
    return undefined;
  }
  const read = Object.entries(outcome).map(([device, list]) => {
    if (Array.isArray(list)) {
      return [device, list.map((entry, i) => readEntry(entry, [...path, device, i], report))] as const;
    }
    report([...path, device], `${device} must be a list of what it receives, in order; [] for nothing`);
    return [device, [undefined]] as const;
  });
  if (read.some(([, list]) => list.includes(undefined))) return undefined;
  return Object.fromEntries(read) as Outcome;
}

function readEntry(entry: unknown, path: Path, report: Report): Expected | undefined {
  if (!isRecord(entry)) {
    report(path, 'write "event: payload", "ack: event", "refused: event", "response: …" or "anyOrder: […]" here');
    return undefined;
  }
  if ('anyOrder' in entry) {
    if (!Array.isArray(entry.anyOrder) || Object.keys(entry).length !== 1) {
      report(path, 'anyOrder must be a list, and stand alone');
      return undefined;
    }
    const inner = entry.anyOrder.map((one, i) => readEntry(one, [...path, 'anyOrder', i], report));
    return inner.includes(undefined) ? undefined : { anyOrder: inner as Expected[] };
  }
  const kind = Object.keys(entrySchemas).find((key) => key in entry);
  if (kind !== undefined) return check<Expected>(entrySchemas[kind] as z.ZodType, entry, path, report);
  const keys = Object.keys(entry);
  if (keys.length === 1) return entry;
  report(
    path,
    `an event is one key, "event: payload", but this has ${keys.join(', ')}; indent what belongs to the payload`,
  );
  return undefined;
}

function check<T>(schema: z.ZodType, value: unknown, path: Path, report: Report): T | undefined {
  const result = schema.safeParse(value);
  if (result.success) return result.data as T;
  for (const issue of result.error.issues) {
    const at = [...path, ...(issue.path as (string | number)[])];
    const line = issue.code === 'unrecognized_keys' ? [...at, ...issue.keys.slice(0, 1)] : at;
    report(line, `${at.length === 0 ? '' : `${shownPath(at)}: `}${wording(issue)}`);
  }
  return undefined;
}

function wording(issue: z.core.$ZodIssue): string {
  const seeReadme = '; see parity/README.md for what may stand here';
  if (issue.code === 'unrecognized_keys') return `unknown ${issue.keys.join(', ')}; remove it, or mend the name`;
  if (/received undefined|nonoptional/.test(issue.message)) return 'is missing; add it';
  if (issue.code === 'invalid_union') return `none of its forms fits${seeReadme}`;
  if (issue.code === 'invalid_value') return `must be one of ${issue.values.join(', ')}`;
  if (issue.code === 'invalid_type') return `must be ${article(issue.expected)}${seeReadme}`;
  return `${oneLine(issue.message)}${seeReadme}`;
}

const article = (type: string): string => {
  const word = { array: 'list', record: 'map', object: 'map', string: 'text' }[type] ?? type;
  return /^[aeiou]/.test(word) ? `an ${word}` : `a ${word}`;
};

function expandCases(value: unknown, report: Report): unknown[] {
  if (!isRecord(value) || value.cases === undefined) return [value];
  const { cases, ...rest } = value;
  if (!Array.isArray(cases) || !cases.every(isRecord)) {
    report(['cases'], 'cases must be a list of maps, such as "- { event: call-offer }"');
    return [];
  }
  return cases.map((one) => filled(rest, one, [], report));
}

/** `<key>` in texts and keys becomes the case's value; where it is the whole text, of whatever type that is. */
function filled(value: unknown, one: Readonly<Record<string, unknown>>, path: Path, report: Report): unknown {
  if (typeof value === 'string') {
    const whole = /^<([\w-]+)>$/.exec(value)?.[1];
    if (whole !== undefined && Object.hasOwn(one, whole)) return one[whole];
    return value.replace(/<([\w-]+)>/g, (text, key: string) => {
      if (Object.hasOwn(one, key)) return String(one[key]);
      report(path, `${text} is no key of each of the cases (${Object.keys(one).join(', ')}); add it, or mend the name`);
      return text;
    });
  }
  if (Array.isArray(value)) return value.map((item, i) => filled(item, one, [...path, i], report));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const at = [...path, key];
      return [filled(key, one, at, report), filled(item, one, at, report)];
    }),
  );
}

/** Undefined where an alias has no anchor, or there are too many. */
function plain(document: Document.Parsed, report: Report): unknown {
  try {
    return document.toJS({ maxAliasCount: 10_000 });
  } catch (error) {
    report([], `${oneLine((error as Error).message)}; mend the YAML`);
    return undefined;
  }
}

/** Where the node of a path begins; where there is none, that of the nearest above it. */
function offsetOf(document: Document.Parsed | Document, path: Path): number {
  for (let length = path.length; length > 0; length--) {
    const parent = length === 1 ? document.contents : document.getIn(path.slice(0, length - 1), true);
    const key = path[length - 1];
    if (isMap(parent)) {
      const pair = parent.items.find((item) => isPair(item) && String(item.key) === String(key));
      if (pair && isNode(pair.key) && pair.key.range) return pair.key.range[0];
    } else if (isCollection(parent)) {
      const node = parent.get(key, true);
      if (isNode(node) && node.range) return node.range[0];
    }
  }
  return document.contents?.range?.[0] ?? 0;
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const shownPath = (path: Path): string =>
  path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('');

/** The parser's own "at line 7, column 1" is left out: the line stands in front. */
const oneLine = (text: string): string =>
  text
    .split('\n')[0]
    ?.trim()
    .replace(/:$/, '')
    .replace(/ at line \d+, column \d+$/, '') ?? '';
