import { describe, expect, it } from 'vitest';
import { Unavailable } from '../base/unavailable.js';
import { at, call, here, several } from './several.fixture.js';
import { Strays } from './strays.js';

const other = at('O1@other').at as typeof here;

function world() {
  const base = several();
  base.state.living = [here, other];
  const strays = new Strays(base);
  return { ...base, strays };
}

describe('calls that no index has', () => {
  it('lose their seats on an instance that is gone, and others none', async () => {
    const the = world();
    the.connect('A1@here', 'O2@other', 'A2@here');
    const gone = { offerer: at('O3@gone'), answerer: at('A3@gone') };
    await the.seat(
      call('1', 'O1@gone', 'A1@here'),
      call('2', 'O2@other', 'A2@here'),
      call('3', 'O3@gone', 'A3@gone', { seats: gone }),
      call('4', 'O4@gone', 'A4@here', { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } }),
      call('5', 'O5@gone', 'A5@here', { held: { offerer: the.clock.now() + 100_000 } }),
    );
    await the.advance(59_999);
    await the.advance(1);
    await the.advance(9_999);
    expect(the.log).toEqual([]);
    await the.advance(1);
    expect(the.session('1')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'instance' } });
    expect(the.session('2')?.version).toBe(1);
    expect(the.session('3')).toMatchObject({ lost: { offerer: 'instance', answerer: 'instance' } });
    expect(the.session('4')?.version).toBe(1);
    expect(the.session('5')?.version).toBe(1);
    expect(the.log).toEqual(['call-peer-disconnected > A1@here']);
  });

  it('keep them where that instance is known a moment later', async () => {
    const the = world();
    await the.seat(call('1', 'O1@new', 'A1@here'));
    await the.advance(60_000);
    the.state.living = [here, other, at('O1@new').at as typeof here];
    await the.advance(10_000);
    expect(the.session('1')?.version).toBe(1);
  });

  it('are left to whoever leads, and to later where Redis is away', async () => {
    const the = world();
    await the.seat(call('1', 'O1@gone', 'A1@here'));
    the.state.leads = false;
    await the.advance(60_000);
    await the.advance(10_000);
    expect(the.session('1')?.version).toBe(1);
    the.state.leads = true;
    await the.advance(60_000);
    the.state.mayAct = false;
    await the.advance(10_000);
    expect(the.session('1')?.version).toBe(1);
    the.state.mayAct = true;
    await the.advance(60_000);
    the.state.leads = false;
    await the.advance(10_000);
    expect(the.session('1')?.version).toBe(1);
    the.state.leads = true;
    await the.advance(60_000);
    await the.advance(10_000);
    expect(the.session('1')?.state).toBe('AWAITING_REJOIN');
    expect(the.signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
  });

  it('are walked slowly, and no more once it is closed', async () => {
    const the = world();
    await the.seat(...Array.from({ length: 600 }, (_, i) => call(`${i}`, 'O1@gone', 'A1@here')));
    await the.advance(60_000);
    // Two pauses, then the doubt, then sixteen at a time.
    for (let waited = 0; waited < 500; waited += 250) await the.advance(250);
    await the.advance(9_999);
    expect(the.session('0')?.version).toBe(1);
    await the.advance(1);
    for (let i = 0; i < 100 && the.session('599')?.version === 1; i++) await the.advance(0);
    expect(the.session('599')?.state).toBe('AWAITING_REJOIN');
    await the.seat(call('late', 'O1@gone', 'A1@here'));
    the.strays.close();
    await the.advance(60_000);
    await the.advance(10_000);
    expect(the.session('late')?.version).toBe(1);
  });

  it('are all handled though one of them can not be', async () => {
    const the = world();
    const { apply } = the.calls;
    the.calls.apply = async (key, make) => {
      if (key.conversationId === ('1' as typeof key.conversationId)) throw new Error('broken');
      return apply.call(the.calls, key, make);
    };
    await the.seat(call('1', 'O1@gone', 'A1@here'), call('2', 'O1@gone', 'A1@here'));
    await the.advance(60_000);
    await the.advance(10_000);
    expect(the.session('2')?.state).toBe('AWAITING_REJOIN');
    expect(the.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(1);
    the.calls.apply = async () => {
      throw new Unavailable('away');
    };
    await the.advance(60_000);
    await the.advance(10_000);
    expect(the.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(1);
  });
});
