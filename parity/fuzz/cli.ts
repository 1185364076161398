#!/usr/bin/env node
// The command `npm run parity:fuzz`: flags in, exit code out. 0: all paths did the same, and what docs/calls.md says. 1:
// something differed. 2: it could not be run. Knows nothing of how lifecycles are made or played.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { runCommand } from '../command.js';
import { Problem } from '../play/problem.js';
import { greetBackend } from '../targets/greet.js';
import { commandIdentity, type Identity, secretIdentity } from '../targets/identity.js';
import { endOnSignals } from '../targets/processes.js';
import { packageRoot } from '../targets/root.js';
import { paths as allPaths, givenTargets, newSecret, ownTargets, type PathName } from '../targets/targets.js';
import type { Found, FuzzResult } from './fuzz.js';
import { sentence } from './judge.js';
import { onTargets } from './on-targets.js';
import { scenarioText, schemaLine } from './scenario-text.js';

interface Flags {
  runs: number;
  seed: number;
  jobs: number;
  path: PathName[];
  report: string;
  shrink: number;
  shrinkTime: number;
  patience: number;
  legacy?: string;
  proxy?: string;
  jwtSecretFile?: string;
  tokenCommand?: string;
  conversation: string;
  barrierEvent: string;
}

/** A lifecycle ends long before; only what was dropped in silence would be noticed by the heartbeat in between. */
const patientStub = ['--ping-interval', '100s', '--ping-timeout', '100s'];
const rejoinTimeoutMs = 120_000;

export async function main(args: readonly string[]): Promise<number> {
  const program = new Command('parity:fuzz')
    .description('Plays random call lifecycles against the legacy and against sigfig, and shrinks what differs.')
    .option('--runs <n>', 'so many lifecycles', whole, 300)
    .option('--seed <n>', 'the same seed plays the same lifecycles', whole, (Date.now() % 1_000_000) + 1)
    .option('--jobs <n>', 'so many at once', whole, 16)
    .option('--path <paths>', `of ${allPaths.join(', ')}`, pathList, ['legacy', 'proxy-new', 'peeled'])
    .option('--report <folder>', 'where what was found is written to', join(packageRoot, 'parity', 'found'))
    .option('--shrink <n>', 'shrink at most so many', whole, 5)
    .option('--shrink-time <seconds>', 'each for so long', whole, 60)
    .option('--patience <ms>', 'longest wait for an acknowledgement', whole, 20_000)
    .option('--legacy <url>', 'a backend that runs already; without it, a stub and proxies are started here')
    .option('--proxy <url>', 'sigfig in front of it, its call routes being new')
    .option('--jwt-secret-file <file>', "that backend's HS256 secret")
    .option('--token-command <command>', 'or: prints a token for the user name that is its last argument')
    .option('--conversation <template>', 'the id of the conversation of two users', 'dm:{0}:{1}')
    .option('--barrier-event <event>', 'an event that the backend acknowledges and that changes nothing', 'whoami');
  return runCommand<Flags>(program, args, run);
}

async function run(flags: Flags): Promise<number> {
  const { fuzz } = await fuzzer();
  const runId = Math.floor(Math.random() * 36 ** 5).toString(36);
  let identity: Identity | undefined;
  const common = { identity: () => identity as Identity, patienceMs: flags.patience, run: runId };
  const { legacy } = flags;
  if (legacy !== undefined && (flags.proxy === undefined || !(flags.jwtSecretFile ?? flags.tokenCommand))) {
    throw new Problem('--legacy needs --proxy, and --jwt-secret-file or --token-command');
  }
  const secret = flags.jwtSecretFile === undefined ? newSecret() : secretOf(flags.jwtSecretFile);
  const targets =
    legacy === undefined
      ? await ownTargets(secret, rejoinTimeoutMs, flags.path, common, patientStub)
      : await givenTargets(
          { legacy: slashless(legacy), proxies: [slashless(flags.proxy ?? '')], admin: undefined },
          60_000,
          'proxy-new',
          common,
        );
  try {
    const conversations = { template: flags.conversation, command: undefined, legacyUrl: targets.legacyUrl };
    identity =
      flags.tokenCommand === undefined
        ? secretIdentity(secret, conversations)
        : commandIdentity(flags.tokenCommand, conversations);
    for (const url of [targets.legacyUrl, flags.proxy]) {
      if (url !== undefined) await greetBackend(identity, slashless(url), flags.barrierEvent);
    }
    process.stdout.write(`${flags.runs} lifecycles on ${flags.path.join(', ')}; seed ${flags.seed}\n`);
    const { barrierEvent, patience: patienceMs } = flags;
    const result = await fuzz({
      ...flags,
      mostShrunk: flags.shrink,
      shrinkMs: flags.shrinkTime * 1_000,
      paths: flags.path,
      play: onTargets({ targets, identity, barrierEvent, patienceMs, run: runId }),
      ...progress(flags.runs),
    });
    return report(result, flags);
  } finally {
    await targets.close();
  }
}

/** fast-check is only there in a checkout. */
async function fuzzer() {
  try {
    return await import('./fuzz.js');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new Problem('fast-check is not installed; run "npm ci" in a checkout of the repository');
  }
}

function progress(runs: number) {
  const live = process.stdout.isTTY === true;
  const line = (text: string) => process.stdout.write(live ? `\r\x1b[K${text}` : `${text}\n`);
  return {
    onPlayed(done: number, found: number) {
      if (live || done === runs || done % Math.ceil(runs / 10) === 0) {
        line(`${done} of ${runs} played${found > 0 ? `, ${found} differ` : ''}`);
      }
    },
    onShrinking(index: number, tries: number) {
      if (live || tries % 25 === 1) line(`shrinking lifecycle ${index}: ${tries} tries`);
    },
  };
}

function report({ played, steps, avoided, found, ms }: FuzzResult, flags: Flags): number {
  const out = (text: string) => process.stdout.write(`${text}\n`);
  if (process.stdout.isTTY) out('');
  for (const one of found) {
    const file = write(one, flags);
    out(`✗ lifecycle ${one.index}${ways[one.shrunk]}: ${relative(process.cwd(), file)}`);
    for (const difference of one.differences) out(`    ${sentence(difference).slice(0, 600)}`);
  }
  const left = avoided[1] + avoided[2];
  out(
    `${played} lifecycles of ${steps} steps on ${flags.path.length} paths in ${(ms / 1_000).toFixed(1)} s: ` +
      `${found.length === 0 ? 'no difference' : `${found.length} differ`}; seed ${flags.seed}` +
      `${left > 0 ? `; ${left} steps left out for accepted differences (${avoided[1]} early candidates, ${avoided[2]} repeats)` : ''}`,
  );
  return found.length > 0 ? 1 : 0;
}

const ways: Readonly<Record<Found['shrunk'], string>> = {
  smallest: ', shrunk',
  'out-of-time': ', shrunk until the time was over',
  'not-tried': ', not shrunk (see --shrink)',
  'not-again': ' differed once, and not again when it was played alone',
};

function write({ index, scripted, differences, shrunk, tries }: Found, { report: folder, seed }: Flags): string {
  mkdirSync(folder, { recursive: true });
  const name = `found-${seed}-${index}`;
  const about = `Found by parity:fuzz (seed ${seed}, lifecycle ${index}); ${(differences[0] ? sentence(differences[0]) : 'unknown').slice(0, 200)}.`;
  const file = join(folder, `${name}.yaml`);
  const comment = `# Shrunk: ${shrunk}, ${tries} tries. Give it a name and move it to parity/scenarios/.\n`;
  writeFileSync(file, `${schemaLine}${comment}${scenarioText(scripted, name, about)}`);
  return file;
}

function secretOf(file: string): Buffer {
  try {
    return Buffer.from(readFileSync(file, 'utf8').replace(/\r?\n$/, ''));
  } catch (error) {
    throw new Problem(`can't read ${file} (${(error as NodeJS.ErrnoException).code})`);
  }
}

const slashless = (url: string): string => url.replace(/\/+$/, '');

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('It must be a whole number from 1.');
  return value;
}

function pathList(text: string): PathName[] {
  const paths = text.split(',');
  const known: readonly string[] = allPaths;
  if (!paths.every((path) => known.includes(path))) {
    throw new InvalidArgumentError(`It must be of ${known.join(', ')}.`);
  }
  return paths as PathName[];
}

endOnSignals();
process.exit(await main(process.argv.slice(2)));
