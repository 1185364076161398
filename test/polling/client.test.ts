// socket.io-client over polling, through the proxy: forwarded, served and injected packets side by side.
import { afterEach, describe, expect, it } from 'vitest';
import { once, type Stage, stage, until } from './harness.js';

let on: Stage;
afterEach(() => on.close());

describe('a client that only polls', () => {
  it('has its events forwarded with attachments, and its acknowledgements back', async () => {
    on = await stage({
      setUp: (legacy) =>
        legacy.on('connection', (socket) => {
          socket.on('echo', (...args) => {
            const ack = args.pop() as (...a: unknown[]) => void;
            ack(...args);
          });
        }),
    });
    const client = on.client();
    await once(client, 'connect');
    const bytes = Buffer.from('attachment');
    const [text, back] = (await new Promise<unknown[]>((resolve) =>
      client.emit('echo', 'é€😀', bytes, (...args: unknown[]) => resolve(args)),
    )) as [string, Buffer];
    expect(text).toBe('é€😀');
    expect(Buffer.compare(back, bytes)).toBe(0);
    expect(on.owners[0]!.taken).toEqual([]);
    expect(on.owners[0]!.fromLegacySeen[0]).toBe(`40{"sid":"${client.id}"}`);
  });

  it('is served what is taken, which the legacy never sees', async () => {
    const seen: string[] = [];
    on = await stage({
      setUp: (legacy) => legacy.on('connection', (socket) => socket.onAny((name) => seen.push(name))),
    });
    const client = on.client();
    await once(client, 'connect');
    client.emit('before');
    const ack = await client.emitWithAck('served', { a: 1 });
    await client.emitWithAck('served-binary', { bytes: Buffer.from([1, 2, 3]) });
    client.emit('after');
    await until(() => seen.length === 2);
    expect(ack).toEqual({ served: { a: 1 } });
    expect(seen).toEqual(['before', 'after']);
    expect(on.owners[0]!.taken[1]).toEqual(['served-binary', { bytes: Buffer.from([1, 2, 3]) }]);
  });

  it('gets injected packets at once, the legacy keeping its GET open', async () => {
    on = await stage();
    const client = on.client();
    const arrived = on.nextSocket();
    await once(client, 'connect');
    const side = await arrived;
    const got: unknown[][] = [];
    client.onAny((...args) => got.push(args));
    on.owners[0]!.inject('injected', { n: 1 });
    on.owners[0]!.inject('injected', { n: 2, bytes: Buffer.from('b') });
    side.emit('legacy', 3);
    await until(() => got.length === 3);
    expect(got.filter(([name]) => name === 'injected')).toEqual([
      ['injected', { n: 1 }],
      ['injected', { n: 2, bytes: Buffer.from('b') }],
    ]);
  });

  it('is gone at the legacy and here as soon as it disconnects', async () => {
    on = await stage();
    const client = on.client();
    const arrived = on.nextSocket();
    await once(client, 'connect');
    const side = await arrived;
    const left = once(side, 'disconnect');
    client.io.engine.close();
    await left;
    expect(await on.owners[0]!.whenClosed()).toBe('browser');
    expect(on.owners[0]!.closings).toBe(1);
    expect(on.sessions.size).toBe(0);
  });
});

describe('a client that upgrades', () => {
  it('moves its owner to the WebSocket and is served there', async () => {
    on = await stage();
    const client = on.client({ transports: ['polling', 'websocket'] });
    await once(client, 'connect');
    await once(client.io.engine, 'upgrade');
    expect(await client.emitWithAck('served', 1)).toEqual({ served: 1 });
    expect(on.owners[0]!.kinds).toEqual(['polling', 'websocket']);
    client.disconnect();
    expect(await on.owners[0]!.whenClosed()).toBe('browser');
    expect(on.sessions.size).toBe(0);
  });
});
