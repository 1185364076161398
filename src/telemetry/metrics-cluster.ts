// Metrics of what several instances share: Redis, messages between instances, lives of instances. Knows nothing of calls.
import type { Meter } from '@opentelemetry/api';
import type { Signals } from './signals.js';

type ClusterSignals = Pick<
  Signals,
  'redis' | 'instanceDied' | 'fenced' | 'unreadable' | 'drained' | 'message' | 'roundTrip'
>;

export function clusterMetrics(_meter: Meter): ClusterSignals {
  const nothing = (): void => undefined;
  return {
    redis: nothing,
    instanceDied: nothing,
    fenced: nothing,
    unreadable: nothing,
    drained: nothing,
    message: nothing,
    roundTrip: nothing,
  };
}
