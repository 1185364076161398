import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import WebSocket, { WebSocketServer } from 'ws';
import { type Bed, event, type Owned, proxyBed } from '../../test/bed/proxy-bed.js';
import type { Outgoing } from '../protocol/packet.js';

const OPEN = '0{"sid":"s1","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":1000000}';
const PATH = '/socket.io/?EIO=4&transport=websocket';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

interface Line {
  readonly bed: Bed;
  readonly browser: WebSocket;
  readonly legacy: WebSocket;
  /** What the legacy got, and the browser. */
  readonly up: (string | Buffer)[];
  readonly down: (string | Buffer)[];
  readonly owned: Owned;
}

/** A browser, the proxy, and a legacy that greets with an Engine.IO handshake and `40{"sid"}`. */
async function line(greetings: readonly string[] = [OPEN, '40{"sid":"a"}']): Promise<Line> {
  const server = http.createServer();
  const sockets = new WebSocketServer({ server, perMessageDeflate: true });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bed = await proxyBed([`http://127.0.0.1:${(server.address() as AddressInfo).port}`]);
  const up: (string | Buffer)[] = [];
  const down: (string | Buffer)[] = [];
  const accepted = once(sockets, 'connection').then(([socket]) => {
    const legacy = socket as WebSocket;
    collect(legacy, up);
    legacy.on('error', () => legacy.terminate());
    for (const greeting of greetings) legacy.send(greeting);
    return legacy;
  });
  const browser = new WebSocket(`ws://127.0.0.1:${bed.port}${PATH}`);
  collect(browser, down);
  browser.on('error', () => browser.terminate());
  await once(browser, 'open');
  const legacy = await accepted;
  await expect.poll(() => down.length).toBe(greetings.length);
  down.length = 0;
  cleanups.push(
    () => server.close(),
    () => bed.close(),
    () => browser.terminate(),
    () => legacy.terminate(),
  );
  return { bed, browser, legacy, up, down, owned: bed.owned[0]! };
}

function collect(socket: WebSocket, into: (string | Buffer)[]): void {
  socket.on('message', (data: Buffer, isBinary: boolean) => into.push(isBinary ? data : data.toString()));
}

const tcp = (socket: WebSocket): Socket => (socket as unknown as { _socket: Socket })._socket;

describe('packets', () => {
  test('pass with their bytes, a served event is cut out and answered', async () => {
    const { browser, legacy, up, down, owned } = await line();
    browser.send('42["chat",  1.50]');
    browser.send('427["serve-x",{}]');
    browser.send('42["chat",2]');
    browser.send(Buffer.from([1, 2]));
    legacy.send('42["watched",{"a":1}]');
    await expect
      .poll(() => [up, down])
      .toEqual([
        ['42["chat",  1.50]', '42["chat",2]', Buffer.from([1, 2])],
        ['437["served"]', '42["watched",{"a":1}]'],
      ]);
    expect(owned.fromBrowser).toEqual(['427["serve-x",{}]']);
    expect(owned.fromLegacy).toEqual(['40{"sid":"a"}', '42["watched",{"a":1}]']);
  });

  test('compression is never negotiated, whatever both sides offer', async () => {
    const { browser, legacy } = await line();
    expect([browser.extensions, legacy.extensions]).toEqual(['', '']);
  });

  test('nothing is put between a header and its attachments', async () => {
    const { legacy, down, owned } = await line();
    legacy.send('451-["file",{"_placeholder":true,"num":0}]');
    await expect.poll(() => down.length).toBe(1);
    owned.transport!.send([event('mine', {})]);
    legacy.send(Buffer.from([7]));
    await expect.poll(() => down).toEqual([expect.any(String), Buffer.from([7]), '42["mine",{}]']);
  });

  test('a taken event can be given to the legacy after all', async () => {
    const { up, owned } = await line();
    owned.transport!.forward({ text: '452-["x"]', attachments: [Buffer.from([1]), Buffer.from([2])] });
    await expect.poll(() => up).toEqual(['452-["x"]', Buffer.from([1]), Buffer.from([2])]);
  });

  test('another parser is noticed and everything passes', async () => {
    const { browser, up, owned } = await line([OPEN]);
    browser.send(Buffer.from([0x83, 0xa4]));
    browser.send('427["serve-x"]');
    await expect.poll(() => up).toEqual([Buffer.from([0x83, 0xa4]), '427["serve-x"]']);
    expect(owned.foreign).toBe(true);
  });
});

describe('an acknowledgement that its owner holds', () => {
  function held({ owned }: Line) {
    let say: (other: Outgoing | undefined) => void = () => undefined;
    owned.awaited = { id: 7, passing: () => new Promise((resolve) => (say = resolve)) };
    return {
      come: () => expect.poll(() => owned.fromLegacy.at(-1)).toBe('437[[1.0]]'),
      settle: (other?: Outgoing) => say(other),
    };
  }

  test('waits with all behind it, and passes with its bytes; ours keep their place', async () => {
    const it = await line();
    const word = held(it);
    for (const text of ['42["a"]', '437[[1.0]]', '42["b"]']) it.legacy.send(text);
    await word.come();
    it.owned.transport!.send([event('mine', {})]);
    it.browser.send('42["chat",2]');
    await expect.poll(() => [it.up, it.down]).toEqual([['42["chat",2]'], ['42["a"]']]);
    word.settle();
    await expect.poll(() => it.down).toEqual(['42["a"]', '437[[1.0]]', '42["b"]', '42["mine",{}]']);
    it.legacy.send('42["c"]');
    await expect.poll(() => it.down.at(-1)).toBe('42["c"]');
  });

  test('is replaced, with attachments', async () => {
    const it = await line();
    const word = held(it);
    for (const text of ['437[[1.0]]', '42["b"]']) it.legacy.send(text);
    await word.come();
    word.settle({ text: '461-7[[{"_placeholder":true,"num":0}]]', attachments: [Buffer.from([9])] });
    const want = ['461-7[[{"_placeholder":true,"num":0}]]', Buffer.from([9]), '42["b"]'];
    await expect.poll(() => it.down).toEqual(want);
  });

  test('threat: what the legacy sends meanwhile is not kept but left unread', async () => {
    const it = await line();
    const word = held(it);
    it.legacy.send('437[[1.0]]');
    await word.come();
    for (let i = 0; i < 32; i++) it.legacy.send(Buffer.alloc(1 << 20, i));
    let last = -1;
    const moved = () => {
      const before = last;
      last = tcp(it.legacy).writableLength;
      return before - last;
    };
    await expect.poll(moved, { interval: 100, timeout: 10_000 }).toBe(0);
    expect(last).toBeGreaterThan(8 << 20);
    word.settle();
    await expect.poll(() => it.down.length, { timeout: 10_000 }).toBe(33);
    expect(it.down.slice(1).map((bytes) => bytes[0])).toEqual(Array.from({ length: 32 }, (_, i) => i));
  });

  test('threat: what we put in meanwhile is bounded', async () => {
    const it = await line();
    const word = held(it);
    it.legacy.send('437[[1.0]]');
    await word.come();
    const ended = once(it.legacy, 'close');
    for (let i = 0; i < 40; i++) it.owned.transport!.send([event('mine', { text: 'x'.repeat(65_536) })]);
    expect(it.owned.causes).toEqual(['browser']);
    await ended;
    word.settle();
  });

  test('our own end lets it go first', async () => {
    const it = await line();
    const word = held(it);
    for (const text of ['437[[1.0]]', '42["b"]']) it.legacy.send(text);
    await word.come();
    const closed = once(it.browser, 'close');
    it.owned.transport!.end(1001, 'going away');
    expect((await closed)[0]).toBe(1001);
    expect(it.down).toEqual(['437[[1.0]]', '42["b"]']);
    word.settle({ text: '437[[2]]', attachments: [] });
  });

  test.each(['close frame', 'FIN'] as const)('a %s of the legacy comes behind it', async (how) => {
    const it = await line();
    const word = held(it);
    it.legacy.send('437[[1.0]]');
    await word.come();
    const closed = once(it.browser, 'close');
    if (how === 'FIN') tcp(it.legacy).end();
    else it.legacy.close(4001);
    word.settle();
    expect((await closed)[0]).toBe(how === 'FIN' ? 1006 : 4001);
    expect(it.down).toEqual(['437[[1.0]]']);
    expect(it.owned.causes).toEqual(['legacy']);
  });

  test.each(['close frame', 'reset'] as const)('a %s of the browser ends both', async (how) => {
    const it = await line();
    const word = held(it);
    it.legacy.send('437[[1.0]]');
    await word.come();
    const closed = once(it.legacy, 'close');
    if (how === 'reset') tcp(it.browser).resetAndDestroy();
    else it.browser.close(4002);
    await expect.poll(() => it.owned.causes).toEqual(['browser']);
    word.settle(); // as an owner does when it is closed
    expect((await closed)[0]).toBe(how === 'reset' ? 1006 : 4002);
    await expect.poll(() => it.bed.upstreams.all[0]!.sessions).toBe(0);
    expect(it.bed.signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
  });
});

describe('the end', () => {
  const codes = [1000, 1001, 1008, 4123] as const;
  test.each(codes)('a close frame %i of the browser reaches the legacy', async (code) => {
    const { browser, legacy, owned, bed } = await line();
    const closed = once(legacy, 'close');
    const seen = once(browser, 'close');
    browser.close(code, 'why');
    expect((await closed).map(String)).toEqual([String(code), 'why']);
    expect((await seen).map(String)).toEqual([String(code), 'why']);
    expect(owned.causes).toEqual(['browser']);
    expect(bed.upstreams.all[0]!.sessions).toBe(0);
  });

  test.each(codes)('a close frame %i of the legacy reaches the browser', async (code) => {
    const { browser, legacy, owned } = await line();
    const closed = once(browser, 'close');
    legacy.close(code, 'why');
    expect((await closed).map(String)).toEqual([String(code), 'why']);
    expect(owned.causes).toEqual(['legacy']);
  });

  test.each(['browser', 'legacy'] as const)('a reset of the %s is an abnormal end for the other', async (side) => {
    const { browser, legacy, owned } = await line();
    const [near, far] = side === 'browser' ? [browser, legacy] : [legacy, browser];
    const closed = once(far, 'close');
    tcp(near).resetAndDestroy();
    expect((await closed)[0]).toBe(1006);
    expect(owned.causes).toEqual([side]);
  });

  test.each(['browser', 'legacy'] as const)('a FIN of the %s without a close frame too', async (side) => {
    const { browser, legacy, owned } = await line();
    const [near, far] = side === 'browser' ? [browser, legacy] : [legacy, browser];
    const closed = once(far, 'close');
    tcp(near).end();
    expect((await closed)[0]).toBe(1006);
    expect(owned.causes).toEqual([side]);
  });

  test('the last bytes before a FIN arrive', async () => {
    const { browser, legacy, down } = await line();
    const closed = once(browser, 'close');
    tcp(browser).pause();
    const big = `42["big","${'x'.repeat(900_000)}"]`;
    legacy.send(big);
    legacy.send('42["last"]', () => tcp(legacy).end());
    await once(tcp(legacy), 'finish');
    tcp(browser).resume();
    await closed;
    expect(down.map((packet) => packet.length)).toEqual([big.length, 10]);
  });

  test('a socket that the legacy disconnects is not a legacy that went away', async () => {
    const { browser, legacy, owned } = await line();
    const closed = once(browser, 'close');
    legacy.send('41');
    legacy.close(1000);
    await closed;
    expect(owned.causes).toEqual(['browser']);
  });

  test('a silent browser given up by the heartbeat is not one either', async () => {
    const { browser, legacy, owned } = await line([OPEN.replace('20000', '50'), '40{"sid":"a"}']);
    const pinged = once(browser, 'message');
    legacy.send('2');
    await pinged;
    const since = performance.now();
    await expect.poll(() => performance.now() - since).toBeGreaterThan(60);
    const closed = once(browser, 'close');
    legacy.close();
    await closed;
    expect(owned.causes).toEqual(['browser']);
  });

  test('our own end tells both sides 1001', async () => {
    const { browser, legacy, owned } = await line();
    const closed = Promise.all([once(browser, 'close'), once(legacy, 'close')]);
    owned.transport!.end(1001, 'going away');
    const [ofBrowser, ofLegacy] = await closed;
    expect([ofBrowser.map(String), ofLegacy.map(String)]).toEqual([
      ['1001', 'going away'],
      ['1001', 'going away'],
    ]);
    expect(owned.causes).toEqual(['drain']);
  });

  test('an end within a packet that never gets whole is no close frame in its middle', async () => {
    const { browser, legacy, owned } = await line();
    const before = tcp(browser).bytesRead;
    const closed = once(browser, 'close');
    tcp(legacy).write(Buffer.concat([Buffer.from([0x81, 0x7e, 0x10, 0x00]), Buffer.alloc(2_000, '42["big","xxx')]));
    await expect.poll(() => tcp(browser).bytesRead).toBe(before + 2_004);
    owned.transport!.end(1001, 'going away');
    expect((await closed)[0]).toBe(1006);
    expect(owned.causes).toEqual(['drain']);
  });
});

describe('bounds', () => {
  test('a browser that does not read stops the legacy, and what we put in is bounded', async () => {
    const { bed, browser, legacy, owned } = await line();
    tcp(browser).pause();
    const chunk = Buffer.alloc(1 << 20);
    for (let i = 0; i < 64; i++) legacy.send(chunk);
    let last = 0;
    const moved = () => {
      const before = last;
      last = tcp(legacy).writableLength;
      return before - last;
    };
    await expect.poll(moved, { interval: 100, timeout: 10_000 }).toBe(0);
    expect(last).toBeGreaterThan(1 << 20);
    const ended = once(legacy, 'close');
    for (let i = 0; i < 40; i++) owned.transport!.send([event('mine', { text: 'x'.repeat(65_536) })]);
    expect(bed.signals.events.map(({ what, args }) => [what, args[0]])).toContainEqual(['bound', 'inject-overflow']);
    expect(owned.causes).toEqual(['browser']);
    await ended;
  });

  test('a browser that takes nothing for a whole heartbeat is gone, though its legacy can not be heard', async () => {
    const { browser, legacy, owned } = await line([
      OPEN.replace('25000', '50').replace('20000', '50'),
      '40{"sid":"a"}',
    ]);
    tcp(browser).pause();
    const ended = once(legacy, 'close');
    for (let i = 0; i < 64; i++) legacy.send(Buffer.alloc(1 << 20));
    await ended;
    expect(owned.causes).toEqual(['browser']);
  });

  test('a legacy that does not read stops the browser', async () => {
    const { browser, legacy, up } = await line();
    tcp(legacy).pause();
    for (let i = 0; i < 32; i++) browser.send(Buffer.alloc(1 << 20));
    await expect.poll(() => tcp(browser).writableLength).toBeGreaterThan(1 << 20);
    tcp(legacy).resume();
    await expect.poll(() => up.length, { timeout: 10_000 }).toBe(32);
  });
});
