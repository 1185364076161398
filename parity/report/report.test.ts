// What the reports hold: the figures, each difference with both transcripts, nothing from elsewhere, and no token.
import { describe, expect, it } from 'vitest';
import type { Entry } from '../play/transcript.js';
import { readScenarios } from '../read.js';
import type { Result, RunResult } from '../run.js';
import type { Scenario } from '../scenario.js';
import { htmlReport } from './html.js';
import { jsonReport } from './json.js';
import { junitReport } from './junit.js';
import { shortened } from './shorten.js';
import { terminal } from './terminal.js';

const scenarioOf = (name: string): Scenario =>
  readScenarios(
    `name: ${name}\nabout: It shows <this> & that.\nparties: { alice: }\nsteps: [barrier]\nexpect: {}\n`,
    'x.yaml',
  ).scenarios[0] as Scenario;

const event = (name: string, ...args: unknown[]): Entry => ({ kind: 'event', name, args });
const secret = `eyJhbGciOiJIUzI1NiJ9.${'a'.repeat(200)}.${'b'.repeat(40)}`;
const sdp = `v=0 ${'a=candidate '.repeat(100)}`;

const result = (name: string, more: Partial<Result>): Result => ({
  scenario: scenarioOf(name),
  path: 'legacy',
  transport: 'websocket',
  round: 1,
  ms: 12.3,
  transcripts: { alice: [event('call-offer', { offer: sdp })] },
  status: 'same',
  why: '',
  divergences: [],
  against: 'the expectation',
  ...more,
});

const run: RunResult = {
  seed: 7,
  ms: 1_234,
  results: [
    result('fine', {}),
    result('fine', { path: 'proxy-new', transport: 'polling' }),
    result('wrong', {
      path: 'proxy-new',
      status: 'differs',
      why: 'alice: <b> instead of "a"',
      divergences: [
        {
          device: 'alice',
          at: 1,
          what: '<b> instead of "a"',
          wanted: [event('same', 1), event('a', 1)],
          got: [event('same', 1), event('<b>', { token: secret })],
        },
      ],
    }),
    result('known', { path: 'proxy-new', status: 'accepted', why: 'more candidates: better' }),
    result('old', { path: 'proxy-new', status: 'gone', why: 'declared but gone: x' }),
    result('later', { path: 'peeled', status: 'not-run', why: 'not there yet', transcripts: {} }),
  ],
};

describe('the page', () => {
  const html = htmlReport(run);

  it('needs no network and no script', () => {
    expect(html).not.toMatch(/(?:src|href)="(?!#)|@import|url\(|<script/);
  });

  it('shows the matrix, the first divergence on both sides, and what was not run', () => {
    expect(html).toContain('<b>wrong</b>');
    expect(html).toContain('<li class="at">a  1</li>');
    expect(html).toContain('<li class="at">&lt;b&gt;  ');
    expect(html).toContain('more candidates: better');
    expect(html).toContain('declared but gone: x');
    expect(html).toContain('<b>peeled not there yet</b>: later');
    for (const anchor of html.matchAll(/href="#([^"]+)"/g)) expect(html).toContain(`id="${anchor[1]}"`);
  });

  it('escapes what it shows', () => {
    expect(html).not.toContain('<b> instead');
    expect(html).toContain('It shows &lt;this&gt; &amp; that.');
  });
});

describe('JSON', () => {
  it('has every play with its transcripts', () => {
    const report = JSON.parse(jsonReport(run)) as { plays: { scenario: string }[]; counts: object; seed: number };
    expect(report).toMatchObject({
      seed: 7,
      counts: { same: 2, differs: 1, accepted: 1, gone: 1, 'not-run': 1 },
      plays: expect.arrayContaining([
        expect.objectContaining({ scenario: 'wrong', status: 'differs', path: 'proxy-new' }),
      ]) as object,
    });
    expect(report.plays).toHaveLength(6);
  });
});

describe('JUnit', () => {
  const xml = junitReport(run);

  it('counts failures and what was skipped', () => {
    expect(xml).toContain('<testsuites name="parity" tests="6" failures="2" errors="0" skipped="1"');
    expect(xml).toContain('<testsuite name="proxy-new/websocket" tests="3" failures="2"');
    expect(xml).toContain('<failure message="alice: &lt;b&gt; instead of &quot;a&quot;">');
    expect(xml).toContain('<skipped message="not there yet"/>');
  });

  it('shows a candidate shortened, though other texts of its length are not', () => {
    const candidate = 'candidate:1 1 udp 1677729535 203.0.113.77 46154 typ srflx raddr 10.0.0.5 rport 46154';
    expect(shortened({ candidate })).toEqual({
      candidate: `${candidate.slice(0, 40)}… (${candidate.length} characters)`,
    });
    expect(shortened('a'.repeat(candidate.length))).toBe('a'.repeat(candidate.length));
  });

  it('has nothing that XML can not hold', () => {
    const odd = junitReport({
      ...run,
      results: [result('odd', { status: 'differs', why: 'a\u0000b\u001fc\ud83d\ude00' })],
    });
    expect(odd).toContain('message="abc\ud83d\ude00"');
  });
});

describe('all of them', () => {
  it.each([
    ['HTML', htmlReport(run)],
    ['JSON', jsonReport(run)],
    ['JUnit', junitReport(run)],
  ])('%s shows descriptions shortened and tokens never', (_name, report) => {
    expect(report).not.toContain('eyJ');
    expect(report).not.toContain(sdp);
  });
});

describe('the terminal', () => {
  const shown = (isTTY: boolean): string => {
    let text = '';
    const screen = terminal({ isTTY, columns: 80, write: (more: string) => (text += more) });
    for (const [i, one] of run.results.entries()) screen.played(one, i + 1, run.results.length);
    screen.end(run);
    return text;
  };

  it('says how many were not run where they are many, and leaves their names to the report', () => {
    const [one] = run.results.filter(({ status }) => status === 'not-run');
    if (!one) throw new Error('nothing was not run');
    const many = Array.from({ length: 6 }, (_, i) => ({ ...one, scenario: { ...one.scenario, name: `n${i}` } }));
    let text = '';
    terminal({ write: (more: string) => (text += more) }).end({ ...run, results: many });
    expect(text).toContain('– not run: peeled not there yet (6 scenarios)\n');
  });

  it('shows plain lines where it is none', () => {
    const text = shown(false);
    expect(text).not.toContain('\x1b');
    expect(text).not.toContain('\r');
    expect(text).toContain('6 of 6 played, 2 differ\n');
    expect(text).toContain('✗ wrong on proxy-new over websocket: alice: <b> instead of "a"');
    expect(text).toMatch(/^fine +✓ /m);
    expect(text).toContain('– not run: peeled not there yet (later)');
    expect(text).toContain('~ accepted: more candidates: better (known)');
    expect(text).toContain(
      '2 as expected, 1 with an accepted difference, 1 differ, 1 declared but gone, 1 not run; 1.2 s, seed 7',
    );
  });

  it('shows one line of progress that is written over', () => {
    expect(shown(true)).toContain('\r\x1b[K');
  });
});
