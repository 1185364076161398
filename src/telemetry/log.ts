// The vocabulary as log lines on stderr: JSON for machines, pretty on a terminal. Knows nothing of metrics, and gets
// no tokens, SDP or candidates from the vocabulary; the redaction is a second belt.
import { type DestinationStream, type Logger, pino, stdTimeFunctions } from 'pino';
import { prettyFactory } from 'pino-pretty';
import { type Clock, systemClock } from '../base/clock.js';
import type { Signals } from './signals.js';

export type { Logger };

export interface LoggerOptions {
  readonly level: string;
  /** A stream with `isTTY`; stderr unless a test says otherwise. */
  readonly stream?: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

const SECRETS = ['token', 'ticket', 'authorization', 'cookie', 'offer', 'answer', 'iceCandidate', 'auth', 'sdp'];

export function createLogger({ level, stream = process.stderr }: LoggerOptions): Logger {
  // Both write at once, so that the last line before an exit is not lost.
  const shown = stream.isTTY ? prettyFactory({ colorize: true, ignore: 'pid,hostname' }) : (line: string) => line;
  const destination: DestinationStream = { write: (line) => void stream.write(shown(line)) };
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

/**
 * The half of the signals that is written down; what is likely to come in floods at most once in 10 s for each cause.
 * Its `counters` count nothing.
 */
export function loggedSignals(log: Logger, clock: Pick<Clock, 'now'> = systemClock): Signals {
  const seldom = spaced(clock);
  return {
    counters: { forwardedUp: 0, forwardedDown: 0 },
    connectionOpened: (transport) => log.debug({ transport }, 'connection opened'),
    connectionUpgraded: () => log.debug('connection upgraded to websocket'),
    connectionClosed: (transport, cause) => log.debug({ transport, cause }, 'connection closed'),
    foreignProtocol: (connection) =>
      seldom('foreign', (more) =>
        log.info({ connection, ...more }, 'connection speaks another parser; its events go to the legacy'),
      ),
    unverified: (connection, why) =>
      seldom(`unverified ${why}`, (more) =>
        log.warn({ connection, why, ...more }, 'token could not be verified; events of this socket go to the legacy'),
      ),
    decided: (event, { path, because }) => log.debug({ event, path, because }, 'decided'),
    refused: (event, code) => log.debug({ event, code }, 'refused'),
    served: (event, ms) => log.trace({ event, ms }, 'served'),
    offerAnswered: (ms) => log.debug({ ms }, 'offer answered'),
    ticket: (outcome, ms, why) => {
      if (outcome !== 'unavailable') log.debug({ outcome, ms }, 'participants learnt');
      else
        seldom(`ticket ${why}`, (more) =>
          log.warn({ outcome, ms, why, ...more }, 'the participants could not be learnt from the legacy'),
        );
    },
    transition: ({ ns, conversationId, callId, from, to, because, event }) =>
      log.info({ callId, ns, conversationId, from, to, because, event }, 'call'),
    observed: ({ ns, conversationId, callId, from, to, because, event }) =>
      log.debug({ callId, ns, conversationId, from, to, because, event }, "call of the legacy's"),
    began: ({ ns, conversationId, callId, decision }) =>
      log.debug({ callId, ns, conversationId, ...decision }, 'call begins'),
    candidateDropped: (why) => {
      if (harmless.has(why)) log.debug({ why }, 'candidate dropped');
      else seldom(`candidate ${why}`, (more) => log.warn({ why, ...more }, 'candidate dropped'));
    },
    bound: (what, detail) => seldom(`bound ${what}`, (more) => log.warn({ what, ...detail, ...more }, 'limit reached')),
    routesChanged: (change) => log.info(change, 'routes in force'),
    routesLog: (problem) => seldom(`routes log ${problem}`, (more) => log.error({ problem, ...more }, 'routes log')),
    guardTripped: (ns, group, reason, flipped) =>
      log.error(
        { ns, group, reason },
        flipped ? 'guard tripped: back to the legacy' : 'guard tripped: no legacy is left',
      ),
    operated: (act) => log.info(act, 'operator'),
    operatorRefused: (error, why) =>
      seldom(`operator ${error}`, (more) => log.warn({ error, why, ...more }, 'admin API refused a request')),
    routesLoaded: (file, summary, changed) => {
      if (changed) log.debug({ file }, 'routes file read');
      else
        log.info({ file, summary }, 'the routes file changes nothing, its table is what is in force: routes in force');
    },
    routesRejected: (file, problems) => {
      for (const problem of problems) log.error({ file }, `routes not taken over: ${problem}`);
    },
    legacyDown: (url, why) => log.error({ url, why }, 'legacy is unreachable'),
    legacyUp: (url) => log.info({ url }, 'legacy is reachable'),
    redis: (well, why) => {
      if (well) log.info({ why }, 'Redis is reachable');
      else log.error({ why }, 'Redis is away; what the new path serves is refused until it is back');
    },
    instanceDied: (id, calls, ms) => log.warn({ id, calls, ms }, 'an instance died; its calls were taken over'),
    fenced: (was, now, sockets) =>
      log.error({ was, now, sockets }, 'this instance was declared dead and goes on as a new one'),
    clock: (ahead, apart) => {
      if (apart)
        log.warn(
          { ahead },
          "this machine's clock and Redis's are over 2 s apart: tickets and the log go by this machine's; set it by NTP",
        );
      else log.info({ ahead }, "this machine's clock is with Redis's again");
    },
    unreadable: (key, why) =>
      seldom(`unreadable ${key}`, (more) =>
        log.error(
          { key, why, ...more },
          'what Redis holds under this key can not be understood: a call that it is about is ended, all else is written again',
        ),
      ),
    drained: (what, connections) => log.info({ connections }, `drain ${what}`),
    message: () => undefined,
    roundTrip: () => undefined,
    internalError: (where, error) =>
      seldom(`internal ${where}`, (more) => log.error({ where, err: error, ...more }, 'internal error')),
  };
}

/** Candidates that trail a call in passing; all other drops are limits. */
const harmless: ReadonlySet<string> = new Set(['awaiting-rejoin', 'no-call']);

const SPACING_MS = 10_000;
/** Causes remembered; a flood of different ones is not spaced but starts the memory anew. */
const MOST_CAUSES = 256;

/** Runs `write` unless it ran for this cause within the last 10 s; the next one tells how many were `suppressed`. */
function spaced(clock: Pick<Clock, 'now'>) {
  const causes = new Map<string, { since: number; suppressed: number }>();
  return (cause: string, write: (more: { suppressed?: number }) => void): void => {
    const now = clock.now();
    const last = causes.get(cause);
    if (last && now - last.since < SPACING_MS) {
      last.suppressed++;
      return;
    }
    if (causes.size >= MOST_CAUSES) causes.clear();
    causes.set(cause, { since: now, suppressed: 0 });
    write(last && last.suppressed > 0 ? { suppressed: last.suppressed } : {});
  };
}
