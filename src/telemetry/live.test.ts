import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { createLive, type Live } from './live.js';

const started = () => {
  const clock = manualClock(1_700_000_000_000);
  return { clock, live: createLive(clock) };
};
const of = (live: Live, event: string) => {
  const found = live.figures().find((figures) => figures.event === event);
  if (!found) throw new Error(`no figures of ${event}`);
  return found;
};

describe('rates', () => {
  it('are of the last ten whole seconds, by path', () => {
    const { clock, live } = started();
    for (let second = 0; second < 30; second++) {
      for (let i = 0; i < 5; i++) live.signals.decided('ice-candidate', { path: 'new', because: 'owned' }, '/');
      live.signals.decided('ice-candidate', { path: 'legacy', because: 'claimed' }, '/');
      clock.advance(1_000);
    }
    expect(of(live, 'ice-candidate').rate).toEqual({ legacy: 1, new: 5 });
    expect(of(live, 'call-offer').rate).toEqual({ legacy: 0, new: 0 });
    clock.advance(5_000);
    expect(of(live, 'ice-candidate').rate.new).toBe(2.5);
    clock.advance(60_000);
    expect(of(live, 'ice-candidate').rate).toEqual({ legacy: 0, new: 0 });
  });

  it('do not count what was held twice', () => {
    const { clock, live } = started();
    live.signals.decided('call-offer', { path: 'new', because: 'held' }, '/');
    live.signals.decided('call-offer', { path: 'legacy', because: 'callee-not-here' }, '/');
    clock.advance(1_000);
    expect(of(live, 'call-offer').rate).toEqual({ legacy: 0.1, new: 0 });
  });

  it('threat: names that a browser makes up take no memory', () => {
    const { live } = started();
    const before = live.figures().map(({ event }) => event);
    for (let i = 0; i < 1_000; i++) live.signals.decided(`made-up-${i}`, { path: 'new', because: 'route' }, '/');
    expect(live.figures().map(({ event }) => event)).toEqual(before);
    expect(before).toHaveLength(8);
  });
});

describe('refusals', () => {
  it('are counted over a minute, internal errors among them', () => {
    const { clock, live } = started();
    live.signals.refused('call-answer', 'noCall', '/');
    live.signals.refused('call-answer', 'internal', '/');
    expect(of(live, 'call-answer')).toMatchObject({ refusals: 2, errors: 1 });
    clock.advance(61_000);
    expect(of(live, 'call-answer')).toMatchObject({ refusals: 0, errors: 0 });
  });
});

describe('the graph', () => {
  it('has a place for each whole step of five minutes, the newest last', () => {
    const { clock, live } = started();
    live.signals.decided('call-offer', { path: 'legacy', because: 'route' }, '/');
    clock.advance(5_000);
    live.signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
    live.signals.refused('call-offer', 'busy', '/');
    clock.advance(5_000);
    const { graph } = of(live, 'call-offer');
    expect(graph.legacy).toHaveLength(60);
    expect(graph.legacy.slice(-2)).toEqual([1, 0]);
    expect(graph.new.slice(-2)).toEqual([0, 1]);
    expect(graph.refused.slice(-2)).toEqual([0, 1]);
    clock.advance(300_000);
    expect(of(live, 'call-offer').graph.new.every((count) => count === 0)).toBe(true);
  });

  it('does not end in a drop under steady traffic, wherever in a step one looks', () => {
    const { clock, live } = started();
    for (let second = 0; second < 330; second++) {
      live.signals.decided('call-offer', { path: 'new', because: 'route' }, '/');
      live.signals.decided('call-offer', { path: 'legacy', because: 'route' }, '/');
      live.signals.refused('call-offer', 'busy', '/');
      clock.advance(1_000);
      if (second < 310) continue;
      const { graph } = of(live, 'call-offer');
      const steady = Array(60).fill(5);
      expect(graph).toEqual({ stepMs: 5_000, legacy: steady, new: steady, refused: steady });
    }
  });

  it('shows a gap as zeros, not as what stood there one round before', () => {
    const { clock, live } = started();
    for (let i = 0; i < 60; i++) {
      live.signals.decided('call-end', { path: 'new', because: 'owned' }, '/');
      clock.advance(5_000);
    }
    clock.advance(150_000);
    live.signals.decided('call-end', { path: 'new', because: 'owned' }, '/');
    clock.advance(5_000);
    const { graph } = of(live, 'call-end');
    expect(graph.new.slice(-31)).toEqual([...Array(30).fill(0), 1]);
  });
});

describe('times of serving', () => {
  it('are null where nothing was served', () => {
    expect(of(started().live, 'call-end')).toMatchObject({ p50Ms: null, p99Ms: null });
  });

  for (const ms of [0.01, 0.3, 1, 7, 42, 480, 2_900]) {
    it(`${ms} ms come back within a tenth`, () => {
      const { live } = started();
      for (let i = 0; i < 100; i++) live.signals.served('call-offer', ms, '/');
      const { p50Ms, p99Ms } = of(live, 'call-offer');
      const lowest = Math.max(ms, 0.05);
      for (const shown of [p50Ms, p99Ms]) {
        expect(shown).toBeGreaterThan(lowest * 0.9);
        expect(shown).toBeLessThan(lowest * 1.1);
      }
    });
  }

  it('tell the hundredth from the rest', () => {
    const { live } = started();
    for (let i = 0; i < 985; i++) live.signals.served('call-offer', 1, '/');
    for (let i = 0; i < 15; i++) live.signals.served('call-offer', 800, '/');
    const { p50Ms, p99Ms } = of(live, 'call-offer');
    expect(p50Ms).toBeLessThan(1.1);
    expect(p99Ms).toBeGreaterThan(700);
  });
});
