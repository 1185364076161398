// A server that answers what a test tells it to, and the command line against it. Knows nothing of what is tested.
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll } from 'vitest';
import type { ChangedBody, PlanBody, RoutesBody } from '../admin/api.js';
import { route } from '../routing/route.js';
import { sigfig } from './sigfig.js';
import type { CliWorld } from './world.js';

export interface Asked {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
}
/** Since the test began. */
export const asked: Asked[] = [];
export type Given = readonly [status: number, body: unknown] | ((response: ServerResponse) => void);
/** `answers` by method and path: `GET /api/routes`; what is not there is a 404. */
export const admin: { url: string; answers: Record<string, Given> } = { url: '', answers: {} };
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
  const given = admin.answers[`${request.method} ${path}`] ?? [
    404,
    { error: 'not-found', problems: ['no such thing'] },
  ];
  if (typeof given === 'function') return given(response);
  response.writeHead(given[0], { 'content-type': 'application/json' });
  response.end(typeof given[1] === 'string' ? given[1] : JSON.stringify(given[1]));
});
export const folder = mkdtempSync(join(tmpdir(), 'operator-'));
export const tokenFile = join(folder, 'token');
export const routesFile = join(folder, 'routes.yaml');
/** Starts it before the tests of a file, and ends it after them. */
export function useAdmin(): void {
  beforeAll(async () => {
    writeFileSync(tokenFile, 'a-token-of-this-test\n');
    writeFileSync(routesFile, 'namespaces: {}\n');
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    admin.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  });
  afterEach(() => {
    asked.length = 0;
    admin.answers = {};
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });
}

/** Of a text, words between single quotes are one. */
export async function run(words: string | readonly string[], more: Partial<CliWorld> = {}) {
  const seen = { out: '', err: '' };
  const args =
    typeof words !== 'string' ? words : (words.match(/'[^']*'|\S+/g)?.map((word) => word.replaceAll("'", '')) ?? []);
  const code = await sigfig(args, {
    out(text) {
      seen.out += text;
    },
    err(text) {
      seen.err += text;
    },
    run: () => Promise.reject(new Error('nothing is started here')),
    env: { SIGFIG_ADMIN: admin.url },
    user: 'ops',
    ...more,
  });
  return { code, ...seen };
}

export const legacy = route({ mode: 'legacy' });
export const canary = route({ mode: 'canary', canary: { percent: 5, users: ['alice', 'bob'] } });
export const routes: RoutesBody = {
  version: 7,
  at: '2026-11-30T16:22:14.000Z',
  actor: 'carol',
  reason: 'a calm hour',
  namespaces: { '/': { 'call-lifecycle': canary, 'ice-candidate': legacy, 'call-renegotiation': legacy } },
  yaml: 'namespaces:\n  /: {}\n',
  fileProblems: [],
};
export const inForce = { version: '0.1.0', routes: { version: 7 }, instances: [] };
export const difference = { ns: '/', group: 'call-lifecycle', before: legacy, after: canary } as const;
export const plan: PlanBody = {
  from: 7,
  differences: [difference],
  namespaces: { named: [], dropped: [] },
  events: ['call-offer'],
  connectedUsers: 312,
  listedUsers: 2,
  liveCalls: { new: 0, legacy: 14 },
  endedCalls: 0,
  unservable: { foreign: 0, unverified: 0 },
  lines: ['moves 312 connected users', '14 live calls stay on legacy until they end'],
};
export const changed = (more: Partial<ChangedBody> = {}): ChangedBody => ({
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
