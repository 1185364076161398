// What happens to a call when sockets go, time passes or an operator ends it, written out from docs/calls.md: every situation,
// every socket, every cause, with and without the other seat's socket present.
import { describe, expect, it } from 'vitest';
import type { DropCause } from '../base/service.js';
import { baseSession, by, ENTERED, eventOf, NOW, shown, situations, socketOf, table } from './call.fixtures.js';
import type { CallEvent, Session } from './session.js';
import { step } from './step.js';

// Columns: the socket that drops, b: its browser's own cause, s: not (the legacy went away, a drain, its instance died); +: the other seat's socket is
// connected, -: it is not. `rest`: a socket without a seat, for any cause.
const dropped = `
            O1b+  O1b-  O1s+  O1s-  A1b+  A1b-  A1s+  A1s-  rest
  IDLE      -     -     -     -     -     -     -     -     -
  FIRST     left  left  left  left  -     -     -     -     -     // a callee has no seat yet
  CONNECTED awO   gone  awO   bothO awA   gone  awA   bothA -
  RENEG-O   rawO  gone  rawO  rbthO rawA  gone  rawA  rbthA -
  RENEG-A   rawO  gone  rawO  rbthO rawA  gone  rawA  rbthA -
  AWAIT-O   -     -     -     -     gone  gone  gone  gone  -     // its own browser's cause came first
  AWAIT-A   gone  gone  gone  gone  -     -     -     -     -
  AWAIT-Ol  -     -     -     -     gone  gone  lateA lateA -
  AWAIT-Al  gone  gone  lateO lateO -     -     -     -     -
  REJOIN-O  jawO  gone  jawO  jbthO jawA  gone  jawA  jbthA -
  REJOIN-A  jawO  gone  jawO  jbthO jawA  gone  jawA  jbthA -
  BOTH      -     -     -     -     -     -     -     -     -
  BOTH+O    reO   reO   reO   reO   -     -     -     -     -
  BOTH+A    -     -     -     -     reA   reA   reA   reA   -
  BOTH+OA   reO1  reO1  reO1  reO1  reA1  reA1  reA1  reA1  -
  KEPT-O    kO    kO    kO    kO    -     -     -     -     -     // the offer is forgotten, the wait goes on
  KEPT-O+A  kOtA  kO1   kOtA  kO1   kA    kA    kA    kA    -     // the one that owes the answer: its offer stays
  KEPT-A    -     -     -     -     kAo   kAo   kAo   kAo   -
  KEPT-A+O  kO2   kO2   kO2   kO2   kAtO  kA1   kAtO  kA1   -`;

const gone = (user: string) => `call-peer-disconnected {"conversationId":"c","userId":"${user}"}`;
const awaiting = 'state=AWAITING_REJOIN since=now';

const meaning: Readonly<Record<string, string>> = {
  '-': 'same',
  gone: 'gone',
  left: 'gone | call-ended {"conversationId":"c","reason":"offerer-left","userId":"O"} > A*',
  awO: `${awaiting} lost=O:cause | ${gone('O')} > A1`,
  awA: `${awaiting} lost=A:cause | ${gone('A')} > O1`,
  rawO: `${awaiting} lost=O:cause by=- | ${gone('O')} > A1`,
  rawA: `${awaiting} lost=A:cause by=- | ${gone('A')} > O1`,
  jawO: `${awaiting} lost=O:cause by=- rejoining=no buffer= | ${gone('O')} > A1`,
  jawA: `${awaiting} lost=A:cause by=- rejoining=no buffer= | ${gone('A')} > O1`,
  bothO: `${awaiting} lost=O:cause,A:cause both=yes`,
  bothA: `${awaiting} lost=O:cause,A:cause both=yes`,
  rbthO: `${awaiting} lost=O:cause,A:cause both=yes by=-`,
  rbthA: `${awaiting} lost=O:cause,A:cause both=yes by=-`,
  jbthO: `${awaiting} lost=O:cause,A:cause both=yes by=- rejoining=no buffer=`,
  jbthA: `${awaiting} lost=O:cause,A:cause both=yes by=- rejoining=no buffer=`,
  lateA: 'since=now lost=O:legacy,A:cause both=yes',
  lateO: 'since=now lost=O:cause,A:drain both=yes',
  reO: 'since=now lost=O:cause,A:legacy',
  reA: 'since=now lost=O:legacy,A:cause',
  reO1: 'since=now lost=O:cause',
  reA1: 'since=now lost=A:cause',
  kO: `${awaiting} lost=O:cause,A:legacy by=- rejoining=no buffer= kept=-`,
  kO1: `${awaiting} lost=O:cause by=- rejoining=no buffer= kept=-`,
  kOtA: `${awaiting} lost=O:cause by=- rejoining=no buffer= kept=- | ${gone('O')} > A1`,
  kA: 'since=now lost=A:cause',
  kO2: 'since=now lost=O:cause',
  kAo: `${awaiting} lost=O:legacy,A:cause by=- rejoining=no buffer= kept=-`,
  kA1: `${awaiting} lost=A:cause by=- rejoining=no buffer= kept=-`,
  kAtO: `${awaiting} lost=A:cause by=- rejoining=no buffer= kept=- | ${gone('A')} > O1`,
};

/** The cause that stands in `lost` already must read as such: an equal cause of the event's is shown as `cause`. */
const named = (text: string, before: Session | null, cause: DropCause) => {
  const old = Object.values(before?.lost ?? {});
  return old.includes(cause) ? text.replaceAll(`:${cause}`, ':cause') : text;
};

const causes: Readonly<Record<string, readonly DropCause[]>> = { b: ['browser'], s: ['legacy', 'drain', 'instance'] };

describe('drop', () => {
  const cells = table(dropped);

  it('names every situation', () => {
    expect([...new Set(cells.map(({ row }) => row))]).toEqual(Object.keys(situations));
  });

  it.each(cells)('$row, $column: $cell', ({ row, column, cell }) => {
    const before = situations[row] ?? null;
    const seated = column !== 'rest';
    for (const socket of seated ? [column.slice(0, 2)] : ['O2', 'A2', 'X1']) {
      for (const cause of seated
        ? (causes[column.charAt(2)] ?? [])
        : (['browser', 'legacy', 'drain', 'instance'] as const)) {
        for (const otherPresent of seated ? [column.endsWith('+')] : [true, false]) {
          const event: CallEvent = { type: 'drop', socket: socketOf(socket), cause, otherPresent };
          const after = step(before, event, NOW);
          expect(shown(before, after, cause)).toBe(named(meaning[cell] ?? `no meaning of ${cell}`, before, cause));
          if (after.session && after.session !== before) expect(after.session.version).toBe((before?.version ?? 0) + 1);
        }
      }
    }
  });

  it('takes the same id on a later connection for another socket', () => {
    const later = { ...socketOf('O1'), connection: 99 as never };
    const event: CallEvent = { type: 'drop', socket: later, cause: 'browser', otherPresent: true };
    expect(step(baseSession, event, NOW).session).toBe(baseSession);
  });
});

const timedOut = (missing: string) =>
  `call-ended {"conversationId":"c","reason":"rejoin-timeout","userId":"${missing}"}`;
const byOperator = 'call-ended {"conversationId":"c","reason":"operator"}';

// Per situation: swept after the 60 s that a rejoin may take; ended by an operator.
const ends: Readonly<Record<string, readonly [sweep: string, operator: string]>> = {
  IDLE: ['same', 'same'],
  FIRST: ['same', `gone | ${byOperator} > O1 | ${byOperator} > A*`],
  CONNECTED: ['same', `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  'RENEG-O': ['same', `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  'RENEG-A': ['same', `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  'AWAIT-O': [`gone | ${timedOut('O')} > A1`, `gone | ${byOperator} > A1`],
  'AWAIT-A': [`gone | ${timedOut('A')} > O1`, `gone | ${byOperator} > O1`],
  'AWAIT-Ol': [`gone | ${timedOut('O')} > A1`, `gone | ${byOperator} > A1`],
  'AWAIT-Al': [`gone | ${timedOut('A')} > O1`, `gone | ${byOperator} > O1`],
  'REJOIN-O': ['same', `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  'REJOIN-A': ['same', `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  BOTH: [`gone | ${timedOut('A')} > O* | ${timedOut('O')} > A*`, `gone | ${byOperator} > O* | ${byOperator} > A*`],
  'BOTH+O': [`gone | ${timedOut('A')} > O1 | ${timedOut('A')} > A*`, `gone | ${byOperator} > O1 | ${byOperator} > A*`],
  'BOTH+A': [`gone | ${timedOut('O')} > O* | ${timedOut('O')} > A1`, `gone | ${byOperator} > O* | ${byOperator} > A1`],
  'BOTH+OA': [`gone | ${timedOut('A')} > O1 | ${timedOut('O')} > A1`, `gone | ${byOperator} > O1 | ${byOperator} > A1`],
  'KEPT-O': [`gone | ${timedOut('A')} > O1 | ${timedOut('A')} > A*`, `gone | ${byOperator} > O1 | ${byOperator} > A*`],
  'KEPT-O+A': [
    `gone | ${timedOut('A')} > O1 | ${timedOut('A')} > A1`,
    `gone | ${byOperator} > O1 | ${byOperator} > A1`,
  ],
  'KEPT-A': [`gone | ${timedOut('O')} > O* | ${timedOut('O')} > A1`, `gone | ${byOperator} > O* | ${byOperator} > A1`],
  'KEPT-A+O': [
    `gone | ${timedOut('O')} > O1 | ${timedOut('O')} > A1`,
    `gone | ${byOperator} > O1 | ${byOperator} > A1`,
  ],
};

describe('the end of a call that nobody ends', () => {
  const sweep: CallEvent = { type: 'sweep', rejoinTimeout: 60_000, maxAge: 21_600_000 };

  it('names every situation', () => expect(Object.keys(ends)).toEqual(Object.keys(situations)));

  it.each(Object.entries(ends))('%s', (name, [swept, operator]) => {
    const before = situations[name] ?? null;
    expect(shown(before, step(before, sweep, ENTERED + 59_999))).toBe('same');
    expect(shown(before, step(before, sweep, ENTERED + 60_000))).toBe(swept);
    expect(shown(before, step(before, { type: 'operator-end' }, NOW))).toBe(operator);
  });

  it.each(Object.keys(situations).filter((name) => ends[name]?.[0] === 'same' && name !== 'IDLE'))(
    '%s is dropped silently six hours after its last change',
    (name) => {
      const before = situations[name] ?? null;
      expect(shown(before, step(before, sweep, ENTERED + 21_599_999))).toBe('same');
      expect(shown(before, step(before, sweep, ENTERED + 21_600_000))).toBe('gone');
    },
  );
});

/** Plays events in turn; answers the last session and everything that was heard, in order. */
function play(...events: readonly CallEvent[]): { session: Session | null; heard: string[] } {
  let session: Session | null = baseSession;
  const heard: string[] = [];
  for (const event of events) {
    const after = step(session, event, NOW);
    heard.push(...shown(after.session, after).split(' | ').slice(1));
    session = after.session;
  }
  return { session, heard };
}
const drop = (socket: string, cause: DropCause, otherPresent: boolean): CallEvent => ({
  type: 'drop',
  socket: socketOf(socket),
  cause,
  otherPresent,
});
const offerOf = (user: string, offer = 'sdp') =>
  `call-rejoin-offer {"conversationId":"c","offer":"${offer}","fromUserId":"${user}"}`;

describe('a call that lost both seats with the legacy', () => {
  const lost = [drop('O1', 'legacy', true), drop('A1', 'legacy', false)];
  const told = 'call-peer-disconnected {"conversationId":"c","userId":"O"} > A1';

  it('is resumed when the first comes back, offers, and the second comes back', () => {
    const { session, heard } = play(
      ...lost,
      eventOf('arrived', 'O2'),
      eventOf('call-rejoin-offer', 'O2'),
      eventOf('ice-candidate', 'O2'),
      eventOf('arrived', 'A2'),
      eventOf('call-rejoin-offer', 'A2'),
      eventOf('ice-candidate', 'A2'),
      eventOf('call-rejoin-answer', 'A2'),
      eventOf('ice-candidate', 'O2'),
    );
    expect(heard).toEqual([
      told,
      `${offerOf('O')} > A*`,
      'ack {"ok":true}',
      'ack {"ok":true}',
      `${offerOf('O')} > A2`,
      'no: Rejoin in progress, answer it',
      `${offerOf('O')} > A2`,
      'ice-candidate "ice" > O2',
      'ack {"ok":true}',
      'call-rejoin-answer {"conversationId":"c","answer":"sdp","fromUserId":"A"} > O2',
      'ack ["ice"]',
      'ice-candidate "ice" > A2',
      'ack {"ok":true}',
    ]);
    expect(session).toEqual({
      ...baseSession,
      version: 14,
      broken: 11,
      since: NOW,
      seats: { offerer: by('O2').socket, answerer: by('A2').socket },
    });
    expect(session && 'waitsForBoth' in session).toBe(false);
  });

  it('is an ordinary call again afterwards: a browser that goes, and its peer after it, end it', () => {
    const again = [...lost, eventOf('call-rejoin-offer', 'O2'), eventOf('call-rejoin-answer', 'A2')];
    expect(play(...again, drop('A2', 'browser', true)).session?.state).toBe('AWAITING_REJOIN');
    expect(play(...again, drop('A2', 'browser', true), drop('O2', 'legacy', false)).session).toBeNull();
  });

  it('waits on when the one that offered goes again, and lets either offer anew', () => {
    const back = [...lost, eventOf('call-rejoin-offer', 'O2'), drop('O2', 'browser', false)];
    expect(play(...back, eventOf('call-rejoin-offer', 'A2')).heard.at(-2)).toBe(`${offerOf('A')} > O*`);
    expect(play(...back, eventOf('call-rejoin-offer', 'O3')).heard.at(-2)).toBe(`${offerOf('O')} > A*`);
  });

  it('forgets the candidates of an offer that is made anew', () => {
    const anew = [
      eventOf('call-rejoin-offer', 'O2'),
      eventOf('ice-candidate', 'O2'),
      eventOf('call-rejoin-offer', 'O3'),
    ];
    expect(play(...lost, ...anew, eventOf('call-rejoin-answer', 'A2')).heard.at(-1)).toBe('ack []');
  });

  it('changes nothing when an old socket is reported gone once more', () => {
    const { session } = play(...lost);
    expect(play(...lost, drop('O1', 'browser', false), drop('A1', 'browser', true)).session).toEqual(session);
  });
});

it('hands buffered candidates over one by one where no acknowledgement was asked for', () => {
  const first = situations.FIRST ?? null;
  const { effects } = step(first, eventOf('call-answer', 'A1', false), NOW);
  expect(shown(first, { session: first, effects: effects.slice(2), because: '' })).toBe(
    'same | ice-candidate "b1" > A1 | ice-candidate "b2" > A1 | ack ["b1","b2"]',
  );
});
