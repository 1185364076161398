// Peeled candidates in the legacy’s acknowledgement of an answer, and what goes back to the legacy.
import { describe, expect, it } from 'vitest';
import { bench, connected, ok, ringing, settle } from './observed.fixture.js';

describe('buffered candidates and the legacy’s acknowledgement of the answer', () => {
  it('the acknowledgement first: it is held until the answer passes; the legacy’s own candidates come first', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    const ack = b.acks(answer, ['early']);
    await settle();
    expect(ack.got).toBe('held');
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    await settle();
    expect(ack.got).toEqual(['early', 'c1']);
    expect(b.happened()).toEqual(['legacy gets call-answer s of b']);
  });

  it('the answer first: the offerer’s next candidate waits until the acknowledgement has passed', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    const next = b.candidate(alice, 'c2');
    await settle();
    expect(next.acks).toEqual([]);
    expect(b.acks(answer, []).got).toEqual(['c1']);
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-answer s of b', 'b gets ice-candidate "c2"']);
  });

  it('none comes: after a second they follow as events', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    b.candidate(alice, 'c2');
    b.clock.advance(1_000);
    await settle();
    expect(b.happened().slice(1)).toEqual(['b gets ice-candidate "c1"', 'b gets ice-candidate "c2"']);
  });

  it('none was asked for: they follow the answer as events', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    b.candidate(alice, 'c2');
    b.emit(bob, 'call-answer', { answer: 's' }, { ack: false });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.happened().slice(1)).toEqual(['b gets ice-candidate "c1"', 'b gets ice-candidate "c2"']);
  });

  it('the answer passes late: the acknowledgement goes after a second as it came, the candidates follow the answer', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    const ack = b.acks(answer, []);
    b.clock.advance(1_000);
    await settle();
    expect(ack.got).toEqual([]);
    expect(b.happened()).toEqual(['legacy gets call-answer s of b']);
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.happened()).toEqual(['b gets ice-candidate "c1"']);
  });

  it('threat: an outsider who answers gets none, neither at once nor in the name of who answers really', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const mallory = b.connect('mallory', 'm');
    const stranger = b.connect(undefined, 'x');
    const tries = [mallory, stranger].map((peer) => b.emit(peer, 'call-answer', { answer: 's' }));
    // Acknowledged before its error passes, as a legacy could.
    const got = tries.map((one) => b.acks(one, []));
    await settle();
    expect(got.map((one) => one.got)).toEqual([[], []]);
    for (const peer of [mallory, stranger]) b.refuses(peer, 'call-answer', 'Not allowed to answer');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(answer, []).got).toEqual(['c1']);
    await settle();
    expect(b.happened().filter((line) => /^[mx] gets/.test(line))).toEqual([]);
  });

  it('two devices answer at once: the one whose answer the legacy relays gets them', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    const other = b.connect('bob', 'b2');
    b.says(other, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    b.candidate(alice, 'c1');
    const first = b.emit(bob, 'call-answer', { answer: 's1' });
    const second = b.emit(other, 'call-answer', { answer: 's2' });
    b.says(alice, 'call-answer', { answer: 's2', fromUserId: 'bob' });
    b.refuses(bob, 'call-answer', 'No offer to answer');
    expect([b.acks(first, []).got, b.acks(second, []).got]).toEqual([[], ['c1']]);
  });

  it('two devices answer with the very same words: whoever is told that another one has answered has not', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    const other = b.connect('bob', 'b2');
    b.says(other, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    b.candidate(alice, 'c1');
    const first = b.emit(bob, 'call-answer', { answer: 's' });
    const second = b.emit(other, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    const held = b.acks(second, []);
    await settle();
    expect(held.got).toBe('held');
    b.says(bob, 'call-ended', { reason: 'answered-elsewhere', userId: 'bob' });
    await settle();
    expect(held.got).toEqual(['c1']);
    expect(b.acks(first, []).got).toEqual([]);
  });

  it('a client that answers again because its acknowledgement is late gets them once', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const tries = [1, 2].map(() => b.emit(bob, 'call-answer', { answer: 's' }));
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(tries[0]!, []).got).toEqual(['c1']);
    b.refuses(bob, 'call-answer', 'No offer to answer');
    expect(b.acks(tries[1]!, []).got).toEqual([]);
    expect(b.happened().filter((line) => line.startsWith('b gets'))).toEqual([]);
  });

  it('the rejoiner is lost again in the moment of the answer: the survivor still gets its list', async () => {
    const b = bench();
    const { alice, bob } = await connected(b);
    b.drop(bob);
    b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
    const back = b.connect('bob', 'b2');
    b.acks(b.emit(back, 'call-rejoin-offer', { offer: 'j' }), ok);
    b.says(alice, 'call-rejoin-offer', { offer: 'j', fromUserId: 'bob' });
    b.candidate(back, 'd1');
    await settle();
    const answer = b.emit(alice, 'call-rejoin-answer', { answer: 'k' });
    const ack = b.acks(answer, []);
    await settle();
    expect(ack.got).toBe('held');
    b.drop(back);
    await settle();
    expect(ack.got).toEqual(['d1']);
    b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
    expect(b.live()).toEqual(['AWAITING_REJOIN ice-candidate+call-renegotiation']);
  });
});

describe('in doubt a call’s relays go to the legacy, and what was kept goes with them', () => {
  it('somebody answers who is not behind this proxy', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    b.candidate(alice, 'c2');
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.happened()).toEqual(['legacy gets ice-candidate c1 of a', 'legacy gets ice-candidate c2 of a']);
    expect(b.candidate(alice, 'c3').because).toBe('claimed');
    expect(b.candidate(bob, 'd1').because).toBe('claimed');
    expect(b.signaling.legacyCalls.counts).toEqual({ legacy: 1, peeled: 0 });
  });

  it('a device answers whose token we can’t verify', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(b.connect(undefined, 'x'), 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(answer, []).got).toEqual([]);
    expect(b.happened().at(-1)).toBe('legacy gets ice-candidate c1 of a');
  });

  it('it is rung only where we can’t verify', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    b.emit(alice, 'call-offer', { offer: 'o' }, { ack: false });
    b.candidate(alice, 'c1');
    b.says(b.connect(undefined, 'x'), 'call-offer', { offer: 'o', fromUserId: 'alice' });
    b.clock.advance(2_000);
    await settle();
    expect(b.happened().at(-1)).toBe('legacy gets ice-candidate c1 of a');
  });

  it('both offer at once: the one that the legacy accepts counts', async () => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    const [first, second] = [alice, bob].map((peer) => b.emit(peer, 'call-offer', { offer: `of ${peer.ref.id}` }));
    const waits = [b.candidate(alice, 'c1'), b.candidate(bob, 'd1')];
    b.says(alice, 'call-offer', { offer: 'of b', fromUserId: 'bob' });
    b.refuses(alice, 'call-offer', 'Call already in progress');
    b.acks(first!, { ok: false });
    b.acks(second!, ok);
    await settle();
    expect(waits.map(({ acks }) => acks)).toEqual([[ok], [ok]]);
    const answer = b.emit(alice, 'call-answer', { answer: 's' });
    b.says(bob, 'call-answer', { answer: 's', fromUserId: 'alice' });
    expect(b.acks(answer, []).got).toEqual(['d1']);
    expect(b.happened().filter((line) => line.includes('ice-candidate'))).toEqual(['b gets ice-candidate "c1"']);
  });

  it('two devices of one user offer at once: the one whose offer rings holds the seat', async () => {
    const b = bench();
    const [first, second] = [b.connect('alice', 'a1'), b.connect('alice', 'a2')];
    const bob = b.connect('bob', 'b');
    const offers = [first, second].map((peer) => b.emit(peer, 'call-offer', { offer: `of ${peer.ref.id}` }));
    b.says(bob, 'call-offer', { offer: 'of a2', fromUserId: 'alice' });
    b.refuses(first, 'call-offer', 'Call already in progress');
    b.acks(offers[0]!, { ok: false });
    b.acks(offers[1]!, ok);
    await settle();
    b.candidate(bob, 'd1');
    expect(b.happened().at(-1)).toBe('a2 gets ice-candidate "d1"');
  });

  it('two devices of one user offer the very same: it is not clear whose call it is', async () => {
    const b = bench();
    const [first, second] = [b.connect('alice', 'a1'), b.connect('alice', 'a2')];
    const bob = b.connect('bob', 'b');
    for (const peer of [first, second]) b.emit(peer, 'call-offer', { offer: 'o' });
    b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    expect(b.candidate(bob, 'd1').because).toBe('claimed');
  });

  it('what waits for the answer has too many bytes: the legacy has room', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    b.candidate(alice, 'small');
    b.candidate(alice, 'large', { size: 600 * 1024 });
    b.candidate(alice, 'next');
    expect(b.happened()).toEqual([
      'legacy gets ice-candidate small of a',
      'legacy gets ice-candidate large of a',
      'legacy gets ice-candidate next of a',
    ]);
  });

  it('observed sessions have no room left: the call stays whole at the legacy', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    // 64 MiB in all, and half a MiB for each call: the other calls fill it up.
    for (let i = 0; i < 140; i++) {
      const [x, y] = [b.connect(`x${i}`, `x${i}`), b.connect(`y${i}`, `y${i}`)];
      const about = { conversationId: `dm:x${i}:y${i}` };
      b.emit(x, 'call-offer', { offer: 'o', ...about }, { ack: false });
      b.says(y, 'call-offer', { offer: 'o', fromUserId: `x${i}`, ...about });
      b.emit(x, 'ice-candidate', { iceCandidate: 'c', ...about }, { size: 500 * 1024 });
    }
    b.happened();
    expect(b.signaling.sizes['observed-bytes']?.()).toBeLessThanOrEqual(64 * 1024 * 1024);
    expect(b.signals.events.filter(({ what }) => what === 'bound').length).toBeGreaterThan(0);
    b.candidate(alice, 'c', { size: 500 * 1024 });
    expect(b.happened()).toEqual(['legacy gets ice-candidate c of a']);
  });

  it('both seats are lost: nothing is kept', async () => {
    const b = bench();
    const { alice, bob } = await connected(b);
    b.drop(alice);
    b.drop(bob);
    expect(b.live()).toEqual([]);
    expect(b.signaling.sizes['observed-bytes']?.()).toBe(0);
    expect(b.candidate(b.connect('alice', 'a2'), 'c').because).toBe('default');
  });
});
