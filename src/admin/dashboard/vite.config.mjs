// How Vite makes one page of this folder. `scripts/build.mjs` asks it for the files and writes them to dist/dashboard.
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';

export default defineConfig({
  root: dirname(fileURLToPath(import.meta.url)),
  // Relative, so that the page also works behind a path of somebody's reverse proxy.
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    target: 'es2022',
    // The page's Content-Security-Policy allows no `data:` and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    write: false,
  },
});
