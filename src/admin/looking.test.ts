// Whoever may look must not hold up the proxy: the real listener over the real list of 5,000 live calls, and large tables.
import { afterEach, describe, expect, it } from 'vitest';
import { manualClock, systemClock } from '../base/clock.js';
import type { ConversationId, Namespace, UserId } from '../base/ids.js';
import type { Session } from '../call/session.js';
import { memoryLog } from '../control/memory-log.js';
import { createRoutes } from '../control/routes.js';
import { createLiveCalls } from '../signaling/live-calls.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import { createTimelines } from '../telemetry/timelines.js';
import { type Bed, startBed, tokens, tokensText } from './admin.fixture.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const session = (n: number): Session =>
  ({
    ...{ ns: '/' as Namespace, conversationId: `conversation-${n}` as ConversationId, callId: `c-${n}`, version: 1 },
    ...{ state: 'CONNECTED', createdAt: n, since: n, candidates: [], keptOffer: null, lost: {}, rejoining: false },
    users: { offerer: `Alice-${n}` as UserId, answerer: `Bob-${n}` as UserId },
    seats: { offerer: { ns: '/', id: `a-${n}`, connection: n }, answerer: { ns: '/', id: `b-${n}`, connection: n } },
    offeredBy: 'offerer',
  }) as unknown as Session;

/** How many go through the calls now, at most, and in all; they wait for `held` first. */
interface Walks {
  now: number;
  most: number;
  all: number;
  held: Promise<void> | undefined;
}

/** 2,500 calls of ours and as many of the legacy's. Limits see time stand still, however slow the machine. */
async function crowded(): Promise<Bed & { readonly walks: Walks }> {
  const store = memorySessionStore();
  for (let n = 0; n < 2_500; n++) await store.create(session(n));
  const clock = systemClock;
  const walks: Walks = { now: 0, most: 0, all: 0, held: undefined };
  const legacys = Array.from({ length: 2_500 }, (_, n) => ({
    ...{ id: `l-${n}`, ns: '/', conversationId: `of-l-${n}`, because: 'route', state: 'CONNECTED' as const },
    ...{ offerer: `Carol-${n}`, answerer: `Dora-${n}`, peeled: [], createdAt: n, since: n },
  }));
  const live = createLiveCalls({
    store,
    timelines: createTimelines({ clock }),
    signals: recordedSignals(),
    signaling: {
      calls: { apply: async () => null },
      accepting: [],
      legacyCalls: { calls: () => legacys, counts: { legacy: legacys.length, peeled: 0 } },
    },
  });
  const walked = async <T>(walk: () => Promise<T>): Promise<T> => {
    walks.all++;
    walks.most = Math.max(walks.most, ++walks.now);
    await walks.held;
    return walk().finally(() => walks.now--);
  };
  const bed = await startBed({
    tokensText,
    clock: manualClock(),
    calls: {
      ...live,
      list: (filter: Parameters<typeof live.list>[0]) => walked(() => live.list(filter)),
      show: (id: string) => walked(() => live.show(id)),
      byNamespace: () => walked(() => live.byNamespace()),
    } as never,
  });
  closing.push(() => bed.close());
  return Object.assign(bed, { walks });
}

describe('threat: a read token asks for all calls, over and over, in order to stall the proxy', () => {
  it('they are found, one walk after another; what is over is told so, and who operates gets through', async () => {
    const bed = await crowded();
    const token = tokens.read;
    const found = await bed.ask('/api/calls?search=ALICE-24&limit=5', { token });
    expect(found.body).toMatchObject({ total: 111, calls: [{ id: 'c-2499' }, {}, {}, {}, {}] });
    bed.walks.all = 0;
    const flood = Array.from({ length: 128 }, (_, n) => bed.ask(`/api/calls?search=zzz-${n}`, { token }));
    const switched = await bed.ask('/api/routes/legacy', { token: tokens.operate, body: { reason: 'now' } });
    expect(switched.status).toBe(200);
    const told = await Promise.all(flood);
    const listed = told.filter(({ status }) => status === 200);
    expect(new Set(told.map(({ status }) => status))).toEqual(new Set([200, 429]));
    expect(listed.length).toBeGreaterThan(0);
    // Each counts for 4 of 200, and one was had before.
    expect(listed.length).toBeLessThan(50);
    expect(bed.walks.most).toBe(1);
    expect(bed.walks.all).toBe(listed.length);
  });

  it('what is asked alike is looked for once for all who wait', async () => {
    const bed = await crowded();
    let letGo!: () => void;
    bed.walks.held = new Promise((resolve) => (letGo = resolve));
    const asked = Array.from({ length: 40 }, (_, n) =>
      bed.ask('/api/calls?search=zzz', { token: n % 2 === 0 ? tokens.read : tokens.operate }),
    );
    // By the time in which this is answered several of them wait.
    await expect.poll(() => bed.walks.all, { timeout: 10_000 }).toBe(1);
    for (let i = 0; i < 3; i++) await bed.ask('/api/status', { token: tokens.read });
    letGo();
    const told = await Promise.all(asked);
    expect(told.map(({ status }) => status)).toEqual(told.map(() => 200));
    expect(bed.walks.most).toBe(1);
    expect(bed.walks.all).toBeLessThan(40);
  });

  it('ids of no call, and what files would change, are looked for one after another too', async () => {
    const bed = await crowded();
    const token = tokens.read;
    const yaml = (n: number) => `namespaces: { /: { calls: { mode: canary, percent: ${n} } } }`;
    await Promise.all([
      ...Array.from({ length: 40 }, (_, n) => bed.ask(`/api/calls/none-${n}`, { token })),
      ...Array.from({ length: 40 }, (_, n) => bed.ask('/api/routes/diff', { token, body: { yaml: yaml(n) } })),
    ]);
    // One of each kind.
    expect(bed.walks.most).toBeLessThanOrEqual(2);
    expect((await bed.ask('/api/calls?limit=1', { token })).status).toBe(200);
  });
});

it('threat: pages of large versions are asked for over and over', async () => {
  const signals = recordedSignals();
  const routes = await createRoutes({ log: memoryLog(), signals, clock: systemClock });
  const users = Array.from({ length: 2_000 }, (_, n) => `user-${n}-${'x'.repeat(80)}`);
  for (let percent = 1; percent <= 10; percent++) {
    await routes.change(
      { kind: 'set', ns: '/', target: 'call-lifecycle', route: { mode: 'canary', canary: { percent, users } } },
      { actor: 'x', via: 'api', reason: 'x' },
    );
  }
  let [now, most] = [0, 0];
  let letGo!: () => void;
  const held = new Promise<void>((resolve) => (letGo = resolve));
  const ask = routes.history.bind(routes);
  const history: typeof routes.history = async (...asked) => {
    most = Math.max(most, ++now);
    await held;
    return ask(...asked).finally(() => now--);
  };
  Object.assign(routes, { history });
  const bed = await startBed({ routes, clock: manualClock() });
  closing.push(() => bed.close());
  const asked = Array.from({ length: 30 }, (_, n) => bed.ask(`/api/routes/history?limit=${n + 1}`));
  await expect.poll(() => most, { timeout: 10_000 }).toBe(1);
  // By the time in which this is answered others have come.
  for (let i = 0; i < 3; i++) await bed.ask('/healthz');
  letGo();
  const told = await Promise.all(asked);
  expect(new Set(told.map(({ status }) => status))).toEqual(new Set([200, 429]));
  expect(most).toBe(1);
  expect((await bed.ask('/api/routes/legacy', { body: {} })).status).toBe(200);
});
