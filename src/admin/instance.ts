// What one instance tells of itself: to operators, and to the other instances with each renewal of its lease. What came from another
// one is read here as well: it may be of a newer version, so it is checked field by field. Knows nothing of how it travels.
import type { InstanceInfo } from '../cluster/cluster.js';
import type { LiveCalls, LiveCounts } from '../signaling/live.js';
import { type Lag, measureLag } from '../telemetry/lag.js';
import type { InstanceBody } from './api.js';
import type { Connected } from './plan.js';

export interface SelfOptions {
  readonly version: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly connected: Pick<Connected, 'figures'>;
  readonly calls: Pick<LiveCalls, 'counts'>;
  draining(): boolean;
  routesVersion(): number;
  leads(): boolean;
  /** Counting the calls failed; what was counted last is told again. */
  onError(error: unknown): void;
}

/** What an instance knows of itself; `id`, `self` and the age of its lease are the cluster's to say. */
export type Told = Omit<InstanceBody, 'id' | 'self' | 'leaseAgeMs'>;

export interface Self {
  /** As of now. */
  show(): Promise<Told>;
  /** The same at once, under 1 KiB as JSON; calls as they were half a second ago at most. */
  info(): InstanceInfo;
  close(): void;
}

export function thisInstance({ connected, calls, onError, ...about }: SelfOptions): Self {
  const lag: Lag = measureLag();
  let counted = noCalls;
  const told = (): Told => {
    const { connections, users } = connected.figures();
    return {
      version: about.version,
      startedAt: new Date(about.startedAt).toISOString(),
      connections,
      users,
      calls: counted,
      lagMs: lag.p99Ms(),
      draining: about.draining(),
      routesVersion: about.routesVersion(),
      leads: about.leads(),
    };
  };
  const count = async () => {
    counted = await calls.counts();
  };
  const timer = setInterval(() => void count().catch(onError), COUNT_MS);
  timer.unref();
  return {
    async show() {
      await count();
      return told();
    },
    info: () => ({ ...told() }),
    close() {
      clearInterval(timer);
      lag.close();
    },
  };
}

/** Renewals come each second, and counting may have to wait. */
const COUNT_MS = 500;

const states = [
  'OFFERING',
  'CONNECTED',
  'RENEGOTIATING',
  'AWAITING_REJOIN',
] as const satisfies readonly (keyof LiveCounts['byState'])[];
export const noCalls: LiveCounts = {
  new: 0,
  legacy: 0,
  peeled: 0,
  byState: { OFFERING: 0, CONNECTED: 0, RENEGOTIATING: 0, AWAITING_REJOIN: 0 },
};

/** What another instance told. What is missing or of another kind counts as nothing; what is not known here is left out. */
export function readInfo(info: InstanceInfo): Told {
  const calls = recordOf(info.calls);
  const byState = recordOf(calls.byState);
  return {
    version: typeof info.version === 'string' ? info.version.slice(0, LONGEST_VERSION) : '?',
    startedAt: timeOf(info.startedAt),
    connections: countOf(info.connections),
    users: countOf(info.users),
    calls: {
      new: countOf(calls.new),
      legacy: countOf(calls.legacy),
      peeled: countOf(calls.peeled),
      byState: Object.fromEntries(states.map((state) => [state, countOf(byState[state])])) as LiveCounts['byState'],
    },
    lagMs: typeof info.lagMs === 'number' && info.lagMs >= 0 ? info.lagMs : 0,
    draining: info.draining === true,
    routesVersion: countOf(info.routesVersion),
    leads: info.leads === true,
  };
}

/** Of a table's column; ours are far shorter. */
const LONGEST_VERSION = 64;

const recordOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
const countOf = (value: unknown): number =>
  Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;

/** One that says nothing of its start is taken to have started now. */
function timeOf(value: unknown): string {
  const at = typeof value === 'string' ? Date.parse(value) : Number.NaN;
  return new Date(Number.isNaN(at) ? Date.now() : at).toISOString();
}

/** Of several instances; calls of the new path are counted once each, where they are live. */
export function sumOf(instances: readonly InstanceBody[]): Pick<InstanceBody, 'connections' | 'users' | 'calls'> {
  const sum = (of: (instance: InstanceBody) => number) => instances.reduce((total, one) => total + of(one), 0);
  return {
    connections: sum(({ connections }) => connections),
    users: sum(({ users }) => users),
    calls: {
      new: sum(({ calls }) => calls.new),
      legacy: sum(({ calls }) => calls.legacy),
      peeled: sum(({ calls }) => calls.peeled),
      byState: Object.fromEntries(
        states.map((state) => [state, sum(({ calls }) => calls.byState[state])]),
      ) as LiveCounts['byState'],
    },
  };
}
