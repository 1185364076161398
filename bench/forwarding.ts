// What forwarding a packet costs with a table of 200 events and everything on that operators look at (guard, live figures,
// timelines, an open dashboard stream), against the same without any of it. CPU of the proxies' processes alone, as the kernel counts it;
// all carry the same traffic at the same time. `npm run bench:routes -- --help` says how.
import { createHmac } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { interval, median } from './figures.js';
import { Load, type Traffic } from './load.js';
import { cpuOf, type Started, start } from './processes.js';

const { values } = parseArgs({
  options: {
    starts: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '40' },
    packets: { type: 'string', default: '10000' },
    browsers: { type: 'string', default: '100' },
    idle: { type: 'string', default: '5' },
    most: { type: 'string', default: '5' },
    against: { type: 'string' },
    json: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  console.log(`npm run bench:routes -- [options]
  --starts N    how often all processes are started anew (5): two processes of the same code differ a little
  --rounds N    rounds of each traffic in each start (40)
  --packets N   packets in each direction in a round (10000; eight times as many where they come together)
  --browsers N  connections (100)
  --idle N      seconds without traffic in each start (5): what the stream costs by itself
  --most N      ends with 1 where all that is on costs more than this; percent (5)
  --against DIR also measure another build: its dist folder
  --json        the figures as JSON`);
  process.exit(0);
}
const number = (name: 'starts' | 'rounds' | 'packets' | 'browsers' | 'idle' | 'most'): number => {
  const value = Number(values[name]);
  if (Number.isFinite(value) && value > 0) return value;
  console.error(`bench: --${name} ${values[name]} is no number above 0`);
  process.exit(2);
};
const starts = number('starts');
const rounds = number('rounds');
const packets = number('packets');
const browsers = number('browsers');
const idleSeconds = number('idle');
const most = number('most');

const dist = dirname(dirname(fileURLToPath(import.meta.url)));
const SECRET = 'a secret for the benchmark only, long enough for HS256';
const NAMESPACES = 25;
/** Traffic's own: in the table it is a canary whose lists and share leave these calls to the legacy. */
const NS = '/app12';

/** 25 namespaces with the 8 events of a call each, as a backend in the middle of its move has them. */
function fullTable(): string {
  const users = (n: number): string => Array.from({ length: 50 }, (_, i) => `colleague-${n}-${i}`).join(', ');
  const lines = ['namespaces:'];
  for (let n = 0; n < NAMESPACES; n++) {
    const canary = `{ mode: canary, percent: ${n === 12 ? 0 : n}, users: [${users(n)}], exclude: { users: [${users(100 + n)}] } }`;
    const relay = n % 3 === 0 && n !== 12 ? 'new' : 'legacy';
    lines.push(
      `  /app${n}:`,
      `    call-lifecycle: ${canary}`,
      `    ice-candidate: ${relay}`,
      `    call-renegotiation: ${relay}`,
    );
  }
  return `${lines.join('\n')}\n`;
}

const eventOf = (name: string): string => {
  const text = (fill: string): string =>
    `42${NS},${JSON.stringify([name, { conversationId: 'conversation-1', candidate: { candidate: fill } }])}`;
  return text('x'.repeat(200 - text('').length));
};
const traffics: Readonly<Record<string, Traffic & { readonly packets: number }>> = {
  'chat, one at a time': { text: eventOf('chat-message'), burst: 1, packets },
  'chat, 16 in a write': { text: eventOf('chat-message'), burst: 16, packets: 8 * packets },
  'a candidate that goes to the legacy, one at a time': { text: eventOf('ice-candidate'), burst: 1, packets },
};

interface Arm {
  readonly name: string;
  readonly process: Started;
  readonly load: Load;
  /** Snapshots of the dashboard's stream so far. */
  seen(): number;
  close(): Promise<void>;
}

const folder = mkdtempSync(join(tmpdir(), 'sigfig-bench-'));
let files = 0;
const written = (text: string): string => {
  const file = join(folder, `file-${++files}`);
  writeFileSync(file, text);
  return file;
};
const secret = written(SECRET);

const encoded = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
function token(browser: number): string {
  const now = Math.floor(Date.now() / 1_000);
  const body = `${encoded({ alg: 'HS256', typ: 'JWT' })}.${encoded({ sub: `user-${browser}`, iat: now, exp: now + 86_400 })}`;
  return `${body}.${createHmac('sha256', SECRET).update(body).digest('base64url')}`;
}

async function arm(name: string, build: string, legacy: string, table: string, watched: boolean): Promise<Arm> {
  const any = '127.0.0.1:0';
  const proxy = await start(join(build, 'src/cli/sigfig.js'), [
    'start',
    ...['--listen', any, '--admin', any, '--metrics', `${any}/metrics`, '--legacy', legacy],
    ...['--routes', written(table), '--jwt-secret-file', secret, '--log-level', 'warn'],
  ]);
  const [url, admin] = ['proxy', 'admin'].map((one) => new RegExp(`${one}=(\\S+)`).exec(proxy.ready)?.[1]);
  if (!url || !admin) throw new Error(`no addresses in "${proxy.ready}"`);
  const stream = watched ? await dashboard(admin) : undefined;
  const load = await Load.open({ url, browsers, ns: NS, token });
  return {
    name,
    process: proxy,
    load,
    seen: () => stream?.seen() ?? 0,
    async close() {
      load.close();
      stream?.close();
      await proxy.kill();
    },
  };
}

/** Reads the stream that a dashboard reads, and wants the whole table in force. */
async function dashboard(admin: string): Promise<{ seen(): number; close(): void }> {
  const body = (await (await fetch(`${admin}/api/routes`)).json()) as { namespaces: Record<string, object> };
  const named = Object.keys(body.namespaces).filter((ns) => ns.startsWith('/app')).length;
  if (named !== NAMESPACES) throw new Error(`${named} of ${NAMESPACES} namespaces are in force`);
  const stop = new AbortController();
  const answer = await fetch(`${admin}/api/live/stream`, { signal: stop.signal });
  if (answer.status !== 200 || !answer.body) throw new Error(`the dashboard's stream answered ${answer.status}`);
  let seen = 0;
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder();
    for await (const chunk of answer.body!) seen += decoder.decode(chunk as Uint8Array).split('event: live').length - 1;
  };
  read().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return { seen: () => seen, close: () => stop.abort() };
}

interface Measured {
  /** In each direction, in a round. */
  readonly packets: number;
  /** Seconds of CPU, by arm, a figure for each round. */
  readonly cpu: Map<string, number[]>;
  wall: number;
}

/** Seconds of CPU in a second without traffic, by arm, a figure for each start. */
const idle = new Map<string, number[]>();
const add = (to: Map<string, number[]>, name: string, figure: number): void => {
  to.set(name, [...(to.get(name) ?? []), figure]);
};

async function restAll(arms: readonly Arm[]): Promise<void> {
  const before = arms.map((one) => cpuOf(one.process.pid));
  await new Promise((resolve) => setTimeout(resolve, idleSeconds * 1_000));
  for (const [i, one] of arms.entries()) add(idle, one.name, (cpuOf(one.process.pid) - before[i]!) / idleSeconds);
}

async function measure(): Promise<Map<string, Measured>> {
  const all = new Map<string, Measured>();
  const echo = await start(join(dist, 'bench/echo.js'), []);
  try {
    for (let turn = 0; turn < starts; turn++) {
      const none = 'namespaces: {}\n';
      const making: [string, string, string, boolean][] = [
        ['none', dist, none, false],
        ['all', dist, fullTable(), true],
        // The same again: what two processes differ by anyway.
        ['none again', dist, none, false],
      ];
      if (values.against !== undefined) making.push(['against', resolve(values.against), none, false]);
      // Whoever is started first is not always the same.
      const order = making.map((_, i) => making[(i + turn) % making.length]!);
      const arms: Arm[] = [];
      try {
        for (const [name, build, table, watched] of order)
          arms.push(await arm(name, build, echo.ready, table, watched));
        for (const [title, traffic] of Object.entries(traffics)) {
          let measured = all.get(title);
          if (!measured) {
            measured = { packets: traffic.packets, cpu: new Map(), wall: 0 };
            all.set(title, measured);
          }
          await Promise.all(arms.map((one) => one.load.play(traffic.packets, traffic))); // warm
          const began = performance.now();
          for (let round = 0; round < rounds; round++) {
            const before = arms.map((one) => cpuOf(one.process.pid));
            // All at once, so that whatever else the machine does happens to all of them alike; each in turn begins.
            await Promise.all(arms.map((_, i) => arms[(i + round) % arms.length]!.load.play(traffic.packets, traffic)));
            for (const [i, one] of arms.entries()) add(measured.cpu, one.name, cpuOf(one.process.pid) - before[i]!);
          }
          measured.wall += performance.now() - began;
          process.stderr.write(`bench: start ${turn + 1} of ${starts}, ${title}: ${shown(measured, 'all')}\n`);
        }
        await restAll(arms);
        const watched = arms.find(({ name }) => name === 'all');
        if (!watched || watched.seen() < 2) throw new Error('the dashboard saw no live figures');
      } finally {
        for (const one of arms) await one.close();
      }
    }
  } finally {
    await echo.kill();
  }
  return all;
}

/** Of a packet in one direction. */
const microseconds = (took: readonly number[], { packets: each }: Measured): number => (median(took) / each / 2) * 1e6;
const ratios = ({ cpu }: Measured, name: string): number[] =>
  (cpu.get(name) ?? []).map((took, i) => took / cpu.get('none')![i]!);
/** The same, the rounds of each start for themselves. */
const byStart = (of: readonly number[]): number[][] =>
  Array.from({ length: of.length / rounds }, (_, i) => of.slice(i * rounds, (i + 1) * rounds));
const percent = (ratio: number): string => `${ratio >= 1 ? '+' : '-'}${Math.abs((ratio - 1) * 100).toFixed(1)} %`;
function shown(measured: Measured, name: string): string {
  const of = ratios(measured, name);
  const [low, high] = interval(byStart(of));
  return `${percent(median(of))} (95 %: ${percent(low)} to ${percent(high)})`;
}

let failed = false;
try {
  const all = await measure();
  const { version } = JSON.parse(readFileSync(join(dist, '../package.json'), 'utf8')) as { version: string };
  const figures = [...all].map(([traffic, measured]) => ({
    traffic,
    roundsOfEachArm: starts * rounds,
    microsecondsPerPacket: Object.fromEntries(
      [...measured.cpu].map(([name, took]) => [name, microseconds(took, measured)]),
    ),
    against: Object.fromEntries(
      [...measured.cpu.keys()]
        .filter((name) => name !== 'none')
        .map((name) => [
          name,
          { median: median(ratios(measured, name)), interval: interval(byStart(ratios(measured, name))) },
        ]),
    ),
  }));
  if (values.json)
    console.log(
      JSON.stringify(
        { version, node: process.version, packets, browsers, figures, idle: Object.fromEntries(idle) },
        null,
        2,
      ),
    );
  else {
    console.log(
      `sigfig ${version}, Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model.trim()}; packets of 200 B, both ways, ${browsers} connections`,
    );
    for (const [traffic, measured] of all) {
      console.log(`\n${traffic} (${starts * rounds} rounds of each, ${(measured.wall / 1_000).toFixed(0)} s)`);
      for (const [name, took] of measured.cpu) {
        const each = microseconds(took, measured).toFixed(2);
        console.log(
          `  ${name.padEnd(11)} ${each} µs of CPU a packet${name === 'none' ? '' : `   ${shown(measured, name)}`}`,
        );
      }
    }
  }
  if (!values.json) {
    console.log('\nwithout traffic');
    for (const [name, took] of idle) {
      console.log(`  ${name.padEnd(11)} ${(median(took) * 1_000).toFixed(2)} ms of CPU a second`);
    }
  }
  const over = [...all].filter(([, measured]) => median(ratios(measured, 'all')) > 1 + most / 100);
  failed = over.length > 0;
  for (const [traffic, measured] of over) {
    console.error(`bench: ${traffic}: ${shown(measured, 'all')} is more than ${most} %`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(failed ? 1 : 0);
