// The instances that serve one population of browsers, and emptying one of them: this one by itself, another one by a message.
// Knows nothing of how connections are closed, nor of how messages travel.
import { z } from 'zod';
import type { Broker, Liveness, LivingInstance } from '../cluster/cluster.js';
import type { Signals } from '../telemetry/signals.js';
import { type Answer, answer, refuse } from './answer.js';
import type { DrainBody, DrainRequest, InstanceBody } from './api.js';
import type { Who } from './endpoints.js';
import { readInfo, type Self } from './instance.js';
import { shown } from './requests.js';

/**
 * Emptying this instance: no new connections, and those that are open are closed in small batches. What is begun or taken back is
 * told to the other instances at once.
 */
export interface Drain {
  /** What is begun already goes on. */
  begin(reason: string): void;
  /** It takes connections again. Nothing where it stops for good. */
  cancel(): void;
  /** `left`: open connections. */
  state(): { readonly draining: boolean; readonly left: number };
}

export interface InstancesDeps {
  readonly self: Self;
  readonly cluster: { readonly liveness: Liveness; readonly broker: Broker };
  /** False: there is no other one, and never will be. */
  readonly shared: boolean;
  readonly drain: Drain;
  readonly signals: Pick<Signals, 'operated' | 'internalError'>;
}

export interface Instances {
  /** The living ones, oldest first. */
  all(): Promise<readonly InstanceBody[]>;
  /** Empties the one that `id` names, or takes that back. */
  drain(id: string, asked: DrainRequest, who: Who): Promise<Answer>;
}

const TOPIC = 'drain';
/** From another instance: checked as if it came from outside. */
const message = z.object({
  cancel: z.boolean(),
  reason: z.string().max(500),
  actor: z.string().max(256),
  via: z.enum(['cli', 'dashboard', 'api']),
});
type DrainMessage = z.infer<typeof message>;

/** Until what was told to another instance shows in what it tells of itself: a message's way, and two renewals. */
const HEARD_MS = 3_000;

export function createInstances({ self, cluster, shared, drain, signals }: InstancesDeps): Instances {
  const { liveness, broker } = cluster;
  /** Instances that were told a moment ago, by address. */
  const told = new Map<string, { readonly draining: boolean; readonly at: number }>();

  /** Here, whoever asked. */
  function act({ cancel, reason, ...who }: DrainMessage): void {
    if (cancel) drain.cancel();
    else drain.begin(reason);
    signals.operated({ ...who, did: cancel ? 'take back the drain of this instance' : 'drain this instance', reason });
  }

  broker.on(TOPIC, (body) => {
    const read = message.safeParse(body);
    if (read.success) act(read.data);
    else signals.internalError('a drain asked by another instance', new Error(z.prettifyError(read.error)));
  });

  const asToldLately = (one: LivingInstance, draining: boolean): boolean => {
    const lately = told.get(one.address);
    if (!lately) return draining;
    if (lately.draining !== draining && performance.now() - lately.at <= HEARD_MS) return lately.draining;
    told.delete(one.address);
    return draining;
  };

  async function all(): Promise<readonly InstanceBody[]> {
    const own = await self.show();
    return liveness
      .living()
      .map((one): InstanceBody => {
        const figures = one.self ? own : readInfo(one.info);
        return {
          id: one.id,
          self: one.self,
          ...figures,
          draining: one.self ? figures.draining : asToldLately(one, figures.draining),
          leaseAgeMs: shared ? Math.max(0, Math.round(one.leaseAgeMs)) : null,
        };
      })
      .sort((a, b) => a.startedAt.localeCompare(b.startedAt) || a.id.localeCompare(b.id));
  }

  return {
    all,

    async drain(id, { reason, cancel = false, force = false }, who) {
      const instances = await all();
      const named = theOne(liveness.living(), id);
      if (typeof named === 'string') return refuse('not-found', [named]);
      const target = instances.find((one) => one.id === named.id);
      if (!target) return refuse('not-found', [unknown(id)]);
      const others = instances.filter((one) => one.id !== target.id && !one.draining);
      if (!cancel && !force && !target.draining && others.length === 0) {
        const last = shared
          ? `${target.id} is the last instance that is not draining`
          : `${target.id} knows no other instance (it was started without --redis)`;
        return refuse('refused', [
          `${last}: nobody would take new connections; start another one, or insist with --force ("force": true)`,
        ]);
      }
      const connections = named.self ? drain.state().left : target.connections;
      const sent: DrainMessage = { cancel, reason, ...who };
      if (named.self) {
        act(sent);
        if (cancel && drain.state().draining) {
          return refuse('refused', [`${target.id} stops for good (it was sent a signal); that can't be taken back`]);
        }
      } else {
        if (!liveness.well()) {
          return refuse('unwritable', [
            `nothing was changed: Redis can't be reached, so ${target.id} can't be told; ask the admin port of that instance itself`,
          ]);
        }
        for (const [address, { at }] of told) if (performance.now() - at > HEARD_MS) told.delete(address);
        told.set(named.address, { draining: !cancel, at: performance.now() });
        broker.send(named.address, { topic: TOPIC, body: sent });
        signals.operated({ ...who, did: `${cancel ? 'take back the drain of' : 'drain'} ${target.id}`, reason });
      }
      return answer({
        ...{ id: target.id, draining: !cancel, connections },
        ...(cancel && !target.draining ? { unchanged: true } : {}),
      } satisfies DrainBody);
    },
  };
}

/** The one that is meant, or a line that says why it is not known which. */
function theOne(living: readonly LivingInstance[], id: string): LivingInstance | string {
  const exact = living.find((one) => (id === 'self' ? one.self : one.id === id || one.address === id));
  if (exact) return exact;
  const [only, ...others] = living.filter((one) => id !== '' && one.id.startsWith(id));
  if (only === undefined) return unknown(id);
  if (others.length === 0) return only;
  return `the ids of ${others.length + 1} instances begin with ${shown(id)}; write more of it, as "sigfig status" shows it`;
}

const unknown = (id: string): string =>
  `no living instance has an id that begins with ${shown(id)}; "sigfig status" shows them`;
