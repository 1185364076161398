import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { manualClock, systemClock } from '../base/clock.js';
import type { ConversationId } from '../base/ids.js';
import { createTicketSource } from './ask-ticket.js';
import {
  ada,
  bob,
  byTicket,
  c1,
  good,
  granted,
  json,
  keys,
  legacy,
  memberships,
  queried,
  type Seen,
  ticketFor,
} from './ticket.fixture.js';
import { createMemberships, type SourceAnswer } from './ticket.js';

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
