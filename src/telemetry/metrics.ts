// The vocabulary as metrics: OpenTelemetry instruments, scraped by Prometheus on a listener of their own. What happens
// often only increments a number here; OpenTelemetry reads it when scraped. Knows nothing of log lines.
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Meter } from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import type { Change } from '../routing/change.js';
import { groupNames, groups } from '../routing/route.js';
import { attributesBy, histogram, MOST_SERIES, tally } from './instruments.js';
import { listenForOperators } from './listen.js';
import { clusterMetrics, type ObservedCluster, observeCluster } from './metrics-cluster.js';
import type { Counters, Signals, TransportKind } from './signals.js';

export interface Metrics {
  /** `http://127.0.0.1:9464/metrics`, with the real port. */
  readonly url: string;
  readonly meter: Meter;
  close(): Promise<void>;
}

export interface MetricsOptions {
  readonly listen: { readonly host: string; readonly port: number; readonly path: string };
  readonly version: string;
  /** Told what goes wrong with the listener once it listens. */
  onError(error: Error): void;
}

/** What is asked when scraped. Each is optional, quick, and may fail: its metric is then left out of that scrape. */
export interface Gauges {
  /** Live calls of the new path by state. An answer over 1 s late is left out. */
  callsByState?(): Promise<Readonly<Record<string, number>>> | Readonly<Record<string, number>>;
  /** The guard's state of each group. Those that are `off` are left out of the metric. */
  guard?(): Iterable<{ readonly ns: string; readonly group: string; readonly state: string }>;
  /** Where several instances share their calls: how many live, as this one sees it; whether it may act on calls; whether it leads; its clock. */
  cluster?(): ObservedCluster;
  /** Sizes of what is bounded, by a fixed name: `claims`, `early-candidates`, `tickets`, … */
  readonly sizes?: Readonly<Record<string, () => number>>;
}

/**
 * Brings the SDK up, then listens; instruments may be made on `meter` from then on.
 * @throws the system's error where the address can't be taken.
 */
export async function startMetrics(options: MetricsOptions): Promise<Metrics> {
  const exporter = new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true });
  const provider = new MeterProvider({
    resource: resourceFromAttributes({ 'service.name': 'sigfig', 'service.version': options.version }),
    readers: [exporter],
  });
  const meter = provider.getMeter('sigfig', options.version);
  const stopProcessMetrics = observeProcess(meter, options.version);
  const listening = await listenForOperators(
    options.listen,
    (request, response) => {
      const path = request.url?.split('?', 1)[0];
      if ((request.method === 'GET' || request.method === 'HEAD') && path === options.listen.path) {
        exporter.getMetricsRequestHandler(request, response);
      } else {
        response.writeHead(404, { 'content-type': 'text/plain' }).end(`metrics are at ${options.listen.path}\n`);
      }
    },
    options.onError,
  ).catch((error: unknown) => {
    stopProcessMetrics();
    throw error;
  });
  return {
    url: listening.url + options.listen.path,
    meter,
    async close() {
      stopProcessMetrics();
      await listening.close();
      await provider.shutdown();
    },
  };
}

/** The half of the signals that counts and measures. */
export function meteredSignals(meter: Meter, gauges: Gauges = {}): Signals {
  const counters: Counters = { forwardedUp: 0, forwardedDown: 0 };
  meter
    .createObservableCounter('sigfig.packets.forwarded', { description: 'Packets passed on unchanged' })
    .addCallback((result) => {
      result.observe(counters.forwardedUp, { direction: 'up' });
      result.observe(counters.forwardedDown, { direction: 'down' });
    });

  const live: Record<TransportKind, number> = { websocket: 0, polling: 0 };
  meter
    .createObservableUpDownCounter('sigfig.connections', { description: "Browsers' connections open now" })
    .addCallback((result) => {
      for (const transport of ['websocket', 'polling'] as const) result.observe(live[transport], { transport });
    });

  const opened = tally(meter, 'sigfig.connections.opened', 'Connections opened, by first transport', ['transport']);
  const upgraded = tally(meter, 'sigfig.connections.upgraded', 'Connections moved from polling to WebSocket', []);
  const closed = tally(meter, 'sigfig.connections.closed', 'Connections closed', ['transport', 'cause']);
  const foreign = tally(meter, 'sigfig.connections.foreign', 'Connections with another parser than the default', []);
  const unverified = tally(meter, 'sigfig.sockets.unverified', 'Sockets whose token could not be verified', []);
  const decided = tally(meter, 'sigfig.events.decided', 'Events by the path they took, and why', [
    'event',
    'path',
    'because',
  ]);
  const refused = tally(meter, 'sigfig.events.refused', 'Refusals of the new path', ['event', 'code']);
  const transitions = tally(meter, 'sigfig.calls.transitions', "Changes of calls' states", ['from', 'to', 'because']);
  const dropped = tally(meter, 'sigfig.candidates.dropped', 'Candidates not delivered', ['why']);
  const bounds = tally(meter, 'sigfig.bounds.reached', 'Limits reached', ['what']);
  const loads = tally(meter, 'sigfig.routes.loads', 'Route tables read', ['outcome'], ['loaded', 'rejected']);
  const began = tally(meter, 'sigfig.calls.began', 'Calls that began, by path', ['path', 'because']);
  const changes = tally(
    meter,
    'sigfig.routes.changes',
    'Versions of the route table, by what made them',
    ['kind'],
    KINDS,
  );
  const logFaults = tally(meter, 'sigfig.routes.log.faults', 'Times that the log of route changes failed', []);
  const tripped = tally(
    meter,
    'sigfig.guard.tripped',
    'Times that a group crossed a limit of its guard',
    ['group'],
    groupNames,
  );
  const refusedOperators = tally(meter, 'sigfig.admin.refused', 'Requests that the admin API refused', ['error']);
  let routesVersion = 0;
  meter
    .createObservableGauge('sigfig.routes.version', { description: 'Version of the route table in force' })
    .addCallback((result) => result.observe(routesVersion));
  const errors = tally(meter, 'sigfig.internal.errors', 'Broken assumptions that were survived', ['where']);
  const legacyLost = tally(meter, 'sigfig.legacy.lost', 'Times that the legacy became unreachable', ['url']);

  const served = histogram(meter, 'signaling.served.duration', 'Serving an event, without the ticket');
  const offerAnswer = histogram(
    meter,
    'signaling.offer_answer.duration',
    'From the offer stored to the answer relayed',
  );
  const ticket = histogram(meter, 'signaling.ticket.duration', 'Learning the participants of a conversation');
  const byEvent = attributesBy('event');
  const byOutcome = attributesBy('outcome');

  const legacies = new Map<string, number>();
  meter
    .createObservableGauge('sigfig.legacy.up', { description: 'Whether the legacy is reachable: 1 or 0' })
    .addCallback((result) => {
      for (const [url, up] of legacies) result.observe(up, { url });
    });
  observeGauges(meter, gauges);

  return {
    counters,
    connectionOpened(transport) {
      live[transport]++;
      opened(transport);
    },
    connectionUpgraded() {
      live.polling--;
      live.websocket++;
      upgraded();
    },
    connectionClosed(transport, cause) {
      live[transport]--;
      closed(transport, cause);
    },
    foreignProtocol: () => foreign(),
    unverified: () => unverified(),
    decided: (event, decision) => decided(known(event), decision.path, decision.because),
    refused: (event, code) => refused(known(event), code),
    served: (event, ms) => served.record(ms / 1000, byEvent(known(event))),
    offerAnswered: (ms) => offerAnswer.record(ms / 1000),
    ticket: (outcome, ms) => ticket.record(ms / 1000, byOutcome(outcome)),
    transition: (t) => transitions(t.from, t.to, t.because),
    observed: () => undefined,
    began: ({ decision }) => began(decision.path, decision.because),
    candidateDropped: (why) => dropped(why),
    bound: (what) => bounds(what),
    routesChanged: ({ version, kind }) => {
      routesVersion = version;
      changes(kind);
    },
    routesLog: () => logFaults(),
    guardTripped: (_ns, group) => tripped(group),
    operated: () => undefined,
    operatorRefused: (error) => refusedOperators(error),
    routesLoaded: () => loads('loaded'),
    routesRejected: () => loads('rejected'),
    legacyDown(url) {
      if (legacies.get(url) !== 0) legacyLost(url);
      legacies.set(url, 0);
    },
    legacyUp: (url) => void legacies.set(url, 1),
    ...clusterMetrics(meter),
    internalError: (where) => errors(where),
  };
}

/** Names that browsers could make up must not become labels without end. */
const vocabulary = new Set(Object.values(groups).flat());
const known = (event: string): string => (vocabulary.has(event) ? event : 'other');

const KINDS: readonly Change['kind'][] = ['start', 'file', 'set', 'apply', 'rollback', 'legacy', 'guard'];

function observeGauges(meter: Meter, gauges: Gauges): void {
  const { callsByState, guard, sizes, cluster } = gauges;
  if (cluster) observeCluster(meter, cluster);
  if (callsByState) {
    meter
      .createObservableGauge('sigfig.calls', { description: 'Live calls of the new path' })
      .addCallback(async (result) => {
        const counts = await inTime(async () => callsByState());
        for (const [state, count] of Object.entries(counts ?? {})) result.observe(count, { state });
      });
  }
  if (guard) {
    meter
      .createObservableGauge('sigfig.guard.state', { description: "The guard's state of a group of events: 1 or 0" })
      .addCallback((result) => {
        const watched = [...guard()].filter(({ state }) => state !== 'off');
        for (const { ns, group, state } of watched.slice(0, MOST_SERIES / GUARD_STATES.length)) {
          for (const one of GUARD_STATES) result.observe(state === one ? 1 : 0, { ns, group, state: one });
        }
      });
  }
  if (sizes) {
    meter
      .createObservableGauge('sigfig.held', { description: 'Entries of what is bounded in memory' })
      .addCallback((result) => {
        for (const [what, size] of Object.entries(sizes)) result.observe(size(), { what });
      });
  }
}

const GUARD_STATES = ['inconclusive', 'well', 'tripped'];

/** The answer, or undefined after 1 s: a slow store must not hang a scrape. */
async function inTime<T>(ask: () => Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, 1_000, undefined);
    timer.unref();
  });
  try {
    return await Promise.race([ask(), late]);
  } finally {
    clearTimeout(timer);
  }
}

function observeProcess(meter: Meter, version: string): () => void {
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  meter.createObservableGauge('sigfig.build', { description: 'Always 1' }).addCallback((result) => {
    result.observe(1, { version, node: process.versions.node });
  });
  meter.createObservableGauge('process.uptime', { unit: 's', description: 'Seconds' }).addCallback((result) => {
    result.observe(process.uptime());
  });
  meter.createObservableCounter('process.cpu.time', { unit: 's', description: 'Seconds' }).addCallback((result) => {
    const { user, system } = process.cpuUsage();
    result.observe(user / 1e6, { mode: 'user' });
    result.observe(system / 1e6, { mode: 'system' });
  });
  meter.createObservableGauge('process.memory', { unit: 'By', description: 'Bytes' }).addCallback((result) => {
    const { rss, heapUsed, external } = process.memoryUsage();
    result.observe(rss, { kind: 'rss' });
    result.observe(heapUsed, { kind: 'heap-used' });
    result.observe(external, { kind: 'external' });
  });
  meter
    .createObservableGauge('process.eventloop.delay', { unit: 's', description: 'Since the last scrape, seconds' })
    .addCallback((result) => {
      // Nothing was sampled yet: the figures are NaN.
      if (delay.count > 0) {
        result.observe(delay.percentile(50) / 1e9, { stat: 'p50' });
        result.observe(delay.percentile(99) / 1e9, { stat: 'p99' });
        result.observe(delay.max / 1e9, { stat: 'max' });
        delay.reset();
      }
    });
  return () => delay.disable();
}
