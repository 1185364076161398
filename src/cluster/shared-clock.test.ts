import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { recordedSignals } from '../telemetry/signals.js';
import { SharedClock } from './shared-clock.js';

function world() {
  const own = manualClock();
  const signals = recordedSignals();
  const clock = new SharedClock(own, signals);
  /** Redis answers after so many milliseconds, by a clock that this machine's is ahead of by so many. */
  const renew = (ahead: number, ms = 2): void => {
    const asked = clock.ownNow();
    own.advance(ms / 2);
    const redis = own.now() - ahead;
    own.advance(ms / 2);
    clock.learn(redis, asked);
  };
  return { own, clock, renew, off: () => clock.now() - own.now(), told: () => signals.events.map(({ args }) => args) };
}

describe('the time of all instances', () => {
  it('is this machine’s own where nothing is known, or that is close', () => {
    const { off, renew, clock } = world();
    expect(off()).toBe(0);
    for (const ahead of [300, -450, 20]) {
      renew(ahead);
      expect(off()).toBe(0);
      expect(clock.ahead()).toBe(ahead);
    }
  });

  it('is Redis’s where this machine’s is off, and stays as it is while that differs little', () => {
    const { off, renew, clock } = world();
    renew(10_000);
    expect(off()).toBe(-10_000);
    renew(10_200);
    expect(off()).toBe(-10_000);
    renew(-60_000, 200);
    expect(off()).toBe(60_000);
    renew(0);
    expect(off()).toBe(0);
    expect(clock.ahead()).toBe(0);
  });

  it('is not learnt from an answer that took long', () => {
    const { off, renew } = world();
    renew(10_000, 1_002);
    expect(off()).toBe(0);
  });

  it('is told to operators once it is over two seconds off, and once it is not', () => {
    const { renew, told } = world();
    for (const ahead of [1_900, 2_100, 5_000, 2_500]) renew(ahead);
    expect(told()).toEqual([[2_100, true]]);
    renew(-1_000);
    renew(-3_000);
    expect(told()).toEqual([
      [2_100, true],
      [-1_000, false],
      [-3_000, true],
    ]);
  });

  it('times what is due as before', () => {
    const { own, clock, renew } = world();
    renew(10_000);
    let ran = 0;
    clock.after(50, () => ran++);
    own.advance(50);
    expect(ran).toBe(1);
  });
});
