// Requests as no browser library sends them: whatever a client does, it sees what it would see at the legacy, and the
// legacy sees what it would see of the client.
import type http from 'node:http';
import { gunzipSync } from 'node:zlib';
import type { Socket as ServerSocket } from 'socket.io';
import { afterEach, describe, expect, it } from 'vitest';
import { base, HandSession, HandSocket, once, raw, type Stage, stage, until } from './harness.js';

let on: Stage;
afterEach(() => on.close());

/** What of an answer a client can tell apart. */
async function seen(answer: Promise<{ status: number; body: string }>): Promise<string> {
  try {
    const { status, body } = await answer;
    return `${status} ${body}`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'failed';
  }
}

/** Plays the steps against the legacy and through the proxy, and wants the same outcome. */
async function asDirect(steps: (session: HandSession, port: number, side: ServerSocket) => Promise<unknown>) {
  const outcomes: unknown[] = [];
  for (const port of [on.legacyPort, on.port]) {
    const arrived = on.nextSocket();
    const session = await HandSession.open(port);
    outcomes.push(await steps(session, port, await arrived));
  }
  expect(outcomes[1]).toEqual(outcomes[0]);
  return outcomes[1];
}

const reasonOf = async (side: ServerSocket): Promise<unknown> => (await once(side, 'disconnect'))[0];

describe('what ends a session ends it as directly', () => {
  it('two GETs at once', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const first = session.get();
      await once(first.request, 'finish');
      await underWay(session);
      const second = session.get();
      return [await seen(first.answer), await seen(second.answer), await reason];
    });
    await until(() => on.sessions.size === 0);
    expect(on.owners[0]!.cause).toBe('browser');
  });

  it('an empty POST', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(session);
      const answer = await seen(session.post('').answer);
      return [answer, await reason, await seen(poll.answer), await seen(session.get().answer)];
    });
  });

  it('a POST of application/octet-stream', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
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
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const body = `42["a","${'x'.repeat(3_000)}"]`;
      return [(await seen(session.post(body, headers(body)).answer)).slice(0, 3), await reason];
    });
  });

  it('two POSTs at once', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const first = raw(session.port, 'POST', session.path, undefined, { 'Content-Length': '100' });
      first.request.write('42["a",');
      await underWay(session, 'POST');
      const second = session.post('42["b"]');
      await reason;
      first.request.destroy();
      return [(await seen(second.answer)).slice(0, 3)];
    });
  });

  it.each([['42["a",'], ['']])('a POST broken off in mid-body, after %j', async (begun) => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(session);
      const post = raw(session.port, 'POST', session.path, undefined, { 'Content-Length': '100' });
      post.request.flushHeaders();
      if (begun) post.request.write(begun);
      await underWay(session, 'POST');
      post.request.destroy();
      return [await reason, await seen(poll.answer)];
    });
    await until(() => on.sessions.size === 0);
    expect(on.owners[0]!.cause).toBe('browser');
  });

  it('a GET broken off', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const reason = reasonOf(side);
      const poll = session.get();
      await underWay(session);
      poll.request.destroy();
      return reason;
    });
    expect(await on.owners[0]!.whenClosed()).toBe('browser');
    expect(on.sessions.size).toBe(0);
  });

  it('the legacy closing it', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      const poll = session.get();
      await underWay(session);
      side.conn.close();
      return [await seen(poll.answer), await seen(session.get().answer), await seen(session.post('42["a"]').answer)];
    });
    expect(await on.owners[0]!.whenClosed()).toBe('legacy');
  });

  it('the legacy closing it between two GETs', async () => {
    on = await stage();
    await asDirect(async (session, _port, side) => {
      side.conn.close();
      return [await seen(session.post('42["a"]').answer), await seen(session.get().answer)];
    });
  });
});

describe('what passes', () => {
  it('a compressed answer keeps its bytes', async () => {
    on = await stage();
    const emoji = '😀é€'.repeat(400);
    const bodies = (await asDirect(async (session, _port, side) => {
      side.emit('news', emoji);
      const { headers, bytes } = await session.get({ 'Accept-Encoding': 'gzip' }).answer;
      expect(headers['content-encoding']).toBe('gzip');
      return gunzipSync(bytes).toString('utf8');
    })) as string;
    expect(bodies).toBe(`42["news","${emoji}"]`);
  });

  it('nothing of ours is merged into a compressed answer, and comes next', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const side = await arrived;
    const long = 'x'.repeat(2_000);
    const before = session.get({ 'Accept-Encoding': 'gzip' });
    await underWay(session);
    on.owners[0]!.inject('ours', { n: 1 });
    expect((await before.answer).body).toBe('42["ours",{"n":1}]');
    side.emit('theirs', long);
    await until(() => inside(session).gets.held !== null);
    on.owners[0]!.inject('ours', { n: 2 });
    const { bytes } = await session.get({ 'Accept-Encoding': 'gzip' }).answer;
    expect(gunzipSync(bytes).toString()).toBe(`42["theirs","${long}"]`);
    expect((await session.get().answer).body).toBe('42["ours",{"n":2}]');
  });

  it.each(['gzip', 'identity'])('what waited before the legacy spoke comes before it (%s)', async (encoding) => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const side = await arrived;
    const fetched = async () => {
      const { bytes, headers } = await session.get({ 'Accept-Encoding': encoding }).answer;
      return (headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes).toString('utf8').split('\x1e');
    };
    const before = session.get({ 'Accept-Encoding': encoding });
    await underWay(session);
    on.owners[0]!.inject('ours', { n: 1 });
    expect((await before.answer).body).toBe('42["ours",{"n":1}]');
    on.owners[0]!.inject('ours', { n: 2 });
    const long = 'x'.repeat(2_000);
    side.emit('theirs', long);
    await until(() => inside(session).gets.held !== null);
    on.owners[0]!.inject('ours', { n: 3 });
    const got: string[] = [];
    while (got.length < 3) got.push(...(await fetched()));
    expect(got).toEqual(['42["ours",{"n":2}]', `42["theirs","${long}"]`, '42["ours",{"n":3}]']);
  });

  it('one Access-Control-Allow-Origin, the legacy’s, also on answers of our own', async () => {
    on = await stage();
    const session = await HandSession.open(on.port, true, { Origin: 'http://app.test' });
    const poll = session.get();
    await underWay(session);
    on.owners[0]!.inject('ours', {});
    const own = await poll.answer;
    const taken = await session.post('42["served"]').answer;
    expect(taken.body).toBe('ok');
    const next = session.get();
    await session.post('420["served"]').answer;
    for (const answer of [own, taken, await next.answer]) {
      expect(answer.rawHeaders.filter((name) => /^access-control-allow-origin$/i.test(name))).toHaveLength(1);
      expect(answer.headers['access-control-allow-credentials']).toBe('true');
      expect(answer.headers['cache-control']).toBe('no-store');
    }
  });

  it('a plain GET with transport=websocket, and the session lives on', async () => {
    on = await stage();
    await asDirect(async (session, port) => {
      const path = `/socket.io/?EIO=4&transport=websocket&sid=${session.sid}`;
      const refused = await seen(raw(port, 'GET', path).answer);
      return [refused, await seen(session.post('42["a"]').answer)];
    });
  });

  it('requests for a sid that nobody knows', async () => {
    on = await stage();
    await asDirect(async (_session, port) => {
      const upgrade = await HandSocket.open(port, 'nope').catch((error: Error) => error.message);
      return [
        await seen(raw(port, 'GET', `${base}&sid=nope`).answer),
        await seen(raw(port, 'POST', `${base}&sid=nope`, '42["a"]').answer),
        upgrade,
      ];
    });
  });

  it('JSONP, untouched', async () => {
    on = await stage();
    const { body } = await raw(on.port, 'GET', `${base}&j=0`).answer;
    expect(body).toMatch(/^___eio\[0\]\("0\{/);
    expect(on.owners).toHaveLength(0);
  });

  it('a handshake without webtransport, otherwise as it came', async () => {
    const handshake =
      '0{"sid":"s1","upgrades":["websocket","webtransport"],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';
    on = await stage({
      bare: (_request, response) => {
        response.writeHead(200, {
          'Content-Type': 'text/plain; charset=UTF-8',
          'Set-Cookie': 'io=s1',
          'X-Own': 'kept',
        });
        response.end(handshake);
      },
    });
    const { body, headers } = await raw(on.port, 'GET', base).answer;
    expect(body).toBe(handshake.replace(',"webtransport"', ''));
    expect(headers['content-length']).toBe(String(body.length));
    expect(headers['set-cookie']).toEqual(['io=s1']);
    expect(headers['x-own']).toBe('kept');
    expect(on.sessions.size).toBe(1);
  });

  it('an answer of 20 MB without being gathered', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const side = await arrived;
    const big = 'y'.repeat(20_000_000);
    const poll = session.get();
    await underWay(session);
    side.emit('big', big);
    const { body } = await poll.answer;
    expect(body.length).toBe(big.length + '42["big",""]'.length);
    on.owners[0]!.inject('ours', {});
    expect((await session.get().answer).body).toBe('42["ours",{}]');
  });

  it('a large answer that nobody fetched waits at the legacy, and attachments in it are counted', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const side = await arrived;
    const poll = session.get();
    await underWay(session);
    on.owners[0]!.inject('first', {});
    expect((await poll.answer).body).toBe('42["first",{}]');
    side.emit('big', Buffer.alloc(3_000_000, 1), 'z'.repeat(100));
    await until(() => inside(session).gets.held !== null);
    expect(inside(session).gets.held!.body.length).toBeLessThan(1_000_000);
    let { body } = await session.get().answer;
    while (!body.includes('\x1eb') && !body.startsWith('b')) body += `\x1e${(await session.get().answer).body}`;
    expect(body.length).toBeGreaterThan(4_000_000);
    on.owners[0]!.inject('last', {});
    expect((await session.get().answer).body).toBe('42["last",{}]');
  });
});

describe('attachments', () => {
  it('are waited for over several POSTs, and what breaks in goes to the legacy', async () => {
    on = await stage();
    const session = await HandSession.open(on.port);
    expect((await session.post('451-["served",{"_placeholder":true,"num":0}]').answer).body).toBe('ok');
    expect(on.owners[0]!.taken).toEqual([]);
    expect((await session.post('bAQID').answer).body).toBe('ok');
    expect(on.owners[0]!.taken).toEqual([['served', Buffer.from([1, 2, 3])]]);
  });

  it('of the legacy’s are never separated from their header by ours', async () => {
    on = await stage({ bare: script() });
    const session = await HandSession.open(on.port, false);
    await session.post('40').answer;
    const header = session.get();
    answerNext('40{"sid":"x"}\x1e451-["a",{"_placeholder":true,"num":0}]');
    await header.answer;
    on.owners[0]!.inject('ours', {});
    const rest = session.get();
    await until(() => waiting.length === 1);
    on.owners[0]!.inject('ours', {});
    answerNext('bAQID');
    expect((await rest.answer).body).toBe('bAQID\x1e42["ours",{}]\x1e42["ours",{}]');
  });
});

describe('a packet that was taken and goes to the legacy after all', () => {
  it('is posted in order, attachments included', async () => {
    const seenByLegacy: unknown[][] = [];
    on = await stage({
      setUp: (legacy) => legacy.on('connection', (socket) => socket.onAny((...args) => seenByLegacy.push(args))),
    });
    const client = on.client();
    await once(client, 'connect');
    const owner = on.owners[0]!;
    owner.serve = (packet) => owner.transport.forward(packet);
    client.emit('served-1', Buffer.from('one'));
    client.emit('plain');
    client.emit('served-2');
    await until(() => seenByLegacy.length === 3);
    expect(seenByLegacy).toContainEqual(['served-1', Buffer.from('one')]);
    expect(seenByLegacy).toContainEqual(['served-2']);
    expect(seenByLegacy).toContainEqual(['plain']);
  });
});

describe('a POST whose sender does not wait for its answer', () => {
  it('counts at the legacy and here, and later ones go on', async () => {
    on = await stage({ bare: script() });
    holdPosts();
    const session = await HandSession.open(on.port, false);
    const post = session.post('42["plain"]\x1e42["served",1]');
    await until(() => posts.length === 1);
    post.request.destroy();
    await until(() => on.owners[0]!.taken.length === 1);
    const next = session.post('42["served",2]\x1e42["plain"]');
    await until(() => posts.length === 2);
    posts[1]!.end('ok');
    expect((await next.answer).body).toBe('ok');
    await until(() => on.owners[0]!.taken.length === 2);
    expect(on.owners[0]!.closings).toBe(0);
  });
});

describe('an end of ours', () => {
  it('answers the pending GET with what there is and a goodbye, and ends the session at the legacy', async () => {
    on = await stage();
    const arrived = on.nextSocket();
    const session = await HandSession.open(on.port);
    const left = once(await arrived, 'disconnect');
    const poll = session.get();
    await underWay(session);
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

/** The session behind a sid, for what can't be seen from outside. */
function inside(session: HandSession) {
  for (const one of on.sessions.live()) if (one.sid === session.sid) return one;
  throw new Error('no such session');
}

/** Until the legacy has the request; for a POST's body that is still coming, whoever waits for the rest of it. */
async function underWay(session: HandSession, method = 'GET'): Promise<void> {
  interface Engine {
    readonly clients: Readonly<
      Record<string, { readonly transport: { readonly req?: unknown; readonly dataReq?: unknown } }>
    >;
  }
  const { clients } = on.legacy.engine as unknown as Engine;
  await until(() => {
    if (method === 'POST' && session.port === on.port) return inside(session).posts.gathering;
    const transport = clients[session.sid]?.transport;
    return !!(method === 'GET' ? transport?.req : transport?.dataReq);
  });
}

/** A legacy by hand: accepts the handshake and POSTs, and leaves GETs waiting. */
const waiting: http.ServerResponse[] = [];
const posts: http.ServerResponse[] = [];
let holding = false;
function holdPosts(): void {
  holding = true;
}
function script(): http.RequestListener {
  waiting.length = 0;
  posts.length = 0;
  holding = false;
  return (request, response) => {
    request.resume();
    if (request.method === 'POST') {
      if (holding) posts.push(response);
      else response.end('ok');
    } else if (!request.url!.includes('sid=')) {
      response.end('0{"sid":"s1","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}');
    } else waiting.push(response);
  };
}
async function answerNext(body: string, status = 200): Promise<void> {
  await until(() => waiting.length > 0);
  const response = waiting.shift()!;
  response.statusCode = status;
  response.end(body);
}
