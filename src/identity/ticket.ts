// Who takes part in a conversation, from the legacy's signed ticket or its own REST answer, checked here and kept for a
// while. Knows nothing of how the legacy is asked (that is a source's business) nor of calls.
import type { Clock } from '../base/clock.js';
import type { ConversationId, UserId } from '../base/ids.js';
import { faultOf } from './http.js';
import type { Membership, MembershipAnswer, Memberships } from './identity.js';
import { CALL_AUDIENCE, readClaims, userIdOf } from './jwt.js';
import type { Keys } from './keys.js';
import { lru } from './lru.js';

export interface MembershipOptions {
  /** What the legacy signs its tickets with: the same keys as for logins. */
  readonly keys: Keys;
  readonly clock: Clock;
  /** Asks the legacy; without one only tickets that clients bring count. */
  readonly source?: MembershipSource;
  /** How long a source's list of participants counts, in milliseconds; a minute. A ticket counts until its own `exp`. */
  readonly listMs?: number;
  /** Memberships kept, about 400 bytes each; 50 000. */
  readonly most?: number;
}

export interface MembershipQuestion {
  /** The browser's own; undefined where it brought none. */
  readonly token: string | undefined;
  readonly conversationId: ConversationId;
}

/** What the legacy said, not yet checked. */
export type SourceAnswer =
  | { readonly kind: 'ticket'; readonly ticket: string }
  /** The ids as they stood in the answer, at most a few hundred. */
  | { readonly kind: 'list'; readonly ids: readonly unknown[] }
  | Exclude<MembershipAnswer, { readonly kind: 'granted' }>;

export interface MembershipSource {
  /** Bounded in time by itself; may reject. */
  ask(question: MembershipQuestion): Promise<SourceAnswer>;
  close(): Promise<void>;
}

/**
 * What a status other than 200 says about a membership, here and for any other endpoint. 400 and 422 say that no
 * conversation has such an id, as 404 does; 414 and 431 that it is too long for one.
 */
export function fromStatus(status: number): Exclude<SourceAnswer, { kind: 'ticket' | 'list' }> {
  if (status === 401) return { kind: 'token-expired' };
  if (status === 403 || ofTheId.has(status)) return { kind: 'not-participant' };
  return { kind: 'unavailable', why: `the legacy answered ${status}` };
}
/** Also what a wrong URL answers, whatever is asked. */
export const ofTheId: ReadonlySet<number> = new Set([400, 404, 414, 422, 431]);

/**
 * Whether a legacy's own means may break over this id (Postgres refuses U+0000 in a text, say): an answer that fails then
 * says nothing of the legacy.
 */
export const isUnusual = (conversationId: string): boolean => /\p{Cc}/u.test(conversationId);

/** An answer must be out 2 s after the offer; the rest is for refusing. */
const DEADLINE_MS = 1_800;
/** A ticket is no longer handed out this long before its `exp`, so that a call never starts on a stale one. */
const MARGIN_MS = 10_000;
const LIST_MS = 60_000;
const MOST = 50_000;
/** Of a ticket's list; two are wanted, and any more say that it is a group's. */
const MOST_PARTICIPANTS = 3;
/** Questions under way; a legacy that hangs for 1.8 s sees no more than this from us. */
const MOST_ASKED = 10_000;

/** Negative answers are never kept: who was just let in must not wait for a cache. */
export function createMemberships(options: MembershipOptions): Memberships & { close(): Promise<void> } {
  const { keys, clock, source, listMs = LIST_MS, most = MOST } = options;
  const known = lru<Membership>(most, clock);
  const asked = new Map<string, Promise<MembershipAnswer>>();

  const grant = (user: UserId, conversationId: ConversationId, answer: SourceAnswer): MembershipAnswer => {
    if (answer.kind === 'ticket') {
      const read = readTicket(keys, clock, answer.ticket, user, conversationId);
      if (!read.ok && read.noPair) return { kind: 'not-participant' };
      if (!read.ok) return { kind: 'unavailable', why: `the legacy's ticket does not hold: ${read.why}` };
      known.set(keyOf(user, conversationId), read.membership, read.exp - MARGIN_MS);
      return { kind: 'granted', membership: read.membership };
    }
    if (answer.kind === 'list') {
      const ids = answer.ids.map(userIdOf);
      if (ids.includes(undefined)) return { kind: 'unavailable', why: "the legacy's answer holds no usable user ids" };
      const membership = pairOf(ids, user);
      if (!membership) return { kind: 'not-participant' };
      known.set(keyOf(user, conversationId), membership, clock.now() + listMs);
      return { kind: 'granted', membership };
    }
    return answer;
  };

  return {
    cached: (user, conversationId) => known.get(keyOf(user, conversationId)),

    own(ticket, user, conversationId) {
      const read = readTicket(keys, clock, ticket, user, conversationId);
      if (!read.ok) return undefined;
      known.set(keyOf(user, conversationId), read.membership, read.exp - MARGIN_MS);
      return read.membership;
    },

    ask(token, user, conversationId) {
      if (!source) return Promise.resolve({ kind: 'unavailable', why: 'there is no membership source to ask' });
      // No conversation has such an id, and it could not be put into a request as it is.
      if (/\p{Surrogate}/u.test(conversationId)) return Promise.resolve({ kind: 'not-participant' });
      const key = keyOf(`${token ?? ''}`, keyOf(user, conversationId));
      const same = asked.get(key);
      if (same) return same;
      if (asked.size >= MOST_ASKED)
        return Promise.resolve({ kind: 'unavailable', why: 'too many questions under way' });
      const answer = inTime(
        clock,
        source.ask({ token, conversationId }).then(
          (said) => grant(user, conversationId, said),
          (error: unknown): MembershipAnswer => ({ kind: 'unavailable', why: faultOf(error) }),
        ),
      )
        .then(
          (said): MembershipAnswer =>
            // Nobody is shown to take part in it, and its user must not be able to say that the new path is unwell.
            said.kind === 'unavailable' && isUnusual(conversationId) ? { kind: 'not-participant' } : said,
        )
        .finally(() => asked.delete(key));
      asked.set(key, answer);
      return answer;
    },

    async close() {
      await source?.close();
    },
  };
}

type ReadTicket =
  | { readonly ok: true; readonly membership: Membership; readonly exp: number }
  /** `noPair`: all of it holds, but who takes part are not two of whom this user is one, as in a group's conversation. */
  | { readonly ok: false; readonly why: string; readonly noPair?: true };

/** `exp` in milliseconds. */
function readTicket(
  keys: Keys,
  clock: Clock,
  ticket: string,
  user: UserId,
  conversationId: ConversationId,
): ReadTicket {
  const read = readClaims(keys, ticket, clock, { audience: CALL_AUDIENCE });
  if (!read.ok) return read;
  const { sub, exp, participants, conversationId: about } = read.claims;
  if (typeof exp !== 'number') return { ok: false, why: 'no expiry' };
  if (userIdOf(sub) !== user) return { ok: false, why: 'for another user' };
  if (about !== conversationId && !(typeof about === 'number' && String(about) === conversationId)) {
    return { ok: false, why: 'for another conversation' };
  }
  const ids = Array.isArray(participants) ? participants.slice(0, MOST_PARTICIPANTS).map(userIdOf) : [];
  if (ids.length === 0 || ids.includes(undefined)) return { ok: false, why: 'no usable participants' };
  const membership = ids.length === 2 ? pairOf(ids, user) : undefined;
  if (!membership) return { ok: false, why: 'participants are not this pair', noPair: true };
  return { ok: true, membership, exp: exp * 1000 };
}

/** Exactly two different users, this one among them: a group's conversation carries no 1:1 call. */
function pairOf(ids: readonly (UserId | undefined)[], user: UserId): Membership | undefined {
  const [a, b, more] = [...new Set(ids)];
  if (a === undefined || b === undefined || more !== undefined) return undefined;
  return a === user || b === user ? { participants: [a, b] } : undefined;
}

/** Both parts can hold any character: the length says where the first one ends. */
const keyOf = (a: string, b: string): string => `${a.length}:${a}${b}`;

/** A late answer still fills the cache for the next question. */
function inTime(clock: Clock, answer: Promise<MembershipAnswer>): Promise<MembershipAnswer> {
  return new Promise((resolve) => {
    const timer = clock.after(DEADLINE_MS, () =>
      resolve({ kind: 'unavailable', why: `no answer within ${DEADLINE_MS} ms` }),
    );
    void answer.then((said) => {
      timer.cancel();
      resolve(said);
    });
  });
}
