#!/usr/bin/env node
// The command line of the parity runner: flags in, exit code out. 0: everything as expected. 1: differences. 2: it could not
// be run, with one line on stderr for each thing to mend. Knows nothing of how anything is played or shown.
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { readDifferencesFile } from './compare/differences.js';
import { Problem } from './play/problem.js';
import { readFolder } from './read.js';
import { writeReports } from './report/files.js';
import { terminal } from './report/terminal.js';
import { runMatrix } from './run.js';
import { editorSchema, type Scenario, type Transport, transports } from './scenario.js';
import { commandIdentity, type Identity, secretIdentity } from './targets/identity.js';
import { endOnSignals } from './targets/processes.js';
import { packageRoot } from './targets/root.js';
import { givenTargets, newSecret, ownTargets, type PathName, paths, usualPaths } from './targets/targets.js';

interface Flags {
  legacy?: string;
  proxy: string[];
  admin?: string;
  adminTokenFile?: string;
  proxyIs?: Exclude<PathName, 'legacy'>;
  tokenCommand?: string;
  jwtSecretFile?: string;
  conversation: string;
  conversationCommand?: string;
  only: string[];
  path: PathName[];
  transport: Transport[];
  scenarios: string;
  differences?: string;
  report?: string;
  repeat: number;
  jobs: number;
  seed: number;
  rejoinTimeout?: number;
  barrierEvent: string;
  patience: number;
  quiet: number;
  instances: number;
  redis?: string;
  redisServer: string;
}

class Usage extends Error {}

const folder = join(packageRoot, 'parity');

export async function main(args: readonly string[]): Promise<number> {
  let code = 0;
  const program = new Command('sigfig parity')
    .description(
      'Plays call scenarios against a backend and against sigfig in front of it, and shows every difference.',
    )
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'parity: ')) });
  runFlags(program.command('run').description('play the scenarios and compare').exitOverride()).action(
    async (flags: Flags) => {
      code = await run(flags);
    },
  );
  program
    .command('check')
    .description('only read the scenarios, and say what is wrong with them')
    .option('--scenarios <folder>', 'where they are', join(folder, 'scenarios'))
    .option('--differences <file>', 'the accepted differences (default: differences.yaml above the scenarios)')
    .action((flags: { scenarios: string; differences?: string }) => {
      const { scenarios } = read(flags.scenarios, flags.differences);
      process.stdout.write(`${scenarios.length} scenarios, nothing to mend\n`);
    });
  program
    .command('schema')
    .description('print the JSON Schema of a scenario file')
    .action(() => void process.stdout.write(`${JSON.stringify(editorSchema(), null, 2)}\n`));
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    if (error instanceof Usage || error instanceof Problem) {
      for (const line of error.message.split('\n')) process.stderr.write(`parity: ${line}\n`);
      return 2;
    }
    // A fault of the runner's own is no difference.
    process.stderr.write(`parity: ${(error as Error).stack ?? error}\n`);
    return 2;
  }
  return code;
}

function runFlags(command: Command): Command {
  const many = (value: string, before: unknown) => [...(Array.isArray(before) ? before : []), ...value.split(',')];
  const oneOf = (allowed: readonly string[]) => (value: string, before: unknown) => {
    for (const one of value.split(',')) {
      if (!allowed.includes(one)) throw new InvalidArgumentError(`It must be one of ${allowed.join(', ')}.`);
    }
    return many(value, before);
  };
  return command
    .option('--legacy <url>', 'the backend itself; without it, a stub and proxies are started here')
    .option(
      '--proxy <url>',
      'sigfig in front of that backend; repeatable: parties are on different instances',
      many,
      [],
    )
    .option('--admin <url>', "sigfig's admin API: its routes are set for each path, and set back at the end")
    .option('--admin-token-file <file>', 'a token that may operate there, where it wants one')
    .addOption(
      new Option(
        '--proxy-is <path>',
        'how that proxy is routed at the moment (default: proxy-new; cluster, which is the same over several instances, where --proxy is given several times)',
      ).choices(['proxy-legacy', 'proxy-new', 'peeled', 'cluster']),
    )
    .option('--token-command <command>', 'prints a token for the user name that is its last argument')
    .option('--jwt-secret-file <file>', "the backend's HS256 secret: tokens and tickets are signed here")
    .option('--conversation <template>', 'the id of the conversation of two users', 'dm:{0}:{1}')
    .option('--conversation-command <command>', 'or: prints the id for the user ids that are its arguments')
    .option('--only <pattern>', 'scenarios whose name has this in it; * for any text; repeatable', many, [])
    .option('--path <paths>', `of ${paths.join(', ')} (default: all but cluster); repeatable`, oneOf(paths), [])
    .option('--instances <n>', 'of our own, for the path cluster', several, 2)
    .addOption(
      new Option('--redis <url>', 'for the path cluster (default: a redis-server started here)').env('REDIS_URL'),
    )
    .addOption(
      new Option('--redis-server <file>', 'to start where there is no --redis')
        .env('REDIS_SERVER_PATH')
        .default('redis-server'),
    )
    .option('--transport <transports>', `of ${transports.join(', ')}; repeatable`, oneOf(transports), [])
    .option('--scenarios <folder>', 'where the scenarios are', join(folder, 'scenarios'))
    .option('--differences <file>', 'the accepted differences (default: differences.yaml above the scenarios)')
    .option('--report <folder>', 'write report.html, report.json and junit.xml there')
    .option('--repeat <n>', 'play everything so often: races get their outcomes', whole, 1)
    .option('--jobs <n>', 'play so many at once', whole, 8)
    .option('--seed <n>', 'decides the order within "together"', whole, Date.now() % 1_000_000)
    .option('--rejoin-timeout <time>', 'of the backend (default: 3s for our own, 60s for given URLs)', duration)
    .option('--barrier-event <event>', 'an event that the backend acknowledges and that changes nothing', 'whoami')
    .addOption(
      new Option('--patience <time>', 'longest wait for an acknowledgement or an event')
        .argParser(duration)
        .default(10_000, '10s'),
    )
    .addOption(
      new Option('--quiet <time>', 'nothing may come for so long at the end; for several instances')
        .argParser(duration)
        .default(0, '0s'),
    );
}

async function run(flags: Flags): Promise<number> {
  const { scenarios, accepted } = read(flags.scenarios, flags.differences);
  if (scenarios.length === 0) throw new Usage(`there is no scenario in ${flags.scenarios}`);
  const chosen = scenarios.filter(({ name }) => flags.only.length === 0 || flags.only.some((one) => fits(name, one)));
  if (chosen.length === 0)
    throw new Usage(`no scenario fits --only ${flags.only.join(', ')}; "parity check" reads them all`);
  const wanted = flags.path.length > 0 ? flags.path : flags.proxy.length > 1 ? paths : usualPaths;
  const runId = Math.floor(Math.random() * 36 ** 5).toString(36);
  let identity: Identity | undefined;
  const common = { identity: () => identity as Identity, patienceMs: flags.patience, run: runId };
  const { legacy, admin } = flags;
  const proxies = flags.proxy.map((url) => slashless(url));
  const secret = flags.jwtSecretFile === undefined ? undefined : secretOf(flags.jwtSecretFile);
  if (legacy === undefined && (proxies.length > 0 || admin !== undefined)) {
    throw new Usage('--proxy needs --legacy as well: there is nothing to compare with otherwise');
  }
  if (admin !== undefined && proxies.length === 0) {
    throw new Usage('--admin needs --proxy as well: calls go through that, whatever its routes are');
  }
  if (admin === undefined && flags.adminTokenFile !== undefined) throw new Usage('--admin-token-file needs --admin');
  if (legacy !== undefined && secret === undefined && flags.tokenCommand === undefined) {
    throw new Usage('--legacy needs --jwt-secret-file or --token-command, or nobody can sign in');
  }
  const own = secret ?? newSecret();
  const rejoin = flags.rejoinTimeout ?? (legacy === undefined ? 3_000 : 60_000);
  const targets =
    legacy === undefined
      ? await ownTargets(own, rejoin, wanted, common, [], {
          instances: flags.instances,
          redisUrl: flags.redis,
          redisServer: flags.redisServer,
        })
      : await givenTargets(
          {
            legacy: slashless(legacy),
            proxies,
            admin: admin === undefined ? undefined : { url: slashless(admin), token: tokenOf(flags.adminTokenFile) },
          },
          rejoin,
          flags.proxyIs ?? (proxies.length > 1 ? 'cluster' : 'proxy-new'),
          common,
        );
  const conversations = {
    template: flags.conversation,
    command: flags.conversationCommand,
    legacyUrl: targets.legacyUrl,
  };
  identity =
    flags.tokenCommand === undefined
      ? secretIdentity(own, conversations)
      : commandIdentity(flags.tokenCommand, conversations);
  const screen = terminal(process.stdout);
  try {
    for (const url of [targets.legacyUrl, ...proxies]) await greet(identity, url, flags);
    const result = await runMatrix({
      scenarios: chosen,
      paths: wanted,
      transports: flags.transport.length > 0 ? flags.transport : ['websocket', 'polling'],
      repeat: flags.repeat,
      jobs: flags.jobs,
      seed: flags.seed,
      barrierEvent: flags.barrierEvent,
      patienceMs: flags.patience,
      quietMs: flags.quiet,
      run: runId,
      identity,
      targets,
      accepted,
      onPlayed: screen.played,
    });
    screen.end(result);
    if (flags.report !== undefined) {
      const written = await writeReports(flags.report, result);
      process.stdout.write(`${written.join('\n')}\n`);
    }
    if (result.results.every(({ status }) => status === 'not-run')) throw new Usage('nothing of this could be played');
    return result.results.some(({ status }) => status === 'differs' || status === 'gone') ? 1 : 0;
  } finally {
    await targets.close();
  }
}

/** One sign-in before anything else: a wrong secret is one line, not hundreds of differences. */
async function greet(identity: Identity, url: string, flags: Flags): Promise<void> {
  const { greetBackend } = await import('./targets/greet.js');
  await greetBackend(identity, url, flags.barrierEvent);
}

function read(scenarioFolder: string, differencesFile: string | undefined) {
  const { scenarios, problems } = orUsage(() => readFolder(scenarioFolder));
  const beside = join(scenarioFolder, '..', 'differences.yaml');
  const file = differencesFile ?? (existsSync(beside) ? beside : undefined);
  const { differences, problems: more } =
    file === undefined
      ? { differences: [], problems: [] }
      : orUsage(() => readDifferencesFile(file, 'differences.yaml'));
  const names = new Set(scenarios.map(({ name }: Scenario) => name));
  const unknown = differences
    .filter(({ scenario }) => problems.length === 0 && !names.has(scenario))
    .map(({ scenario }) => `differences.yaml: there is no scenario ${scenario}; remove it, or mend the name`);
  const pathless = differences
    .filter(({ path }) => !paths.some((known) => known === path))
    .map(
      ({ scenario, path }) => `differences.yaml: ${scenario}: ${path} is none of ${paths.join(', ')}; mend the path`,
    );
  const all = [...problems, ...more, ...unknown, ...pathless];
  if (all.length > 0) throw new Usage(all.join('\n'));
  return { scenarios, accepted: differences };
}

function orUsage<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new Usage(`can't read ${path} (${code})`);
  }
}

function secretOf(file: string): Buffer {
  const bytes = orUsage(() => readFileSync(file));
  // As the backend reads it: a newline at the end is not part of the secret.
  return Buffer.from(bytes.toString('utf8').replace(/\r?\n$/, ''));
}

function tokenOf(file: string | undefined): string | undefined {
  return file === undefined ? undefined : orUsage(() => readFileSync(file, 'utf8')).trim();
}

const slashless = (url: string): string => url.replace(/\/+$/, '');

/** `*` is any text; a pattern without one may stand anywhere in the name. */
function fits(name: string, pattern: string): boolean {
  if (!pattern.includes('*')) return name.includes(pattern);
  const parts = pattern.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('.*')}$`).test(name);
}

function whole(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('It must be a whole number from 1.');
  return value;
}

function several(text: string): number {
  const value = whole(text);
  if (value < 2 || value > 16) throw new InvalidArgumentError('It must be from 2 to 16.');
  return value;
}

function duration(text: string): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text) ?? [];
  if (digits === undefined) throw new InvalidArgumentError('Write 500ms, 3s or 1m.');
  return Number(digits) * { ms: 1, s: 1_000, m: 60_000 }[unit as 'ms' | 's' | 'm'];
}

const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isMain) {
  endOnSignals();
  process.exit(await main(process.argv.slice(2)));
}
