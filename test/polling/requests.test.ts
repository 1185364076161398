// Requests as no browser library sends them: whatever a client does, it sees what it would see at the legacy, and the
// legacy sees what it would see of the client.
import { gunzipSync } from 'node:zlib';
import { afterEach, describe, expect, it } from 'vitest';
import { answerNext, holdPosts, posts, script, waiting } from './by-hand.js';
import { asDirect, inside, seen, underWay } from './direct.js';
import { base, HandSession, HandSocket, once, raw, type Stage, stage, until } from './harness.js';

let on: Stage;
afterEach(() => on.close());

describe('what passes', () => {
  it('a compressed answer keeps its bytes', async () => {
    on = await stage();
    const emoji = '😀é€'.repeat(400);
    const bodies = (await asDirect(on, async (session, _port, side) => {
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
    await underWay(on, session);
    on.owners[0]!.inject('ours', { n: 1 });
    expect((await before.answer).body).toBe('42["ours",{"n":1}]');
    side.emit('theirs', long);
    await until(() => inside(on, session).gets.held !== null);
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
    await underWay(on, session);
    on.owners[0]!.inject('ours', { n: 1 });
    expect((await before.answer).body).toBe('42["ours",{"n":1}]');
    on.owners[0]!.inject('ours', { n: 2 });
    const long = 'x'.repeat(2_000);
    side.emit('theirs', long);
    await until(() => inside(on, session).gets.held !== null);
    on.owners[0]!.inject('ours', { n: 3 });
    const got: string[] = [];
    while (got.length < 3) got.push(...(await fetched()));
    expect(got).toEqual(['42["ours",{"n":2}]', `42["theirs","${long}"]`, '42["ours",{"n":3}]']);
  });

  it('one Access-Control-Allow-Origin, the legacy’s, also on answers of our own', async () => {
    on = await stage();
    const session = await HandSession.open(on.port, true, { Origin: 'http://app.test' });
    const poll = session.get();
    await underWay(on, session);
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
    await asDirect(on, async (session, port) => {
      const path = `/socket.io/?EIO=4&transport=websocket&sid=${session.sid}`;
      const refused = await seen(raw(port, 'GET', path).answer);
      return [refused, await seen(session.post('42["a"]').answer)];
    });
  });

  it('requests for a sid that nobody knows', async () => {
    on = await stage();
    await asDirect(on, async (_session, port) => {
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
    await underWay(on, session);
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
    await underWay(on, session);
    on.owners[0]!.inject('first', {});
    expect((await poll.answer).body).toBe('42["first",{}]');
    side.emit('big', Buffer.alloc(3_000_000, 1), 'z'.repeat(100));
    await until(() => inside(on, session).gets.held !== null);
    expect(inside(on, session).gets.held!.body.length).toBeLessThan(1_000_000);
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
