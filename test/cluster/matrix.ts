// The crash matrix: a call at every step, one of its parties on the instance that goes (the victim), the other on one that stays,
// and what each must have been told within 5 s. Knows nothing of how the instance goes.
import { expect } from 'vitest';
import { type Client, within } from '../harness.js';
import { type Bed, conversationOf, heard, type Instance, inCall, rejoin, talk } from './bed.js';

/** A dead instance is noticed within 4 s, and its survivors are told within 5. */
export const toldWithinMs = 5_000;

export interface Case {
  readonly name: string;
  /** Told within 5 s of the death; nothing where nobody has anything to be told. */
  told(): Promise<void>;
  /** Through another instance, once the death has been dealt with. */
  after(): Promise<void>;
}

interface Place {
  readonly bed: Bed;
  readonly victim: Instance;
  /** Where the other party is. */
  readonly stays: Instance;
  /** Where the lost party comes back. */
  readonly third: Instance;
  /** Begins the name of each user. */
  readonly of: string;
}

type Make = (place: Place) => Promise<Case>;

/** The caller is on the victim, or the callee is. */
const sides = ['caller', 'callee'] as const;
type Side = (typeof sides)[number];

const named = (name: string, side: Side): string => `${name}-${side}`;

/** Caller and callee; `lost` is the one on the victim. */
async function pair(place: Place, name: string, side: Side) {
  const { bed, victim, stays, of } = place;
  const caller = `${of}-${named(name, side)}-a`;
  const callee = `${of}-${named(name, side)}-b`;
  const [a, b] = await Promise.all([
    bed.on(side === 'caller' ? victim : stays, caller),
    bed.on(side === 'caller' ? stays : victim, callee),
  ]);
  return {
    a,
    b,
    lost: side === 'caller' ? a : b,
    survivor: side === 'caller' ? b : a,
    conversationId: conversationOf(a, b),
  };
}

const disconnected = (survivor: Client, lost: Client, conversationId: string) => async (): Promise<void> => {
  expect(await within(toldWithinMs, `${survivor.user} is told`, survivor.next('call-peer-disconnected'))).toEqual({
    conversationId,
    userId: lost.user,
  });
};

/** The lost party is back on the third instance, rejoins, and they talk; the survivor heard of nothing twice. */
async function recovers(place: Place, lost: Client, survivor: Client, conversationId: string): Promise<void> {
  const back = await place.bed.on(place.third, lost.user);
  await rejoin(conversationId, back, survivor);
  await talk(conversationId, back, survivor);
  expect(heard(back)).toEqual(['call-rejoin-answer', 'ice-candidate']);
  expect(await back.ask('call-end', { conversationId })).toEqual({ ok: true });
  expect(await survivor.next('call-ended')).toMatchObject({ reason: 'hangup', userId: lost.user });
}

/** A user is where it is: a new call rings its device on the third instance once, and nowhere else. */
async function presentOnce(place: Place, user: string, caller: Client): Promise<void> {
  const device = await place.bed.on(place.third, user);
  const conversationId = conversationOf(caller, device);
  expect(await caller.ask('call-offer', { conversationId, offer: 'once more' })).toEqual({ ok: true });
  expect(await device.next('call-offer')).toEqual({ conversationId, offer: 'once more', fromUserId: caller.user });
  expect(await device.ask('call-answer', { conversationId, answer: 'yes' })).toEqual([]);
  await talk(conversationId, caller, device);
  expect(heard(device)).toEqual(['call-offer', 'ice-candidate']);
  expect(await caller.ask('call-end', { conversationId })).toEqual({ ok: true });
}

const ringing: Make = async (place) => {
  const { a, b, conversationId } = await pair(place, 'ringing', 'caller');
  await a.ask('call-offer', { conversationId, offer: 'o' });
  await b.next('call-offer');
  return {
    name: 'ringing, the caller’s instance',
    async told() {
      expect(await within(toldWithinMs, 'the callee is told', b.next('call-ended'))).toEqual({
        conversationId,
        reason: 'offerer-left',
        userId: a.user,
      });
    },
    async after() {
      expect(heard(b)).toEqual(['call-offer', 'call-ended: offerer-left']);
      b.forget();
      await presentOnce(place, `${a.user}x`, b);
    },
  };
};

const ringsOn: Make = async (place) => {
  const { a, b, conversationId } = await pair(place, 'ringing', 'callee');
  await a.ask('call-offer', { conversationId, offer: 'o' });
  await b.next('call-offer');
  await a.ask('ice-candidate', { conversationId, iceCandidate: 'before' });
  return {
    name: 'ringing, the callee’s instance',
    told: async () => undefined,
    async after() {
      // The callee has no seat yet: the call rings on, and is answered from wherever the callee comes back.
      expect(heard(a)).toEqual([]);
      const back = await place.bed.on(place.third, b.user);
      expect(await back.ask('call-answer', { conversationId, answer: 'late' })).toEqual(['before']);
      expect(await a.next('call-answer')).toEqual({ conversationId, answer: 'late', fromUserId: b.user });
      await talk(conversationId, a, back);
      expect(heard(a)).toEqual(['call-answer', 'ice-candidate']);
    },
  };
};

const connected =
  (side: Side): Make =>
  async (place) => {
    const { a, b, lost, survivor, conversationId } = await pair(place, 'connected', side);
    await inCall(a, b);
    survivor.forget();
    return {
      name: `connected, the ${side}’s instance`,
      told: disconnected(survivor, lost, conversationId),
      async after() {
        await recovers(place, lost, survivor, conversationId);
        expect(heard(survivor)).toEqual([
          'call-peer-disconnected',
          'call-rejoin-offer',
          'ice-candidate',
          'call-ended: hangup',
        ]);
      },
    };
  };

const renegotiating =
  (side: Side, by: 'lost' | 'survivor'): Make =>
  async (place) => {
    const { a, b, lost, survivor, conversationId } = await pair(place, `renegotiating-${by}`, side);
    await inCall(a, b);
    const [from, to] = by === 'lost' ? [lost, survivor] : [survivor, lost];
    expect(await from.ask('call-renegotiate-offer', { conversationId, offer: 're' })).toEqual({ ok: true });
    await to.next('call-renegotiate-offer');
    survivor.forget();
    return {
      name: `renegotiating, offered by the ${by === 'lost' ? 'lost' : 'other'} party, the ${side}’s instance`,
      told: disconnected(survivor, lost, conversationId),
      async after() {
        // What was being negotiated is forgotten.
        expect(await survivor.ask('call-renegotiate-answer', { conversationId, answer: 're' })).toEqual({
          ok: false,
          error: 'No renegotiation to answer',
        });
        await recovers(place, lost, survivor, conversationId);
        expect(heard(survivor)).toEqual([
          'call-peer-disconnected',
          'error: No renegotiation to answer',
          'call-rejoin-offer',
          'ice-candidate',
          'call-ended: hangup',
        ]);
      },
    };
  };

const awaitingRejoin =
  (side: Side): Make =>
  async (place) => {
    // The survivor of an earlier drop is on the victim: its browser's peer left by itself, so nobody is left and the call ends.
    const { a, b, lost, survivor: left, conversationId } = await pair(place, 'awaiting', side);
    await inCall(a, b);
    left.close();
    await lost.next('call-peer-disconnected');
    return {
      name: `awaiting rejoin, the ${side} waits on the instance`,
      told: async () => undefined,
      async after() {
        const back = await place.bed.on(place.third, left.user);
        await within(toldWithinMs, 'the call is over', over(back, conversationId));
      },
    };
  };

/** Until a rejoin is refused because there is no such call any more. */
async function over(back: Client, conversationId: string): Promise<void> {
  for (;;) {
    const answer = (await back.ask('call-renegotiate-offer', { conversationId, offer: 'x' })) as { error?: string };
    if (answer.error === 'No such call') return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const rejoinOffered =
  (side: Side, victimHas: 'rejoiner' | 'survivor'): Make =>
  async (place) => {
    const { bed, victim, stays } = place;
    const { a, b, lost: onVictim, survivor: onOther, conversationId } = await pair(place, `rejoin-${victimHas}`, side);
    await inCall(a, b);
    const leaves = victimHas === 'rejoiner' ? onVictim : onOther;
    const waits = leaves === onVictim ? onOther : onVictim;
    leaves.close();
    await waits.next('call-peer-disconnected');
    const back = await bed.on(victimHas === 'rejoiner' ? victim : stays, leaves.user);
    expect(await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })).toEqual({ ok: true });
    await waits.next('call-rejoin-offer');
    const [lost, survivor] = victimHas === 'rejoiner' ? [back, waits] : [waits, back];
    survivor.forget();
    return {
      name: `rejoin offered, the ${victimHas} (the ${side}) is on the instance`,
      told: disconnected(survivor, lost, conversationId),
      async after() {
        await recovers(place, lost, survivor, conversationId);
        expect(heard(survivor)).toEqual([
          'call-peer-disconnected',
          'call-rejoin-offer',
          'ice-candidate',
          'call-ended: hangup',
        ]);
      },
    };
  };

/** Accepted difference 4: both are on the instance that goes, and the call waits for both. */
const bothThere: Make = async (place) => {
  const { bed, victim, stays, third, of } = place;
  const [a, b] = await Promise.all([bed.on(victim, `${of}-both-a`), bed.on(victim, `${of}-both-b`)]);
  const conversationId = await inCall(a, b);
  return {
    name: 'connected, both on the instance',
    told: async () => undefined,
    async after() {
      const backA = await bed.on(stays, a.user);
      // The call is there until its death has been dealt with, and then waits for both.
      await within(toldWithinMs, 'the rejoin is taken', taken(backA, conversationId));
      const backB = await bed.on(third, b.user);
      expect(await backB.next('call-rejoin-offer')).toEqual({ conversationId, offer: 'again', fromUserId: a.user });
      expect(await backB.ask('call-rejoin-answer', { conversationId, answer: 'back' })).toEqual([]);
      expect(await backA.next('call-rejoin-answer')).toEqual({ conversationId, answer: 'back', fromUserId: b.user });
      await talk(conversationId, backA, backB);
      expect(heard(backB)).toEqual(['call-rejoin-offer', 'ice-candidate']);
    },
  };
};

async function taken(back: Client, conversationId: string): Promise<void> {
  for (;;) {
    const answer = (await back.ask('call-rejoin-offer', { conversationId, offer: 'again' })) as { ok: boolean };
    if (answer.ok) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const steps: readonly Make[] = [
  ringing,
  ringsOn,
  ...sides.map(connected),
  ...sides.flatMap((side) => [renegotiating(side, 'lost'), renegotiating(side, 'survivor')]),
  ...sides.map(awaitingRejoin),
  ...sides.flatMap((side) => [rejoinOffered(side, 'rejoiner'), rejoinOffered(side, 'survivor')]),
  bothThere,
];

/** All calls of the matrix, each at its step. */
export async function matrix(place: Place): Promise<readonly Case[]> {
  const cases: Case[] = [];
  for (const make of steps) cases.push(await make(place));
  return cases;
}

/** Runs a part of every case and names those that failed, all at once. */
export async function everyCase(cases: readonly Case[], part: 'told' | 'after'): Promise<void> {
  const done = await Promise.allSettled(cases.map((one) => one[part]()));
  const wrong = done.flatMap((one, i) =>
    one.status === 'rejected' ? [`${cases[i]?.name}: ${part}: ${(one.reason as Error).message}`] : [],
  );
  expect(wrong).toEqual([]);
}
