import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { routeTable } from '../routing/route.js';
import { type Yaml, yamlHere, yamlThread } from './yaml.js';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sigfig-yaml-'));
});
afterAll(() => rm(folder, { recursive: true }));
const open: Yaml[] = [];
afterEach(async () => {
  for (const yaml of open.splice(0)) await yaml.close();
});

/** A thread that does this with each job; `started` counts threads through a file name of its own. */
async function thread(name: string, onMessage: string, clock = manualClock()) {
  const file = join(folder, `${name}.mjs`);
  const code = `import { parentPort } from 'node:worker_threads';
let jobs = 0;
parentPort.on('message', (job) => { jobs++; ${onMessage} });
`;
  await writeFile(file, code);
  const yaml = yamlThread(pathToFileURL(file), clock);
  open.push(yaml);
  return { yaml, clock };
}
const answers = "parentPort.postMessage({ ok: false, problems: [job.file + ' ' + jobs] });";

describe('a thread', () => {
  it('takes one file at a time, and stays for the next', async () => {
    const { yaml } = await thread('plain', answers);
    const found = await Promise.all(['a', 'b', 'c'].map((file) => yaml.parse('', file)));
    expect(found.map((read) => !read.ok && read.problems[0])).toEqual(['a 1', 'b 2', 'c 3']);
  });

  it('that takes too long is ended and told so; the next file gets a new one', async () => {
    const { yaml, clock } = await thread('slow', `if (job.text !== 'slow') ${answers}`);
    const slow = yaml.parse('slow', 'slow.yaml');
    const next = yaml.parse('', 'next.yaml');
    await new Promise((done) => setImmediate(done));
    clock.advance(5_000);
    expect(await slow).toEqual({
      ok: false,
      problems: ["slow.yaml:1: can't be read: it takes over 5 s; is it a routes file?"],
    });
    expect(await next).toEqual({ ok: false, problems: ['next.yaml 1'] });
  });

  it.each([
    ['throws', "throw new Error('broken');", 'broken'],
    ['ends', 'process.exit(3);', 'the thread ended'],
    ['runs out of memory', 'const all = []; for (;;) all.push(new Array(1e6).fill(jobs));', 'memory'],
  ])('that %s costs one answer, not the process', async (name, code, why) => {
    const { yaml } = await thread(name.replaceAll(' ', '-'), `if (job.text === 'bad') { ${code} } else ${answers}`);
    const told = await yaml.parse('bad', 'bad.yaml');
    expect(!told.ok && told.problems[0]).toContain(why);
    expect(await yaml.parse('', 'next.yaml')).toEqual({ ok: false, problems: ['next.yaml 1'] });
  });

  it('threat: files without end wait without end', async () => {
    const { yaml } = await thread('many', answers);
    const many = await Promise.all(Array.from({ length: 40 }, (_, i) => yaml.parse('', `f${i}`)));
    const refused = many.filter((read) => !read.ok && read.busy);
    expect(refused).toHaveLength(36);
    // Writing the table in force waits for its turn instead.
    const reads = Array.from({ length: 8 }, () => yaml.parse('', 'x'));
    await expect(yaml.format(routeTable(new Map()))).rejects.toThrow(/undefined \d+/);
    await Promise.all(reads);
  });

  it('goes when it was idle for a minute', async () => {
    const { yaml, clock } = await thread('idle', answers);
    await yaml.parse('', 'a');
    clock.advance(60_000);
    const again = await yaml.parse('', 'b');
    expect(!again.ok && again.problems).toEqual(['b 1']);
  });
});

describe('on the own thread', () => {
  it('reads and writes the same', async () => {
    const yaml = yamlHere();
    const table = routeTable(new Map([['/', { 'ice-candidate': { mode: 'new' } }]]));
    const read = await yaml.parse(await yaml.format(table), 'x');
    expect(read.ok && read.table.toJSON()).toEqual(table.toJSON());
    expect(await yaml.parse('colour: red', 'x')).toMatchObject({
      ok: false,
      problems: [expect.stringMatching(/^x:1: /)],
    });
  });
});
