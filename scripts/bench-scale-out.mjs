// `npm run bench:scale-out`: counts what a call costs in Redis for 1, 2 and 8 instances, and writes the table into
// docs/scale-out.md. Knows nothing of how it is counted.
import { spawnSync } from 'node:child_process';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const run = (args, env) =>
  spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1;
const vitest = join(root, 'node_modules/vitest/vitest.mjs');
process.exit(
  run([join(root, 'scripts/build.mjs')]) ||
    run([vitest, 'run', '--project', 'unit-and-integration', 'test/cluster/commands.test.ts'], { SCALE_OUT_DOC: '1' }),
);
