// Ways in which a folder is really read-only: a mount, immutable files, permissions. Which of them bind depends on who runs the
// tests and where (permissions don't bind root, mounts need it), so each is tried before it is counted on.
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Way {
  readonly name: string;
  /** What the system answers to whoever writes there. */
  readonly code: 'EROFS' | 'EPERM' | 'EACCES';
  /** The folder and the files that are in it by then. */
  freeze(folder: string): void;
  /** Does nothing where it is not frozen. */
  thaw(folder: string): void;
}

const root = process.getuid?.() === 0;
/** On a build machine that lets its user be root; elsewhere nobody is asked for that. */
const sudo = root ? [] : process.env.CI ? ['sudo', '-n'] : null;
function asRoot(...words: string[]): void {
  if (!sudo) throw new Error('only root can');
  const [command = '', ...args] = [...sudo, ...words];
  execFileSync(command, args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
const filesOf = (folder: string): string[] => [folder, ...readdirSync(folder).map((name) => join(folder, name))];

const mounted = new Set<string>();
const all: readonly Way[] = [
  {
    name: 'a read-only mount',
    code: 'EROFS',
    freeze(folder) {
      asRoot('mount', '--bind', folder, folder);
      mounted.add(folder);
      asRoot('mount', '-o', 'remount,ro,bind', folder);
    },
    thaw(folder) {
      if (mounted.delete(folder)) asRoot('umount', '--lazy', folder);
    },
  },
  {
    name: 'immutable files',
    code: 'EPERM',
    freeze: (folder) => asRoot('chattr', '+i', ...filesOf(folder)),
    thaw: (folder) => asRoot('chattr', '-i', ...filesOf(folder)),
  },
  {
    name: 'permissions',
    code: 'EACCES',
    freeze(folder) {
      for (const path of filesOf(folder).reverse()) chmodSync(path, path === folder ? 0o555 : 0o444);
    },
    thaw(folder) {
      for (const path of filesOf(folder)) chmodSync(path, path === folder ? 0o755 : 0o644);
    },
  },
];

/** The ways that bind here, and why the others don't. */
export function waysHere(): { readonly ways: readonly Way[]; readonly missing: readonly string[] } {
  const missing: string[] = [];
  const ways = all.filter((way) => {
    const why = whyNot(way);
    if (why !== null) missing.push(`${way.name} can't be tried here: ${why}`);
    return why === null;
  });
  return { ways, missing };
}

function whyNot(way: Way): string | null {
  const folder = mkdtempSync(join(tmpdir(), 'sigfig-read-only-'));
  const there = join(folder, 'there');
  writeFileSync(there, '');
  try {
    way.freeze(folder);
    for (const write of [() => appendFileSync(there, 'x'), () => writeFileSync(join(folder, 'new'), 'x')]) {
      const code = codeOf(write);
      if (code !== way.code) return `writing ends with ${code ?? 'no error'}, as root's does where it may do all`;
    }
    return null;
  } catch (error) {
    return (error as Error).message.split('\n').slice(0, 2).join(': ');
  } finally {
    codeOf(() => way.thaw(folder));
    rmSync(folder, { recursive: true, force: true });
  }
}

function codeOf(act: () => void): string | undefined {
  try {
    act();
    return undefined;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? String(error);
  }
}
