// The runbook: every command that it says exists with every flag, all of them are taken one after another by two instances, every metric, label and alert is a real one, every page that it links
// to is there, and the log line that is the hook is the one that sigfig writes.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findProxy } from '../../scripts/proxies.mjs';
import { sigfig } from '../../src/cli/sigfig.js';
import { type Bed, conversationOf, startBed } from '../cluster/bed.js';
import { callsNew, connect, startStack } from '../harness.js';
import { at, documentsOf, textOf } from './files.js';

const page = 'deploy/RUNBOOK.md';
const text = textOf(page);
/** Code in blocks, line by line, and in lines. */
const blocks = [...text.matchAll(/```sh\n([\s\S]*?)```/g)].flatMap(([, block]) => (block as string).trim().split('\n'));
const spans = [...text.replace(/```[\s\S]*?```/g, '').matchAll(/`([^`\n]+)`/g)].map(([, code]) => code as string);

const helps = new Map<string, string>();
/** In the order of writing; what stands in quotes is one word. */
const wordsOf = (line: string): string[] =>
  [...line.matchAll(/"([^"]*)"|(\S+)/g)].map(([, quoted, plain]) => quoted ?? (plain as string)).slice(1);

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
    const { help, rest } = await helpOf(wordsOf(line));
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

describe('one after another, as they stand there', () => {
  /** Of the admin API at `url`; `watch` ends with its first lines. */
  async function run(words: readonly string[], url: string): Promise<string> {
    let said = '';
    const enough = new AbortController();
    const add = (text: string) => {
      said += text;
      if (words[1] === 'watch') enough.abort();
    };
    const world = { out: add, err: add, run: () => Promise.resolve(), env: { SIGFIG_ADMIN: url }, user: 'ops' };
    const code = await sigfig(words, { ...world, interrupted: () => enough.signal });
    expect(code, `sigfig ${words.join(' ')}\n${said}`).toBe(0);
    return said;
  }

  it('every command is taken by two instances that began with all on the legacy', { timeout: 90_000 }, async () => {
    const bed: Bed = await startBed({ instances: 0, routes: textOf('routes/all-legacy.yaml') });
    try {
      const args = ['--drain-delay', '10ms', '--drain', '50ms'];
      for (const name of ['sigfig-a', 'sigfig-b']) await bed.add(name, args);
      const asked = bed.instances.find(({ name }) => name === 'sigfig-b')?.admin as string;
      const [alice, bob] = await Promise.all(['alice', 'bob'].map((name) => bed.on(bed.instances[1] as never, name)));
      let rang = '';
      let ran = 0;
      for (const line of blocks) {
        if (!line.startsWith('sigfig ') || line.startsWith('sigfig parity ')) continue;
        const words = wordsOf(line);
        if (words[1] === 'show') {
          // By then the route takes a call of alice's, and the runbook has begun one.
          await alice?.ask('call-offer', { conversationId: conversationOf(alice, bob as never), offer: 'o' });
          const { calls } = JSON.parse(await run(['calls', 'list', '--path', 'new', '--json'], asked)) as {
            calls: { id: string }[];
          };
          expect(calls, 'alice is in the canary').toHaveLength(1);
          rang = calls[0]?.id ?? '';
          words[2] = rang;
        }
        await run(words, asked);
        ran += 1;
      }
      expect(rang).not.toBe('');
      expect(ran).toBeGreaterThan(20);
      // And what takes it back, from where the last step has left it.
      for (const line of new Set(commands.filter((one) => /routes (rollback|legacy)/.test(one)))) {
        await run(wordsOf(line), asked);
        ran += 1;
      }
      const { namespaces } = JSON.parse(await run(['routes', 'list', '--json'], asked)) as {
        namespaces: Record<string, Record<string, { mode: string }>>;
      };
      for (const { mode } of Object.values(namespaces['/'] ?? {})) expect(mode).toBe('legacy');
    } finally {
      await bed.close();
    }
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
    // By hand: among what else stands in a journal, it passes over what is no line of JSON and goes on.
    const [, filter] = /jq --unbuffered -cR '([^']+)'/.exec(text) as unknown as [string, string];
    const jq = findProxy('jq');
    if (!jq) throw new Error('no jq: run "node scripts/proxies.mjs", or set JQ_PATH');
    const journal = ['ready proxy=http://127.0.0.1:8080 admin=http://127.0.0.1:9900', '42', '"call"', 'null', '[]', ''];
    const piped = spawnSync(jq, ['--unbuffered', '-cR', filter], {
      encoding: 'utf8',
      input: [...journal, stack.proxy.log(), ...journal].join('\n'),
    });
    expect({ status: piped.status, stderr: piped.stderr }).toEqual({ status: 0, stderr: '' });
    expect(
      piped.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual(
      calls.map(({ time, callId, from, to, because }) => ({
        ...{ at: time, call: callId, conversation: conversationId },
        ...{ from, to, because },
      })),
    );
    for (const client of [a, b]) client?.close();
  } finally {
    await stack.close();
  }
});
