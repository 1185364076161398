// What the tests of deploy/ ask about its files: their text and YAML, whether a setting or a command that they name exists, and whether
// sigfig takes what they set. Knows nothing of any one file.
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseAllDocuments } from 'yaml';
import { type SettingName, settings } from '../../src/config/settings.js';
import { type LoadedConfig, loadConfig } from '../../src/config.js';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const at = (path: string): string => join(root, path);
export const textOf = (path: string): string => readFileSync(at(path), 'utf8');

/** Every document of a YAML file, with anchors and merges resolved. @throws where it is no YAML */
export function documentsOf(path: string): unknown[] {
  return parseAllDocuments(textOf(path), { merge: true, uniqueKeys: true }).map((document) => {
    const [fault] = document.errors;
    if (fault) throw new Error(`${path}: ${fault.message}`);
    return document.toJS() as unknown;
  });
}

/** Of the operator's commands, which `sigfig start` does not read. */
const forCommands = ['SIGFIG_TOKEN_FILE', 'SIGFIG_TOKEN'];

/** The names in `env` that neither `sigfig start` nor a command of an operator's reads. */
export const unknownSettings = (env: Readonly<Record<string, string>>): string[] =>
  Object.keys(env)
    .filter((name) => name.startsWith('SIGFIG_') && !forCommands.includes(name))
    .filter((name) => !((name.slice('SIGFIG_'.length).toLowerCase().replaceAll('_', '-') as SettingName) in settings));

/**
 * Whether `sigfig start` takes these settings. Absolute paths are looked for below `files`, which holds the mounted files by their
 * paths; one that isn't there is a fault.
 */
export async function startTakes(
  env: Readonly<Record<string, string>>,
  files: Readonly<Record<string, string>>,
): Promise<LoadedConfig> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-mounted-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, path)), { recursive: true });
      await writeFile(join(folder, path), text);
    }
    const mounted = Object.entries(env).map(([name, value]) => {
      if (!value.startsWith('/')) return [name, value];
      if (!existsSync(join(folder, value))) throw new Error(`${name} is ${value}, which nothing mounts`);
      return [name, join(folder, value)];
    });
    return loadConfig({}, Object.fromEntries(mounted));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Contents that pass for a deployment's own files. */
export const secretText = 'a secret for tests only, long enough for HS256';
export const tokensText = 'operate operator 0123456789abcdef0123456789abcdef\n';

/** "1m30s" and the like of Compose, systemd and sigfig; seconds. */
export function seconds(text: string): number {
  const units: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600 };
  const parts = [...text.matchAll(/(\d+)(ms|s|m|h)?/g)];
  if (parts.map(([part]) => part).join('') !== text) throw new Error(`no time: ${text}`);
  return parts.reduce((sum, [, count, unit = 's']) => sum + Number(count) * (units[unit] as number), 0);
}

/** For how long a seat is held for a browser that a drain moves (docs/calls.md). */
export const heldSeconds = 10;
