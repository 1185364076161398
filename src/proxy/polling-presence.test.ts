import { describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { Presence } from './polling-presence.js';

const handshake = { sid: 's', upgrades: [], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1e6 };

function bench() {
  const clock = manualClock();
  const state = { waits: false, silentAt: null as number | null };
  const start = clock.now();
  const presence = new Presence(
    clock,
    handshake,
    5_000,
    () => state.waits,
    () => {
      state.silentAt = clock.now() - start;
    },
  );
  return { clock, presence, state };
}

describe('a browser that polls', () => {
  it('is given up when no request follows a ping within pingTimeout, as the legacy does', () => {
    const { clock, presence, state } = bench();
    presence.asked();
    state.waits = true;
    clock.advance(25_000);
    presence.pinged();
    state.waits = false;
    presence.answered();
    clock.advance(20_249);
    expect(state.silentAt).toBeNull();
    clock.advance(1);
    expect(state.silentAt).toBe(45_250);
  });

  it('is given up from a ping that nobody fetched, too', () => {
    const { clock, presence, state } = bench();
    clock.advance(25_000);
    presence.pinged();
    clock.advance(20_250);
    expect(state.silentAt).toBe(45_250);
  });

  it('is there while its GET waits, and once it made a request after the ping', () => {
    const { clock, presence, state } = bench();
    presence.pinged();
    clock.advance(20_000);
    presence.asked();
    state.waits = true;
    clock.advance(200_000);
    expect(state.silentAt).toBeNull();
  });

  it('is given up after pingInterval + pingTimeout + slack where the legacy could send no ping', () => {
    const { clock, state } = bench();
    clock.advance(49_999);
    expect(state.silentAt).toBeNull();
    clock.advance(1);
    expect(state.silentAt).toBe(50_000);
  });
});
