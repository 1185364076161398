// Plays the matrix of scenarios × paths × transports, several at once, and judges each play: against the scenario's
// expectation, against the accepted differences, and path against path. Knows nothing of how a report looks.
import { type AcceptedDifference, acceptedOf } from './compare/differences.js';
import { compareTranscripts, type Divergence, matchOutcomes } from './compare/match.js';
import { type Played, play } from './play/play.js';
import type { Transcripts } from './play/transcript.js';
import type { Outcome, Scenario, Step, Transport } from './scenario.js';
import type { Identity } from './targets/identity.js';
import { mostDedicated, type Need, type PathName, type Targets } from './targets/targets.js';

export interface RunOptions {
  readonly scenarios: readonly Scenario[];
  readonly paths: readonly PathName[];
  readonly transports: readonly Transport[];
  readonly repeat: number;
  readonly jobs: number;
  readonly seed: number;
  readonly barrierEvent: string;
  readonly patienceMs: number;
  readonly quietMs: number;
  /** Of this run: part of every user's id. */
  readonly run: string;
  readonly identity: Identity;
  readonly targets: Targets;
  readonly accepted: readonly AcceptedDifference[];
  /** Told of each play as it ends. */
  onPlayed?(result: Result, done: number, all: number): void;
}

/** `differs` and `gone` fail a run. */
export type Status = 'same' | 'accepted' | 'differs' | 'gone' | 'not-run';

export interface Result {
  readonly scenario: Scenario;
  readonly path: PathName;
  readonly transport: Transport;
  /** From 1. */
  readonly round: number;
  readonly ms: number;
  readonly transcripts: Transcripts;
  status: Status;
  /** Why it was not run, what differs, or why that is accepted. */
  why: string;
  divergences: readonly Divergence[];
  /** What the divergences are from. */
  against: 'the expectation' | 'the accepted difference' | 'the legacy path';
}

export interface RunResult {
  readonly results: readonly Result[];
  readonly seed: number;
  readonly ms: number;
}

export async function runMatrix(options: RunOptions): Promise<RunResult> {
  const started = performance.now();
  const jobs = jobsOf(options);
  const results: Result[] = [];
  const next = queueOf(jobs);
  const worker = async (): Promise<void> => {
    for (let taken = next(); taken; taken = next()) {
      const result = await playOne(taken.job, options, taken.job.n);
      taken.done();
      results.push(result);
      options.onPlayed?.(result, results.length, jobs.length);
    }
  };
  await Promise.all(Array.from({ length: options.jobs }, worker));
  comparePaths(results);
  const order = new Map(jobs.map((job) => [keyOf(job), job.order]));
  results.sort((a, b) => (order.get(keyOf(a)) ?? 0) - (order.get(keyOf(b)) ?? 0));
  return { results, seed: options.seed, ms: performance.now() - started };
}

interface Job {
  readonly scenario: Scenario;
  readonly path: PathName;
  readonly transport: Transport;
  readonly round: number;
  readonly order: number;
  readonly n: number;
}

const keyOf = ({ scenario, path, transport, round }: Omit<Job, 'order' | 'n'>): string =>
  `${scenario.name}\n${path}\n${transport}\n${round}`;

/** Plays with processes of their own are few at a time: the others go on meanwhile. */
function queueOf(jobs: readonly Job[]): () => { readonly job: Job; done(): void } | undefined {
  const own = jobs.filter(({ scenario }) => needsOf(scenario.steps).size > 0);
  const shared = jobs.filter((job) => !own.includes(job));
  let running = 0;
  return () => {
    const isOwn = own.length > 0 && (running < mostDedicated || shared.length === 0);
    const job = (isOwn ? own : shared).shift();
    if (!job) return undefined;
    if (isOwn) running++;
    return { job, done: () => void (isOwn && running--) };
  };
}

/** The long ones first, so that the run does not end with a single one that waits for a timeout. */
function jobsOf({ scenarios, paths, transports, repeat }: RunOptions): Job[] {
  const jobs: Job[] = [];
  for (let round = 1; round <= repeat; round++) {
    for (const scenario of scenarios) {
      for (const path of paths) {
        for (const transport of transports) {
          jobs.push({ scenario, path, transport, round, order: jobs.length, n: jobs.length });
        }
      }
    }
  }
  return jobs.sort((a, b) => weight(b.scenario.steps) - weight(a.scenario.steps) || a.order - b.order);
}

function weight(steps: readonly Step[]): number {
  return steps.reduce((sum, step) => {
    if ('restart' in step || 'flip' in step) return sum + 3;
    if ('elapse' in step || ('drop' in step && step.how === 'silence')) return sum + 2;
    return sum + ('wait' in step ? 1 : 0);
  }, 0);
}

export function needsOf(steps: readonly Step[]): Set<Need> {
  const needs = new Set<Need>();
  for (const step of steps) {
    if ('restart' in step) needs.add('restart');
    if ('flip' in step) needs.add('flip');
  }
  return needs;
}

/** Whether the scenario can only be played with the backend's secret. */
const needsSecret = (scenario: Scenario): boolean =>
  scenario.devices.some(({ token }) => token === 'expired' || token === 'short') ||
  /"\$ticket"|"token":"(expired|short)"/.test(JSON.stringify(scenario.steps));

async function playOne(job: Job, options: RunOptions, n: number): Promise<Result> {
  const { scenario, path, transport } = job;
  const { identity, targets } = options;
  const needs = needsOf(scenario.steps);
  const missing = targets.missing(path, needs) ?? (needsSecret(scenario) ? identity.cantSign : undefined);
  const empty = { scenario, path, transport, round: job.round, divergences: [], against: 'the expectation' } as const;
  if (missing !== undefined) return { ...empty, ms: 0, transcripts: {}, status: 'not-run', why: missing };
  const played = await targets.use(path, needs, (target, rejoinTimeoutMs) =>
    play(scenario, target, {
      transport,
      identity,
      rejoinTimeoutMs,
      barrierEvent: options.barrierEvent,
      patienceMs: options.patienceMs,
      quietMs: options.quietMs,
      random: randomOf(options.seed + n),
      suffix: `${options.run}${n.toString(36)}`,
    }),
  );
  return { ...empty, ms: played.ms, transcripts: played.transcripts, ...judge(played, job, options.accepted) };
}

function judge(
  played: Played,
  { scenario, path, transport }: Job,
  all: readonly AcceptedDifference[],
): Pick<Result, 'status' | 'why' | 'divergences' | 'against'> {
  const { transcripts, problem } = played;
  // Of what happens in the same moment on two instances, an answer from one and news from the other have no order (difference 7).
  const apart = path === 'cluster' && scenario.steps.some((step) => typeof step === 'object' && 'together' in step);
  const verdict = matchOutcomes(scenario.outcomes, transcripts, apart);
  const accepted = acceptedOf(all, scenario.name, path, transport);
  const said = (divergences: readonly Divergence[]): string =>
    [...(problem === undefined ? [] : [problem]), ...divergences.map(({ device, what }) => `${device}: ${what}`)].join(
      '; ',
    );
  if (verdict.ok && problem === undefined) {
    if (!accepted || accepted.sometimes)
      return { status: 'same', why: '', divergences: [], against: 'the expectation' };
    const why = `declared but gone: "${accepted.what}" does not occur any more; remove it from differences.yaml, or see whether ${path} is routed so`;
    return { status: 'gone', why, divergences: [], against: 'the accepted difference' };
  }
  const divergences = verdict.ok ? [] : verdict.divergences;
  if (!accepted) return { status: 'differs', why: said(divergences), divergences, against: 'the expectation' };
  const outcomes = accepted.outcomes.map((outcome): Outcome => outcome);
  const instead = matchOutcomes(
    scenario.outcomes.flatMap((base) => outcomes.map((outcome) => ({ ...base, ...outcome }))),
    transcripts,
    apart,
  );
  if (instead.ok && problem === undefined) {
    return { status: 'accepted', why: `${accepted.what}: ${accepted.why}`, divergences, against: 'the expectation' };
  }
  const left = instead.ok ? [] : instead.divergences;
  return { status: 'differs', why: said(left), divergences: left, against: 'the accepted difference' };
}

/** Where there is one right outcome, the paths must agree to the letter, also in what the expectation leaves open. */
function comparePaths(results: readonly Result[]): void {
  const legacy = new Map<string, Result>();
  for (const result of results) if (result.path === 'legacy') legacy.set(keyOf({ ...result, path: 'legacy' }), result);
  for (const result of results) {
    if (result.path === 'legacy' || result.status !== 'same') continue;
    const base = legacy.get(keyOf({ ...result, path: 'legacy' }));
    if (base?.status !== 'same' || isRace(result.scenario)) continue;
    const divergences = compareTranscripts(base.transcripts, result.transcripts);
    if (divergences.length === 0) continue;
    result.status = 'differs';
    result.why = divergences.map(({ device, what }) => `${device}: ${what}`).join('; ');
    result.divergences = divergences;
    result.against = 'the legacy path';
  }
}

const isRace = ({ outcomes }: Scenario): boolean =>
  outcomes.length > 1 || JSON.stringify(outcomes).includes('"anyOrder":');

/** Mulberry32: the same numbers for the same seed, everywhere. */
export function randomOf(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}
