// What was forwarded to the legacy about one call and what became of it: an event's own relays wait for its outcome, and
// what the legacy delivers is traced back to the socket that asked for it. Knows no sessions and no candidates.
import { createHash } from 'node:crypto';
import type { Clock, Timer } from '../base/clock.js';
import { type SocketRef, sameSocket, type UserId } from '../base/ids.js';
import type { InboundEvent, Peer } from '../base/service.js';
import { isTooDeep } from '../protocol/socketio.js';
import type { Group } from '../routing/route.js';
import type { CommandName } from './commands.js';

export type AskedName = Extract<CommandName, 'call-offer' | 'call-answer' | 'call-rejoin-offer' | 'call-rejoin-answer'>;

const names: readonly string[] = ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer'];
export const isAsked = (name: string): name is AskedName => names.includes(name);

/** Which relays of a call are served here if the legacy accepts its offer, by the table that is in force when that is forwarded. */
export interface WantedRelays {
  readonly groups: readonly Group[];
  /** Not for a call in which this user is rung. */
  excludes(group: Group, callee: UserId): boolean;
}

/** One forwarded event. */
export interface Asked {
  readonly event: AskedName;
  readonly peer: Peer;
  /** Digest of its description. */
  readonly description: string;
  /** Relays of its socket wait behind it until its outcome and its acknowledgement have passed, or it is late. */
  readonly settled: Gate;
  /** Its sender is a user to whom the legacy delivered the offer that it answers. */
  readonly mayMerge: boolean;
  /** Of an offer. */
  readonly wanted: WantedRelays | null;
  /** Its outcome is known, or does not matter any more. */
  done: boolean;
  /** Its acknowledgement: not asked for, not here yet, kept back, gone on. */
  ack: 'none' | 'due' | 'held' | 'passed';
  /** Lets the acknowledgement go that is kept back, with these candidates. */
  letGo(candidates: readonly unknown[] | null): void;
}

/** Something that others wait for, but not for ever. */
export interface Gate {
  readonly opened: Promise<void>;
  /** It opened because its time was over. */
  readonly late: boolean;
  open(): void;
  /** Its time is over in `ms`, where that is sooner. */
  soon(ms: number): void;
}

export function gate(clock: Clock, ms: number, onLate: () => void = () => undefined): Gate {
  let resolve!: () => void;
  let late = false;
  const opened = new Promise<void>((done) => (resolve = done));
  let open = false;
  const end = (): void => {
    open = true;
    resolve();
  };
  const expire = (): void => {
    late = true;
    onLate();
    end();
  };
  const until = clock.now() + ms;
  let timer: Timer = clock.after(ms, expire);
  return {
    opened,
    get late() {
      return late;
    },
    open() {
      timer.cancel();
      end();
    },
    soon(sooner) {
      if (open || clock.now() + sooner >= until) return;
      timer.cancel();
      timer = clock.after(sooner, expire);
    },
  };
}

/**
 * Milliseconds that relays wait for the outcome of what their socket sent before them: the legacy's lookup takes up to 150 ms
 * under load, and a polling party fetches what it is sent a round trip later.
 */
export const mostOutcomeMs = 2_000;
/** Of one call: a few devices, each trying a few times. The oldest is forgotten, so that at worst its call stays at the legacy. */
const mostAsked = 16;

export class AskedEvents {
  #all: Asked[] = [];
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(event: InboundEvent, description: unknown, mayMerge: boolean, wanted: WantedRelays | null): Asked {
    const asked: Asked = {
      event: event.name as AskedName,
      peer: event.peer,
      description: digestOf(description),
      settled: gate(this.#clock, mostOutcomeMs),
      mayMerge,
      wanted,
      done: false,
      ack: event.ackRequested ? 'due' : 'none',
      letGo: () => undefined,
    };
    this.#all.push(asked);
    if (this.#all.length > mostAsked) this.forget(this.#all[0] as Asked);
    return asked;
  }

  /** The oldest one of this socket that has not settled. Its gate is closed, or opened because it is late. */
  unsettled(ref: SocketRef): Asked | undefined {
    return this.#all.find((a) => sameSocket(a.peer.ref, ref));
  }

  /** Its outcome is known. */
  done(asked: Asked): void {
    asked.done = true;
    if (asked.ack === 'held') asked.letGo(null);
    if (asked.ack !== 'due') this.forget(asked);
  }

  /** Its acknowledgement passes. */
  acknowledged(asked: Asked): void {
    asked.ack = 'passed';
    if (asked.done) this.forget(asked);
  }

  forget(asked: Asked): void {
    asked.done = true;
    this.#all = this.#all.filter((a) => a !== asked);
    asked.settled.open();
    asked.letGo(null);
  }

  /**
   * An `error` for this event passes to this socket. It comes before its acknowledgement, so one that was acknowledged
   * already is meant only where there is no other.
   */
  refused(event: string, ref: SocketRef, message: string): void {
    // What is malformed was never noted here.
    if (message.startsWith('Malformed ')) return;
    const own = this.#all.filter((a) => a.event === event && !a.done && sameSocket(a.peer.ref, ref));
    const asked = own.find(({ ack }) => ack === 'none' || ack === 'due') ?? own[0];
    if (asked) this.done(asked);
  }

  /** Its socket is gone: no acknowledgement will pass, but what it asked for may still come true. */
  gone(ref: SocketRef): void {
    for (const asked of this.#all.filter((a) => sameSocket(a.peer.ref, ref))) {
      asked.letGo(null);
      this.acknowledged(asked);
    }
  }

  /** Those whose acknowledgements are kept back. */
  held(): readonly Asked[] {
    return this.#all.filter((a) => a.ack === 'held');
  }

  any(event: AskedName, of: (peer: Peer) => boolean): boolean {
    return this.#all.some((a) => a.event === event && !a.done && of(a.peer));
  }

  /** Another device of that user has answered. */
  answeredElsewhere(ref: SocketRef): void {
    for (const asked of this.#all.filter((a) => a.event === 'call-answer' && sameSocket(a.peer.ref, ref))) {
      this.done(asked);
    }
  }

  /**
   * Who can have asked for what the legacy delivers in the name of `user` (its own word for whom): the oldest event of each
   * socket. Where descriptions tell them apart, they do. Sockets of unknown users may be anybody's.
   */
  behind(event: string, user: unknown, description: unknown): readonly Asked[] {
    const possible = this.#all.filter(
      (a) => a.event === event && !a.done && (a.peer.user === user || a.peer.user === undefined),
    );
    const digest = digestOf(description);
    const same = possible.filter((a) => a.description === digest);
    const all = same.length > 0 ? same : possible;
    return all.filter((a, i) => all.findIndex((b) => sameSocket(b.peer.ref, a.peer.ref)) === i);
  }

  clear(): void {
    for (const asked of [...this.#all]) this.forget(asked);
  }
}

/** A description is compared, never kept. */
export function digestOf(description: unknown): string {
  if (isTooDeep(description)) return '';
  return createHash('sha1')
    .update(JSON.stringify(description) ?? '')
    .digest('base64');
}
