// The proof that the suite finds what it should: each fault is planted into the stub, which is then played as if it were
// the new path. Scenarios that fail on the sound stub already prove nothing. Knows nothing of flags or of how it is shown.
import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTargets } from '../fuzz/on-targets.js';
import { Witnesses } from '../play/witness.js';
import { needsOf, type Result, runMatrix } from '../run.js';
import type { Scenario, Step } from '../scenario.js';
import { type Identity, secretIdentity } from '../targets/identity.js';
import { atExit } from '../targets/processes.js';
import { newSecret, type Targets } from '../targets/targets.js';
import type { Fault } from './faults.js';
import { startPlanted } from './plant.js';

export interface ProofOptions {
  readonly faults: readonly Fault[];
  readonly scenarios: readonly Scenario[];
  /** Goes on after the first scenarios that found a fault, to name all. */
  readonly all: boolean;
  /** So many random lifecycles are played on each fault as well; 0 for none. */
  readonly lifecycles: number;
  readonly seed: number;
  /** Plays at once on each fault. */
  readonly jobs: number;
  /** Faults at once. */
  readonly abreast: number;
  readonly patienceMs: number;
  onControl?(control: Control): void;
  onFault?(result: FaultResult): void;
}

export interface Control {
  /** Scenarios that are as expected on the sound stub. */
  readonly sound: readonly Scenario[];
  /** Names of those that are not, and why. */
  readonly unsound: ReadonlyMap<string, string>;
  /** Names of those that need more than a stub. */
  readonly left: readonly string[];
  readonly ms: number;
}

export interface FaultResult {
  readonly fault: Fault;
  /** Scenario → what it says. */
  readonly caughtBy: ReadonlyMap<string, string>;
  /** How many scenarios were played on it. */
  readonly played: number;
  /** How many of the lifecycles found it; undefined where none was played. */
  readonly lifecycles: number | undefined;
  readonly ms: number;
}

/** Scenarios at once before it is looked whether the fault was found. */
const portion = 30;
/** So many that found a fault are named, unless all are asked for. */
const enough = 5;
const rejoinTimeoutMs = 1_000;

export async function prove(options: ProofOptions): Promise<FaultResult[]> {
  const folder = await mkdtemp(join(tmpdir(), 'parity-proof-'));
  const remove = () => rmSync(folder, { recursive: true, force: true });
  atExit.add(remove);
  const secret = newSecret();
  await writeFile(join(folder, 'secret'), secret, { mode: 0o600 });
  try {
    const stage = { secret, secretFile: join(folder, 'secret'), options };
    const control = await controlled(stage);
    options.onControl?.(control);
    const results: FaultResult[] = [];
    const left = [...options.faults];
    const worker = async (): Promise<void> => {
      for (let fault = left.shift(); fault; fault = left.shift()) {
        const result = await sought(fault, control.sound, stage);
        results.push(result);
        options.onFault?.(result);
      }
    };
    await Promise.all(Array.from({ length: options.abreast }, worker));
    return results;
  } finally {
    remove();
    atExit.delete(remove);
  }
}

interface ProofStage {
  readonly secret: Buffer;
  readonly secretFile: string;
  readonly options: ProofOptions;
}

async function controlled(stage: ProofStage): Promise<Control> {
  const { scenarios } = stage.options;
  const played = scenarios.filter(({ steps }) => needsOf(steps).size === 0).sort((a, b) => slowness(a) - slowness(b));
  const started = performance.now();
  const unsound = new Map<string, string>();
  await onStub(undefined, stage, async (play) => {
    for (const { scenario } of (await play(played)).filter(differs)) {
      for (const { name, why } of await alone(scenario, play)) unsound.set(name, why);
    }
  });
  return {
    sound: played.filter(({ name }) => !unsound.has(name)),
    unsound,
    left: scenarios.filter((one) => !played.includes(one)).map(({ name }) => name),
    ms: performance.now() - started,
  };
}

async function sought(fault: Fault, scenarios: readonly Scenario[], stage: ProofStage): Promise<FaultResult> {
  const { all } = stage.options;
  const started = performance.now();
  const caughtBy = new Map<string, string>();
  let [played, lifecycles] = [0, undefined as number | undefined];
  await onStub(fault, stage, async (play, targets, identity) => {
    while (played < scenarios.length && (all || caughtBy.size === 0)) {
      const some = scenarios.slice(played, played + portion);
      for (const { scenario } of (await play(some)).filter(differs)) {
        if (!all && caughtBy.size >= enough) break;
        for (const { name, why } of await alone(scenario, play)) caughtBy.set(name, why);
      }
      played += some.length;
    }
    if (stage.options.lifecycles > 0 && fault.beyondLifecycles === undefined) {
      lifecycles = await lifecyclesThatFind(stage.options, targets, identity);
    }
  });
  return { fault, caughtBy, played, lifecycles, ms: performance.now() - started };
}

async function lifecyclesThatFind(options: ProofOptions, targets: Targets, identity: Identity): Promise<number> {
  const { fuzz } = await import('../fuzz/fuzz.js');
  const run = `proof${Math.floor(Math.random() * 36 ** 4).toString(36)}`;
  const { found } = await fuzz({
    ...options,
    runs: options.lifecycles,
    mostShrunk: 0,
    shrinkMs: 0,
    paths: ['proxy-new'],
    play: onTargets({ targets, identity, barrierEvent: 'whoami', patienceMs: options.patienceMs, run }),
  });
  return found.length;
}

const differs = ({ status }: Result): boolean => status === 'differs';

/** Played again by itself: on a machine that has too much to do, a scenario alone can be late. Empty where it was that. */
async function alone(scenario: Scenario, play: Play): Promise<{ readonly name: string; readonly why: string }[]> {
  return (await play([scenario])).filter(differs).map(({ why }) => ({ name: scenario.name, why }));
}

type Play = (scenarios: readonly Scenario[]) => Promise<readonly Result[]>;

/** A stub of its own, reached as the path of the new service. */
async function onStub(
  fault: Fault | undefined,
  { secret, secretFile, options }: ProofStage,
  use: (play: Play, targets: Targets, identity: Identity) => Promise<void>,
): Promise<void> {
  const stub = await startPlanted(fault, [
    ...['--listen', '127.0.0.1:0', '--jwt-secret-file', secretFile, '--membership-latency', '2ms'],
    ...['--rejoin-timeout', `${rejoinTimeoutMs}ms`, '--reap-interval', '200ms'],
    ...['--ping-interval', '2s', '--ping-timeout', '3s'],
  ]);
  const conversations = { template: 'dm:{0}:{1}', command: undefined, legacyUrl: stub.url };
  const identity = secretIdentity(secret, conversations);
  const run = Math.floor(Math.random() * 36 ** 5).toString(36);
  const { patienceMs, jobs, seed } = options;
  const nobody = (id: string) => ({ id, token: undefined });
  const witnesses = new Witnesses({
    url: stub.url,
    patienceMs,
    signIn: (name) => identity.signIn(`parity-own-${name}-${run}`, 'valid'),
    conversation: (a, b) => identity.conversation([nobody(a), nobody(b)]),
  });
  const targets: Targets = {
    rejoinTimeoutMs,
    legacyUrl: stub.url,
    missing: () => undefined,
    use: (path, _needs, play) => play({ path, url: stub.url, witnesses }, rejoinTimeoutMs),
    close: async () => undefined,
  };
  let plays = 0;
  const play: Play = async (scenarios) => {
    const { results } = await runMatrix({
      scenarios,
      paths: ['proxy-new'],
      transports: ['websocket'],
      repeat: 1,
      jobs,
      seed,
      barrierEvent: 'whoami',
      patienceMs,
      quietMs: 0,
      run: `${run}${(plays++).toString(36)}x`,
      identity,
      targets,
      accepted: [],
    });
    return results;
  };
  try {
    await use(play, targets, identity);
  } finally {
    await witnesses.close();
    await stub.kill();
  }
}

/** What takes time comes last: most faults are found before. */
function slowness({ steps }: Scenario): number {
  const one = (step: Step): number => {
    if ('elapse' in step) return step.elapse === 'token' ? 4 : step.elapse;
    if ('drop' in step) return step.how === 'silence' && step.noticed !== false ? 5 : 0.01;
    return 'wait' in step ? 0.1 : 0.01;
  };
  return steps.reduce((sum, step) => sum + one(step), 0);
}
