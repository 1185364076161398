// The admin API over HTTP: the door, how often, the body, the endpoint, and its answer as JSON; the stream of live figures; the
// dashboard's files. Knows no endpoint by name, and nothing of what one does.
import type { HttpBindings } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { type Context, Hono } from 'hono';
import type { Clock } from '../base/clock.js';
import { Unavailable } from '../base/unavailable.js';
import { type Answer, refuse } from './answer.js';
import { bodyOf, queryOf } from './body.js';
import { door } from './door.js';
import { type ApiDeps, type Endpoint, endpoints, liveOf } from './endpoints.js';
import { type Pages, securityHeaders } from './pages.js';
import { check } from './requests.js';
import { liveStreams, mostStreams } from './stream.js';
import type { Tokens } from './tokens.js';

export interface AppOptions extends ApiDeps {
  /** Undefined: nobody needs one, which is for loopback only. */
  readonly tokens: Tokens | undefined;
  readonly pages: Pages;
  /** What limits go by: the system's clock unless a test says otherwise. */
  readonly clock?: Pick<Clock, 'now'>;
}

export interface App {
  readonly fetch: (request: Request, env: HttpBindings) => Response | Promise<Response>;
  /** Methods and paths, as they are described in openapi.yaml; `:id` stands for a part. */
  readonly routes: readonly { readonly method: string; readonly path: string }[];
  /** Ends all streams. */
  close(): void;
}

type Ctx = Context<{ Bindings: HttpBindings }>;

/** Whoever asks too often waits this long for being told, which slows a flood down to what its connections hold. */
export const TOO_OFTEN_MS = 250;
const STREAM = '/api/live/stream';
/** Each counts whom it concerns. A dashboard asks for one with each touch. */
const DRY_RUN_COST = 2;

export function createApp(options: AppOptions): App {
  const { signals, pages, tokens } = options;
  const entrance = door(tokens, options.clock);
  const streams = liveStreams({
    snapshot: () => liveOf(options),
    onError: (error) => signals.internalError('live figures', error),
  });
  const unsubscribe = options.routes.onChange(() => streams.hurry());
  const table = endpoints(options);

  async function refused(given: Answer): Promise<Response> {
    const { error, problems } = given.body as { error: string; problems: readonly string[] };
    signals.operatorRefused(error, problems[0] ?? '');
    if (given.status === 429) await new Promise((done) => setTimeout(done, TOO_OFTEN_MS));
    return json(given);
  }

  async function serve(c: Ctx, endpoint: Endpoint): Promise<Response> {
    const { incoming } = c.env;
    const asked = await entrance.admit(incoming);
    if ('status' in asked) return refused(asked);
    const { who, access } = asked;
    if (endpoint.access === 'operate' && access !== 'operate') {
      return refused(refuse('forbidden', [`the token of ${who.actor} may only read; this needs one of kind operate`]));
    }
    const early = endpoint.always ? null : entrance.often(asked, endpoint.limit, endpoint.cost);
    if (early) return refused(early);
    const raw = endpoint.method === 'GET' ? queryOf(incoming) : await bodyOf(incoming);
    if ('status' in raw) return refused(raw);
    const input = check(endpoint.input, raw.value);
    if (!input.ok) return refused(refuse('invalid', input.problems));
    // Taking everything back is never too often; asking what that would do may be, and sooner than changing something.
    const late = input.value.dryRun === true ? entrance.often(asked, endpoint.limit, DRY_RUN_COST) : null;
    if (late) return refused(late);
    const given = await endpoint
      .run({ input: input.value as never, id: c.req.param('id') ?? '', who, access })
      .catch(unavailable);
    return given.status === 200 ? json(given) : refused(given);
  }

  async function stream(c: Ctx): Promise<Response> {
    const { incoming, outgoing } = c.env;
    const asked = await entrance.admit(incoming);
    if ('status' in asked) return refused(asked);
    const often = entrance.often(asked, 'read');
    if (often) return refused(often);
    // A token that is taken out of its file ends the stream with the next snapshot but one.
    let allowed = true;
    const stillAllowed = () => {
      void entrance.admit(incoming).then((now) => {
        allowed = !('status' in now);
      });
      return allowed;
    };
    if (streams.open(outgoing, stillAllowed)) return RESPONSE_ALREADY_SENT;
    return refused(refuse('rate-limited', [`${mostStreams} dashboards and watches are open already; close one`]));
  }

  /** What no endpoint took; told to those only who may ask. */
  async function untaken(c: Ctx, given: Answer): Promise<Response> {
    const asked = await entrance.admit(c.env.incoming);
    if ('status' in asked) return refused(asked);
    return refused(entrance.often(asked, 'read') ?? given);
  }

  const app = new Hono<{ Bindings: HttpBindings }>();
  const served = new Map<string, string[]>();
  const on = (method: string, path: string, run: (c: Ctx) => Promise<Response>) => {
    served.set(path, [...(served.get(path) ?? []), method]);
    // Hono has GET's handler answer HEAD too; the API knows no HEAD.
    app.on(method, path, (c, next) => (c.env.incoming.method === method ? run(c) : next()));
  };
  for (const endpoint of table) on(endpoint.method, endpoint.path, (c) => serve(c, endpoint));
  on('GET', STREAM, stream);
  for (const [path, methods] of served) {
    const allow = methods.join(', ');
    app.all(path, (c) => untaken(c, refuse('method', [`only ${allow} here`], { headers: { allow } })));
  }
  app.all('/api/*', (c) =>
    untaken(c, refuse('not-found', ['no such path; /api/openapi.json describes all there are'])),
  );

  app.get('*', async (c) => {
    const no = entrance.admitToPages(c.env.incoming);
    if (no) return refused(no);
    const page = pages.page(c.req.path);
    if (page) return new Response(page.body, page);
    return json(
      refuse('not-found', ['no such path; the dashboard is at /, the API under /api, probes at /healthz and /readyz']),
    );
  });
  app.all('*', (c) => {
    const no = entrance.admitToPages(c.env.incoming);
    return refused(no ?? refuse('method', ['only GET here'], { headers: { allow: 'GET, HEAD' } }));
  });
  app.onError((error) => {
    signals.internalError('admin API', error);
    return json(refuse('internal', ['an internal error; the log has more']));
  });

  return {
    fetch: (request, env) => app.fetch(request, env),
    routes: [...served].flatMap(([path, methods]) => methods.map((method) => ({ method, path }))),
    close() {
      unsubscribe();
      streams.close();
    },
  };
}

/** Another instance's calls, say, while Redis is away. */
function unavailable(error: unknown): Answer {
  if (!(error instanceof Unavailable)) throw error;
  const why = /redis/i.test(error.message) ? error.message : `Redis: ${error.message}`;
  const line = `what the instances share can't be reached now (${why}); "sigfig status" shows when it can be again, and "sigfig calls list --path legacy" works all the same`;
  return refuse('unavailable', [line]);
}

const json = ({ status, body, text, headers }: Answer): Response =>
  new Response(`${text ?? JSON.stringify(body)}\n`, {
    status,
    headers: {
      ...securityHeaders,
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      ...headers,
    },
  });
