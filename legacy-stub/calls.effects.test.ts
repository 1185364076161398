// The call contract, event by event: what everybody is told.
import { describe, expect, it } from 'vitest';
import {
  a1,
  a2,
  answering,
  answerOf,
  b2,
  b3,
  candidate,
  carol,
  clients,
  conversationId,
  everybody,
  fresh,
  legacy,
  line,
  OK,
  offering,
  offerOf,
  PAYLOADS,
  reach,
  sending,
  state,
  told,
  useCast,
} from './calls.cast.js';
import type { Device } from './test-clients.js';

useCast();

describe('a call rings', () => {
  it('on every device of the callee, and nowhere else', async () => {
    await a1.ask('call-offer', offering());
    const ring = line('call-offer', { conversationId, offer: offerOf('alice'), fromUserId: 'alice' });
    expect(await told()).toEqual({ b2: [ring], b3: [ring] });
  });

  it('without anybody there to hear it', async () => {
    await legacy.membership.create({ id: 'lonely', participants: ['alice', 'nobody'] });
    expect(await a1.ask('call-offer', { conversationId: 'lonely', offer: 1 })).toEqual(OK);
    expect(legacy.calls.state('/', 'lonely')).toBe('OFFERING');
    await a1.ask('call-end', { conversationId: 'lonely' });
  });

  it('only for two participants that differ', async () => {
    await legacy.membership.create({ id: 'three', participants: ['alice', 'bob', 'carol'] });
    for (const id of ['three', 'dm:alice:alice', 'dm:alice', 'dm:alice:bob:carol', 'dm::alice', 'unknown']) {
      expect(await a1.ask('call-offer', { conversationId: id, offer: 1 })).toEqual([
        { ok: false, error: 'Not a participant' },
      ]);
    }
    await told();
  });

  it('in one call of two that are offered at once', async () => {
    const answers = await Promise.all([a1.ask('call-offer', offering()), b2.ask('call-offer', offering('bob'))]);
    const refused = { ok: false, error: 'Call already in progress' };
    expect(answers.map(([answer]) => answer)).toEqual(expect.arrayContaining([{ ok: true }, refused]));
    await told();
  });

  it('until the offerer leaves', async () => {
    const gone = await clients.connect('alice');
    await gone.ask('call-offer', offering());
    await told();
    await gone.drop(legacy);
    const left = line('call-ended', { conversationId, reason: 'offerer-left', userId: 'alice' });
    expect(await told()).toEqual({ b2: [left], b3: [left] });
    expect(state()).toBe('none');
  });

  it('on while devices of the callee come and go', async () => {
    const gone = await clients.connect('bob');
    await a1.ask('call-offer', offering());
    await told();
    await gone.drop(legacy);
    expect(await told()).toEqual({});
    expect(state()).toBe('OFFERING');
  });

  it('until it is answered on one of them', async () => {
    await reach('OFFERING');
    expect(await b3.ask('call-answer', answering())).toEqual([[]]);
    expect(await told()).toEqual({
      a1: [line('call-answer', { conversationId, answer: answerOf('bob'), fromUserId: 'bob' })],
      b2: [line('call-ended', { conversationId, reason: 'answered-elsewhere', userId: 'bob' })],
    });
  });
});

describe('candidates', () => {
  it('of the offerer wait for the answer, whichever device and hint they come with', async () => {
    await a1.ask('call-offer', offering());
    await a1.ask('ice-candidate', sending(1));
    await a1.tell('ice-candidate', { ...sending(2), didIOffer: false });
    await a2.ask('ice-candidate', sending(3));
    await reach('IDLE');
    expect(await b2.ask('call-answer', answering())).toEqual([[candidate(1), candidate(2), candidate(3)]]);
    expect((await told()).a1).toHaveLength(1);
  });

  it('follow as events where the answer asks for no acknowledgement', async () => {
    await reach('OFFERING');
    await a1.ask('ice-candidate', sending(1));
    await a1.ask('ice-candidate', sending(2));
    await b2.tell('call-answer', answering());
    expect((await told()).b2).toEqual([line('ice-candidate', candidate(1)), line('ice-candidate', candidate(2))]);
  });

  it('right behind their offer are not lost while the database is asked', async () => {
    a1.socket.emit('call-offer', offering());
    a1.socket.emit('ice-candidate', sending(1));
    expect(await a1.ask('ice-candidate', sending(2))).toEqual(OK);
    expect(await b2.ask('call-answer', answering())).toEqual([[candidate(1), candidate(2)]]);
    await told();
  });

  it('before their offer are lost', async () => {
    expect(await a1.ask('ice-candidate', sending(1))).toEqual(OK);
    await reach('OFFERING');
    expect(await b2.ask('call-answer', answering())).toEqual([[]]);
    await told();
  });

  it('of the callee reach the ringing offerer at once', async () => {
    await reach('OFFERING');
    await b3.ask('ice-candidate', sending('callee'));
    expect(await told()).toEqual({ a1: [line('ice-candidate', candidate('callee'))] });
  });

  it('go to the other seat once both are taken, whatever the hint says', async () => {
    await reach('CONNECTED');
    await a1.ask('ice-candidate', { ...sending(1), didIOffer: false });
    expect(await told()).toEqual({ b2: [line('ice-candidate', candidate(1))] });
    await b2.ask('ice-candidate', { ...sending(2), didIOffer: true });
    expect(await told()).toEqual({ a1: [line('ice-candidate', candidate(2))] });
  });

  it('over 256 are dropped without a word', async () => {
    await reach('OFFERING');
    for (let n = 0; n < 300; n++) a1.socket.emit('ice-candidate', sending(n));
    expect(await a1.ask('ice-candidate', sending('last'))).toEqual(OK);
    const [list] = (await b2.ask('call-answer', answering())) as [unknown[]];
    expect(list).toEqual(Array.from({ length: 256 }, (_, n) => candidate(n)));
    expect((await told()).a1).toHaveLength(1);
  });

  it('are dropped while a rejoin is awaited, and cleared when it starts', async () => {
    await reach('AWAITING_REJOIN');
    await a1.ask('ice-candidate', sending('survivor'));
    await b2.ask('ice-candidate', sending('dropped'));
    expect(await told()).toEqual({});
    await b2.ask('call-rejoin-offer', offering('bob'));
    await told();
    expect(await a1.ask('call-rejoin-answer', answering('alice'))).toEqual([[]]);
    await told();
  });

  it('of a rejoiner wait for the answer, those of the survivor do not', async () => {
    await reach('REJOINING');
    await b2.ask('ice-candidate', sending(1));
    await a1.ask('ice-candidate', sending(2));
    expect(await told()).toEqual({ b2: [line('ice-candidate', candidate(2))] });
    expect(await a1.ask('call-rejoin-answer', answering('alice'))).toEqual([[candidate(1)]]);
    expect(await told()).toEqual({
      b2: [line('call-rejoin-answer', { conversationId, answer: answerOf('alice'), fromUserId: 'alice' })],
    });
  });
});

describe('a renegotiation', () => {
  it.each([
    ['alice', 'bob'],
    ['bob', 'alice'],
  ])('by %s is relayed and answered', async (from, to) => {
    await reach('CONNECTED');
    const seats: Record<string, [string, Device]> = { alice: ['a1', a1], bob: ['b2', b2] };
    const [fromName, fromSeat] = seats[from]!;
    const [toName, toSeat] = seats[to]!;
    await fromSeat.ask('call-renegotiate-offer', offering(from));
    expect(await told()).toEqual({
      [toName]: [line('call-renegotiate-offer', { conversationId, offer: offerOf(from), fromUserId: from })],
    });
    expect(state()).toBe('RENEGOTIATING');
    await toSeat.ask('call-renegotiate-answer', answering(to));
    expect(await told()).toEqual({
      [fromName]: [line('call-renegotiate-answer', { conversationId, answer: answerOf(to), fromUserId: to })],
    });
    expect(state()).toBe('CONNECTED');
  });

  it('by both at once is relayed once and refused once', async () => {
    for (let n = 0; n < 20; n++) {
      await fresh();
      await reach('CONNECTED');
      const answers = await Promise.all([
        a1.ask('call-renegotiate-offer', offering()),
        b2.ask('call-renegotiate-offer', offering('bob')),
      ]);
      const refused = { ok: false, error: 'Renegotiation in progress, retry later' };
      expect(answers.map(([answer]) => answer)).toEqual(expect.arrayContaining([{ ok: true }, refused]));
      const seen = Object.values(await told()).flat();
      expect(seen.filter((text) => text.startsWith('call-renegotiate-offer'))).toHaveLength(1);
      expect(seen.filter((text) => text.startsWith('error'))).toHaveLength(1);
    }
  });

  it('is forgotten when a seat drops', async () => {
    await reach('OFFERING');
    const b1 = await clients.connect('bob');
    await b1.ask('call-answer', answering());
    await b1.ask('call-renegotiate-offer', offering('bob'));
    await told();
    await b1.drop(legacy);
    expect(await told()).toEqual({ a1: [line('call-peer-disconnected', { conversationId, userId: 'bob' })] });
    await b2.ask('call-rejoin-offer', offering('bob'));
    await a1.ask('call-rejoin-answer', answering('alice'));
    await told();
    expect(await a1.ask('call-renegotiate-answer', answering())).toEqual([
      { ok: false, error: 'No renegotiation to answer' },
    ]);
    await told();
  });
});

describe('a rejoin', () => {
  it('brings the one who dropped back, on any device', async () => {
    await reach('AWAITING_REJOIN');
    await b3.ask('call-rejoin-offer', offering('bob'));
    expect(await told()).toEqual({
      a1: [line('call-rejoin-offer', { conversationId, offer: offerOf('bob'), fromUserId: 'bob' })],
    });
    await a1.ask('call-rejoin-answer', answering('alice'));
    await told();
    await b3.ask('ice-candidate', sending(1));
    expect(await told()).toEqual({ a1: [line('ice-candidate', candidate(1))] });
  });

  it('of the offerer leaves the roles as they were', async () => {
    const gone = await clients.connect('alice');
    await gone.ask('call-offer', offering());
    await b2.ask('call-answer', answering());
    await told();
    await gone.drop(legacy);
    expect(await told()).toEqual({ b2: [line('call-peer-disconnected', { conversationId, userId: 'alice' })] });
    await a2.ask('call-rejoin-offer', offering());
    await b2.tell('call-rejoin-answer', answering());
    expect(state()).toBe('CONNECTED');
    await told();
    await a2.ask('call-end', { conversationId });
    expect(await told()).toEqual({
      b2: [line('call-ended', { conversationId, reason: 'hangup', userId: 'alice' })],
    });
  });

  it('before the old connection is known to be dead moves the seat, and its late end changes nothing', async () => {
    await reach('OFFERING');
    const b1 = await clients.connect('bob');
    await b1.ask('call-answer', answering());
    await told();
    await b2.ask('call-rejoin-offer', offering('bob'));
    expect(await told()).toEqual({
      a1: [line('call-rejoin-offer', { conversationId, offer: offerOf('bob'), fromUserId: 'bob' })],
    });
    await b1.drop(legacy);
    expect(await told()).toEqual({});
    expect(state()).toBe('OFFERING');
  });

  it('starts again from another fresh socket, of either user', async () => {
    await reach('REJOINING');
    await b3.ask('call-rejoin-offer', offering('bob again'));
    expect((await told()).a1).toHaveLength(1);
    await a2.ask('call-rejoin-offer', offering('alice now'));
    expect(await told()).toEqual({
      b3: [line('call-rejoin-offer', { conversationId, offer: offerOf('alice now'), fromUserId: 'alice' })],
    });
    await b3.ask('call-rejoin-answer', answering());
    expect(await told()).toEqual({
      a2: [line('call-rejoin-answer', { conversationId, answer: answerOf('bob'), fromUserId: 'bob' })],
    });
    expect(state()).toBe('CONNECTED');
  });

  it('that starts again forgets the candidates of the one before', async () => {
    await reach('REJOINING');
    await b2.ask('ice-candidate', sending('stale'));
    await b3.ask('call-rejoin-offer', offering('bob again'));
    await b3.ask('ice-candidate', sending('new'));
    expect(await a1.ask('call-rejoin-answer', answering('alice'))).toEqual([[candidate('new')]]);
    await told();
  });

  it.each(['rejoiner', 'survivor'])('is awaited again when the %s drops', async (who) => {
    const a0 = await clients.connect('alice');
    await a0.ask('call-offer', offering());
    const b0 = await clients.connect('bob');
    await b0.ask('call-answer', answering());
    await b0.drop(legacy);
    const b1 = await clients.connect('bob');
    await b1.ask('call-rejoin-offer', offering('bob'));
    await told({ ...everybody, a0, b1 });
    const [leaves, stays, userId] = who === 'rejoiner' ? [b1, a0, 'bob'] : [a0, b1, 'alice'];
    await leaves.drop(legacy);
    expect(await told({ ...everybody, stays })).toEqual({
      stays: [line('call-peer-disconnected', { conversationId, userId })],
    });
    expect(state()).toBe('AWAITING_REJOIN');
    await stays.drop(legacy);
    expect(await told()).toEqual({});
    expect(state()).toBe('none');
  });
});

describe('a call ends', () => {
  const ended = (userId: string) => line('call-ended', { conversationId, reason: 'hangup', userId });

  it.each([
    ['a1', { b2: 'alice', b3: 'alice' }],
    ['a2', { a1: 'alice', b2: 'alice', b3: 'alice' }],
    ['b2', { a1: 'bob', b3: 'bob' }],
  ])('while it rings, by %s', async (by, hear) => {
    await reach('OFFERING');
    expect(await everybody[by]!.ask('call-end', { conversationId })).toEqual(OK);
    expect(await told()).toEqual(Object.fromEntries(Object.entries(hear).map(([k, user]) => [k, [ended(user)]])));
  });

  it.each([
    ['a1', { b2: 'alice' }],
    ['a2', { a1: 'alice', b2: 'alice' }],
    ['b2', { a1: 'bob' }],
    ['b3', { a1: 'bob', b2: 'bob' }],
  ])('by %s', async (by, hear) => {
    await reach('CONNECTED');
    await everybody[by]!.ask('call-end', { conversationId });
    expect(await told()).toEqual(Object.fromEntries(Object.entries(hear).map(([k, user]) => [k, [ended(user)]])));
  });

  it.each([
    ['a1', {}],
    ['a2', { a1: 'alice' }],
    ['b2', { a1: 'bob' }],
  ])('while a rejoin is awaited, by %s', async (by, hear) => {
    await reach('AWAITING_REJOIN');
    await everybody[by]!.ask('call-end', { conversationId });
    expect(await told()).toEqual(Object.fromEntries(Object.entries(hear).map(([k, user]) => [k, [ended(user)]])));
  });

  it('and can be offered again at once', async () => {
    await reach('CONNECTED');
    await a1.ask('call-end', { conversationId });
    expect(await b2.ask('call-offer', offering('bob'))).toEqual(OK);
    await told();
  });
});

describe('malformed', () => {
  const idRule = 'conversationId must be a non-empty string of at most 256 characters';
  const bad: [string, unknown[], string][] = [
    ['nothing', [], 'payload must be an object'],
    ['null', [null], 'payload must be an object'],
    ['a list', [[1]], 'payload must be an object'],
    ['a text', ['text'], 'payload must be an object'],
    ['a number', [7], 'payload must be an object'],
    ['binary', [Buffer.from([1, 2])], 'payload must be an object'],
    ['no id', [{}], idRule],
    ['an empty id', [{ conversationId: '' }], idRule],
    ['a long id', [{ conversationId: 'x'.repeat(257) }], idRule],
    ['an id that is no text', [{ conversationId: 5, offer: 1, answer: 1, iceCandidate: 1 }], idRule],
  ];

  it.each(Object.keys(PAYLOADS))('%s', async (event) => {
    await reach('CONNECTED');
    const listed = event === 'call-answer' || event === 'call-rejoin-answer';
    for (const [what, args, rule] of bad) {
      const message = `Malformed ${event}: ${rule}`;
      expect(await a1.ask(event, ...args), what).toEqual([listed ? [] : { ok: false, error: message }]);
      await a1.tell(event, ...args);
      const refusal = line('error', { event, message });
      expect(await told(), what).toEqual({ a1: [refusal, refusal] });
    }
    expect(state()).toBe('CONNECTED');
  });

  it.each([
    ['call-offer', 'offer'],
    ['call-answer', 'answer'],
    ['ice-candidate', 'iceCandidate'],
    ['call-renegotiate-offer', 'offer'],
    ['call-renegotiate-answer', 'answer'],
    ['call-rejoin-offer', 'offer'],
    ['call-rejoin-answer', 'answer'],
  ])('%s without its %s', async (event, field) => {
    for (const payload of [{ conversationId }, { conversationId, [field]: null }]) {
      await carol.tell(event, payload);
      const message = `Malformed ${event}: ${field} is missing`;
      expect(await told()).toEqual({ carol: [line('error', { event, conversationId, message })] });
    }
  });

  it('is what is nested too deep to be relayed: a failure, and nothing has changed', async () => {
    const nested = (depth: number) => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown;
    const offer = nested(1_001);
    for (const event of ['call-offer', 'call-renegotiate-offer', 'call-rejoin-offer']) {
      await fresh();
      expect(await a1.ask(event, { conversationId, offer })).toEqual([{ ok: false, error: 'Internal error' }]);
      expect(await told()).toEqual({ a1: [line('error', { event, conversationId, message: 'Internal error' })] });
      expect(state()).toBe('none');
    }
    expect(await a1.ask('call-offer', { conversationId, offer: nested(1_000) })).toEqual(OK);
    expect(Object.keys(await told())).toEqual(['b2', 'b3']);
  });

  it('is not what merely looks odd: any other value is relayed as it is', async () => {
    for (const offer of [0, false, '', 'text', [1], { deep: [null] }]) {
      await fresh();
      expect(await a1.ask('call-offer', { conversationId, offer })).toEqual(OK);
      expect((await told()).b2).toEqual([line('call-offer', { conversationId, offer, fromUserId: 'alice' })]);
    }
  });

  it('nor is binary', async () => {
    await a1.ask('call-offer', { conversationId, offer: Buffer.from([1, 2, 3]) });
    const [event, payload] = await b2.next();
    expect(event).toBe('call-offer');
    expect(payload).toMatchObject({ conversationId, offer: Buffer.from([1, 2, 3]), fromUserId: 'alice' });
    await a1.ask('ice-candidate', { conversationId, iceCandidate: Buffer.from([4]) });
    expect(await b2.ask('call-answer', answering())).toEqual([[Buffer.from([4])]]);
    await told();
  });
});
