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
  const metered = meteredSignals(meter, gauges);
  const logged = loggedSignals(logger);
  return {
    counters: metered.counters,
    connectionOpened(transport) {
      metered.connectionOpened(transport);
      logged.connectionOpened(transport);
    },
    connectionUpgraded() {
      metered.connectionUpgraded();
      logged.connectionUpgraded();
    },
    connectionClosed(transport, cause) {
      metered.connectionClosed(transport, cause);
      logged.connectionClosed(transport, cause);
    },
    foreignProtocol(connection) {
      metered.foreignProtocol(connection);
      logged.foreignProtocol(connection);
    },
    unverified(connection, why) {
      metered.unverified(connection, why);
      logged.unverified(connection, why);
    },
    decided(event, decision) {
      metered.decided(event, decision);
      logged.decided(event, decision);
    },
    refused(event, code) {
      metered.refused(event, code);
      logged.refused(event, code);
    },
    served(event, ms) {
      metered.served(event, ms);
      logged.served(event, ms);
    },
    offerAnswered(ms) {
      metered.offerAnswered(ms);
      logged.offerAnswered(ms);
    },
    ticket(outcome, ms) {
      metered.ticket(outcome, ms);
      logged.ticket(outcome, ms);
    },
    transition(t) {
      metered.transition(t);
      logged.transition(t);
    },
    candidateDropped(why) {
      metered.candidateDropped(why);
      logged.candidateDropped(why);
    },
    bound(what, detail) {
      metered.bound(what, detail);
      logged.bound(what, detail);
    },
    routesLoaded(file, summary) {
      metered.routesLoaded(file, summary);
      logged.routesLoaded(file, summary);
    },
    routesRejected(file, problems) {
      metered.routesRejected(file, problems);
      logged.routesRejected(file, problems);
    },
    legacyDown(url, why) {
      metered.legacyDown(url, why);
      logged.legacyDown(url, why);
    },
    legacyUp(url) {
      metered.legacyUp(url);
      logged.legacyUp(url);
    },
    internalError(where, error) {
      metered.internalError(where, error);
      logged.internalError(where, error);
    },
  };
}
