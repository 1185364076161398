// Holds ARCHITECTURE.md to the tree, and the imports to their direction.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** A room may import those below it, and itself. */
const layers = [
  ['base'],
  ['protocol', 'routing', 'call', 'redis'],
  ['identity', 'store', 'cluster', 'telemetry'],
  ['signaling', 'control'],
  ['admin', 'proxy'],
  ['config', 'version'],
  ['compose'],
  ['main'],
  ['cli'],
];
const pure = new Set(['protocol', 'routing', 'call']);

const files = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => join(folder, name));

const imports = (file: string): string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/(?:from|import\()\s*'(\.{1,2}\/[^']+)'/g)].map(([, path]) =>
    relative(root, resolve(root, dirname(file), path as string)),
  );

const room = (path: string): string => (path.split('/')[1] ?? '').replace(/\.[jt]s$/, '');
const layer = (name: string): number => layers.findIndex((rooms) => rooms.includes(name));

describe('imports point downwards', () => {
  for (const file of files('src').filter((f) => !/\.(test|contract|fixture)\.ts$/.test(f))) {
    it(file, () => {
      const mine = room(file);
      expect(layer(mine), `${mine} is a room of the map`).toBeGreaterThanOrEqual(0);
      for (const path of imports(file)) {
        expect(path, 'src imports only src').toMatch(/^src\//);
        const theirs = room(path);
        if (theirs === mine) continue;
        // The one type-only exception: what `compose` answers is named where it is used.
        if (file === 'src/compose.ts' && path === 'src/main.js') continue;
        if (pure.has(mine)) expect(theirs, `${file} is pure`).toBe('base');
        expect(layer(theirs), `${file} → ${path}`).toBeLessThan(layer(mine));
      }
    });
  }
});

describe('the dashboard', () => {
  const page = 'src/admin/dashboard';
  it('takes only types from outside its folder, so that nothing of the process gets into a browser', () => {
    for (const file of files(page).filter((name) => !/\.test\.tsx?$/.test(name))) {
      const text = readFileSync(join(root, file), 'utf8');
      const values = [...text.matchAll(/^import (?!type )[^;]*?from '(\.\.\/[^']+)'/gm)].map(
        ([, path]) => path as string,
      );
      expect(values, file).toEqual([]);
    }
  });
});

describe('the stub shares no code with src', () => {
  for (const file of [...files('legacy-stub'), ...files('parity')]) {
    it(file, () => {
      for (const path of imports(file)) expect(path).not.toMatch(/^src\//);
    });
  }
});

describe('the map', () => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8');
  const paths = [...text.matchAll(/`((?:src|routes|legacy-stub|test|scripts|docs)\/[\w./-]*)`/g)].map(
    ([, p]) => p as string,
  );
  it('names paths that exist', () => {
    expect(paths.length).toBeGreaterThan(20);
    for (const path of paths) expect(existsSync(join(root, path)), path).toBe(true);
  });
  it('names every room', () => {
    for (const name of readdirSync(join(root, 'src')).filter((n) => !n.includes('.test.'))) {
      const shown = name.endsWith('.ts') ? `src/${name}` : `src/${name}/`;
      expect(text, shown).toContain(`\`${shown}\``);
    }
  });
});

describe('the environment', () => {
  it('is read in config.ts only', () => {
    const readers = files('src').filter((f) => /process\.env\b/.test(readFileSync(join(root, f), 'utf8')));
    expect(readers.filter((f) => !f.endsWith('.test.ts'))).toEqual(['src/config.ts']);
  });
});
