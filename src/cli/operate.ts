// Around each command of the operator's: who is asked, a reason where one is needed, and what a failure looks like.
// Knows nothing of single commands.
import { loadClient } from '../config.js';
import { type AdminClient, adminClient } from './client.js';
import { type ExitCode, exitCodes, Failure, shellWord, usage } from './failure.js';
import { harmless, json, type Style, style } from './show.js';
import type { CliWorld } from './world.js';

/** What an action works with. */
export interface Operation {
  readonly client: AdminClient;
  readonly world: CliWorld;
  readonly style: Style;
  /** Prints `value` as JSON where `--json` was given, else what `text` makes of it. */
  answer<T>(value: T, text: (value: T) => string): void;
  readonly json: boolean;
  /** A line on stderr beside the answer; not with `--json`, whose answer holds the same. */
  warn(line: string): void;
  /** The reason that was given, or the answer of the person at the terminal. @throws Failure where there is none. */
  reason(given: string | undefined): Promise<string>;
}

export interface OperateFlags {
  readonly admin?: string;
  readonly tokenFile?: string;
  readonly json?: boolean;
}

export type Action = (operation: Operation) => Promise<ExitCode>;

/** @param words the command line without `sigfig`, for lines that show a command that works. */
export async function operate(
  world: CliWorld,
  flags: OperateFlags,
  words: readonly string[],
  action: Action,
): Promise<ExitCode> {
  const asJson = flags.json === true;
  const loaded = loadClient({ admin: flags.admin, 'token-file': flags.tokenFile }, world.env);
  if (!loaded.ok) return told(world, asJson, new Failure(exitCodes.usage, 'usage', loaded.problems));
  const client = adminClient(loaded.config, { actor: world.user ?? 'cli' });
  try {
    return await action({
      client,
      world,
      style: style(loaded.config.colors && world.terminal !== undefined),
      json: asJson,
      answer: (value, text) => world.out(asJson ? `${json(value)}\n` : readable(() => text(value))),
      warn(line) {
        if (!asJson) world.err(`sigfig: ${harmless(line)}\n`);
      },
      reason: (given) => reason(world, given, words),
    });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    return told(world, asJson, error);
  } finally {
    await client.close();
  }
}

/** What a server of another version answers may lack what is shown here. */
export function readable(text: () => string): string {
  try {
    return text();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Failure(exitCodes.unreachable, 'unreachable', [
      `the answer lacks something (${error.message}); use the sigfig command of the server's version ("sigfig status --json" ` +
        'shows it), or --json',
    ]);
  }
}

/** On stderr: a line for each problem, or with `--json` one object. */
function told({ err }: CliWorld, asJson: boolean, { code, error, problems, current }: Failure): ExitCode {
  if (asJson) err(`${json({ error, problems, ...(current === undefined ? {} : { current }), exit: code }, 0)}\n`);
  else for (const problem of problems) err(`sigfig: ${harmless(problem)}\n`);
  return code;
}

async function reason({ ask }: CliWorld, given: string | undefined, words: readonly string[]): Promise<string> {
  const answer = given ?? (ask ? await ask('reason: ') : undefined);
  const text = answer?.trim() ?? '';
  if (text !== '') return text;
  const command = ['sigfig', ...words].map(shellWord).join(' ');
  const how =
    given === undefined ? `write: ${command} --reason "why"` : 'what --reason gives is empty, say why in a few words';
  throw usage(`a change needs a reason, which the history keeps; ${how}`);
}
