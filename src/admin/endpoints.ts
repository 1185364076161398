// The admin API's endpoints as a table: what each reads, who may use it, and what it does with the parts it is given.
// Knows no HTTP: `app.ts` brings a checked input and who asks, and sends the answer.
import { readFileSync } from 'node:fs';
import { parse } from 'yaml';
import type { z } from 'zod';
import type { RouteControl } from '../control/control.js';
import { type Change, differences, type RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import type { LiveCalls } from '../signaling/live.js';
import type { Live } from '../telemetry/live.js';
import type { Signals } from '../telemetry/signals.js';
import { type Answer, answer, refuse } from './answer.js';
import type {
  CallBody,
  CallsBody,
  ChangedBody,
  EndedBody,
  GuardBody,
  HistoryBody,
  InstanceBody,
  LiveBody,
  PlanBody,
  RoutesBody,
  StatusBody,
  VersionBody,
} from './api.js';
import { type Connected, livePlan, routeAsked, uncountedPlan } from './plan.js';
import * as requests from './requests.js';
import type { Access } from './tokens.js';
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
  instances(): Promise<readonly InstanceBody[]>;
  legacy(): StatusBody['legacy'];
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
  /** Counted as a change or as a read. */
  readonly limit: 'read' | 'change';
  /** Never refused for asking too often: taking everything back must always work. */
  readonly always?: true;
  run(asked: { readonly input: never; readonly id: string; readonly who: Who }): Promise<Answer>;
}

/** A page of the history has at most this many bytes of tables, so that answering it never holds up the proxy for long. */
const MOST_HISTORY_BYTES = 2 * 1024 * 1024;
/** Tries of a change that was made from no version in particular, while others change the table. */
const MOST_TRIES = 5;

export function endpoints(deps: ApiDeps): readonly Endpoint[] {
  const changes = changesOf(deps);
  const routesOf = routesShown(deps);
  return [
    get('/api/status', requests.noQuery, async () => answer(await statusOf(deps))),
    get('/api/routes', requests.noQuery, async () => answer(await routesOf())),
    get('/api/routes/history', requests.historyQuery, async ({ input }) =>
      answer(await historyOf(deps, input.limit, input.before)),
    ),
    post('/api/routes/set', 'operate', requests.setRequest, ({ input, who }) => changes.set(input, who)),
    post('/api/routes/diff', 'read', requests.applyRequest, ({ input, who }) =>
      changes.apply({ ...input, dryRun: true }, who),
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
    get('/api/calls', requests.callsQuery, async ({ input }) => {
      const { namespace: ns, ...filter } = input;
      const [list, counts] = [await deps.calls.list({ ...filter, ns }), await deps.calls.counts()];
      return answer({ ...list, counts } satisfies CallsBody);
    }),
    get('/api/calls/:id', requests.noQuery, async ({ id }) => {
      const found = await deps.calls.show(id);
      if (!found) return noSuchCall(id);
      const { ns: namespace, conversationId, call, timeline } = found;
      return answer({ id, namespace, conversationId, call, timeline } satisfies CallBody);
    }),
    post('/api/calls/:id/end', 'operate', requests.endRequest, async ({ id, input, who }) => {
      const outcome = await deps.calls.end(id);
      if (outcome === 'unknown') return noSuchCall(id);
      if (outcome === 'legacy') {
        return refuse('legacy-call', [`the legacy owns the call ${requests.shown(id)}; it can only be ended there`]);
      }
      deps.signals.operated({ ...who, did: `end call ${id}`, reason: input.reason ?? '' });
      return answer({ id, ended: true } satisfies EndedBody);
    }),
    get('/api/live', requests.noQuery, async () => answer(await liveOf(deps))),
    get('/api/openapi.json', requests.noQuery, async () => answer(openapi())),
  ];
}

const noSuchCall = (id: string): Answer =>
  refuse('not-found', [`no call ${requests.shown(id)} is known; "sigfig calls list" shows the live ones`]);

async function statusOf({ routes, guard, ...deps }: ApiDeps): Promise<StatusBody> {
  const { ready, reasons } = deps.isReady();
  return {
    version: deps.version,
    startedAt: new Date(deps.startedAt).toISOString(),
    ready,
    reasons,
    routes: {
      version: routes.current.version,
      summary: routes.table.summary,
      log: routes.where,
      problem: routes.problem,
    },
    legacy: deps.legacy(),
    instances: await deps.instances(),
    guard: guard.states(),
  };
}

/** The text is made once for each version. */
function routesShown({ routes, yaml }: ApiDeps): () => Promise<RoutesBody> {
  let made: { readonly of: RouteTable; readonly text: Promise<string> } | undefined;
  return async () => {
    const { current, table } = routes;
    if (made?.of !== table) made = { of: table, text: yaml.format(table) };
    const { of, text } = made;
    text.catch(() => {
      if (made?.of === of) made = undefined;
    });
    const { version, at, actor, reason } = current;
    return { version, at, actor, reason, namespaces: table.toJSON().namespaces, yaml: await text };
  };
}

async function historyOf({ routes }: ApiDeps, limit: number, before?: number): Promise<HistoryBody> {
  const found = await routes.history(limit + 1, before);
  const versions: VersionBody[] = [];
  let bytes = 0;
  for (const version of found.slice(0, limit)) {
    const shown = versionBody(version);
    bytes += JSON.stringify(shown).length;
    if (versions.length > 0 && bytes > MOST_HISTORY_BYTES) break;
    versions.push(shown);
  }
  return { versions, more: found.length > versions.length };
}

const versionBody = (version: RouteVersion): VersionBody => ({
  ...version,
  differences: differences(version.before, version.after),
});

export async function liveOf({ routes, guard, connected, ...deps }: ApiDeps): Promise<LiveBody> {
  const named = Object.entries(routes.table.toJSON().namespaces);
  const { connections, users } = connected.figures();
  return {
    at: new Date().toISOString(),
    routes: { version: routes.current.version, problem: routes.problem },
    events: deps.live.figures().map((figures) => ({
      ...figures,
      route: Object.fromEntries(
        named.map(([ns, groups]) => {
          const { mode, sole, canary } = groups[figures.group];
          return [ns, { mode, sole, percent: canary?.percent ?? null }];
        }),
      ),
    })),
    calls: await deps.calls.counts(),
    connections,
    users,
    guard: guard.states(),
    instances: await deps.instances(),
  };
}

/** Changes of the table, dry or real. */
function changesOf(deps: ApiDeps) {
  const { routes, calls, signals } = deps;

  async function dryRun(change: Change, endCalls: boolean): Promise<Answer> {
    const from = routes.current.version;
    const planned = await routes.plan(change);
    if (!planned.ok) return refuse('refused', planned.problems);
    return answer(await livePlan(deps, { from, differences: planned.differences, endCalls }));
  }

  /** In force first, counted after: a change must not wait for its numbers. */
  async function changed(
    outcome: { readonly kind: 'applied' | 'unchanged'; readonly version: RouteVersion },
    endCalls: boolean,
  ): Promise<PlanBody> {
    const { version, before, after } = outcome.version;
    const made = outcome.kind === 'applied';
    const from = made ? version - 1 : version;
    const differing = made ? differences(before, after) : [];
    try {
      return await livePlan(deps, { from, differences: differing, endCalls });
    } catch (error) {
      signals.internalError('counting whom a change concerns', error);
      return uncountedPlan(from, differing);
    }
  }

  /** What was not changed is in force wherever it was. */
  async function everywhere(): Promise<ChangedBody['confirmed']> {
    const of = await deps.instances().then(
      (all) => all.length,
      () => 1,
    );
    return { instances: of, of };
  }

  async function make(change: Change, asked: Asked, who: Who): Promise<Answer> {
    const { reason = '', endCalls = false, ifVersion } = asked;
    const outcome = await routes.change(change, { ...who, reason, ifVersion });
    if (outcome.kind === 'refused') return refuse('refused', outcome.problems);
    if (outcome.kind === 'conflict') return conflict(outcome.current, ifVersion);
    if (outcome.kind === 'unwritable') {
      const how = '"sigfig routes rollback" and "sigfig routes legacy --all" work all the same';
      if (outcome.begun) {
        const looked = 'it is made if the log ever answers, and "sigfig routes history" shows it then';
        return refuse('not-known', [`whether the change is made is not known: ${outcome.problem}; ${looked}; ${how}`]);
      }
      return refuse('unwritable', [`nothing was changed: ${outcome.problem}; mend the log, ${how}`]);
    }
    const { version } = outcome;
    if (outcome.kind === 'applied') {
      signals.operated({ ...who, did: `${change.kind} → version ${version.version}`, reason });
    }
    const plan = await changed(outcome, endCalls);
    let endedCalls = 0;
    if (endCalls) {
      try {
        endedCalls = await calls.endAll();
      } catch (error) {
        signals.internalError('ending all calls', error);
        return refuse('internal', [
          `version ${version.version} is in force, but its calls could not all be ended; send the same again`,
        ]);
      }
      signals.operated({ ...who, did: `end ${endedCalls} calls`, reason });
    }
    const body: ChangedBody = {
      version: versionBody(version),
      changed: outcome.kind === 'applied',
      plan,
      confirmed: outcome.kind === 'applied' ? outcome.confirmed : await everywhere(),
      unwritten: outcome.kind === 'applied' ? outcome.unwritten : null,
      endedCalls,
    };
    return answer(body);
  }

  /** What needs a reason and is made from a version. */
  async function guarded(asked: Asked, who: Who, build: () => Built): Promise<Answer> {
    for (let tries = 1; ; tries++) {
      const { current } = routes;
      if (asked.ifVersion !== undefined && asked.ifVersion !== current.version) {
        return conflict(current, asked.ifVersion);
      }
      const { change, merged = false } = build();
      if (asked.dryRun) return dryRun(change, false);
      if (asked.reason === undefined) {
        return refuse('invalid', ['reason is missing; say in one line why, it stays in the history']);
      }
      const made = await make(change, { ...asked, ifVersion: merged ? current.version : asked.ifVersion }, who);
      const lost = merged && asked.ifVersion === undefined && made.status === 409;
      // Whoever took everything back meanwhile has won, whatever was asked for before.
      if (!lost || takesBack.has(routes.current.kind) || tries >= MOST_TRIES) return made;
    }
  }

  return {
    set: (input: requests.SetInput, who: Who) =>
      guarded(input, who, () => {
        const { route, merged } = routeAsked(input, routes.table);
        const { namespace: ns = '/', target } = input;
        return { change: { kind: 'set', ns, target, route }, merged };
      }),

    async apply(input: requests.ApplyInput, who: Who) {
      const parsed = await deps.yaml.parse(input.yaml, input.file ?? 'routes.yaml');
      if (!parsed.ok) return refuse(parsed.busy ? 'rate-limited' : 'refused', parsed.problems);
      return guarded(input, who, () => ({ change: { kind: 'apply', table: parsed.table } }));
    },

    rollback({ version: to, ...asked }: requests.RollbackInput, who: Who) {
      const change: Change = { kind: 'rollback', ...(to === undefined ? {} : { to }) };
      return asked.dryRun ? dryRun(change, asked.endCalls === true) : make(change, withoutVersion(asked), who);
    },

    legacy(asked: requests.LegacyInput, who: Who) {
      const change: Change = { kind: 'legacy' };
      return asked.dryRun ? dryRun(change, asked.endCalls === true) : make(change, withoutVersion(asked), who);
    },
  };
}

const takesBack: ReadonlySet<Change['kind']> = new Set(['rollback', 'legacy', 'guard']);

interface Asked {
  readonly reason?: string | undefined;
  readonly ifVersion?: number | undefined;
  readonly dryRun?: boolean | undefined;
  readonly endCalls?: boolean | undefined;
}

interface Built {
  readonly change: Change;
  /** It was made with what is in force, which must not change meanwhile. */
  readonly merged?: boolean;
}

/** Taking back skips the compare-and-set. */
const withoutVersion = (asked: Asked): Asked => ({ ...asked, ifVersion: undefined });

function conflict(current: RouteVersion, from: number | undefined): Answer {
  const { version, actor, reason } = current;
  const why = reason === '' ? '' : `: ${reason}`;
  const what = `version ${version} is in force by now (${actor}${why}), and the change was made from ${from ?? 'another'}`;
  return refuse('conflict', [`${what}; look at it with "sigfig routes list", then make the change again`], {
    current: version,
  });
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
}) => Promise<Answer>;

function get<S extends z.ZodObject>(path: string, input: S, run: Run<S>): Endpoint {
  return { method: 'GET', path, access: 'read', limit: 'read', input, run: run as Endpoint['run'] };
}

function post<S extends z.ZodObject>(path: string, access: Access, input: S, run: Run<S>): Endpoint {
  return { method: 'POST', path, access, limit: 'change', input, run: run as Endpoint['run'] };
}
