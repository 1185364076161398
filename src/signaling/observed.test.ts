// Peeled relays, race by race: what the legacy does, and when it passes here, is said by each test.
import { describe, expect, it } from 'vitest';
import { bench, connected, conversationId, ok, peeled, ringing, settle } from './observed.fixture.js';

describe('relays of a call that the legacy owns', () => {
  it('are served here: candidates wait for the answer, go on after it, renegotiations are judged', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    expect(b.candidate(alice, 'c1')).toMatchObject({ because: 'peeled', acks: [ok] });
    b.candidate(bob, 'd1');
    const early = b.emit(alice, 'call-renegotiate-offer', { offer: 'r' });
    expect(early.acks).toEqual([{ ok: false, error: 'Cannot renegotiate from state OFFERING' }]);
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(answer, []).got).toEqual(['c1']);
    await settle();
    b.candidate(alice, 'c2');
    b.emit(bob, 'call-renegotiate-offer', { offer: 'r' });
    expect(b.live()).toEqual(['RENEGOTIATING ice-candidate+call-renegotiation']);
    const lost = b.emit(alice, 'call-renegotiate-offer', { offer: 'q' });
    expect(lost.acks).toEqual([{ ok: false, error: 'Renegotiation in progress, retry later' }]);
    b.emit(alice, 'call-renegotiate-answer', { answer: 'r' });
    expect(b.happened()).toEqual([
      'a gets ice-candidate "d1"',
      `a gets error ${JSON.stringify({ event: 'call-renegotiate-offer', conversationId, message: 'Cannot renegotiate from state OFFERING' })}`,
      'legacy gets call-answer s of b',
      'b gets ice-candidate "c2"',
      `a gets call-renegotiate-offer ${JSON.stringify({ conversationId, offer: 'r', fromUserId: 'bob' })}`,
      `a gets error ${JSON.stringify({ event: 'call-renegotiate-offer', conversationId, message: 'Renegotiation in progress, retry later' })}`,
      `b gets call-renegotiate-answer ${JSON.stringify({ conversationId, answer: 'r', fromUserId: 'alice' })}`,
    ]);
    expect(b.signaling.legacyCalls.counts).toEqual({ legacy: 1, peeled: 1 });
  });

  it('are what the table said when the offer was forwarded, whatever is flipped then', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.flip('{}');
    expect(b.candidate(alice, 'c1').because).toBe('peeled');
    b.emit(bob, 'call-end');
    b.emit(alice, 'call-offer', { offer: 'o2' });
    b.says(bob, 'call-offer', { offer: 'o2', fromUserId: 'alice' });
    b.flip(peeled);
    expect(b.candidate(alice, 'c2').because).toBe('claimed');
  });

  it('one group alone', async () => {
    const b = bench('namespaces: { /: { call-renegotiation: new } }');
    const { alice, bob } = await connected(b);
    expect(b.candidate(alice, 'c').because).toBe('claimed');
    expect(b.emit(bob, 'call-renegotiate-offer', { offer: 'r' }).because).toBe('peeled');
  });

  it('follow drops and rejoins as the legacy tells of them', async () => {
    const b = bench();
    const { alice, bob } = await connected(b);
    b.emit(bob, 'call-renegotiate-offer', { offer: 'r' });
    b.drop(bob);
    b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
    const early = b.emit(alice, 'call-renegotiate-offer', { offer: 'r2' });
    expect(early.acks).toEqual([{ ok: false, error: 'Cannot renegotiate from state AWAITING_REJOIN' }]);
    const back = b.connect('bob', 'b2');
    const rejoin = b.emit(back, 'call-rejoin-offer', { offer: 'j' });
    b.candidate(back, 'd1');
    b.happened();
    b.says(alice, 'call-rejoin-offer', { offer: 'j', fromUserId: 'bob' });
    b.acks(rejoin, ok);
    await settle();
    b.candidate(alice, 'c1');
    const answer = b.emit(alice, 'call-rejoin-answer', { answer: 'k' });
    b.says(back, 'call-rejoin-answer', { answer: 'k', fromUserId: 'alice' });
    expect(b.acks(answer, []).got).toEqual(['d1']);
    await settle();
    b.candidate(alice, 'c2');
    expect(b.happened()).toEqual([
      'b2 gets ice-candidate "c1"',
      'legacy gets call-rejoin-answer k of a',
      'b2 gets ice-candidate "c2"',
    ]);
    b.says(alice, 'call-ended', { reason: 'hangup', userId: 'bob' });
    expect(b.candidate(alice, 'late').because).toBe('default');
    expect(b.signaling.sizes['observed-bytes']?.()).toBe(0);
  });

  it('the same relay again is acknowledged as the first one was and does nothing', async () => {
    const b = bench();
    const { alice } = await connected(b);
    b.candidate(alice, 'c');
    expect(b.candidate(alice, 'c').acks).toEqual([ok]);
    expect(b.happened()).toEqual(['b gets ice-candidate "c"']);
  });

  it('of a sender whom we can’t verify go to the legacy', async () => {
    const b = bench();
    await connected(b);
    expect(b.candidate(b.connect(undefined, 'x'), 'c').because).toBe('claimed');
    expect(b.happened()).toEqual(['legacy gets ice-candidate c of x']);
  });

  it('of an outsider are refused', async () => {
    const b = bench();
    await connected(b);
    const refused = { ok: false, error: 'Not a participant' };
    expect(b.candidate(b.connect('mallory', 'm'), 'c').acks).toEqual([refused]);
  });
});

describe('relays wait in order for the outcome of what their socket sent before them', () => {
  it('an offer: until the legacy delivers it and has acknowledged it', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    const offer = b.emit(alice, 'call-offer', { offer: 'o' });
    const one = b.candidate(alice, 'c1');
    const two = b.candidate(alice, 'c2');
    b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    await settle();
    expect([one.acks, two.acks]).toEqual([[], []]);
    b.acks(offer, ok);
    await settle();
    expect([one.acks, two.acks]).toEqual([[ok], [ok]]);
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(answer, []).got).toEqual(['c1', 'c2']);
  });

  it('an offer that is refused: they follow it to the legacy', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.emit(alice, 'call-offer', { offer: 'o' });
    b.candidate(alice, 'c1');
    b.candidate(alice, 'c2');
    b.refuses(alice, 'call-offer', 'Not a participant');
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-offer o of a',
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate c2 of a',
    ]);
  });

  it('an offer that is delivered to nobody here: half a second after its acknowledgement they are the legacy’s', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const offer = b.emit(alice, 'call-offer', { offer: 'o' });
    b.candidate(alice, 'c1');
    b.emit(alice, 'call-renegotiate-offer', { offer: 'r' });
    b.acks(offer, ok);
    b.clock.advance(499);
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-offer o of a']);
    b.clock.advance(1);
    await settle();
    expect(b.happened()).toEqual(['legacy gets ice-candidate c1 of a', 'legacy gets call-renegotiate-offer r of a']);
  });

  it('an offer without an acknowledgement that nobody gets: two seconds', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.emit(alice, 'call-offer', { offer: 'o' }, { ack: false });
    b.candidate(alice, 'c1');
    b.clock.advance(2_000);
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-offer o of a', 'legacy gets ice-candidate c1 of a']);
    expect(b.candidate(alice, 'c2').because).toBe('claimed');
    expect(b.live()).toEqual(['OFFERING ']);
  });

  it('an answer: a candidate behind it does not reach the offerer before it', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.candidate(bob, 'd1');
    b.emit(bob, 'call-renegotiate-offer', { offer: 'r' });
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-answer s of b']);
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    b.acks(answer, []);
    await settle();
    expect(b.happened().map((line) => line.split(' ').slice(0, 3).join(' '))).toEqual([
      'a gets ice-candidate',
      'a gets call-renegotiate-offer',
    ]);
  });

  it('an answer whose outcome is not seen: the call’s relays go to the legacy, with those that were kept', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    b.emit(bob, 'call-answer', { answer: 's' }, { ack: false });
    b.candidate(bob, 'd1');
    b.clock.advance(2_000);
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-answer s of b',
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate d1 of b',
    ]);
    expect(b.candidate(alice, 'c2').because).toBe('claimed');
    const told = b.signals.events.filter(({ what }) => what === 'observed').map(({ args }) => args[0]);
    expect(told).toContainEqual(expect.objectContaining({ event: 'unpeeled', because: 'outcome-unseen' }));
  });

  it('an answer of somebody who is gone right after it: what was sent before the leaving still follows the answer', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.emit(bob, 'call-answer', { answer: 's' });
    b.candidate(bob, 'd1');
    b.drop(bob);
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-answer s of b']);
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    await settle();
    expect(b.happened()).toEqual(['a gets ice-candidate "d1"']);
    b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
    expect(b.live()).toEqual(['AWAITING_REJOIN ice-candidate+call-renegotiation']);
  });

  it('an answer of somebody who must not: refused, and its relays are judged here', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    b.emit(alice, 'call-answer', { answer: 's' }, { ack: false });
    const candidate = b.candidate(alice, 'c1');
    await settle();
    expect(candidate.acks).toEqual([]);
    b.refuses(alice, 'call-answer', 'Not allowed to answer');
    await settle();
    expect(candidate.acks).toEqual([ok]);
    expect(b.live()).toEqual(['OFFERING ice-candidate+call-renegotiation']);
  });
});
