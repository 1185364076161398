// The vocabulary of what sigfig tells operators: one method for each thing that can happen, typed so that a token, an
// SDP or a candidate can't get in. Knows nothing of how it is shown; `log.ts` and `metrics.ts` implement it.
import type { Decision, DropCause } from '../base/service.js';
import type { CallKey, State } from '../call/session.js';

export type TransportKind = 'websocket' | 'polling';
/** `cached`, `own` (the client brought it) and `granted` lead to participants; the others don't. */
export type TicketOutcome = 'cached' | 'own' | 'granted' | 'not-participant' | 'token-expired' | 'unavailable';

/** Null where it is not known. */
export interface Parties {
  readonly offerer: string | null;
  readonly answerer: string | null;
}

export interface Transition extends CallKey {
  readonly callId: string;
  /** For operators who look at one call; not logged. */
  readonly users?: Parties;
  /** IDLE before the first offer, ENDED after the end. */
  readonly from: State | 'IDLE';
  readonly to: State | 'ENDED';
  readonly because: string;
  readonly event: string;
}

export interface Began extends CallKey {
  readonly callId: string;
  readonly decision: Decision;
}

/** Whose event it was, for who must tell one browser's trouble from the path's. Neither logged nor a label. */
export interface Whose {
  /** Of a browser whose token we could not verify: its connection. */
  readonly user: string;
  readonly conversationId: string | undefined;
}

export interface RoutesChanged {
  readonly version: number;
  readonly kind: string;
  readonly actor: string;
  readonly reason: string;
  readonly summary: string;
}

export interface Operated {
  readonly actor: string;
  readonly via: string;
  readonly did: string;
  readonly reason: string;
}

/** Plain counters that the hot path increments; metrics read them when scraped. */
export interface Counters {
  /** Socket.IO or Engine.IO packets passed on unchanged, browser → legacy. */
  forwardedUp: number;
  /** The same, legacy → browser. */
  forwardedDown: number;
}

export interface Signals {
  readonly counters: Counters;
  connectionOpened(transport: TransportKind): void;
  connectionUpgraded(): void;
  connectionClosed(transport: TransportKind, cause: DropCause): void;
  /** A connection speaks no default Socket.IO parser; all its events go to the legacy. */
  foreignProtocol(connection: number): void;
  /** The legacy accepted a socket whose token we could not verify; all its events go to the legacy. `why`: never the token. */
  unverified(connection: number, why: string): void;
  /** Where an event of the table went, and why; once for each event, whatever became of it. */
  decided(event: string, decision: Decision, ns: string, whose?: Whose): void;
  refused(event: string, code: string, ns: string, whose?: Whose): void;
  /** From taking the event to its acknowledgement and deliveries, without the ticket; milliseconds. */
  served(event: string, ms: number, ns: string, whose?: Whose): void;
  /** From the offer stored to the answer relayed; milliseconds. */
  offerAnswered(ms: number): void;
  /** `why`: where the outcome is `unavailable`, what was wrong with the answer; never a token. */
  ticket(outcome: TicketOutcome, ms: number, why?: string): void;
  transition(t: Transition): void;
  /** A call of the legacy's was seen to change its state, for its timeline; `transition` is about ours. */
  observed(t: Transition): void;
  /** A call begins on a path: `call-offer` accepted here, or forwarded. */
  began(call: Began): void;
  candidateDropped(why: string): void;
  /** A bound was reached and the named thing happened: `inject-overflow`, `held-overflow`, … */
  bound(what: string, detail: Readonly<Record<string, string | number>>): void;
  /** A table is in force, as a version of its own. */
  routesChanged(change: RoutesChanged): void;
  /** The log of route changes can't be written, or could not be read to its end: one clear line. */
  routesLog(problem: string): void;
  /**
   * A group crossed a limit of its guard; the figures are in the words of `reason`. `flipped`: it went back to the legacy;
   * a `sole` group can't.
   */
  guardTripped(ns: string, group: string, reason: string, flipped: boolean): void;
  /** An operator did something at the admin API: `did` in a few words, the reason as it was given. */
  operated(act: Operated): void;
  /** The admin API refused somebody: one word of its catalogue, and what was wrong; never a token. */
  operatorRefused(error: string, why: string): void;
  /** The routes file was read; `changed`: it became a version, told by `routesChanged`. Otherwise its table was in force already. */
  routesLoaded(file: string, summary: string, changed: boolean): void;
  /** One clear line each; the table in force stays. */
  routesRejected(file: string, problems: readonly string[]): void;
  legacyDown(url: string, why: string): void;
  legacyUp(url: string): void;
  /** What instances share can be reached, or can't any more: events that the new path serves are refused meanwhile. */
  redis(well: boolean, why: string): void;
  /** Another instance died and this one has handled what it held; `calls`: how many, `ms`: how long that took. */
  instanceDied(id: string, calls: number, ms: number): void;
  /** This instance found that it was declared dead; `sockets`: closed, since they held a seat. */
  fenced(was: string, now: string, sockets: number): void;
  /** This machine's clock is over 2 s `apart` from Redis's, or is not any more; `ahead` of it by so many milliseconds, negative: behind. */
  clock(ahead: number, apart: boolean): void;
  /** What stands under a key of Redis can't be understood; its call is ended. Never what stands there. */
  unreadable(key: string, why: string): void;
  /** A drain of this instance begins, was taken back, or is over. */
  drained(what: 'begun' | 'cancelled' | 'done', connections: number): void;
  /** A message went to another instance, or came from one: `topic`, and its bytes. On the path of each event between two instances. */
  message(way: 'out' | 'in', topic: string, bytes: number): void;
  /** A round trip to Redis, by the name of its script or command; milliseconds. */
  roundTrip(name: string, ms: number): void;
  /**
   * A broken assumption that was survived. The error's message may be shown; payloads never. `about`: the event that the
   * new path could not serve for it.
   */
  internalError(
    where: string,
    error: unknown,
    about?: { readonly event: string; readonly ns: string; readonly whose: Whose },
  ): void;
}

/** For tests: keeps what was signalled, by method name. */
export function recordedSignals(): Signals & {
  readonly events: { readonly what: string; readonly args: readonly unknown[] }[];
} {
  const events: { what: string; args: unknown[] }[] = [];
  const note =
    (what: string) =>
    (...args: unknown[]) => {
      events.push({ what, args });
    };
  return {
    events,
    counters: { forwardedUp: 0, forwardedDown: 0 },
    connectionOpened: note('connectionOpened'),
    connectionUpgraded: note('connectionUpgraded'),
    connectionClosed: note('connectionClosed'),
    foreignProtocol: note('foreignProtocol'),
    unverified: note('unverified'),
    decided: note('decided'),
    refused: note('refused'),
    served: note('served'),
    offerAnswered: note('offerAnswered'),
    ticket: note('ticket'),
    transition: note('transition'),
    observed: note('observed'),
    began: note('began'),
    candidateDropped: note('candidateDropped'),
    bound: note('bound'),
    routesChanged: note('routesChanged'),
    routesLog: note('routesLog'),
    guardTripped: note('guardTripped'),
    operated: note('operated'),
    operatorRefused: note('operatorRefused'),
    routesLoaded: note('routesLoaded'),
    routesRejected: note('routesRejected'),
    legacyDown: note('legacyDown'),
    legacyUp: note('legacyUp'),
    redis: note('redis'),
    instanceDied: note('instanceDied'),
    fenced: note('fenced'),
    clock: note('clock'),
    unreadable: note('unreadable'),
    drained: note('drained'),
    message: note('message'),
    roundTrip: note('roundTrip'),
    internalError: note('internalError'),
  };
}
