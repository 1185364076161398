import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Group } from '../routing/route.js';
import { judge } from './judge.js';
import { type Figures, figuresOf, readFigures, Summed, type Watched, watchedKey } from './summed.js';
import { SlidingWindow } from './window.js';

const now = 1_700_000_000_000;
const limits = { windowMs: 60_000, minSamples: 50, maxErrors: 0.01, maxRefusals: 0.05, maxP99Ms: 500 };
const empty = () => new SlidingWindow(limits.windowMs, limits.maxP99Ms);
const offer = { ns: '/', group: 'call-lifecycle' as Group, event: 'call-offer' };
/** As it comes from another instance. */
const told = (windows: readonly Watched[], version = 7): Figures | undefined =>
  readFigures(JSON.parse(JSON.stringify(figuresOf(version, windows, now))));
const others = (windows: readonly SlidingWindow[]) =>
  windows.flatMap((window) => told([{ ...offer, window }])?.events.get(watchedKey(offer)) ?? []);

interface Happened {
  readonly at: number;
  readonly ms: number;
  readonly fault: 'error' | 'refusal' | null;
  readonly user: number;
  readonly peeled: boolean;
}
function count(window: SlidingWindow, { ms, fault, user, peeled }: Happened): void {
  const whose = { user: `user ${user}`, conversationId: `c ${user}` };
  window.sample(now, peeled);
  window.served(now, ms, whose);
  if (fault === 'error') window.error(now, whose);
  if (fault === 'refusal') window.refusal(now, whose);
}

describe('figures of several instances', () => {
  it('sum up to what one instance would have counted', () => {
    const happened = fc.record({
      at: fc.nat(2),
      ms: fc.oneof(fc.double({ min: 0.1, max: 3_000, noNaN: true }), fc.constantFrom(1, 2, 3)),
      fault: fc.constantFrom(null, null, null, null, 'error' as const, 'refusal' as const),
      user: fc.nat(2),
      peeled: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(happened, { maxLength: 300 }), (events) => {
        const whole = empty();
        const parts = [empty(), empty(), empty()] as const;
        for (const event of events) {
          count(whole, event);
          count(parts[event.at] as SlidingWindow, event);
        }
        const [own, ...rest] = parts;
        const summed = new Summed(own, others(rest));
        expect(summed.sums(now)).toEqual(whole.sums(now));
        // Three users are all told.
        expect(summed.loudest(now)).toEqual(whole.loudest(now));
        const [a, b] = [summed, whole].map((window) => judge('call-offer', window, limits, now, false));
        expect(a?.state).toBe(b?.state);
        const [p99, exact] = [summed.p99(now), whole.p99(now)];
        expect(p99 === null).toBe(exact === null);
        if (p99 !== null && exact !== null) expect(p99 > 500).toBe(exact > 500);
      }),
      { numRuns: 200 },
    );
  });

  it('have the 99th percentile of them all, though only the slowest classes are told', () => {
    const [whole, a, b] = [empty(), empty(), empty()];
    for (let i = 0; i < 3_000; i++) {
      const ms = 0.5 * 1.0025 ** i;
      for (const window of [whole, i % 3 ? a : b]) window.served(now, ms);
    }
    expect(new Summed(b, others([a])).p99(now)).toBe(whole.p99(now));
  });

  it('name nobody', () => {
    const window = empty();
    for (let i = 0; i < 20; i++) window.error(now, { user: 'alice', conversationId: 'dm:alice:bob' });
    const text = JSON.stringify(figuresOf(1, [{ ...offer, window }], now));
    expect(text).not.toMatch(/alice|bob/);
    expect(text).toContain('"u":[["');
  });

  it('stay under 3 KiB with many namespaces, and those with faults come first', () => {
    const windows = Array.from({ length: 200 }, (_, i) => {
      const window = empty();
      for (let j = 0; j < 100 + i; j++) window.served(now, j * 7);
      for (let j = 0; j < 100 + i; j++) window.sample(now, false);
      if (i === 3) window.error(now, { user: 'u', conversationId: 'c' });
      return { ...offer, ns: `/namespace-${i}`, window };
    });
    const figures = figuresOf(1, windows, now);
    expect(JSON.stringify(figures).length).toBeLessThan(3 * 1024);
    const read = readFigures(JSON.parse(JSON.stringify(figures)));
    expect(read?.events.size).toBeGreaterThan(5);
    // Two whole windows of slow ones before it, and no more.
    expect(
      [...(read?.events.values() ?? [])]
        .map(({ n }) => n[2] + n[3] + n[5])
        .every((n, i, all) => i === 0 || n <= (all[i - 1] ?? 0)),
    ).toBe(true);
  });

  it('of one namespace all fit', () => {
    const events = ['call-offer', 'call-answer', 'call-rejoin-offer', 'call-rejoin-answer', 'call-end'];
    const relays = ['ice-candidate', 'call-renegotiate-offer', 'call-renegotiate-answer'];
    const windows = [
      ...[...events, ...relays].map((event) => ({ ns: '/', group: 'call-lifecycle' as Group, event, window: empty() })),
      { ns: '/', group: 'ice-candidate' as Group, event: 'ice-candidate', window: empty() },
      ...relays.slice(1).map((event) => ({ ns: '/', group: 'call-renegotiation' as Group, event, window: empty() })),
    ];
    for (const { window } of windows) {
      for (let i = 0; i < 1_000; i++) {
        window.sample(now, false);
        window.served(now, 1.5 ** (i % 15));
      }
    }
    expect(told(windows)?.events.size).toBe(windows.length);
  });
});

describe('what another instance tells', () => {
  it.each([
    ['nothing', undefined],
    ['no figures', { version: 1 }],
    ['a negative count', { version: 1, events: [{ ns: '/', g: 0, e: 'call-offer', n: [1, 0, -1, 0, 0, 0], t: [] }] }],
    [
      'a group that is none',
      { version: 1, events: [{ ns: '/', g: 9, e: 'call-offer', n: [1, 0, 0, 0, 0, 0], t: [] }] },
    ],
    [
      'more than it may',
      { version: 1, events: Array(101).fill({ ns: '/', g: 0, e: 'x', n: [1, 0, 0, 0, 0, 0], t: [] }) },
    ],
  ])('%s is left out', (_what, figures) => {
    expect(readFigures(figures)).toBeUndefined();
  });

  it('that is newer and tells more is understood as far as it goes', () => {
    const one = { ns: '/', g: 0, e: 'call-offer', n: [1, 0, 0, 0, 0, 0], t: [200, 1], later: true };
    const figures = readFigures({ version: 3, events: [one], more: 1 });
    expect(figures?.version).toBe(3);
    const [read] = [...(figures?.events.values() ?? [])];
    expect(read && new Summed(empty(), [read]).sums(now).samples).toBe(1);
    expect(read && new Summed(empty(), [read]).p99(now)).toBeLessThan(500);
  });
});
