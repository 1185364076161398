// How a session ends, by either side's doing or by ours: client and legacy see what they would see directly.
import type { Socket as ServerSocket } from 'socket.io';
import { afterEach, describe, expect, it } from 'vitest';
import { answerNext, script, waiting } from './by-hand.js';
import { asDirect, seen, underWay } from './direct.js';
import { HandSession, once, raw, type Stage, stage, until } from './harness.js';

let on: Stage;
afterEach(() => on.close());

const reasonOf = async (side: ServerSocket): Promise<unknown> => (await once(side, 'disconnect'))[0];

describe('what ends a session ends it as directly', () => {
  it('two GETs at once', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const first = session.get();
      await once(first.request, 'finish');
      await underWay(on, session);
      const second = session.get();
      return [await seen(first.answer), await seen(second.answer), await reason];
    });
    await until(() => on.sessions.size === 0);
    expect(on.owners[0]!.cause).toBe('browser');
  });

  it('an empty POST', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(on, session);
      const answer = await seen(session.post('').answer);
      return [answer, await reason, await seen(poll.answer), await seen(session.get().answer)];
    });
  });

  it('a POST of application/octet-stream', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const answer = await seen(session.post('42["a"]', { 'Content-Type': 'application/octet-stream' }).answer);
      return [answer, await reason];
    });
    expect(on.owners[0]!.taken).toEqual([]);
  });

  it.each([
    ['with its length', (body: string) => ({ 'Content-Length': String(body.length) })],
    ['in chunks', () => ({ 'Transfer-Encoding': 'chunked' })],
  ])('a body over the limit, %s', async (_how, headers) => {
    on = await stage({ legacy: { maxHttpBufferSize: 1_000 } });
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const body = `42["a","${'x'.repeat(3_000)}"]`;
      return [(await seen(session.post(body, headers(body)).answer)).slice(0, 3), await reason];
    });
  });

  it('two POSTs at once', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const first = raw(session.port, 'POST', session.path, undefined, { 'Content-Length': '100' });
      first.request.write('42["a",');
      await underWay(on, session, 'POST');
      const second = session.post('42["b"]');
      await reason;
      first.request.destroy();
      return [(await seen(second.answer)).slice(0, 3)];
    });
  });

  it.each([['42["a",'], ['']])('a POST broken off in mid-body, after %j', async (begun) => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(on, session);
      const post = raw(session.port, 'POST', session.path, undefined, { 'Content-Length': '100' });
      post.request.flushHeaders();
      if (begun) post.request.write(begun);
      await underWay(on, session, 'POST');
      post.request.destroy();
      return [await reason, await seen(poll.answer)];
    });
    await until(() => on.sessions.size === 0);
    expect(on.owners[0]!.cause).toBe('browser');
  });

  it('a GET broken off', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(on, session);
      poll.request.destroy();
      return reason;
    });
    expect(await on.owners[0]!.whenClosed()).toBe('browser');
    expect(on.sessions.size).toBe(0);
  });

  it('the legacy closing it', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      const poll = session.get();
      await underWay(on, session);
      side.conn.close();
      return [await seen(poll.answer), await seen(session.get().answer), await seen(session.post('42["a"]').answer)];
    });
    expect(await on.owners[0]!.whenClosed()).toBe('legacy');
  });

  it('the legacy closing it between two GETs', async () => {
    on = await stage();
    await asDirect(on, async (session, _port, side) => {
      side.conn.close();
      return [await seen(session.post('42["a"]').answer), await seen(session.get().answer)];
    });
  });
});

describe('an end of ours', () => {
  it('answers the pending GET with what there is and a goodbye, and ends the session at the legacy', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const left = once(await arrived, 'disconnect');
    const poll = session.get();
    await underWay(on, session);
    on.owners[0]!.transport.send([{ text: '42["last"]', attachments: [] }]);
    on.owners[0]!.transport.end(1001, 'going away');
    expect((await poll.answer).body).toBe('42["last"]\x1e1');
    await left;
    expect(on.owners[0]!.cause).toBe('drain');
    expect(on.sessions.size).toBe(0);
  });

  it('is told by the next GET where none was pending, with what waited for it', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const left = once(await arrived, 'disconnect');
    on.owners[0]!.transport.send([{ text: '42["last"]', attachments: [] }]);
    on.owners[0]!.transport.end(1001, 'going away');
    await left;
    expect((await session.post('3').answer).body).toBe('ok');
    expect((await session.get().answer).body).toBe('42["last"]\x1e1');
    expect(on.sessions.size).toBe(0);
    expect((await session.get().answer).status).toBe(400);
  });

  it('comes at 1 MiB of packets that nobody fetches, at the legacy too', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    await HandSession.open(on.port);
    const left = once(await arrived, 'disconnect');
    const owner = on.owners[0]!;
    for (let i = 0; i < 5; i++) owner.inject('ours', { text: 'x'.repeat(300_000) });
    await left;
    expect(owner.cause).toBe('browser');
    expect(on.signals.events.some(({ what }) => what === 'bound')).toBe(true);
    expect(on.sessions.size).toBe(0);
  });
});

describe('a legacy that fails', () => {
  it('breaks the browser’s GET off as it broke its own', async () => {
    on = await stage({ bare: script() });
    const session = await HandSession.open(on.port, false);
    const poll = session.get();
    await until(() => waiting.length === 1);
    waiting.shift()!.destroy();
    expect(await seen(poll.answer)).toBe('ECONNRESET');
    expect(on.owners[0]!.cause).toBe('legacy');
  });

  it('and one that answers 503 ends the session', async () => {
    on = await stage({ bare: script() });
    const session = await HandSession.open(on.port, false);
    const poll = session.get();
    answerNext('sorry', 503);
    expect(await seen(poll.answer)).toBe('503 sorry');
    expect(on.owners[0]!.cause).toBe('legacy');
  });
});

describe('a silent browser', () => {
  it('is over after pingInterval + pingTimeout + slack, on both sides', async () => {
    on = await stage({ legacy: { pingInterval: 80, pingTimeout: 60 }, slack: 20 });
    const arrived = on.nextSocket();
    await HandSession.open(on.port);
    const left = once(await arrived, 'disconnect');
    expect(await on.owners[0]!.whenClosed()).toBe('browser');
    await left;
    expect(on.sessions.size).toBe(0);
  });
});
