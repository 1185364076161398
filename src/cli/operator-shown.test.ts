// What each command shows: to a person, in a pipe, as JSON; and nothing that a terminal obeys.
import { describe, expect, test } from 'vitest';
import type { CallBody, CallsBody, HistoryBody, RoutesBody, StatusBody } from '../admin/api.js';
import type { RouteVersion } from '../routing/change.js';
import { route } from '../routing/route.js';
import { admin, asked, changed, difference, routes, run, useAdmin } from './operator.fixture.js';

useAdmin();
const NO_STATES = { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 };

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
  const version = {
    ...changed().version,
    reason: 'red\x1b[31m',
    after: { namespaces: { '/typo': routes.namespaces['/'] } } as RouteVersion['after'],
    differences: [difference, { ...difference, group: 'ice-candidate', after: route({ mode: 'new' }) }] as const,
  };
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
    routesVersion: 1,
    leads: true,
  };
  const answersOf: Record<string, { path: string; body: unknown; shows: readonly (string | RegExp)[] }> = {
    'routes list': {
      path: '/api/routes',
      body: { ...routes, fileProblems: ['r.yaml:3: \u202ebroken; mend it'] } satisfies RoutesBody,
      shows: [
        /^r\.yaml:3: \\u202ebroken; mend it$/m,
        'version 7, 2026-11-30 16:22:14Z by carol: a calm hour\n',
        /^\/ +call-lifecycle +canary 5 % +users alice,bob +legacy +over 1% errors, 5% refusals or p99 500ms, from 50 events in 1m on$/m,
        /^\/ +call-renegotiation +legacy +- +- +over/m,
      ],
    },
    'routes history': {
      path: '/api/routes/history',
      body: { versions: [version], more: true } satisfies HistoryBody,
      shows: [
        /^8 +2026-11-30 16:23:00Z +ops +cli +set +red\\u001b\[31m\n {2}\/typo: added to the table\n {2}\/ call-lifecycle: legacy → canary 5 %.*\n {2}\/ ice-candidate: legacy → new\n/m,
        'older ones: sigfig routes history --before 8\n',
      ],
    },
    'calls list': {
      path: '/api/calls',
      body: { total: 9, counts, instances: 1, calls: [call] } satisfies CallsBody,
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
        path: 'legacy',
        because: 'callee-not-here',
        offerer: 'alice',
        answerer: null,
        timeline: [
          { at: 1_000, from: 'IDLE', to: 'OFFERING', because: 'ok', event: 'call-offer' },
          { at: 3_500, from: 'OFFERING', to: 'CONNECTED', because: 'ok', event: 'call-answer' },
        ],
        elsewhere: ['b-1', 'c\u202e-1'],
      } satisfies CallBody,
      shows: [
        'conversation  c1 in /\n',
        'path          legacy (ice-candidate here) (callee-not-here)\n',
        /^state +CONNECTED for 1h\d\dm$/m,
        /^1970-01-01 00:00:03Z +\+2\.5s +OFFERING +CONNECTED +call-answer +ok$/m,
        'that is what the instance did that was asked; there may be more of it on b-1, c\\u202e-1\n',
      ],
    },
    status: {
      path: '/api/status',
      body: {
        version: '0.1.0',
        startedAt: instance.startedAt,
        you: { actor: 'local', kind: 'operate' },
        redis: null,
        ready: false,
        reasons: ['draining'],
        routes: {
          version: 7,
          summary: '/: all',
          log: null,
          problem: 'ENOSPC',
          fileProblems: ['r.yaml:3: \u202ebroken; mend it'],
        },
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
        /^file +r\.yaml:3: \\u202ebroken; mend it$/m,
        'http://l not reachable\n',
        /^a1 \* +0\.1\.0 +2h\d\dm +3 +2 +1 +1 +1\.5ms +v1 +- +alone$/m,
        /^\/ +call-lifecycle +tripped +80 +4 +1 +12ms +off +4 of 80 failed$/m,
      ],
    },
  };

  test.each(Object.keys(answersOf))('%s', async (words) => {
    const { path = '', body, shows = [] } = answersOf[words] ?? {};
    admin.answers = { [`GET ${path}`]: [200, body] };
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
    const plain = await run(words, { terminal, env: { SIGFIG_ADMIN: admin.url, NO_COLOR: '1' } });
    expect(still(plain.out)).toBe(still(out));
  });

  test('status of several instances: each, their sums, and what they share', async () => {
    const several = [
      { ...instance, self: false, id: 'a\u202e.1', leaseAgeMs: 412, leads: true, routesVersion: 7 },
      { ...instance, id: 'b.1', leaseAgeMs: 40, leads: false, draining: true, routesVersion: 6 },
    ];
    const body = { ...(answersOf.status?.body as StatusBody), instances: several };
    const redis = { address: 'redis://r\u202e:6379', reachable: true };
    admin.answers = { 'GET /api/status': [200, { ...body, redis }] };
    const { out } = await run('status');
    expect(out).toContain('redis    redis://r\\u202e:6379 reachable\n');
    const lines = /^INSTANCE.*\n(.*)\n(.*)\n(.*)$/m.exec(out)?.slice(1);
    expect(lines).toEqual([
      expect.stringMatching(/^a\\u202e\.1 +0\.1\.0 +2h\d\dm +3 +2 +1 +1 +1\.5ms +v7 +0\.4s +serving, leads$/),
      expect.stringMatching(/^b\.1 \* +0\.1\.0 +2h\d\dm +3 +2 +1 +1 +1\.5ms +v6 +0\.0s +draining$/),
      expect.stringMatching(/^all 2 +6 +4 +2 +2$/),
    ]);
    admin.answers = { 'GET /api/status': [200, { ...body, redis: { ...redis, reachable: false } }] };
    expect((await run('status')).out).toContain(
      '6379 not reachable: the legacy is served, what the new path serves is',
    );
    const reasons = ["Redis can't be reached: \u202ex"];
    admin.answers = { 'GET /api/status': [200, { ...body, ready: true, reasons }] };
    expect((await run('status')).out).toMatch(
      /^sigfig 0\.1\.0, up 2h\d\dm, ready, but Redis can't be reached: \\u202ex$/m,
    );
    // A server of an earlier version says nothing of these.
    const { redis: _, ...older } = body;
    admin.answers = { 'GET /api/status': [200, older] };
    expect((await run('status')).code).toBe(0);
  });

  test('calls of several instances: whose is said', async () => {
    const body = { total: 1, counts, instances: 3, calls: [call] } satisfies CallsBody;
    admin.answers = { 'GET /api/calls': [200, body] };
    const whose = '; 3 instances, calls on legacy are those that this one has seen\n';
    expect((await run('calls list')).out).toContain(`live: 1 call on new, 1 on legacy (1 with relays here)${whose}`);
    admin.answers = { 'GET /api/calls': [200, { ...body, total: 0, calls: [] }] };
    expect((await run('calls list')).out).toBe(`no live calls${whose}`);
  });

  test('no live calls, and none that is like that', async () => {
    admin.answers = { 'GET /api/calls': [200, { total: 0, counts: { ...counts, new: 0, legacy: 0 }, calls: [] }] };
    expect((await run('calls list')).out).toBe('no live calls\n');
    expect((await run('calls list --state connected')).out).toMatch(/^no such call; live: 0 calls on new/);
  });

  test('history of a version with many changes: some of them, and how to see all', async () => {
    const differences = Array.from({ length: 20 }, (_, i) => ({ ...difference, ns: `/${i}` }));
    admin.answers = {
      'GET /api/routes/history': [200, { versions: [{ ...changed().version, differences }, version], more: false }],
    };
    const { out } = await run('routes history');
    expect(out.match(/^ {2}\/\d+ call-lifecycle/gm)).toHaveLength(12);
    expect(out).toContain('\n  and 8 more; --json shows all\n8 ');
  });

  test('routes list --yaml is the file', async () => {
    admin.answers = { 'GET /api/routes': [200, routes] };
    expect(await run('routes list --yaml')).toEqual({ code: 0, out: routes.yaml, err: '' });
    admin.answers = { 'GET /api/routes': [200, { ...routes, fileProblems: ['r.yaml:3: broken; mend it'] }] };
    const { out, err } = await run('routes list --yaml');
    expect(out).toBe(routes.yaml);
    expect(err).toBe('sigfig: the routes file is not in force: r.yaml:3: broken; mend it\n');
  });

  test('a call that has ended, and the end of one', async () => {
    admin.answers = {
      'GET /api/calls/c1': [200, { id: 'c1', namespace: '/', conversationId: 'c', call: null, timeline: [] }],
      'POST /api/calls/c1/end': [200, { id: 'c1', ended: true }],
    };
    expect((await run('calls show c1')).out).toMatch(/^state +ended$/m);
    const timeline = [
      { at: 1_000, from: 'IDLE', to: 'OFFERING', because: 'ok', event: 'call-offer' },
      { at: Date.now() - 120_000, from: 'OFFERING', to: 'ENDED', because: 'no answer', event: 'call-end' },
    ];
    const parties = { path: 'new', because: 'canary', offerer: 'ali\u202ece', answerer: 'bob' };
    admin.answers['GET /api/calls/c2'] = [
      200,
      { id: 'c2', namespace: '/', conversationId: 'c', call: null, ...parties, timeline },
    ];
    const { out } = await run('calls show c2');
    expect(out).toMatch(/^path +new \(canary\)\nstate +ended \S+ \S+Z, 2m0\ds ago \(no answer\)\nbegan +1970-01-01 /m);
    expect(out).toMatch(/^offerer +ali\\u202ece\nanswerer +bob$/m);
    expect((await run("calls end c1 --reason 'asked for'")).out).toBe('call c1 has ended\n');
    expect(asked.at(-1)?.body).toEqual({ reason: 'asked for' });
  });
});
