// An admin API with figures of a large installation, and what no test could bring about for real in time: every state of a
// guard, several instances, a history of days. Serves the built dashboard; changes nothing that it is asked to.
import { readFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type {
  CallBody,
  CallsBody,
  EventFigures,
  GuardBody,
  HistoryBody,
  InstanceBody,
  LiveBody,
  PlanBody,
  RoutesBody,
  StatusBody,
  VersionBody,
} from '../../../src/admin/api.js';
import { type GroupRoute, groupNames, groups, type NamespaceRoutes, route } from '../../../src/routing/route.js';
import type { LiveCall, LiveCounts } from '../../../src/signaling/live.js';

export interface Size {
  readonly calls: number;
  readonly namespaces: number;
  /** Events a second, over all. */
  readonly rate: number;
}

export interface FakeApi {
  readonly url: string;
  /** As a process that is stopped: connections stand, and nothing comes. Ends with `goOn`. */
  stall(): void;
  goOn(): void;
  close(): Promise<void>;
}

const built = fileURLToPath(new URL('../../../dist/dashboard/', import.meta.url));
const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export async function startFakeApi(size: Size): Promise<FakeApi> {
  const start = Date.now();
  const namespaces = tables(size.namespaces);
  const calls = liveCalls(size.calls, start);
  const versions = history(start);
  const streams = new Set<ServerResponse>();
  let stalled: { readonly over: Promise<void>; end(): void } | null = null;

  const live = (): LiveBody => figures(size, namespaces, calls.length, Date.now());
  const answers: Readonly<Record<string, (query: URLSearchParams) => object>> = {
    '/api/live': live,
    '/api/status': (): StatusBody => ({
      version: '0.1.0',
      redis: { address: 'rediss://10.0.0.9:6379', reachable: false },
      startedAt: ago(start, 86_400_000),
      you: { actor: 'local', kind: 'operate' },
      ready: true,
      reasons: ["Redis can't be reached: events of the new path are refused"],
      routes: {
        version: 14,
        summary: '',
        log: '/etc/sigfig/routes.yaml.history.jsonl',
        problem: null,
        fileProblems: [],
      },
      legacy: [{ url: 'http://10.0.0.7:4000', reachable: true }],
      instances: instances(Date.now()),
      guard: [],
    }),
    '/api/routes': (): RoutesBody => ({
      version: 14,
      at: ago(start, 380_000),
      actor: 'alice',
      reason: 'five percent more',
      namespaces,
      yaml: '',
      fileProblems: [],
    }),
    '/api/routes/history': (): HistoryBody => ({ versions, more: true }),
    '/api/calls': (query): CallsBody => {
      const sought = query.get('search') ?? '';
      const path = query.get('path');
      const state = query.get('state');
      const found = calls.filter(
        (call) =>
          (!path || call.path === path) &&
          (!state || call.state === state) &&
          [call.id, call.conversationId, call.offerer ?? '', call.answerer ?? ''].some((text) => text.includes(sought)),
      );
      return {
        total: found.length,
        counts: counts(calls.length),
        instances: 2,
        calls: found.slice(0, Number(query.get('limit') ?? 50)),
      };
    },
    '/api/routes/set': plan,
    '/api/routes/rollback': plan,
    '/api/routes/legacy': plan,
  };

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    request.resume();
    await stalled?.over;
    if (pathname === '/api/live/stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      streams.add(response);
      response.on('close', () => streams.delete(response));
      response.write(message(live()));
      return;
    }
    const id = /^\/api\/calls\/(.+)$/.exec(pathname)?.[1];
    const answer = answers[pathname] ?? (id ? () => timeline(calls, id) : undefined);
    if (answer) {
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer(searchParams)));
      return;
    }
    const name = pathname === '/' ? 'index.html' : pathname.slice(1);
    try {
      const body = await readFile(new URL(name, `file://${built}`));
      const type = types[name.split('.').at(-1) ?? ''] ?? 'application/octet-stream';
      response.writeHead(200, { 'content-type': type, 'content-security-policy': policy }).end(body);
    } catch {
      response.writeHead(404).end(); // no such file
    }
  });
  const second = setInterval(() => {
    if (streams.size === 0 || stalled) return;
    const text = message(live());
    for (const stream of streams) stream.write(text);
  }, 1_000);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    stall() {
      const { promise: over, resolve: end } = withResolvers();
      stalled = { over, end };
    },
    goOn() {
      stalled?.end();
      stalled = null;
    },
    async close() {
      clearInterval(second);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function withResolvers() {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((given) => {
    resolve = given;
  });
  return { promise, resolve };
}

const message = (body: LiveBody) => `event: live\ndata: ${JSON.stringify(body)}\n\n`;
const ago = (now: number, ms: number) => new Date(now - ms).toISOString();

const lists = { users: ['alice', 'bob'], exclude: { users: ['vip-desk'], conversations: [] } };
const canary = (percent: number): GroupRoute => route({ mode: 'canary', canary: { percent, ...lists } });

function tables(n: number): Readonly<Record<string, NamespaceRoutes>> {
  const all: Record<string, NamespaceRoutes> = {};
  for (let i = 0; i < n; i += 1) {
    all[i === 0 ? '/' : `/tenant-${i}`] = {
      'call-lifecycle': i % 3 === 2 ? route({ mode: 'legacy' }) : canary(i === 0 ? 12.5 : i),
      'ice-candidate': route({ mode: 'new' }),
      'call-renegotiation': route({ mode: i % 2 === 0 ? 'legacy' : 'new', sole: i === 1 }),
    };
  }
  return all;
}

const states = ['OFFERING', 'CONNECTED', 'CONNECTED', 'CONNECTED', 'RENEGOTIATING', 'AWAITING_REJOIN'] as const;

function liveCalls(n: number, now: number): LiveCall[] {
  return Array.from({ length: n }, (_, i): LiveCall => {
    const served = i % 8 === 0;
    return {
      id: `call-${i.toString(36).padStart(6, '0')}`,
      ns: i % 40 === 3 ? '/tenant-1' : '/',
      conversationId: `conversation-${(i * 7919) % 100_000}`,
      path: served ? 'new' : 'legacy',
      because: served ? 'canary' : i % 11 === 0 ? 'callee-not-here' : 'canary',
      state: i % 29 === 28 ? 'UNKNOWN' : (states[i % states.length] ?? 'CONNECTED'),
      offerer: `user-${(i * 31) % 9_000}`,
      answerer: i % 6 === 0 ? null : `user-${(i * 37) % 9_000}`,
      peeled: !served && i % 3 === 0 ? ['ice-candidate'] : [],
      createdAt: now - i * 900,
      since: now - i * 400,
    };
  });
}

const counts = (n: number): LiveCounts => {
  const served = Math.ceil(n / 8);
  const byState = { OFFERING: 0, CONNECTED: served, RENEGOTIATING: 0, AWAITING_REJOIN: 0 };
  return { new: served, legacy: n - served, peeled: Math.floor(n / 4), byState };
};

const shares: Readonly<Record<string, number>> = { 'ice-candidate': 0.72, 'call-offer': 0.06, 'call-answer': 0.05 };

function figures(size: Size, namespaces: RoutesBody['namespaces'], calls: number, now: number): LiveBody {
  const events = groupNames.flatMap((group) =>
    groups[group].map((event): EventFigures => {
      const share = shares[event] ?? 0.034;
      const onNew = group === 'ice-candidate' ? 0.9 : 0.14;
      const total = size.rate * share;
      // The same second has the same figures, so that two looks at it agree.
      const wave = (i: number) => 0.75 + 0.25 * Math.sin((i + now / 5_000) / 4 + share * 40) + 0.05 * Math.sin(i * 2.3);
      const steps = Array.from({ length: 60 }, (_, i) => Math.round(total * 5 * wave(i)));
      const refusals = event === 'call-answer' ? 3 : 0;
      return {
        event,
        group,
        route: Object.fromEntries(
          Object.entries(namespaces).map(([ns, routes]) => {
            const { mode, sole, canary } = routes[group];
            return [ns, { mode, sole, percent: canary?.percent ?? null }];
          }),
        ),
        rate: { legacy: total * (1 - onNew), new: total * onNew },
        refusals,
        errors: event === 'call-rejoin-offer' ? 1 : 0,
        p50Ms: event === 'call-end' ? null : 0.4 + share,
        p99Ms: event === 'call-end' ? null : 3 + share * 20,
        graph: {
          stepMs: 5_000,
          legacy: steps.map((n) => Math.round(n * (1 - onNew))),
          new: steps.map((n) => Math.round(n * onNew)),
          refused: steps.map((_, i) => (refusals > 0 && i % 9 === 0 ? Math.ceil(total) : 0)),
        },
      };
    }),
  );
  return {
    at: new Date(now).toISOString(),
    routes: { version: 14, problem: null, fileProblems: [] },
    events,
    calls: counts(calls),
    connections: calls * 3,
    users: Math.round(calls * 2.6),
    guard: guards(namespaces, now),
    instances: instances(now),
  };
}

function guards(namespaces: RoutesBody['namespaces'], now: number): GuardBody[] {
  return Object.entries(namespaces).flatMap(([ns, routes], i) =>
    groupNames.map((group): GuardBody => {
      const { mode, guard: limits } = routes[group];
      const state =
        mode === 'legacy'
          ? i === 2 && group === 'call-lifecycle'
            ? 'tripped'
            : 'off'
          : group === 'call-renegotiation'
            ? routes[group].sole
              ? 'tripped'
              : 'inconclusive'
            : 'well';
      const samples = state === 'well' ? 1_204 : state === 'inconclusive' ? 12 : 0;
      return {
        ns,
        group,
        state,
        limits,
        figures: { event: groups[group][0] ?? null, samples, errors: 0, refusals: 2, p99Ms: samples > 0 ? 12 : null },
        trippedAt: state === 'tripped' ? ago(now, 90_000) : null,
        reason: state === 'tripped' ? 'call-offer: 4.2 % internal errors of 120 events in 60 s, over 1 %.' : null,
      };
    }),
  );
}

function instances(now: number): InstanceBody[] {
  return ['sigfig-7c9d-a', 'sigfig-7c9d-b'].map((id, i) => ({
    id,
    version: '0.1.0',
    startedAt: ago(now, 86_400_000 + i * 3_000_000),
    self: i === 0,
    connections: i === 0 ? 7_500 : 1,
    users: i === 0 ? 6_500 : 1,
    calls: counts(i === 0 ? 2_500 : 8),
    lagMs: 11.4,
    leaseAgeMs: 400,
    draining: i === 1,
    routesVersion: 14 - i,
    leads: i === 0,
  }));
}

function history(now: number): VersionBody[] {
  const before = route({ mode: 'legacy' });
  const words = [
    'five percent more',
    'first share',
    'candidates leave the legacy',
    'too many refusals: 6 % of 320',
    '',
  ];
  return Array.from({ length: 10 }, (_, i): VersionBody => {
    const guard = i === 3;
    return {
      version: 14 - i,
      at: ago(now, 380_000 + i * 5_400_000),
      actor: guard ? 'guard' : i % 2 === 0 ? 'alice' : 'bob',
      via: guard ? 'guard' : i % 2 === 0 ? 'dashboard' : 'cli',
      kind: guard ? 'guard' : i === 4 ? 'rollback' : 'set',
      reason: words[i % words.length] ?? '',
      before: { namespaces: {} },
      after: { namespaces: {} },
      differences: [
        { ns: '/', group: 'call-lifecycle', before: guard ? canary(5) : before, after: guard ? before : canary(12.5) },
      ],
    };
  });
}

function timeline(calls: readonly LiveCall[], id: string): CallBody {
  const call = calls.find((one) => one.id === decodeURIComponent(id)) ?? null;
  const at = call?.createdAt ?? 0;
  return {
    id,
    namespace: call?.ns ?? '/',
    conversationId: call?.conversationId ?? '',
    call,
    path: call?.path ?? null,
    because: call?.because ?? null,
    offerer: call?.offerer ?? null,
    answerer: call?.answerer ?? null,
    elsewhere: [],
    timeline: [
      { at, from: 'IDLE', to: 'OFFERING', event: 'call-offer', because: 'canary' },
      { at: at + 4_000, from: 'OFFERING', to: 'CONNECTED', event: 'call-answer', because: 'answered' },
      ...Array.from({ length: 20 }, (_, i): CallBody['timeline'] => [
        {
          at: at + 9_000 * (i + 1),
          from: 'CONNECTED',
          to: 'RENEGOTIATING',
          event: 'call-renegotiate-offer',
          because: 'offered',
        },
        {
          at: at + 9_000 * (i + 1) + 200,
          from: 'RENEGOTIATING',
          to: 'CONNECTED',
          event: 'call-renegotiate-answer',
          because: 'answered',
        },
      ]).flat(),
      { at: at + 200_000, from: 'CONNECTED', to: 'ENDED', event: 'call-end', because: 'hung-up' },
    ],
  };
}

function plan(): PlanBody {
  return {
    from: 14,
    differences: [{ ns: '/', group: 'call-lifecycle', before: canary(12.5), after: route({ mode: 'new' }) }],
    namespaces: { named: [], dropped: [] },
    events: groups['call-lifecycle'],
    connectedUsers: 312,
    listedUsers: 2,
    liveCalls: { new: 40, legacy: 14 },
    endedCalls: 0,
    unservable: { foreign: 3, unverified: 1 },
    lines: [
      'moves call-offer, call-answer, call-rejoin-offer, call-rejoin-answer, call-end',
      'concerns 312 connected users',
      '14 live calls stay on legacy until they end',
      '4 connections can’t be served here: 3 speak another protocol, 1 has no verified token',
    ],
  };
}
