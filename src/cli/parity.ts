// `sigfig parity …`: hands the rest of the command line to the parity runner, a program of its own that knows URLs only.
// Knows nothing of what it does; the two share no code.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/**
 * Runs it with the terminal of this process and ends when it does.
 * @returns its exit code: 0 all as expected, 1 differences, 2 it could not be run.
 */
export async function runParity(args: readonly string[], err: (text: string) => void): Promise<number> {
  const script = ['../../parity/cli.js', '../../dist/parity/cli.js']
    .map((path) => fileURLToPath(new URL(path, import.meta.url)))
    .find((path) => existsSync(path));
  if (script === undefined) {
    err('sigfig: the parity runner is not built here; run "npm run build" in a checkout of the repository\n');
    return 2;
  }
  const child = spawn(process.execPath, [script, ...args], { stdio: 'inherit' });
  // A terminal's Ctrl-C reaches both; waiting for the child lets it end what it started.
  const forward = (signal: NodeJS.Signals) => void child.kill(signal);
  const patient = () => undefined;
  process.on('SIGTERM', forward).on('SIGINT', patient);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code) => resolve(code ?? 2));
    });
  } finally {
    process.off('SIGTERM', forward).off('SIGINT', patient);
  }
}
