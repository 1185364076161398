// From polling to a WebSocket: nothing lost, doubled or reordered, whatever is on its way while the transports change.

import type { Socket as ServerSocket } from 'socket.io';
import { afterEach, describe, expect, it } from 'vitest';
import { HandSession, HandSocket, once, type Stage, stage, until } from './harness.js';

let on: Stage;
afterEach(() => on.close());

/** Sends while the upgrade is under way and a little longer; answers how many. */
async function stream(upgraded: () => boolean, send: (n: number) => void): Promise<number> {
  let n = 0;
  for (let after = 0; after < 8 && n < 2_000; ) {
    send(n++);
    if (upgraded()) after++;
    if (n % 3 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return n;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

describe('120 upgrades under traffic in every direction', () => {
  it('lose, double and reorder nothing', async () => {
    const sides = new Map<string, ServerSocket>();
    const atLegacy = new Map<string, number[]>();
    on = await stage({
      setUp: (legacy) =>
        legacy.on('connection', (socket) => {
          sides.set(socket.id, socket);
          const seen: number[] = [];
          atLegacy.set(socket.id, seen);
          socket.on('up', (n: number, ...rest: unknown[]) => {
            if (rest.length === 2) expect(Buffer.isBuffer(rest[0])).toBe(true);
            seen.push(n);
          });
        }),
    });
    const rounds = 12;
    for (let round = 0; round < rounds; round++) {
      await Promise.all(
        Array.from({ length: 10 }, async () => {
          const at = on.owners.length;
          const client = on.client({ transports: ['polling', 'websocket'] });
          const got = { ours: [] as number[], theirs: [] as number[], acks: [] as number[] };
          client.on('ours', ({ n }: { n: number }) => got.ours.push(n));
          client.on('theirs', (n: number) => got.theirs.push(n));
          let upgraded = false;
          client.io.engine.once('upgrade', () => {
            upgraded = true;
          });
          const moved = (): boolean => upgraded;
          await once(client, 'connect');
          const owner = on.owners
            .slice(at)
            .find((one) => one.fromLegacySeen.some((text) => text.includes(client.id!)))!;
          const side = sides.get(client.id!)!;
          const bytes = Buffer.from('attachment');
          const [ours, theirs, up, served] = await Promise.all([
            stream(moved, (n) => owner.inject('ours', n % 4 === 0 ? { n, bytes } : { n })),
            stream(moved, (n) => (n % 5 === 0 ? side.emit('theirs', n, bytes) : side.emit('theirs', n))),
            stream(moved, (n) => client.emit('up', n, ...(n % 7 === 0 ? [bytes] : []))),
            stream(moved, (n) =>
              client.emit('served', n, ...(n % 6 === 0 ? [bytes] : []), () => {
                got.acks.push(n);
              }),
            ),
          ]);
          const seen = atLegacy.get(client.id!)!;
          await until(
            () =>
              got.acks.length >= served && got.ours.length >= ours && got.theirs.length >= theirs && seen.length >= up,
          );
          expect(got).toEqual({ ours: upTo(ours), theirs: upTo(theirs), acks: upTo(served) });
          expect(seen).toEqual(upTo(up));
          expect(owner.taken.map(([, n]) => n)).toEqual(upTo(served));
          expect(owner.kinds).toEqual(['polling', 'websocket']);
          client.disconnect();
          expect(await owner.whenClosed()).toBe('browser');
          expect(owner.closings).toBe(1);
        }),
      );
    }
    await until(() => on.sessions.size === 0);
    expect(on.upstream.sessions).toBe(0);
  }, 60_000);
});

/** A session with its WebSocket open and probed. */
async function probed(options: Parameters<typeof stage>[0] = {}) {
  on = await stage(options);
  const arrived = on.nextSocket();
  const session = await HandSession.open(on.port);
  const side = await arrived;
  const owner = on.owners[0]!;
  const socket = await HandSocket.open(on.port, session.sid);
  return { session, side, owner, socket };
}

const onlySession = () => [...on.sessions.live()][0]!;

describe('the upgrade by hand', () => {
  it('releases an idle GET within a moment, not at the next ping', async () => {
    const { session, socket } = await probed();
    const poll = session.get();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    expect((await poll.answer).body).toBe('6');
    socket.send('5');
    await until(() => onlySession().state === 'ws');
  });

  it('brings what nobody fetched over the WebSocket, a ping too, and ours behind it', async () => {
    const { session, side, socket, owner } = await probed({ legacy: { pingInterval: 60_000 } });
    const poll = session.get();
    await until(() => onlySession().gets.legacyGet?.sent === true);
    owner.inject('ours', { n: 1 });
    expect((await poll.answer).body).toBe('42["ours",{"n":1}]');
    (side.conn as unknown as { sendPacket(type: string): void }).sendPacket('ping');
    await until(() => onlySession().gets.held !== null);
    owner.inject('ours', { n: 2 });
    side.emit('theirs', Buffer.from('late'));
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    await until(() => socket.frames.length >= 5);
    owner.inject('ours', { n: 3 });
    await until(() => socket.frames.length >= 6);
    const order = socket.frames.map(({ payload }) => payload.toString());
    expect(order.filter((text) => text !== 'late' && !text.startsWith('451-'))).toEqual([
      '3probe',
      '2',
      '42["ours",{"n":2}]',
      '42["ours",{"n":3}]',
    ]);
    const header = order.findIndex((text) => text.startsWith('451-'));
    expect(order[header + 1]).toBe('late');
  });

  it.each([
    ['plain', {}],
    ['compressed', { 'Accept-Encoding': 'gzip' }],
  ])('brings a large answer that nobody fetched, %s', async (_how, headers) => {
    const { session, side, socket, owner } = await probed();
    const poll = session.get(headers);
    await until(() => onlySession().gets.legacyGet?.sent === true);
    owner.inject('ours', { n: 1 });
    await poll.answer;
    const noise = Array.from({ length: 100_000 }, (_, n) => Math.sin(n)).join();
    side.emit('big', noise, Buffer.alloc(1_000_000, 7));
    await until(() => onlySession().gets.held !== null);
    expect(onlySession().gets.held!.rest).toBeDefined();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    owner.inject('ours', { n: 2 });
    await until(() => socket.texts.includes('42["ours",{"n":2}]'));
    const header = socket.frames.findIndex(({ payload }) => payload.toString('latin1', 0, 4) === '451-');
    expect(socket.frames[header]!.payload.includes(noise)).toBe(true);
    await until(() => socket.frames.length > header + 1);
    const { op, payload } = socket.frames[header + 1]!;
    expect(op).toBe(2);
    expect(payload.equals(Buffer.alloc(1_000_000, 7))).toBe(true);
  });

  it('lets a taken event’s attachments come on the WebSocket', async () => {
    const { session, socket, owner } = await probed();
    expect((await session.post('451-7["served",{"_placeholder":true,"num":0}]').answer).body).toBe('ok');
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    socket.send(Buffer.from([1, 2, 3]));
    await until(() => owner.taken.length === 1);
    expect(owner.taken).toEqual([['served', Buffer.from([1, 2, 3])]]);
    await until(() => socket.texts.some((text) => text.startsWith('43') || text.startsWith('46')));
  });

  it('holds the `5` back until a forwarded packet is at the legacy', async () => {
    const events: string[] = [];
    const { session, side, socket, owner } = await probed();
    side.onAny((name) => events.push(name));
    side.conn.once('upgrade', () => events.push('upgrade'));
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    owner.serve = (packet) => {
      owner.transport.forward(packet);
      socket.send('5');
    };
    await session.post('42["served-late"]').answer;
    await until(() => events.length === 2);
    expect(events).toEqual(['served-late', 'upgrade']);
  });

  it('gives packets up to a successor that has not taken over yet', async () => {
    const { side, socket, owner } = await probed();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    owner.serve = () => owner.transport.send([{ text: '42["early"]', attachments: [] }]);
    socket.send('5');
    socket.send('42["served"]');
    await until(() => socket.texts.includes('42["early"]'));
    side.emit('theirs');
    await until(() => socket.texts.includes('42["theirs"]'));
  });

  it('relays a second WebSocket and lets the first one succeed', async () => {
    const { session, socket, owner } = await probed();
    const second = await HandSocket.open(on.port, session.sid).catch(() => undefined);
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    await until(() => owner.kinds.length === 2);
    owner.inject('ours', {});
    await until(() => socket.texts.includes('42["ours",{}]'));
    expect(second?.texts ?? []).not.toContain('42["ours",{}]');
    second?.socket.destroy();
  });

  it('falls back to polling where the WebSocket closes before the `5`, and may try again', async () => {
    const { session, socket, owner } = await probed();
    socket.socket.destroy();
    await until(() => !onlySession().upgrading);
    const poll = session.get();
    owner.inject('ours', { n: 1 });
    expect((await poll.answer).body).toBe('42["ours",{"n":1}]');
    expect(owner.closings).toBe(0);
    const again = await HandSocket.open(on.port, session.sid);
    again.send('2probe');
    await until(() => again.texts.includes('3probe'));
    again.send('5');
    await until(() => owner.kinds.length === 2);
  });

  it('leaves polling requests of an upgraded session to the legacy', async () => {
    const { session, socket, owner } = await probed();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    await until(() => owner.kinds.length === 2);
    expect((await session.get().answer).status).toBe(400);
    expect(owner.closings).toBe(0);
  });

  it('ends on both sides when the WebSocket is reset, once', async () => {
    const { side, socket, owner } = await probed();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    await until(() => owner.kinds.length === 2);
    const left = once(side, 'disconnect');
    socket.socket.resetAndDestroy();
    await left;
    expect(await owner.whenClosed()).toBe('browser');
    expect(owner.closings).toBe(1);
    expect(on.sessions.size).toBe(0);
  });

  it('answers a GET that is still pending after the `5` with what the legacy answers', async () => {
    const { session, socket, owner } = await probed();
    const poll = session.get();
    await until(() => onlySession().gets.legacyGet?.sent === true);
    socket.send('2probe');
    socket.send('5');
    await until(() => owner.kinds.length === 2);
    expect((await poll.answer).status).toBe(200);
    expect(owner.closings).toBe(0);
  });

  it('drains by the WebSocket after it', async () => {
    const { socket, owner } = await probed();
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    socket.send('5');
    await until(() => owner.kinds.length === 2);
    onlySession().end(1001, 'going away');
    await until(() => socket.closed);
    expect(socket.frames.at(-1)).toEqual({ op: 8, payload: Buffer.from('\x03\xe9going away', 'latin1') });
    expect(owner.cause).toBe('drain');
  });
});
