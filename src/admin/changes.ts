// Changes of the table as operators ask for them, dry or real: compare-and-set, the reason, the calls that end with it, and what
// is answered. Knows no HTTP; what a change makes of a table is the routing's to say.

import { Unavailable } from '../base/unavailable.js';
import type { Author, Outcome } from '../control/control.js';
import { type Change, type Difference, differences, type RouteVersion } from '../routing/change.js';
import type { RouteTable } from '../routing/route.js';
import { type Answer, answer, refuse } from './answer.js';
import type { ChangedBody, PlanBody, VersionBody } from './api.js';
import type { ApiDeps, Who } from './endpoints.js';
import { livePlan, routeAsked, uncountedPlan } from './plan.js';
import { takesFromNew } from './plan-lines.js';
import type * as requests from './requests.js';

/** Runs a read once its turn has come; what is asked alike by then gets the same answer. */
export type InTurn = (kind: string, asked: unknown, who: Who, work: () => Promise<Answer>) => Promise<Answer>;

/** Tries of a change that was made from no version in particular, while others change the table. */
const MOST_TRIES = 5;

export const versionBody = (version: RouteVersion): VersionBody => ({
  ...version,
  differences: differences(version.before, version.after),
});

export function changesOf(deps: ApiDeps, inTurn: InTurn) {
  const { routes, calls, signals } = deps;

  async function dryRun(change: Change, endCalls: boolean): Promise<Answer> {
    const { table } = routes;
    const from = routes.current.version;
    const planned = await routes.plan(change);
    if (!planned.ok) return refuse('refused', planned.problems);
    const which = endedBy(change, planned.differences, table);
    return answer(
      await livePlan(deps, {
        from,
        before: table.toJSON(),
        after: planned.table.toJSON(),
        differences: planned.differences,
        ends: endCalls ? { which } : undefined,
      }),
    );
  }

  const dryRunInTurn = (change: Change, { endCalls = false }: Asked, who: Who): Promise<Answer> =>
    inTurn(`dry run of ${change.kind}`, [change, endCalls], who, () => dryRun(change, endCalls));

  /** In force first, counted after: a change must not wait for its numbers. */
  async function counted(asked: Parameters<typeof livePlan>[1]): Promise<PlanBody> {
    try {
      return await livePlan(deps, asked);
    } catch (error) {
      signals.internalError('counting whom a change concerns', error);
      return uncountedPlan(asked);
    }
  }

  /** Otherwise why they could not all be ended. */
  async function ended(which: (ns: string) => boolean): Promise<number | 'internal' | 'unavailable'> {
    try {
      return await calls.endAll(which);
    } catch (error) {
      if (error instanceof Unavailable) return 'unavailable';
      signals.internalError('ending all calls', error);
      return 'internal';
    }
  }

  /**
   * Makes the change, and ends calls right when it is in force: its log may take seconds to answer, and that whoever asks for
   * both has no time for.
   */
  async function changed(change: Change, endCalls: boolean, author: Author) {
    let ending: ReturnType<typeof ended> | undefined;
    const end = (differing: readonly Difference[]) => {
      ending ??= ended(endedBy(change, differing, routes.table));
    };
    const stop = routes.onChange((version) => {
      const { kind, actor, via, reason } = version;
      const own = kind === change.kind && actor === author.actor && via === author.via && reason === author.reason;
      if (endCalls && own) end(differences(version.before, version.after));
    });
    try {
      const outcome = await routes.change(change, author);
      if (endCalls && outcome.kind === 'applied') end(differences(outcome.version.before, outcome.version.after));
      if (endCalls && outcome.kind === 'unchanged') end([]);
      return { outcome, ending };
    } finally {
      stop();
    }
  }

  /** What was not changed is in force wherever it was. */
  async function everywhere(): Promise<ChangedBody['confirmed']> {
    const of = await deps.instances.all().then(
      (all) => all.length,
      () => 1,
    );
    return { instances: of, of };
  }

  async function make(change: Change, asked: Asked, who: Who): Promise<Answer> {
    const { reason = '', endCalls = false, ifVersion } = asked;
    const before = routes.current.version;
    const { outcome, ending } = await changed(change, endCalls, { ...who, reason, ifVersion });
    if (outcome.kind === 'refused') return refuse('refused', outcome.problems);
    if (outcome.kind === 'conflict') return conflict(outcome.current, ifVersion);
    if (outcome.kind === 'unwritable') return unwritable(outcome);
    const { version } = outcome;
    const applied = outcome.kind === 'applied';
    if (applied) signals.operated({ ...who, did: `${change.kind} → version ${version.version}`, reason });
    const endedCalls = ending ? await ending : 0;
    if (typeof endedCalls === 'string') {
      const again =
        change.kind === 'legacy' ? 'sigfig routes legacy --all' : `sigfig routes rollback ${version.version}`;
      const why = endedCalls === 'unavailable' ? " (what the instances share can't be reached now)" : '';
      return refuse(endedCalls, [
        `version ${version.version} is in force, but its calls could not all be ended${why}; try "${again} --end-calls"`,
      ]);
    }
    if (endCalls) signals.operated({ ...who, did: `end ${endedCalls} calls`, reason });
    const body: ChangedBody = {
      version: versionBody(version),
      changed: applied,
      plan: await counted({
        from: applied ? before : version.version,
        before: applied ? version.before : version.after,
        after: version.after,
        differences: applied ? differences(version.before, version.after) : [],
        ends: endCalls ? { ended: endedCalls } : undefined,
      }),
      confirmed: applied ? outcome.confirmed : await everywhere(),
      unwritten: applied ? outcome.unwritten : null,
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
    set(input: requests.SetInput, who: Who) {
      const made = () =>
        guarded(input, who, () => {
          const { route, merged } = routeAsked(input, routes.table);
          const { namespace: ns = '/', target } = input;
          return { change: { kind: 'set', ns, target, route }, merged };
        });
      return input.dryRun ? inTurn('dry run of set', input, who, made) : made();
    },

    apply(input: requests.ApplyInput, who: Who) {
      const made = async () => {
        const parsed = await deps.yaml.parse(input.yaml, input.file ?? 'routes.yaml');
        if (!parsed.ok) return refuse(parsed.busy ? 'rate-limited' : 'refused', parsed.problems);
        return guarded(input, who, () => ({ change: { kind: 'apply', table: parsed.table } }));
      };
      return input.dryRun ? inTurn('dry run of apply', input, who, made) : made();
    },

    rollback({ version: to, ...asked }: requests.RollbackInput, who: Who) {
      const change: Change = { kind: 'rollback', ...(to === undefined ? {} : { to }) };
      return asked.dryRun ? dryRunInTurn(change, asked, who) : make(change, withoutVersion(asked), who);
    },

    legacy(asked: requests.LegacyInput, who: Who) {
      const change: Change = { kind: 'legacy' };
      return asked.dryRun ? dryRunInTurn(change, asked, who) : make(change, withoutVersion(asked), who);
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

/**
 * In which namespaces calls of the new path end with a change: with the red switch in all; with a rollback where calls would go
 * to the new path no more, or fewer would. One that changes nothing may be the second try: where not everything is `new`.
 */
function endedBy(change: Change, differing: readonly Difference[], table: RouteTable): (ns: string) => boolean {
  if (change.kind === 'legacy') return () => true;
  if (differing.length === 0) return (ns) => table.mode(ns, 'call-offer') !== 'new';
  const taken = new Set(differing.filter(takesFromNew).map(({ ns }) => ns));
  return (ns) => taken.has(ns);
}

function unwritable({ problem, begun }: Extract<Outcome, { kind: 'unwritable' }>): Answer {
  const how = '"sigfig routes rollback" and "sigfig routes legacy --all" work all the same';
  if (!begun) return refuse('unwritable', [`nothing was changed: ${problem}; ${how}`]);
  const looked = 'it is made if the log ever answers, and "sigfig routes history" shows it then';
  return refuse('not-known', [`whether the change is made is not known: ${problem}; ${looked}; ${how}`]);
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
