import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { settings } from '../config/settings.js';
import type { Config } from '../config.js';
import { sigfig } from './sigfig.js';

async function invoked(...args: string[]) {
  const seen = { out: '', err: '', configs: [] as Config[] };
  const code = await sigfig(args, {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: async (config) => void seen.configs.push(config),
  });
  return { code, ...seen };
}
// Any file that is no key will do as a shared secret.
const secret = fileURLToPath(new URL('../../routes/all-legacy.yaml', import.meta.url));
const NEEDED = ['--legacy', 'http://127.0.0.1:3000', '--jwt-secret-file', secret];

describe('sigfig start', () => {
  test('hands the config over and goes on running', async () => {
    const { code, configs, err } = await invoked(
      'start',
      ...NEEDED,
      '--listen',
      '127.0.0.1:0',
      '--legacy',
      'http://b:1',
    );
    expect(err).toBe('');
    expect(code).toBeUndefined();
    expect(configs[0]).toMatchObject({
      listen: { host: '127.0.0.1', port: 0 },
      legacy: ['http://127.0.0.1:3000', 'http://b:1'],
    });
  });

  test('of a flag given twice the last one wins', async () => {
    const { configs } = await invoked('start', ...NEEDED, '--listen', '127.0.0.1:1', '--listen', '127.0.0.1:2');
    expect(configs[0]?.listen.port).toBe(2);
  });

  test('a flag with an optional value', async () => {
    expect((await invoked('start', ...NEEDED, '--trust-proxy')).configs[0]?.trustProxy).toBe(true);
    const ranges = await invoked('start', ...NEEDED, '--trust-proxy', '10.0.0.0/8', '--trust-proxy', '::1');
    expect(ranges.configs[0]?.trustProxy).toEqual(['10.0.0.0/8', '::1/128']);
  });

  test.each([
    [['--bogus'], 'sigfig: unknown option \'--bogus\'; "sigfig start --help" lists the flags\n'],
    [['--listen'], 'sigfig: option \'--listen <host:port>\' argument missing; "sigfig start --help" lists the flags\n'],
    [['extra'], /^sigfig: too many arguments[^\n]*\n$/],
    [['--listen', 'x'], /^sigfig: --listen: "x" is no address; write host:port[^\n]*\n$/],
    [['--routes', '/nowhere/r.yaml'], /^sigfig: --routes: can't read \/nowhere\/r.yaml \(ENOENT\); [^\n]*\n$/],
  ])('%j is one clear line and 2', async (args, line) => {
    const { code, out, err, configs } = await invoked('start', ...NEEDED, ...args);
    expect({ code, out, configs }).toEqual({ code: 2, out: '', configs: [] });
    if (typeof line === 'string') expect(err).toBe(line);
    else expect(err).toMatch(line);
  });

  test('--help shows every setting with its default', async () => {
    const { code, out, err } = await invoked('start', '--help');
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const text = out.replace(/\s+/g, ' ');
    for (const [name, setting] of Object.entries(settings)) {
      expect(text).toContain(`--${name} ${setting.value}`);
      if (setting.default !== undefined) expect(text).toContain(`(default: ${setting.default})`);
    }
  });
});

describe('sigfig', () => {
  test('--version', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await invoked('--version')).toMatchObject({ code: 0, out: `${version}\n` });
  });

  test('without a command it shows how to use it', async () => {
    const { code, err } = await invoked();
    expect(code).toBe(2);
    expect(err).toContain('Usage: sigfig');
  });

  test('an unknown command is one line', async () => {
    expect((await invoked('strat')).err).toMatch(/^sigfig: unknown command 'strat'[^\n]*\n$/);
  });
});
