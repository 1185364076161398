// The unit: its command and settings are sigfig's, its times fit, and where systemd-analyze is there, systemd itself has no fault to
// find and rates its exposure as low.
import { spawnSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { settings } from '../../src/config/settings.js';
import { at, documentsOf, heldSeconds, seconds, textOf, unknownSettings } from './files.js';

const unit = textOf('deploy/systemd/sigfig.service');
/** Every value of a key, in order. Commented lines count with `offered`. */
const values = (key: string, offered = false): string[] =>
  [...unit.matchAll(new RegExp(`^${offered ? '#?' : ''}${key}=(.*)$`, 'gm'))].map(([, value]) => value as string);
const [config] = documentsOf('deploy/systemd/sigfig.yaml') as [Record<string, string>];

/** With `%d` and programs that this machine has, so that systemd can look at them. */
async function analyze(...args: string[]): Promise<{ status: number | null; said: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-unit-'));
  try {
    const path = join(folder, 'sigfig.service');
    await writeFile(path, unit.replace('/usr/bin/node', process.execPath));
    const { status, stdout, stderr } = spawnSync('systemd-analyze', [...args, path], { encoding: 'utf8' });
    return { status, said: stdout + stderr };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

describe('sigfig.service', () => {
  it('starts what the package installs, with settings that exist', async () => {
    const [exec = ''] = values('ExecStart');
    const [node, script = '', command, ...flags] = exec.split(' ');
    expect(node).toBe('/usr/bin/node');
    const { bin } = JSON.parse(await readFile(at('package.json'), 'utf8')) as { bin: { sigfig: string } };
    expect(script).toBe(`/opt/sigfig/node_modules/sigfig/${bin.sigfig}`);
    expect(command).toBe('start');
    expect(flags).toEqual(['--config', '/etc/sigfig/sigfig.yaml']);
    const env = Object.fromEntries(values('Environment', true).map((pair) => pair.split('=') as [string, string]));
    expect(unknownSettings(env)).toEqual([]);
    const credentials = values('LoadCredential', true).map((text) => text.split(':')[0]);
    const files = Object.values(env).filter((value) => value.startsWith('%d/'));
    expect(files.map((value) => value.slice(3)).sort()).toEqual(credentials.sort());
  });

  it('has an example of its settings that names no setting wrongly, commented ones too', () => {
    const offered = [...textOf('deploy/systemd/sigfig.yaml').matchAll(/^#([a-z-]+): /gm)].map(
      ([, name]) => name as string,
    );
    for (const name of [...Object.keys(config), ...offered]) expect(settings, name).toHaveProperty(name);
    for (const [name, value] of Object.entries(config)) {
      // What only exists on the machine that it is for.
      if (value.startsWith('/')) expect(value).toMatch(/^\/(etc|var\/lib)\/sigfig\//);
      else {
        const setting = settings[name as keyof typeof settings];
        const parse = setting.parse as (text: string | readonly string[], base: string) => unknown;
        expect(() => parse(setting.many ? [value] : value, '/'), name).not.toThrow();
      }
    }
    expect(config['routes-log']).toMatch(new RegExp(`^/var/lib/${values('StateDirectory')[0]}/`));
  });

  it('stops by a drain that has its time, and does not start again what a setting keeps down', () => {
    expect(values('KillSignal')).toEqual(['SIGTERM']);
    const of = (setting: 'drain' | 'drain-delay') => seconds(settings[setting].default as string);
    expect(seconds(values('TimeoutStopSec')[0] as string)).toBeGreaterThan(
      of('drain') + of('drain-delay') + heldSeconds + 5,
    );
    expect(values('RestartPreventExitStatus')).toEqual(['2']);
  });
});

// On macOS and in small containers there is none.
if (spawnSync('systemd-analyze', ['--version']).status === 0) {
  describe('systemd', () => {
    it('takes the unit without a word', async () => {
      expect(await analyze('verify')).toEqual({ status: 0, said: '' });
    });

    it('rates its exposure at 2 of 10 or less', async () => {
      const { status, said } = await analyze('security', '--offline=true', '--threshold=20');
      expect(status, said).toBe(0);
    });
  });
}
