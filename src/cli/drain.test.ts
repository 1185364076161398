// `sigfig drain`: what is sent, what is shown while an instance empties, and how it ends.
import { describe, expect, test } from 'vitest';
import type { InstanceBody } from '../admin/api.js';
import { drainInstance } from './drain.js';
import { operate } from './operate.js';
import { admin, asked, run, useAdmin } from './operator.fixture.js';
import type { CliWorld } from './world.js';

useAdmin();

const instance = (id: string, more: Partial<InstanceBody> = {}): InstanceBody => ({
  id,
  version: '0.1.0',
  startedAt: '2026-11-30T16:22:14.000Z',
  self: false,
  connections: 0,
  users: 0,
  calls: { new: 0, legacy: 0, peeled: 0, byState: { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 } },
  lagMs: 0,
  leaseAgeMs: 400,
  draining: false,
  routesVersion: 7,
  leads: false,
  ...more,
});
/** The instances that one status after another shows; the last one again and again. `null`: no answer. */
function statuses(...shown: (readonly InstanceBody[] | null)[]): void {
  let next = 0;
  admin.answers['GET /api/status'] = (response) => {
    const instances = shown[Math.min(next++, shown.length - 1)] ?? null;
    if (instances === null) return void response.destroy();
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ instances }));
  };
}
const begun = (id: string, connections: number, draining = true) => [200, { id, draining, connections }] as const;

/** As `sigfig drain …`, but that it asks quickly. */
async function drain(which: string | undefined, more: Partial<CliWorld> & { readonly json?: boolean } = {}) {
  const seen = { out: '', err: '' };
  const { json = false, ...parts } = more;
  const world: CliWorld = {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: () => Promise.reject(new Error('nothing is started here')),
    env: { SIGFIG_ADMIN: admin.url, NO_COLOR: '1' },
    ...parts,
  };
  const action = drainInstance(which, { reason: 'a new version', wait: true }, 5);
  return { code: await operate(world, { json }, [], action), ...seen };
}

describe('what is sent', () => {
  test.each([
    ["drain --reason 'a new version' --no-wait", '/api/instances/self/drain', {}],
    ["drain a/b --reason 'a new version' --no-wait --force", '/api/instances/a%2Fb/drain', { force: true }],
    ["drain pod-1 --cancel --reason 'a new version'", '/api/instances/pod-1/drain', { cancel: true }],
  ])('%s', async (words, path, more) => {
    admin.answers[`POST ${path}`] = [...begun('pod-1.1', 312, !('cancel' in more))];
    const { code, out, err } = await run(words);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(asked.map(({ method, path, body }) => [method, path, body])).toEqual([
      ['POST', path, { reason: 'a new version', ...more }],
    ]);
    expect(out).toBe('cancel' in more ? 'pod-1.1 takes connections again\n' : 'pod-1.1 drains; 312 connections open\n');
  });

  test('where nothing was to be taken back, that is said', async () => {
    const body = { id: 'pod-1.1', draining: false, connections: 7, unchanged: true };
    admin.answers['POST /api/instances/pod-1/drain'] = [200, body];
    expect(await run('drain pod-1 --cancel --reason x')).toEqual({
      ...{ code: 0, err: '' },
      out: 'pod-1.1 takes connections: it was not draining, so there was nothing to take back\n',
    });
    expect(JSON.parse((await run('drain pod-1 --cancel --reason x --json')).out)).toEqual(body);
  });

  test('a reason is asked for, and nothing is sent without one', async () => {
    admin.answers['POST /api/instances/self/drain'] = [...begun('a', 0)];
    expect((await run('drain --no-wait', { ask: async () => 'an upgrade' })).code).toBe(0);
    expect(asked.at(-1)?.body).toEqual({ reason: 'an upgrade' });
    const { code, err } = await run('drain a --no-wait');
    expect(code).toBe(2);
    expect(err).toContain('write: sigfig drain a --no-wait --reason "why"');
    expect((await run("drain ' ' --reason x")).err).toMatch(/^sigfig: .*"sigfig status" shows it.*\n$/);
    expect(asked).toHaveLength(1);
  });

  test.each([
    [422, 'refused', 1],
    [404, 'not-found', 1],
    [503, 'unwritable', 1],
    [403, 'forbidden', 4],
  ])('a refusal (%d) is a line, and nothing is waited for', async (status, error, code) => {
    admin.answers['POST /api/instances/self/drain'] = [status, { error, problems: ['that is so; do this'] }];
    expect(await run('drain --reason x')).toEqual({ code, out: '', err: 'sigfig: that is so; do this\n' });
    expect(asked).toHaveLength(1);
  });

  test('where no answer came, a line says what shows whether it drains', async () => {
    admin.answers['POST /api/instances/self/drain'] = (response) => void response.destroy();
    const { code, err } = await run('drain --reason x');
    expect(code).toBe(3);
    expect(err).toContain('whether the change was made is not known; "sigfig status" shows it\n');
  });
});

describe('what is shown', () => {
  const others = [instance('b.1', { self: true, connections: 9 })];
  const left = (connections: number) => [...others, instance('a.1', { draining: true, connections })];

  test('lines in a pipe, until nobody is connected there', async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a.1', 312)];
    // Not heard of yet, the same twice, an answer that is lost.
    statuses([...others, instance('a.1', { connections: 312 })], left(312), left(40), left(40), null, left(1), left(0));
    expect(await drain('a')).toEqual({
      code: 0,
      out: ['312 connections', '40 connections', '1 connection', '0 connections']
        .map((count) => `a.1 drains; ${count} left\n`)
        .join(''),
      err: '',
    });
  });

  test('one line on a terminal, written over', async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a\u202e.1', 2)];
    statuses([instance('a\u202e.1', { draining: true })]);
    const { code, out } = await drain('a', { terminal: { rows: () => 24 } });
    expect(code).toBe(0);
    expect(out).toBe('\ra\\u202e.1 drains; 2 connections left\x1b[K\ra\\u202e.1 drains; 0 connections left\x1b[K\n');
  });

  test('with --json an object for each number', async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a.1', 2)];
    statuses(left(2), left(0));
    const { code, out, err } = await drain('a', { json: true });
    expect({ code, err }).toEqual({ code: 0, err: '' });
    const bodies = out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(bodies).toEqual([2, 0].map((connections) => ({ id: 'a.1', draining: true, connections })));
  });

  test('Ctrl-C ends the waiting, and not the drain', async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a.1', 2)];
    const stop = new AbortController();
    let looked = 0;
    admin.answers['GET /api/status'] = (response) => {
      if (++looked === 2) stop.abort();
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ instances: left(2) }));
    };
    expect(await drain('a', { interrupted: () => stop.signal })).toEqual({
      code: 0,
      out: 'a.1 drains; 2 connections left\n',
      err: 'sigfig: a.1 goes on draining; "sigfig drain a.1 --cancel" takes that back\n',
    });
    expect(asked.filter(({ method }) => method === 'POST')).toHaveLength(1);
  });

  test('an instance that is gone is empty', async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a.1', 2)];
    statuses(left(2), others);
    expect(await drain('a')).toMatchObject({ code: 0, err: 'sigfig: a.1 is gone\n' });
  });

  test('the one that is asked is followed where it goes on under another id', async () => {
    admin.answers['POST /api/instances/self/drain'] = [...begun('a.1', 2)];
    const own = (id: string, connections: number) => [instance(id, { self: true, draining: true, connections })];
    statuses(own('a.1', 2), own('a.2', 1), own('a.2', 0));
    expect(await drain(undefined)).toMatchObject({
      code: 0,
      err: '',
      out: expect.stringMatching(/ 1 connection left\n.* 0 /s),
    });
  });

  test('one that does not answer any more is a failure, after a few tries', async () => {
    admin.answers['POST /api/instances/self/drain'] = [...begun('a.1', 2)];
    statuses(null);
    const { code, err } = await drain(undefined);
    expect(code).toBe(3);
    expect(err).toMatch(/^sigfig: can't reach [^\n]*\n$/);
    expect(asked.filter(({ method }) => method === 'GET')).toHaveLength(3);
  });

  test('one that does not drain after all is a failure', { timeout: 15_000 }, async () => {
    admin.answers['POST /api/instances/a/drain'] = [...begun('a.1', 2)];
    statuses(left(2), [...others, instance('a.1', { connections: 3 })]);
    const { code, out, err } = await drain('a');
    expect({ code, out }).toEqual({ code: 1, out: 'a.1 drains; 2 connections left\n' });
    expect(err).toMatch(/^sigfig: a\.1 does not drain: somebody took it back, .*"sigfig status"[^\n]*\n$/);
  });
});
