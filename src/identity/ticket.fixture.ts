// A legacy that a test answers for, with tickets of its own making. What was started is closed after each test.
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import jwt from 'jsonwebtoken';
import { afterEach } from 'vitest';
import { systemClock } from '../base/clock.js';
import type { ConversationId, UserId } from '../base/ids.js';
import { createTicketSource } from './ask-ticket.js';
import { secretKeys } from './keys.js';
import { createMemberships, type MembershipSource } from './ticket.js';

export const SECRET = 'a secret of the legacy and ours';
export const keys = secretKeys(Buffer.from(SECRET));
export const ada = 'ada' as UserId;
export const bob = 'bob' as UserId;
export const c1 = 'c1' as ConversationId;
export const nowS = () => Math.floor(Date.now() / 1000);
export const ticketFor = (sub: string, conversationId: string, more: object = {}, secret = SECRET) =>
  jwt.sign({ conversationId, participants: ['ada', 'bob'], sub, aud: 'call', exp: nowS() + 300, ...more }, secret, {
    noTimestamp: true,
  });
export const granted = { kind: 'granted', membership: { participants: ['ada', 'bob'] } };

export const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

export interface Seen {
  readonly request: IncomingMessage;
  readonly body: string;
}

/** A legacy that answers as the test says; `seen` is what it was asked. */
export async function legacy(answer: (seen: Seen, response: ServerResponse) => void) {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (part: Buffer) => {
      body += part.toString();
    });
    request.on('end', () => {
      seen.push({ request, body });
      answer({ request, body }, response);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { seen, base: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`) };
}

export function memberships(source?: MembershipSource, clock = systemClock) {
  const made = createMemberships({ keys, clock, ...(source ? { source } : {}) });
  closing.push(() => made.close());
  return made;
}
export const byTicket = (base: URL | null, clock = systemClock) =>
  memberships(createTicketSource({ clock, base: () => base }), clock);

export const json = (response: ServerResponse, body: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
export const queried = (request: IncomingMessage) =>
  new URL(request.url ?? '', 'http://x').searchParams.get('conversationId');

/** Answers single questions and, where `many`, batches, from the token (`token-of-ada`) and the conversation. */
export const good =
  (many: boolean) =>
  ({ request, body }: Seen, response: ServerResponse) => {
    if (request.method === 'POST') {
      if (!many) return json(response, { error: 'no such endpoint' }, 404);
      const { requests } = JSON.parse(body) as { requests: { token: string; conversationId: string }[] };
      return json(response, {
        tickets: requests.map(({ token, conversationId }) => ({ ticket: ticketFor(token.slice(9), conversationId) })),
      });
    }
    const user = request.headers.authorization?.replace('Bearer token-of-', '') ?? '';
    return json(response, { ticket: ticketFor(user, queried(request) ?? '') });
  };
