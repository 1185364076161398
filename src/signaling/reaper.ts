// The sweep that ends what nobody came back to: a call in AWAITING_REJOIN after the rejoin timeout, a session that nothing
// ended after 6 hours. Knows no sockets; what a sweep does to a call is a step like any other.
import type { Clock, Timer } from '../base/clock.js';
import type { SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import type { Signaling } from './signaling.js';

export interface ReaperDeps {
  readonly signaling: Signaling;
  readonly store: SessionStore;
  readonly clock: Clock;
  readonly signals: Signals;
  /** Milliseconds. */
  readonly interval: number;
  readonly rejoinTimeout: number;
}

const maxAge = 6 * 3_600_000;

/** Sweeps every `interval`, one sweep at a time, until closed. */
export function startReaper(deps: ReaperDeps): { close(): void; sweep(): Promise<void> } {
  let timer: Timer | undefined;
  let closed = false;
  const { signaling, store, clock, signals, interval, rejoinTimeout } = deps;

  async function sweep(): Promise<void> {
    signaling.sweep();
    for await (const session of store.all()) {
      const age = clock.now() - session.since;
      // A call that waits for both goes on waiting while its rejoin is offered.
      const waits = session.state === 'AWAITING_REJOIN' || session.waitsForBoth;
      if (age <= (waits ? rejoinTimeout : maxAge)) continue;
      await signaling.calls.apply(session, (now) => now && { type: 'sweep', rejoinTimeout, maxAge });
    }
  }

  function arm(): void {
    if (closed) return;
    timer = clock.after(interval, () => {
      sweep()
        .catch((error) => signals.internalError('reaper', error))
        .finally(arm);
    });
  }

  arm();
  return {
    sweep,
    close() {
      closed = true;
      timer?.cancel();
    },
  };
}
