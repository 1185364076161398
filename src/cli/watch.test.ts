import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventFigures, LiveBody } from '../admin/api.js';
import { style } from './show.js';
import { sigfig } from './sigfig.js';
import { pictureText, snapshotLines } from './watch.js';
import type { CliWorld } from './world.js';

const quiet: EventFigures = {
  event: 'call-end',
  group: 'call-lifecycle',
  route: { '/': { mode: 'legacy', sole: false, percent: null } },
  rate: { legacy: 0, new: 0 },
  refusals: 0,
  errors: 0,
  p50Ms: null,
  p99Ms: null,
  graph: { stepMs: 5_000, legacy: [0, 0], new: [0, 0], refused: [0, 0] },
};
const busy: EventFigures = {
  ...quiet,
  event: 'call-offer',
  route: {
    '/': { mode: 'canary', sole: false, percent: 2.5 },
    '/x\x1b[2J': { mode: 'new', sole: true, percent: null },
  },
  rate: { legacy: 14.2, new: 0.84 },
  refusals: 3,
  errors: 1,
  p50Ms: 1.25,
  p99Ms: 12.6,
  graph: { stepMs: 5_000, legacy: [1, 50], new: [0, 50], refused: [0, 0] },
};
const body = (version: number, more: Partial<LiveBody> = {}): LiveBody => ({
  at: '2026-11-30T16:22:14.000Z',
  routes: { version, problem: null, fileProblems: [] },
  events: [busy, quiet],
  calls: {
    new: 3,
    legacy: 12,
    peeled: 2,
    byState: { OFFERING: 0, CONNECTED: 3, RENEGOTIATING: 0, AWAITING_REJOIN: 0 },
  },
  connections: 312,
  users: 300,
  guard: [
    {
      ns: '/',
      group: 'call-lifecycle',
      state: 'tripped',
      limits: null,
      figures: { event: 'call-offer', samples: 60, errors: 2, refusals: 0, p99Ms: 4 },
      trippedAt: '2026-11-30T16:22:00.000Z',
      reason: '2 of 60 failed',
    },
  ],
  instances: [],
  ...more,
});

test('as lines: the whole, and each event in which something goes on', () => {
  expect(
    snapshotLines(
      body(7, {
        routes: { version: 7, problem: 'the disk is full', fileProblems: ['r.yaml:3: \u202ebroken; mend it'] },
      }),
    ),
  ).toBe(
    '2026-11-30 16:22:14Z total version=7 connections=312 users=300 calls-new=3 calls-legacy=12 instances=0 ' +
      'guards-tripped=1 problem="the disk is full" file-problem="r.yaml:3: \\\\u202ebroken; mend it"\n' +
      '2026-11-30 16:22:14Z event=call-offer route="/ canary 2.5 %; /x\\u001b[2J new (sole)" legacy=14.2/s new=0.8/s ' +
      'refusals=3 errors=1 p50=1.3ms p99=13ms\n',
  );
});

test('as a picture', () => {
  expect(pictureText(body(7), style(false)).split('\n')).toEqual([
    'routes version 7  2026-11-30 16:22:14Z  312 connections, 300 users, 3 calls on new, 12 on legacy (2 with relays here), 0 instances',
    'guard of / call-lifecycle tripped: 2 of 60 failed',
    '',
    expect.stringMatching(/^EVENT +ROUTE +LEGACY\/s +NEW\/s +REFUSED\/min +ERRORS\/min +P50 +P99 +LAST MINUTES$/),
    expect.stringMatching(
      /^call-offer +\/ canary 2\.5 %; \/x\\u001b\[2J new \(sole\) +14\.2 +0\.8 +3 +1 +1\.3ms +13ms +▂█$/,
    ),
    expect.stringMatching(/^call-end +legacy +0 +0 +0 +0 +- +-$/),
  ]);
});

test('with several instances: whose the rates are', () => {
  const instances = [
    { id: 'a.1', self: false },
    { id: 'b.1', self: true },
  ] as never;
  expect(pictureText(body(7, { instances }), style(false))).toContain(
    '(2 with relays here), 2 instances; the table shows b.1 only\n',
  );
  expect(snapshotLines(body(7, { instances })).split('\n')[0]).toContain(' instances=2 rates-of=b.1');
});

test('a picture of a broken routes file: some of its faults, and the figures', () => {
  const fileProblems = Array.from({ length: 20 }, (_, i) => `r.yaml:${i + 1}: \u202ebroken; mend it`);
  const lines = pictureText(body(7, { routes: { version: 7, problem: null, fileProblems } }), style(false)).split('\n');
  expect(lines.slice(1, 5)).toEqual([
    ...[1, 2, 3].map((line) => `r.yaml:${line}: \\u202ebroken; mend it`),
    'guard of / call-lifecycle tripped: 2 of 60 failed',
  ]);
});

describe('sigfig routes watch', () => {
  const streams: ServerResponse[] = [];
  let next = 1;
  let told: () => void = () => undefined;
  /** The first stream breaks after one snapshot; those after it go on. */
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    streams.push(response);
    response.write(`event: live\ndata: ${JSON.stringify(body(next++))}\n\n`);
    if (streams.length === 1) response.end();
    else told();
  });
  let url = '';
  beforeAll(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  async function watch(args: readonly string[], more: Partial<CliWorld> = {}) {
    streams.length = 0;
    next = 1;
    const seen = { out: '', err: '' };
    const code = await sigfig(['routes', 'watch', ...args], {
      out(text) {
        seen.out += text;
      },
      err(text) {
        seen.err += text;
      },
      run: () => Promise.reject(new Error('nothing is started here')),
      env: { SIGFIG_ADMIN: url, NO_COLOR: '1' },
      ...more,
    });
    return { code, ...seen };
  }

  test('lines; a loss is said on stderr', async () => {
    const { code, out, err } = await watch(['--count', '2']);
    expect(code).toBe(0);
    expect(out.match(/ total version=\d/g)).toEqual([' total version=1', ' total version=2']);
    expect(err).toMatch(/^sigfig: connection lost \(http:\S+ ended the stream\); trying again in 0\.\d s\n$/);
  });

  test('--json: an object on each line', async () => {
    const { code, out, err } = await watch(['--count', '2', '--json']);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(
      out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
    ).toEqual([body(1), body(2)]);
  });

  test('on a terminal: its second screen, never higher than it is, and the first one as it was at Ctrl-C', async () => {
    const stop = new AbortController();
    told = () => setImmediate(() => setImmediate(() => stop.abort()));
    const { code, out, err } = await watch([], { terminal: { rows: () => 4 }, interrupted: () => stop.signal });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const shown = out.replaceAll('\x1b', '␛');
    const [before, ...frames] = shown.split('␛[H');
    expect(before).toBe('␛[?1049h␛[?25l␛[?7l');
    expect(frames[0]).toMatch(/^routes version 1 .*Ctrl-C ends this␛\[K␛\[J$/s);
    expect(frames[1]).toMatch(/^connection lost \(.*; trying again in .* s␛\[K\nroutes version 1 /);
    const left = '␛[?7h␛[?25h␛[?1049l';
    expect(shown.split(left)).toHaveLength(2);
    for (const frame of frames) expect(frame.split(left)[0]?.split('\n').length).toBe(4);
    // The last picture stays.
    expect(shown.split(left)[1]).toMatch(/^routes version \d .*call-end[^\n]*\n$/s);
    expect(shown.split(left)[1]).not.toContain('␛');
  });
});
