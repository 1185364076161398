// Asks what other instances have of a conversation, for as long as an event may be held for that, and remembers for a moment what came of
// it: what trails in for a call that nobody has is not asked for one by one. Knows no routes, and not who is asked.
import type { Clock } from '../base/clock.js';
import { Unavailable } from '../base/unavailable.js';
import type { CallKey } from '../call/session.js';
import type { Found, SessionStore } from '../store/store.js';
import { keyOf } from './calls.js';

/** What the other instances have of a conversation. `claim`: this instance claimed it for the legacy, under that name. */
export interface Shared extends Found {
  readonly claim?: string;
}

export interface AskingDeps {
  readonly store: Pick<SessionStore, 'look' | 'claim'>;
  readonly clock: Clock;
  readonly newId: () => string;
}

/** An event is held so long at most. */
export const askAtMost = 1_000;
/**
 * After an answer that did not come in time, which with a Redis Cluster may be of one master of several: then for so long no event is
 * held for more than answers usually take.
 */
export const HURRIED_MS = 5_000;
const LEAST_MS = 100;
const TIMES_USUAL = 3;
/** A candidate that was not asked for is one that trails in, or is acknowledged all the same. */
const REMEMBERED_MS = 5_000;
/** About 200 bytes each. */
const MOST = 10_000;

/** `nothing`: no call, no claim, none just ended. `unanswered`: not known. */
type Said = 'nothing' | 'unanswered';

export class Asking {
  readonly #deps: AskingDeps;
  readonly #said = new Map<string, { readonly what: Said; readonly until: number }>();
  #hurriedUntil = 0;
  #usualMs = 0;

  constructor(deps: AskingDeps) {
    this.#deps = deps;
  }

  /** Undefined where a look is not answered in time; a claim that is not holds all the same. @throws Unreadable */
  async ask(what: 'look' | 'claim', key: CallKey, atMost = askAtMost): Promise<Shared | undefined> {
    const { store, clock, newId } = this.#deps;
    const id = newId();
    const claimed = { session: null, claimed: false, ended: null, claim: id };
    const asked = clock.now();
    const asking: Promise<Shared> =
      what === 'look' ? store.look(key) : store.claim(key, id).then((session) => ({ ...claimed, session }));
    const answered = asking.then((shared) => {
      this.#usualMs = clock.now() - asked;
      return shared;
    });
    const shared = await new Promise<Shared | undefined>((resolve, reject) => {
      const timer = clock.after(Math.min(atMost, this.#atMost()), () => {
        this.#hurriedUntil = clock.now() + HURRIED_MS;
        resolve(undefined);
      });
      answered
        .catch((error) => {
          if (error instanceof Unavailable) return undefined;
          throw error;
        })
        .then(resolve, reject)
        .finally(() => timer.cancel());
    });
    if (what === 'claim') return shared ?? claimed;
    if (!shared) this.#remember(key, 'unanswered');
    else if (!shared.session && !shared.claimed && !shared.ended) this.#remember(key, 'nothing');
    return shared;
  }

  /** What a look said lately, where it found no call. */
  last(k: string): Said | null {
    const said = this.#said.get(k);
    return said && said.until > this.#deps.clock.now() ? said.what : null;
  }

  /** A call of that conversation may have begun. */
  forget(k: string): void {
    this.#said.delete(k);
  }

  #atMost(): number {
    if (this.#deps.clock.now() >= this.#hurriedUntil) return askAtMost;
    return Math.min(askAtMost, Math.max(LEAST_MS, TIMES_USUAL * this.#usualMs));
  }

  #remember(key: CallKey, what: Said): void {
    const k = keyOf(key);
    this.#said.delete(k);
    this.#said.set(k, { what, until: this.#deps.clock.now() + REMEMBERED_MS });
    if (this.#said.size > MOST) this.#said.delete(this.#said.keys().next().value as string);
  }
}
