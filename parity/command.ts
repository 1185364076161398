// What the commands beside `parity run` have in common: flags in, exit code out, and a fault told in one line. Knows nothing
// of what a command does.
import { type Command, CommanderError } from 'commander';
import { Problem } from './play/problem.js';

/** Answers `run`'s exit code; 0 where help was asked for, 2 where the flags are wrong or it could not be run. */
export async function runCommand<Flags extends object>(
  program: Command,
  args: readonly string[],
  run: (flags: Flags) => Promise<number>,
): Promise<number> {
  const name = program.name();
  program
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, `${name}: `)) });
  try {
    program.parse(args, { from: 'user' });
    return await run(program.opts<Flags>());
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    // A fault of the runner's own is no difference.
    const said = error instanceof Problem ? error.message : ((error as Error).stack ?? error);
    process.stderr.write(`${name}: ${said}\n`);
    return 2;
  }
}
