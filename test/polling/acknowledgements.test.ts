// An acknowledgement of the legacy's that its owner wants to see first: the answer that holds it waits, everything else
// goes on, and the browser gets it as it came or with other arguments.
import { gunzipSync } from 'node:zlib';
import { io } from 'socket.io-client';
import { afterEach, describe, expect, it } from 'vitest';
import type { Outgoing, Packet } from '../../src/protocol/packet.js';
import { decodeArgs, encodeAck } from '../../src/protocol/socketio.js';
import {
  HandSession,
  HandSocket,
  once,
  type Stage,
  type StageOptions,
  stage,
  type TestOwner,
  until,
} from './harness.js';

let on: Stage;
afterEach(() => on.close());

/** What `TestOwner.awaited` says of one acknowledgement, settled by the test. */
function word(owner: TestOwner, id: number) {
  let say: (other: Outgoing | undefined) => void = () => undefined;
  let packet: Packet | undefined;
  owner.awaited = {
    id,
    passing(came) {
      packet = came;
      return new Promise((resolve) => (say = resolve));
    },
  };
  return {
    /** The acknowledgement has come and is held. */
    held: () => until(() => packet !== undefined),
    args: () => decodeArgs(packet!),
    pass: () => say(undefined),
    replace: (args: readonly unknown[]) => say(encodeAck(packet!.ns, packet!.id!, args)),
  };
}

/** A legacy that acknowledges `ask` with a list and emits `told` and `watched` right behind it. */
async function asking(options: StageOptions = {}) {
  on = await stage({
    ...options,
    setUp: (legacy) =>
      legacy.on('connection', (socket) => {
        socket.on('ask', (ack: (list: unknown) => void) => {
          ack(['theirs', 1]);
          socket.emit('told', 'x'.repeat(2_000));
          socket.emit('watched', 1);
        });
      }),
  });
  const session = await HandSession.open(on.port);
  return { session, owner: on.owners[0]! };
}

const onlySession = () => [...on.sessions.live()][0]!;
const ack = '437[["theirs",1]]';
const told = `42["told","${'x'.repeat(2_000)}"]`;
const watched = '42["watched",1]';

describe('by polling', () => {
  it('keeps the answer back, shows what is behind it only then, and passes it with its bytes', async () => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    expect((await session.post('427["ask"]').answer).body).toBe('ok');
    let answered = false;
    const poll = session.get();
    void poll.answer.then(() => (answered = true));
    await waits.held();
    expect(waits.args()).toEqual([['theirs', 1]]);
    expect((await session.post('42["chat"]').answer).body).toBe('ok');
    owner.inject('ours', { n: 1 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(answered).toBe(false);
    expect(owner.fromLegacySeen).not.toContain(watched);
    waits.pass();
    expect((await poll.answer).body).toBe([ack, told, watched, '42["ours",{"n":1}]'].join('\x1e'));
    expect(owner.fromLegacySeen.at(-1)).toBe(watched);
  });

  it.each(['gzip', 'identity'])('replaces it (%s), with attachments too; the length is right', async (encoding) => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const poll = session.get({ 'Accept-Encoding': encoding });
    await waits.held();
    waits.replace([['theirs', 1, Buffer.from('ours')]]);
    const { body, bytes, headers } = await poll.answer;
    expect(headers['content-encoding']).toBeUndefined();
    expect(headers['content-length']).toBe(String(bytes.length));
    expect(body.split('\x1e')).toEqual([
      '461-7[["theirs",1,{"_placeholder":true,"num":0}]]',
      `b${Buffer.from('ours').toString('base64')}`,
      told,
      watched,
    ]);
  });

  it('a compressed answer of which nothing is replaced keeps its bytes', async () => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const poll = session.get({ 'Accept-Encoding': 'gzip' });
    await waits.held();
    waits.pass();
    const { bytes, headers } = await poll.answer;
    expect(headers['content-encoding']).toBe('gzip');
    expect(gunzipSync(bytes).toString()).toBe([ack, told, watched].join('\x1e'));
  });

  it('an injection that answered the GET before: the next GET gets what was held', async () => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    const poll = session.get();
    await until(() => onlySession().gets.legacyGet?.sent === true);
    owner.inject('ours', { n: 1 });
    expect((await poll.answer).body).toBe('42["ours",{"n":1}]');
    await session.post('427["ask"]').answer;
    await waits.held();
    const next = session.get();
    await until(() => onlySession().gets.pending !== null);
    expect(onlySession().gets.legacyGet).toBeNull();
    waits.pass();
    // With a GET open there the legacy answers with the first packet alone.
    expect((await next.answer).body).toBe(ack);
    expect((await session.get().answer).body).toBe([told, watched].join('\x1e'));
  });

  it('a second GET meanwhile comes behind it, as at the legacy, which has answered the first', async () => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const first = session.get();
    await waits.held();
    const second = session.get();
    await once(second.request, 'finish');
    waits.pass();
    expect((await first.answer).body).toBe([ack, told, watched].join('\x1e'));
    owner.inject('ours', { n: 1 });
    expect((await second.answer).body).toBe('42["ours",{"n":1}]');
    expect(owner.cause).toBeUndefined();
  });

  it('a browser that gives up its GET meanwhile ends the session there and here', async () => {
    const { session, owner } = await asking();
    const side = [...on.legacy.of('/').sockets.values()][0]!;
    const gone = once(side, 'disconnect');
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const poll = session.get();
    await waits.held();
    poll.request.destroy();
    expect(await owner.whenClosed()).toBe('browser');
    await gone;
    waits.replace(['too late']);
    await until(() => on.sessions.size === 0);
  });

  it('our own end brings what was held before its goodbye', async () => {
    const { session, owner } = await asking();
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const poll = session.get();
    await waits.held();
    owner.transport.end(1001, 'going away');
    expect((await poll.answer).body).toBe([ack, told, watched, '1'].join('\x1e'));
    expect(owner.cause).toBe('drain');
  });

  it('the heartbeat goes on', async () => {
    const { session, owner } = await asking({ legacy: { pingInterval: 300, pingTimeout: 5_000 } });
    const waits = word(owner, 7);
    await session.post('427["ask"]').answer;
    const poll = session.get();
    await waits.held();
    await new Promise((resolve) => setImmediate(resolve));
    waits.pass();
    await poll.answer;
    expect((await session.get().answer).body).toBe('2');
    expect((await session.post('3').answer).body).toBe('ok');
    expect((await session.get().answer).body).toBe('2');
  });
});

describe('at the upgrade', () => {
  it('an answer that is held when the browser moves on goes first by the WebSocket, replaced', async () => {
    const { session, owner } = await asking();
    const socket = await HandSocket.open(on.port, session.sid);
    socket.send('2probe');
    await until(() => socket.texts.includes('3probe'));
    const waits = word(owner, 7);
    // The legacy has a GET of ours, the browser has none.
    const poll = session.get();
    const first = (await poll.answer).body;
    expect(first).toBe('6');
    const next = session.get();
    await until(() => onlySession().gets.pending !== null);
    owner.inject('ours', { n: 1 });
    expect((await next.answer).body).toBe('42["ours",{"n":1}]');
    await session.post('427["ask"]').answer;
    await waits.held();
    socket.send('5');
    await until(() => onlySession().state === 'ws');
    owner.inject('ours', { n: 2 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(socket.texts).toEqual(['3probe']);
    waits.replace([['theirs', 1, 'ours']]);
    await until(() => socket.texts.includes('42["ours",{"n":2}]'));
    const texts = socket.texts.filter((text) => text !== '3probe' && text !== '6');
    expect(texts.slice().sort()).toEqual(['437[["theirs",1,"ours"]]', told, watched, '42["ours",{"n":2}]'].sort());
    expect(texts[0]).toBe('437[["theirs",1,"ours"]]');
    expect(texts.filter((text) => text === told || text === watched)).toEqual([told, watched]);
  });

  it('60 clients that ask all the while lose, double and reorder nothing, whatever is held and replaced', async () => {
    on = await stage({
      setUp: (legacy) =>
        legacy.on('connection', (socket) => {
          let n = 0;
          socket.on('ask', (m: number, ack: (list: unknown) => void) => {
            socket.emit('told', n++);
            ack([m]);
            socket.emit('told', n++);
          });
        }),
    });
    await Promise.all(
      Array.from({ length: 60 }, async () => {
        const at = on.owners.length;
        const client = io(on.url, { transports: ['polling', 'websocket'], reconnection: false, forceNew: true });
        const toldThem: number[] = [];
        client.on('told', (n: number) => toldThem.push(n));
        let upgraded = false;
        client.io.engine.once('upgrade', () => (upgraded = true));
        await once(client, 'connect');
        const owner = on.owners.slice(at).find((one) => one.fromLegacySeen.some((text) => text.includes(client.id!)))!;
        let asked = 0;
        const seen: number[] = [];
        const acks: unknown[] = [];
        const orders: string[] = [];
        for (let after = 0; after < 6 && asked < 500; ) {
          const m = asked++;
          owner.awaited = {
            id: m,
            async passing(packet) {
              seen.push(m);
              await new Promise((resolve) => setTimeout(resolve, m % 3));
              if (m % 4 === 0) return undefined;
              return encodeAck('/', packet.id!, [[m, 'more', ...(m % 5 === 0 ? [Buffer.from('bytes')] : [])]]);
            },
          };
          const list = await new Promise<unknown[]>((resolve) =>
            client.emit('ask', m, (acknowledged: unknown[]) => {
              // What the legacy sent before its acknowledgement is here, and nothing of what it sent behind it.
              if (toldThem.length !== 2 * m + 1) orders.push(`${toldThem.length} at ${m}`);
              resolve(acknowledged);
            }),
          );
          acks.push(list.slice(0, 2));
          if (upgraded) after++;
          await until(() => toldThem.length === 2 * m + 2);
        }
        const all = Array.from({ length: asked }, (_, n) => n);
        expect(seen).toEqual(all);
        expect(acks).toEqual(all.map((m) => (m % 4 === 0 ? [m] : [m, 'more'])));
        expect(toldThem).toEqual(Array.from({ length: 2 * asked }, (_, n) => n));
        expect(orders).toEqual([]);
        expect(owner.kinds).toEqual(['polling', 'websocket']);
        client.disconnect();
      }),
    );
  }, 60_000);
});
