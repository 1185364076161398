// Seats that move between two instances, on purpose or not, while messages for them are on their way: each comes once, in order, and
// what is decided in the meantime is decided on the call as it is.
import { describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import { Holds } from './holds.js';
import {
  absent,
  acked,
  type Browser,
  connected,
  fails,
  hears,
  type Instance,
  key,
  present,
  usePair,
} from './pair.fixture.js';

const two = usePair();

const holding = ({ store, cluster, signals, signaling }: Instance): Holds =>
  new Holds({ store, cluster, signals, clock: systemClock, calls: signaling.calls });

const candidates = ({ heard }: Browser): unknown[] =>
  heard.filter(({ event }) => event === 'ice-candidate').map(({ arg }) => arg);

describe('a planned move', () => {
  it('shows to nobody, and what is sent meanwhile comes to the new socket, on the other instance', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    await holding(b).hold([bob.peer.ref]);
    expect((await a.session())?.held).toBeDefined();
    bob.drop();
    for (let n = 0; n < 10; n++)
      expect(await acked(alice.emit('ice-candidate', { iceCandidate: n }))).toEqual({ ok: true });
    expect(await acked(alice.emit('call-renegotiate-offer', { offer: 'again' }))).toEqual({ ok: true });
    const moved = a.connect('bob', 'bob-2');
    await expect.poll(() => moved.names.at(-1)).toBe('call-renegotiate-offer');
    expect(candidates(moved)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(await acked(moved.emit('call-renegotiate-answer', { answer: 'again' }))).toEqual({ ok: true });
    await hears(alice, 'call-answer', 'call-renegotiate-answer');
  });

  it('loses and doubles nothing of a stream of candidates', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    const held = holding(b);
    let going = true;
    let sent = 0;
    const sending = (async () => {
      while (going) {
        alice.emit('ice-candidate', { iceCandidate: sent++ });
        await new Promise((resolve) => setTimeout(resolve, 1));
      }
    })();
    await expect.poll(() => candidates(bob).length).toBeGreaterThan(5);
    await held.hold([bob.peer.ref]);
    // Alice's instance knows, and what it sent before has come.
    await expect.poll(() => a.store.peek(key())?.held).toBeDefined();
    const now = await a.session();
    const said = { ...key(), callId: now?.callId, version: now?.version };
    const mark = { sockets: [[bob.peer.ref.id, bob.peer.ref.connection]], event: 'call-ended', arg: 'mark' };
    a.cluster.broker.send(b.cluster.liveness.address, { topic: 'call', body: { ...said, emits: [mark] } });
    await expect.poll(() => bob.names).toContain('call-ended');
    bob.drop();
    const kept = sent;
    await expect.poll(() => sent).toBeGreaterThan(kept + 20);
    const moved = a.connect('bob', 'bob-2');
    const since = sent;
    await expect.poll(() => sent).toBeGreaterThan(since + 50);
    going = false;
    await sending;
    const all = () => [...candidates(bob), ...candidates(moved)];
    await expect.poll(() => all().length).toBe(sent);
    expect(all()).toEqual(Array.from({ length: sent }, (_, n) => n));
    expect(alice.names).toEqual(['call-answer']);
  });
});

it("a seat that was held only after its browser had come back, as that was learnt late, is its browser's when it speaks", async () => {
  const { a, b } = two;
  const { alice, bob } = await connected(two);
  const moved = a.connect('bob', 'bob-2');
  await present(two, bob, moved);
  await holding(b).hold([bob.peer.ref]);
  bob.drop();
  expect((await a.session())?.held).toBeDefined();
  expect(await acked(moved.emit('ice-candidate', { iceCandidate: 'from the new one' }))).toEqual({ ok: true });
  await expect.poll(() => candidates(alice)).toEqual(['from the new one']);
  expect(await acked(alice.emit('ice-candidate', { iceCandidate: 'to the new one' }))).toEqual({ ok: true });
  await expect.poll(() => candidates(moved)).toEqual(['to the new one']);
});

it('a seat whose browser is closed at once after it is held loses nothing that was on its way', async () => {
  const { a, b } = two;
  const { alice, bob } = await connected(two);
  const holds = holding(b)
    .hold([bob.peer.ref])
    .then(() => bob.drop());
  for (let n = 0; n < 200; n++) {
    alice.emit('ice-candidate', { iceCandidate: n });
    if (n % 10 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await holds;
  const moved = a.connect('bob', 'bob-2');
  const all = () => [...candidates(bob), ...candidates(moved)] as number[];
  await expect.poll(() => all().length).toBe(200);
  expect(all().sort((x, y) => x - y)).toEqual(Array.from({ length: 200 }, (_, n) => n));
});

describe('a message for a socket whose seat is elsewhere by now', () => {
  it('follows it', async () => {
    const { a, b } = two;
    const { bob } = await connected(two);
    const session = await a.session();
    await holding(b).hold([bob.peer.ref]);
    bob.drop();
    const moved = a.connect('bob', 'bob-2');
    await expect.poll(async () => (await a.session())?.seats.answerer?.id).toBe('bob-2');
    // As if alice's instance had not heard of the move.
    a.cluster.broker.send(b.cluster.liveness.address, {
      topic: 'call',
      body: {
        ...key(),
        callId: session?.callId,
        version: session?.version,
        emits: [
          {
            sockets: [[bob.peer.ref.id, bob.peer.ref.connection]],
            seat: 'answerer',
            event: 'ice-candidate',
            arg: 'late',
          },
        ],
      },
    });
    await expect.poll(() => candidates(moved)).toEqual(['late']);
  });
});

describe('a change of our own that is being told', () => {
  it('comes before what another instance says of the same call', async () => {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    let go!: () => void;
    const slow = new Promise<void>((resolve) => (go = resolve));
    // Its change is made, and the reply takes a while.
    a.breaks.set('replace', async (make) => {
      const made = await make();
      await slow;
      return made;
    });
    const offered = alice.emit('call-renegotiate-offer', { offer: 'again' });
    await expect.poll(async () => (await b.session())?.state).toBe('RENEGOTIATING');
    a.breaks.clear();
    const acks = offered.acks;
    const order: string[] = [];
    const watch = setInterval(() => {
      if (acks.length > 0 && !order.includes('ack')) order.push('ack');
      if (alice.names.includes('call-ended') && !order.includes('ended')) order.push('ended');
    }, 0);
    expect(await acked(bob.emit('call-end'))).toEqual({ ok: true });
    await new Promise((resolve) => setImmediate(resolve));
    expect(alice.names).toEqual(['call-answer']);
    go();
    await hears(alice, 'call-answer', 'call-ended');
    clearInterval(watch);
    expect(acks).toEqual([{ ok: true }]);
    // What was relayed too late is about nothing any more.
    expect(bob.names).toEqual(['call-offer']);
  });
});

describe('a call that waits for both', () => {
  async function bothLost(): Promise<void> {
    const { a, b } = two;
    const { alice, bob } = await connected(two);
    for (const [one, browser] of [
      [a, alice],
      [b, bob],
    ] as const) {
      const socket = browser.peer.ref;
      await one.signaling.calls.apply(
        key(),
        (now) => now && { type: 'drop', socket, cause: 'legacy', otherPresent: false },
      );
    }
    expect((await a.session())?.waitsForBoth).toBe(true);
    for (const browser of [alice, bob]) browser.drop();
    for (const user of ['alice', 'bob']) await absent(two, user);
  }

  it('has a kept rejoin offer delivered once to each device that was there already', async () => {
    const { a, b } = two;
    await bothLost();
    const laptop = b.connect('bob', 'bob-2');
    const phone = a.connect('bob', 'bob-3');
    const again = a.connect('alice', 'alice-2');
    await present(two, laptop, phone, again);
    // What a new socket sends waits until it was looked for its calls.
    for (const one of [laptop, phone, again]) await acked(one.emit('ice-candidate', { iceCandidate: 'c' }));
    expect((await a.session())?.lost).toEqual({});
    expect(await acked(again.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    // One more comes at once; its own arrival gets it the offer.
    const watch = b.connect('bob', 'bob-4');
    await hears(watch, 'call-rejoin-offer');
    // Until it is looked again whether somebody has missed it.
    const { peek } = a.store;
    let looks = 0;
    a.store.peek = (of) => {
      looks += 1;
      return peek(of);
    };
    await expect.poll(() => looks).toBeGreaterThan(0);
    a.store.peek = peek;
    expect(await acked(phone.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    await hears(again, 'call-rejoin-answer');
    for (const { names } of [laptop, phone, watch]) expect(names).toEqual(['call-rejoin-offer']);
  });

  it('has a kept rejoin offer delivered to a seat that was back before it, though presence did not know', async () => {
    const { a, b } = two;
    await bothLost();
    const back = b.connect('bob', 'bob-2');
    const again = a.connect('alice', 'alice-2');
    await present(two, back, again);
    await expect.poll(async () => (await a.session())?.lost).toEqual({});
    const looked = a.cluster.presence.socketsOf;
    a.cluster.presence.socketsOf = async () => [];
    expect(await acked(again.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    a.cluster.presence.socketsOf = looked;
    await hears(back, 'call-rejoin-offer');
    expect(back.heard[0]?.arg).toEqual({ conversationId: key().conversationId, offer: 'again', fromUserId: 'alice' });
    expect(await acked(back.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    await hears(again, 'call-rejoin-answer');
  });

  it('has a kept rejoin offer delivered to whoever came in that very moment, once', async () => {
    const { a, b } = two;
    await bothLost();
    // Bob's new socket looks for calls before the offer is there, and is known only after the offer has looked for sockets.
    b.breaks.set('awaiting', async () => []);
    const looked = a.cluster.presence.socketsOf;
    a.cluster.presence.socketsOf = async () => [];
    const again = a.connect('alice', 'alice-2');
    const back = b.connect('bob', 'bob-2');
    expect(await acked(again.emit('call-rejoin-offer', { offer: 'again' }))).toEqual({ ok: true });
    a.cluster.presence.socketsOf = looked;
    await hears(back, 'call-rejoin-offer');
    expect(await acked(back.emit('call-rejoin-answer', { answer: 'again' }))).toEqual([]);
    await hears(again, 'call-rejoin-answer');
    expect(back.names).toEqual(['call-rejoin-offer']);
  });
});

it('a browser on the move that speaks before calls could be told of its new socket has its seat all the same', async () => {
  const { a, b } = two;
  const { alice, bob } = await connected(two);
  await holding(b).hold([bob.peer.ref]);
  bob.drop();
  a.breaks.set('awaiting', fails());
  const moved = a.connect('bob', 'bob-2');
  await expect.poll(() => a.signaling.sizes['owed-drops']?.()).toBe(1);
  expect(await acked(moved.emit('ice-candidate', { iceCandidate: 'at once' }))).toEqual({ ok: true });
  await expect.poll(() => candidates(alice)).toEqual(['at once']);
  expect((await a.session())?.seats.answerer?.id).toBe('bob-2');
});
