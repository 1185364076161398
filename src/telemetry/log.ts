// The vocabulary as log lines on stderr: JSON for machines, pretty on a terminal. Knows nothing of metrics, and gets
// no tokens, SDP or candidates from the vocabulary; the redaction is a second belt.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import pretty from 'pino-pretty';
import type { Signals } from './signals.js';

export type { Logger };

export interface LoggerOptions {
  readonly level: string;
  /** A stream with `isTTY`; stderr unless a test says otherwise. */
  readonly stream?: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

const SECRETS = ['token', 'ticket', 'authorization', 'cookie', 'offer', 'answer', 'iceCandidate', 'auth', 'sdp'];

export function createLogger({ level, stream = process.stderr }: LoggerOptions): Logger {
  const destination: DestinationStream = stream.isTTY
    ? pretty({ colorize: true, destination: stream, ignore: 'pid,hostname' })
    : { write: (line) => void stream.write(line) };
  return pino(
    {
      level,
      base: { name: 'sigfig' },
      timestamp: stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: SECRETS.flatMap((name) => [name, `*.${name}`]), censor: '[redacted]' },
    },
    destination,
  );
}

/** The half of the signals that is written down. Its `counters` count nothing. */
export function loggedSignals(log: Logger): Signals {
  return {
    counters: { forwardedUp: 0, forwardedDown: 0 },
    connectionOpened: (transport) => log.debug({ transport }, 'connection opened'),
    connectionUpgraded: () => log.debug('connection upgraded to websocket'),
    connectionClosed: (transport, cause) => log.debug({ transport, cause }, 'connection closed'),
    foreignProtocol: (connection) =>
      log.info({ connection }, 'connection speaks another parser; its events go to the legacy'),
    unverified: (connection, why) =>
      log.info({ connection, why }, 'token could not be verified; the events of this socket go to the legacy'),
    decided: (event, { path, because }) => log.debug({ event, path, because }, 'decided'),
    refused: (event, code) => log.debug({ event, code }, 'refused'),
    served: (event, ms) => log.trace({ event, ms }, 'served'),
    offerAnswered: (ms) => log.debug({ ms }, 'offer answered'),
    ticket: (outcome, ms) => {
      if (outcome === 'unavailable') log.warn({ outcome, ms }, 'participants could not be learnt from the legacy');
      else log.debug({ outcome, ms }, 'participants learnt');
    },
    transition: ({ ns, conversationId, callId, from, to, because, event }) =>
      log.info({ callId, ns, conversationId, from, to, because, event }, 'call'),
    candidateDropped: (why) => log.debug({ why }, 'candidate dropped'),
    bound: (what, detail) => log.warn({ what, ...detail }, 'limit reached'),
    routesLoaded: (file, summary) => log.info({ file, summary }, 'routes in force'),
    routesRejected: (file, problems) => {
      for (const problem of problems) log.error({ file }, `routes not taken over: ${problem}`);
    },
    legacyDown: (url, why) => log.error({ url, why }, 'legacy is unreachable'),
    legacyUp: (url) => log.info({ url }, 'legacy is reachable'),
    internalError: (where, error) => log.error({ where, err: error }, 'internal error'),
  };
}
