import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { Presence } from './polling-presence.js';

function watched() {
  const clock = manualClock();
  const it = { clock, waits: false, silent: 0, presence: undefined as unknown as Presence };
  const handshake = { sid: 's', upgrades: [], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1 };
  it.presence = new Presence(
    clock,
    handshake,
    5_000,
    () => it.waits,
    () => it.silent++,
  );
  return it;
}

describe('a browser that polls', () => {
  it.each([
    [49_999, 0],
    [50_000, 1],
    [500_000, 1],
  ])('is given up after pingInterval + pingTimeout + slack without a request: %i ms, %i times', (ms, times) => {
    const on = watched();
    on.clock.advance(ms);
    expect(on.silent).toBe(times);
  });

  it('is there while its GET waits, however long', () => {
    const on = watched();
    on.waits = true;
    on.clock.advance(10_000_000);
    expect(on.silent).toBe(0);
    on.presence.answered();
    on.waits = false;
    on.clock.advance(50_001);
    expect(on.silent).toBe(1);
  });

  it('comes back late after more than pingTimeout, until the legacy knows it', () => {
    const on = watched();
    on.clock.advance(20_000);
    on.presence.asked();
    expect(on.presence.late).toBe(false);
    on.clock.advance(20_001);
    on.presence.asked();
    on.presence.asked();
    expect(on.presence.late).toBe(true);
    on.presence.known();
    expect(on.presence.late).toBe(false);
  });
});
