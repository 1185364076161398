// Sessions in this process's memory: the driver of a single instance. Every operation is done before it answers, so `peek` always
// knows. Knows nothing of what a session means; its bound is the number of live calls, which the reaper keeps.
import type { SocketRef } from '../base/ids.js';
import type { CallKey, Session } from '../call/session.js';
import { link, unlink } from './links.js';
import type { DueAt, SessionStore } from './store.js';

/**
 * A store that is empty at first and forgets all on `close`. Sessions are handed out as they were given: they are immutable. Whom
 * the legacy has a call with, and what has ended lately, its one instance knows by itself, so nothing is said of it here. No seat
 * is ever held: there is no other instance to come back to.
 */
export function memorySessionStore(dueAt: DueAt = () => 0): SessionStore {
  const sessions = new Map<string, Session>();
  const bySocket = new Map<string, Set<string>>();
  const byUser = new Map<string, Set<string>>();
  const counts: Record<Session['state'], number> = {
    OFFERING: 0,
    CONNECTED: 0,
    RENEGOTIATING: 0,
    AWAITING_REJOIN: 0,
  };

  /** Replaces what is stored under the key, indexes and counts with it. */
  function put(key: string, before: Session | undefined, after: Session | undefined): void {
    if (before) {
      counts[before.state] -= 1;
      for (const k of socketsOf(before)) unlink(bySocket, k, key);
      if (!after) for (const k of usersOf(before)) unlink(byUser, k, key);
    }
    if (!after) {
      sessions.delete(key);
      return;
    }
    sessions.set(key, after);
    counts[after.state] += 1;
    for (const k of socketsOf(after)) link(bySocket, k, key);
    if (!before) for (const k of usersOf(after)) link(byUser, k, key);
  }

  /** The stored session where it is the one that the caller has seen. */
  function seen(key: string, before: Session): Session | undefined {
    const current = sessions.get(key);
    return current && current.callId === before.callId && current.version === before.version ? current : undefined;
  }

  const found = (keys: ReadonlySet<string> | undefined): readonly Session[] =>
    keys ? [...keys].flatMap((key) => sessions.get(key) ?? []) : [];

  return {
    peek: (key) => sessions.get(keyOf(key)) ?? null,
    get: async (key) => sessions.get(keyOf(key)) ?? null,
    look: async (key) => ({ session: sessions.get(keyOf(key)) ?? null, claimed: false, ended: null }),
    async create(session) {
      const key = keyOf(session);
      const current = sessions.get(key);
      if (current) return { created: false, session: current, claimed: false };
      put(key, undefined, session);
      return { created: true, session, claimed: false };
    },
    async replace(before, after) {
      const key = keyOf(before);
      const current = seen(key, before);
      if (!current) return { replaced: false, session: sessions.get(key) ?? null };
      put(key, current, after);
      return { replaced: true, session: after };
    },
    async delete(before) {
      const key = keyOf(before);
      const current = seen(key, before);
      if (!current) return { deleted: false, session: sessions.get(key) ?? null };
      put(key, current, undefined);
      return { deleted: true, session: null };
    },
    heard: () => undefined,
    claim: async (key) => sessions.get(keyOf(key)) ?? null,
    release: () => undefined,
    bySocket: async (ref) => found(bySocket.get(socketKey(ref))),
    awaiting: async (ns, user) => found(byUser.get(userKey(ns, user))).filter((session) => session.waitsForBoth),
    knownOf: (ns, user) => found(byUser.get(userKey(ns, user))),
    async *seatedAt() {
      yield* [];
    },
    forget: async () => undefined,
    due: (now) => [...sessions.values()].filter((session) => dueAt(session) <= now),
    keep: async (session) => ({ kept: false, session: sessions.get(keyOf(session)) ?? null }),
    async discard(key) {
      const current = sessions.get(keyOf(key));
      if (current) put(keyOf(key), current, undefined);
    },
    // Nobody takes anything from the only instance, and what it holds is lost with it.
    drop: () => undefined,
    restore: async () => undefined,
    // A copy: the reaper changes the store while it walks.
    all: () => [...sessions.values()],
    count: async () => ({ ...counts }),
    async close() {
      sessions.clear();
      bySocket.clear();
      byUser.clear();
      for (const state of Object.keys(counts) as Session['state'][]) counts[state] = 0;
    },
  };
}

// Namespaces, ids and users are free text: JSON keeps ('a', 'b,c') and ('a,b', 'c') apart.
const keyOf = ({ ns, conversationId }: CallKey): string => JSON.stringify([ns, conversationId]);
const socketKey = ({ ns, id, connection }: SocketRef): string => JSON.stringify([ns, id, connection]);
const userKey = (ns: string, user: string): string => JSON.stringify([ns, user]);

const socketsOf = ({ seats }: Session): string[] =>
  (seats.answerer ? [seats.offerer, seats.answerer] : [seats.offerer]).map(socketKey);
const usersOf = ({ ns, users }: Session): string[] => [userKey(ns, users.offerer), userKey(ns, users.answerer)];
