// Where peeled relays give way: to the call's own events, to a canary's excludes, and to the legacy where we are at fault.
import { afterEach, describe, expect, it, vi } from 'vitest';
import type * as Steps from '../call/step.js';
import { bench, connected, ok, ringing, settle } from './observed.fixture.js';

/** Events at which the step of a call breaks. */
const broken = vi.hoisted(() => new Set<string>());
vi.mock('../call/step.js', async (original) => {
  const { step } = await original<typeof Steps>();
  const failing: typeof Steps.step = (session, event, now) => {
    if (broken.has(event.type)) throw new Error('the step is broken');
    return step(session, event, now);
  };
  return { step: failing };
});
afterEach(() => broken.clear());

type Bench = ReturnType<typeof bench>;
const faults = ({ signals }: Bench) =>
  signals.events.filter(({ what }) => what === 'internalError').map(({ args }) => args[0]);
const decided = ({ signals }: Bench) =>
  signals.events.filter(({ what }) => what === 'decided').map(({ args }) => args.slice(0, 2));
const whyUnpeeled = ({ signals }: Bench) =>
  signals.events
    .filter(({ what }) => what === 'observed')
    .map(({ args }) => args[0] as { event: string; because: string })
    .filter(({ event }) => event === 'unpeeled')
    .map(({ because }) => because);

describe('an event of the lifecycle behind a relay that waits', () => {
  it.each([true, false])('call-end before the offer rings, acknowledged: %s', async (acknowledged) => {
    const b = bench();
    const alice = b.connect('alice', 'a');
    const offer = b.emit(alice, 'call-offer', { offer: 'o' });
    if (acknowledged) b.acks(offer, ok);
    b.candidate(alice, 'c1');
    b.candidate(alice, 'c2');
    b.emit(alice, 'call-end');
    b.candidate(alice, 'late');
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-offer o of a',
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate c2 of a',
      'legacy gets call-end of a',
      'legacy gets ice-candidate late of a',
    ]);
    expect(b.signaling.sizes['observed-bytes']?.()).toBe(0);
  });

  it('call-end while the answer before it has no outcome', async () => {
    const b = bench();
    const { bob } = await ringing(b);
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    const ack = b.acks(answer, []);
    b.candidate(bob, 'd1');
    b.emit(bob, 'call-renegotiate-offer', { offer: 'r' });
    b.emit(bob, 'call-end');
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-answer s of b',
      'legacy gets ice-candidate d1 of b',
      'legacy gets call-renegotiate-offer r of b',
      'legacy gets call-end of b',
    ]);
    expect(ack.got).toEqual([]);
    expect(whyUnpeeled(b)).toEqual(['overtaken']);
  });

  it('call-end while the other side’s candidates are due to the answer before it: it comes when they are there', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.candidate(bob, 'd1');
    b.emit(bob, 'call-end');
    await settle();
    expect(b.happened()).toEqual(['legacy gets call-answer s of b']);
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    expect(b.acks(answer, []).got).toEqual(['c1']);
    await settle();
    expect(b.happened()).toEqual(['a gets ice-candidate "d1"', 'legacy gets call-end of b']);
  });

  it('and half a second later whether or not: what was kept goes first, in order and once', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    const ack = b.acks(answer, []);
    b.candidate(bob, 'd1');
    b.emit(bob, 'call-renegotiate-offer', { offer: 'r' });
    b.emit(bob, 'call-end');
    b.clock.advance(500);
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-answer s of b',
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate d1 of b',
      'legacy gets call-renegotiate-offer r of b',
      'legacy gets call-end of b',
    ]);
    expect(ack.got).toEqual([]);
    expect(whyUnpeeled(b)).toEqual(['outcome-unseen']);
  });

  it('call-end while the offerer’s candidate waits for the answer’s acknowledgement', async () => {
    const b = bench();
    const { alice, bob } = await ringing(b);
    b.candidate(alice, 'c1');
    const answer = b.emit(bob, 'call-answer', { answer: 's' });
    b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
    b.candidate(alice, 'c2');
    b.emit(alice, 'call-end');
    b.clock.advance(500);
    await settle();
    expect(b.happened().slice(1)).toEqual([
      'b gets ice-candidate "c1"',
      'b gets ice-candidate "c2"',
      'legacy gets call-end of a',
    ]);
    expect(b.acks(answer, []).got).toEqual([]);
  });

  it('one that came in while the relay before it was still waiting for its own turn', async () => {
    const b = bench(
      'namespaces: { /: { call-lifecycle: { mode: canary, percent: 100, exclude: { users: [bob] } }, ice-candidate: new } }',
    );
    const alice = b.connect('alice', 'a');
    b.connect('bob', 'b');
    b.emit(alice, 'call-offer', { offer: 'o' });
    b.candidate(alice, 'c1');
    b.emit(alice, 'call-end');
    await settle();
    expect(b.happened()).toEqual([
      'legacy gets call-offer o of a',
      'legacy gets ice-candidate c1 of a',
      'legacy gets call-end of a',
    ]);
  });

  it('a call whose relays do not wait keeps them', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    b.candidate(alice, 'c1');
    b.emit(alice, 'call-answer', { answer: 's' });
    b.refuses(alice, 'call-answer', 'Not allowed to answer');
    expect(b.candidate(alice, 'c2').because).toBe('peeled');
  });
});

describe('a relay canary', () => {
  const excluding = (user: string, more = '') =>
    `namespaces: { /: { ice-candidate: { mode: canary, percent: 100, exclude: { users: [${user}] } }${more} } }`;

  it.each(['alice', 'bob'])('leaves calls of whom it excludes to the legacy: %s', async (user) => {
    const b = bench(excluding(user));
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    const offer = b.emit(alice, 'call-offer', { offer: 'o' });
    const early = b.candidate(alice, 'c1');
    b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    b.acks(offer, ok);
    await settle();
    expect([b.candidate(alice, 'c2').because, b.candidate(bob, 'd1').because]).toEqual(['claimed', 'claimed']);
    expect(early.acks).toEqual([]);
    expect(b.happened()).toEqual([
      'legacy gets call-offer o of a',
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate c2 of a',
      'legacy gets ice-candidate d1 of b',
    ]);
    expect(b.live()).toEqual(['OFFERING ']);
  });

  it('excludes for its own group only, by the table of the offer', async () => {
    const b = bench(excluding('bob', ', call-renegotiation: new'));
    const alice = b.connect('alice', 'a');
    const bob = b.connect('bob', 'b');
    const offer = b.emit(alice, 'call-offer', { offer: 'o' });
    b.candidate(alice, 'c1');
    b.flip('{}');
    b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
    b.acks(offer, ok);
    await settle();
    expect(b.happened().at(-1)).toBe('legacy gets ice-candidate c1 of a');
    expect(b.live()).toEqual(['OFFERING call-renegotiation']);
    expect(b.emit(bob, 'call-renegotiate-offer', { offer: 'r' }).because).toBe('peeled');
  });
});

describe('a fault of ours leaves the call to the legacy', () => {
  it('in a relay: the legacy gets it, behind what was kept', async () => {
    const b = bench();
    const { alice } = await ringing(b);
    b.candidate(alice, 'c1');
    broken.add('ice-candidate');
    b.candidate(alice, 'c2');
    broken.clear();
    expect(b.candidate(alice, 'c3').because).toBe('claimed');
    expect(b.happened()).toEqual([
      'legacy gets ice-candidate c1 of a',
      'legacy gets ice-candidate c2 of a',
      'legacy gets ice-candidate c3 of a',
    ]);
    expect(faults(b)).toEqual(['serving ice-candidate']);
    expect(decided(b).slice(-3)).toEqual([
      ['ice-candidate', { path: 'new', because: 'peeled' }],
      ['ice-candidate', { path: 'legacy', because: 'fallback' }],
      ['ice-candidate', { path: 'legacy', because: 'claimed' }],
    ]);
    expect(whyUnpeeled(b)).toEqual(['internal']);
  });

  it('in delivering a relay: the same, and the very same relay again is a new one', async () => {
    const b = bench();
    const { alice } = await connected(b);
    b.breaks.add('ice-candidate');
    b.candidate(alice, 'c1');
    b.candidate(alice, 'c1');
    expect(b.happened()).toEqual(['legacy gets ice-candidate c1 of a', 'legacy gets ice-candidate c1 of a']);
  });

  it('once somebody has had something of the relay it is not given to the legacy, too', async () => {
    const b = bench();
    const { alice } = await connected(b);
    b.breaks.add('ack');
    const first = b.candidate(alice, 'c1');
    expect(b.happened().filter((line) => line.includes('c1'))).toEqual(['b gets ice-candidate "c1"']);
    expect(first.acks).toEqual([{ ok: false, error: 'Internal error' }]);
    expect(b.candidate(alice, 'c2').because).toBe('claimed');
  });

  it.each(['call-offer', 'call-answer', 'drop', 'call-rejoin-offer'])(
    'in what was seen to pass (%s): its claim stays in step, and nothing is held or lost',
    async (at) => {
      const b = bench();
      const alice = b.connect('alice', 'a');
      const bob = b.connect('bob', 'b');
      broken.add(at);
      const offer = b.emit(alice, 'call-offer', { offer: 'o' });
      b.candidate(alice, 'c1');
      b.says(bob, 'call-offer', { offer: 'o', fromUserId: 'alice' });
      b.acks(offer, ok);
      await settle();
      const answer = b.emit(bob, 'call-answer', { answer: 's' });
      b.says(alice, 'call-answer', { answer: 's', fromUserId: 'bob' });
      const ack = b.acks(answer, []);
      await settle();
      expect(ack.got).toEqual(at === 'call-offer' || at === 'call-answer' ? [] : ['c1']);
      b.drop(bob);
      b.says(alice, 'call-peer-disconnected', { userId: 'bob' });
      const back = b.connect('bob', 'b2');
      b.acks(b.emit(back, 'call-rejoin-offer', { offer: 'j' }), ok);
      b.says(alice, 'call-rejoin-offer', { offer: 'j', fromUserId: 'bob' });
      await settle();
      expect(faults(b)).toHaveLength(1);
      expect(b.live()).toEqual(['OFFERING ']);
      expect(b.candidate(alice, 'c2').because).toBe('claimed');
      const kept = b.happened().filter((line) => line.includes('c1'));
      expect(kept).toEqual(at === 'call-offer' || at === 'call-answer' ? ['legacy gets ice-candidate c1 of a'] : []);
      b.emit(alice, 'call-end');
      expect(b.live()).toEqual([]);
      expect(b.signaling.sizes['observed-bytes']?.()).toBe(0);
    },
  );
});
