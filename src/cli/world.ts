// What the command line needs of the world around it: output, a person at a terminal, Ctrl-C. A test gives its own.
// Knows nothing of commands.
import { userInfo } from 'node:os';
import { createInterface } from 'node:readline/promises';
import type { Config } from '../config.js';

export interface CliWorld {
  out(text: string): void;
  err(text: string): void;
  run(config: Config): Promise<void>;
  /** Where standard output is a terminal. */
  readonly terminal?: { rows(): number } | undefined;
  /** Asks the person at the terminal; undefined: no answer. Missing where nobody is there. */
  readonly ask?: ((question: string) => Promise<string | undefined>) | undefined;
  /** All of standard input. @throws where it can't be read, or is longer than a routes file may be. */
  readInput?(): Promise<string>;
  /** From the first call on: aborted by Ctrl-C, by SIGTERM, and when the reader of the output goes away. */
  interrupted?(): AbortSignal;
  /** Instead of the process's own. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The account's name. */
  readonly user?: string;
}

/** That of this process. */
export function processWorld(run: CliWorld['run']): CliWorld {
  const { stdin, stdout, stderr } = process;
  const gone = new AbortController();
  // A reader that went away (`sigfig start --help | head`) is no fault.
  stdout.on('error', () => gone.abort());
  stderr.on('error', () => undefined);
  return {
    out: (text) => void stdout.write(text),
    err: (text) => void stderr.write(text),
    run,
    terminal: stdout.isTTY ? { rows: () => stdout.rows || 24 } : undefined,
    ask: stdin.isTTY && stderr.isTTY ? (question) => askOn(stdin, stderr, question) : undefined,
    readInput,
    interrupted() {
      const stop = () => gone.abort();
      process.once('SIGINT', stop).once('SIGTERM', stop);
      return gone.signal;
    },
    user: accountName(),
  };
}

/** One line that a person types; undefined after Ctrl-D and Ctrl-C. */
export async function askOn(
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
  question: string,
): Promise<string | undefined> {
  const lines = createInterface({ input, output });
  try {
    return await new Promise<string | undefined>((resolve, reject) => {
      lines
        .once('SIGINT', () => lines.close())
        .once('close', () => {
          // The cursor is still behind the question.
          output.write('\n');
          resolve(undefined);
        });
      lines.question(question).then((answer) => {
        lines.removeAllListeners('close');
        resolve(answer);
      }, reject);
    });
  } finally {
    lines.close();
  }
}

/** Over what the server takes, which then says so. */
const MOST_INPUT = 1024 * 1024;

async function readInput(): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MOST_INPUT) throw new Error('it is longer than 1 MiB');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    // A container may run as a user without a name.
    return 'cli';
  }
}
