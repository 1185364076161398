import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import type { ConversationId, Namespace } from '../base/ids.js';
import type { Transition } from './signals.js';
import { createTimelines, mostEntries } from './timelines.js';

const ns = '/' as Namespace;
const conversationId = 'dm:alice:bob' as ConversationId;

function bench(most?: number) {
  const clock = manualClock(0);
  const timelines = createTimelines({ clock, ...(most === undefined ? {} : { most }) });
  const { transition, observed, began } = timelines.signals;
  const move = (callId: string, from: Transition['from'], to: Transition['to'], event = 'e'): Transition => ({
    ...{ ns, conversationId, callId, from, to, event, because: 'why' },
  });
  return {
    clock,
    timelines,
    ours: (...args: Parameters<typeof move>) => transition!(move(...args)),
    legacys: (...args: Parameters<typeof move>) => observed!(move(...args)),
    began: (callId: string, path: 'new' | 'legacy') =>
      began!({ ns, conversationId, callId, decision: { path, because: 'canary' } }),
    lines: (callId: string) =>
      timelines.of(callId)?.entries.map((e) => `${e.at} ${e.from}>${e.to} ${e.because} ${e.event}`),
  };
}

describe('the timeline of a call', () => {
  it('shows path and reason first, then each state with its time, also once the call has ended', () => {
    const b = bench();
    b.ours('c', 'IDLE', 'OFFERING', 'call-offer');
    b.clock.advance(5);
    b.began('c', 'new');
    b.ours('c', 'OFFERING', 'CONNECTED', 'call-answer');
    b.clock.advance(5);
    b.ours('c', 'CONNECTED', 'ENDED', 'call-end');
    expect(b.lines('c')).toEqual([
      '0 IDLE>new canary path',
      '0 IDLE>OFFERING why call-offer',
      '5 OFFERING>CONNECTED why call-answer',
      '10 CONNECTED>ENDED why call-end',
    ]);
    expect(b.timelines.about('c')).toMatchObject({ ns, conversationId, decision: { path: 'new', because: 'canary' } });
  });

  it('is kept for calls of the legacy’s too', () => {
    const b = bench();
    b.began('c', 'legacy');
    b.clock.advance(1);
    b.legacys('c', 'OFFERING', 'CONNECTED', 'call-answer');
    expect(b.lines('c')).toEqual(['0 IDLE>legacy canary path', '1 OFFERING>CONNECTED why call-answer']);
  });

  it('knows its parties, also once it has ended', () => {
    const b = bench();
    b.began('c', 'new');
    expect(b.timelines.of('c')?.users).toEqual({ offerer: null, answerer: null });
    b.timelines.signals.transition?.({
      ...{ ns, conversationId, callId: 'c', from: 'IDLE', to: 'OFFERING', event: 'call-offer', because: 'ok' },
      users: { offerer: 'alice', answerer: 'bob' },
    });
    b.ours('c', 'OFFERING', 'ENDED');
    expect(b.timelines.of('c')?.users).toEqual({ offerer: 'alice', answerer: 'bob' });
  });

  it('is null for what was never heard of', () => {
    expect(bench().timelines.of('c')).toBeNull();
    expect(bench().timelines.about('c')).toBeNull();
  });

  it('keeps the first and the newest entries of a call that goes on and on, and says how many are left out', () => {
    const b = bench();
    b.began('c', 'new');
    for (let i = 0; i < 1_000; i++) {
      b.ours('c', i % 2 ? 'RENEGOTIATING' : 'CONNECTED', i % 2 ? 'CONNECTED' : 'RENEGOTIATING', `${i}`);
    }
    const { entries } = b.timelines.of('c')!;
    expect(entries).toHaveLength(mostEntries);
    expect(entries.slice(1, 9).map((e) => e.event)).toEqual(['0', '1', '2', '3', '4', '5', '6', '7']);
    expect(entries[9]).toMatchObject({ event: 'left-out', because: '938 more', from: 'CONNECTED', to: 'CONNECTED' });
    expect(entries.slice(10).map((e) => e.event)).toEqual(Array.from({ length: 54 }, (_, i) => `${946 + i}`));
  });
});

describe('the bound on calls', () => {
  it('forgets the call that ended first, and no live one while others have ended', () => {
    const b = bench(20);
    b.ours('live', 'IDLE', 'OFFERING');
    for (let i = 0; i < 30; i++) {
      b.ours(`${i}`, 'IDLE', 'OFFERING');
      b.ours(`${i}`, 'OFFERING', 'ENDED');
    }
    expect(b.timelines.size).toBe(20);
    expect(b.timelines.of('live')).not.toBeNull();
    expect(b.timelines.of('10')).toBeNull();
    expect(b.timelines.of('11')).not.toBeNull();
  });

  it('forgets the oldest live one where hardly any has ended', () => {
    const b = bench(20);
    b.ours('ended', 'IDLE', 'OFFERING');
    b.ours('ended', 'OFFERING', 'ENDED');
    for (let i = 0; i < 30; i++) b.legacys(`${i}`, 'IDLE', 'OFFERING');
    expect(b.timelines.size).toBe(20);
    expect(b.timelines.of('ended')).not.toBeNull();
    expect(b.timelines.of('10')).toBeNull();
    expect(b.timelines.of('11')).not.toBeNull();
  });
});
