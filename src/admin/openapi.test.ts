// Holds openapi.yaml to the API: every path and method is in both, what is answered fits its schema, and every refusal that is
// described can be had.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manualClock, systemClock } from '../base/clock.js';
import { Unavailable } from '../base/unavailable.js';
import { memoryLog } from '../control/memory-log.js';
import { createRoutes } from '../control/routes.js';
import { recordedSignals } from '../telemetry/signals.js';
import {
  type Ask,
  type Bed,
  call,
  fakeCalls,
  fakeConnected,
  startBed,
  type Told,
  tokens,
  tokensText,
} from './admin.fixture.js';
import { refusalStatus } from './answer.js';
import { createApp } from './app.js';
import { described, misfits } from './described.fixture.js';
import type { ApiDeps } from './endpoints.js';
import { dashboardPages } from './pages.js';
import { mostStreams } from './stream.js';

const seen = new Set<string>();
function holds(path: string, method: string, told: Told): void {
  expect(misfits(path, method, told.status, told.body), `${method} ${path} → ${told.status}`).toEqual([]);
  seen.add(`${method} ${path} ${told.status} ${(told.body as { error?: string }).error ?? ''}`);
}

const beds: Bed[] = [];
const bedOf = async (options?: Parameters<typeof startBed>[0]) => {
  const bed = await startBed(options);
  beds.push(bed);
  return bed;
};
let open: Bed;
let guarded: Bed;
beforeAll(async () => {
  open = await bedOf({
    calls: fakeCalls([call('a', 'new'), call('b', 'legacy'), call('c', 'new', '/calls')]),
    connected: fakeConnected({ '/': ['alice', 'bob'] }, { foreign: 1, unverified: { '/': 2 } }),
    guard: {
      states: () => [
        {
          ns: '/',
          group: 'call-lifecycle',
          state: 'tripped',
          limits: null,
          figures: { event: 'call-offer', samples: 60, errors: 7, refusals: 0, p99Ms: 12.5 },
          trippedAt: '2026-01-01T00:00:00.000Z',
          reason: '7 of 60 failed',
        },
      ],
    },
  });
  guarded = await bedOf({ tokensText });
});
afterAll(async () => {
  for (const bed of beds) await bed.close();
});

/** Asks, and holds the answer to its description. */
const asked = async (bed: Bed, method: string, path: string, options: Ask = {}, at = path) => {
  const told = await bed.ask(at, { method, ...options });
  holds(path, method, told);
  return told;
};

const changes = ['set', 'apply', 'rollback', 'legacy'].map((name) => `/api/routes/${name}`);
const gets = ['status', 'routes', 'routes/history', 'calls', 'live', 'openapi.json'].map((name) => `/api/${name}`);
const posts = [...changes, '/api/routes/diff', '/api/calls/{id}/end', '/api/instances/{id}/drain'];
const concrete = (path: string) => path.replace('{id}', 'a');
const drain = { body: { reason: 'a new version' } };

it('describes every path and method, and no other', async () => {
  const app = createApp({
    ...({} as ApiDeps),
    routes: open.routes,
    signals: recordedSignals(),
    tokens: undefined,
    pages: dashboardPages('/nowhere'),
  });
  const served = app.routes.map(({ method, path }) => `${method} ${path.replace(/:(\w+)/g, '{$1}')}`).sort();
  const told = Object.entries(described.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect(told.sort()).toEqual(served);
  app.close();
});

describe('answers fit their schemas', () => {
  for (const path of gets) it(`GET ${path}`, async () => void (await asked(open, 'GET', path)));

  it('GET /api/calls/{id}', async () => {
    expect((await asked(open, 'GET', '/api/calls/{id}', {}, '/api/calls/a')).status).toBe(200);
  });

  it('a plan of each change', async () => {
    const body = { dryRun: true };
    const yaml = 'namespaces: { /: { calls: { mode: canary, percent: 5, users: [alice, carol] } } }';
    for (const [path, more] of [
      ['/api/routes/set', { target: 'calls', mode: 'new' }],
      ['/api/routes/apply', { yaml }],
      ['/api/routes/diff', { yaml }],
      ['/api/routes/legacy', { endCalls: true }],
    ] as const) {
      const told = await asked(open, 'POST', path, { body: path.endsWith('diff') ? more : { ...body, ...more } });
      expect(told, path).toMatchObject({ status: 200, body: { from: 1 } });
    }
  });

  it('each change', async () => {
    const reason = 'for the description';
    const yaml = 'namespaces: { /: { ice-candidate: new } }';
    const made = [
      await asked(open, 'POST', '/api/routes/set', {
        body: { target: 'call-lifecycle', mode: 'canary', percent: 1, reason },
      }),
      await asked(open, 'POST', '/api/routes/set', {
        body: { target: 'call-lifecycle', mode: 'canary', percent: 1, reason },
      }),
      await asked(open, 'POST', '/api/routes/apply', { body: { yaml, reason } }),
      await asked(open, 'POST', '/api/routes/rollback', { body: {} }),
      await asked(open, 'POST', '/api/routes/legacy', { body: { reason, endCalls: true } }),
      await asked(open, 'POST', '/api/calls/{id}/end', { body: {} }, '/api/calls/b/end'),
    ];
    expect(made.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200, 409]);
    expect(made.slice(0, 5).map(({ body }) => body.changed)).toEqual([true, false, true, true, true]);
    expect(made[4]?.body.endedCalls).toBe(2);
    await asked(open, 'GET', '/api/routes/history');
    await asked(open, 'GET', '/api/routes');
  });

  it('an ended call', async () => {
    open.calls.all.push(call('d', 'new'));
    expect(
      (await asked(open, 'POST', '/api/calls/{id}/end', { body: { reason: 'stuck' } }, '/api/calls/d/end')).status,
    ).toBe(200);
  });

  it('a drain', async () => {
    const told = await asked(open, 'POST', '/api/instances/{id}/drain', drain, '/api/instances/here/drain');
    expect(told).toMatchObject({ status: 200, body: { id: 'here', draining: true } });
  });

  it('the stream', async () => {
    const response = await fetch(`${open.url}/api/live/stream`);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    while (!/event: live\ndata: .*\n\n/.test(text)) text += (await reader.read()).value ?? '';
    await reader.cancel();
    const body = JSON.parse(/data: (.*)\n/.exec(text)![1]!);
    holds('/api/live', 'GET', { status: 200, headers: response.headers, body });
    expect(body.events).toHaveLength(8);
    seen.add('GET /api/live/stream 200 ');
  });
});

describe('refusals', () => {
  it('401 and 403 everywhere', async () => {
    for (const [method, paths] of [
      ['GET', [...gets, '/api/calls/{id}', '/api/live/stream']],
      ['POST', posts],
    ] as const) {
      for (const path of paths) {
        const body = method === 'POST' ? { body: {} } : {};
        // A stranger may be wrong ten times at once.
        const bed = await bedOf({ tokensText });
        expect((await asked(bed, method, path, body, concrete(path))).status).toBe(401);
        const elsewhere = { ...body, token: tokens.operate, headers: { origin: 'https://evil.example' } };
        expect((await asked(bed, method, path, elsewhere, concrete(path))).status).toBe(403);
        await bed.close();
        beds.splice(beds.indexOf(bed), 1);
      }
    }
    for (const path of posts.filter((one) => !one.endsWith('diff'))) {
      const told = await asked(guarded, 'POST', path, { body: {}, token: tokens.read }, concrete(path));
      expect(told.status).toBe(403);
    }
  });

  it('400, 413 and 415 everywhere', async () => {
    const token = tokens.operate;
    for (const path of [...gets, '/api/calls/{id}']) {
      expect((await asked(guarded, 'GET', path, { token }, `${concrete(path)}?colour=red`)).status).toBe(400);
    }
    for (const path of posts) {
      expect((await asked(guarded, 'POST', path, { body: { colour: 'red' }, token }, concrete(path))).status).toBe(400);
      const large = { body: { reason: 'x'.repeat(300 * 1024) }, token };
      expect((await asked(guarded, 'POST', path, large, concrete(path))).status).toBe(413);
      const form = { body: 'a=b', token, headers: { 'content-type': 'text/plain' } };
      expect((await asked(guarded, 'POST', path, form, concrete(path))).status).toBe(415);
    }
    const told = await asked(open, 'GET', '/api/live/stream', {
      headers: { 'x-sigfig-actor': ' '.repeat(2) + 'ü'.repeat(65) },
    });
    expect(told.status).toBe(400);
  });

  it('404, 409 and 422', async () => {
    expect((await asked(open, 'GET', '/api/calls/{id}', {}, '/api/calls/none')).status).toBe(404);
    expect((await asked(open, 'POST', '/api/calls/{id}/end', { body: {} }, '/api/calls/none/end')).status).toBe(404);
    expect((await asked(open, 'POST', '/api/calls/{id}/end', { body: {} }, '/api/calls/b/end')).body.error).toBe(
      'legacy-call',
    );
    const old = { ifVersion: 9_999, reason: 'late' };
    const yaml = 'namespaces: {}';
    for (const [path, body] of [
      ['/api/routes/set', { target: 'calls', mode: 'new', ...old }],
      ['/api/routes/apply', { yaml, ...old }],
      ['/api/routes/diff', { yaml, ifVersion: 9_999 }],
    ] as const) {
      const told = await asked(open, 'POST', path, { body });
      expect(told).toMatchObject({ status: 409, body: { error: 'conflict', current: open.routes.current.version } });
    }
    for (const [path, body] of [
      ['/api/routes/set', { target: 'call-offer', mode: 'new', reason: 'x' }],
      ['/api/routes/apply', { yaml: 'namespaces: { /: { call-offer: new } }', reason: 'x' }],
      ['/api/routes/diff', { yaml: 'colour: red' }],
      ['/api/routes/rollback', { version: 9_999 }],
    ] as const) {
      expect((await asked(open, 'POST', path, { body })).status, path).toBe(422);
    }
    const sole = 'namespaces: { /: { calls: { mode: new, sole: true } } }';
    await open.ask('/api/routes/apply', { body: { yaml: sole, reason: 'x' } });
    // The legacy can't be told what a broken file would be; the red switch itself is never refused for its content.
    expect((await asked(open, 'POST', '/api/routes/legacy', { body: {} })).status).toBe(200);
  });

  it('429: reads and changes are limited, taking back is not', async () => {
    // Time stands still: however slow the machine, nothing is allowed anew meanwhile.
    const bed = await bedOf({ clock: manualClock() });
    // What counts for most comes first, and leaves little for the others.
    for (const path of ['/api/routes/history', ...gets, '/api/calls/{id}']) {
      holds(path, 'GET', await flooded(bed, concrete(path)));
    }
    for (const path of posts.filter((one) => !/rollback|legacy/.test(one))) {
      holds(path, 'POST', await flooded(bed, concrete(path), {}));
    }
    const taken = await Promise.all(Array.from({ length: 20 }, () => bed.ask('/api/routes/legacy', { body: {} })));
    expect(new Set(taken.map(({ status }) => status))).toEqual(new Set([200]));
  });

  it('429: too many streams', async () => {
    const bed = await bedOf();
    const leave = new AbortController();
    await Promise.all(
      Array.from({ length: mostStreams }, () => fetch(`${bed.url}/api/live/stream`, { signal: leave.signal })),
    );
    expect((await asked(bed, 'GET', '/api/live/stream')).status).toBe(429);
    leave.abort();
    await expect
      .poll(async () => {
        const again = await fetch(`${bed.url}/api/live/stream`);
        await again.body?.cancel();
        return again.status;
      }, patiently)
      .toBe(200);
  });

  it('500 and 503', async () => {
    const broken = async () => {
      throw new Error('broken');
    };
    const calls = {
      ...fakeCalls([call('a', 'new')]),
      counts: broken,
      show: broken,
      end: broken,
      list: broken,
      endAll: broken,
    };
    const signals = recordedSignals();
    const log = {
      ...memoryLog(),
      append: async () => Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC' })),
    };
    const routes = await createRoutes({ log, signals, clock: { ...systemClock, now: manualClock().now } });
    const bed = await bedOf({ calls, routes, instances: { all: broken, drain: broken } });
    for (const path of ['/api/status', '/api/calls', '/api/live', '/api/calls/{id}']) {
      expect((await asked(bed, 'GET', path, {}, concrete(path))).status, path).toBe(500);
    }
    expect((await asked(bed, 'POST', '/api/calls/{id}/end', { body: {} }, '/api/calls/a/end')).status).toBe(500);
    expect((await asked(bed, 'POST', '/api/instances/{id}/drain', drain, '/api/instances/a/drain')).status).toBe(500);
    expect(
      (await asked(bed, 'POST', '/api/routes/set', { body: { target: 'calls', mode: 'new', reason: 'x' } })).status,
    ).toBe(503);
    const yaml = 'namespaces: { /: { calls: new } }';
    expect((await asked(bed, 'POST', '/api/routes/apply', { body: { yaml, reason: 'x' } })).status).toBe(503);
  });

  it('503: what the instances share is away', async () => {
    const away = async () => {
      throw new Unavailable('Redis does not answer');
    };
    const calls = { ...fakeCalls(), list: away, show: away, end: away, byNamespace: away, endAll: away };
    const bed = await bedOf({ calls });
    for (const [method, path, body] of [
      ['GET', '/api/calls', {}],
      ['GET', '/api/calls/{id}', {}],
      ['POST', '/api/calls/{id}/end', { body: {} }],
    ] as const) {
      const told = await asked(bed, method, path, body, concrete(path));
      expect(told).toMatchObject({ status: 503, body: { error: 'unavailable' } });
      expect(told.body.problems[0]).toMatch(/\(Redis does not answer\); "sigfig status" shows/);
    }
    // A change can be looked at and made all the same.
    for (const dryRun of [true, false]) {
      const body = { target: 'calls', mode: 'new', reason: 'x', dryRun };
      const told = await asked(bed, 'POST', '/api/routes/set', { body });
      expect(told.status).toBe(200);
      const { lines } = dryRun ? told.body : told.body.plan;
      expect(lines).toContain(
        "how many live calls it concerns can't be counted: what the instances share can't be reached now",
      );
    }
    for (const path of ['/api/routes/legacy', '/api/routes/rollback']) {
      const told = await asked(bed, 'POST', path, { body: { endCalls: true } });
      expect(told).toMatchObject({ status: 503, body: { error: 'unavailable' } });
      expect(told.body.problems[0]).toMatch(
        /^version \d is in force, but its calls could not all be ended .*--end-calls"$/,
      );
    }
    expect(bed.signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
  });

  it('503: a log that was given a change and does not answer', async () => {
    const memory = memoryLog();
    let silent = false;
    let given = 0;
    let answers!: () => void;
    const answered = new Promise<void>((resolve) => (answers = resolve));
    const log = {
      ...memory,
      append: async (version: Parameters<typeof memory.append>[0]) => {
        given++;
        if (silent) await answered;
        return memory.append(version);
      },
    };
    const clock = manualClock();
    const bed = await bedOf({ routes: await createRoutes({ log, signals: recordedSignals(), clock }) });
    [silent, given] = [true, 0];
    const body = { target: 'calls', mode: 'new', reason: 'x' };
    const first = asked(bed, 'POST', '/api/routes/set', { body });
    await expect.poll(() => given, patiently).toBe(1);
    const second = asked(bed, 'POST', '/api/routes/set', { body });
    // Both have come in, and only the first was given to the log.
    await bed.ask('/api/status');
    const told = await settledBy(first, () => clock.advance(1_000));
    expect(told).toMatchObject({ status: 503, body: { error: 'not-known' } });
    expect(told.body.problems[0]).toMatch(/not known.*routes history.*routes legacy --all/);
    expect(told.body.problems[0]).not.toContain('nothing was changed');
    const settled = await settledBy(second, () => clock.advance(1_000));
    expect(settled).toMatchObject({ status: 503, body: { error: 'unwritable' } });
    expect(settled.body.problems[0]).toMatch(/^nothing was changed: /);
    expect(given).toBe(1);
    answers();
    await expect.poll(() => bed.routes.current.version, patiently).toBe(2);
  });

  it('every refusal of the catalogue was had', () => {
    const had = new Set([...seen].map((entry) => entry.split(' ')[3]).filter(Boolean));
    expect([...had, 'method'].sort()).toEqual(Object.keys(refusalStatus).sort());
  });
});

/** The machine may be busy with much else. */
const patiently = { timeout: 15_000 };

/** Moves the time on until the answer is there. */
async function settledBy(answer: Promise<Told>, move: () => void): Promise<Told> {
  let done = false;
  void answer.finally(() => (done = true));
  const moved = () => {
    move();
    return done;
  };
  await expect.poll(moved, patiently).toBe(true);
  return answer;
}

/** Asks until it is told that that was too often. */
async function flooded(bed: Bed, path: string, body?: unknown): Promise<Told> {
  for (;;) {
    const many = await Promise.all(Array.from({ length: 10 }, () => bed.ask(path, body === undefined ? {} : { body })));
    const limited = many.find(({ status }) => status === 429);
    if (limited) return limited;
  }
}
