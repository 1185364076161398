import { describe, expect, it } from 'vitest';
import { userOf } from '../call/call.fixtures.js';
import { HELD_MS, Holds } from './holds.js';
import { at, call, several } from './several.fixture.js';

function world() {
  const base = several();
  const holds = new Holds(base);
  return { ...base, holds, told: base.log };
}

describe('before a connection is closed', () => {
  it('each of its seats is held for 10 s, in every call, and no other', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@other'), call('2', 'O2@other', 'A2@here'), call('3', 'O3@here', 'A1@here'));
    const until = the.clock.now() + HELD_MS;
    let closes = false;
    const held = the.holds.hold(['O1@here', 'A2@here', 'X1@here'].map(at)).then(() => {
      closes = true;
    });
    // What is on its way to them comes to them still.
    await the.advance(0);
    await the.advance(99);
    expect(closes).toBe(false);
    await the.advance(1);
    await held;
    expect(['1', '2', '3'].map((id) => the.session(id)?.held)).toEqual([
      { offerer: until },
      { answerer: until },
      undefined,
    ]);
    expect(the.log).toEqual([]);
  });

  it('it is not kept open for longer by a Redis that does not answer, nor while this instance may not act', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@other'));
    const { replace } = the.store;
    the.store.replace = () => new Promise(() => undefined);
    let closed = false;
    const held = the.holds.hold([at('O1@here')]).then(() => {
      closed = true;
    });
    await the.advance(1_999);
    expect(closed).toBe(false);
    await the.advance(1);
    await held;
    the.store.replace = replace;
    the.state.mayAct = false;
    await the.holds.hold([at('O1@here')]);
    expect(the.session('1')?.held).toBeUndefined();
  });

  it('a call that can not be held keeps none of the others from it', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@other'), call('2', 'O2@here', 'A1@other'));
    const { replace } = the.store;
    the.store.replace = (before, after) =>
      before.conversationId === '1' ? Promise.reject(new Error('broken')) : replace(before, after);
    const held = the.holds.hold([at('O1@here'), at('O2@here')]);
    await the.advance(0);
    await the.advance(100);
    await held;
    expect(the.session('2')?.held).toBeDefined();
    expect(the.signals.events.map(({ what }) => what)).toEqual(['internalError']);
  });
});

describe('a call that ends while a seat of it is held', () => {
  const end = { event: 'call-ended', arg: {} } as const;
  const moving = (the: ReturnType<typeof world>) =>
    call('1', 'O1@here', 'A1@other', { held: { offerer: the.clock.now() + HELD_MS } });

  it('is told to the sockets that its user has where nobody knows which were there, and to the first new one', async () => {
    const the = world();
    the.connect('O1@here', 'O2@other');
    the.holds.owe(moving(the), 'offerer', end);
    await the.advance(0);
    expect(the.told).toEqual(['call-ended > O2@other']);
    await the.advance(500);
    the.disconnect('O1@here');
    the.connect('O3@other');
    await the.advance(500);
    expect(the.told).toEqual(['call-ended > O2@other', 'call-ended > O3@other']);
    the.connect('O4@other');
    await the.advance(500);
    expect(the.told).toHaveLength(2);
  });

  it('is told to none of the devices that were there when its seat was held, but to who came since, also at once', async () => {
    const the = world();
    await the.seat(call('1', 'O1@here', 'A1@other'), call('2', 'O1@here', 'A1@other'));
    the.connect('O1@here', 'O2@here', 'O3@other');
    const held = the.holds.hold([at('O1@here')]);
    await the.advance(0);
    await the.advance(100);
    await held;
    const [one, two] = ['1', '2'].map((id) => the.session(id));
    if (!one || !two) throw new Error('no call');
    the.disconnect('O1@here');
    the.holds.owe(one, 'offerer', end);
    await the.advance(0);
    expect(the.told).toEqual([]);
    the.connect('O4@other');
    // It is there, and has not got its seat yet.
    the.holds.owe(two, 'offerer', end);
    await the.advance(0);
    expect(the.told).toEqual(['call-ended > O4@other']);
    await the.store.delete(one);
    await the.store.delete(two);
    await the.advance(500);
    expect(the.told).toEqual(['call-ended > O4@other', 'call-ended > O4@other']);
    the.connect('O5@other');
    await the.advance(500);
    expect(the.told).toHaveLength(2);
  });

  it('hears of the end that its peer made', async () => {
    const the = world();
    await the.seat(moving(the));
    the.connect('A1@other');
    await the.calls.apply(
      moving(the),
      (now) => now && { type: 'call-end', by: { user: userOf('A'), socket: at('A1@other') } },
    );
    expect(the.session('1')).toBeNull();
    the.connect('O3@here');
    await the.advance(500);
    expect(the.told).toEqual(['call-ended > O3@here']);
  });

  it('is told no more once the seat would not be held, or its conversation has another call', async () => {
    const the = world();
    the.holds.owe(moving(the), 'offerer', end);
    for (let ms = 0; ms < HELD_MS; ms += 500) await the.advance(500);
    the.connect('O3@other');
    await the.advance(500);
    expect(the.told).toEqual([]);

    const other = world();
    other.holds.owe(moving(other), 'offerer', end);
    await other.advance(0);
    await other.seat(call('1', 'A1@other', '-', { callId: 'the next one' }));
    other.connect('O3@other');
    await other.advance(500);
    expect(other.told).toEqual([]);
  });

  it('is told as soon as Redis can be asked where its user is', async () => {
    const the = world();
    the.state.mayAct = false;
    the.holds.owe(moving(the), 'offerer', end);
    await the.advance(500);
    the.connect('O3@other');
    the.state.mayAct = true;
    await the.advance(500);
    expect(the.told).toEqual(['call-ended > O3@other']);
  });

  it('is owed to so many at most', async () => {
    const the = world();
    for (let i = 0; i < 4_097; i++) the.holds.owe(moving(the), 'offerer', end);
    expect(the.signals.events).toEqual([{ what: 'bound', args: ['owed-ends', {}] }]);
    await the.advance(HELD_MS);
  });
});
