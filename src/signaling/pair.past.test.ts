// What comes late from another instance, of the call before or of before a rejoin: the wire names no call, so that a browser which is past
// it must not hear it; and whoever is not past it still hears everything.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import type { Session } from '../call/session.js';
import type { Message } from '../cluster/cluster.js';
import { Holds } from './holds.js';
import {
  acked,
  answer,
  type Browser,
  connected,
  fails,
  hears,
  type Instance,
  key,
  offer,
  present,
  usePair,
} from './pair.fixture.js';

const two = usePair();

/** As if what that instance says of calls were on its way for long. Answers what lets all of it come, after which nothing waits. */
function late(from: Instance, to: Instance): () => Promise<void> {
  const { broker } = from.cluster;
  const sends = broker.send;
  const waiting: { readonly at: Parameters<typeof sends>[0]; readonly message: Message }[] = [];
  broker.send = (at, message) => void waiting.push({ at, message });
  return async () => {
    broker.send = sends;
    for (const { at, message } of waiting) broker.send(at, message);
    await heardAll(from, to);
  };
}

/** Everything that `from` has sent has come. */
async function heardAll(from: Instance, to: Instance): Promise<void> {
  const mark = to.connect('carol', `carol-${Math.random()}`);
  const sockets = [[mark.peer.ref.id, mark.peer.ref.connection]];
  const body = {
    ...{ ns: mark.peer.ref.ns, conversationId: 'dm:carol:dave', callId: 'x', version: 1 },
    emits: [{ sockets, event: 'ice-candidate', arg: 'mark' }],
  };
  from.cluster.broker.send(to.cluster.liveness.address, { topic: 'call', body });
  await hears(mark, 'ice-candidate');
  mark.drop();
}

/** `from` says this of the call as it was then, on the seat of that browser of `to`. */
function says(
  from: Instance,
  to: Instance,
  session: Session | null,
  browser: Browser,
  event: string,
  arg: unknown,
): void {
  const { ref, user } = browser.peer;
  const seat = session?.users.offerer === user ? 'offerer' : 'answerer';
  const body = {
    ...{ ...key(), callId: session?.callId, version: session?.version },
    emits: [{ sockets: [[ref.id, ref.connection]], seat, event, arg }],
  };
  from.cluster.broker.send(to.cluster.liveness.address, { topic: 'call', body });
}

const candidates = ({ heard }: Browser): unknown[] =>
  heard.filter(({ event }) => event === 'ice-candidate').map(({ arg }) => arg);

describe('of the call before', () => {
  it.each([
    ['rings', false],
    ['is answered', true],
  ])('nothing comes into the next one, which %s', async (_, answered) => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const first = await a.session();
    const phone = b.connect('alice', 'alice-2');
    await present(two, alice, bob, phone);
    const come = late(a, b);
    expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'old' }))).toEqual({ ok: true });
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'old' }))).toEqual({ ok: true });
    expect(await acked(alice.emit('call-end'))).toEqual({ ok: true });
    expect(await acked(phone.emit('call-offer', { offer: 'second' }))).toEqual({ ok: true });
    await hears(bob, 'call-offer', 'call-offer');
    if (answered) expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    await come();
    expect(bob.names).toEqual(['call-offer', 'call-offer']);
    // The call that is live is known as it is.
    if (!answered) expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    await hears(phone, 'call-answer');
    expect(await acked(phone.emit('ice-candidate', { iceCandidate: 'new' }))).toEqual({ ok: true });
    await expect.poll(() => candidates(bob)).toEqual(['new']);
    expect(b.store.peek(key())?.callId).not.toBe(first?.callId);
    expect(await acked(phone.emit('call-end'))).toEqual({ ok: true });
    await hears(bob, 'call-offer', 'call-offer', 'ice-candidate', 'call-ended');
  });

  it('whoever was in it and hears nothing of the next one is told of its end', async () => {
    const { a, b } = two;
    const alice = b.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    const tablet = b.connect('bob', 'bob-2');
    const laptop = a.connect('alice', 'alice-2');
    await present(two, alice, bob, tablet, laptop);
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    await hears(alice, 'call-answer');
    const come = late(a, b);
    expect(await acked(bob.emit('call-end'))).toEqual({ ok: true });
    // Another device calls: it rings a tablet beside the one that was in the call before, which does not know that it is over.
    expect(await acked(laptop.emit('call-offer', offer))).toEqual({ ok: true });
    await come();
    await hears(alice, 'call-answer', 'call-ended');
    await hears(tablet, 'call-offer', 'call-ended', 'call-offer');
  });
});

describe('of before a rejoin', () => {
  async function rejoined() {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const before = await a.session();
    bob.drop();
    await hears(alice, 'call-answer', 'call-peer-disconnected');
    const back = b.connect('bob', 'bob-2');
    expect(await acked(back.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-peer-disconnected', 'call-rejoin-offer');
    expect(await acked(alice.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    await hears(back, 'call-rejoin-answer');
    return { alice, bob, back, before };
  }

  it('the loss of a peer who is back is told to nobody, and what the peers said of it neither', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const before = await a.session();
    const come = late(b, a);
    bob.drop();
    await expect.poll(async () => (await a.session())?.state).toBe('AWAITING_REJOIN');
    const back = a.connect('bob', 'bob-2');
    expect(await acked(back.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-rejoin-offer');
    await come();
    expect(alice.names).toEqual(['call-answer', 'call-rejoin-offer']);
    expect(await acked(alice.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    for (const event of ['ice-candidate', 'call-renegotiate-offer', 'call-renegotiate-answer', 'call-answer'])
      says(b, a, before, alice, event, 'old');
    await heardAll(b, a);
    expect(alice.names).toEqual(['call-answer', 'call-rejoin-offer']);
    // It is live, for both.
    expect(await acked(back.emit('ice-candidate', { iceCandidate: 'new' }))).toEqual({ ok: true });
    await expect.poll(() => candidates(alice)).toEqual(['new']);
  });

  it('the loss is told where it is made late by this very instance', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    b.breaks.set('replace', async (make) => {
      const made = await make();
      await new Promise((resolve) => setTimeout(resolve, 100));
      return made;
    });
    bob.drop();
    await hears(alice, 'call-answer', 'call-peer-disconnected');
    b.breaks.clear();
    expect((await a.session())?.state).toBe('AWAITING_REJOIN');
  });

  it('nothing follows the seat to the socket that offered the rejoin', async () => {
    const { a, b } = two;
    const { bob, back, before } = await rejoined();
    for (const event of ['ice-candidate', 'call-renegotiate-offer']) says(a, b, before, bob, event, 'old');
    // Nor where the instance does not know of the rejoin.
    await expect(
      a.signaling.calls.reach.follow(
        { ...key(), callId: before?.callId ?? '', version: before?.version ?? 0 },
        'answerer',
        bob.peer.ref,
        'ice-candidate',
        'old',
      ),
    ).resolves.toBeUndefined();
    await heardAll(a, b);
    expect(back.names).toEqual(['call-rejoin-answer']);
  });

  it('what is older only as candidates were buffered meanwhile comes', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    bob.drop();
    await hears(alice, 'call-answer', 'call-peer-disconnected');
    const back = b.connect('bob', 'bob-2');
    const come = late(b, a);
    expect(await acked(back.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    const offered = await a.session();
    for (const iceCandidate of ['one', 'two'])
      expect(await acked(back.emit('ice-candidate', { iceCandidate }))).toEqual({ ok: true });
    await come();
    await hears(alice, 'call-answer', 'call-peer-disconnected', 'call-rejoin-offer');
    says(a, b, offered, back, 'ice-candidate', 'of the survivor');
    await expect.poll(() => candidates(back)).toEqual(['of the survivor']);
    expect(await acked(alice.emit('call-rejoin-answer', { answer: 'again' }))).toEqual(['one', 'two']);
  });
});

describe('a first offer', () => {
  it('that comes behind its own answer rings no more', async () => {
    const { a, b } = two;
    const alice = a.connect('alice', 'alice-1');
    const bob = a.connect('bob', 'bob-1');
    const tablet = b.connect('bob', 'bob-2');
    await present(two, alice, bob, tablet);
    const come = late(a, b);
    const { broker } = a.cluster;
    const held = broker.send;
    expect(await acked(alice.emit('call-offer', offer))).toEqual({ ok: true });
    await hears(bob, 'call-offer');
    // Each message of its own, the later one first.
    const messages: Parameters<typeof held>[] = [];
    broker.send = (...sent) => void messages.push(sent);
    expect(await acked(bob.emit('call-answer', answer))).toEqual([]);
    for (const sent of messages) b.cluster.broker.send(...sent);
    broker.send = held;
    expect(messages.length).toBeGreaterThan(0);
    await hears(tablet, 'call-ended');
    await come();
    expect(tablet.names).toEqual(['call-ended']);
  });
});

describe('while Redis is away', () => {
  it('a message whose seat can not be looked for is lost, and no fault', async () => {
    const { a, b } = two;
    const { bob } = await connected(two);
    const session = await a.session();
    const { store, cluster, signals, signaling } = b;
    await new Holds({ store, cluster, signals, clock: systemClock, calls: signaling.calls }).hold([bob.peer.ref]);
    bob.drop();
    b.breaks.set('get', fails());
    const before = signals.events.length;
    says(a, b, session, bob, 'ice-candidate', 'lost');
    await expect.poll(() => signals.events.slice(before).map(({ what }) => what)).toContain('candidateDropped');
    expect(signals.events.slice(before).map(({ what }) => what)).not.toContain('internalError');
  });
});
