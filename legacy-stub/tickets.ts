// Call tickets: signed statements of who takes part in a conversation, so that others need not ask the database.
// Knows nothing of HTTP or of the calls that they are used for.
import type { Tokens } from './auth.js';
import type { MembershipStore } from './membership.js';

export type TicketAnswer =
  | { readonly ticket: string }
  | { readonly status: 401 | 403; readonly error: 'unauthorized' | 'Not a participant' };

export interface Tickets {
  /** One ticket, for one lookup. */
  one(token: unknown, conversationId: unknown): Promise<TicketAnswer>;
  /** Tickets in the order of the requests, for one lookup altogether. */
  many(requests: readonly unknown[]): Promise<TicketAnswer[]>;
}

/** Most requests in one batch. */
export const MAX_BATCH = 256;

export function createTickets(tokens: Tokens, membership: MembershipStore, ttlMs: number): Tickets {
  async function many(requests: readonly unknown[]): Promise<TicketAnswer[]> {
    const asked = requests.map((request) => {
      const { token, conversationId } = (request ?? {}) as { token?: unknown; conversationId?: unknown };
      return { user: tokens.verify(token)?.id, id: typeof conversationId === 'string' ? conversationId : '' };
    });
    const ids = [...new Set(asked.filter(({ user, id }) => user !== undefined && id !== '').map(({ id }) => id))];
    const found = ids.length === 0 ? [] : await membership.participantsOfAll(ids);
    const participantsOf = new Map(ids.map((id, i) => [id, found[i]]));
    return asked.map(({ user, id }): TicketAnswer => {
      if (user === undefined) return { status: 401, error: 'unauthorized' };
      const participants = participantsOf.get(id);
      if (!participants?.includes(user)) return { status: 403, error: 'Not a participant' };
      return { ticket: tokens.sign({ conversationId: id, participants, sub: user, aud: 'call' }, ttlMs) };
    });
  }
  return {
    many,
    async one(token, conversationId) {
      return (await many([{ token, conversationId }]))[0]!;
    },
  };
}
