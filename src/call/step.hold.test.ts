// A planned move: a seat is held while its browser changes the instance, and lost only when nobody comes. docs/calls.md,
// accepted difference 6.
import { describe, expect, it } from 'vitest';
import { baseSession, by, eventOf, NOW, shown, situations, socketOf } from './call.fixtures.js';
import type { CallEvent, Session } from './session.js';
import { step } from './step.js';

const LATER = NOW + 10_000;
const hold = (socket: string): CallEvent => ({ type: 'hold', socket: socketOf(socket), until: LATER });
const drop = (socket: string, cause: 'browser' | 'drain' | 'instance', otherPresent = false): CallEvent => ({
  type: 'drop',
  socket: socketOf(socket),
  cause,
  otherPresent,
});
const over = (role: 'offerer' | 'answerer', otherPresent: boolean): CallEvent => ({
  type: 'hold-over',
  role,
  otherPresent,
});
const gone = (user: string, to: string) => `call-peer-disconnected {"conversationId":"c","userId":"${user}"} > ${to}`;

/** Plays events in turn; answers the last session, and each step as one line. */
function play(
  from: Session | null,
  events: readonly CallEvent[],
  at = NOW,
): { session: Session | null; lines: string[] } {
  let session = from;
  const lines: string[] = [];
  for (const event of events) {
    const after = step(session, event, at);
    lines.push(shown(session, after));
    session = after.session;
  }
  return { session, lines };
}

// Who may be held: whose seat is taken and not lost. `-`: nothing changes.
const holdable: Readonly<Record<string, string>> = {
  IDLE: '',
  FIRST: 'O1',
  CONNECTED: 'O1 A1',
  'RENEG-O': 'O1 A1',
  'RENEG-A': 'O1 A1',
  'AWAIT-O': 'A1',
  'AWAIT-A': 'O1',
  'AWAIT-Ol': 'A1',
  'AWAIT-Al': 'O1',
  'REJOIN-O': 'O1 A1',
  'REJOIN-A': 'O1 A1',
  BOTH: '',
  'BOTH+O': 'O1',
  'BOTH+A': 'A1',
  'BOTH+OA': 'O1 A1',
  'KEPT-O': 'O1',
  'KEPT-O+A': 'O1 A1',
  'KEPT-A': 'A1',
  'KEPT-A+O': 'O1 A1',
};

describe('hold', () => {
  it('names every situation', () => expect(Object.keys(holdable)).toEqual(Object.keys(situations)));

  it.each(Object.entries(holdable))('%s: %s', (name, sockets) => {
    const before = situations[name] ?? null;
    for (const socket of ['O1', 'O2', 'A1', 'A2', 'X1']) {
      const { session, effects } = step(before, hold(socket), NOW);
      expect(effects).toEqual([]);
      if (!before || !sockets.split(' ').includes(socket)) {
        expect(session).toBe(before);
        continue;
      }
      const role = socket === 'O1' ? 'offerer' : 'answerer';
      expect(session).toEqual({ ...before, version: before.version + 1, held: { [role]: LATER } });
      expect(step(session, hold(socket), NOW).session).toBe(session);
      expect(step(session, drop(socket, 'drain'), NOW).session).toBe(session);
      expect(step(session, drop(socket, 'instance'), NOW).session).toBe(session);
    }
  });
});

describe('the devices beside a held seat', () => {
  it('are noted, but for its own socket, until the seat is taken or lost', () => {
    const beside = ['O1', 'O2', 'O3'].map((name) => by(name).socket);
    const { session } = step(baseSession, { type: 'hold', socket: by('O1').socket, until: LATER, beside }, NOW);
    expect(session?.beside).toEqual({ offerer: beside.slice(1) });
    const both = step(session, { type: 'hold', socket: by('A1').socket, until: LATER, beside: [] }, NOW).session;
    expect(both?.beside).toEqual({ offerer: beside.slice(1), answerer: [] });
    expect(step(both, { type: 'arrived', by: by('O4') }, NOW).session?.beside).toEqual({ answerer: [] });
    expect(step(session, { type: 'arrived', by: by('O4') }, NOW).session?.beside).toBeUndefined();
  });
});

describe('a seat that is held', () => {
  it('goes to the first new socket of its user, and to no later one', () => {
    const { session, lines } = play(baseSession, [
      hold('O1'),
      drop('O1', 'drain'),
      { type: 'arrived', by: by('O1') },
      eventOf('arrived', 'X1'),
      eventOf('arrived', 'A2'),
      eventOf('arrived', 'O2'),
      eventOf('arrived', 'O3'),
    ]);
    expect(lines.slice(1)).toEqual(['same', 'same', 'same', 'same', 'O=O2', 'same']);
    const seats = { ...baseSession.seats, offerer: socketOf('O2') };
    expect(session).toEqual({ ...baseSession, seats, moved: { offerer: true }, version: baseSession.version + 2 });
  });

  it('counts as connected, so that a loss of the other waits for a rejoin', () => {
    const { session, lines } = play(baseSession, [hold('O1'), drop('A1', 'browser', false)]);
    expect(lines[1]).toContain(gone('A', 'O1'));
    expect(session).toMatchObject({
      state: 'AWAITING_REJOIN',
      lost: { answerer: 'browser' },
      held: { offerer: LATER },
    });
  });

  it('lets everything go on: an answer, a renegotiation and candidates are for its seat', () => {
    expect(play(situations.FIRST ?? null, [hold('O1'), eventOf('call-answer', 'A1')]).lines[1]).toContain('> O1');
    expect(play(baseSession, [hold('O1'), eventOf('ice-candidate', 'A1')]).lines[1]).toContain('> O1');
    const { lines } = play(situations['RENEG-O'] ?? null, [hold('O1'), eventOf('call-renegotiate-answer', 'A1')]);
    expect(lines[1]).toContain('> O1');
  });

  it('is taken as ever by a rejoin offer from another socket, whose move is over then', () => {
    const { session } = play(baseSession, [hold('O1'), eventOf('call-rejoin-offer', 'O2')]);
    expect(session).toMatchObject({ state: 'OFFERING', rejoining: true, seats: { offerer: socketOf('O2') } });
    expect([session?.held, session?.moved]).toEqual([undefined, undefined]);
  });

  it('shows a kept rejoin offer to the socket that comes for it', () => {
    const { lines } = play(situations['KEPT-O+A'] ?? null, [hold('A1'), eventOf('arrived', 'A2')]);
    expect(lines[1]).toBe(`A=A2 | call-rejoin-offer {"conversationId":"c","offer":"KEPT","fromUserId":"O"} > A2`);
  });
});

describe('a browser that was moved', () => {
  const moved = [hold('A1'), drop('A1', 'drain'), eventOf('arrived', 'A2')];

  it('may offer a rejoin from its new seat, once', () => {
    const { lines, session } = play(baseSession, [...moved, eventOf('call-rejoin-offer', 'A2')]);
    expect(lines.at(-1)).toMatch(/^state=OFFERING since=now by=A rejoining=yes \| call-rejoin-offer .* > O1 \| ack/);
    expect(session?.moved).toBeUndefined();
    expect(play(session, [eventOf('call-rejoin-offer', 'A2')]).lines).toEqual(['same | no: Nothing to rejoin']);
  });

  it('has the seat for everything else, and its peer can not offer a rejoin for it', () => {
    const { session } = play(baseSession, moved);
    expect(play(session, [eventOf('call-renegotiate-offer', 'A2')]).lines[0]).toContain('> O1');
    expect(play(session, [eventOf('call-rejoin-offer', 'O1')]).lines).toEqual(['same | no: Nothing to rejoin']);
  });

  it('is lost like any other, and can be moved again', () => {
    const { session } = play(baseSession, [...moved, drop('A2', 'browser', true)]);
    expect(session).toMatchObject({ state: 'AWAITING_REJOIN', lost: { answerer: 'browser' } });
    expect(session?.moved).toBeUndefined();
    const again = play(baseSession, [...moved, hold('A2'), eventOf('arrived', 'A3')]).session;
    expect(again?.seats.answerer).toEqual(socketOf('A3'));
  });
});

describe('a hold that nobody came for', () => {
  const held = play(baseSession, [hold('O1')]).session;

  it('is over at its time, not before', () => {
    expect(play(held, [over('offerer', true)], LATER - 1).lines).toEqual(['same']);
    expect(play(baseSession, [over('offerer', true)], LATER).lines).toEqual(['same']);
    expect(play(held, [over('answerer', true)], LATER).lines).toEqual(['same']);
  });

  it('is a loss that the other is told of', () => {
    const { session, lines } = play(held, [over('offerer', true)], LATER);
    expect(lines[0]).toContain(gone('O', 'A1'));
    expect(session).toMatchObject({ state: 'AWAITING_REJOIN', lost: { offerer: 'drain' }, since: LATER });
    expect(session?.held).toBeUndefined();
  });

  it('waits for both where both were held', () => {
    const both = play(baseSession, [hold('O1'), hold('A1')]).session;
    const { session } = play(both, [over('offerer', false), over('answerer', false)], LATER);
    expect(session).toMatchObject({ waitsForBoth: true, lost: { offerer: 'drain', answerer: 'drain' } });
    expect(session?.held).toBeUndefined();
  });

  it('ends a call whose other was lost to a browser, and one that rings', () => {
    expect(play(held, [drop('A1', 'browser'), over('offerer', false)], LATER).session).toBeNull();
    const rings = play(situations.FIRST ?? null, [hold('O1')]).session;
    const end = 'gone | call-ended {"conversationId":"c","reason":"offerer-left","userId":"O"} > A*';
    expect(play(rings, [over('offerer', false)], LATER).lines).toEqual([end]);
  });
});
