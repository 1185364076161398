// Builds dist/: compiles the TypeScript, copies what is not code (demo page, schemas), makes the dashboard's page and the
// commands executable. Knows nothing of tests or of what the commands do.
import { spawnSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { buildDashboard } from './dashboard.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);

let tsc;
try {
  tsc = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
} catch {
  // Installed as a dependency without development packages: dist/ came with the package.
  if (existsSync(join(root, 'dist/src/cli/sigfig.js'))) process.exit(0);
  console.error('build: typescript is not installed; run "npm ci" in a checkout of the repository');
  process.exit(1);
}

const compiled = spawnSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.build.json')], {
  stdio: 'inherit',
  cwd: root,
});
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

for (const [from, to] of [
  ['legacy-stub/public', 'dist/legacy-stub/public'],
  ['routes/schema.json', 'dist/routes/schema.json'],
]) {
  if (existsSync(join(root, from))) cpSync(join(root, from), join(root, to), { recursive: true });
}

const description = parse(readFileSync(join(root, 'src/admin/openapi.yaml'), 'utf8'));
writeFileSync(join(root, 'dist/src/admin/openapi.json'), JSON.stringify(description));

await buildDashboard();

const { bin } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
for (const file of Object.values(bin)) {
  if (existsSync(join(root, file))) chmodSync(join(root, file), 0o755);
}
