// The guard in the whole proxy: faults are injected where they happen in production (the legacy that grants tickets, the
// store), and the group goes back to the legacy by itself. Unit tests of its limits: src/control/guard.test.ts.
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { GuardBody, HistoryBody, StatusBody } from '../../src/admin/api.js';
import type { Flags } from '../../src/config.js';
import type * as Memory from '../../src/store/memory.js';
import { type Client, connect, type Stack, startStack, until } from '../harness.js';
import { faults, faulty } from './faults.js';

vi.mock('../../src/store/memory.js', async (original) => {
  const { memorySessionStore } = await original<typeof Memory>();
  return { memorySessionStore: () => faulty(memorySessionStore()) };
});

const closing: (() => unknown)[] = [];
afterEach(async () => {
  Object.assign(faults, { failing: false, slowMs: 0 });
  for (const close of closing.splice(0).reverse()) await close();
});

/** All groups on `new`, with limits that a test reaches; a machine that is busy is not what is tested. */
const guarded = (limits = ', max-p99: 10s') => `namespaces:
  /:
    call-lifecycle: { mode: new, guard: { window: 60s, min-samples: 10${limits} } }
    ice-candidate: { mode: new, guard: { window: 60s, min-samples: 10${limits} } }
    call-renegotiation: { mode: new, guard: { window: 60s, min-samples: 10${limits} } }
`;

const canary = `namespaces:
  /: { call-lifecycle: { mode: canary, percent: 100, guard: { window: 60s, min-samples: 10, max-p99: 10s } } }
`;

async function stack(routes: string, flags: Flags = {}): Promise<Stack> {
  const started = await startStack({ routes, flags });
  closing.push(() => started.close());
  return started;
}

let pairs = 0;
interface Pair {
  readonly a: Client;
  readonly b: Client;
  readonly conversationId: string;
}

async function pair(base: string, ns = '/'): Promise<Pair> {
  const name = `pair${++pairs}`;
  const [a, b] = await Promise.all([
    connect(base, `${name}-a`, { ns, transports: ['websocket'] }),
    connect(base, `${name}-b`, { ns, transports: ['websocket'] }),
  ]);
  closing.push(
    () => a.close(),
    () => b.close(),
  );
  return { a, b, conversationId: `dm:${name}-a:${name}-b` };
}

/**
 * Offers and ends as many calls, one after the other, and answers how the offers were acknowledged. With the tenth the guard may
 * look at any moment, so no test plays on where it matters who serves.
 */
async function offers({ a, conversationId }: Pair, count: number): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (let i = 0; i < count; i++) {
    answers.push(await a.ask('call-offer', { conversationId, offer: `offer ${i}` }));
    await a.ask('call-end', { conversationId });
  }
  return answers;
}

const pairsOf = (base: string, count = 3, ns = '/') => Promise.all(Array.from({ length: count }, () => pair(base, ns)));

/** The same from several users in turn: a fault that meets one of them only says nothing of the path. */
async function spread(among: readonly Pair[], count: number): Promise<unknown[]> {
  const answers: unknown[] = [];
  for (let i = 0; i < count; i++) answers.push(...(await offers(among[i % among.length] as Pair, 1)));
  return answers;
}

async function json<T>(url: string): Promise<T> {
  const response = await fetch(url);
  expect(response.status).toBe(200);
  return (await response.json()) as T;
}
const guardOf = async ({ proxy }: Pick<Stack, 'proxy'>, ns = '/'): Promise<GuardBody | undefined> =>
  (await json<StatusBody>(`${proxy.adminUrl}/api/status`)).guard.find(
    (one) => one.ns === ns && one.group === 'call-lifecycle',
  );
const historyOf = async ({ proxy }: Pick<Stack, 'proxy'>) =>
  (await json<HistoryBody>(`${proxy.adminUrl}/api/routes/history`)).versions;
const tripped = (on: Pick<Stack, 'proxy'>, ns?: string) =>
  until(async () => (await guardOf(on, ns))?.state === 'tripped', 'the guard has tripped');

/** The guard looks at all that there is at once: when this namespace has tripped, it has seen the others as well. */
const witness = '  /calls: { call-lifecycle: { mode: new, guard: { window: 60s, min-samples: 1 } } }\n';
async function looked(on: Stack): Promise<void> {
  const callers = await pairsOf(on.proxy.url, 2, '/calls');
  faults.failing = true;
  await spread(callers, 2);
  await tripped(on, '/calls');
}

/** Stands before the legacy's ticket endpoint, and answers 500 once told to; where a text is given, to what holds it. */
async function ticketDesk(legacyUrl: () => string): Promise<{ readonly url: string; fail(over?: string): void }> {
  let failing: string | undefined;
  const server: Server = createServer((request, response) => {
    if (failing !== undefined && request.url?.includes(failing)) {
      response.writeHead(500).end();
      return;
    }
    const { authorization = '' } = request.headers;
    fetch(`${legacyUrl()}${request.url}`, { headers: { authorization } })
      .then(async (answer) => {
        response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text());
      })
      .catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => new Promise((resolve) => server.close(resolve)));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/calls/ticket`,
    fail: (over = '') => {
      failing = over;
    },
  };
}

const unavailable = { ok: false, error: 'Signaling is unavailable, try again' };
const internal = { ok: false, error: 'Internal error' };
const fine = { ok: true };

describe('a store that breaks', () => {
  it('takes the calls back to the legacy as a version of its own, and a live call stays where it is', async () => {
    const on = await stack(guarded());
    const live = await pair(on.proxy.url);
    expect(await live.a.ask('call-offer', { conversationId: live.conversationId, offer: 'o' })).toEqual(fine);
    await live.b.next('call-offer');
    expect(await live.b.ask('call-answer', { conversationId: live.conversationId, answer: 'a' })).toEqual([]);
    const callers = await pairsOf(on.proxy.url);
    const others = callers[0] as Pair;
    faults.failing = true;
    expect(await spread(callers, 10)).toEqual(Array.from({ length: 10 }, () => internal));
    await tripped(on);

    const [version, first] = await historyOf(on);
    expect(version).toMatchObject({ version: 2, kind: 'guard', actor: 'guard', via: 'guard' });
    expect(version?.reason).toMatch(
      /^call-(offer|end): \d+ of \d+ \(.* %, limit 1 %\) ended in an internal error, in the last 60 s$/,
    );
    expect(version?.differences.map(({ group, after }) => [group, after.mode])).toEqual([
      ['call-lifecycle', 'legacy'],
      ['ice-candidate', 'legacy'],
      ['call-renegotiation', 'legacy'],
    ]);
    expect(first).toMatchObject({ version: 1, kind: 'start' });
    expect(await guardOf(on)).toMatchObject({ state: 'tripped', reason: version?.reason, trippedAt: version?.at });
    expect(await on.proxy.metric('sigfig_guard_tripped_total', { group: 'call-lifecycle' })).toBe(1);
    const state = { ns: '/', group: 'call-lifecycle', state: 'tripped' };
    expect(await on.proxy.metric('sigfig_guard_state', state)).toBe(1);
    expect(on.proxy.log()).toMatch(/guard tripped: back to the legacy/);

    // The legacy has the next one, with the store still broken; the live one goes on here, where nothing needs saving.
    expect(await others.a.ask('call-offer', { conversationId: others.conversationId, offer: 'again' })).toEqual(fine);
    expect(await others.b.next('call-offer')).toMatchObject({ offer: 'again' });
    live.a.socket.emit('ice-candidate', { conversationId: live.conversationId, iceCandidate: 'c' });
    expect(await live.b.next('ice-candidate')).toBe('c');
    expect(await on.proxy.metric('sigfig_events_decided_total', { path: 'new', because: 'owned' })).toBeGreaterThan(0);
  });

  it('under a canary nobody notices, since offers fall back, and it goes back all the same', async () => {
    const on = await stack(canary);
    faults.failing = true;
    expect(await spread(await pairsOf(on.proxy.url), 10)).toEqual(Array.from({ length: 10 }, () => fine));
    expect(await on.proxy.metric('sigfig_events_decided_total', { because: 'fallback' })).toBe(10);
    await tripped(on);
    expect((await historyOf(on))[0]?.reason).toMatch(
      /^call-offer: 10 of 10 \(100 %, limit 1 %\) ended in an internal error/,
    );
  });

  it('with too few events nothing is concluded, and nothing flips', async () => {
    const on = await stack(guarded() + witness);
    const callers = await pair(on.proxy.url);
    faults.failing = true;
    // 4 offers that fail and 4 ends that find no call.
    await offers(callers, 4);
    await looked(on);
    expect(await guardOf(on)).toMatchObject({
      state: 'inconclusive',
      figures: { event: 'call-offer', samples: 4, errors: 4 },
      trippedAt: null,
      reason: null,
    });
    expect((await historyOf(on)).map(({ differences }) => differences.map(({ ns }) => ns))).toEqual([
      ['/calls'],
      ['/', '/', '/', '/calls'],
    ]);
  });
});

describe('a legacy that grants no tickets any more', () => {
  it('takes the calls back to the legacy', async () => {
    const front = { legacy: '' };
    const desk = await ticketDesk(() => front.legacy);
    const on = await stack(guarded(), { 'ticket-url': desk.url, 'tickets-url': 'none' });
    front.legacy = on.legacy.url;
    // Each pair's participants are learnt once, and kept.
    const [before, ...after] = await Promise.all(Array.from({ length: 3 }, () => pair(on.proxy.url)));
    expect(await offers(before as Pair, 2)).toEqual([fine, fine]);
    desk.fail();
    for (const callers of after) expect(await offers(callers, 4)).toEqual(Array.from({ length: 4 }, () => unavailable));
    await tripped(on);
    expect((await historyOf(on))[0]?.reason).toMatch(/^call-offer: 8 of 10 \(80 %, limit 5 %\) could not be served/);
    expect(await offers(after[0] as Pair, 1)).toEqual([fine]);
  });

  it('with a canary that falls back nobody notices, and it goes back all the same', async () => {
    const front = { legacy: '' };
    const desk = await ticketDesk(() => front.legacy);
    const on = await stack(canary, { 'ticket-url': desk.url, 'tickets-url': 'none' });
    front.legacy = on.legacy.url;
    desk.fail();
    expect(await spread(await pairsOf(on.proxy.url), 10)).toEqual(Array.from({ length: 10 }, () => fine));
    expect(await on.proxy.metric('sigfig_events_decided_total', { because: 'fallback' })).toBe(10);
    await tripped(on);
    expect((await historyOf(on))[0]?.differences).toMatchObject([
      { before: { mode: 'canary' }, after: { mode: 'legacy' } },
    ]);
  });
});

it('a membership URL that is wrong takes no call from the legacy, and goes back', async () => {
  const on = await stack(canary, {
    'membership-url': '/api/conversationz/{conversationId}',
    'membership-participants': '/participants/*/id',
  });
  expect(await spread(await pairsOf(on.proxy.url), 10)).toEqual(Array.from({ length: 10 }, () => fine));
  expect(await on.proxy.metric('sigfig_events_decided_total', { because: 'fallback' })).toBe(10);
  await tripped(on);
  expect((await historyOf(on))[0]).toMatchObject({
    kind: 'guard',
    reason: expect.stringMatching(/^call-offer: 10 of 10/),
  });
});

describe('slow serving', () => {
  it('takes the calls back to the legacy', async () => {
    const on = await stack(guarded(', max-p99: 20ms'));
    const callers = await pairsOf(on.proxy.url);
    faults.slowMs = 60;
    expect(await spread(callers, 12)).toEqual(Array.from({ length: 12 }, () => fine));
    await tripped(on);
    expect((await historyOf(on))[0]?.reason).toMatch(
      /^call-(offer|end): serving took \d+(\.\d+)? ms at the 99th percentile of \d+ \(limit 20 ms\), in the last 60 s$/,
    );
  });
});

describe('threat: a browser that wants the calls back on the legacy', () => {
  it('gets its refusals, and trips nothing', async () => {
    const on = await stack(guarded() + witness);
    const { a, b, conversationId } = await pair(on.proxy.url);
    let deep: unknown = 'bottom';
    for (let i = 0; i < 2_000; i++) deep = [deep];
    for (let i = 0; i < 20; i++) {
      expect(await a.ask('call-offer', { conversationId, offer: deep })).toEqual(internal);
      await a.ask('call-offer', { conversationId: 'dm:x:y', offer: i });
      await b.ask('call-end', {});
    }
    await looked(on);
    expect(await guardOf(on)).toMatchObject({ state: 'well', figures: { errors: 0, refusals: 0 } });
  });
});

describe('threat: one browser, or one conversation, for which nothing works', () => {
  it.each([
    ['refused', guarded],
    ['left to the legacy', () => canary],
  ])(
    'ids that the ticket endpoint breaks over, %s: nothing trips; when it fails for all it does',
    async (_name, routes) => {
      const front = { legacy: '' };
      const desk = await ticketDesk(() => front.legacy);
      const on = await stack(routes() + witness, { 'ticket-url': desk.url, 'tickets-url': 'none' });
      front.legacy = on.legacy.url;
      const mallory = await pair(on.proxy.url);
      const others = await pairsOf(on.proxy.url);
      desk.fail('no-uuid');
      for (let i = 0; i < 30; i++) await mallory.a.ask('call-offer', { conversationId: `no-uuid-${i}`, offer: 'o' });
      await looked(on);
      faults.failing = false;
      expect(await guardOf(on)).toMatchObject({ state: 'inconclusive', figures: { samples: 30, refusals: 30 } });
      desk.fail();
      await spread(others, 30);
      await tripped(on);
    },
  );

  it('a conversation that can not be saved, whichever of its two users tries', async () => {
    const on = await stack(guarded() + witness);
    const { a, b, conversationId } = await pair(on.proxy.url);
    faults.failing = conversationId;
    for (let i = 0; i < 10; i++) {
      for (const user of [a, b]) expect(await user.ask('call-offer', { conversationId, offer: i })).toEqual(internal);
    }
    await looked(on);
    expect(await guardOf(on)).toMatchObject({ state: 'inconclusive', figures: { samples: 20, errors: 20 } });
  });

  it('serving that is slow for one user only', async () => {
    const on = await stack(guarded(', max-p99: 20ms') + witness);
    const callers = await pair(on.proxy.url);
    faults.slowMs = 60;
    expect(await offers(callers, 12)).toEqual(Array.from({ length: 12 }, () => fine));
    await looked(on);
    expect(await guardOf(on)).toMatchObject({
      ...{ state: 'inconclusive', figures: { samples: 12 }, trippedAt: null },
      reason: expect.stringMatching(/^call-offer: serving took .*; most of it one user's or one conversation's, and/),
    });
  });

  it('control characters in the id', async () => {
    const front = { legacy: '' };
    const desk = await ticketDesk(() => front.legacy);
    const on = await stack(guarded() + witness, { 'ticket-url': desk.url });
    front.legacy = on.legacy.url;
    const { a } = await pair(on.proxy.url);
    desk.fail('%00');
    for (let i = 0; i < 20; i++) {
      expect(await a.ask('call-offer', { conversationId: `c\0${i}`, offer: 'o' })).toEqual({
        ok: false,
        error: 'Not a participant',
      });
    }
    await looked(on);
    expect(await guardOf(on)).toMatchObject({ state: 'well', figures: { samples: 20, errors: 0, refusals: 0 } });
  });
});

describe('once tripped', () => {
  it('it is so after a restart, and until an operator changes the group', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sigfig-guard-'));
    closing.push(() => rm(folder, { recursive: true, force: true }));
    const routes = join(folder, 'kept.yaml');
    await writeFile(routes, guarded());
    const before = await startStack({ flags: { routes } });
    try {
      faults.failing = true;
      await spread(await pairsOf(before.proxy.url), 12);
      await tripped(before);
    } finally {
      await before.close();
    }
    faults.failing = false;

    const after = await startStack({ flags: { routes } });
    closing.push(() => after.close());
    const restored = await guardOf(after);
    expect(restored).toMatchObject({ state: 'tripped', reason: expect.stringMatching(/ended in an internal error/) });
    expect((await historyOf(after))[0]).toMatchObject({ version: 2, kind: 'guard', at: restored?.trippedAt });
    expect(await offers(await pair(after.proxy.url), 1)).toEqual([fine]);
    expect(await after.proxy.metric('sigfig_calls_began_total', { path: 'legacy' })).toBe(1);

    const set = await fetch(`${after.proxy.adminUrl}/api/routes/set`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ target: 'calls', mode: 'new', reason: 'the store is mended' }),
    });
    expect(set.status).toBe(200);
    expect(await guardOf(after)).toMatchObject({ state: 'inconclusive', trippedAt: null, reason: null });
    expect(await offers(await pair(after.proxy.url), 12)).toEqual(Array.from({ length: 12 }, () => fine));
    await until(async () => (await guardOf(after))?.state === 'well', 'it is found well');
    expect(await after.proxy.metric('sigfig_calls_began_total', { path: 'new' })).toBe(12);
  });
});

describe('a sole group', () => {
  it('has no legacy to go back to: an alarm, and no version', async () => {
    const on = await stack(
      'namespaces: { /: { call-lifecycle: { mode: new, sole: true, guard: { window: 60s, min-samples: 10, max-p99: 10s } } } }\n',
    );
    faults.failing = true;
    expect(await spread(await pairsOf(on.proxy.url), 10)).toEqual(Array.from({ length: 10 }, () => internal));
    await tripped(on);
    expect(await historyOf(on)).toHaveLength(1);
    expect(on.proxy.log()).toMatch(/guard tripped: no legacy is left/);
  });
});
