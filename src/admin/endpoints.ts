// The admin API's endpoints as a table: what each reads, who may use it, and what it does with the parts it is given.
// Knows no HTTP: `app.ts` brings a checked input and who asks, and sends the answer.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { z } from 'zod';
import type { RouteControl } from '../control/control.js';
import type { RouteTable } from '../routing/route.js';
import type { LiveCalls } from '../signaling/live.js';
import type { Live } from '../telemetry/live.js';
import type { Signals } from '../telemetry/signals.js';
import { type Answer, answer, refuse, written } from './answer.js';
import type {
  CallBody,
  CallsBody,
  EndedBody,
  GuardBody,
  HistoryBody,
  LiveBody,
  RoutesBody,
  StatusBody,
  VersionBody,
} from './api.js';
import { changesOf, type InTurn, versionBody } from './changes.js';
import { sumOf } from './instance.js';
import type { Instances } from './instances.js';
import type { Connected } from './plan.js';
import * as requests from './requests.js';
import type { Access } from './tokens.js';
import { type Turns, turns } from './turns.js';
import type { Yaml } from './yaml.js';

/** What the endpoints work with. */
export interface ApiDeps {
  readonly version: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly routes: RouteControl;
  readonly calls: LiveCalls;
  readonly live: Pick<Live, 'figures'>;
  readonly guard: { states(): readonly GuardBody[] };
  readonly connected: Connected;
  readonly instances: Instances;
  legacy(): StatusBody['legacy'];
  /** Asked of it the last time; null where nothing is shared. */
  redis(): StatusBody['redis'];
  isReady(): { readonly ready: boolean; readonly reasons: readonly string[] };
  readonly signals: Pick<Signals, 'internalError' | 'operated' | 'operatorRefused'>;
  readonly yaml: Yaml;
}

/** Who asks, and from where. */
export interface Who {
  readonly actor: string;
  readonly via: 'cli' | 'dashboard' | 'api';
}

export interface Endpoint {
  readonly method: 'GET' | 'POST';
  /** `:id` stands for a part. */
  readonly path: string;
  readonly access: Access;
  /** Of the query string for GET, of the body for POST. */
  readonly input: z.ZodObject;
  /** Counted as a change or as a read, for that many. */
  readonly limit: 'read' | 'change';
  readonly cost: number;
  /** Never refused for asking too often: taking everything back must always work. */
  readonly always?: true;
  run(asked: {
    readonly input: never;
    readonly id: string;
    readonly who: Who;
    readonly access: Access;
  }): Promise<Answer>;
}

/** A page of the history has at most this many bytes of tables, so that answering it never holds up the proxy for long. */
const MOST_HISTORY_BYTES = 2 * 1024 * 1024;
/** So many take a fraction of a millisecond. */
const LARGE_VERSION_BYTES = 16 * 1024;

/** What takes longer counts for more. */
const cost = { calls: 4, call: 2, history: 8, routes: 4, live: 4, diff: 3 } as const;

export function endpoints(deps: ApiDeps): readonly Endpoint[] {
  const inTurn = turnsOf(turns());
  const changes = changesOf(deps, inTurn);
  const routesOf = routesShown(deps);
  return [
    get('/api/status', requests.noQuery, async ({ who, access }) =>
      answer(await statusOf(deps, { actor: who.actor, kind: access })),
    ),
    get('/api/routes', requests.noQuery, ({ who }) => inTurn('routes', '', who, routesOf), cost.routes),
    get(
      '/api/routes/history',
      requests.historyQuery,
      ({ input, who }) => inTurn('history', input, who, () => historyOf(deps, input.limit, input.before)),
      cost.history,
    ),
    post('/api/routes/set', 'operate', requests.setRequest, ({ input, who }) => changes.set(input, who)),
    post(
      '/api/routes/diff',
      'read',
      requests.applyRequest,
      ({ input, who }) => changes.apply({ ...input, dryRun: true }, who),
      cost.diff,
    ),
    post('/api/routes/apply', 'operate', requests.applyRequest, ({ input, who }) => changes.apply(input, who)),
    {
      ...post('/api/routes/rollback', 'operate', requests.rollbackRequest, ({ input, who }) =>
        changes.rollback(input, who),
      ),
      always: true,
    },
    {
      ...post('/api/routes/legacy', 'operate', requests.legacyRequest, ({ input, who }) => changes.legacy(input, who)),
      always: true,
    },
    get(
      '/api/calls',
      requests.callsQuery,
      ({ input, who }) =>
        inTurn('calls', input, who, async () => {
          const { namespace: ns, ...filter } = input;
          const list = await deps.calls.list({ ...filter, ns });
          const instances = await deps.instances.all();
          const { legacy, peeled } = (instances.find(({ self }) => self) ?? sumOf([])).calls;
          const counts = { ...sumOf(instances).calls, legacy, peeled };
          return answer({ ...list, counts, instances: instances.length } satisfies CallsBody);
        }),
      cost.calls,
    ),
    get(
      '/api/calls/:id',
      requests.noQuery,
      ({ id, who }) =>
        inTurn('call', id, who, async () => {
          const show = async (whole: string): Promise<Answer | null> => {
            const found = await deps.calls.show(whole);
            if (!found) return null;
            const { ns: namespace, ...rest } = found;
            const others = (await deps.instances.all()).filter(({ self }) => !self);
            return answer({
              ...{ id: whole, namespace, ...rest },
              elsewhere: others.map((one) => one.id),
            } satisfies CallBody);
          };
          return byId(deps.calls, id, show);
        }),
      cost.call,
    ),
    post('/api/calls/:id/end', 'operate', requests.endRequest, async ({ id, input, who }) => {
      const end = async (whole: string): Promise<Answer | null> => {
        const outcome = await deps.calls.end(whole);
        if (outcome === 'unknown') return null;
        if (outcome === 'legacy') {
          return refuse('legacy-call', [
            `the legacy owns the call ${requests.shown(whole)}; it can only be ended there`,
          ]);
        }
        deps.signals.operated({ ...who, did: `end call ${whole}`, reason: input.reason ?? '' });
        return answer({ id: whole, ended: true } satisfies EndedBody);
      };
      return byId(deps.calls, id, end);
    }),
    post('/api/instances/:id/drain', 'operate', requests.drainRequest, ({ id, input, who }) =>
      deps.instances.drain(id, input, who),
    ),
    get(
      '/api/live',
      requests.noQuery,
      ({ who }) => inTurn('live', '', who, async () => answer(await liveOf(deps))),
      cost.live,
    ),
    get('/api/openapi.json', requests.noQuery, async () => answer(openapi())),
  ];
}

const turnsOf =
  (all: Turns): InTurn =>
  async (kind, asked, who, work) => {
    const key = JSON.stringify(asked);
    const given = await all.take({ kind, key, actor: who.actor }, async () => written(await work()));
    if (given !== 'busy') return given;
    return refuse('rate-limited', ['others are looking at that already; try again in a second'], {
      headers: { 'retry-after': '1' },
    });
  };

/** By a whole id, or by how the id of one call begins. `run`: null where no call has that id. */
async function byId(calls: LiveCalls, id: string, run: (whole: string) => Promise<Answer | null>): Promise<Answer> {
  const exact = await run(id);
  if (exact || id.length < SHORTEST_PREFIX) return exact ?? noSuchCall(id);
  const [only, ...others] = await calls.ids(id);
  if (only === undefined) return noSuchCall(id);
  if (others.length === 0) return (await run(only)) ?? noSuchCall(only);
  const what = `the ids of ${others.length + 1} calls begin with ${requests.shown(id)}`;
  return refuse('not-found', [`${what}; write more of it, as "sigfig calls list" shows it`]);
}
/** A shorter one would be a slip. */
const SHORTEST_PREFIX = 4;

const noSuchCall = (id: string): Answer =>
  refuse('not-found', [`no call ${requests.shown(id)} is known; "sigfig calls list" shows the live ones`]);

async function statusOf({ routes, guard, ...deps }: ApiDeps, you: StatusBody['you']): Promise<StatusBody> {
  const { ready, reasons } = deps.isReady();
  return {
    version: deps.version,
    startedAt: new Date(deps.startedAt).toISOString(),
    you,
    ready,
    reasons,
    redis: deps.redis(),
    routes: {
      version: routes.current.version,
      summary: routes.table.summary,
      log: routes.where,
      problem: routes.problem,
      fileProblems: routes.fileProblems,
    },
    legacy: deps.legacy(),
    instances: await deps.instances.all(),
    guard: guard.states(),
  };
}

/** The text is made once for each version. */
function routesShown({ routes, yaml }: ApiDeps): () => Promise<Answer> {
  let made: { readonly of: RouteTable; readonly text: Promise<string> } | undefined;
  return async () => {
    const { current, table } = routes;
    if (made?.of !== table) made = { of: table, text: yaml.format(table) };
    const { of, text } = made;
    text.catch(() => {
      if (made?.of === of) made = undefined;
    });
    const { version, at, actor, reason } = current;
    const { namespaces } = table.toJSON();
    const { fileProblems } = routes;
    return answer({ version, at, actor, reason, namespaces, yaml: await text, fileProblems } satisfies RoutesBody);
  };
}

/** Written one version at a time: with large tables each takes milliseconds. */
async function historyOf({ routes }: ApiDeps, limit: number, before?: number): Promise<Answer> {
  const found = await routes.history(limit + 1, before);
  const versions: VersionBody[] = [];
  const texts: string[] = [];
  let bytes = 0;
  for (const version of found.slice(0, limit)) {
    const shown = versionBody(version);
    const text = JSON.stringify(shown);
    bytes += text.length;
    if (versions.length > 0 && bytes > MOST_HISTORY_BYTES) break;
    versions.push(shown);
    texts.push(text);
    if (text.length > LARGE_VERSION_BYTES) await new Promise((turn) => setImmediate(turn));
  }
  const more = found.length > versions.length;
  const body: HistoryBody = { versions, more };
  return { ...answer(body), text: `{"versions":[${texts.join(',')}],"more":${more}}` };
}

export async function liveOf({ routes, guard, ...deps }: ApiDeps): Promise<LiveBody> {
  const named = Object.entries(routes.table.toJSON().namespaces);
  const instances = await deps.instances.all();
  return {
    at: new Date().toISOString(),
    routes: { version: routes.current.version, problem: routes.problem, fileProblems: routes.fileProblems },
    events: deps.live.figures().map((figures) => ({
      ...figures,
      route: Object.fromEntries(
        named.map(([ns, groups]) => {
          const { mode, sole, canary } = groups[figures.group];
          return [ns, { mode, sole, percent: canary?.percent ?? null }];
        }),
      ),
    })),
    ...sumOf(instances),
    guard: guard.states(),
    instances,
  };
}

let described: object | undefined;
/** The description beside this file: as JSON, which the build makes of it since reading YAML takes long; else as it is written. */
function openapi(): object {
  const text = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');
  const built = !import.meta.url.endsWith('.ts');
  described ??= (built ? JSON.parse(text('./openapi.json')) : parse(text('./openapi.yaml'))) as object;
  return described;
}

type Run<S extends z.ZodObject> = (asked: {
  readonly input: z.output<S>;
  readonly id: string;
  readonly who: Who;
  readonly access: Access;
}) => Promise<Answer>;

function get<S extends z.ZodObject>(path: string, input: S, run: Run<S>, cost = 1): Endpoint {
  return { method: 'GET', path, access: 'read', limit: 'read', cost, input, run: run as Endpoint['run'] };
}

function post<S extends z.ZodObject>(path: string, access: Access, input: S, run: Run<S>, cost = 1): Endpoint {
  return { method: 'POST', path, access, limit: 'change', cost, input, run: run as Endpoint['run'] };
}
