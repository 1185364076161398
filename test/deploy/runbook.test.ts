// The runbook: every command that it says exists with every flag, every metric, label and alert is a real one, every page that it links
// to is there, and the log line that is the hook is the one that sigfig writes.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sigfig } from '../../src/cli/sigfig.js';
import { callsNew, connect, startStack } from '../harness.js';
import { at, documentsOf, textOf } from './files.js';

const page = 'deploy/RUNBOOK.md';
const text = textOf(page);
/** Code in blocks, line by line, and in lines. */
const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) => (block as string).trim().split('\n'));
const spans = [...text.replace(/```[\s\S]*?```/g, '').matchAll(/`([^`\n]+)`/g)].map(([, code]) => code as string);

const helps = new Map<string, string>();
/** What `sigfig COMMAND --help` says. */
async function ask(...command: string[]): Promise<string> {
  const key = command.join(' ');
  const known = helps.get(key);
  if (known !== undefined) return known;
  let said = '';
  const add = (more: string) => {
    said += more;
  };
  if (command[0] === 'parity') {
    // It is a program of its own.
    said = spawnSync(process.execPath, [at('dist/src/cli/sigfig.js'), ...command, '--help'], {
      encoding: 'utf8',
    }).stdout;
  } else {
    expect(await sigfig([...command, '--help'], { out: add, err: add, run: () => Promise.resolve(), env: {} })).toBe(0);
  }
  expect(said, `"sigfig ${key}" is a command`).toContain(`Usage: sigfig ${key}`);
  helps.set(key, said);
  return said;
}

/** The help of that command; a word behind its name that is a command as well belongs to it. */
async function helpOf(words: readonly string[]): Promise<{ readonly help: string; readonly rest: readonly string[] }> {
  const [first = '', second] = words;
  const help = await ask(first);
  const grouped = /^Commands:/m.test(help) || first === 'parity';
  if (!grouped || second === undefined || !/^[a-z]+$/.test(second)) return { help, rest: words.slice(1) };
  return { help: await ask(first, second), rest: words.slice(2) };
}

const commands = [...blocks, ...spans.filter((code) => /^sigfig [a-z]/.test(code) && !code.includes('…'))].filter(
  (line) => line.startsWith('sigfig '),
);

describe('commands', () => {
  it.each([...new Set(commands)])('%s', async (line) => {
    // In the order of writing; what stands in quotes is one word.
    const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)]
      .map(([, quoted, plain]) => quoted ?? (plain as string))
      .slice(1);
    const { help, rest } = await helpOf(words);
    for (const flag of rest.filter((word) => word.startsWith('--'))) {
      expect(help, flag).toMatch(new RegExp(`(^|[ ,])${flag}[ \\n=]`, 'm'));
    }
    // What an operator would be asked for, or refused for.
    if (/routes set|drain|calls end/.test(line) && blocks.includes(line)) expect(line).toContain('--reason');
  });

  it('are there for every step', () => {
    expect(commands.length).toBeGreaterThan(20);
    for (const name of [
      'status',
      'drain',
      'routes set',
      'routes rollback',
      'routes legacy',
      'routes watch',
      'calls list',
      'parity run',
    ]) {
      expect(
        commands.some((line) => line.startsWith(`sigfig ${name}`)),
        name,
      ).toBe(true);
    }
  });

  it('set modes and targets that exist', () => {
    for (const line of commands.filter((one) => one.startsWith('sigfig routes set'))) {
      const [, target, mode] = /routes set (\S+) (\S+)/.exec(line) ?? [];
      expect(['calls', 'call-lifecycle', 'ice-candidate', 'call-renegotiation']).toContain(target);
      expect(['legacy', 'new', 'canary']).toContain(mode);
    }
  });
});

describe('what is looked at', () => {
  const metrics = textOf('docs/metrics.md');

  it('are metrics that exist, with labels that they have', () => {
    const named = [...text.matchAll(/`((?:sigfig|signaling|process)_[a-z_]+)(?:\{[^}]*\})?`/g)].map(
      ([, name]) => name as string,
    );
    expect(named.length).toBeGreaterThan(20);
    for (const name of named) expect(metrics, name).toContain(`| \`${name}\` |`);
    for (const [, name, label] of text.matchAll(/`((?:sigfig|process)_[a-z_]+)` (?:by|with) `([a-z_]+)/g)) {
      const row = metrics.split('\n').find((line) => line.startsWith(`| \`${name}\``));
      expect(row, `${name} has the label ${label}`).toContain(`\`${label}\``);
    }
  });

  it('are reasons that a decision has', () => {
    const union = textOf('src/base/service.ts').split('export type Because =')[1]?.split('\n\n')[0] ?? '';
    const reasons = [...text.matchAll(/because="([a-z-]+)"/g)].map(([, reason]) => reason as string);
    const table = text.split('sigfig_events_decided_total{path="legacy"}')[1]?.split('\n\n')[0] ?? '';
    const rows = [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, reason]) => reason as string);
    expect(rows.length).toBeGreaterThan(3);
    for (const reason of [...reasons, ...rows]) expect(union).toContain(`'${reason}'`);
  });

  it('are alerts that exist, and every alert is there', () => {
    const [{ groups }] = documentsOf('deploy/prometheus/alerts.yaml') as [{ groups: { rules: { alert: string }[] }[] }];
    const alerts = groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));
    for (const [, name] of text.matchAll(/`(Sigfig[A-Za-z]+)`/g)) expect(alerts).toContain(name);
    const urgent = groups.flatMap(({ rules }) => rules as { alert: string; labels?: { severity: string } }[]);
    for (const { alert, labels } of urgent)
      if (labels?.severity === 'critical') expect(text, alert).toContain(`\`${alert}\``);
  });

  it('are flags of sigfig', async () => {
    for (const command of ['start', 'routes set', 'parity run', 'routes list', 'routes legacy'])
      await ask(...command.split(' '));
    const started = spans.filter((code) => /^--[a-z-]+$/.test(code));
    const known = [...helps.values()].join('');
    for (const flag of started) expect(known, flag).toContain(`${flag} `);
  });

  it('are pages and files that exist', () => {
    for (const [, link = ''] of text.matchAll(/\]\(([^)]+)\)/g)) {
      const [path = '', anchor] = link.split('#');
      const file = path === '' ? page : join(dirname(page), path);
      expect(existsSync(at(file)), link).toBe(true);
      if (anchor === undefined) continue;
      const titles = [...textOf(file).matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
        (title as string)
          .toLowerCase()
          .replace(/[^\w -]/g, '')
          .replaceAll(' ', '-'),
      );
      expect(titles, link).toContain(anchor);
    }
    for (const code of spans.filter((one) => /^routes\/[\w-]+\.yaml$/.test(one)))
      expect(existsSync(at(code)), code).toBe(true);
  });
});

it('the hook is the line that sigfig writes, once for each change of a call', async () => {
  const shown = JSON.parse(/```json\n(.*)\n```/.exec(text)?.[1] as string) as Record<string, string>;
  const stack = await startStack({ routes: callsNew });
  try {
    const [a, b] = await Promise.all(['alice', 'bob'].map((name) => connect(stack.proxy.url, name)));
    const conversationId = 'dm:alice:bob';
    for (const [who, event, more] of [
      [a, 'call-offer', { offer: 'o' }],
      [b, 'call-answer', { answer: 'a' }],
      [b, 'call-end', {}],
    ] as const) {
      await who?.ask(event, { conversationId, ...more });
    }
    const lines = stack.proxy
      .log()
      .split('\n')
      .filter((line) => line.includes('"msg":"call"'));
    const calls = lines.map((line) => JSON.parse(line) as Record<string, string>);
    expect(calls[0]).toEqual({ ...shown, time: expect.any(String), callId: expect.any(String) });
    expect(calls.map(({ from, to }) => `${from} ${to}`)).toEqual([
      'IDLE OFFERING',
      'OFFERING CONNECTED',
      'CONNECTED ENDED',
    ]);
    expect(new Set(calls.map(({ callId }) => callId)).size).toBe(1);
    for (const client of [a, b]) client?.close();
  } finally {
    await stack.close();
  }
});
