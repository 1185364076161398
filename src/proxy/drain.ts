// How this instance is emptied: not ready, then no new connections, then the live ones are closed a few at a time; and how that is
// taken back. Knows nothing of calls: whoever must prepare for a connection's closing is told before it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Signals } from '../telemetry/signals.js';
import type { Closing, Listener } from './listener.js';

/** Milliseconds: a connection whose opening was under way is closed within this. */
const LOOK_AGAIN = 1_000;

export interface DrainOptions {
  readonly listener: Pick<Listener, 'refuseNew' | 'closeConnections' | 'open'>;
  /** From not ready to the first refusal, in which balancers learn of it; milliseconds. */
  readonly delayMs: number;
  /** How long live connections are closed over; milliseconds. */
  readonly overMs: number;
  readonly before?: Closing['before'];
  /** It begins, or was taken back: whoever shows it may tell the others. */
  readonly changed?: () => void;
  readonly signals: Pick<Signals, 'drained' | 'internalError'>;
}

export interface DrainState {
  readonly draining: boolean;
  /** Open connections. */
  readonly left: number;
}

export class Drain {
  readonly #options: DrainOptions;
  #running: { readonly stop: AbortController; readonly emptied: Promise<void> } | undefined;
  #final = false;

  constructor(options: DrainOptions) {
    this.#options = options;
  }

  /** Goes on where it has begun already. */
  begin(): void {
    if (this.#running) return;
    const { signals, listener, changed } = this.#options;
    const stop = new AbortController();
    this.#running = { stop, emptied: this.#run(stop.signal) };
    signals.drained('begun', listener.open);
    changed?.();
  }

  /** Ready again, and no more connections are closed. Does nothing where the process is about to end. */
  cancel(): void {
    if (!this.#running || this.#final) return;
    this.#running.stop.abort();
    this.#running = undefined;
    const { signals, listener, changed } = this.#options;
    listener.refuseNew(false);
    signals.drained('cancelled', listener.open);
    changed?.();
  }

  /** The process ends: begins where that has not been done, resolves once no connection is left, and can't be taken back. */
  async finish(): Promise<void> {
    this.#final = true;
    this.begin();
    await this.#running?.emptied;
    this.#running?.stop.abort();
  }

  state(): DrainState {
    return { draining: this.#running !== undefined, left: this.#options.listener.open };
  }

  /** Resolves once the instance was empty for the first time. */
  #run(signal: AbortSignal): Promise<void> {
    const { listener, delayMs, overMs, before, signals } = this.#options;
    const pause = (ms: number) =>
      sleep(ms, undefined, { signal, ref: false }).catch((error: unknown) => {
        if (!signal.aborted) throw error;
      });
    const closing = { signal, ...(before ? { before } : {}) };
    const failed = (error: unknown): void => signals.internalError('drain', error);
    const empty = async (): Promise<void> => {
      await pause(delayMs);
      if (signal.aborted) return;
      await listener.closeConnections(overMs, closing);
      if (!signal.aborted) signals.drained('done', listener.open);
    };
    const stayEmpty = async (): Promise<void> => {
      for (;;) {
        await pause(LOOK_AGAIN);
        if (signal.aborted) return;
        if (listener.open > 0) await listener.closeConnections(0, closing);
      }
    };
    const emptied = empty().catch(failed);
    emptied.then(stayEmpty).catch(failed);
    return emptied;
  }
}
