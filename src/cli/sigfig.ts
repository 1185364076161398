#!/usr/bin/env node
// The command line: reads flags, loads the config, starts. Knows nothing of what is started; that is only loaded when
// it is needed, so that --help is quick.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Command, CommanderError, Option } from 'commander';
import { settings } from '../config/settings.js';
import { type Config, type Flags, loadConfig } from '../config.js';
import { version } from '../version.js';

/** What the command line needs of the world; a test gives its own. */
export interface CliWorld {
  out(text: string): void;
  err(text: string): void;
  run(config: Config): Promise<void>;
}

/**
 * @param args without `node` and the script.
 * @returns the exit code where the process is to end now (0, or 2 with a line on stderr for each fault), undefined while it runs.
 */
export async function sigfig(args: readonly string[], world: CliWorld): Promise<number | undefined> {
  let code: number | undefined = 0;
  const program = command(world, (wanted) => {
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

function command(world: CliWorld, exit: (code: number | undefined) => void): Command {
  const output = {
    writeOut: (text: string) => world.out(text),
    writeErr: (text: string) => world.err(text),
    outputError: (text: string, write: (line: string) => void) =>
      write(
        `sigfig: ${text
          .replace(/^error: /, '')
          .replace(/\s+/g, ' ')
          .trim()}; "sigfig start --help" lists the flags\n`,
      ),
  };
  const program = new Command('sigfig')
    .description('Stands in front of a Socket.IO backend and takes 1:1 calls over from it, event by event.')
    .version(version)
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput(output);
  const start = program
    .command('start')
    .description('start the proxy; it runs until SIGTERM or SIGINT')
    .exitOverride()
    .configureOutput(output)
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
    start.addOption(option);
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
  return program;
}

const HELP = `
Flags win over the environment (SIGFIG_LISTEN, SIGFIG_LEGACY_CA, …), the environment over the config file.
Times are 500ms, 60s, 2m, 1h. --legacy, --token-from and --trust-proxy may be repeated, or hold commas.
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
  // A reader that went away (`sigfig start --help | head`) is no fault.
  process.stdout.on('error', () => undefined);
  process.stderr.on('error', () => undefined);
  const code = await sigfig(process.argv.slice(2), {
    out: (text) => void process.stdout.write(text),
    err: (text) => void process.stderr.write(text),
    run: async (config) => (await import('../main.js')).run(config),
  });
  if (code !== undefined) process.exitCode = code;
}
