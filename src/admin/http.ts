// The operator's HTTP port: probes, the admin API and the dashboard. Knows nothing of routes or calls; it asks. It has a
// listener of its own with tight limits, so that nothing here can hold up the proxy.
import { lookup } from 'node:dns/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { isIP, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { getRequestListener } from '@hono/node-server';
import { CannotStart } from '../base/cannot-start.js';
import type { Clock } from '../base/clock.js';
import { type Listening, listenForOperators } from '../telemetry/listen.js';
import { createApp, TOO_OFTEN_MS } from './app.js';
import { isLoopback } from './door.js';
import type { ApiDeps } from './endpoints.js';
import { limit } from './limits.js';
import { dashboardPages, type Pages } from './pages.js';
import { loadTokens } from './tokens.js';
import { yamlHere, yamlThread } from './yaml.js';

export interface Readiness {
  readonly ready: boolean;
  /** Why not, one clear phrase each: `draining`, `no legacy is reachable`; where it is ready, what does not work all the same. */
  readonly reasons: readonly string[];
}

export interface AdminOptions extends Omit<ApiDeps, 'yaml'> {
  readonly listen: { readonly host: string; readonly port: number };
  /** A file of tokens; undefined: nobody needs one, on loopback only. */
  readonly tokensFile: string | undefined;
  /** The tokens' file became unreadable or wrong: one line; those read before stay. */
  onTokensProblem(line: string): void;
  /** Quick and synchronous: probes come every second or so. */
  isReady(): Readiness;
  /** Told what goes wrong once it listens, and what `isReady` throws. */
  onError(error: unknown): void;
  /** The built dashboard; where the build puts it unless a test says otherwise. */
  readonly pages?: Pages;
  /** What limits go by; the system's clock unless a test says otherwise. */
  readonly clock?: Pick<Clock, 'now'>;
}

const compiled = !import.meta.url.endsWith('.ts');
/** Beside this file's folder: `dist/dashboard` for `dist/src/admin`, and for `src/admin` where tests run from there. */
const built = fileURLToPath(new URL(compiled ? '../../dashboard' : '../../dist/dashboard', import.meta.url));
/** Nobody asks again on a connection before the answers are there; a flood does. */
const MOST_UNANSWERED = 4;
/** Without a byte either way; ending thousands of calls takes seconds. */
const UNTAKEN_MS = 30_000;

/**
 * `GET /healthz`: 200 while the process answers. `GET /readyz`: 200 or 503, `{ready, reasons}`. Both without a token. `/api/…`:
 * see openapi.yaml. `/` and `/assets/…`: the dashboard.
 * @throws CannotStart where other machines could reach it without a token, or the tokens' file has faults; the system's
 * error where the address can't be taken.
 */
export async function startAdmin(options: AdminOptions): Promise<Listening> {
  const { listen, tokensFile, onError } = options;
  const host = await addressOf(listen.host);
  if (tokensFile === undefined && !isLoopback(host)) {
    throw new CannotStart([
      `--admin: other machines can reach ${shown(listen)}, and nobody needs a token there; give --admin-tokens FILE (probes of /healthz and /readyz need none), or listen on 127.0.0.1`,
    ]);
  }
  const tokens =
    tokensFile === undefined ? undefined : await loadTokens(tokensFile, { onProblem: options.onTokensProblem });
  const yaml = compiled ? yamlThread(new URL('./yaml-worker.js', import.meta.url)) : yamlHere();
  const app = createApp({ ...options, tokens, yaml, pages: options.pages ?? dashboardPages(built) });
  // The process's own Request and Response stay as they are: `fetch` elsewhere works with them.
  const serveApp = getRequestListener((request, env) => app.fetch(request, env as never), {
    overrideGlobalObjects: false,
  });
  const probes = limit({ burst: 100, perSecond: 20 });
  const unanswered = new WeakMap<Socket, number>();

  const listening = await listenForOperators(
    { ...listen, host },
    (request, response) => {
      const path = request.url?.split('?', 1)[0];
      const { socket } = request;
      const waiting = (unanswered.get(socket) ?? 0) + 1;
      if (waiting > MOST_UNANSWERED) {
        socket.destroy();
        return;
      }
      unanswered.set(socket, waiting);
      response.once('close', () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
      // Whoever does not take an answer; a stream has a bound of its own.
      response.setTimeout(UNTAKEN_MS, () => socket.destroy());
      if (path !== '/healthz' && path !== '/readyz') void serveApp(request, response);
      // A flood of probes is answered rightly, and late.
      else if (probes.take(socket.remoteAddress ?? '')) probe(path, request, response, options);
      else setTimeout(() => probe(path, request, response, options), TOO_OFTEN_MS);
    },
    onError,
  ).catch(async (error: unknown) => {
    app.close();
    await yaml.close();
    throw error;
  });
  return {
    url: listening.url,
    async close() {
      app.close();
      await listening.close();
      await yaml.close();
    },
  };
}

/** The address that a name stands for: what is checked must be what is listened on. @throws the resolver's error. */
const addressOf = async (host: string): Promise<string> => (isIP(host) ? host : (await lookup(host)).address);

const shown = ({ host, port }: AdminOptions['listen']): string => `${host.includes(':') ? `[${host}]` : host}:${port}`;

function probe(path: string, request: IncomingMessage, response: ServerResponse, options: AdminOptions): void {
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    response.setHeader('allow', 'GET, HEAD');
    answer(response, 405, { error: 'method', problems: ['only GET and HEAD here'] });
  } else if (path === '/healthz') {
    answer(response, 200, { alive: true });
  } else {
    const readiness = asked(options);
    answer(response, readiness.ready ? 200 : 503, readiness);
  }
}

function asked(options: Pick<AdminOptions, 'isReady' | 'onError'>): Readiness {
  try {
    const { ready, reasons } = options.isReady();
    return { ready, reasons };
  } catch (error) {
    options.onError(error);
    return { ready: false, reasons: ['internal error'] };
  }
}

function answer(response: ServerResponse, status: number, body: unknown): void {
  const text = `${JSON.stringify(body)}\n`;
  response
    .writeHead(status, {
      'content-type': 'application/json; charset=utf-8',
      'content-length': Buffer.byteLength(text),
      'cache-control': 'no-store',
    })
    .end(text);
}
