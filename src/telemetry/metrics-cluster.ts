// Metrics of what several instances share: Redis, messages between instances, lives of instances. Knows nothing of calls.
import type { Meter } from '@opentelemetry/api';
import { attributesBy, histogram, tally } from './instruments.js';
import type { Signals } from './signals.js';

type ClusterSignals = Pick<
  Signals,
  'redis' | 'instanceDied' | 'fenced' | 'clock' | 'unreadable' | 'drained' | 'message' | 'roundTrip'
>;

const DRAINS = ['begun', 'cancelled', 'done'];

export function clusterMetrics(meter: Meter): ClusterSignals {
  // Without Redis there is none to be up or down.
  let up: 0 | 1 | undefined;
  meter
    .createObservableGauge('sigfig.redis.up', { description: 'Whether Redis answers: 1 or 0' })
    .addCallback((result) => {
      if (up !== undefined) result.observe(up);
    });
  const lost = tally(meter, 'sigfig.redis.lost', 'Times that Redis became unreachable', []);
  const unreadable = tally(meter, 'sigfig.redis.unreadable', 'Keys that held what could not be understood', []);
  const roundTrip = histogram(meter, 'sigfig.redis.duration', 'Round trips to Redis, by script or command');
  const byName = attributesBy('name');
  const messages = tally(meter, 'sigfig.messages', 'Messages between instances', ['way', 'topic']);
  const bytes = tally(meter, 'sigfig.messages.bytes', 'Bytes of messages between instances', ['way', 'topic']);
  const died = tally(meter, 'sigfig.instances.died', 'Instances that died and were taken over by this one', []);
  const recovered = tally(meter, 'sigfig.instances.died.calls', 'Calls of dead instances that this one handled', []);
  const takeOver = histogram(meter, 'sigfig.instances.takeover.duration', 'Handling all calls of a dead instance');
  const fenced = tally(meter, 'sigfig.fenced', 'Times that this instance found that it was declared dead', []);
  const drains = tally(meter, 'sigfig.drains', 'Drains of this instance', ['what'], DRAINS);

  return {
    redis(well) {
      if (!well && up !== 0) lost();
      up = well ? 1 : 0;
    },
    instanceDied(_id, calls, ms) {
      died();
      recovered.add(calls);
      takeOver.record(ms / 1000);
    },
    fenced: () => fenced(),
    // A gauge has it.
    clock: () => undefined,
    unreadable: () => unreadable(),
    drained: (what) => drains(what),
    message(way, topic, size) {
      messages(way, topic);
      bytes.add(size, way, topic);
    },
    roundTrip: (name, ms) => roundTrip.record(ms / 1000, byName(name)),
  };
}

export interface ObservedCluster {
  readonly instances: number;
  readonly mayAct: boolean;
  readonly leads: boolean;
  /** By how many milliseconds this machine's clock is ahead of Redis's. */
  readonly ahead: number;
}

/** What is asked when scraped. */
export function observeCluster(meter: Meter, cluster: () => ObservedCluster): void {
  meter
    .createObservableGauge('sigfig.instances', { description: 'Living instances, as this one sees it' })
    .addCallback((result) => result.observe(cluster().instances));
  meter
    .createObservableGauge('sigfig.lease', { description: 'Whether this instance may act on calls: 1 or 0' })
    .addCallback((result) => result.observe(cluster().mayAct ? 1 : 0));
  meter
    .createObservableGauge('sigfig.leads', { description: 'Whether this instance does what one does for all: 1 or 0' })
    .addCallback((result) => result.observe(cluster().leads ? 1 : 0));
  meter
    .createObservableGauge('sigfig.clock.ahead', {
      description: "Seconds by which this machine's clock is ahead of Redis's; negative: behind",
    })
    .addCallback((result) => result.observe(cluster().ahead / 1_000));
}
