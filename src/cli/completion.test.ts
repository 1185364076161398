import { spawnSync } from 'node:child_process';
import { beforeAll, describe, expect, test } from 'vitest';
import { sigfig } from './sigfig.js';

const scripts: Record<string, string> = {};
beforeAll(async () => {
  for (const shell of ['bash', 'zsh', 'fish']) {
    await sigfig(['completion', shell], {
      out: (text) => {
        scripts[shell] = text;
      },
      err: () => undefined,
      run: () => Promise.reject(new Error('nothing is started here')),
    });
  }
});

test.each(['bash', 'zsh', 'fish'])('%s knows each command and each flag', (shell) => {
  const script = scripts[shell] ?? '';
  for (const word of [
    'routes',
    'set',
    'diff',
    'apply',
    'history',
    'rollback',
    'legacy',
    'watch',
    'calls',
    'show',
    'end',
    'drain',
  ]) {
    expect(script).toMatch(new RegExp(`\\b${word}\\b`));
  }
  for (const flag of [
    'exclude-conversations',
    'if-version',
    'dry-run',
    'end-calls',
    'token-file',
    'jwt-secret-file',
    'no-wait',
  ]) {
    expect(script).toMatch(new RegExp(shell === 'fish' ? `-l ${flag}\\b` : `--${flag}\\b`));
  }
});

describe('bash', () => {
  /** What completing the last word offers; bash takes words apart at = and : before it asks. */
  function offered(...words: string[]): string[] {
    const script = `${scripts.bash}\nCOMP_WORDS=("$@")\nCOMP_CWORD=$(($# - 1))\n_sigfig\nprintf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout, stderr, status } = spawnSync('bash', ['-c', script, 'bash', 'sigfig', ...words], {
      encoding: 'utf8',
      timeout: 10_000,
    });
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 });
    return stdout.split('\n').filter((word) => word !== '');
  }
  const TARGETS = ['calls', 'call-lifecycle', 'ice-candidate', 'call-renegotiation'];

  test.each([
    [['rou'], ['routes']],
    [['st'], ['start', 'status']],
    [
      ['calls', ''],
      ['list', 'show', 'end'],
    ],
    [['routes', 'set', ''], TARGETS],
    [
      ['routes', 'set', 'calls', ''],
      ['legacy', 'new', 'canary'],
    ],
    [['routes', 'set', '--sole', '--namespace', '/x', 'calls', 'n'], ['new']],
    [['routes', 'set', '--admin', 'http', ':', '//127.0.0.1', ':', '9900', ''], TARGETS],
    [['routes', 'set', 'calls', 'new', '--if'], ['--if-version']],
    [['drain', 'pod-1', '--c'], ['--cancel']],
    [['drain', '--reason', 'x', '--f'], ['--force']],
    [
      ['routes', 'set', 'calls', 'new', '--fallback', ''],
      ['legacy', 'refuse'],
    ],
    [
      ['routes', 'set', 'calls', 'new', '--fallback', '='],
      ['legacy', 'refuse'],
    ],
    [['routes', 'set', 'calls', 'new', '--fallback', '=', 'r'], ['refuse']],
    [['routes', 'set', 'calls', 'new', '--users', ''], []],
    [['calls', 'list', '--state', 'A'], ['AWAITING_REJOIN']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['routes', 'apply', 'package.js'], ['package.json']],
    [['start', '--routes', 'package.js'], ['package.json']],
  ])('%j offers %j', (words, expected) => {
    expect(offered(...words)).toEqual(expected);
  });
});
