import { once } from 'node:events';
import { createServer, type Server, type ServerResponse } from 'node:http';
import net from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { manualClock } from '../base/clock.js';
import { liveStreams, mostStreams, type StreamsOptions } from './stream.js';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function served(options: Partial<StreamsOptions> = {}, allowed: () => boolean = () => true) {
  let made = 0;
  const streams = liveStreams({
    snapshot: async () => ({ made: ++made }),
    onError: (error) => expect.unreachable(String(error)),
    ...options,
  });
  const responses: ServerResponse[] = [];
  const server: Server = createServer((_request, response) => {
    responses.push(response);
    if (!streams.open(response, allowed)) response.writeHead(429).end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    streams.close();
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as net.AddressInfo;
  return { streams, url: `http://127.0.0.1:${port}`, port, responses, made: () => made };
}

async function* events(url: string): AsyncGenerator<{ made: number }> {
  const response = await fetch(url);
  let text = '';
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = /^event: live\ndata: (.*)$/.exec(text.slice(0, end))?.[1];
      text = text.slice(end + 2);
      if (data) yield JSON.parse(data) as { made: number };
    }
  }
}
const next = async (stream: AsyncGenerator<{ made: number }>) => (await stream.next()).value?.made;

describe('a stream', () => {
  it('has a snapshot at once and then each second, made once for all', async () => {
    const { url, made } = await served();
    const first = events(url);
    expect(await next(first)).toBe(1);
    const second = events(url);
    // The second reader's own arrival makes one more, which both get.
    expect(await next(second)).toBe(2);
    expect([await next(first), await next(first), await next(second)]).toEqual([2, 3, 3]);
    expect(made()).toBe(3);
    await first.return(undefined);
    await second.return(undefined);
  });

  it('makes no snapshot while nobody listens', async () => {
    const { streams, url, made } = await served();
    const reader = events(url);
    await next(reader);
    await reader.return(undefined);
    await expect.poll(() => streams.size, { timeout: 10_000 }).toBe(0);
    const before = made();
    streams.hurry();
    await new Promise((done) => setImmediate(done));
    expect(made()).toBe(before);
  });

  it('does not wait for the second where something changed', async () => {
    const { streams, url } = await served();
    const reader = events(url);
    await next(reader);
    const started = performance.now();
    streams.hurry();
    await next(reader);
    expect(performance.now() - started).toBeLessThan(900);
    await reader.return(undefined);
  });

  it('outlives a snapshot that fails', async () => {
    const errors: unknown[] = [];
    let tries = 0;
    const snapshot = async () => {
      if (tries++ === 0) throw new Error('broken');
      return { made: tries };
    };
    const { url } = await served({ snapshot, onError: (error) => errors.push(error) });
    const reader = events(url);
    expect(await next(reader)).toBe(2);
    expect(errors).toHaveLength(1);
    await reader.return(undefined);
  });

  it('ends where its reader may no longer read', async () => {
    let allowed = true;
    const { streams, url } = await served({}, () => allowed);
    const reader = events(url);
    await next(reader);
    allowed = false;
    streams.hurry();
    await expect(reader.next()).rejects.toThrow();
    expect(streams.size).toBe(0);
  });

  it(`is refused over ${mostStreams}`, async () => {
    const { streams, url } = await served();
    const leave = new AbortController();
    await Promise.all(Array.from({ length: mostStreams }, () => fetch(url, { signal: leave.signal })));
    expect((await fetch(url)).status).toBe(429);
    leave.abort();
    await expect.poll(() => streams.size, { timeout: 10_000 }).toBe(0);
  });

  it('threat: a reader that takes nothing fills the memory', async () => {
    const large = 'x'.repeat(600 * 1024);
    const clock = manualClock();
    const { streams, port, responses } = await served({ snapshot: async () => ({ large }), clock });
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => socket.destroy());
    socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
    socket.pause();
    await expect.poll(() => streams.size, { timeout: 10_000 }).toBe(1);
    // What the kernel holds for it is a few megabytes; from then on it waits here.
    let most = 0;
    for (let i = 0; i < 500; i++) {
      streams.hurry();
      await new Promise((done) => setImmediate(done));
      most = Math.max(most, responses[0]?.writableLength ?? 0);
    }
    expect(most).toBeGreaterThan(0);
    expect(most).toBeLessThan(2 * large.length);
    expect(streams.size).toBe(1);
    clock.advance(16_000);
    await expect.poll(() => streams.size, { timeout: 10_000 }).toBe(0);
    socket.destroy();
  });

  it('a reader that is slow misses snapshots, of whatever size, and is not dropped', async () => {
    const large = 'x'.repeat(2 * 1024 * 1024);
    let made = 0;
    const { streams, port, responses } = await served({ snapshot: async () => ({ made: ++made, large }) });
    const socket = net.connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('latin1');
    socket.on('data', (some: string) => (text += some.replaceAll('x', '')));
    socket.write('GET / HTTP/1.1\r\nHost: \r\n\r\n');
    await expect.poll(() => /"made":1\b/.test(text), { timeout: 10_000 }).toBe(true);
    socket.pause();
    const waits = () => (responses[0]?.writableLength ?? 0) > 0;
    while (!waits()) {
      streams.hurry();
      await new Promise((done) => setImmediate(done));
    }
    const missed = made;
    for (let i = 0; i < 50; i++) {
      streams.hurry();
      await new Promise((done) => setImmediate(done));
    }
    expect(streams.size).toBe(1);
    socket.resume();
    await expect
      .poll(
        () =>
          Number(
            text
              .match(/"made":\d+/g)
              ?.at(-1)
              ?.slice(7),
          ),
        { timeout: 5_000 },
      )
      .toBeGreaterThan(missed);
    socket.destroy();
  });
});
