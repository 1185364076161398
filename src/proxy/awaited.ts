// Acknowledgements of the legacy's that a service wants to see before the browser gets them: which ones a connection
// waits for, and the one that is held back. Knows nothing of transports, nor of what is acknowledged.
import type { Clock } from '../base/clock.js';
import { type Acknowledged, mostAckWaitMs, type Replaced } from '../base/service.js';

/** An event whose acknowledgement is awaited is one of a call's beginning: a few at a time. More are forgotten, the oldest first. */
export const mostAwaited = 64;
/** A service lets go within `mostAckWaitMs`; this is for one that doesn't. Milliseconds. */
const BACKSTOP = mostAckWaitMs + 250;

export interface AwaitedOptions {
  readonly clock: Clock;
  /** Too many are awaited, or a service did not settle in time. */
  bound(what: 'awaited-acks' | 'ack-wait', detail: Readonly<Record<string, number>>): void;
  failed(error: unknown): void;
}

/** Of one connection. Ids count per namespace, and are the browser's. */
export class Awaited {
  readonly #options: AwaitedOptions;
  /** In the order in which they were asked for. */
  readonly #watchers = new Map<string, Acknowledged>();
  /** At most one: all behind it waits. */
  #held: { readonly ns: string; letGo(): void } | null = null;

  constructor(options: AwaitedOptions) {
    this.#options = options;
  }

  /** How many are awaited. */
  get size(): number {
    return this.#watchers.size;
  }

  add(ns: string, id: number, watcher: Acknowledged): void {
    if (this.#watchers.size >= mostAwaited) {
      const [oldest] = this.#watchers.keys();
      if (oldest !== undefined) this.#watchers.delete(oldest);
      this.#options.bound('awaited-acks', { most: mostAwaited });
    }
    this.#watchers.set(keyOf(ns, id), watcher);
  }

  has(ns: string, id: number): boolean {
    return this.#watchers.has(keyOf(ns, id));
  }

  /**
   * It has come. Answers what the browser is to get instead, or nothing; a promise settles in bounded time, or when its
   * namespace is forgotten, and never rejects.
   */
  came(
    ns: string,
    id: number,
    args: readonly unknown[],
  ): readonly unknown[] | null | Promise<readonly unknown[] | null> {
    const key = keyOf(ns, id);
    const watcher = this.#watchers.get(key);
    if (!watcher) return null;
    this.#watchers.delete(key);
    try {
      const replaced = watcher(args);
      return replaced instanceof Promise ? this.#hold(ns, replaced) : (replaced ?? null);
    } catch (error) {
      this.#options.failed(error);
      return null;
    }
  }

  /** The socket of this namespace is gone: what is held back passes as it came. */
  forget(ns: string): void {
    for (const key of this.#watchers.keys()) if (key.startsWith(`${ns}\n`)) this.#watchers.delete(key);
    if (this.#held?.ns === ns) this.#held.letGo();
  }

  #hold(ns: string, replaced: Promise<Replaced>): Promise<readonly unknown[] | null> {
    return new Promise((resolve) => {
      const settle = (args: readonly unknown[] | null): void => {
        backstop.cancel();
        if (this.#held === held) this.#held = null;
        resolve(args);
      };
      const held = { ns, letGo: () => settle(null) };
      const backstop = this.#options.clock.after(BACKSTOP, () => {
        this.#options.bound('ack-wait', { ms: BACKSTOP });
        settle(null);
      });
      this.#held = held;
      replaced.then(
        (args) => settle(args ?? null),
        (error: unknown) => {
          this.#options.failed(error);
          settle(null);
        },
      );
    });
  }
}

/** Digits behind the last line break, so no two are the same, whatever a browser names its namespace. */
const keyOf = (ns: string, id: number): string => `${ns}\n${id}`;
