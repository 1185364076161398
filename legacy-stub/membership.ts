// Who takes part in which conversation: the legacy's database, in memory (with a made-up latency) or in PostgreSQL.
// Knows nothing of messages, calls or who asks.

export interface Conversation {
  readonly id: string;
  readonly participants: readonly string[];
}

export interface MembershipStore {
  /** One lookup: the participants, or undefined where there is no such conversation. */
  participants(id: string): Promise<readonly string[] | undefined>;
  /** One lookup for all of `ids`, answered in their order. */
  participantsOfAll(ids: readonly string[]): Promise<(readonly string[] | undefined)[]>;
  /** Keeps a conversation; one that exists already is left as it is. */
  create(conversation: Conversation): Promise<void>;
  /** The kept conversations of a user, oldest first, at most 1,000. */
  ofUser(userId: string): Promise<Conversation[]>;
  /** Lookups run so far (a batch counts once). */
  readonly lookups: number;
  close(): Promise<void>;
}

/**
 * Opens the store that `spec` names: `memory`, or a `postgres://…` URL (its table is created where it is missing).
 * `latencyMs` delays each lookup of either. Throws where the URL is of another kind or the database can't be reached.
 */
export async function openMembership(spec: string, latencyMs: number): Promise<MembershipStore> {
  if (spec === 'memory') return new MemoryMembership(latencyMs);
  if (/^postgres(ql)?:\/\//.test(spec)) return await openPostgres(spec, latencyMs);
  throw new Error('membership must be "memory" or a postgres:// URL');
}

/** `dm:alice:bob` has the participants alice and bob without ever being created. */
export function directParticipants(id: string): readonly string[] | undefined {
  const [scheme, a, b, ...more] = id.split(':');
  return scheme === 'dm' && a && b && more.length === 0 && a !== b ? [a, b] : undefined;
}

const MAX_LISTED = 1_000;
/** Conversations kept in memory; the oldest goes when there is one more. */
const MAX_KEPT = 100_000;

class MemoryMembership implements MembershipStore {
  readonly #kept = new Map<string, Conversation>();
  readonly #latencyMs: number;
  lookups = 0;

  constructor(latencyMs: number) {
    this.#latencyMs = latencyMs;
  }

  async participants(id: string): Promise<readonly string[] | undefined> {
    return (await this.participantsOfAll([id]))[0];
  }

  async participantsOfAll(ids: readonly string[]): Promise<(readonly string[] | undefined)[]> {
    this.lookups++;
    await delay(this.#latencyMs);
    return ids.map((id) => this.#kept.get(id)?.participants ?? directParticipants(id));
  }

  async create(conversation: Conversation): Promise<void> {
    if (this.#kept.has(conversation.id)) return;
    this.#kept.set(conversation.id, conversation);
    if (this.#kept.size > MAX_KEPT) {
      const [oldest] = this.#kept.keys();
      if (oldest !== undefined) this.#kept.delete(oldest);
    }
  }

  async ofUser(userId: string): Promise<Conversation[]> {
    await delay(this.#latencyMs);
    const found: Conversation[] = [];
    for (const conversation of this.#kept.values()) {
      if (found.length === MAX_LISTED) break;
      if (conversation.participants.includes(userId)) found.push(conversation);
    }
    return found;
  }

  async close(): Promise<void> {
    this.#kept.clear();
  }
}

const SCHEMA = `CREATE TABLE IF NOT EXISTS legacy_conversations (
  id text PRIMARY KEY,
  participants text[] NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
)`;

async function openPostgres(url: string, latencyMs: number): Promise<MembershipStore> {
  const { default: pg } = await import('pg'); // only here: a stub on memory runs without the driver
  const pool = new pg.Pool({ connectionString: url, max: 10, connectionTimeoutMillis: 5_000, query_timeout: 10_000 });
  // An idle connection that the database closes; the query that needs one reports its own failure.
  pool.on('error', (error) => process.stderr.write(`membership: lost a database connection: ${error.message}\n`));
  try {
    await pool.query(SCHEMA);
  } catch (error) {
    // Two stubs that start together on an empty database: the loser of the race finds the table there.
    if ((error as { code?: string }).code !== '23505') {
      await pool.end();
      throw error;
    }
  }
  const store = {
    lookups: 0,
    async participants(id: string) {
      return (await store.participantsOfAll([id]))[0];
    },
    async participantsOfAll(ids: readonly string[]) {
      store.lookups++;
      await delay(latencyMs);
      const { rows } = await pool.query<Conversation>(
        'SELECT id, participants FROM legacy_conversations WHERE id = ANY($1::text[])',
        [ids],
      );
      const kept = new Map(rows.map((row) => [row.id, row.participants]));
      return ids.map((id) => kept.get(id) ?? directParticipants(id));
    },
    async create({ id, participants }: Conversation) {
      await pool.query('INSERT INTO legacy_conversations (id, participants) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
        id,
        participants,
      ]);
    },
    async ofUser(userId: string) {
      const { rows } = await pool.query<Conversation>(
        'SELECT id, participants FROM legacy_conversations WHERE $1 = ANY(participants) ORDER BY created_at LIMIT $2',
        [userId, MAX_LISTED],
      );
      return rows;
    },
    close: () => pool.end(),
  };
  return store;
}

function delay(ms: number): Promise<void> {
  return ms > 0 ? new Promise((resolve) => setTimeout(resolve, ms)) : Promise.resolve();
}
