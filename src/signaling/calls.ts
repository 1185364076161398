// Changes one call: load → step → save with a version check → effects. On a conflict the step runs again on what is in
// force. Knows no routes, tickets or payload checks; every change to a session, whatever caused it, goes through here.
import type { Clock } from '../base/clock.js';
import type { InboundEvent } from '../base/service.js';
import type { CallEvent, CallKey, Session, Step } from '../call/session.js';
import { step } from '../call/step.js';
import type { SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import { type Delivery, deliver } from './deliver.js';
import type { EndedCalls } from './ended.js';

/** A conflict means that another event of the same call was saved first; more than this in a row is a fault. */
const mostConflicts = 64;

export interface CallsDeps {
  readonly store: SessionStore;
  readonly delivery: Delivery;
  readonly signals: Signals;
  readonly clock: Clock;
  readonly ended: EndedCalls;
}

export const keyOf = ({ ns, conversationId }: CallKey): string => `${ns}\n${conversationId}`;

export class Calls {
  readonly #deps: CallsDeps;
  /** Steps that are being saved, by call: nothing else is decided on a call before its parties were told of them. */
  readonly #saving = new Map<string, Promise<void>>();

  constructor(deps: CallsDeps) {
    this.#deps = deps;
  }

  /**
   * Applies an event that needs no save at once (a candidate after the answer, a refusal); null where the session must be
   * fetched or changed, or is being changed, which `apply` does.
   */
  tryNow(key: CallKey, event: CallEvent, inbound: InboundEvent): Step | null {
    if (this.#saving.has(keyOf(key))) return null;
    const session = this.#deps.store.peek(key);
    if (session === undefined) return null;
    const result = step(session, event, this.#deps.clock.now());
    if (result.session !== session) return null;
    this.#run(key, session, result, event, inbound);
    return result;
  }

  /** `make` gets the session as it is in force, so that what it says of it is true of what is saved. */
  async apply(
    key: CallKey,
    make: (session: Session | null) => CallEvent | null,
    inbound?: InboundEvent,
  ): Promise<Step | null> {
    const { store, clock } = this.#deps;
    const k = keyOf(key);
    while (this.#saving.has(k)) await this.#saving.get(k);
    const known = store.peek(key);
    let session = known === undefined ? await store.get(key) : known;
    for (let conflicts = 0; conflicts < mostConflicts; conflicts++) {
      const event = make(session);
      if (event === null) return null;
      const result = step(session, event, clock.now());
      if (result.session === session) {
        this.#run(key, session, result, event, inbound);
        return result;
      }
      const done = this.#begin(k);
      try {
        const saved = await this.#save(session, result.session);
        if (saved.ok) {
          this.#run(key, session, result, event, inbound);
          return result;
        }
        session = saved.session;
      } finally {
        done();
      }
    }
    throw new Error(`more than ${mostConflicts} conflicts in a row on one call`);
  }

  #begin(k: string): () => void {
    let resolve!: () => void;
    const saving = new Promise<void>((done) => (resolve = done));
    this.#saving.set(k, saving);
    return () => {
      if (this.#saving.get(k) === saving) this.#saving.delete(k);
      resolve();
    };
  }

  async #save(before: Session | null, after: Session | null): Promise<{ ok: boolean; session: Session | null }> {
    const { store } = this.#deps;
    if (before === null) {
      const { created, session } = await store.create(after as Session);
      return { ok: created, session };
    }
    if (after === null) {
      const { deleted, session } = await store.delete(before);
      return { ok: deleted, session };
    }
    const { replaced, session } = await store.replace(before, after);
    return { ok: replaced, session };
  }

  #run(key: CallKey, before: Session | null, result: Step, event: CallEvent, inbound: InboundEvent | undefined): void {
    const { signals, clock, ended, delivery } = this.#deps;
    const after = result.session;
    if (before !== null && after === null) ended.add(keyOf(key), before.callId);
    if (before?.state !== after?.state || before?.rejoining !== after?.rejoining) {
      const named = after ?? before;
      if (named) {
        signals.transition({
          ns: key.ns,
          conversationId: key.conversationId,
          callId: named.callId,
          users: named.users,
          from: before?.state ?? 'IDLE',
          to: after?.state ?? 'ENDED',
          because: result.because,
          event: event.type,
        });
      }
    }
    if (event.type === 'call-answer' && before?.state === 'OFFERING' && after?.state === 'CONNECTED') {
      signals.offerAnswered(clock.now() - before.since);
    }
    deliver(result.effects, key.ns, inbound, delivery, signals);
  }
}
