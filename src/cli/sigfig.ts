#!/usr/bin/env node
// The command line: reads flags, loads the config, starts; and the operator's commands. Knows nothing of what is started or
// asked; that is only loaded when it is needed, so that --help is quick.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError, Option } from 'commander';
import { settings } from '../config/settings.js';
import { type Flags, loadConfig } from '../config.js';
import { version } from '../version.js';
import { addOperatorCommands, type OutputOf } from './commands.js';
import { suggest } from './completion.js';
import { type CliWorld, processWorld } from './world.js';

export type { CliWorld };

/**
 * @param args without `node` and the script.
 * @returns the exit code where the process is to end now (0, 2 with a line on stderr for each fault, or one of
 * `cli/failure.ts`), undefined while it runs.
 */
export async function sigfig(args: readonly string[], world: CliWorld): Promise<number | undefined> {
  let code: number | undefined = 0;
  const program = command(world, args, (wanted) => {
    code = wanted;
  });
  try {
    await program.parseAsync(args, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return error.exitCode === 0 ? 0 : 2;
  }
  return code;
}

function command(world: CliWorld, words: readonly string[], exit: (code: number | undefined) => void): Command {
  const outputOf: OutputOf = (hint) => ({
    writeOut: (text: string) => world.out(text),
    writeErr: (text: string) => world.err(text),
    outputError: (text: string, write: (line: string) => void) =>
      write(
        `sigfig: ${text
          .replace(/^error: /, '')
          .replace(/\s+/g, ' ')
          .trim()
          .replace(/\.$/, '')}; ${hint}\n`,
      ),
  });
  const program = new Command('sigfig')
    .description('Stands in front of a Socket.IO backend and takes 1:1 calls over from it, event by event.')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput(outputOf('"sigfig --help" lists the commands'));
  const start = program
    .command('start')
    .description('start the proxy; it runs until SIGTERM or SIGINT')
    .exitOverride()
    .configureOutput(outputOf('"sigfig start --help" lists the flags'))
    .configureHelp({ sortOptions: false })
    .option(
      '--config <file>',
      'settings from a YAML file: these names without dashes, such as "listen: 127.0.0.1:8080"',
    );
  for (const [name, setting] of Object.entries(settings)) {
    // The default is only shown: the value itself must stay missing, so that the environment and the file can set it.
    const shown = setting.default === undefined ? '' : ` (default: ${setting.default})`;
    const option = new Option(`--${name} ${setting.value}`, setting.help + shown);
    // Of others the last one wins, so that a script can append to what another wrote.
    if (setting.many) {
      option.argParser((value: string, before: unknown) => [...(Array.isArray(before) ? before : []), value]);
    }
    start.addOption(setting.value === '<file>' ? suggest(option, 'file') : option);
  }
  start.addHelpText('after', HELP);
  start.action(async () => {
    const loaded = loadConfig(flagsOf(start));
    if (!loaded.ok) {
      for (const problem of loaded.problems) world.err(`sigfig: ${problem}\n`);
      exit(2);
      return;
    }
    exit(undefined);
    await world.run(loaded.config);
  });
  program
    .command('parity')
    .description('compare the new path with the legacy, scenario by scenario; "sigfig parity --help" says more')
    .argument('[args...]')
    .helpOption(false)
    .allowUnknownOption()
    .passThroughOptions()
    .action(async (args: string[]) => {
      const { runParity } = await import('./parity.js');
      exit(await runParity(args, world.err));
    });
  addOperatorCommands({ program, world, words, outputOf, exit });
  return program;
}

const HELP = `
Flags win over the environment (SIGFIG_LISTEN, SIGFIG_LEGACY_CA, …), the environment over the config file.
Times are 500ms, 60s, 2m, 1h. --legacy, --token-from, --trust-proxy and --redis may be repeated, or hold commas.
Needed are --legacy and one of --jwt-secret-file, --jwt-public-key-file and --jwks. Files named in the config file
are relative to it.
`;

/** By their names as they are written, not in the camel case that commander keeps them under. */
function flagsOf(start: Command): Flags {
  return Object.fromEntries(
    start.options.map((option) => [option.name(), start.getOptionValue(option.attributeName())]),
  );
}

const isMain = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url);
if (isMain) {
  const run: CliWorld['run'] = async (config) => (await import('../main.js')).run(config);
  const code = await sigfig(process.argv.slice(2), processWorld(run));
  if (code !== undefined) process.exitCode = code;
}
