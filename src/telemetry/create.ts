// What happens is told once and becomes a log line and a metric. Knows neither how lines look nor what is scraped.
import type { Meter } from '@opentelemetry/api';
import { type Logger, loggedSignals } from './log.js';
import { type Gauges, meteredSignals } from './metrics.js';
import type { Signals } from './signals.js';

export interface SignalsOptions {
  readonly logger: Logger;
  /** From `startMetrics`: instruments made before the SDK is up would record nothing. */
  readonly meter: Meter;
  /** Asked when scraped, so the closures may refer to parts that are made later. */
  readonly gauges?: Gauges;
  /** Who else is told: live figures, timelines, the guard. */
  readonly also?: readonly Partial<Signals>[];
}

export function createSignals({ logger, meter, gauges, also = [] }: SignalsOptions): Signals {
  return tellAll(meteredSignals(meter, gauges), [loggedSignals(logger), ...also]);
}

/** Tells each signal to `first`, whose counters count, and then to the others that want it. */
function tellAll(first: Signals, others: readonly Partial<Signals>[]): Signals {
  const told: Record<string, unknown> = { counters: first.counters };
  for (const name of Object.keys(first) as (keyof Signals)[]) {
    const tell = first[name];
    if (typeof tell !== 'function') continue;
    const all = [tell, ...others.map((other) => other[name])].filter((f) => typeof f === 'function') as ((
      ...args: unknown[]
    ) => void)[];
    told[name] = (...args: unknown[]) => {
      for (const one of all) one(...args);
    };
  }
  return told as unknown as Signals;
}
