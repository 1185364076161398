import type { ServerResponse } from 'node:http';
import jwt from 'jsonwebtoken';
import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConversationId, UserId } from '../base/ids.js';
import { at, createMemberSource, parsePointer } from './ask-members.js';
import {
  ada,
  byTicket,
  c1,
  good,
  granted,
  json,
  legacy,
  memberships,
  nowS,
  queried,
  SECRET,
  type Seen,
  ticketFor,
} from './ticket.fixture.js';

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
