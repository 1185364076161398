// The image without an engine: the last stage is laid out as the COPY lines say, with the packages that --omit=dev leaves, and really
// started as its ENTRYPOINT, CMD, ENV and HEALTHCHECK say, by another user on a read-only file system where this machine can do that. Where a Docker engine answers, the image is built and run as well.
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hasDocker } from '../../scripts/redis.mjs';
import { within } from '../harness.js';
import { at, root, secretText, textOf, unknownSettings } from './files.js';

interface Instruction {
  readonly name: string;
  readonly text: string;
}
interface Stage {
  readonly from: string;
  readonly name: string | undefined;
  readonly instructions: readonly Instruction[];
}

/** The stages of a Dockerfile, with comments gone and lines that go on put together. */
function stagesOf(dockerfile: string): readonly Stage[] {
  const lines = dockerfile
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
    .join('\n')
    .replace(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line.trim() !== '');
  const stages: { from: string; name: string | undefined; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = '', text = ''] = /^(\w+)\s+(.*)$/.exec(line) ?? [];
    if (name === 'FROM') {
      const [from = '', , as] = text.split(/\s+/);
      stages.push({ from, name: as, instructions: [] });
    } else if (stages.length > 0) stages.at(-1)?.instructions.push({ name, text });
  }
  return stages;
}

const stages = stagesOf(textOf('deploy/Dockerfile'));
const last = stages.at(-1) as Stage;
const all = (name: string) => last.instructions.filter((one) => one.name === name).map(({ text }) => text);
const json = (text: string) => JSON.parse(text) as string[];
const env: Record<string, string> = Object.fromEntries(
  all('ENV').flatMap((text) => text.split(/\s+/).map((pair) => pair.split('=') as [string, string])),
);
const links = all('RUN').flatMap((text) => [...text.matchAll(/ln -s (\S+) (\S+)/g)].map(([, to, link]) => [to, link]));
interface Locked {
  readonly packages: Readonly<
    Record<string, { dev?: boolean; devOptional?: boolean; hasInstallScript?: boolean; os?: string[]; cpu?: string[] }>
  >;
}
const { packages } = JSON.parse(textOf('package-lock.json')) as Locked;
const shipped = Object.entries(packages).filter(([path, { dev }]) => path !== '' && !dev);

describe('the Dockerfile', () => {
  it('says what runs without a shell, as a user who is nobody, and stops by SIGTERM', () => {
    expect(all('USER').at(-1)).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(all('STOPSIGNAL')).toEqual(['SIGTERM']);
    for (const name of ['ENTRYPOINT', 'CMD']) expect(json(all(name)[0] as string).length).toBeGreaterThan(0);
    expect(all('HEALTHCHECK')[0]).toMatch(/CMD \["node"/);
    expect(last.instructions.findIndex(({ name }) => name === 'USER')).toBeGreaterThan(
      last.instructions.findLastIndex(({ name }) => name === 'RUN' || name === 'COPY'),
    );
  });

  it('sets only what sigfig reads, and shows the ports that it listens on', () => {
    expect(unknownSettings(env)).toEqual([]);
    const ports = [env.SIGFIG_LISTEN, env.SIGFIG_METRICS].map((address) => /:(\d+)/.exec(address ?? '')?.[1]);
    expect(all('EXPOSE')[0]?.split(' ')).toEqual(ports);
  });

  it('keeps no development package, and none that is built for one machine', () => {
    const install = stages.find(({ name }) => name === 'packages')?.instructions.map(({ text }) => text);
    expect(install).toContainEqual(expect.stringContaining('npm ci --omit=dev --ignore-scripts'));
    expect(all('COPY').filter((text) => text.includes('--from=packages'))).toHaveLength(1);
    const built = shipped.filter(([, { hasInstallScript, os, cpu }]) => hasInstallScript || os || cpu);
    expect(built.map(([path]) => path)).toEqual([]);
  });

  it('copies all that the package ships to run, and the context lets in all that it copies', () => {
    const { files, bin } = JSON.parse(textOf('package.json')) as { files: string[]; bin: Record<string, string> };
    const notForRunning = /\.md$|^!|^deploy$|^docs$/;
    const copied = all('COPY').flatMap((text) =>
      text
        .replace(/^--from=\S+\s+/, '')
        .split(/\s+/)
        .slice(0, -1),
    );
    for (const file of files.filter((name) => !notForRunning.test(name))) {
      expect(copied, file).toContainEqual(expect.stringMatching(new RegExp(`^(/build/)?${file}$`)));
    }
    expect(links).toEqual(Object.entries(bin).map(([name, file]) => [`/app/${file}`, `/usr/local/bin/${name}`]));

    const let_in = textOf('.dockerignore')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    for (const stage of stages) {
      for (const { name, text } of stage.instructions) {
        if (name !== 'COPY' || text.startsWith('--from')) continue;
        const names = text
          .split(/\s+/)
          .slice(0, -1)
          .filter((path) => path !== '.');
        for (const path of names)
          expect(
            let_in.some((top) => path === top || path.startsWith(`${top}/`)),
            path,
          ).toBe(true);
      }
    }
    for (const path of let_in) expect(existsSync(at(path)), path).toBe(true);
    // What the build reads: the folders that TypeScript compiles, and the scripts.
    const { include } = JSON.parse(textOf('tsconfig.build.json')) as { include: string[] };
    for (const path of include) expect(let_in).toContain(path.split('/')[0]);
    // Nothing that may hold a secret or somebody's ids.
    for (const never of ['.git', 'deploy', 'docs', 'node_modules', 'dist']) expect(let_in).not.toContain(never);
  });
});

/** Like `docker run --read-only --user 1000`: where Linux lets root have mounts of its own. */
const seal = [
  ...['unshare', '--mount', 'sh', '-c'],
  'mount -o remount,bind,ro / && exec setpriv --reuid 1000 --regid 1000 --clear-groups --no-new-privs "$@"',
  'sh',
];
const sealed =
  process.platform === 'linux' && spawnSync(seal[0] as string, [...seal.slice(1), 'true']).status === 0 ? seal : [];

describe('the last stage, laid out', () => {
  let image: string;
  beforeAll(async () => {
    image = await mkdtemp(join(tmpdir(), 'sigfig-image-'));
    const app = join(image, 'app');
    for (const text of all('COPY')) {
      const [, stage, rest = ''] = /^(?:--from=(\S+)\s+)?(.*)$/.exec(text) ?? [];
      const words = rest.split(/\s+/);
      const to = join(app, words.at(-1) as string);
      for (const source of words.slice(0, -1)) {
        if (stage === 'packages') {
          await modules(join(to));
          continue;
        }
        const from = at(source.replace(/^\/build\//, ''));
        await cp(from, existsSync(to) || (words.at(-1) as string).endsWith('/') ? join(to, basename(from)) : to, {
          recursive: true,
          filter: (path) => !path.endsWith('.map'),
        });
      }
    }
    await mkdir(join(image, 'bin'), { recursive: true });
    for (const [to = '', link = ''] of links) {
      await symlink(join(image, to), join(image, 'bin', basename(link)));
    }
    await symlink(process.execPath, join(image, 'bin/node'));
    await writeFile(join(image, 'jwt-secret'), secretText);
    await chmod(image, 0o755);
  }, 60_000);
  afterAll(() => rm(image, { recursive: true, force: true }));

  /** What `npm ci --omit=dev` leaves of node_modules. */
  async function modules(to: string): Promise<void> {
    for (const [path] of shipped.filter(([path]) => !/node_modules\/.*node_modules\//.test(path))) {
      const target = join(dirname(to), path);
      await mkdir(dirname(target), { recursive: true });
      // Copied, not linked: node would look for what it imports beside the link's target.
      if (existsSync(at(path)))
        await cp(realpathSync(at(path)), target, {
          recursive: true,
          filter: (file) => !/\.(map|md|d\.ts)$/.test(file),
        });
    }
  }

  const environment = (more: Record<string, string> = {}) => ({
    ...env,
    PATH: `${join(image, 'bin')}:/usr/bin:/bin`,
    SIGFIG_LISTEN: '127.0.0.1:0',
    SIGFIG_METRICS: '127.0.0.1:0/metrics',
    ...more,
  });
  const wordsOf = ([program = '', ...args]: readonly string[]): [string, string[]] => {
    const [first = '', ...rest] = [...sealed, join(image, 'bin', program), ...args];
    return [first, rest];
  };
  const run = (command: readonly string[], more: Record<string, string> = {}) =>
    promisify(execFile)(...wordsOf(command), { cwd: join(image, 'app'), env: environment(more) });

  it('is small', async () => {
    const sizes = await Promise.all(
      (await readdir(image, { recursive: true, withFileTypes: true }))
        .filter((entry) => entry.isFile())
        .map(async (entry) => (await readFile(join(entry.parentPath, entry.name))).length),
    );
    // Node's Alpine image is some 50 MB compressed; this is what sigfig adds, uncompressed.
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(40e6);
  });

  it('has the commands', async () => {
    expect((await run(['sigfig', '--help'])).stdout).toContain('Usage: sigfig');
    expect((await run(['sigfig', 'parity', '--help'])).stdout).toContain('Usage');
    expect((await run(['legacy-stub', '--help'])).stdout).toContain('Usage: legacy-stub');
  });

  if (sealed.length > 0) {
    it('runs with nothing that it could write to, and as another user', async () => {
      const tried = ['node', '-e', "require('fs').writeFileSync(process.argv[1], '')", join(image, 'written')];
      await expect(run(tried)).rejects.toMatchObject({ stderr: expect.stringContaining('EROFS') });
      expect((await run(['node', '-p', 'process.getuid()'])).stdout.trim()).toBe('1000');
    });
  }

  it('starts, is healthy, has its dashboard, says when it is not, and drains at SIGTERM', async () => {
    const command = [...json(all('ENTRYPOINT')[0] as string), ...json(all('CMD')[0] as string)];
    const settings = {
      SIGFIG_LEGACY: 'http://127.0.0.1:9',
      SIGFIG_JWT_SECRET_FILE: join(image, 'jwt-secret'),
      SIGFIG_ADMIN: '127.0.0.1:0',
      SIGFIG_DRAIN_DELAY: '0s',
      SIGFIG_DRAIN: '10ms',
    };
    const child = spawn(...wordsOf(command), {
      cwd: '/',
      env: environment(settings),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let said = '';
    child.stderr.on('data', (chunk: Buffer) => {
      said += chunk.toString();
    });
    const gone = once(child, 'exit');
    try {
      const first = once(createInterface({ input: child.stdout }), 'line');
      const ended = gone.then(() => Promise.reject(new Error(`it ended: ${said}`)));
      const [line] = (await within(20_000, 'it is ready', Promise.race([first, ended]))) as [string];
      const admin = /admin=(\S+)/.exec(line)?.[1] as string;
      expect(await (await fetch(admin)).text()).toContain('<script');
      const check = json(/CMD (\[.*\])$/.exec(all('HEALTHCHECK')[0] as string)?.[1] as string);
      await run(check, { SIGFIG_ADMIN: new URL(admin).host });
      await expect(run(check, { SIGFIG_ADMIN: '127.0.0.1:9' })).rejects.toMatchObject({ code: 1 });
    } finally {
      child.kill('SIGTERM');
    }
    expect(await gone).toEqual([0, null]);
  }, 40_000);
});

// Everywhere else the tests above say what can be said without one.
if (hasDocker()) {
  describe('a Docker engine', () => {
    it('builds the image, and runs it on a read-only file system', async () => {
      const tag = 'sigfig-test';
      const docker = (...args: string[]) =>
        spawnSync('docker', args, { cwd: root, encoding: 'utf8', timeout: 600_000 });
      const built = docker('build', '-f', 'deploy/Dockerfile', '-t', tag, '.');
      expect(built.status, built.stderr).toBe(0);
      const { stdout } = docker('image', 'inspect', tag, '--format', '{{.Size}} {{.Config.User}}');
      const [size, user] = stdout.trim().split(' ');
      expect(Number(size)).toBeLessThan(250e6);
      expect(user).toBe('1000:1000');
      const help = docker('run', '--rm', '--read-only', '--cap-drop', 'ALL', tag, '--version');
      expect(help.stdout.trim()).toBe(
        (JSON.parse(readFileSync(at('package.json'), 'utf8')) as { version: string }).version,
      );
    }, 900_000);
  });
}
