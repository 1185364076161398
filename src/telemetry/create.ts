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
}

export function createSignals({ logger, meter, gauges }: SignalsOptions): Signals {
  return both(meteredSignals(meter, gauges), loggedSignals(logger));
}

/** Tells each signal to `first`, whose counters count, and then to `second`. */
function both(first: Signals, second: Signals): Signals {
  const told: Record<string, unknown> = { counters: first.counters };
  for (const [name, tell] of Object.entries(first)) {
    if (typeof tell !== 'function') continue;
    const too = second[name as keyof Signals] as (...args: unknown[]) => void;
    told[name] = (...args: unknown[]) => {
      tell(...args);
      too(...args);
    };
  }
  return told as unknown as Signals;
}
