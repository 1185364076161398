import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import jwt from 'jsonwebtoken';
import { afterEach, describe, expect, it } from 'vitest';
import { manualClock, systemClock } from '../base/clock.js';
import type { ConversationId, UserId } from '../base/ids.js';
import { at, createMemberSource, parsePointer } from './ask-members.js';
import { createTicketSource } from './ask-ticket.js';
import { secretKeys } from './keys.js';
import { createMemberships, type MembershipSource, type SourceAnswer } from './ticket.js';

const SECRET = 'a secret of the legacy and ours';
const keys = secretKeys(Buffer.from(SECRET));
const ada = 'ada' as UserId;
const bob = 'bob' as UserId;
const c1 = 'c1' as ConversationId;
const nowS = () => Math.floor(Date.now() / 1000);
const ticketFor = (sub: string, conversationId: string, more: object = {}, secret = SECRET) =>
  jwt.sign({ conversationId, participants: ['ada', 'bob'], sub, aud: 'call', exp: nowS() + 300, ...more }, secret, {
    noTimestamp: true,
  });
const granted = { kind: 'granted', membership: { participants: ['ada', 'bob'] } };

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

interface Seen {
  readonly request: IncomingMessage;
  readonly body: string;
}

/** A legacy that answers as the test says; `seen` is what it was asked. */
async function legacy(answer: (seen: Seen, response: ServerResponse) => void) {
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

function memberships(source?: MembershipSource, clock = systemClock) {
  const made = createMemberships({ keys, clock, ...(source ? { source } : {}) });
  closing.push(() => made.close());
  return made;
}
const byTicket = (base: URL | null, clock = systemClock) =>
  memberships(createTicketSource({ clock, base: () => base }), clock);

const json = (response: ServerResponse, body: unknown, status = 200) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const queried = (request: IncomingMessage) => new URL(request.url ?? '', 'http://x').searchParams.get('conversationId');

/** Answers single questions and, where `many`, batches, from the token (`token-of-ada`) and the conversation. */
const good =
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

describe('a ticket from the legacy', () => {
  it('one question is one GET with the token of the browser, then the cache answers', async () => {
    const { seen, base } = await legacy(good(true));
    const m = byTicket(new URL('/app/', base));
    const id = 'a b/ö?&' as ConversationId;
    expect(m.cached(ada, id)).toBeUndefined();
    expect(await m.ask('token-of-ada', ada, id)).toEqual(granted);
    expect(seen).toHaveLength(1);
    expect(seen[0]?.request.url).toMatch(/^\/app\/api\/calls\/ticket\?conversationId=/);
    expect(queried(seen[0]!.request)).toBe(id);
    expect(m.cached(ada, id)).toEqual(granted.membership);
    expect(m.cached(bob, id)).toBeUndefined();
  });

  it('questions of one moment go in one request, at most 256, in order', async () => {
    const { seen, base } = await legacy(good(true));
    const m = byTicket(base);
    const answers = await Promise.all(
      Array.from({ length: 300 }, (_, i) => m.ask('token-of-ada', ada, `c${i}` as ConversationId)),
    );
    expect(answers.every((a) => a.kind === 'granted')).toBe(true);
    expect(seen.map(({ request }) => `${request.method} ${request.url}`)).toEqual([
      'POST /api/calls/tickets',
      'POST /api/calls/tickets',
    ]);
    expect(seen.map(({ body }) => JSON.parse(body).requests.length)).toEqual([256, 44]);
  });

  it('long tokens make smaller requests, so that a body limit of 100 kB holds', async () => {
    const { seen, base } = await legacy(({ body }, response) => {
      const count = JSON.parse(body).requests.length;
      json(
        response,
        Array.from({ length: count }, () => ({ status: 403, error: 'no' })),
      );
    });
    const m = byTicket(base);
    const long = 'x'.repeat(4_000);
    await Promise.all(Array.from({ length: 60 }, (_, i) => m.ask(long, ada, `c${i}` as ConversationId)));
    expect(seen.length).toBeGreaterThan(1);
    for (const { body } of seen) expect(body.length).toBeLessThan(100_000);
  });

  it('each of many gets its own answer', async () => {
    const { base } = await legacy(({ body }, response) => {
      const { requests } = JSON.parse(body) as { requests: { conversationId: string }[] };
      const by: Record<string, unknown> = {
        yes: { ticket: ticketFor('ada', 'yes') },
        other: { ticket: ticketFor('ada', 'yes') },
        no: { status: 403, error: 'Not a participant' },
        gone: { status: 404, error: 'x' },
        old: { status: 401, error: 'x' },
        bad: { status: 500, error: 'x' },
        odd: { some: 'thing' },
      };
      json(
        response,
        requests.map(({ conversationId }) => by[conversationId]),
      );
    });
    const m = byTicket(base);
    const ids = ['yes', 'other', 'no', 'gone', 'old', 'bad', 'odd'] as ConversationId[];
    const answers = await Promise.all(ids.map((id) => m.ask('t', ada, id)));
    expect(answers).toEqual([
      granted,
      { kind: 'unavailable', why: "the legacy's ticket does not hold: for another conversation" },
      { kind: 'not-participant' },
      { kind: 'not-participant' },
      { kind: 'token-expired' },
      { kind: 'unavailable', why: 'the legacy answered 500' },
      { kind: 'unavailable', why: "the legacy's answer makes no sense" },
    ]);
  });

  it.each([404, 405, 501, 401])(
    'a legacy that answers %i to many at once is asked one by one from then on',
    async (status) => {
      const { seen, base } = await legacy((one, response) =>
        one.request.method === 'POST' ? json(response, {}, status) : good(false)(one, response),
      );
      const m = byTicket(base);
      const ask = (...ids: string[]) => Promise.all(ids.map((id) => m.ask('token-of-ada', ada, id as ConversationId)));
      expect(await ask('a', 'b')).toEqual([granted, granted]);
      expect(await ask('c', 'd')).toEqual([granted, granted]);
      expect(seen.map(({ request }) => request.method)).toEqual(['POST', 'GET', 'GET', 'GET', 'GET']);
    },
  );

  it('it is asked for many at once again after ten minutes: it may have been updated', async () => {
    const clock = manualClock(Date.now());
    let many = false;
    const { seen, base } = await legacy((one, response) => good(many)(one, response));
    const m = byTicket(base, clock);
    const ask = async (...ids: string[]) => {
      const answers = ids.map((id) => m.ask('token-of-ada', ada, id as ConversationId));
      clock.advance(2);
      await Promise.all(answers);
    };
    await ask('a', 'b');
    many = true;
    await ask('c', 'd');
    clock.advance(600_000);
    await ask('e', 'f');
    expect(seen.map(({ request }) => request.method)).toEqual(['POST', 'GET', 'GET', 'GET', 'GET', 'POST']);
  });

  it('a body limit (413) makes this time singles and then smaller requests', async () => {
    const { seen, base } = await legacy((one, response) =>
      one.body.length > 300 ? json(response, {}, 413) : good(true)(one, response),
    );
    const m = byTicket(base);
    const ask = (from: number) =>
      Promise.all(
        Array.from({ length: 6 }, (_, i) => m.ask('token-of-ada', ada, `conversation-${from + i}` as ConversationId)),
      );
    expect(await ask(0)).toEqual(Array(6).fill(granted));
    const before = seen.length;
    expect(await ask(10)).toEqual(Array(6).fill(granted));
    expect(seen.slice(before).map(({ request }) => request.method)).toEqual(['POST', 'POST', 'POST']);
  });

  it('absolute URLs, and no endpoint for many at once', async () => {
    const { seen, base } = await legacy(good(true));
    const ticketUrl = `${base.origin}/tickets/one`;
    const m = memberships(createTicketSource({ clock: systemClock, base: () => null, ticketUrl, ticketsUrl: null }));
    const ask = (id: string) => m.ask('token-of-ada', ada, id as ConversationId);
    expect(await Promise.all([ask('a'), ask('b')])).toEqual([granted, granted]);
    expect(seen.map(({ request }) => request.url).sort()).toEqual(
      ['a', 'b'].map((id) => `/tickets/one?conversationId=${id}`),
    );
  });

  it('identical questions share one request, under one token each', async () => {
    const { seen, base } = await legacy(({ request }, response) =>
      request.headers.authorization === 'Bearer old'
        ? json(response, {}, 401)
        : json(response, { ticket: ticketFor('ada', 'c1') }),
    );
    const m = byTicket(base);
    expect(await Promise.all([m.ask('t', ada, c1), m.ask('t', ada, c1), m.ask('t', ada, c1)])).toEqual([
      granted,
      granted,
      granted,
    ]);
    expect(seen).toHaveLength(1);
    const c2 = 'c2' as ConversationId;
    expect((await Promise.all([m.ask('old', ada, c2), m.ask('t', ada, c2)]))[0]).toEqual({ kind: 'token-expired' });
  });

  it.each<[what: string, answer: (seen: Seen, r: ServerResponse) => void, expected: object]>([
    ['401', (_, r) => json(r, {}, 401), { kind: 'token-expired' }],
    ['403', (_, r) => json(r, {}, 403), { kind: 'not-participant' }],
    [
      '404 from an endpoint that never answered otherwise',
      (_, r) => json(r, {}, 404),
      {
        kind: 'unavailable',
        why: 'the legacy answers 404 at /api/calls/ticket: if it issues tickets elsewhere give --ticket-url, if it issues none --membership-url',
      },
    ],
    ['429', (_, r) => json(r, {}, 429), { kind: 'unavailable', why: 'the legacy answered 429' }],
    [
      'a redirect',
      (_, r) => void r.writeHead(302, { location: '/login' }).end(),
      { kind: 'unavailable', why: 'the legacy answered 302' },
    ],
    ['a page', (_, r) => void r.end('<html>'), { kind: 'unavailable', why: "the legacy's answer makes no sense" }],
    [
      'no ticket',
      (_, r) => json(r, { ticket: null }),
      { kind: 'unavailable', why: "the legacy's answer makes no sense" },
    ],
    [
      'endless',
      (_, r) => void r.end('x'.repeat(70_000)),
      { kind: 'unavailable', why: 'its answer is over 65536 bytes' },
    ],
    ['cut off', (_, r) => void r.socket?.destroy(), { kind: 'unavailable', why: 'UND_ERR_SOCKET' }],
  ])('%s', async (_, answer, expected) => {
    const { base } = await legacy(answer);
    const m = byTicket(base);
    expect(await m.ask('t', ada, c1)).toEqual(expected);
    expect(m.cached(ada, c1)).toBeUndefined();
  });

  it('a 404 from an endpoint that has refused or granted a ticket before is about the conversation', async () => {
    const statuses = [403, 404];
    const { base } = await legacy((_, r) => json(r, {}, statuses.shift()));
    const m = byTicket(base);
    expect(await m.ask('t', ada, c1)).toEqual({ kind: 'not-participant' });
    expect(await m.ask('t', ada, c1)).toEqual({ kind: 'not-participant' });
  });

  it.each([400, 414, 422, 431])('%i is about the id once the endpoint is known to be there', async (status) => {
    const statuses = [status, 403, status];
    const { base } = await legacy((_, r) => json(r, {}, statuses.shift()));
    const m = byTicket(base);
    expect(await m.ask('t', ada, c1)).toMatchObject({
      kind: 'unavailable',
      why: expect.stringContaining(`answers ${status} at /api/calls/ticket`),
    });
    for (let i = 0; i < 2; i++) expect(await m.ask('t', ada, c1)).toEqual({ kind: 'not-participant' });
  });

  it('a kept connection that the legacy gives up in that moment costs no call', async () => {
    let broken = false;
    const { base } = await legacy((one, r) => {
      if (broken || one.request.url?.endsWith('=c1')) return good(false)(one, r);
      broken = true;
      r.socket?.destroy();
    });
    const m = byTicket(base);
    expect(await m.ask('token-of-ada', ada, c1)).toEqual(granted);
    expect(await m.ask('token-of-ada', ada, 'c2' as ConversationId)).toEqual(granted);
    expect(broken).toBe(true);
  });

  it('a negative answer is not kept: who was just let in gets in', async () => {
    let status = 403;
    const { base } = await legacy((_, r) => json(r, { ticket: ticketFor('ada', 'c1') }, status));
    const m = byTicket(base);
    expect(await m.ask('t', ada, c1)).toEqual({ kind: 'not-participant' });
    status = 200;
    expect(await m.ask('t', ada, c1)).toEqual(granted);
  });

  it.each([
    ['a group', ['ada', 'bob', 'eve']],
    ['a conversation with oneself', ['ada']],
    ['a pair of others', ['eve', 'bob']],
  ])('a ticket for %s carries no call between two: not a participant, as the legacy says', async (_, participants) => {
    const { base } = await legacy((_seen, response) => {
      response.end(JSON.stringify({ ticket: ticketFor('ada', 'c1', { participants }) }));
    });
    const m = memberships(createTicketSource({ clock: systemClock, base: () => base, ticketsUrl: null }));
    expect(await m.ask('token', ada, c1)).toEqual({ kind: 'not-participant' });
    expect(m.cached(ada, c1)).toBeUndefined();
  });

  it('no legacy, a closed port, no token, a token that is no header: unavailable, in words without the token', async () => {
    const why = async (m: ReturnType<typeof memberships>, token: string | undefined) => m.ask(token, ada, c1);
    expect(await why(byTicket(null), 't')).toEqual({ kind: 'unavailable', why: 'no legacy lives' });
    expect(await why(byTicket(new URL('http://127.0.0.1:1')), 't')).toEqual({
      kind: 'unavailable',
      why: 'ECONNREFUSED',
    });
    const { base } = await legacy(good(true));
    expect(await why(byTicket(base), undefined)).toEqual({ kind: 'unavailable', why: 'the browser brought no token' });
    const answer = await why(byTicket(base), 'evil\r\nx: y');
    expect(answer.kind).toBe('unavailable');
    expect(JSON.stringify(answer)).not.toContain('evil');
    expect(await why(memberships(), 't')).toMatchObject({ kind: 'unavailable' });
  });

  it('a legacy that hangs is answered for within 2 s', async () => {
    const { base } = await legacy(() => undefined);
    const m = byTicket(base);
    const started = performance.now();
    const answers = await Promise.all([m.ask('t', ada, c1), m.ask('t', ada, 'c2' as ConversationId)]);
    expect(answers.map(({ kind }) => kind)).toEqual(['unavailable', 'unavailable']);
    expect(performance.now() - started).toBeLessThan(2_000);
  });

  it('an answer that is late for its question serves the next one', async () => {
    const clock = manualClock(Date.now());
    let answer: (said: SourceAnswer) => void = () => undefined;
    const asked = new Promise<SourceAnswer>((resolve) => {
      answer = resolve;
    });
    const m = memberships({ ask: () => asked, close: async () => undefined }, clock);
    const first = m.ask('t', ada, c1);
    clock.advance(1_800);
    expect((await first).kind).toBe('unavailable');
    answer({ kind: 'ticket', ticket: ticketFor('ada', 'c1') });
    await asked;
    await Promise.resolve();
    expect(m.cached(ada, c1)).toEqual(granted.membership);
  });

  it('is kept until 10 s before its end, and an older one never replaces it', async () => {
    const clock = manualClock(Date.now());
    const m = memberships(undefined, clock);
    const end = Math.floor(clock.now() / 1000) + 300;
    m.own(ticketFor('ada', 'c1', { exp: end }), ada, c1);
    m.own(ticketFor('ada', 'c1', { exp: end - 200, participants: ['ada', 'eve'] }), ada, c1);
    clock.advance(end * 1000 - clock.now() - 10_001);
    expect(m.cached(ada, c1)).toEqual(granted.membership);
    clock.advance(1);
    expect(m.cached(ada, c1)).toBeUndefined();
  });

  it('the cache is bounded; what was used least recently goes first', () => {
    const m = createMemberships({ keys, clock: systemClock, most: 2 });
    const add = (id: string) => m.own(ticketFor('ada', id), ada, id as ConversationId);
    add('c1');
    add('c2');
    m.cached(ada, c1);
    add('c3');
    const held = ['c1', 'c2', 'c3'].map((id) => m.cached(ada, id as ConversationId) !== undefined);
    expect(held).toEqual([true, false, true]);
  });
});

describe('threat: an id that the legacy breaks over', () => {
  /** As Postgres would: `breaks` in an id is an error of the whole request. */
  const fragile = (breaks: string, status: number) => (one: Seen, response: ServerResponse) =>
    `${one.body}${queried(one.request) ?? ''}`.includes(breaks)
      ? json(response, {}, status)
      : good(true)(one, response);
  const askAll = (m: ReturnType<typeof memberships>, ids: readonly string[]) =>
    Promise.all(ids.map((id) => m.ask('token-of-ada', ada, id as ConversationId)));

  it.each(['\0', '\n', '\x1b', '\x9f'])(
    'with a control character (%j): asked for, alone, and never "unavailable"',
    async (odd) => {
      const { seen, base } = await legacy((one, response) =>
        queried(one.request)?.includes(odd) ? json(response, {}, 500) : good(true)(one, response),
      );
      const m = byTicket(base);
      expect(await askAll(m, ['a', `c${odd}`, 'b'])).toEqual([granted, { kind: 'not-participant' }, granted]);
      expect(seen.map(({ request }) => request.method).sort()).toEqual(['GET', 'POST']);
    },
  );

  it('a control character is an id like others where the legacy takes it', async () => {
    const { base } = await legacy(good(true));
    expect(await byTicket(base).ask('token-of-ada', ada, 'c\n1' as ConversationId)).toEqual(granted);
  });

  it('the same by the membership URL', async () => {
    const { base } = await legacy((_, r) => json(r, {}, 500));
    const m = memberships(createMemberSource({ base: () => base, template: '/c/{conversationId}', pointer: '/x' }));
    expect(await m.ask('t', ada, 'c\0' as ConversationId)).toEqual({ kind: 'not-participant' });
    expect(await m.ask('t', ada, c1)).toEqual({ kind: 'unavailable', why: 'the legacy answered 500' });
  });

  it.each([
    [500, { kind: 'unavailable', why: 'the legacy answered 500' }],
    [400, { kind: 'not-participant' }],
    [422, { kind: 'not-participant' }],
  ])(
    'of any other kind, answered by %i: those asked beside it get their tickets, now and later',
    async (status, said) => {
      const { seen, base } = await legacy(fragile('no-uuid', status));
      const m = byTicket(base);
      expect(await askAll(m, ['a', 'b'])).toEqual([granted, granted]);
      expect(await askAll(m, ['c', 'no-uuid', 'd'])).toEqual([granted, said, granted]);
      expect(await askAll(m, ['e', 'f'])).toEqual([granted, granted]);
      expect(seen.map(({ request }) => request.method)).toEqual(['POST', 'POST', 'GET', 'GET', 'GET', 'POST']);
    },
  );

  it.each([502, 503, 504, 429])('a legacy that is down (%i) is not asked for each', async (status) => {
    const { seen, base } = await legacy((_, r) => json(r, {}, status));
    const unwell = { kind: 'unavailable', why: `the legacy answered ${status}` };
    expect(await askAll(byTicket(base), ['a', 'b'])).toEqual([unwell, unwell]);
    expect(seen).toHaveLength(1);
  });
});

describe('threat: a client brings a ticket that gives it nothing', () => {
  const m = memberships();
  const part = (token: string, i: number) => token.split('.')[i];

  it('its own is accepted', () => {
    expect(m.own(ticketFor('ada', 'c1'), ada, c1)).toEqual(granted.membership);
    expect(m.own(ticketFor('7', 'c1', { participants: [7, 'bob'], sub: '7' }), '7' as UserId, c1)).toEqual({
      participants: ['7', 'bob'],
    });
  });

  it.each<[threat: string, ticket: string]>([
    ["another user's", ticketFor('bob', 'c1')],
    ["another conversation's", ticketFor('ada', 'c2')],
    ['expired', ticketFor('ada', 'c1', { exp: nowS() - 10 })],
    [
      'without an end',
      jwt.sign({ conversationId: 'c1', participants: ['ada', 'bob'], sub: 'ada', aud: 'call' }, SECRET),
    ],
    ['forged', ticketFor('ada', 'c1', {}, 'another secret')],
    ['for another audience', ticketFor('ada', 'c1', { aud: 'web' })],
    ['a login token', jwt.sign({ sub: 'ada', exp: nowS() + 300 }, SECRET)],
    [
      'a login token with claims of a ticket',
      jwt.sign({ sub: 'ada', conversationId: 'c1', participants: ['ada', 'bob'], exp: nowS() + 300 }, SECRET),
    ],
    ['participants without the user', ticketFor('ada', 'c1', { participants: ['eve', 'bob'] })],
    ['one participant', ticketFor('ada', 'c1', { participants: ['ada'] })],
    ['the user twice', ticketFor('ada', 'c1', { participants: ['ada', 'ada'] })],
    ['three participants', ticketFor('ada', 'c1', { participants: ['ada', 'bob', 'eve'] })],
    ['a pair written three times', ticketFor('ada', 'c1', { participants: ['ada', 'bob', 'bob'] })],
    ['an empty participant', ticketFor('ada', 'c1', { participants: ['ada', ''] })],
    ['a participant that is no id', ticketFor('ada', 'c1', { participants: ['ada', { id: 'bob' }] })],
    ['participants that are no list', ticketFor('ada', 'c1', { participants: 'ada,bob' })],
    ['no participants', ticketFor('ada', 'c1', { participants: undefined })],
    ['alg none', `${Buffer.from('{"alg":"none"}').toString('base64url')}.${part(ticketFor('ada', 'c1'), 1)}.`],
    ['nonsense', 'nonsense'],
    ['empty', ''],
  ])('%s', (_, ticket) => {
    const fresh = memberships();
    expect(fresh.own(ticket, ada, c1)).toBeUndefined();
    expect(fresh.cached(ada, c1)).toBeUndefined();
  });

  it('user and conversation can not be shifted into one another in the cache', () => {
    const fresh = memberships();
    fresh.own(ticketFor('ada', '1:x'), ada, '1:x' as ConversationId);
    expect(fresh.cached('ada1:' as UserId, 'x' as ConversationId)).toBeUndefined();
    expect(fresh.cached('ad' as UserId, 'a1:x' as ConversationId)).toBeUndefined();
  });
});

describe("membership from a legacy's own endpoint", () => {
  const members = (base: URL, more: object = {}) =>
    createMemberSource({
      base: () => base,
      template: '/api/conversations/{conversationId}',
      pointer: '/participants/*/id',
      ...more,
    });
  const list = (...ids: unknown[]) => ({ participants: ids.map((id) => ({ id })) });

  it("asks with the browser's own token and keeps the answer for a minute", async () => {
    const clock = manualClock();
    const { seen, base } = await legacy((_, r) => json(r, list('ada', 'bob')));
    const m = memberships(members(base), clock);
    expect(await m.ask('t', ada, 'a b/c' as ConversationId)).toEqual(granted);
    expect(seen[0]?.request.url).toBe('/api/conversations/a%20b%2Fc');
    expect(seen[0]?.request.headers.authorization).toBe('Bearer t');
    clock.advance(59_999);
    expect(m.cached(ada, 'a b/c' as ConversationId)).toEqual(granted.membership);
    clock.advance(1);
    expect(m.cached(ada, 'a b/c' as ConversationId)).toBeUndefined();
  });

  it('numbers are ids too, and a whole URL and a query work', async () => {
    const { seen, base } = await legacy((_, r) => json(r, { data: [1, 2] }));
    const template = `${base.origin}/find?c={conversationId}&x=1`;
    const m = memberships(members(base, { template, pointer: '/data/*' }));
    expect(await m.ask('t', '2' as UserId, 'a&b' as ConversationId)).toEqual({
      kind: 'granted',
      membership: { participants: ['1', '2'] },
    });
    expect(seen[0]?.request.url).toBe('/find?c=a%26b&x=1');
  });

  it('threat: with a service token everything can be read: only participants are granted', async () => {
    const { seen, base } = await legacy((_, r) => json(r, list('bob', 'eve')));
    const m = memberships(members(base, { serviceToken: 'service' }));
    expect(await m.ask(undefined, ada, c1)).toEqual({ kind: 'not-participant' });
    expect(seen[0]?.request.headers.authorization).toBe('Bearer service');
  });

  it('threat: an id that climbs out of its place in the path', async () => {
    const { seen, base } = await legacy((_, r) => json(r, list('ada', 'bob')));
    const m = memberships(members(base));
    for (const id of ['.', '..', '%2e%2e', '../../admin', '\ud800']) {
      const answer = await m.ask('t', ada, id as ConversationId);
      if (id === '%2e%2e' || id === '../../admin') expect(answer).toEqual(granted);
      else expect(answer).toEqual({ kind: 'not-participant' });
    }
    expect(seen.map(({ request }) => request.url)).toEqual([
      '/api/conversations/%252e%252e',
      '/api/conversations/..%2F..%2Fadmin',
    ]);
  });

  it.each<[what: string, body: unknown, status: number, service: boolean, expected: object]>([
    ['403', {}, 403, false, { kind: 'not-participant' }],
    ['404', {}, 404, false, { kind: 'unavailable' }],
    ['401', {}, 401, false, { kind: 'token-expired' }],
    ['401 to a service token', {}, 401, true, { kind: 'unavailable' }],
    ['500', {}, 500, false, { kind: 'unavailable' }],
    ['a group', list('ada', 'bob', 'eve'), 200, false, { kind: 'not-participant' }],
    ['alone', list('ada'), 200, false, { kind: 'not-participant' }],
    ['twice the same', list('ada', 'ada'), 200, false, { kind: 'not-participant' }],
    ['a row for each device', list('ada', 'bob', 'ada', 'bob'), 200, false, granted],
    ['ids of another shape', list({ x: 1 }, 'ada'), 200, false, { kind: 'unavailable' }],
    ['nothing there', { members: [] }, 200, false, { kind: 'unavailable' }],
    ['a text', 'participants', 200, false, { kind: 'unavailable' }],
  ])('%s', async (_, body, status, service, expected) => {
    const { base } = await legacy((__, r) => json(r, body, status));
    const m = memberships(members(base, service ? { serviceToken: 's' } : {}));
    expect(await m.ask('t', ada, c1)).toMatchObject(expected);
  });

  it.each([400, 404, 414, 422, 431])(
    '%i is about the URL until it has shown or refused a conversation',
    async (status) => {
      for (const shows of [{ status: 200, body: list('ada', 'bob') }, { status: 403 }]) {
        const answers: { status: number; body?: unknown }[] = [
          { status },
          { status: 200, body: {} },
          { status },
          shows,
        ];
        const { base } = await legacy((_, r) => {
          const { status: code, body = {} } = answers.shift() ?? { status };
          json(r, body, code);
        });
        const template = `${base.protocol}//operator:secret@${base.host}/c/{conversationId}?by=sigfig`;
        const m = memberships(members(base, { template }));
        const ask = (id: string) => m.ask('t', ada, id as ConversationId);
        const missing = {
          kind: 'unavailable',
          why: `the legacy answers ${status} at /c/{conversationId} and has shown no conversation there yet: is --membership-url right?`,
        };
        expect(await ask('c0')).toEqual(missing);
        // A page that answers any path shows nothing.
        expect(await ask('c0')).toMatchObject({ kind: 'unavailable' });
        expect(await ask('c0')).toEqual(missing);
        await ask('c1');
        for (let i = 0; i < 2; i++) expect(await ask('c2')).toEqual({ kind: 'not-participant' });
      }
    },
  );

  it('a template or a path that can not work is one clear line at the start', () => {
    const make = (template: string, pointer = '/x') => createMemberSource({ base: () => null, template, pointer });
    expect(() => make('/api/x')).toThrow(/lacks \{conversationId\}/);
    expect(() => make('api/{conversationId}')).toThrow(/must start with/);
    expect(() => make('https://{conversationId}.example.org/')).toThrow(/in its host/);
    expect(() => make('/a/../{conversationId}')).toThrow(/percent-encoded/);
    expect(() => make('/{conversationId}', 'participants')).toThrow(/must start with \//);
  });

  it('the path into the JSON', () => {
    const json = { a: [{ 'x/y': 1 }, { 'x/y': 2 }, {}], '*': 3 };
    const ids = (pointer: string) => at(json, parsePointer(pointer));
    expect(ids('/a/*/x~1y')).toEqual([1, 2]);
    expect(ids('/a/1/x~1y')).toEqual([2]);
    expect(ids('/*')).toEqual([3]);
    expect(ids('/constructor/name')).toEqual([]);
    expect(ids('/a/length')).toEqual([]);
  });
});
