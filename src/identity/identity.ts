// The ports of identity: who a token belongs to, and who takes part in a conversation. Drivers stand beside it.
// Knows nothing of sockets, packets or calls.
import type { ConversationId, UserId } from '../base/ids.js';

export type Verified = { readonly ok: true; readonly user: UserId } | { readonly ok: false; readonly why: string };

export interface TokenVerifier {
  /** Synchronous, offline. `why` names the fault and never holds the token. */
  verify(token: string): Verified;
}

export interface Membership {
  /** The two users of the conversation, from the signed ticket or the legacy's own answer; never from a request. */
  readonly participants: readonly [UserId, UserId];
}

export type MembershipAnswer =
  | { readonly kind: 'granted'; readonly membership: Membership }
  | { readonly kind: 'not-participant' }
  /** The browser's token is no longer accepted (401): the legacy decides. */
  | { readonly kind: 'token-expired' }
  /** The legacy is away, late (over 2 s) or answered nonsense. */
  | { readonly kind: 'unavailable'; readonly why: string };

export interface Memberships {
  /** What is known without asking anybody. */
  cached(user: UserId, conversationId: ConversationId): Membership | undefined;
  /** Verifies a ticket that the client brought; undefined where it is expired, forged, for another audience, user or conversation. */
  own(ticket: string, user: UserId, conversationId: ConversationId): Membership | undefined;
  /** Asks the legacy on the browser's behalf. Never throws, and answers within 2 s. Same questions at once share one request. */
  ask(token: string | undefined, user: UserId, conversationId: ConversationId): Promise<MembershipAnswer>;
}
