// What is shown of this instance. Knows no other one; where several share their state, each tells of itself.
import { hostname } from 'node:os';
import type { LiveCalls } from '../signaling/live.js';
import { type Lag, measureLag } from '../telemetry/lag.js';
import type { InstanceBody } from './api.js';
import type { Connected } from './plan.js';

export interface SelfOptions {
  readonly version: string;
  /** Milliseconds since the epoch. */
  readonly startedAt: number;
  readonly connected: Connected;
  readonly calls: Pick<LiveCalls, 'counts'>;
  draining(): boolean;
  routesVersion(): number;
}

export interface Self {
  show(): Promise<InstanceBody>;
  close(): void;
}

export function thisInstance({ version, startedAt, connected, calls, draining, routesVersion }: SelfOptions): Self {
  const lag: Lag = measureLag();
  const id = `${hostname()}-${process.pid}`;
  return {
    async show() {
      const { connections, users } = connected.figures();
      return {
        id,
        version,
        startedAt: new Date(startedAt).toISOString(),
        self: true,
        connections,
        users,
        calls: await calls.counts(),
        lagMs: lag.p99Ms(),
        leaseAgeMs: null,
        draining: draining(),
        routesVersion: routesVersion(),
        leads: true,
      };
    },
    close: () => lag.close(),
  };
}
