// What each command sends, and that a change has a reason.
import { describe, expect, test } from 'vitest';
import type { CallsBody } from '../admin/api.js';
import {
  admin,
  asked,
  changed,
  inForce,
  plan,
  routes,
  routesFile,
  run,
  tokenFile,
  useAdmin,
} from './operator.fixture.js';

useAdmin();

describe('what is sent', () => {
  test('a change names the version that it was made from, who makes it and by what', async () => {
    admin.answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed()] };
    const { code, out, err } = await run(
      "routes set call-lifecycle canary --percent 5 --users alice,bob --users dave --exclude-users '' --namespace /calls" +
        " --salt s --no-sole --fallback refuse --guard window=90s,max-errors-percent=2 --reason 'first callers'",
    );
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(asked.map(({ method, path }) => `${method} ${path}`)).toEqual(['GET /api/status', 'POST /api/routes/set']);
    expect(asked[1]?.body).toEqual({
      target: 'call-lifecycle',
      mode: 'canary',
      namespace: '/calls',
      percent: 5,
      users: ['alice', 'bob', 'dave'],
      excludeUsers: [],
      salt: 's',
      sole: false,
      fallback: 'refuse',
      guard: { windowMs: 90_000, maxErrors: 0.02 },
      reason: 'first callers',
      ifVersion: 7,
    });
    expect(asked[1]?.headers).toMatchObject({ 'x-sigfig-client': 'cli', 'x-sigfig-actor': 'ops' });
    expect(asked[1]?.headers['content-type']).toBe('application/json');
    expect(out).toBe(
      'version 8 is in force on 1 of 1 instance\n' +
        '  / call-lifecycle: legacy → canary 5 %, users +alice,bob, fallback legacy\n' +
        'moves 312 connected users\n14 live calls stay on legacy until they end\n',
    );
  });

  test('with --if-version nothing is read first', async () => {
    admin.answers = { 'POST /api/routes/set': [200, changed()] };
    expect((await run('routes set calls new --reason x --if-version 6')).code).toBe(0);
    expect(asked.map(({ body }) => body)).toEqual([{ target: 'calls', mode: 'new', reason: 'x', ifVersion: 6 }]);
  });

  test('with a token its owner is who makes it', async () => {
    admin.answers = { 'GET /api/routes': [200, routes] };
    await run(`routes list --token-file ${tokenFile}`);
    await run('routes list', { env: { SIGFIG_ADMIN: admin.url, SIGFIG_TOKEN: 'another-token' } });
    expect(asked.map(({ headers }) => [headers.authorization, headers['x-sigfig-actor']])).toEqual([
      ['Bearer a-token-of-this-test', undefined],
      ['Bearer another-token', undefined],
    ]);
  });

  test("an account's name becomes one that a header holds", async () => {
    admin.answers = { 'GET /api/routes': [200, routes] };
    for (const user of ['jürgen\r\nx: y', 'é', 'a'.repeat(100)]) await run('routes list', { user });
    expect(asked.map(({ headers }) => headers['x-sigfig-actor'])).toEqual(['jrgenx:y', 'cli', 'a'.repeat(64)]);
  });

  test('rollback and the red switch compare nothing and need no reason', async () => {
    admin.answers = { 'POST /api/routes/rollback': [200, changed()], 'POST /api/routes/legacy': [200, changed()] };
    for (const words of [
      'routes rollback',
      'routes rollback 3 --end-calls',
      'routes legacy --all',
      "routes legacy --all --end-calls --reason 'all is lost'",
    ]) {
      expect((await run(words)).code, words).toBe(0);
    }
    expect(asked.map(({ path, body }) => [path, body])).toEqual([
      ['/api/routes/rollback', {}],
      ['/api/routes/rollback', { version: 3, endCalls: true }],
      ['/api/routes/legacy', {}],
      ['/api/routes/legacy', { endCalls: true, reason: 'all is lost' }],
    ]);
  });

  test('a file, or standard input', async () => {
    const none = { ...plan, differences: [], lines: [] };
    admin.answers = {
      'GET /api/status': [200, inForce],
      'POST /api/routes/diff': [200, none],
      'POST /api/routes/apply': [200, changed()],
    };
    expect((await run(`routes diff ${routesFile}`)).code).toBe(0);
    const readInput = async () => 'namespaces: { /: { calls: new } }\n';
    expect((await run('routes apply - --reason x', { readInput })).code).toBe(0);
    expect(asked.map(({ body }) => body)).toEqual([
      { yaml: 'namespaces: {}\n', file: routesFile },
      undefined,
      { yaml: 'namespaces: { /: { calls: new } }\n', file: 'stdin', ifVersion: 7, reason: 'x' },
    ]);
  });

  test('filters and ids as they are, whatever is in them', async () => {
    const counts = { new: 0, legacy: 2, peeled: 1, byState: NO_STATES };
    const none: CallsBody = { total: 0, counts, instances: 1, calls: [] };
    admin.answers = { 'GET /api/calls': [200, none] };
    const { out } = await run("calls list --path new --state connected --search 'a&b=c' --namespace /x --limit 3");
    expect(out).toBe('no such call; live: 0 calls on new, 2 on legacy (1 with relays here)\n');
    await run(`calls list --json --admin ${admin.url} --token-file ${tokenFile}`);
    await run("calls show '../routes?x'");
    expect(asked.map(({ path }) => path)).toEqual([
      '/api/calls?limit=3&path=new&state=CONNECTED&search=a%26b%3Dc&namespace=%2Fx',
      '/api/calls?limit=50',
      '/api/calls/..%2Froutes%3Fx',
    ]);
  });
});

const NO_STATES = { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 };

describe('a reason', () => {
  const words = "routes set calls canary --users 'alice smith'";
  test('is asked for on a terminal', async () => {
    admin.answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed()] };
    const questions: string[] = [];
    const ask = async (question: string) => {
      questions.push(question);
      return ' a calm hour ';
    };
    expect((await run(words, { ask })).code).toBe(0);
    expect(questions).toEqual(['reason: ']);
    expect(asked[1]?.body).toMatchObject({ reason: 'a calm hour' });
  });

  test.each([
    ['nobody is there', {}],
    ['it is not given', { ask: async () => undefined }],
    ['it is empty', { ask: async () => '  ' }],
  ])('where %s, the line shows the command that works', async (_name, world) => {
    admin.answers = { 'GET /api/status': [200, inForce] };
    const { code, out, err } = await run(words, world);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toBe(
      'sigfig: a change needs a reason, which the history keeps; write: ' +
        `sigfig routes set calls canary --users 'alice smith' --reason "why"\n`,
    );
    expect(asked.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  test('an empty one is none', async () => {
    admin.answers = { 'GET /api/status': [200, inForce] };
    const { code, err } = await run(`${words} --reason ''`);
    expect({ code, err }).toEqual({
      code: 2,
      err: 'sigfig: a change needs a reason, which the history keeps; what --reason gives is empty, say why in a few words\n',
    });
  });

  test('a dry run needs none', async () => {
    admin.answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, plan] };
    const { code, out } = await run(`${words} --dry-run`);
    expect(code).toBe(0);
    expect(asked[1]?.body).toMatchObject({ dryRun: true });
    expect(asked[1]?.body).not.toHaveProperty('reason');
    expect(out).toBe(
      'dry run, from version 7; nothing was changed\n' +
        '  / call-lifecycle: legacy → canary 5 %, users +alice,bob, fallback legacy\n' +
        'moves 312 connected users\n14 live calls stay on legacy until they end\n',
    );
  });
});
