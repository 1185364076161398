// Who the parties of a play are: their ids, tokens, tickets and conversations, from the backend's secret or from a command
// of QA's own. Knows nothing of connections.
import { execFile } from 'node:child_process';
import { createSecretKey, type KeyObject } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { Problem } from '../play/problem.js';
import type { TokenKind } from '../scenario.js';
import type { TicketSpec } from '../values.js';

export interface SignedIn {
  readonly id: string;
  /** Undefined for no token. */
  readonly token: string | undefined;
}

/** So long a `short` token is valid, rounded up to whole seconds. */
export const shortTokenMs = 3_000;

export interface Identity {
  /** Why tickets, expired and short tokens can't be had; undefined where they can. */
  readonly cantSign: string | undefined;
  signIn(name: string, kind: TokenKind): Promise<SignedIn>;
  ticket(spec: TicketSpec): string;
  /** The id of the conversation of these users; it is made where it must be. */
  conversation(users: readonly SignedIn[]): Promise<string>;
}

export interface ConversationOptions {
  /** `{0}` and `{1}` are the users' ids. */
  readonly template: string;
  /** Called with the users' ids, prints the id. */
  readonly command: string | undefined;
  /** The legacy: a conversation of more than two is made there. */
  readonly legacyUrl: string;
}

/** Tokens signed by the runner itself, with the secret of the backend. */
export function secretIdentity(secret: Buffer, conversations: ConversationOptions): Identity {
  const key = createSecretKey(secret);
  const wrong = createSecretKey(Buffer.from('not the secret of this backend, but as long as one'));
  const now = () => Math.floor(Date.now() / 1000);
  const sign = (claims: object, by: KeyObject) => jwt.sign(claims, by, { algorithm: 'HS256', noTimestamp: true });
  return {
    cantSign: undefined,
    async signIn(id, kind) {
      if (kind === 'none') return { id, token: undefined };
      const ttl = { valid: 3_600, expired: -60, forged: 3_600, short: Math.ceil(shortTokenMs / 1000) }[kind];
      return { id, token: sign({ sub: id, name: id, exp: now() + ttl }, kind === 'forged' ? wrong : key) };
    },
    ticket({ user, conversation, participants, audience = 'call', expires = 60, forged = false }) {
      const claims = { conversationId: conversation, participants, sub: user, aud: audience, exp: now() + expires };
      return sign(claims, forged ? wrong : key);
    },
    conversation: (users) => conversationOf(users, conversations),
  };
}

/** `COMMAND NAME` prints a token, or `{"token": …, "userId": …}`. */
export function commandIdentity(command: string, conversations: ConversationOptions): Identity {
  const known = new Map<string, Promise<SignedIn>>();
  const valid = async (name: string): Promise<SignedIn> => {
    const text = (await run(command, [name])).trim();
    const given = text.startsWith('{') ? printedJson(text) : { token: text };
    const sub = given.userId ?? (jwt.decode(given.token ?? '') as { sub?: string } | null)?.sub;
    if (!given.token || !sub) {
      throw new Problem('the token command printed no token with a "sub"; let it print {"token": …, "userId": …}');
    }
    return { id: sub, token: given.token };
  };
  return {
    cantSign: 'needs --jwt-secret-file',
    async signIn(name, kind) {
      const found = known.get(name) ?? valid(name);
      known.set(name, found);
      const { id, token } = await found;
      if (kind === 'none') return { id, token: undefined };
      if (kind === 'forged') return { id, token: `${token?.slice(0, -8)}AAAAAAAA` };
      return { id, token };
    },
    ticket() {
      throw new Problem('tickets need --jwt-secret-file');
    },
    conversation: (users) => conversationOf(users, conversations),
  };
}

/** What a command printed; nothing where it is no JSON. */
function printedJson(text: string): { readonly token?: string; readonly userId?: string } {
  try {
    return JSON.parse(text) as { token?: string; userId?: string };
  } catch {
    return {};
  }
}

async function conversationOf(users: readonly SignedIn[], options: ConversationOptions): Promise<string> {
  const ids = users.map(({ id }) => id);
  if (options.command !== undefined) return (await run(options.command, ids)).trim();
  if (ids.length === 2) return options.template.replace('{0}', ids[0] ?? '').replace('{1}', ids[1] ?? '');
  const response = await fetch(`${options.legacyUrl}/api/conversations`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${users[0]?.token}` },
    body: JSON.stringify({ participants: ids }),
  });
  const { id } = (await response.json().catch(() => ({}))) as { id?: string };
  if (id === undefined) {
    throw new Problem(
      `a conversation of ${ids.length} users could not be made (${response.status}); use --conversation-command`,
    );
  }
  return id;
}

function run(command: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    // By a shell, so that COMMAND may have arguments of its own; ours are passed, not pasted in.
    execFile('sh', ['-c', `${command} "$@"`, 'parity', ...args], { timeout: 30_000 }, (error, stdout) => {
      if (error) reject(new Problem(`${command} failed: ${error.message.split('\n')[0]}`));
      else resolve(stdout);
    });
  });
}
