// Builds the dashboard's page with Vite into dist/dashboard. Knows nothing of the rest of the build.
//   node scripts/dashboard.mjs   builds it alone
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

if (process.argv[1] === fileURLToPath(import.meta.url)) await buildDashboard();

/** Files first and the page that names them last, so that a listener that serves dist/ meanwhile has a whole page at any time. */
export async function buildDashboard() {
  const { build } = await import('vite');
  const to = join(root, 'dist/dashboard');
  const { output } = await build({
    configFile: join(root, 'src/admin/dashboard/vite.config.mjs'),
    mode: 'production',
    logLevel: 'warn',
  });
  const page = output.find(({ fileName }) => fileName === 'index.html');
  mkdirSync(join(to, 'assets'), { recursive: true });
  for (const file of [...output.filter((file) => file !== page), page]) {
    writeFileSync(join(to, file.fileName), file.type === 'chunk' ? file.code : file.source);
  }
  const made = new Set(output.map(({ fileName }) => fileName));
  for (const name of readdirSync(join(to, 'assets'))) {
    if (!made.has(`assets/${name}`)) rmSync(join(to, 'assets', name), { force: true });
  }
}
