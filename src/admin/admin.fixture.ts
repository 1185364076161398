// For tests: an admin listener over a real route control and made-up calls, users and figures, and a client for it.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, fetch } from 'undici';
import { afterEach } from 'vitest';
import { systemClock } from '../base/clock.js';
import type { RouteControl } from '../control/control.js';
import { memoryLog } from '../control/memory-log.js';
import { createRoutes } from '../control/routes.js';
import type { CallFilter, LiveCall, LiveCalls, LiveCounts } from '../signaling/live.js';
import type { Listening } from '../telemetry/listen.js';
import { createLive, type Live } from '../telemetry/live.js';
import { recordedSignals } from '../telemetry/signals.js';
import { answer } from './answer.js';
import type { InstanceBody } from './api.js';
import { type AdminOptions, startAdmin } from './http.js';
import type { Instances } from './instances.js';
import type { Connected } from './plan.js';

export const tokens = { read: 'read-token-0123456789', operate: 'operate-token-0123456789' } as const;
export const tokensText = `# who may look\nread looker ${tokens.read}\n\noperate olga ${tokens.operate}\n`;

/** A connection for each request: one kept open may be closed, since it is idle, in the moment in which it is used again. */
const dispatcher = new Agent({ pipelining: 0 });

export interface Bed {
  readonly url: string;
  readonly port: number;
  readonly routes: RouteControl;
  readonly live: Live;
  readonly calls: FakeCalls;
  readonly signals: ReturnType<typeof recordedSignals>;
  readonly tokensFile: string | undefined;
  /** `GET`, or `POST` where there is a body; `token` as a Bearer. */
  ask(path: string, options?: Ask): Promise<Told>;
  close(): Promise<void>;
}

export interface Ask {
  readonly method?: string;
  readonly body?: unknown;
  readonly token?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Told {
  readonly status: number;
  readonly headers: Pick<Headers, 'get'> & { keys(): Iterable<string> };
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into whatever came
  readonly body: any;
}

export async function startBed(options: Partial<AdminOptions> & { readonly tokensText?: string } = {}): Promise<Bed> {
  const folder = await mkdtemp(join(tmpdir(), 'sigfig-admin-'));
  const signals = recordedSignals();
  const routes = options.routes ?? (await createRoutes({ log: memoryLog(), signals, clock: systemClock }));
  const live = createLive();
  const calls = (options.calls as FakeCalls | undefined) ?? fakeCalls();
  let tokensFile: string | undefined;
  if (options.tokensText !== undefined) {
    tokensFile = join(folder, 'tokens');
    await writeFile(tokensFile, options.tokensText);
  }
  const listening: Listening = await startAdmin({
    listen: { host: '127.0.0.1', port: 0 },
    tokensFile,
    onTokensProblem: () => undefined,
    version: '0.0.0-test',
    startedAt: 1_700_000_000_000,
    routes,
    calls,
    live,
    guard: { states: () => [] },
    connected: fakeConnected({}),
    instances: fakeInstances(async () => [await instance(calls)]),
    redis: () => null,
    legacy: () => [{ url: 'http://127.0.0.1:3000', reachable: true }],
    isReady: () => ({ ready: true, reasons: [] }),
    signals,
    onError: (error) => signals.internalError('admin', error),
    ...options,
  });
  const { port } = new URL(listening.url);
  return {
    url: listening.url,
    port: Number(port),
    routes,
    live,
    calls,
    signals,
    tokensFile,
    async ask(path, { method, body, token, headers } = {}) {
      const response = await fetch(listening.url + path, {
        dispatcher,
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      });
      const text = await response.text();
      const json = /json/.test(response.headers.get('content-type') ?? '');
      return { status: response.status, headers: response.headers, body: json && text ? JSON.parse(text) : text };
    },
    async close() {
      await listening.close();
      await routes.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** With a Host, an Origin and the like of the test's own, which fetch does not allow. */
export function raw(
  bed: Bed,
  path: string,
  headers: Record<string, string>,
  method = 'GET',
  body = '',
): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: '127.0.0.1', port: bed.port, path, method, headers: { connection: 'close', ...headers } },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    request.on('error', reject);
    request.end(body);
  });
}

async function instance(calls: LiveCalls): Promise<InstanceBody> {
  return {
    id: 'here',
    version: '0.0.0-test',
    startedAt: new Date(1_700_000_000_000).toISOString(),
    self: true,
    connections: 0,
    users: 0,
    calls: await calls.counts(),
    lagMs: 0,
    leaseAgeMs: null,
    draining: false,
    routesVersion: 1,
    leads: true,
  };
}

/** Nothing drains. */
export const fakeInstances = (all: Instances['all']): Instances => ({
  all,
  drain: async (id) => answer({ id, draining: true, connections: 0 }),
});

/** Users by namespace. */
export function fakeConnected(
  users: Readonly<Record<string, readonly string[]>>,
  { foreign = 0, unverified = {} }: { foreign?: number; unverified?: Readonly<Record<string, number>> } = {},
): Connected {
  const namespaces = new Set([...Object.keys(users), ...Object.keys(unverified)]);
  const distinct = (some: readonly string[]) => new Set(some.flatMap((ns) => users[ns] ?? [])).size;
  return {
    figures: () => ({
      connections: distinct([...namespaces]) + foreign,
      foreign,
      users: distinct([...namespaces]),
      namespaces: new Map(
        [...namespaces].map((ns) => [ns, { users: users[ns]?.length ?? 0, unverified: unverified[ns] ?? 0 }]),
      ),
    }),
    usersIn: distinct,
    socketsOf: (ns, user) => (users[ns]?.includes(user) ? [user] : []),
  };
}

export type FakeCalls = LiveCalls & { readonly all: LiveCall[] };

export function fakeCalls(all: LiveCall[] = []): FakeCalls {
  const matching = ({ path, state, ns, search }: CallFilter) =>
    all.filter(
      (call) =>
        (path === undefined || call.path === path) &&
        (state === undefined || call.state === state) &&
        (ns === undefined || call.ns === ns) &&
        (search === undefined || call.conversationId.includes(search)),
    );
  const end = (which: readonly LiveCall[]) => {
    for (const call of which) all.splice(all.indexOf(call), 1);
    return which.length;
  };
  return {
    all,
    counts: async (): Promise<LiveCounts> => ({
      new: all.filter(({ path }) => path === 'new').length,
      legacy: all.filter(({ path }) => path === 'legacy').length,
      peeled: all.filter(({ peeled }) => peeled.length > 0).length,
      byState: { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 },
    }),
    list: async (filter) => ({ total: matching(filter).length, calls: matching(filter).slice(0, filter.limit) }),
    async show(id) {
      const call = all.find((one) => one.id === id);
      if (!call) return null;
      const entry = { at: call.createdAt, from: 'IDLE', to: call.state, because: 'offer', event: 'call-offer' };
      const { path, because, offerer, answerer, ns, conversationId } = call;
      return { call, timeline: [entry], path, because, offerer, answerer, ns, conversationId };
    },
    ids: async (prefix) => all.map(({ id }) => id).filter((id) => id.startsWith(prefix)),
    async end(id) {
      const call = all.find((one) => one.id === id);
      if (!call) return 'unknown';
      return call.path === 'legacy' ? 'legacy' : end([call]) > 0 ? 'ended' : 'unknown';
    },
    async byNamespace() {
      const of = (ns: string, path: LiveCall['path']) =>
        all.filter((call) => call.ns === ns && call.path === path).length;
      return new Map(all.map(({ ns }) => [ns, { new: of(ns, 'new'), legacy: of(ns, 'legacy') }]));
    },
    endAll: async (which = () => true) => end(all.filter(({ path, ns }) => path === 'new' && which(ns))),
  };
}

export const call = (id: string, path: 'new' | 'legacy', ns = '/'): LiveCall => ({
  id,
  ns,
  conversationId: `conversation of ${id}`,
  path,
  because: 'route',
  state: 'CONNECTED',
  offerer: 'alice',
  answerer: 'bob',
  peeled: [],
  createdAt: 1_700_000_000_000,
  since: 1_700_000_001_000,
});

/** Beds that are closed after each test of a file; `closing` takes what else is to be closed then. */
export function useBeds(): { closing: (() => unknown)[]; started: typeof startBed } {
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });
  return {
    closing,
    async started(options) {
      const bed = await startBed(options);
      closing.push(() => bed.close());
      return bed;
    },
  };
}
