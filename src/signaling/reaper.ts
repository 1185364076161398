// The sweep that ends what nobody came back to: a call in AWAITING_REJOIN after the rejoin timeout, a seat that was held for a browser
// on the move, a session that nothing ended after 6 hours. Of many instances one does it. Knows no sockets; what a sweep does
// to a call is a step like any other.
import type { Clock, Timer } from '../base/clock.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallEvent, CallKey, Session, Step } from '../call/session.js';
import { opposite } from '../call/transitions.js';
import type { Cluster } from '../cluster/cluster.js';
import type { DueAt, SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import type { Make } from './calls.js';

export interface ReaperDeps {
  readonly signaling: {
    readonly calls: { apply(key: CallKey, make: Make): Promise<Step | null> };
    /** Forgets what is too old to matter on this instance. */
    sweep(): void;
  };
  readonly store: SessionStore;
  readonly cluster: Pick<Cluster, 'liveness' | 'presence'>;
  readonly clock: Clock;
  readonly signals: Pick<Signals, 'internalError'>;
  /** How often what this instance keeps is swept; milliseconds. */
  readonly interval: number;
  /** How often calls are looked for whose time has come; milliseconds. */
  readonly callsEvery: number;
  readonly rejoinTimeout: number;
}

export interface Reaper {
  close(): void;
  /** Ends the calls whose time has come, where this instance is the one that does. */
  sweep(): Promise<void>;
}

const maxAge = 6 * 3_600_000;
const roles = ['offerer', 'answerer'] as const;
/** Both seats may have been held, and the wait for both of them be over. */
const mostSteps = 3;
/** Calls that are ended together: thousands whose time comes at once are over in seconds, and go out in no burst. */
const atOnce = 64;

/** When a call must be looked at again, whatever its users do; for the store's index. */
export const dueAt =
  (rejoinTimeout: number): DueAt =>
  (session) => {
    // A call that waits for both goes on waiting while its rejoin is offered.
    const waits = session.state === 'AWAITING_REJOIN' || session.waitsForBoth;
    const over = session.since + (waits ? rejoinTimeout : maxAge);
    return Math.min(over, session.held?.offerer ?? over, session.held?.answerer ?? over);
  };

/** Until closed; one sweep at a time. */
export function startReaper(deps: ReaperDeps): Reaper {
  const { signaling, store, cluster, clock, signals, interval, callsEvery, rejoinTimeout } = deps;
  const due = dueAt(rejoinTimeout);
  let closed = false;
  const timers = new Set<Timer>();

  async function sweep(): Promise<void> {
    if (!cluster.liveness.leads()) return;
    let away = false;
    const reapOne = (key: CallKey): Promise<void> =>
      reap(key).catch((error: unknown) => {
        if (error instanceof Unavailable) away = true;
        // One call that can't be ended keeps none of the others alive.
        else signals.internalError('reaper', error);
      });
    try {
      let some: Promise<void>[] = [];
      for await (const key of store.due(clock.now())) {
        if (some.push(reapOne(key)) < atOnce) continue;
        await Promise.all(some);
        some = [];
        if (away || closed || !cluster.liveness.leads()) return;
      }
      await Promise.all(some);
    } catch (error) {
      // Whoever leads when Redis is back takes it up.
      if (!(error instanceof Unavailable)) throw error;
    }
  }

  async function reap(key: CallKey): Promise<void> {
    for (let steps = 0; steps < mostSteps; steps++) {
      const step = await signaling.calls.apply(key, (now) => (now && due(now) <= clock.now() ? ending(now) : null));
      if (!step?.session) return;
    }
  }

  function ending(session: Session): CallEvent | Promise<CallEvent> {
    const role = roles.find((one) => (session.held?.[one] ?? Number.POSITIVE_INFINITY) <= clock.now());
    if (role === undefined) return { type: 'sweep', rejoinTimeout, maxAge };
    const other = opposite(role);
    const seat = session.seats[other];
    const over = (otherPresent: boolean): CallEvent => ({ type: 'hold-over', role, otherPresent });
    const there = seat !== null && cluster.presence.isConnected(seat, session.users[other]);
    return there instanceof Promise ? there.then(over) : over(there);
  }

  function every(ms: number, work: () => void | Promise<void>): void {
    const again = (): void => {
      if (closed) return;
      const timer = clock.after(ms, () => {
        timers.delete(timer);
        Promise.resolve()
          .then(work)
          .catch((error: unknown) => signals.internalError('reaper', error))
          .finally(again);
      });
      timers.add(timer);
    };
    again();
  }

  every(interval, () => signaling.sweep());
  every(callsEvery, sweep);
  return {
    sweep,
    close() {
      closed = true;
      for (const timer of timers) timer.cancel();
    },
  };
}
