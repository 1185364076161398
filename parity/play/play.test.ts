// Plays against a small backend of the test's own: what is written down, when a step is over, and what is noticed.
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server, type Socket } from 'socket.io';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readScenarios } from '../read.js';
import type { Transport } from '../scenario.js';
import { secretIdentity } from '../targets/identity.js';
import { type Played, play } from './play.js';
import { Witnesses } from './witness.js';

let http: HttpServer;
let io: Server;
let url = '';
let witnesses: Witnesses;
const conversations = { template: 'dm:{0}:{1}', command: undefined, legacyUrl: '' };
const identity = secretIdentity(Buffer.from('a secret for tests only, long enough for HS256'), conversations);

type Ack = (answer: unknown) => void;
type Payload = { conversationId: string; offer: unknown };

/** Rings the other user of a conversation, and tells it when the caller is gone; the rest are events to try out. */
function serve(socket: Socket): void {
  const token = String(socket.handshake.auth.token);
  const { sub } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: string };
  const other = (conversationId: string) => conversationId.split(':').find((id, i) => i > 0 && id !== sub) ?? 'nobody';
  void socket.join(sub);
  const calls: string[] = [];
  socket.on('whoami', (ack: Ack) => ack({ socketId: socket.id }));
  socket.on('ice-candidate', (_payload: Payload, ack?: Ack) => ack?.({ ok: true }));
  socket.on('call-offer', async ({ conversationId, offer }: Payload, ack?: Ack) => {
    await new Promise((resolve) => setTimeout(resolve, 5)); // the membership is looked up
    if (conversationId.startsWith('parity-own-')) return ack?.({ ok: false, error: 'Not a participant' });
    calls.push(conversationId);
    io.to(other(conversationId)).emit('call-offer', { conversationId, offer, fromUserId: sub });
    ack?.({ ok: true });
  });
  socket.on('disconnect', () => {
    for (const conversationId of calls) io.to(other(conversationId)).emit('call-ended', { conversationId });
  });
  socket.on('twice', ({ conversationId }: Payload, ack: Ack) => {
    for (let i = 0; i < 2; i++) io.to(other(conversationId)).emit('doubled', 1);
    ack({ ok: true });
  });
  socket.on('gossip', ({ conversationId }: Payload, ack: Ack) => {
    for (const userId of ['somebody-else', sub]) io.to(other(conversationId)).emit('status', { userId });
    ack({ ok: true });
  });
  socket.on('depth', (value: unknown, ack: Ack) => {
    let depth = 0;
    for (let inner = value; Array.isArray(inner); inner = inner[0]) depth++;
    ack(depth);
  });
  socket.on('back', (value: unknown, ack: Ack) => {
    socket.emit('back', value);
    ack({ ok: true });
  });
}

beforeAll(async () => {
  http = createServer();
  io = new Server(http, { pingInterval: 400, pingTimeout: 800 });
  io.on('connection', serve);
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  witnesses = new Witnesses({
    url,
    patienceMs: 5_000,
    signIn: (name) => identity.signIn(`parity-own-${name}`, 'valid'),
    conversation: async (a, b) => `dm:${a}:${b}`,
  });
});

afterAll(async () => {
  await witnesses.close();
  await io.close();
});

let plays = 0;

function played(steps: string, transport: Transport = 'websocket', more = ''): Promise<Played> {
  const text = `name: t\nabout: t\nparties: { alice: , bob: }\n${more}\nsteps:\n${steps}\nexpect: {}\n`;
  const { scenarios, problems } = readScenarios(text, 'x.yaml');
  expect(problems).toEqual([]);
  return play(
    scenarios[0] as never,
    { path: 'legacy', url, witnesses },
    {
      transport,
      identity,
      rejoinTimeoutMs: 100,
      barrierEvent: 'whoami',
      patienceMs: 2_000,
      quietMs: 0,
      random: () => 0,
      suffix: `t${++plays}`,
    },
  );
}

const ringing = { conversationId: '$call', offer: 1, fromUserId: '$alice' };
const offer = (more = '') => `  - { emit: call-offer, by: alice, payload: { conversationId: $call, offer: 1 }${more} }`;
const event = (name: string, ...args: unknown[]) => ({ kind: 'event', name, args });
const ack = (name: string, ...args: unknown[]) => ({ kind: 'ack', name, args });

describe.each(['websocket', 'polling', 'upgrade'] as const)('over %s', (transport) => {
  it('writes down events and acknowledgements, and nothing of its own', async () => {
    const { transcripts, problem } = await played(offer(), transport);
    expect({ transcripts, problem }).toEqual({
      transcripts: { alice: [ack('call-offer', { ok: true })], bob: [event('call-offer', ringing)] },
      problem: undefined,
    });
  });

  it('ends a step without an acknowledgement when its effects are there, a lookup included', async () => {
    const { transcripts } = await played(
      `${offer(', ack: false')}\n  - { emit: back, by: bob, payload: after }`,
      transport,
    );
    expect(transcripts.bob).toEqual([event('call-offer', ringing), event('back', 'after'), ack('back', { ok: true })]);
  });

  it.each(['fin', 'rst', 'silence', 'close', 'disconnect'])('goes on once a drop by %s was noticed', async (how) => {
    const { transcripts, problem } = await played(
      `${offer()}\n  - { drop: alice, how: ${how} }\n  - { emit: back, by: bob, payload: after }\n  - { connect: alice }`,
      transport,
    );
    expect(problem).toBeUndefined();
    expect(transcripts).toEqual({
      alice: [ack('call-offer', { ok: true })],
      bob: [
        event('call-offer', ringing),
        event('call-ended', { conversationId: '$call' }),
        event('back', 'after'),
        ack('back', { ok: true }),
      ],
    });
  });

  it('keeps an old connection open behind a silence, and ends it later', async () => {
    const { transcripts, problem } = await played(
      `${offer()}
  - { drop: alice, how: silence, noticed: false }
  - { connect: alice }
  - { emit: back, by: bob, payload: before }
  - { drop: alice, how: rst, old: true }
  - { emit: back, by: alice, payload: still here }`,
      transport,
    );
    expect(problem).toBeUndefined();
    expect(transcripts.bob?.map(({ name }) => name)).toEqual(['call-offer', 'back', 'back', 'call-ended']);
    expect(transcripts.alice?.at(-1)).toEqual(ack('back', { ok: true }));
  });
});

describe('what is received', () => {
  it('is all of it, also what comes twice', async () => {
    const { transcripts } = await played('  - { emit: twice, by: alice, payload: { conversationId: $call } }');
    expect(transcripts.bob).toEqual([event('doubled', 1), event('doubled', 1)]);
  });

  it('is of the users of this play, where a scenario says so', async () => {
    const steps = '  - { emit: gossip, by: alice, payload: { conversationId: $call } }\n  - { wait: status, at: bob }';
    const { transcripts } = await played(steps, 'websocket', 'onlyOurs: [status]');
    expect(transcripts.bob).toEqual([event('status', { userId: '$alice' })]);
  });

  it('names sockets', async () => {
    const { transcripts } = await played('  - { emit: whoami, by: alice, args: [] }');
    expect(transcripts.alice).toEqual([ack('whoami', { socketId: '$socket:alice' })]);
  });

  it('answers what is nested deeper than JSON.stringify reaches', async () => {
    const { transcripts } = await played('  - { emit: depth, by: alice, payload: { $deep: 10000 } }');
    expect(transcripts.alice).toEqual([ack('depth', 10_000)]);
  });

  it('counts repeats and keeps binary', async () => {
    const { transcripts } = await played(
      '  - { emit: back, by: alice, payload: { n: $n, data: { $binary: hi } }, repeat: 2, ack: later }',
    );
    expect(transcripts.alice).toEqual([
      event('back', { n: 0, data: { $binary: 'hi' } }),
      ack('back', { ok: true }),
      event('back', { n: 1, data: { $binary: 'hi' } }),
      ack('back', { ok: true }),
    ]);
  });
});

describe('what keeps a play from its end is said', () => {
  it.each([
    [
      'no acknowledgement',
      '  - { emit: unheard, by: alice }',
      "waited 2000 ms in vain until alice's unheard is acknowledged",
    ],
    ['an event that does not come', '  - { wait: nothing, at: bob }', 'waited 2200 ms in vain until bob gets nothing'],
    [
      'a device that is gone',
      '  - { drop: bob, how: close }\n  - { emit: back, by: bob, payload: 1 }',
      'bob has no connection here; a "connect" step gives it a fresh one',
    ],
    [
      'a device that is there',
      '  - { connect: bob }',
      'bob is connected; drop it first ("silence" leaves the server unaware), or use a second device',
    ],
    ['a target that can not be restarted', '  - { restart: legacy }', 'this target can not be restarted'],
  ])('%s', async (_name, steps, problem) => {
    expect((await played(steps)).problem).toBe(problem);
  });
});
