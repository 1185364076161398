// One call's cast for the tests of the call contract: devices of both users and of an outsider, and every state to start from.
// Knows nothing of what is expected in them.
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import { type Legacy, startLegacy } from './server.js';
import { type Clients, clientsOf, type Device } from './test-clients.js';

export let legacy: Legacy;
export let clients: Clients;
/** alice calls, bob answers; each has two devices. carol has no part in it. */
export let a1: Device, a2: Device, b2: Device, b3: Device, carol: Device;
export let everybody: Record<string, Device>;
export let conversationId = '';
let row = 0;

/** Starts a legacy with the whole cast for the tests of this file, and a new conversation for each. */
export function useCast(): void {
  beforeAll(async () => {
    legacy = await startLegacy({ reapIntervalMs: 3_600_000 });
    clients = clientsOf(legacy);
    [a1, a2, b2, b3, carol] = await Promise.all([
      clients.connect('alice'),
      clients.connect('alice'),
      clients.connect('bob'),
      clients.connect('bob'),
      clients.connect('carol'),
    ]);
    everybody = { a1, a2, b2, b3, carol };
  });

  afterAll(async () => {
    clients.close();
    await legacy.close();
  });

  beforeEach(() => fresh());
}

/** A conversation of alice and bob in which nothing was said yet. */
export async function fresh(): Promise<void> {
  conversationId = `row-${++row}`;
  await legacy.membership.create({ id: conversationId, participants: ['alice', 'bob'] });
}

export const offerOf = (name: string) => ({ type: 'offer', sdp: `v=0 ${name}` });
export const answerOf = (name: string) => ({ type: 'answer', sdp: `v=0 ${name}` });
export const candidate = (n: number | string) => ({ candidate: `candidate:${n}`, sdpMid: '0', sdpMLineIndex: 0 });
export const offering = (name = 'alice') => ({ conversationId, offer: offerOf(name) });
export const answering = (name = 'bob') => ({ conversationId, answer: answerOf(name) });
export const sending = (n: number | string) => ({ conversationId, iceCandidate: candidate(n) });
export const OK = [{ ok: true }];

/** A payload for each event. */
export const PAYLOADS: Record<string, () => object> = {
  'call-offer': offering,
  'call-answer': answering,
  'ice-candidate': () => sending(0),
  'call-renegotiate-offer': offering,
  'call-renegotiate-answer': answering,
  'call-rejoin-offer': offering,
  'call-rejoin-answer': answering,
  'call-end': () => ({ conversationId }),
};

/** The state of the conversation's call. */
export const state = () => legacy.calls.state('/', conversationId) ?? 'none';

/** What each device was told and had not been asked about yet, as text: an object's keys keep their order. */
export async function told(devices: Record<string, Device> = everybody): Promise<Record<string, string[]>> {
  const entries = await Promise.all(
    Object.entries(devices).map(async ([name, device]) => {
      await device.settle();
      return [name, device.take().map(([event, ...args]) => `${event} ${JSON.stringify(args)}`)] as const;
    }),
  );
  return Object.fromEntries(entries.filter(([, list]) => list.length > 0));
}

/** One thing that was told, as `told` shows it. */
export const line = (event: string, ...args: unknown[]) => `${event} ${JSON.stringify(args)}`;

/** The states of a call, each reached from nothing. REJOINING is the OFFERING of a rejoin. */
const REACH: Record<string, () => Promise<void>> = {
  IDLE: async () => undefined,
  async OFFERING() {
    expect(await a1.ask('call-offer', offering())).toEqual(OK);
  },
  async CONNECTED() {
    await REACH.OFFERING!();
    expect(await b2.ask('call-answer', answering())).toEqual([[]]);
  },
  async RENEGOTIATING() {
    await REACH.CONNECTED!();
    expect(await a1.ask('call-renegotiate-offer', offering())).toEqual(OK);
  },
  async AWAITING_REJOIN() {
    await REACH.OFFERING!();
    const b1 = await clients.connect('bob');
    await b1.ask('call-answer', answering());
    await b1.drop(legacy);
  },
  async REJOINING() {
    await REACH.AWAITING_REJOIN!();
    expect(await b2.ask('call-rejoin-offer', offering('bob'))).toEqual(OK);
  },
};

/** Brings the conversation's call there; what was told on the way is taken. */
export async function reach(name: string): Promise<void> {
  await REACH[name]!();
  await told(); // what led here is looked at elsewhere
  for (const device of Object.values(everybody)) device.take();
}
