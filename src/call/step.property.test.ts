// What holds after any sequence of events with any payloads, whoever sends them.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type SocketRef, sameSocket } from '../base/ids.js';
import type { DropCause } from '../base/service.js';
import { baseSession, by, socketOf, userOf } from './call.fixtures.js';
import type { CallEvent, Effect, Session, Step } from './session.js';
import { step } from './step.js';

const sender = fc.constantFrom('O1', 'O2', 'O3', 'A1', 'A2', 'A3', 'X1', 'X2');
/** Whatever a browser can send, and a word, so that shrinking ends in something short. */
const body = fc.oneof(fc.constant('sdp'), fc.anything());
const participants = fc.constantFrom<readonly [string, string] | undefined>(['O', 'A'], ['A', 'O'], undefined);

const commands = fc.oneof(
  fc.record({ by: sender, offer: body, participants, early: fc.array(body, { maxLength: 300 }) }).map(
    ({ by: from, offer, participants: two, early }): CallEvent => ({
      type: 'call-offer',
      by: by(from),
      conversationId: baseSession.conversationId,
      offer,
      ...(two ? { participants: [userOf(two[0]), userOf(two[1])] as const } : {}),
      callId: 'call-n',
      early,
    }),
  ),
  fc
    .record({
      type: fc.constantFrom('call-answer', 'call-rejoin-answer'),
      by: sender,
      answer: body,
      asked: fc.boolean(),
    })
    .map(({ type, by: from, answer, asked }): CallEvent => ({ type, by: by(from), answer, ackRequested: asked })),
  fc
    .record({ by: sender, iceCandidate: body })
    .map(({ by: from, iceCandidate }): CallEvent => ({ type: 'ice-candidate', by: by(from), iceCandidate })),
  fc
    .record({ type: fc.constantFrom('call-renegotiate-offer', 'call-rejoin-offer'), by: sender, offer: body })
    .map(({ type, by: from, offer }): CallEvent => ({ type, by: by(from), offer })),
  fc
    .record({ by: sender, answer: body })
    .map(({ by: from, answer }): CallEvent => ({ type: 'call-renegotiate-answer', by: by(from), answer })),
);
/** Rare, so that calls grow old enough to reach every state. */
const end = sender.map((from): CallEvent => ({ type: 'call-end', by: by(from) }));
const drop = fc
  .record({
    socket: sender,
    cause: fc.constantFrom<DropCause>('browser', 'legacy', 'drain', 'legacy'),
    otherPresent: fc.boolean(),
  })
  .map(
    ({ socket, cause, otherPresent }): CallEvent => ({ type: 'drop', socket: socketOf(socket), cause, otherPresent }),
  );
const arrived = sender.map((from): CallEvent => ({ type: 'arrived', by: by(from) }));
const hold = fc
  .record({ socket: sender, until: fc.constantFrom(1_000_000, 1_060_000) })
  .map(({ socket, until }): CallEvent => ({ type: 'hold', socket: socketOf(socket), until }));
const holdOver = fc
  .record({ role: fc.constantFrom('offerer' as const, 'answerer' as const), otherPresent: fc.boolean() })
  .map((over): CallEvent => ({ type: 'hold-over', ...over }));
const sweep = fc.constant<CallEvent>({ type: 'sweep', rejoinTimeout: 60_000, maxAge: 21_600_000 });
const operator = fc.constant<CallEvent>({ type: 'operator-end' });
const anyEvent = fc.oneof(
  { weight: 40, arbitrary: commands },
  { weight: 1, arbitrary: end },
  { weight: 8, arbitrary: drop },
  { weight: 6, arbitrary: arrived },
  { weight: 6, arbitrary: hold },
  { weight: 2, arbitrary: holdOver },
  { weight: 1, arbitrary: sweep },
  { weight: 1, arbitrary: operator },
);
const history = fc.array(fc.tuple(anyEvent, fc.constantFrom(0, 1, 1_000, 59_999)), { maxLength: 60 });

interface Moment {
  readonly before: Session | null;
  readonly event: CallEvent;
  readonly after: Step;
}

/** Holds after every step of every history. */
function always(holds: (moment: Moment) => void): void {
  fc.assert(
    fc.property(fc.constantFrom(null, baseSession), history, (start, events) => {
      let before: Session | null = start;
      let now = 1_000_000;
      for (const [event, later] of events) {
        now += later;
        const after = step(before, event, now);
        holds({ before, event, after });
        before = after.session;
      }
    }),
    { numRuns: 300 },
  );
}

const ours: ReadonlySet<CallEvent['type']> = new Set(['drop', 'arrived', 'hold', 'hold-over', 'sweep', 'operator-end']);
const isCommand = (event: CallEvent): event is Extract<CallEvent, { type: `call-${string}` | 'ice-candidate' }> =>
  !ours.has(event.type);
const reaches = (effect: Effect, user: string, socket: SocketRef): boolean =>
  effect.kind === 'emit' &&
  ('socket' in effect.to
    ? sameSocket(effect.to.socket, socket)
    : effect.to.user === user && !effect.to.except.some((s) => sameSocket(s, socket)));

describe('after any history', () => {
  it('a browser gets exactly one acknowledgement or refusal for each event, and nothing else gets any', () => {
    always(({ event, after }) => {
      const answers = after.effects.filter(({ kind }) => kind === 'ack' || kind === 'refuse');
      expect(answers).toHaveLength(isCommand(event) ? 1 : 0);
    });
  });

  it('a change makes the version grow by exactly one, no change keeps the very object', () => {
    always(({ before, after: { session } }) => {
      if (session === before || session === null) return;
      expect(session.version).toBe(before ? before.version + 1 : 1);
      const { version: _v, ...now } = session;
      const { version: _w, ...then } = before ?? session;
      if (before) expect(now).not.toEqual(then);
    });
  });

  it('a call keeps its roles, its key and its name', () => {
    always(({ before, after: { session } }) => {
      if (!before || !session) return;
      for (const field of ['users', 'ns', 'conversationId', 'callId', 'createdAt'] as const) {
        expect(session[field]).toEqual(before[field]);
      }
    });
  });

  it('each seat is held by its own user, and only the answerer of a first offer has none', () => {
    always(({ after: { session } }) => {
      if (!session) return;
      const { offerer, answerer } = session.seats;
      expect(userOf(offerer.id)).toBe(session.users.offerer);
      if (answerer) expect(userOf(answerer.id)).toBe(session.users.answerer);
      expect(answerer === null).toBe(session.state === 'OFFERING' && !session.rejoining);
    });
  });

  it('what the fields say together is one of the states', () => {
    always(({ after: { session } }) => {
      if (!session) return;
      const lost = Object.keys(session.lost).length;
      expect(session.offeredBy !== null).toBe(session.state === 'OFFERING' || session.state === 'RENEGOTIATING');
      if (session.rejoining) expect(session.state).toBe('OFFERING');
      if (session.state !== 'OFFERING') expect(session.candidates).toEqual([]);
      if (session.keptOffer !== null) expect([session.state, session.waitsForBoth]).toEqual(['OFFERING', true]);
      if (session.waitsForBoth) expect(['AWAITING_REJOIN', 'OFFERING']).toContain(session.state);
      else expect(lost).toBe(session.state === 'AWAITING_REJOIN' ? 1 : 0);
      if (session.offeredBy) expect(session.lost[session.offeredBy]).toBeUndefined();
      for (const role of ['offerer', 'answerer'] as const) {
        if (session.held?.[role] === undefined && !session.moved?.[role]) continue;
        expect([session.lost[role], session.seats[role]]).toEqual([undefined, expect.anything()]);
      }
    });
  });

  it('the buffer holds at most 256 candidates', () => {
    always(({ after: { session } }) => expect(session?.candidates.length ?? 0).toBeLessThanOrEqual(256));
  });

  it('nothing is sent to the sender itself but candidates for its answer and the rejoin offer that it must answer', () => {
    always(({ event, after: { effects } }) => {
      if (!isCommand(event)) return;
      const { user, socket } = event.by;
      const refused = effects.some((e) => e.kind === 'refuse' && e.refusal.code === 'answer-the-rejoin');
      for (const effect of effects) {
        if (effect.kind !== 'emit' || !reaches(effect, user, socket)) continue;
        if (effect.event === 'ice-candidate') expect(['call-answer', 'call-rejoin-answer']).toContain(event.type);
        else expect([effect.event, refused]).toEqual(['call-rejoin-offer', true]);
      }
    });
  });

  it('an outsider changes nothing and is told nothing', () => {
    always(({ before, event, after }) => {
      if (!before || !('by' in event) || event.by.user !== userOf('X')) return;
      expect(after.session).toBe(before);
      expect(after.effects.filter(({ kind }) => kind === 'emit')).toEqual([]);
    });
  });

  it('what is handed out is frozen', () => {
    always(({ before, after: { session } }) => {
      if (!session || session === before) return;
      const { users, seats, lost, candidates, held, moved } = session;
      for (const part of [session, users, seats, lost, candidates, held ?? users, moved ?? users]) {
        expect(Object.isFrozen(part)).toBe(true);
      }
    });
  });

  it('a planned move of a seat changes nothing but the seat, and tells nobody', () => {
    always(({ after: { session } }) => {
      if (!session) return;
      for (const role of ['offerer', 'answerer'] as const) {
        const seat = session.seats[role];
        if (!seat || session.lost[role] || session.held?.[role] !== undefined) continue;
        const to = by(`${session.users[role]}9`);
        let at: Session | null = session;
        const heard: Effect[] = [];
        for (const event of [
          { type: 'hold', socket: seat, until: 9_999_999 },
          { type: 'drop', socket: seat, cause: 'drain', otherPresent: false },
          { type: 'arrived', by: to },
        ] satisfies CallEvent[]) {
          const moved = step(at, event, 1_000_000);
          heard.push(...moved.effects);
          at = moved.session;
        }
        const seats = { ...session.seats, [role]: to.socket };
        expect(at).toEqual({
          ...session,
          seats,
          version: session.version + 2,
          moved: { ...session.moved, [role]: true },
        });
        // Who owes an answer to a kept offer gets it on each new socket.
        const owes = session.waitsForBoth && session.offeredBy !== null && session.offeredBy !== role;
        expect(heard.map((e) => e.kind === 'emit' && reaches(e, to.user, to.socket))).toEqual(owes ? [true] : []);
      }
    });
  });

  it('a refusal leaves the session alone, but for a seat of a call that waits for both', () => {
    always(({ before, after: { session, effects } }) => {
      const refusal = effects.find((e) => e.kind === 'refuse');
      if (refusal?.kind === 'refuse' && refusal.refusal.code !== 'answer-the-rejoin') expect(session).toBe(before);
    });
  });
});

it('of two simultaneous renegotiation offers exactly one is relayed and exactly one refused', () => {
  fc.assert(
    fc.property(fc.constantFrom(['O1', 'A1'], ['A1', 'O1']), body, (order, offer) => {
      let session: Session | null = baseSession;
      const effects: Effect[] = [];
      for (const from of order) {
        const after: Step = step(session, { type: 'call-renegotiate-offer', by: by(from), offer }, 1);
        effects.push(...after.effects);
        session = after.session;
      }
      expect(effects.map(({ kind }) => kind)).toEqual(['emit', 'ack', 'refuse']);
    }),
  );
});

it('candidates over the bound are dropped one by one, with their acknowledgement', () => {
  const early = Array.from({ length: 258 }, (_, i) => i);
  const offer: CallEvent = {
    type: 'call-offer',
    by: by('O1'),
    conversationId: baseSession.conversationId,
    offer: 'sdp',
    participants: [userOf('O'), userOf('A')],
    callId: 'call-n',
    early,
  };
  const opened = step(null, offer, 1);
  expect(opened.session?.candidates).toEqual(early.slice(0, 256));
  expect(opened.effects.map(({ kind }) => kind)).toEqual(['candidate-dropped', 'candidate-dropped', 'emit', 'ack']);
  const more = step(opened.session, { type: 'ice-candidate', by: by('O1'), iceCandidate: 'late' }, 2);
  expect(more.session).toBe(opened.session);
  expect(more.effects).toEqual([
    { kind: 'candidate-dropped', why: 'buffer-full' },
    { kind: 'ack', arg: { ok: true } },
  ]);
});
