// Each command against a server that answers what a test tells it to: what is sent, what is shown, and how it ends.
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { CallBody, CallsBody, ChangedBody, HistoryBody, PlanBody, RoutesBody, StatusBody } from '../admin/api.js';
import { route } from '../routing/route.js';
import { sigfig } from './sigfig.js';
import type { CliWorld } from './world.js';

interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}
const asked: Asked[] = [];
type Given = readonly [status: number, body: unknown] | ((response: ServerResponse) => void);
let answers: Record<string, Given> = {};
const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  const [path = ''] = (request.url ?? '').split('?');
  asked.push({
    method: request.method ?? '',
    path: request.url ?? '',
    headers: request.headers,
    body: text === '' ? undefined : JSON.parse(text),
  });
  const given = answers[`${request.method} ${path}`] ?? [404, { error: 'not-found', problems: ['no such thing'] }];
  if (typeof given === 'function') return given(response);
  response.writeHead(given[0], { 'content-type': 'application/json' });
  response.end(typeof given[1] === 'string' ? given[1] : JSON.stringify(given[1]));
});
let url = '';
const folder = mkdtempSync(join(tmpdir(), 'operator-'));
const tokenFile = join(folder, 'token');
const routesFile = join(folder, 'routes.yaml');
beforeAll(async () => {
  writeFileSync(tokenFile, 'a-token-of-this-test\n');
  writeFileSync(routesFile, 'namespaces: {}\n');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  asked.length = 0;
  answers = {};
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
  rmSync(folder, { recursive: true, force: true });
});

async function run(words: string, more: Partial<CliWorld> = {}) {
  const seen = { out: '', err: '' };
  const args = words.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", '')) ?? [];
  const code = await sigfig(args, {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: () => Promise.reject(new Error('nothing is started here')),
    env: { SIGFIG_ADMIN: url },
    user: 'ops',
    ...more,
  });
  return { code, ...seen };
}

const legacy = route({ mode: 'legacy' });
const canary = route({ mode: 'canary', canary: { percent: 5, users: ['alice', 'bob'] } });
const routes: RoutesBody = {
  version: 7,
  at: '2026-11-30T16:22:14.000Z',
  actor: 'carol',
  reason: 'a calm hour',
  namespaces: { '/': { 'call-lifecycle': canary, 'ice-candidate': legacy, 'call-renegotiation': legacy } },
  yaml: 'namespaces:\n  /: {}\n',
};
const inForce = { version: '0.1.0', routes: { version: 7 }, instances: [] };
const difference = { ns: '/', group: 'call-lifecycle', before: legacy, after: canary } as const;
const plan: PlanBody = {
  from: 7,
  differences: [difference],
  events: ['call-offer'],
  connectedUsers: 312,
  listedUsers: 2,
  liveCalls: { new: 0, legacy: 14 },
  endedCalls: 0,
  unservable: { foreign: 0, unverified: 0 },
  lines: ['moves 312 connected users', '14 live calls stay on legacy until they end'],
};
const changed = (more: Partial<ChangedBody> = {}): ChangedBody => ({
  version: {
    version: 8,
    at: '2026-11-30T16:23:00.000Z',
    actor: 'ops',
    via: 'cli',
    kind: 'set',
    reason: 'first callers',
    before: { namespaces: {} },
    after: { namespaces: {} },
    differences: [difference],
  },
  changed: true,
  plan,
  confirmed: { instances: 1, of: 1 },
  unwritten: null,
  endedCalls: 0,
  ...more,
});

describe('what is sent', () => {
  test('a change names the version that it was made from, who makes it and by what', async () => {
    answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed()] };
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
        '  / call-lifecycle: legacy → canary 5 %, users +alice,bob, fallback refuse → legacy\n' +
        'moves 312 connected users\n14 live calls stay on legacy until they end\n',
    );
  });

  test('with --if-version nothing is read first', async () => {
    answers = { 'POST /api/routes/set': [200, changed()] };
    expect((await run('routes set calls new --reason x --if-version 6')).code).toBe(0);
    expect(asked.map(({ body }) => body)).toEqual([{ target: 'calls', mode: 'new', reason: 'x', ifVersion: 6 }]);
  });

  test('with a token its owner is who makes it', async () => {
    answers = { 'GET /api/routes': [200, routes] };
    await run(`routes list --token-file ${tokenFile}`);
    await run('routes list', { env: { SIGFIG_ADMIN: url, SIGFIG_TOKEN: 'another-token' } });
    expect(asked.map(({ headers }) => [headers.authorization, headers['x-sigfig-actor']])).toEqual([
      ['Bearer a-token-of-this-test', undefined],
      ['Bearer another-token', undefined],
    ]);
  });

  test("an account's name becomes one that a header holds", async () => {
    answers = { 'GET /api/routes': [200, routes] };
    for (const user of ['jürgen\r\nx: y', 'é', 'a'.repeat(100)]) await run('routes list', { user });
    expect(asked.map(({ headers }) => headers['x-sigfig-actor'])).toEqual(['jrgenx:y', 'cli', 'a'.repeat(64)]);
  });

  test('rollback and the red switch compare nothing and need no reason', async () => {
    answers = { 'POST /api/routes/rollback': [200, changed()], 'POST /api/routes/legacy': [200, changed()] };
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
    answers = {
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
    const none: CallsBody = { total: 0, counts: { new: 0, legacy: 2, peeled: 1, byState: NO_STATES }, calls: [] };
    answers = { 'GET /api/calls': [200, none] };
    const { out } = await run("calls list --path new --state connected --search 'a&b=c' --namespace /x --limit 3");
    expect(out).toBe('no such call; live: 0 calls on new, 2 on legacy (1 with relays here)\n');
    await run(`calls list --json --admin ${url} --token-file ${tokenFile}`);
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
    answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed()] };
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
    answers = { 'GET /api/status': [200, inForce] };
    const { code, out, err } = await run(words, world);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toBe(
      'sigfig: a change needs a reason, which the history keeps; write: ' +
        `sigfig routes set calls canary --users 'alice smith' --reason "why"\n`,
    );
    expect(asked.filter(({ method }) => method === 'POST')).toEqual([]);
  });

  test('a dry run needs none', async () => {
    answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, plan] };
    const { code, out } = await run(`${words} --dry-run`);
    expect(code).toBe(0);
    expect(asked[1]?.body).toMatchObject({ dryRun: true });
    expect(asked[1]?.body).not.toHaveProperty('reason');
    expect(out).toBe(
      'dry run, from version 7; nothing was changed\n' +
        '  / call-lifecycle: legacy → canary 5 %, users +alice,bob, fallback refuse → legacy\n' +
        'moves 312 connected users\n14 live calls stay on legacy until they end\n',
    );
  });
});

describe('how it ends', () => {
  const refusal = (error: string, more = {}) => ({ error, problems: [`it is ${error}`, 'do that'], ...more });
  test.each([
    ['routes list', 401, 'unauthorized', 4],
    ['routes list', 403, 'forbidden', 4],
    ['routes list', 429, 'rate-limited', 1],
    ['routes list', 500, 'internal', 1],
    ['calls show x', 404, 'not-found', 1],
  ])('%s answered by %i %s: %i', async (words, status, error, exit) => {
    const path = words === 'routes list' ? '/api/routes' : '/api/calls/x';
    answers = { [`GET ${path}`]: [status, refusal(error)] };
    const { code, out, err } = await run(words);
    expect({ code, out }).toEqual({ code: exit, out: '' });
    expect(err).toMatch(new RegExp(`^sigfig: it is ${error}\nsigfig: do that\n`));
    if (status === 401) expect(err).toContain('sigfig: no token was given; name a file');
    const given = await run(`${words} --token-file ${tokenFile} --json`);
    expect(given.code).toBe(exit);
    expect(JSON.parse(given.err)).toMatchObject({ error, exit });
    if (status === 401) expect(given.err).toContain('the token that was given is not one of them');
    expect(given.err).not.toContain('a-token-of-this-test');
  });

  test.each([
    [400, 'invalid', 1],
    [409, 'conflict', 5],
    [409, 'legacy-call', 1],
    [413, 'too-large', 1],
    [415, 'media-type', 1],
    [422, 'refused', 1],
    [503, 'unwritable', 1],
  ])('a change answered by %i %s: %i', async (status, error, exit) => {
    answers = {
      'GET /api/status': [200, inForce],
      'POST /api/routes/set': [status, refusal(error, error === 'conflict' ? { current: 9 } : {})],
    };
    const { code, out, err } = await run('routes set calls new --reason x');
    expect({ code, out }).toEqual({ code: exit, out: '' });
    expect(err).toMatch(new RegExp(`^sigfig: it is ${error}\nsigfig: do that\n`));
    if (error !== 'conflict') return;
    expect(err.match(/\n/g)).toHaveLength(2);
    expect((await run('routes set calls new --reason x --if-version 7')).err).toMatch(
      /with what is in force now it is --if-version 9\n$/,
    );
    const asJson = await run('routes set calls new --reason x --json');
    expect(JSON.parse(asJson.err)).toMatchObject({ error: 'conflict', current: 9, exit: 5 });
  });

  test('diff is like diff(1)', async () => {
    answers = { 'POST /api/routes/diff': [200, plan] };
    expect(await run(`routes diff ${routesFile}`)).toMatchObject({ code: 1, err: '' });
    answers = { 'POST /api/routes/diff': [200, { ...plan, differences: [], lines: [] }] };
    expect(await run(`routes diff ${routesFile}`)).toMatchObject({
      code: 0,
      out: `${routesFile} says what is in force, version 7\n`,
    });
    answers = { 'POST /api/routes/diff': [422, refusal('refused')] };
    expect((await run(`routes diff ${routesFile}`)).code).toBe(2);
    const { code, err } = await run(`routes diff ${join(folder, 'none.yaml')}`);
    expect(code).toBe(2);
    expect(err).toMatch(/^sigfig: can't read \S+none\.yaml \(ENOENT\); name a routes file, or - for standard input\n$/);
  });

  test('nothing to do, and done only in part, are said', async () => {
    answers = { 'GET /api/status': [200, inForce], 'POST /api/routes/set': [200, changed({ changed: false })] };
    expect(await run('routes set calls new --reason x')).toEqual({
      code: 0,
      out: 'nothing to do: version 8 is like that already\n',
      err: '',
    });
    const part = changed({ confirmed: { instances: 1, of: 3 }, unwritten: 'ENOSPC', endedCalls: 2 });
    answers = { 'POST /api/routes/legacy': [200, part] };
    const { code, out, err } = await run('routes legacy --all --end-calls');
    expect(code).toBe(0);
    expect(out).toContain('is in force on 1 of 3 instances\n');
    expect(out).toContain('ended 2 calls\n');
    expect(err).toBe(
      'sigfig: confirmed by 1 of 3 instances only; "sigfig status" shows who answers\n' +
        'sigfig: in force, but in memory only: ENOSPC; it is written once the log is well again\n',
    );
    const asJson = await run('routes legacy --all --json');
    expect(asJson.err).toBe('');
    expect(JSON.parse(asJson.out)).toEqual(part);
  });

  test('an answer that lacks something, as of another version', async () => {
    answers = { 'GET /api/status': [200, inForce] };
    const { code, out, err } = await run('status');
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(
      /^sigfig: the answer lacks something \([^\n]*use the sigfig command of the server's version[^\n]*\n$/,
    );
    expect(await run('status --json')).toMatchObject({ code: 0, err: '' });
  });

  test.each([
    ['another server', [404, '<html>'], '(404), but not as sigfig'],
    ['another API', [200, { hello: 1 }], '(200), but not as sigfig'],
    ['a redirect, which is not followed', [302, ''], '(302), but not as sigfig'],
    ['no JSON', [200, 'null'], '(200), but not as sigfig'],
    ['a closed connection', (response: ServerResponse) => response.destroy(), 'without an answer'],
    [
      'a cut answer',
      (response: ServerResponse) => {
        response.writeHead(200, { 'content-length': '100' });
        response.write('{');
        response.socket?.end();
      },
      'without an answer',
    ],
  ] as const)('%s: 3', async (_name, given, line) => {
    answers = { 'GET /api/routes': given };
    const { code, out, err } = await run('routes list');
    expect({ code, out }).toEqual({ code: 3, out: '' });
    expect(err).toMatch(/^sigfig: [^\n]+\n$/);
    expect(err).toContain(line);
  });

  test('a change that was sent and not answered may have been made', async () => {
    answers = { 'POST /api/routes/legacy': (response) => response.destroy() };
    const { code, err } = await run('routes legacy --all');
    expect(code).toBe(3);
    expect(err).toContain('whether the change was made is not known; "sigfig routes history" shows it\n');
  });

  test('what does not speak HTTP, or not at all: 3', async () => {
    const other = createTcp((socket) =>
      socket
        .on('error', () => undefined)
        .resume()
        .end('220 mail ready\r\n'),
    );
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const at = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const spoken = await run(`status --admin ${at}`);
    expect(spoken).toMatchObject({ code: 3, err: expect.stringContaining('it does not speak HTTP') });
    const tls = await run(`status --admin https://${at}`);
    expect(tls).toMatchObject({ code: 3, err: expect.stringContaining('it does not speak TLS; write http://') });
    other.close();
    await once(other, 'close');
    const { code, err } = await run(`routes set calls new --reason x --admin ${at}`);
    expect(code).toBe(3);
    expect(err).toBe(
      `sigfig: can't reach http://${at}: nothing listens there; give the admin address of a running sigfig by ` +
        '--admin URL or SIGFIG_ADMIN\n',
    );
  });

  test.each([
    [
      'routes set calls',
      /^sigfig: missing required argument 'mode'; .*such as: sigfig routes set call-lifecycle canary /,
    ],
    [
      'routes set calls canary --percent 101',
      /^sigfig: option '--percent <n>' argument '101' is invalid\. Write 0 to 100/,
    ],
    [
      'routes lsit',
      /^sigfig: unknown command 'lsit' \(Did you mean list\?\); "sigfig routes --help" lists the commands\n$/,
    ],
    ['routes legacy', /^sigfig: required option '--all' not specified; .*such as: sigfig routes legacy --all\n$/],
    ['routes rollback x', /^sigfig: .*"sigfig routes history" lists them/],
    ['routes history --limit 201', /^sigfig: .*Write a number from 1 to 200/],
    ['routes list --admin nowhere', /^sigfig: --admin: "nowhere" is no address of the admin API; write /],
    ['calls end', /^sigfig: missing required argument 'id'/],
    ['completion tcsh', /^sigfig: .*bash, zsh, fish; write: source <\(sigfig completion bash\)\n$/],
  ])('%s: 2, one line, and nothing is asked', async (words, line) => {
    const { code, out, err } = await run(words);
    expect({ code, out }).toEqual({ code: 2, out: '' });
    expect(err).toMatch(line);
    expect(err.match(/\n/g)).toHaveLength(1);
    expect(asked).toEqual([]);
  });
});

describe('what is shown', () => {
  const id = 'x\x1b[2Jy';
  const call = {
    id,
    ns: '/',
    conversationId: 'c\u202e1',
    path: 'legacy',
    because: 'callee-not-here',
    state: 'CONNECTED',
    offerer: 'alice',
    answerer: null,
    peeled: ['ice-candidate'],
    createdAt: Date.now() - 7_500_000,
    since: Date.now() - 3_900_000,
  } as const;
  const counts = { new: 1, legacy: 1, peeled: 1, byState: NO_STATES };
  const version = { ...changed().version, reason: 'red\x1b[31m' };
  const instance = {
    id: 'a1',
    version: '0.1.0',
    startedAt: new Date(Date.now() - 7_260_000).toISOString(),
    self: true,
    connections: 3,
    users: 2,
    calls: counts,
    lagMs: 1.5,
    leaseAgeMs: null,
    draining: false,
  };
  const answersOf: Record<string, { path: string; body: unknown; shows: readonly (string | RegExp)[] }> = {
    'routes list': {
      path: '/api/routes',
      body: routes,
      shows: [
        'version 7, 2026-11-30 16:22:14Z by carol: a calm hour\n',
        /^\/ +call-lifecycle +canary 5 % +users alice,bob +legacy +errors 1%, refusals 5%, p99 500ms of 50\+ in 1m00s$/m,
        /^\/ +call-renegotiation +legacy +- +refuse/m,
      ],
    },
    'routes history': {
      path: '/api/routes/history',
      body: { versions: [version], more: true } satisfies HistoryBody,
      shows: [
        /^8 +2026-11-30 16:23:00Z +ops +cli +set +\/ call-lifecycle: legacy → canary 5 %.* red\\u001b\[31m$/m,
        'older ones: sigfig routes history --before 8\n',
      ],
    },
    'calls list': {
      path: '/api/calls',
      body: { total: 9, counts, calls: [call] } satisfies CallsBody,
      shows: [
        /^x\\u001b\[2Jy +\/ +legacy \(ice-candidate here\) +callee-not-here +CONNECTED +1h\d\dm +2h\d\dm +alice +\? +c\\u202e1$/m,
        'newest 1 of 9; live: 1 call on new, 1 on legacy (1 with relays here)\n',
      ],
    },
    'calls show x': {
      path: '/api/calls/x',
      body: {
        id,
        namespace: '/',
        conversationId: 'c1',
        call,
        timeline: [
          { at: 1_000, from: 'IDLE', to: 'OFFERING', because: 'ok', event: 'call-offer' },
          { at: 3_500, from: 'OFFERING', to: 'CONNECTED', because: 'ok', event: 'call-answer' },
        ],
      } satisfies CallBody,
      shows: [
        'conversation  c1 in /\n',
        'path          legacy (ice-candidate here) (callee-not-here)\n',
        /^state +CONNECTED for 1h\d\dm$/m,
        /^1970-01-01 00:00:03Z +\+2\.5s +OFFERING +CONNECTED +call-answer +ok$/m,
      ],
    },
    status: {
      path: '/api/status',
      body: {
        version: '0.1.0',
        startedAt: instance.startedAt,
        ready: false,
        reasons: ['draining'],
        routes: { version: 7, summary: '/: all', log: null, problem: 'ENOSPC' },
        legacy: [{ url: 'http://l', reachable: false }],
        instances: [instance],
        guard: [
          {
            ns: '/',
            group: 'call-lifecycle',
            state: 'tripped',
            limits: null,
            figures: { event: 'call-offer', samples: 80, errors: 4, refusals: 1, p99Ms: 12 },
            trippedAt: '2026-11-30T16:22:14Z',
            reason: '4 of 80 failed',
          },
        ],
      } satisfies StatusBody,
      shows: [
        /^sigfig 0\.1\.0, up 2h\d\dm, not ready: draining$/m,
        'in memory only; versions are lost with the process\n',
        'ENOSPC\n',
        'http://l not reachable\n',
        /^a1 \* +0\.1\.0 +2h\d\dm +3 +2 +1 +1 +1\.5ms +alone$/m,
        /^\/ +call-lifecycle +tripped +80 +4 +1 +12ms +off +4 of 80 failed$/m,
      ],
    },
  };

  test.each(Object.keys(answersOf))('%s', async (words) => {
    const { path = '', body, shows = [] } = answersOf[words] ?? {};
    answers = { [`GET ${path}`]: [200, body] };
    const { code, out, err } = await run(words);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    for (const text of shows) {
      if (typeof text === 'string') expect(out).toContain(text);
      else expect(out).toMatch(text);
    }
    expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);

    // The same as JSON: what the server answered, and nothing that a terminal obeys.
    const asJson = await run(`${words} --json`);
    expect(JSON.parse(asJson.out)).toEqual(body);
    expect(asJson.out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\p{Cf}]/u);

    // Colours on a terminal only, and nothing else of the text is another.
    const terminal = { rows: () => 24 };
    const coloured = await run(words, { terminal });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: the colours are looked for
    const sgr = /\x1b\[\d+m/g;
    expect(coloured.out).toMatch(sgr);
    const still = (text: string) => text.replace(/\d+h\d\dm/g, 'AGE');
    expect(still(coloured.out.replace(sgr, '').replaceAll(/ +$/gm, ''))).toBe(still(out));
    const plain = await run(words, { terminal, env: { SIGFIG_ADMIN: url, NO_COLOR: '1' } });
    expect(still(plain.out)).toBe(still(out));
  });

  test('routes list --yaml is the file', async () => {
    answers = { 'GET /api/routes': [200, routes] };
    expect((await run('routes list --yaml')).out).toBe(routes.yaml);
  });

  test('a call that has ended, and the end of one', async () => {
    answers = {
      'GET /api/calls/c1': [200, { id: 'c1', namespace: '/', conversationId: 'c', call: null, timeline: [] }],
      'POST /api/calls/c1/end': [200, { id: 'c1', ended: true }],
    };
    expect((await run('calls show c1')).out).toMatch(/^state +ended$/m);
    expect((await run("calls end c1 --reason 'asked for'")).out).toBe('call c1 has ended\n');
    expect(asked.at(-1)?.body).toEqual({ reason: 'asked for' });
  });
});
