// The crash matrix with real processes on a real Redis: an instance is killed, frozen for 10 s, or cut off from Redis (by a reset, or by a link that is half open), with a call
// at every step on it. Who is told what within 5 s, and how each goes on through another instance.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Client, until, within } from '../harness.js';
import { type Bed, chat, heard, inCall, startBed, talk } from './bed.js';
import { everyCase, matrix, toldWithinMs } from './matrix.js';

let bed: Bed;
beforeEach(async () => {
  bed = await startBed({ instances: 3 });
});
afterEach(() => bed.close());

const instances = () => bed.instances as readonly [Bed['instances'][0], Bed['instances'][0], Bed['instances'][0]];

/** A socket's end: when it came. */
const ended = ({ socket }: Client): Promise<void> =>
  new Promise((resolve) => {
    socket.once('disconnect', () => resolve());
    if (!socket.connected) resolve();
  });

describe('an instance', () => {
  it('is killed: the other party of each call is told within 5 s, and all recover through another instance', async () => {
    const [victim, stays, third] = instances();
    const cases = await matrix({ bed, victim, stays, third, of: 'k' });
    const chatting = await chat(bed, stays, third, 'k');
    await victim.kill();
    await everyCase(cases, 'told');
    await until(async () => (await bed.living(stays)) === 2, 'the dead one is not shown any more');
    await everyCase(cases, 'after');
    await chatting.stop();
  }, 60_000);

  it('is frozen for 10 s: it was declared dead, closes what held a seat when it thaws, and acts on nothing that was taken over', async () => {
    const [victim, stays, third] = instances();
    const cases = await matrix({ bed, victim, stays, third, of: 'f' });
    const bystander = await bed.on(victim, 'f-bystander');
    const [seat, peer] = await Promise.all([bed.on(victim, 'f-seat'), bed.on(stays, 'f-peer')]);
    const conversationId = await inCall(seat, peer);
    const chatting = await chat(bed, stays, third, 'f');
    const started = Date.now();
    victim.signal('SIGSTOP');
    await everyCase(cases, 'told');
    await everyCase(cases, 'after');
    // What the frozen one has not read yet is about a seat that was taken from it.
    seat.socket.emit('ice-candidate', { conversationId, iceCandidate: 'stale' });
    await peer.next('call-peer-disconnected');
    const back = await bed.on(third, 'f-seat');
    await back.ask('call-rejoin-offer', { conversationId, offer: 'again' });
    await peer.next('call-rejoin-offer');
    await peer.ask('call-rejoin-answer', { conversationId, answer: 'back' });
    await back.next('call-rejoin-answer');
    await until(() => Date.now() - started > 10_000, '10 s have passed', 12_000);
    victim.signal('SIGCONT');
    await within(toldWithinMs, 'the connection that held a seat is closed', ended(seat));
    await until(async () => (await bed.living(stays)) === 3, 'the thawed one lives again');
    // Others stay, and go on through the legacy and in calls of their own.
    expect(bystander.socket.connected).toBe(true);
    expect(await bystander.ask('whoami')).toMatchObject({ ok: true });
    const caller = await bed.on(stays, 'f-caller');
    await inCall(caller, bystander);
    await talk(conversationId, back, peer);
    expect(heard(peer).filter((name) => name !== 'ice-candidate')).toEqual([
      'call-offer',
      'call-peer-disconnected',
      'call-rejoin-offer',
    ]);
    expect(peer.got.filter(({ args }) => args[0] === 'stale')).toEqual([]);
    await chatting.stop();
  }, 60_000);

  it.each([
    ['cut off from Redis', 'x', 'cut'],
    ['on a link to Redis that is half open', 'h', 'hold'],
  ] as const)(
    'is %s: it refuses within 2 s, its calls are taken over, and it begins anew when Redis is back',
    async (_, of, fail) => {
      const [victim, stays, third] = instances();
      const cases = await matrix({ bed, victim, stays, third, of });
      const [seat, peer] = await Promise.all([bed.on(victim, `${of}-seat`), bed.on(stays, `${of}-peer`)]);
      const conversationId = await inCall(seat, peer);
      const bystander = await bed.on(victim, `${of}-bystander`);
      const chatting = await chat(bed, victim, stays, of);
      victim.link[fail]();
      await everyCase(cases, 'told');
      const asked = Date.now();
      expect(
        await bystander.ask('call-offer', { conversationId: `dm:${of}-bystander:${of}-peer`, offer: 'o' }),
      ).toEqual({
        ok: false,
        error: 'Signaling is unavailable, try again',
      });
      expect(await seat.ask('ice-candidate', { conversationId, iceCandidate: 'stale' })).toEqual({
        ok: false,
        error: 'Signaling is unavailable, try again',
      });
      expect(Date.now() - asked).toBeLessThan(4_000);
      await everyCase(cases, 'after');
      await peer.next('call-peer-disconnected');
      victim.link.mend();
      await within(toldWithinMs, 'the connection that held a seat is closed', ended(seat));
      const back = await bed.on(victim, `${of}-seat`);
      expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
      await peer.next('call-rejoin-offer');
      await peer.ask('call-rejoin-answer', { conversationId, answer: 'back' });
      await back.next('call-rejoin-answer');
      await talk(conversationId, back, peer);
      expect(bystander.socket.connected).toBe(true);
      await inCall(await bed.on(stays, `${of}-caller`), bystander);
      expect(peer.got.filter(({ args }) => args[0] === 'stale')).toEqual([]);
      await chatting.stop();
    },
    60_000,
  );
});
