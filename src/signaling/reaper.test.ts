import { describe, expect, it } from 'vitest';
import { startReaper } from './reaper.js';
import { at, call, REJOIN_TIMEOUT, several } from './several.fixture.js';

function world() {
  const base = several();
  const sweeps = { here: 0 };
  const reaper = startReaper({
    ...base,
    signaling: { calls: base.calls, sweep: () => sweeps.here++ },
    interval: 15_000,
    callsEvery: 1_000,
    rejoinTimeout: REJOIN_TIMEOUT,
  });
  return { ...base, reaper, sweeps };
}

describe('the reaper', () => {
  it('ends a call that nobody came back to once its time is over, not before', async () => {
    const the = world();
    the.connect('A1@other');
    await the.seat(call('1', 'O1@here', 'A1@other', { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } }));
    await the.advance(REJOIN_TIMEOUT - 1_000);
    expect(the.session('1')?.state).toBe('AWAITING_REJOIN');
    await the.advance(1_000);
    expect(the.session('1')).toBeNull();
    expect(the.log).toEqual(['call-ended > A1@other']);
  });

  it('leaves calls to whoever leads, and sweeps what is its own', async () => {
    const the = world();
    the.state.leads = false;
    await the.seat(call('1', 'O1@here', 'A1@other', { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } }));
    await the.advance(15_000);
    await the.advance(REJOIN_TIMEOUT);
    expect(the.session('1')?.state).toBe('AWAITING_REJOIN');
    expect(the.sweeps.here).toBeGreaterThan(0);
    the.state.leads = true;
    await the.advance(1_000);
    expect(the.session('1')).toBeNull();
  });

  it('ends a session that nothing ended six hours after its last change', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@other'));
    await the.advance(6 * 3_600_000 - 1_000);
    expect(the.session('1')).not.toBeNull();
    await the.advance(1_000);
    expect(the.session('1')).toBeNull();
    expect(the.log).toEqual([]);
  });

  it('gives a held seat up when its user did not come: the peer is told then', async () => {
    const the = world();
    the.connect('A1@other');
    await the.seat(call('1', 'O1@here', 'A1@other', { held: { offerer: the.clock.now() + 10_000 } }));
    await the.advance(9_000);
    expect(the.session('1')?.version).toBe(1);
    await the.advance(1_000);
    expect(the.session('1')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'drain' } });
    expect(the.log).toEqual(['call-peer-disconnected > A1@other']);
  });

  it('has a call wait for both where both seats were held and nobody came', async () => {
    const the = world();
    const until = the.clock.now() + 10_000;
    await the.seat(call('1', 'O1@here', 'A1@here', { held: { offerer: until, answerer: until } }));
    await the.advance(10_000);
    expect(the.session('1')).toMatchObject({ waitsForBoth: true, lost: { offerer: 'drain', answerer: 'drain' } });
    await the.advance(REJOIN_TIMEOUT);
    expect(the.session('1')).toBeNull();
  });

  it('stops quietly while Redis is away, and goes on with the rest where one call fails', async () => {
    const the = world();
    const waits = { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } } as const;
    await the.seat(call('1', 'O1@here', 'A1@here', waits), call('2', 'O2@here', 'A2@here', waits));
    the.state.mayAct = false;
    await the.advance(REJOIN_TIMEOUT);
    expect(the.signals.events).toEqual([]);
    the.state.mayAct = true;
    const { delete: remove } = the.store;
    the.store.delete = (before) => {
      if (before.conversationId === '1') throw new Error('broken');
      return remove(before);
    };
    await the.advance(1_000);
    expect([the.session('1') === null, the.session('2') === null]).toEqual([false, true]);
    expect(the.signals.events.map(({ what }) => what)).toContain('internalError');
  });

  it('does nothing once it is closed', async () => {
    const the = world();
    the.reaper.close();
    await the.seat(call('1', 'O1@here', 'A1@here', { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } }));
    await the.advance(REJOIN_TIMEOUT * 2);
    expect(the.session('1')).not.toBeNull();
    expect([the.sweeps.here, at('O1@here').id]).toEqual([0, 'O1']);
  });
});
