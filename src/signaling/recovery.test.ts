import { describe, expect, it } from 'vitest';
import type { InstanceId } from '../base/ids.js';
import type { Peer } from '../base/service.js';
import { userOf } from '../call/call.fixtures.js';
import { Recovery } from './recovery.js';
import { at, call, here, life, several } from './several.fixture.js';

const dead = 'dead.1' as InstanceId;
const address = at('O1@dead').at as typeof here;

function world() {
  const base = several();
  const ended: string[] = [];
  let later = false;
  const connections: { sockets: string[] }[] = [];
  const recovery = new Recovery({
    ...base,
    *connections() {
      for (const { sockets } of connections) {
        const refs = sockets.map(at);
        yield {
          sockets: () => refs,
          peer: (ns): Peer | undefined =>
            refs.filter((ref) => ref.ns === ns).map((ref) => ({ ref, user: userOf(ref.id), token: undefined }))[0],
          transport: {
            end: () => {
              ended.push(...sockets);
              if (!later) base.disconnect(...sockets);
            },
          },
        };
      }
    },
  });
  return {
    ...base,
    recovery,
    ended,
    dies: () => base.listeners.dead?.(dead, address),
    /** A connection that is ended is still there until the test says otherwise. */
    closesLater: () => {
      later = true;
    },
    open: (...sockets: string[]) => {
      base.connect(...sockets);
      connections.push({ sockets });
    },
  };
}

describe('an instance that died', () => {
  it('took one seat: the survivor is told, wherever it is, and the call waits', async () => {
    const the = world();
    the.connect('A1@here', 'O2@other');
    await the.seat(call('1', 'O1@dead', 'A1@here'), call('2', 'O2@other', 'A1@dead'));
    await the.dies();
    expect(the.session('1')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'instance' } });
    expect(the.session('2')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { answerer: 'instance' } });
    expect(the.log).toEqual(['call-peer-disconnected > A1@here', 'call-peer-disconnected > O2@other', 'forget dead.1']);
    expect(the.signals.events.find(({ what }) => what === 'instanceDied')?.args).toEqual([
      'dead.1',
      2,
      expect.any(Number),
    ]);
  });

  it('took both seats: the call waits for both after one step, and nobody is told', async () => {
    const the = world();
    await the.seat(call('1', 'O1@dead', 'A1@dead'));
    await the.dies();
    expect(the.session('1')).toMatchObject({
      version: 2,
      waitsForBoth: true,
      lost: { offerer: 'instance', answerer: 'instance' },
    });
    expect(the.log).toEqual(['forget dead.1']);
  });

  it('took the other seat of a call whose first was lost to a browser: it is over', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@dead', { state: 'AWAITING_REJOIN', lost: { offerer: 'browser' } }));
    await the.dies();
    expect(the.session('1')).toBeNull();
  });

  it('held the offerer of a ringing call: it ends, and every socket of the callee is told', async () => {
    const the = world();
    the.connect('A1@here', 'A2@other');
    await the.seat(call('1', 'O1@dead', '-', { state: 'OFFERING', offeredBy: 'offerer' }));
    await the.dies();
    expect(the.session('1')).toBeNull();
    expect(the.log).toEqual(['call-ended > A1@here', 'call-ended > A2@other', 'forget dead.1']);
  });

  it('had closed a connection for a planned move: the seat waits on, and counts as connected', async () => {
    const the = world();
    const until = the.clock.now() + 10_000;
    await the.seat(
      call('1', 'O1@dead', 'A1@here', { held: { offerer: until } }),
      call('2', 'O1@dead', 'A1@dead', { held: { offerer: until } }),
    );
    await the.dies();
    expect(the.session('1')).toMatchObject({ state: 'CONNECTED', version: 1 });
    expect(the.session('2')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { answerer: 'instance' } });
    expect(the.log).toEqual(['keep call-peer-disconnected for O', 'forget dead.1']);
  });

  it('lives again under the same address: what its next life has seated is left alone', async () => {
    const the = world();
    the.connect('O1@dead', 'A1@here');
    await the.seat(call('1', 'O1@dead', 'A1@here'));
    await the.dies();
    expect(the.session('1')).toMatchObject({ state: 'CONNECTED', version: 1 });
  });

  it('had calls that went on elsewhere, or ended: nothing happens to them', async () => {
    const the = world();
    await the.seat(call('1', 'O1@dead', 'A1@dead'));
    const before = the.session('1');
    if (!before) throw new Error('not seated');
    await the.store.replace(before, { ...call('1', 'O2@here', 'A2@here'), version: 2 });
    await the.dies();
    expect(the.session('1')).toMatchObject({ state: 'CONNECTED', version: 2 });
  });

  it('is not forgotten while Redis is away: whoever takes it up next finds the rest', async () => {
    const the = world();
    the.connect('A1@here');
    await the.seat(call('1', 'O1@dead', 'A1@here'), call('2', 'O2@dead', 'A1@here'));
    the.state.mayAct = false;
    await expect(the.dies()).rejects.toThrow('the lease is over');
    expect(the.log).toEqual([]);
    the.state.mayAct = true;
    await the.dies();
    expect([the.session('1')?.state, the.session('2')?.state]).toEqual(['AWAITING_REJOIN', 'AWAITING_REJOIN']);
  });

  it('had a call that can not be handled: the others are, and the fault is told', async () => {
    const the = world();
    const { replace } = the.store;
    the.connect('A1@here');
    await the.seat(call('1', 'O1@dead', 'A1@here'), call('2', 'O2@dead', 'A1@here'));
    the.store.replace = (before, after) => {
      if (before.conversationId === '1') throw new Error('broken');
      return replace(before, after);
    };
    await the.dies();
    expect([the.session('1')?.state, the.session('2')?.state]).toEqual(['CONNECTED', 'AWAITING_REJOIN']);
    expect(the.signals.events.filter(({ what }) => what === 'internalError')).toHaveLength(1);
    expect(the.log.at(-1)).toBe('forget dead.1');
  });

  it('had many: all are handled', async () => {
    const the = world();
    the.connect('A1@here');
    const many = Array.from({ length: 300 }, (_, i) => call(`${i}`, 'O1@dead', i % 2 ? 'A1@here' : 'A1@dead'));
    await the.seat(...many);
    await the.dies();
    for (const { conversationId } of many) expect(the.session(conversationId)?.state).toBe('AWAITING_REJOIN');
  });
});

describe('an instance that was declared dead', () => {
  it('closes what holds a seat, forgets its calls, and goes on with the rest once it may act', async () => {
    const the = world();
    the.open('O1@here');
    the.open('O2@here', 'A2@here');
    the.open('X1@here');
    await the.seat(call('1', 'O1@here', 'A1@other'));
    the.state.mayAct = false;
    the.listeners.fenced?.(life, 'here.2' as InstanceId);
    expect(the.ended).toEqual(['O1@here']);
    expect(the.log).toEqual(['drop']);
    expect(the.signals.events.find(({ what }) => what === 'fenced')?.args).toEqual(['here.1', 'here.2', 1]);
    await the.advance(1_000);
    expect(the.log).toEqual(['drop']);
    the.state.mayAct = true;
    await the.advance(250);
    // Nobody had taken the call over yet: it is lost as it would have been.
    expect(the.session('1')).toMatchObject({ lost: { offerer: 'instance', answerer: 'instance' } });
    expect(the.log.slice(1)).toEqual(['forget here.1', 'restore all']);
  });

  it('whose socket was still there when another took over: nobody is left with a seat that nobody holds', async () => {
    const the = world();
    the.open('O1@here');
    the.connect('A1@other');
    await the.seat(call('1', 'O1@here', 'A1@other'));
    the.closesLater();
    the.listeners.fenced?.(life, 'here.2' as InstanceId);
    // Another instance takes the old life over at this very moment, sees the socket, and forgets the index.
    await the.listeners.dead?.(life, here);
    expect(the.session('1')?.state).toBe('CONNECTED');
    expect(the.log).toEqual(['drop', 'forget here.1']);
    the.disconnect('O1@here');
    await the.advance(250);
    expect(the.session('1')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'instance' } });
    expect(the.log).toContain('call-peer-disconnected > A1@other');
  });
});

describe('an instance that is gone, whose index is lost with it', () => {
  it('its calls with browsers of this one are lost all the same, a while later', async () => {
    const the = world();
    the.state.living = [here, address];
    await the.advance(1_000);
    the.open('A1@here');
    await the.seat(call('1', 'O1@dead', 'A1@here'), call('2', 'O2@other', 'A1@here'));
    the.connect('O2@other');
    the.state.living = [here];
    await the.advance(1_000);
    await the.advance(9_999);
    expect(the.session('1')?.state).toBe('CONNECTED');
    await the.advance(1);
    expect(the.session('1')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'instance' } });
    expect(the.session('2')?.state).toBe('CONNECTED');
    expect(the.log).toEqual(['call-peer-disconnected > A1@here']);
  });

  it('and are not where it lives again by then, or this one may not act and can not know', async () => {
    const the = world();
    the.state.living = [here, address];
    await the.advance(1_000);
    the.open('A1@here');
    await the.seat(call('1', 'O1@dead', 'A1@here'));
    the.state.living = [here];
    await the.advance(1_000);
    the.state.living = [here, address];
    await the.advance(10_000);
    expect(the.session('1')?.state).toBe('CONNECTED');
    the.state.mayAct = false;
    the.state.living = [here];
    await the.advance(1_000);
    await the.advance(10_000);
    expect(the.session('1')?.state).toBe('CONNECTED');
  });
});

describe('an instance that leaves', () => {
  it('has lost whatever it does not hold, and is forgotten', async () => {
    const the = world();
    the.connect('A1@other');
    await the.seat(
      call('1', 'O1@here', 'A1@other', { held: { offerer: the.clock.now() + 10_000 } }),
      call('2', 'O2@here', 'A1@other'),
    );
    await the.recovery.handOver();
    expect(the.session('1')?.state).toBe('CONNECTED');
    expect(the.session('2')).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'drain' } });
    expect(the.log).toEqual(['call-peer-disconnected > A1@other', 'forget here.1']);
  });
});

describe('Redis that is back', () => {
  it('gets what this instance knows, as soon as that may act', async () => {
    const the = world();
    the.state.mayAct = false;
    the.listeners.back?.(true);
    await the.advance(1_000);
    expect(the.log).toEqual([]);
    the.state.mayAct = true;
    await the.advance(250);
    expect(the.log).toEqual(['restore all']);
  });

  it('gets what is recent where nothing is known to be lost, and all where it is; once for each while it can not be written', async () => {
    const the = world();
    the.listeners.back?.(false);
    await the.advance(0);
    expect(the.log).toEqual(['restore recent']);
    the.state.mayAct = false;
    for (const lost of [false, true, false, true, false]) the.listeners.back?.(lost);
    await the.advance(1_000);
    the.state.mayAct = true;
    await the.advance(250);
    expect(the.log).toEqual(['restore recent', 'restore recent', 'restore all']);
    the.listeners.back?.(false);
    await the.advance(0);
    expect(the.log).toHaveLength(4);
  });
});
