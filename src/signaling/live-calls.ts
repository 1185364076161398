// Live calls for operators: those of the new path from the store, those of the legacy from what was seen to pass, listed,
// searched, shown with their timeline, and ended. Knows no HTTP, and takes no description or candidate out of a session.
import type { CallKey, Session } from '../call/session.js';
import type { SessionStore } from '../store/store.js';
import type { Signals } from '../telemetry/signals.js';
import type { Timelines } from '../telemetry/timelines.js';
import type { Calls } from './calls.js';
import type { CallFilter, LiveCall, LiveCalls } from './live.js';

/** Calls looked at between two turns of the event loop: a fraction of a millisecond. */
const chunk = 256;
/** An offer waits for its ticket up to 2 s, and then for its turn to be saved. */
const mostAcceptMs = 3_000;

type LegacyCall = Omit<LiveCall, 'path'>;

/** The legacy's calls, as far as they were seen to pass. */
export interface LegacyCalls {
  calls(): Iterable<LegacyCall>;
  /** Without a walk. */
  readonly counts: { readonly legacy: number; readonly peeled: number };
}

/** What operators need of the signaling service. */
export interface OperatedCalls {
  readonly calls: Pick<Calls, 'apply'>;
  readonly legacyCalls: LegacyCalls;
  /** Offers that the new path is accepting now; each promise resolves once its offer is accepted, refused or given away. */
  readonly accepting: Iterable<CallKey & { readonly settled: Promise<void> }>;
}

export interface LiveCallsDeps {
  readonly store: SessionStore;
  readonly signaling: OperatedCalls;
  readonly timelines: Pick<Timelines, 'of' | 'about' | 'ids'>;
  readonly signals: Pick<Signals, 'internalError'>;
}

export function createLiveCalls({ store, signaling, timelines, signals }: LiveCallsDeps): LiveCalls {
  const { calls, legacyCalls } = signaling;

  const ofOurs = (session: Session): LiveCall => ({
    id: session.callId,
    ns: session.ns,
    conversationId: session.conversationId,
    path: 'new',
    because: timelines.about(session.callId)?.decision?.because ?? 'owned',
    state: session.state,
    offerer: session.users.offerer,
    answerer: session.users.answerer,
    peeled: [],
    createdAt: session.createdAt,
    since: session.since,
  });

  const ofLegacys = (call: LegacyCall): LiveCall => ({ ...call, path: 'legacy' });

  /** Our session of that id. Its timeline tells where to look; where there is none any more, all are looked at. */
  async function find(id: string): Promise<Session | null> {
    const key = timelines.about(id);
    if (key) {
      const session = await store.get(key);
      return session?.callId === id ? session : null;
    }
    for await (const some of chunks(store.all())) {
      const found = some.find(({ callId }) => callId === id);
      if (found) return found;
    }
    return null;
  }

  async function findLegacys(id: string): Promise<LiveCall | null> {
    for await (const some of chunks(legacyCalls.calls())) {
      const found = some.find((call) => call.id === id);
      if (found) return ofLegacys(found);
    }
    return null;
  }

  async function end(session: CallKey, callId?: string): Promise<boolean> {
    const step = await calls.apply(session, (now) =>
      now === null || (callId !== undefined && now.callId !== callId) ? null : { type: 'operator-end' },
    );
    return step !== null;
  }

  return {
    async counts() {
      const byState = await store.count();
      const own = Object.values(byState).reduce((sum, n) => sum + n, 0);
      return { new: own, ...legacyCalls.counts, byState };
    },

    async byNamespace() {
      const counted = new Map<string, { new: number; legacy: number }>();
      const add = (ns: string, path: LiveCall['path']) => {
        const of = counted.get(ns);
        if (of) of[path]++;
        else counted.set(ns, { new: 0, legacy: 0, [path]: 1 });
      };
      for await (const some of chunks(store.all())) for (const { ns } of some) add(ns, 'new');
      for await (const some of chunks(legacyCalls.calls())) for (const { ns } of some) add(ns, 'legacy');
      return counted;
    },

    async list(filter) {
      const newest = newestOf(filter.limit);
      const matches = matcher(filter);
      let total = 0;
      const look = (call: Session | LegacyCall): void => {
        if (!matches(call)) return;
        total++;
        newest.add(call);
      };
      if (filter.path !== 'legacy') for await (const some of chunks(store.all())) some.forEach(look);
      if (filter.path !== 'new') for await (const some of chunks(legacyCalls.calls())) some.forEach(look);
      return { total, calls: newest.take().map((call) => ('callId' in call ? ofOurs(call) : ofLegacys(call))) };
    },

    async show(id) {
      const timeline = timelines.of(id);
      const session = timeline?.decision?.path === 'legacy' ? null : await find(id);
      const call = session ? ofOurs(session) : await findLegacys(id);
      const key = call ?? timeline;
      if (!key) return null;
      const { ns, conversationId } = key;
      const { path, because } = call ?? timeline?.decision ?? UNSEEN;
      const { offerer, answerer } = call ?? timeline?.users ?? NOBODY;
      return { call, timeline: timeline?.entries ?? [], path, because, offerer, answerer, ns, conversationId };
    },

    async ids(prefix) {
      const found = new Set(timelines.ids(prefix));
      const look = (id: string): void => void (id.startsWith(prefix) && found.add(id));
      for await (const some of chunks(store.all())) for (const { callId } of some) look(callId);
      for await (const some of chunks(legacyCalls.calls())) for (const { id } of some) look(id);
      return [...found];
    },

    async end(id) {
      const session = await find(id);
      if (session) return (await end(session, id)) ? 'ended' : 'unknown';
      return (await findLegacys(id)) ? 'legacy' : 'unknown';
    },

    async endAll(which = () => true) {
      let count = 0;
      const endOne = async (key: CallKey, callId?: string): Promise<void> => {
        try {
          if (await end(key, callId)) count++;
        } catch (error) {
          // One call that can't be ended keeps none of the others alive.
          signals.internalError('ending a call', error);
        }
      };
      // Calls that begin while this goes on are not meant, but for those whose offer has come already.
      const begun = [...signaling.accepting].filter(({ ns }) => which(ns));
      for await (const some of chunks(store.all())) {
        for (const session of some) if (which(session.ns)) await endOne(session, session.callId);
      }
      await within(mostAcceptMs, Promise.all(begun.map(({ settled }) => settled)));
      for (const key of begun) await endOne(key);
      return count;
    },
  };
}

/** Its timeline begins in its middle. */
const UNSEEN = { path: null, because: null };
const NOBODY = { offerer: null, answerer: null };

const idOf = (call: Session | LegacyCall): string => ('callId' in call ? call.callId : call.id);

function matcher({ state, search, ns }: CallFilter): (call: Session | LegacyCall) => boolean {
  // Quicker than making small letters of every id.
  const part = search ? new RegExp(search.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&'), 'iu') : null;
  const has = (text: string | null): boolean => text !== null && part?.test(text) === true;
  return (call) => {
    if (ns !== undefined && call.ns !== ns) return false;
    if (state !== undefined && call.state !== state) return false;
    if (part === null || has(call.conversationId) || has(idOf(call))) return true;
    const { offerer, answerer } = 'callId' in call ? call.users : call;
    return has(offerer) || has(answerer);
  };
}

/** So many at a time, without a turn of the event loop among them, and one after each. */
async function* chunks<T>(all: Iterable<T> | AsyncIterable<T>): AsyncGenerator<readonly T[]> {
  let some: T[] = [];
  if (Symbol.asyncIterator in all) {
    for await (const one of all) {
      if (some.push(one) < chunk) continue;
      yield some;
      await turn();
      some = [];
    }
  } else {
    for (const one of all) {
      if (some.push(one) < chunk) continue;
      yield some;
      await turn();
      some = [];
    }
  }
  yield some;
}

/** Keeps the newest `limit` of any number of calls, in memory for a multiple of `limit`. */
function newestOf(limit: number): { add(call: Session | LegacyCall): void; take(): (Session | LegacyCall)[] } {
  const most = Math.max(4 * limit, 512);
  let kept: (Session | LegacyCall)[] = [];
  const cut = (): (Session | LegacyCall)[] => {
    kept.sort((a, b) => b.createdAt - a.createdAt || (idOf(a) < idOf(b) ? -1 : 1));
    kept = kept.slice(0, limit);
    return kept;
  };
  return {
    add(call) {
      kept.push(call);
      if (kept.length >= most) cut();
    },
    take: cut,
  };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Resolves with the work, or after `ms` without it. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([work, late]);
  clearTimeout(timer);
}
