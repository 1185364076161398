#!/usr/bin/env node
// The command `legacy-stub`: a running legacy backend until a signal ends it.
// Knows nothing of what the backend does.
import { readFlags, UsageError } from './flags.js';
import { type LegacyOptions, startLegacy } from './server.js';

async function main(): Promise<void> {
  let options: LegacyOptions | undefined;
  try {
    options = readFlags(process.argv.slice(2), (text) => process.stdout.write(text));
  } catch (error) {
    if (error instanceof UsageError) return fail(error.message, 2);
    throw error;
  }
  if (!options) return;
  const legacy = await startLegacy({ ...options, log: (line) => process.stderr.write(`${line}\n`) }).catch(
    (error: Error) => fail(error.message || String(error), 1),
  );
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) return;
      stopping = true;
      void legacy.close().then(() => process.exit(0));
    });
  }
  process.stdout.write(`ready ${legacy.url}\n`);
}

function fail(message: string, code: number): never {
  process.stderr.write(`legacy-stub: ${message}\n`);
  process.exit(code);
}

await main();
