import { describe, expect, it } from 'vitest';
import { baseSession, by, NOW, situations, socketOf, userOf } from './call.fixtures.js';
import { type Delivered, observe } from './observe.js';
import type { Session } from './session.js';
import { step } from './step.js';

const opening: Delivered = {
  type: 'call-offer',
  by: by('O1'),
  callee: userOf('A'),
  conversationId: baseSession.conversationId,
  callId: 'call-1',
};

/** State, seats, who is lost and what waits, in one line. */
const shown = (session: Session | null): string | null =>
  session &&
  [
    session.state,
    `${session.seats.offerer.id}/${session.seats.answerer?.id ?? '-'}`,
    ...(session.rejoining ? [`rejoin of ${session.offeredBy}`] : []),
    ...Object.keys(session.lost).map((role) => `${role} lost`),
    ...(session.candidates.length > 0 ? [`${session.candidates.length} waiting`] : []),
  ].join(' ');

describe('what the owner of a call was seen to deliver moves the observed session', () => {
  const cases: [string, Delivered, string | null][] = [
    ['IDLE', opening, 'OFFERING O1/-'],
    ['FIRST', { type: 'call-answer', by: by('A2') }, 'CONNECTED O1/A2'],
    ['CONNECTED', { type: 'call-peer-disconnected', user: userOf('A') }, 'AWAITING_REJOIN O1/A1 answerer lost'],
    ['RENEG-O', { type: 'call-peer-disconnected', user: userOf('O') }, 'AWAITING_REJOIN O1/A1 offerer lost'],
    ['AWAIT-A', { type: 'call-rejoin-offer', by: by('A2') }, 'OFFERING O1/A2 rejoin of answerer'],
    ['CONNECTED', { type: 'call-rejoin-offer', by: by('O2') }, 'OFFERING O2/A1 rejoin of offerer'],
    ['RENEG-A', { type: 'call-rejoin-offer', by: by('O2') }, 'OFFERING O2/A1 rejoin of offerer'],
    ['REJOIN-A', { type: 'call-rejoin-answer', by: by('O1') }, 'CONNECTED O1/A1'],
    ['REJOIN-A', { type: 'call-peer-disconnected', user: userOf('A') }, 'AWAITING_REJOIN O1/A1 answerer lost'],
    ['REJOIN-A', { type: 'call-rejoin-offer', by: by('O2') }, 'OFFERING O2/A1 rejoin of offerer'],
  ];
  for (const [from, delivered, to] of cases) {
    it(`${from}: ${delivered.type} → ${to}`, () => {
      expect(shown(observe(situations[from] ?? null, delivered, NOW))).toBe(to);
    });
  }

  it('keeps when the state was entered, and whose call it is', () => {
    const session = observe(null, opening, NOW);
    expect(session).toMatchObject({ createdAt: NOW, since: NOW, users: { offerer: 'O', answerer: 'A' } });
    expect(observe(session, { type: 'call-answer', by: by('A1') }, NOW + 5)).toMatchObject({ since: NOW + 5 });
  });
});

describe('what can’t follow from it leaves no session that would be true', () => {
  const cases: [string, Delivered][] = [
    ['CONNECTED', opening],
    ['IDLE', { type: 'call-answer', by: by('A1') }],
    ['IDLE', { type: 'call-peer-disconnected', user: userOf('A') }],
    ['FIRST', { type: 'call-answer', by: by('O2') }],
    ['FIRST', { type: 'call-answer', by: by('X1') }],
    ['CONNECTED', { type: 'call-answer', by: by('A1') }],
    ['CONNECTED', { type: 'call-rejoin-offer', by: by('A1') }],
    ['CONNECTED', { type: 'call-rejoin-answer', by: by('O1') }],
    ['CONNECTED', { type: 'call-peer-disconnected', user: userOf('X') }],
    ['AWAIT-A', { type: 'call-rejoin-offer', by: by('O2') }],
    ['AWAIT-A', { type: 'call-peer-disconnected', user: userOf('A') }],
    ['REJOIN-A', { type: 'call-rejoin-answer', by: by('O2') }],
  ];
  for (const [from, delivered] of cases) {
    const who = 'user' in delivered ? delivered.user : delivered.by.socket.id;
    it(`${from}: ${delivered.type} by ${who}`, () => {
      expect(observe(situations[from] ?? null, delivered, NOW)).toBeNull();
    });
  }

  it('an offer of a user to itself', () => {
    expect(observe(null, { ...opening, callee: userOf('O') }, NOW)).toBeNull();
  });
});

it('an observed session and one of ours that went through the same are the same', () => {
  const drop = (socket: string) =>
    ({ type: 'drop', socket: socketOf(socket), cause: 'browser', otherPresent: true }) as const;
  const ours = [
    {
      type: 'call-offer',
      by: by('O1'),
      conversationId: baseSession.conversationId,
      offer: 'o',
      participants: [userOf('O'), userOf('A')],
      callId: 'call-1',
      early: [],
    },
    { type: 'call-answer', by: by('A1'), answer: 'a', ackRequested: true },
    drop('A1'),
    { type: 'call-rejoin-offer', by: by('A2'), offer: 'r' },
    { type: 'call-rejoin-answer', by: by('O1'), answer: 's', ackRequested: true },
    drop('O1'),
  ] as const;
  const seen: Delivered[] = [
    opening,
    { type: 'call-answer', by: by('A1') },
    { type: 'call-peer-disconnected', user: userOf('A') },
    { type: 'call-rejoin-offer', by: by('A2') },
    { type: 'call-rejoin-answer', by: by('O1') },
    { type: 'call-peer-disconnected', user: userOf('O') },
  ];
  let own: Session | null = null;
  let observed: Session | null = null;
  ours.forEach((event, i) => {
    own = step(own, event, NOW + i).session;
    observed = observe(observed, seen[i] as Delivered, NOW + i);
    expect(observed).toEqual(own);
  });
});
