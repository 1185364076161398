import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import type { LiveBody } from '../admin/api.js';
import type { AdminClient } from './client.js';
import { exitCodes, Failure } from './failure.js';
import { events, liveFigures, type Seen } from './stream.js';

async function* chunks(...parts: (string | Uint8Array)[]) {
  for (const part of parts) yield typeof part === 'string' ? Buffer.from(part) : part;
}
async function all<T>(from: AsyncIterable<T>): Promise<T[]> {
  const seen: T[] = [];
  for await (const item of from) seen.push(item);
  return seen;
}

describe('Server-Sent Events', () => {
  test('cut at every position, they are the same', async () => {
    const bytes = Buffer.from(
      ': a comment\nevent: live\ndata: {"a":\ndata: "é"}\n\nid: 7\r\ndata:two\r\n\r\ndata\rretry: 5\rdata: 3\r\r\n' +
        'event: nothing\n\ndata: cut off',
    );
    const expected = [
      { event: 'live', data: '{"a":\n"é"}' },
      { event: 'message', data: 'two' },
      { event: 'message', data: '\n3' },
    ];
    expect(await all(events(chunks(bytes)))).toEqual(expected);
    for (let i = 1; i < bytes.length; i++) {
      expect(await all(events(chunks(bytes.subarray(0, i), bytes.subarray(i)))), `cut at ${i}`).toEqual(expected);
    }
  });

  test('one without end is given up', async () => {
    async function* endless() {
      for (;;) yield Buffer.alloc(256 * 1024, 'x');
    }
    await expect(all(events(endless()))).rejects.toThrow('without end');
    async function* lines() {
      for (;;) yield Buffer.from(`data: ${'x'.repeat(100_000)}\n`);
    }
    await expect(all(events(lines()))).rejects.toThrow('without end');
  });
});

const body = (version: number): LiveBody =>
  ({
    at: '2026-11-30T16:22:14Z',
    routes: { version, problem: null, fileProblems: [] },
    events: [],
    calls: { new: 0, legacy: 0, peeled: 0, byState: {} },
    connections: 0,
    users: 0,
    guard: [],
    instances: [],
  }) as unknown as LiveBody;
const event = (value: unknown) => `event: live\ndata: ${JSON.stringify(value)}\n\n`;
const lost = new Failure(exitCodes.unreachable, 'unreachable', ['can’t reach it: gone; give another address']);

/** Streams one after the other; a `Failure` is one that did not come about. */
function client(...streams: (readonly string[] | Failure)[]): AdminClient {
  return {
    url: 'http://admin',
    get: () => Promise.reject(new Error('not asked here')),
    post: () => Promise.reject(new Error('not asked here')),
    async stream(_path, signal) {
      const next = streams.shift();
      if (next instanceof Failure) throw next;
      if (next) return chunks(...next) as AsyncIterable<Buffer>;
      // The last one stays open.
      return (async function* () {
        yield await sleep(60_000, Buffer.alloc(0), { signal });
      })();
    },
    close: async () => undefined,
  };
}

describe('live figures', () => {
  test('come back after a loss, and say meanwhile that they are lost', async () => {
    const stop = new AbortController();
    const seen: Seen[] = [];
    const source = client([': hello\n\n', event(body(1))], lost, [event(body(2))]);
    for await (const next of liveFigures(source, stop.signal)) {
      seen.push(next);
      if (next.kind === 'live' && next.body.routes.version === 2) stop.abort();
    }
    expect(seen.map((next) => (next.kind === 'live' ? next.body.routes.version : next.problem))).toEqual([
      1,
      'http://admin ended the stream',
      'can’t reach it: gone',
      2,
    ]);
  });

  test('a first try that fails is told at once', async () => {
    await expect(all(liveFigures(client(lost), new AbortController().signal))).rejects.toBe(lost);
  });

  test('a token that is taken away ends it', async () => {
    const refused = new Failure(exitCodes.unauthorized, 'unauthorized', ['not known']);
    const source = client([event(body(1))], refused);
    await expect(all(liveFigures(source, new AbortController().signal))).rejects.toBe(refused);
  });

  test.each(['null', '[1]', '{}', 'not JSON'])('%s is nothing that this version knows', async (data) => {
    const source = client([`event: live\ndata: ${data}\n\n`]);
    await expect(all(liveFigures(source, new AbortController().signal))).rejects.toMatchObject({
      code: exitCodes.unreachable,
    });
  });

  test('stops while it waits', async () => {
    const stop = new AbortController();
    const figures = liveFigures(client([event(body(1))], lost, lost, lost, lost, lost), stop.signal);
    for await (const next of figures) if (next.kind === 'lost') setImmediate(() => stop.abort());
    expect(stop.signal.aborted).toBe(true);
  });
});
