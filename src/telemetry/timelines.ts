// What happened to each call, for operators who ask why: a bounded list of its states with times and reasons, also of calls
// that ended lately, on either path. Knows no session, no claim, and nothing of what a call says.
import type { Clock } from '../base/clock.js';
import type { Decision } from '../base/service.js';
import type { CallKey } from '../call/session.js';
import type { Began, Parties, Signals, Transition } from './signals.js';

/** Ids and states only, so a usual call (5 to 10 entries) takes about 1 KB: 10 MB for as many calls as these. */
export const mostCalls = 10_000;
/** Of one call; a call whose network flaps for hours must not grow: its first and its newest entries stay. */
export const mostEntries = 64;
const firstEntries = 8;
/** So many of them are for calls that have ended, however many are live. */
const shareOfEnded = 0.1;

/** One step of a call. `from` and `to` are states, but for the entry of event `path`, whose `to` is the path. */
export interface Entry {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly from: string;
  readonly to: string;
  readonly because: string;
  readonly event: string;
}

export interface Timeline extends CallKey {
  /** Where the call went and why; null where that was not seen. */
  readonly decision: Decision | null;
  readonly users: Parties;
  readonly entries: readonly Entry[];
}

export interface Timelines {
  /** To be told of each signal (`createSignals`' `also`). */
  readonly signals: Partial<Signals>;
  /** Null: never heard of, or too long ago. */
  of(callId: string): Timeline | null;
  /** Without making its list of entries; null as above. */
  about(callId: string): (CallKey & { readonly decision: Decision | null }) | null;
  /** Ids that begin so, of live calls and of ended ones. Looks at each that is kept. */
  ids(prefix: string): readonly string[];
  readonly size: number;
}

/** Keeps the newest `most` calls: the one that ended first goes first, and the oldest live one where few have ended. */
export function createTimelines({ clock, most = mostCalls }: { clock: Pick<Clock, 'now'>; most?: number }): Timelines {
  const live = new Map<string, Kept>();
  const ended = new Map<string, Kept>();

  function kept({ callId, ns, conversationId }: CallKey & { readonly callId: string }): Kept {
    const known = live.get(callId) ?? ended.get(callId);
    if (known) return known;
    const made: Kept = {
      ns,
      conversationId,
      decision: null,
      users: NOBODY,
      path: null,
      first: [],
      newest: [],
      leftOut: 0,
    };
    live.set(callId, made);
    if (live.size + ended.size > most) {
      const from = ended.size > most * shareOfEnded ? ended : live;
      const [oldest] = from.keys();
      if (oldest !== undefined) from.delete(oldest);
    }
    return made;
  }

  function moved(t: Transition): void {
    const call = kept(t);
    if (t.users) call.users = t.users;
    add(call, { at: clock.now(), from: t.from, to: t.to, because: t.because, event: t.event });
    if (t.to !== 'ENDED' || !live.delete(t.callId)) return;
    ended.set(t.callId, call);
  }

  return {
    signals: {
      transition: moved,
      observed: moved,
      // Signalled once the offer is accepted, which may be after the first transition; it is shown before it.
      began(began: Began) {
        const call = kept(began);
        const { path, because } = began.decision;
        call.decision = began.decision;
        call.path = { at: call.first[0]?.at ?? clock.now(), from: 'IDLE', to: path, because, event: 'path' };
      },
    },
    of(callId) {
      const call = live.get(callId) ?? ended.get(callId);
      if (!call) return null;
      const { ns, conversationId, decision, users } = call;
      return { ns, conversationId, decision, users, entries: entriesOf(call) };
    },
    about: (callId) => live.get(callId) ?? ended.get(callId) ?? null,
    ids: (prefix) => [...live.keys(), ...ended.keys()].filter((id) => id.startsWith(prefix)),
    get size() {
      return live.size + ended.size;
    },
  };
}

const NOBODY: Parties = { offerer: null, answerer: null };

interface Kept extends CallKey {
  decision: Decision | null;
  users: Parties;
  path: Entry | null;
  readonly first: Entry[];
  readonly newest: Entry[];
  leftOut: number;
}

/** With the path and the line that says how many are left out, `mostEntries` in all. */
const newestEntries = mostEntries - firstEntries - 2;

function add(call: Kept, entry: Entry): void {
  if (call.first.length < firstEntries) {
    call.first.push(entry);
    return;
  }
  call.newest.push(entry);
  if (call.newest.length <= newestEntries) return;
  call.newest.shift();
  call.leftOut++;
}

function entriesOf({ path, first, newest, leftOut }: Kept): Entry[] {
  const last = first.at(-1);
  const next = newest[0];
  const gap: Entry[] =
    leftOut > 0 && last && next
      ? [{ at: last.at, from: last.to, to: next.from, because: `${leftOut} more`, event: 'left-out' }]
      : [];
  return [...(path ? [path] : []), ...first, ...gap, ...newest];
}
