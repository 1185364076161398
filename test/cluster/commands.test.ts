// What a call costs in Redis: commands and bytes over each instance's link, for 1, 2 and 8 instances, with what instances do
// anyway (leases, sweeps) taken off. With SCALE_OUT_DOC set (`npm run bench:scale-out`) the figures go into docs/scale-out.md.
import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import type { Client } from '../harness.js';
import { type Bed, conversationOf, type Instance, startBed } from './bed.js';

let bed: Bed;
afterEach(() => bed.close());

const calls = 40;
/** Of each call: so many by the caller before the answer, and so many by each side after it. */
const before = 4;
const afterwards = 8;

interface Figures {
  readonly instances: number;
  /** Of one call. */
  readonly commands: number;
  readonly bytes: number;
  /** Of one instance in a second, while nothing happens. */
  readonly idle: number;
}

interface Count {
  readonly commands: number;
  readonly bytes: number;
  readonly at: number;
}

const count = (): Count => ({
  commands: bed.instances.reduce((sum, { link }) => sum + link.count(), 0),
  bytes: bed.instances.reduce((sum, { link }) => sum + link.passed.bytes, 0),
  at: performance.now(),
});

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

let made = 0;

/** Offer, answer, 20 candidates, end; each acknowledged and received before the next, as between people. */
async function oneCall(a: Client, b: Client): Promise<void> {
  const sdp = `v=0 ${++made} ${'a=candidate '.repeat(100)}`;
  const conversationId = conversationOf(a, b);
  const to = (client: Client, event: string) => client.next(event);
  await Promise.all([a.ask('call-offer', { conversationId, offer: sdp }), to(b, 'call-offer')]);
  for (let i = 0; i < before; i++) await a.ask('ice-candidate', { conversationId, iceCandidate: candidate(-1 - i) });
  await Promise.all([b.ask('call-answer', { conversationId, answer: sdp }), to(a, 'call-answer')]);
  for (let i = 0; i < afterwards; i++) {
    for (const [from, other] of [
      [a, b],
      [b, a],
    ] as const) {
      await Promise.all([
        from.ask('ice-candidate', { conversationId, iceCandidate: candidate(i) }),
        to(other, 'ice-candidate'),
      ]);
    }
  }
  await Promise.all([a.ask('call-end', { conversationId }), to(b, 'call-ended')]);
}

const candidate = (n: number): object => ({
  candidate: `candidate:${n} 1 udp 2122260223 192.0.2.1 ${50_000 + n} typ host generation 0 ufrag abcd network-id 1`,
  sdpMid: '0',
  sdpMLineIndex: 0,
});

async function measure(instances: number): Promise<Figures> {
  bed = await startBed({ instances });
  const [one, two = one] = bed.instances as [Instance, Instance?];
  const [a, b] = await Promise.all([bed.on(one, `w${instances}-a`), bed.on(two, `w${instances}-b`)]);
  // What is made once: tickets, scripts.
  await oneCall(a, b);
  await pause(500);
  const from = count();
  await pause(4_000);
  const idle = count();
  const commandsPerMs = (idle.commands - from.commands) / (idle.at - from.at);
  const bytesPerMs = (idle.bytes - from.bytes) / (idle.at - from.at);
  const start = count();
  for (let i = 0; i < calls; i++) await oneCall(a, b);
  const end = count();
  const ms = end.at - start.at;
  return {
    instances,
    commands: (end.commands - start.commands - commandsPerMs * ms) / calls,
    bytes: (end.bytes - start.bytes - bytesPerMs * ms) / calls,
    idle: (commandsPerMs * 1_000) / instances,
  };
}

describe('a call in Redis', () => {
  it('costs the same with 2 and with 8 instances, less with one, and a second without calls costs an instance the same', async () => {
    const figures: Figures[] = [];
    for (const instances of [1, 2, 8]) {
      figures.push(await measure(instances));
      if (instances !== 8) await bed.close();
    }
    const [one, two, eight] = figures as [Figures, Figures, Figures];
    const shown = JSON.stringify(figures);
    expect(two.commands, shown).toBeGreaterThan(20);
    expect(eight.commands, shown).toBeLessThan(two.commands * 1.15 + 2);
    expect(eight.commands, shown).toBeGreaterThan(two.commands * 0.85 - 2);
    expect(eight.bytes, shown).toBeLessThan(two.bytes * 1.15 + 2_000);
    expect(one.commands, shown).toBeLessThanOrEqual(two.commands + 2);
    // Offer, answer, 4 + 16 candidates, end: two round trips each at most where something is decided, one delivery otherwise, which
    // its reader takes with one read and gives free with another.
    expect(two.commands, shown).toBeLessThan(2 * (3 + before) + 3 * (3 + 2 * afterwards) + 30);
    for (const { idle } of figures) expect(idle, shown).toBeLessThan(20);
    if (process.env.SCALE_OUT_DOC) await intoDoc(figures);
    else process.stdout.write(`${table(figures)}\n`);
  }, 90_000);

  it('a candidate after the answer is one command of the sender’s, and leaves the session as it is', async () => {
    bed = await startBed({ instances: 2 });
    const [one, two] = bed.instances as [Instance, Instance];
    const [a, b] = await Promise.all([bed.on(one, 'one-a'), bed.on(two, 'one-b')]);
    const conversationId = conversationOf(a, b);
    await a.ask('call-offer', { conversationId, offer: 'o' });
    await b.next('call-offer');
    await b.ask('call-answer', { conversationId, answer: 'a' });
    await a.next('call-answer');
    const session = ((await bed.redis.ask('KEYS', 'sigfig:session:*')) as string[])[0] as string;
    const stored = () => bed.redis.ask('HGETALL', session);
    await pause(300);
    const from = { commands: one.link.count(), at: performance.now() };
    await pause(2_000);
    const perMs = (one.link.count() - from.commands) / (performance.now() - from.at);
    const was = await stored();
    const start = { commands: one.link.count(), at: performance.now() };
    for (let i = 0; i < 200; i++) {
      await Promise.all([a.ask('ice-candidate', { conversationId, iceCandidate: i }), b.next('ice-candidate')]);
    }
    const spent = one.link.count() - start.commands - perMs * (performance.now() - start.at);
    expect(spent / 200, 'commands of the sender’s for each candidate').toBeLessThan(1.1);
    expect(spent / 200).toBeGreaterThan(0.9);
    expect(await stored()).toEqual(was);
  }, 30_000);
});

const table = (figures: readonly Figures[]): string =>
  [
    '| instances | commands of one call | bytes of one call | commands of an instance in a second without calls |',
    '| --- | --- | --- | --- |',
    ...figures.map(
      ({ instances, commands, bytes, idle }) =>
        `| ${instances} | ${commands.toFixed(1)} | ${(bytes / 1_000).toFixed(1)} kB | ${idle.toFixed(1)} |`,
    ),
  ].join('\n');

/** Between two marks in the page. */
async function intoDoc(figures: readonly Figures[]): Promise<void> {
  const file = fileURLToPath(new URL('../../docs/scale-out.md', import.meta.url));
  const text = await readFile(file, 'utf8');
  const [begin, end] = ['<!-- figures: commands -->', '<!-- end of figures -->'];
  const from = text.indexOf(begin);
  const to = text.indexOf(end);
  if (from < 0 || to < from) throw new Error(`docs/scale-out.md has no "${begin}" … "${end}"`);
  await writeFile(file, `${text.slice(0, from + begin.length)}\n${table(figures)}\n${text.slice(to)}`);
}
