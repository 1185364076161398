import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConnectionNumber, ConversationId, Namespace, SocketId, SocketRef, UserId } from '../base/ids.js';
import type { CallKey } from '../call/session.js';
import { alone } from '../cluster/alone.js';
import { memorySessionStore } from '../store/memory.js';
import { recordedSignals } from '../telemetry/signals.js';
import { createTimelines } from '../telemetry/timelines.js';
import { Calls } from './calls.js';
import type { Delivery } from './deliver.js';
import { EndedCalls } from './ended.js';
import type { LiveCall } from './live.js';
import { createLiveCalls } from './live-calls.js';

const ns = '/' as Namespace;

function bench() {
  const clock = manualClock(0);
  const timelines = createTimelines({ clock });
  const signals = { ...recordedSignals(), ...timelines.signals };
  const store = memorySessionStore();
  const sent: string[] = [];
  const delivery: Delivery = {
    emit: (to, event, arg) => {
      sent.push(`${to.id} ${event} ${(arg as { reason?: string }).reason ?? ''}`.trim());
      return true;
    },
    socketsOf: (_ns, user) => [socket(user)],
    isConnected: () => true,
  };
  const calls = new Calls({
    store,
    clock,
    signals,
    ended: new EndedCalls(clock),
    delivery,
    cluster: alone(delivery, 'test'),
  });
  const legacys = new Map<string, Omit<LiveCall, 'path'>>();
  const accepting: (CallKey & { settled: Promise<void> })[] = [];
  const live = createLiveCalls({
    store,
    timelines,
    signals,
    signaling: {
      calls,
      accepting,
      legacyCalls: { calls: () => legacys.values(), counts: { legacy: 7, peeled: 2 } },
    },
  });
  return {
    clock,
    store,
    sent,
    live,
    accepting,
    /** A call of the new path; its id is `c-` and the number. */
    async offer(n: number, callId = `c-${n}`): Promise<void> {
      const key = keyOf(n);
      const [a, b] = [`a${n}` as UserId, `b${n}` as UserId];
      const step = await calls.apply(key, () => ({
        type: 'call-offer',
        by: { user: a, socket: socket(a) },
        conversationId: key.conversationId,
        offer: 'a secret description',
        participants: [a, b],
        callId,
        early: [],
      }));
      expect(step?.session?.callId).toBe(callId);
      timelines.signals.began!({ ...key, callId, decision: { path: 'new', because: 'canary' } });
    },
    async answer(n: number): Promise<void> {
      const by = { user: `b${n}` as UserId, socket: socket(`b${n}`) };
      await calls.apply(keyOf(n), () => ({ type: 'call-answer', by, answer: 'secret too', ackRequested: false }));
    },
    legacyCall(id: string, more: Partial<LiveCall> = {}): void {
      legacys.set(id, {
        ...{ id, ns, conversationId: `of-${id}`, because: 'route', state: 'UNKNOWN', offerer: 'olga', answerer: null },
        ...{ peeled: [], createdAt: clock.now(), since: clock.now() },
        ...more,
      });
    },
  };
}

const keyOf = (n: number): CallKey => ({ ns, conversationId: `conversation-${n}` as ConversationId });
const socket = (user: string): SocketRef => ({ ns, id: `s-${user}` as SocketId, connection: 1 as ConnectionNumber });

describe('the list of live calls', () => {
  it('has those of both paths, newest first, and nothing of what they say', async () => {
    const b = bench();
    await b.offer(1);
    b.clock.advance(10);
    b.legacyCall('l-1', { peeled: ['ice-candidate'] });
    b.clock.advance(10);
    await b.offer(2);
    b.clock.advance(10);
    await b.answer(2);
    const { total, calls } = await b.live.list({ limit: 50 });
    expect(total).toBe(3);
    expect(calls).toEqual([
      {
        ...{ id: 'c-2', ns, conversationId: 'conversation-2', path: 'new', because: 'canary', state: 'CONNECTED' },
        ...{ offerer: 'a2', answerer: 'b2', peeled: [], createdAt: 20, since: 30 },
      },
      {
        ...{ id: 'l-1', ns, conversationId: 'of-l-1', path: 'legacy', because: 'route', state: 'UNKNOWN' },
        ...{ offerer: 'olga', answerer: null, peeled: ['ice-candidate'], createdAt: 10, since: 10 },
      },
      {
        ...{ id: 'c-1', ns, conversationId: 'conversation-1', path: 'new', because: 'canary', state: 'OFFERING' },
        ...{ offerer: 'a1', answerer: 'b1', peeled: [], createdAt: 0, since: 0 },
      },
    ]);
    expect(JSON.stringify(calls)).not.toContain('secret');
    expect(await b.live.counts()).toEqual({
      ...{ new: 2, legacy: 7, peeled: 2 },
      byState: { OFFERING: 1, CONNECTED: 1, RENEGOTIATING: 0, AWAITING_REJOIN: 0 },
    });
  });

  it.each([
    [{ path: 'new' }, ['c-2', 'c-1']],
    [{ path: 'legacy' }, ['l-1']],
    [{ state: 'CONNECTED' }, ['c-2']],
    [{ ns: '/calls' }, []],
    [{ search: 'CONVERSATION-1' }, ['c-1']],
    [{ search: 'olg' }, ['l-1']],
    [{ search: 'b2' }, ['c-2']],
    [{ search: 'c-' }, ['c-2', 'c-1']],
    [{ search: 'c-', path: 'legacy' }, []],
  ] as const)('%j', async (filter, ids) => {
    const b = bench();
    await b.offer(1);
    b.clock.advance(1);
    await b.offer(2);
    await b.answer(2);
    b.legacyCall('l-1');
    const { total, calls } = await b.live.list({ ...filter, limit: 50 });
    expect(calls.map(({ id }) => id)).toEqual(ids);
    expect(total).toBe(ids.length);
  });

  it.each(['.', '(', '[a-', '\\\\', '$^', 'c-1|x'])('search is no pattern: %s', async (search) => {
    const b = bench();
    await b.offer(1);
    expect((await b.live.list({ search, limit: 5 })).total).toBe(0);
    await b.offer(2, `with ${search.toUpperCase()} in it`);
    expect((await b.live.list({ search, limit: 5 })).total).toBe(1);
  });

  it('is counted by namespace', async () => {
    const b = bench();
    await b.offer(1);
    await b.offer(2);
    b.legacyCall('l-1');
    b.legacyCall('l-2', { ns: '/calls' });
    expect([...(await b.live.byNamespace())]).toEqual([
      ['/', { new: 2, legacy: 1 }],
      ['/calls', { new: 0, legacy: 1 }],
    ]);
  });

  it('of 5,000 calls is found without keeping the event loop for long', async () => {
    const b = bench();
    for (let n = 0; n < 2_500; n++) {
      b.clock.advance(1);
      await b.offer(n);
      b.legacyCall(`l-${n}`);
    }
    let turns = 0;
    let going = true;
    const count = (): void => {
      turns++;
      if (going) setImmediate(count);
    };
    setImmediate(count);
    const { total, calls } = await b.live.list({ limit: 3 });
    going = false;
    expect(total).toBe(5_000);
    expect(calls.map(({ id }) => id)).toEqual(['c-2499', 'l-2499', 'c-2498']);
    expect(turns).toBeGreaterThanOrEqual(16);
    // And without a turn for each call, which would take far longer.
    expect(turns).toBeLessThan(100);
  });
});

describe('one call', () => {
  it('is shown with its timeline, also after it has ended', async () => {
    const b = bench();
    await b.offer(1);
    await b.answer(1);
    const shown = await b.live.show('c-1');
    expect(shown).toMatchObject({ call: { id: 'c-1', state: 'CONNECTED' }, ns, conversationId: 'conversation-1' });
    expect(shown!.timeline.map(({ from, to }) => `${from}>${to}`)).toEqual([
      'IDLE>new',
      'IDLE>OFFERING',
      'OFFERING>CONNECTED',
    ]);
    expect(JSON.stringify(shown)).not.toContain('secret');
    expect(await b.live.end('c-1')).toBe('ended');
    const after = await b.live.show('c-1');
    expect(after).toMatchObject({ call: null, conversationId: 'conversation-1' });
    expect(after).toMatchObject({ path: 'new', because: 'canary', offerer: 'a1', answerer: 'b1' });
    expect(after!.timeline.at(-1)).toMatchObject({ from: 'CONNECTED', to: 'ENDED' });
  });

  it('of the legacy’s is shown, and can’t be ended from here', async () => {
    const b = bench();
    b.legacyCall('l-1');
    expect(await b.live.show('l-1')).toMatchObject({ call: { id: 'l-1', path: 'legacy' }, timeline: [] });
    expect(await b.live.end('l-1')).toBe('legacy');
  });

  it('that nobody knows is neither shown nor ended', async () => {
    const b = bench();
    expect(await b.live.show('c-1')).toBeNull();
    expect(await b.live.end('c-1')).toBe('unknown');
  });

  it('is found by how its id begins: a live one, one of the legacy’s, and one that has ended', async () => {
    const b = bench();
    await b.offer(1, 'abcd-1');
    await b.offer(2, 'abce-2');
    b.legacyCall('abcf-3');
    await b.live.end('abce-2');
    expect([...(await b.live.ids('abc'))].sort()).toEqual(['abcd-1', 'abce-2', 'abcf-3']);
    expect(await b.live.ids('abce')).toEqual(['abce-2']);
    expect(await b.live.ids('bcd')).toEqual([]);
  });

  it('is not taken for a later one of the same conversation', async () => {
    const b = bench();
    await b.offer(1);
    await b.live.end('c-1');
    await b.offer(1, 'later');
    b.sent.length = 0;
    expect(await b.live.end('c-1')).toBe('unknown');
    expect(await b.live.show('c-1')).toMatchObject({ call: null });
    expect(await b.live.show('later')).toMatchObject({ call: { state: 'OFFERING' } });
    expect(b.sent).toEqual([]);
  });
});

describe('the end by an operator', () => {
  it('is told to both seats once the call is answered, and to every device of the callee before', async () => {
    const b = bench();
    await b.offer(1);
    await b.answer(1);
    await b.offer(2);
    b.sent.length = 0;
    expect(await b.live.end('c-1')).toBe('ended');
    expect(await b.live.end('c-2')).toBe('ended');
    expect(await b.live.end('c-2')).toBe('unknown');
    expect(b.sent).toEqual([
      's-a1 call-ended operator',
      's-b1 call-ended operator',
      's-a2 call-ended operator',
      's-b2 call-ended operator',
    ]);
  });

  it('of all calls takes an offer with it that is still waiting for its ticket, but none that comes later', async () => {
    const b = bench();
    for (let n = 0; n < 600; n++) await b.offer(n);
    let settle!: () => void;
    const settled = new Promise<void>((resolve) => (settle = resolve));
    b.accepting.push({ ...keyOf(1_000), settled });
    const ending = b.live.endAll();
    await b.offer(1_000);
    settle();
    expect(await ending).toBe(601);
    expect((await b.live.counts()).new).toBe(0);
    await b.offer(1_001);
    expect((await b.live.counts()).new).toBe(1);
  });

  it('of some namespaces leaves those of others, and offers that wait there', async () => {
    const b = bench();
    await b.offer(1);
    b.accepting.push({ ...keyOf(2), settled: new Promise(() => undefined) });
    expect(await b.live.endAll((one) => one === '/calls')).toBe(0);
    expect((await b.live.counts()).new).toBe(1);
    b.accepting.length = 0;
    expect(await b.live.endAll((one) => one === ns)).toBe(1);
  });
});
