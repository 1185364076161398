import { createSecretKey } from 'node:crypto';
import jwt from 'jsonwebtoken';
import { afterEach, describe, expect, it } from 'vitest';
import { type Legacy, type LegacyOptions, startLegacy } from './server.js';
import { type Clients, clientsOf } from './test-clients.js';

const SECRET = 'a secret that both sides know';
let legacy: Legacy;
let clients: Clients;

async function start(options: LegacyOptions = {}): Promise<void> {
  legacy = await startLegacy({ jwtSecret: SECRET, ...options });
  clients = clientsOf(legacy);
}

afterEach(async () => {
  clients.close();
  await legacy.close();
});

const claimsOf = (ticket: string) =>
  jwt.verify(ticket, createSecretKey(Buffer.from(SECRET)), { audience: 'call', algorithms: ['HS256'] });
const path = '/api/calls/ticket?conversationId=';
const expired = () => jwt.sign({ sub: 'alice', exp: Math.floor(Date.now() / 1000) - 1 }, SECRET);

describe('a ticket', () => {
  it('says who takes part, signed with the secret of the tokens', async () => {
    await start({ ticketTtlMs: 90_000 });
    const answer = await clients.request('bob', 'GET', `${path}dm:alice:bob`);
    expect(answer.status).toBe(200);
    const { ticket } = (await answer.json()) as { ticket: string };
    const now = Math.floor(Date.now() / 1000);
    expect(claimsOf(ticket)).toMatchObject({
      conversationId: 'dm:alice:bob',
      participants: ['alice', 'bob'],
      sub: 'bob',
      aud: 'call',
    });
    const { exp } = claimsOf(ticket) as jwt.JwtPayload;
    expect(exp).toBeGreaterThan(now + 85);
    expect(exp).toBeLessThanOrEqual(now + 91);
    expect(legacy.membership.lookups).toBe(1);
  });

  it.each([
    ['no token', undefined, 401, 'unauthorized'],
    ['a forged token', 'x.y.z', 401, 'unauthorized'],
    ['a token of another secret', jwt.sign({ sub: 'alice' }, 'another'), 401, 'unauthorized'],
    ['an unsigned token', jwt.sign({ sub: 'alice' }, null, { algorithm: 'none' }), 401, 'unauthorized'],
    ['an expired token', expired(), 401, 'unauthorized'],
    ['a ticket for a token', jwt.sign({ sub: 'alice', aud: 'call' }, SECRET), 401, 'unauthorized'],
    ['an outsider', jwt.sign({ sub: 'carol' }, SECRET), 403, 'Not a participant'],
  ])('is refused to %s', async (_, token, status, error) => {
    await start();
    const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const answer = await fetch(`${legacy.url}${path}dm:alice:bob`, { headers });
    expect([answer.status, await answer.json()]).toEqual([status, { error }]);
  });

  it('needs a conversation', async () => {
    await start();
    for (const query of ['', '?conversationId=']) {
      expect((await clients.request('alice', 'GET', `/api/calls/ticket${query}`)).status).toBe(400);
    }
    expect((await clients.request('alice', 'GET', `${path}unknown`)).status).toBe(403);
  });

  it('is not to be had from a legacy without them', async () => {
    await start({ tickets: false });
    expect((await clients.request('alice', 'GET', `${path}dm:alice:bob`)).status).toBe(404);
    expect((await clients.request('alice', 'POST', '/api/calls/tickets', { requests: [] })).status).toBe(404);
    const shown = await clients.request('alice', 'GET', '/api/conversations/dm:alice:bob');
    expect(await shown.json()).toEqual({ id: 'dm:alice:bob', participants: [{ id: 'alice' }, { id: 'bob' }] });
  });
});

describe('many tickets at once', () => {
  const ask = (requests: unknown) =>
    fetch(`${legacy.url}/api/calls/tickets`, { method: 'POST', body: JSON.stringify({ requests }) });

  it('come in the order of the requests, for one lookup', async () => {
    await start({ membershipLatencyMs: 20 });
    const [alice, carol] = [clients.token('alice'), clients.token('carol')];
    const started = performance.now();
    const answer = await ask([
      { token: alice, conversationId: 'dm:alice:bob' },
      { token: carol, conversationId: 'dm:alice:bob' },
      { token: expired(), conversationId: 'dm:alice:bob' },
      { token: alice, conversationId: 'dm:alice:carol' },
      { token: alice },
      null,
      { token: alice, conversationId: 'unknown' },
    ]);
    expect(performance.now() - started).toBeGreaterThan(18);
    const { tickets } = (await answer.json()) as { tickets: { ticket?: string }[] };
    const refused = { status: 403, error: 'Not a participant' };
    const unauthorized = { status: 401, error: 'unauthorized' };
    const ticket = { ticket: expect.any(String) };
    expect(tickets).toEqual([ticket, refused, unauthorized, ticket, refused, unauthorized, refused]);
    expect(claimsOf(tickets[3]?.ticket ?? '')).toMatchObject({ participants: ['alice', 'carol'], sub: 'alice' });
    expect(legacy.membership.lookups).toBe(1);
  });

  it('are at most 256', async () => {
    await start();
    const request = { token: clients.token('alice'), conversationId: 'dm:alice:bob' };
    const full = await ask(Array(256).fill(request));
    expect(((await full.json()) as { tickets: unknown[] }).tickets).toHaveLength(256);
    for (const requests of [Array(257).fill(request), 'all', undefined]) {
      expect((await ask(requests)).status).toBe(400);
    }
  });
});
