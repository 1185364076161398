// Candidates ahead of their sender's offer (accepted difference 1): held for up to 10 s, they count as buffered once the
// offer comes, or follow it to the legacy where the offer goes there. Knows nothing of sessions or routes.
import type { Clock } from '../base/clock.js';
import type { SocketRef } from '../base/ids.js';
import type { InboundEvent } from '../base/service.js';

export const holdFor = 10_000;
/** As many as a session buffers. */
const perCall = 256;
/** Held candidates of one connection; a browser gathers a few dozen, each well below 1 KB. */
const perConnection = 512;
const bytesPerConnection = 512 * 1024;

interface Held {
  readonly key: string;
  readonly event: InboundEvent;
  readonly iceCandidate: unknown;
  readonly until: number;
}

export class EarlyCandidates {
  readonly #byConnection = new Map<number, Held[]>();
  readonly #clock: Clock;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** False where a bound is reached: the candidate is dropped. */
  hold(key: string, event: InboundEvent, iceCandidate: unknown): boolean {
    const now = this.#clock.now();
    const all = (this.#byConnection.get(event.peer.ref.connection) ?? []).filter((h) => h.until > now);
    this.#byConnection.set(event.peer.ref.connection, all);
    if (all.length >= perConnection || all.filter((h) => h.key === key).length >= perCall) return false;
    if (all.reduce((bytes, h) => bytes + h.event.size, event.size) > bytesPerConnection) return false;
    all.push({ key, event, iceCandidate, until: now + holdFor });
    return true;
  }

  /** Whether anything is held of this very socket for this call. */
  has(key: string, ref: SocketRef): boolean {
    return this.#byConnection.get(ref.connection)?.some((h) => h.key === key) === true;
  }

  /** What is held of this very socket for this call, oldest first; it is not held any more. */
  take(key: string, ref: SocketRef): readonly { readonly event: InboundEvent; readonly iceCandidate: unknown }[] {
    const all = this.#byConnection.get(ref.connection);
    if (!all) return [];
    const now = this.#clock.now();
    const rest: Held[] = [];
    const taken: Held[] = [];
    for (const h of all) if (h.until > now) (h.key === key ? taken : rest).push(h);
    if (rest.length > 0) this.#byConnection.set(ref.connection, rest);
    else this.#byConnection.delete(ref.connection);
    return taken;
  }

  disconnected(ref: SocketRef): void {
    const rest = this.#byConnection.get(ref.connection)?.filter((h) => h.event.peer.ref.ns !== ref.ns) ?? [];
    if (rest.length > 0) this.#byConnection.set(ref.connection, rest);
    else this.#byConnection.delete(ref.connection);
  }

  get size(): number {
    let held = 0;
    for (const all of this.#byConnection.values()) held += all.length;
    return held;
  }

  /** Forgets what is too old; the reaper calls it. */
  sweep(): void {
    const now = this.#clock.now();
    for (const [connection, all] of this.#byConnection) {
      const rest = all.filter((h) => h.until > now);
      if (rest.length > 0) this.#byConnection.set(connection, rest);
      else this.#byConnection.delete(connection);
    }
  }
}
