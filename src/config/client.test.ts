import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { adminUrl, clientConfig } from './client.js';

describe('where the admin API is', () => {
  test.each([
    ['http://127.0.0.1:9900', 'http://127.0.0.1:9900'],
    ['http://127.0.0.1:9900/', 'http://127.0.0.1:9900'],
    ['https://ops.example/sigfig/', 'https://ops.example/sigfig'],
    ['127.0.0.1:9900', 'http://127.0.0.1:9900'],
    ['localhost:9900', 'http://localhost:9900'],
    ['[::1]:9900', 'http://[::1]:9900'],
    // What it listens on, in the environment of `sigfig start` too.
    ['0.0.0.0:9900', 'http://127.0.0.1:9900'],
    ['[::]:9900', 'http://[::1]:9900'],
    ['http://0.0.0.0:9900', 'http://127.0.0.1:9900'],
  ])('%s is %s', (text, url) => {
    expect(adminUrl(text)).toBe(url);
  });

  test.each([
    ['9900', /no address of the admin API; write http:\/\/127\.0\.0\.1:9900/],
    ['127.0.0.1', /no address/],
    ['127.0.0.1:0', /names no port/],
    ['http://', /no URL/],
    ['ftp://host:1', /no plain http:\/\/ or https:\/\/ URL/],
    ['http://host:1/?token=x', /no plain/],
    ['http://host:1/#top', /no plain/],
    ['http://alice:secret@host:1', /^it holds a name or password; write http:\/\/host:1 and/],
  ])('%s is refused', (text, line) => {
    expect(() => adminUrl(text)).toThrow(line);
  });
});

describe('flags, then the environment', () => {
  const folder = mkdtempSync(join(tmpdir(), 'client-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string, text: string) => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const token = file('token', 'the-token-of-the-flag\n');
  const other = file('other', 'the-token-of-the-environment');

  test('the defaults', () => {
    expect(clientConfig({}, {})).toEqual({
      ok: true,
      config: { admin: 'http://127.0.0.1:9900', token: undefined, colors: true },
    });
  });

  test('flags win', () => {
    const env = { SIGFIG_ADMIN: '127.0.0.1:1', SIGFIG_TOKEN_FILE: other };
    const loaded = clientConfig({ admin: '127.0.0.1:2', 'token-file': token }, env);
    expect(loaded).toMatchObject({ config: { admin: 'http://127.0.0.1:2', token: 'the-token-of-the-flag' } });
    expect(clientConfig({}, env)).toMatchObject({
      config: { admin: 'http://127.0.0.1:1', token: 'the-token-of-the-environment' },
    });
    expect(clientConfig({}, { SIGFIG_TOKEN: 'itself' })).toMatchObject({ config: { token: 'itself' } });
  });

  test.each([
    [{ NO_COLOR: '1' }, false],
    [{ NO_COLOR: '' }, true],
    [{ TERM: 'dumb' }, false],
    [{ TERM: 'xterm' }, true],
  ])('colours with %j: %s', (env, colors) => {
    expect(clientConfig({}, env)).toMatchObject({ config: { colors } });
  });

  test('each fault is a line that never shows a token', () => {
    const list = file('list', 'operate alice a-secret-of-alices\n');
    const tried: [Parameters<typeof clientConfig>, RegExp][] = [
      [[{ 'token-file': join(folder, 'none') }, {}], /^--token-file: can't read \S+none \(ENOENT\)/],
      [[{ 'token-file': list }, {}], /^--token-file: \S+list holds more than one word; put the token alone there$/],
      [[{}, { SIGFIG_TOKEN: 'a b' }], /^SIGFIG_TOKEN: holds more than one word/],
      [[{}, { SIGFIG_TOKEN: 'a', SIGFIG_TOKEN_FILE: token }], /^SIGFIG_TOKEN: given beside SIGFIG_TOKEN_FILE/],
      [[{}, { SIGFIG_ADMIN: 'x' }], /^SIGFIG_ADMIN: "x" is no address/],
      [[{ admin: '' }, {}], /^--admin: "" is no address/],
    ];
    for (const [args, line] of tried) {
      const loaded = clientConfig(...args);
      const problems = loaded.ok ? [] : loaded.problems;
      expect(problems).toEqual([expect.stringMatching(line)]);
      expect(problems.join()).not.toMatch(/secret-of-alices|the-token/);
    }
  });
});
