import { afterEach, describe, expect, it } from 'vitest';
import type { LiveBody } from '../api.js';
import { type Client, Refused } from './client.js';
import { type Feed, followLive } from './feed.js';

const body = (version: number) => ({ at: new Date(0).toISOString(), routes: { version, problem: null } }) as LiveBody;
const message = (version: number) =>
  new TextEncoder().encode(`event: live\ndata: ${JSON.stringify(body(version))}\n\n`);
const quick = { silenceMs: 10_000, streamMs: 10_000, pollMs: 10, retryStreamMs: 40 };

/** An API whose answers a test decides about; counts what it was asked. */
class Api implements Client {
  streams = 0;
  gets = 0;
  onStream: () => Promise<ReadableStream<Uint8Array>> = () => Promise.reject(new TypeError('unreachable'));
  onGet: () => Promise<LiveBody> = () => Promise.reject(new TypeError('unreachable'));

  stream(_path: string, signal: AbortSignal) {
    this.streams += 1;
    return this.onStream().then(
      (stream) => stream.pipeThrough(new TransformStream(), { signal }) as ReadableStream<Uint8Array>,
    );
  }
  get<T>(): Promise<T> {
    this.gets += 1;
    return this.onGet() as Promise<T>;
  }
  post(): Promise<never> {
    throw new Error('nothing is changed here');
  }
}

/** A stream that a test writes to. */
function pushed() {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  const stream = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given;
    },
  });
  return { stream, push: (version: number) => controller?.enqueue(message(version)), end: () => controller?.close() };
}

let stop = () => undefined as unknown;
afterEach(() => stop());

/** What was told, and a way to wait for what comes. */
function follow(api: Api, options = quick) {
  const told: Feed[] = [];
  const waiting = new Set<() => void>();
  stop = followLive(
    api,
    (feed) => {
      told.push(feed);
      for (const look of waiting) look();
    },
    options,
  );
  const next = (what: (feed: Feed) => boolean) => {
    const from = told.length;
    return new Promise<Feed>((resolve) => {
      const look = () => {
        const found = told.slice(from).find(what);
        if (!found) return;
        waiting.delete(look);
        resolve(found);
      };
      waiting.add(look);
    });
  };
  return { told, next };
}

describe('the live figures', () => {
  it('come by the stream, without a single request', async () => {
    const api = new Api();
    const { stream, push } = pushed();
    api.onStream = () => Promise.resolve(stream);
    const { next } = follow(api);
    const first = next(({ live }) => live?.routes.version === 1);
    push(1);
    expect((await first).link).toBe('live');
    const second = next(({ live }) => live?.routes.version === 2);
    push(2);
    expect((await second).link).toBe('live');
    expect(api.gets).toBe(0);
  });

  it('come by single requests where no stream can be had, and by the stream once it can', async () => {
    const api = new Api();
    api.onGet = () => Promise.resolve(body(api.gets));
    const { told, next } = follow(api);
    await next(({ live }) => live?.routes.version === 3);
    expect(told.every(({ link }) => link === 'live')).toBe(true);
    const { stream, push } = pushed();
    api.onStream = () => Promise.resolve(stream);
    push(100);
    await next(({ live }) => live?.routes.version === 100);
    const { gets } = api;
    const later = next(({ live }) => live?.routes.version === 101);
    push(101);
    await later;
    expect(api.gets).toBe(gets);
  });

  it('stay as they were while the connection is lost, and go on when it is back', async () => {
    const api = new Api();
    const before = pushed();
    api.onStream = () => Promise.resolve(before.stream);
    const { next } = follow(api);
    const live = next(({ link }) => link === 'live');
    before.push(7);
    await live;
    api.onStream = () => Promise.reject(new TypeError('unreachable'));
    const lost = next(({ link }) => link === 'lost');
    before.end();
    expect((await lost).live?.routes.version).toBe(7);
    const after = pushed();
    api.onStream = () => Promise.resolve(after.stream);
    const back = next(({ link }) => link === 'live');
    after.push(8);
    expect((await back).live?.routes.version).toBe(8);
  });

  it.each([429, 500, 503])(
    'are refused, not lost, where the API answers %i: it says why, and changes can be made',
    async (status) => {
      const api = new Api();
      api.onGet = () =>
        Promise.reject(new Refused(status, { error: 'rate-limited', problems: ['too many requests; wait a second'] }));
      const { next } = follow(api);
      const refused = await next(({ link }) => link !== 'live');
      expect(refused).toEqual({ link: 'refused', live: null, problem: 'too many requests; wait a second' });
      // What is refused too often is not asked for twice as often.
      const { streams, gets } = api;
      await next(() => api.gets > gets + 1);
      expect(api.streams - streams).toBeLessThan(2);
      api.onGet = () => Promise.resolve(body(3));
      expect(await next(({ link }) => link === 'live')).toMatchObject({ problem: null });
    },
  );

  it('are lost where somebody between us and the API answers that it is not there', async () => {
    const api = new Api();
    api.onGet = () => Promise.reject(new Refused(502, {}));
    const { next } = follow(api);
    expect(await next(({ link }) => link !== 'live')).toEqual({ link: 'lost', live: null, problem: null });
  });

  it('count as lost when the stream falls silent and nothing answers', async () => {
    const api = new Api();
    const { stream, push } = pushed();
    api.onStream = () => (api.streams === 1 ? Promise.resolve(stream) : Promise.reject(new TypeError('unreachable')));
    const { next } = follow(api, { ...quick, streamMs: 50 });
    const lost = next(({ link, live }) => link === 'lost' && live !== null);
    push(1);
    expect((await lost).live?.routes.version).toBe(1);
  });

  it.each([
    ['stream', false],
    ['single requests', true],
  ])('are silent where %s that came stall, long before it is known that nothing answers', async (_, polled) => {
    const api = new Api();
    const { stream, push } = pushed();
    if (!polled) api.onStream = () => (api.streams === 1 ? Promise.resolve(stream) : new Promise(() => undefined));
    let answers = polled;
    let wake = () => undefined as unknown;
    api.onGet = () => {
      if (answers) return Promise.resolve(body(1));
      return new Promise((resolve) => {
        wake = () => resolve(body(2));
      });
    };
    const { next } = follow(api, { ...quick, silenceMs: 60, streamMs: 30 });
    const live = next(({ link }) => link === 'live');
    push(1);
    await live;
    const silent = next(({ link }) => link !== 'live');
    answers = false;
    expect(await silent).toMatchObject({ link: 'silent', live: { routes: { version: 1 } } });
    const back = next(({ link }) => link === 'live');
    wake();
    expect((await back).live?.routes.version).toBe(2);
  });

  it('are not called silent where a stream is opened and never comes, as behind a proxy that buffers', async () => {
    const api = new Api();
    api.onStream = () => Promise.resolve(new ReadableStream());
    api.onGet = () => Promise.resolve(body(api.gets));
    const { told, next } = follow(api, { silenceMs: 200, streamMs: 100, pollMs: 10, retryStreamMs: 20 });
    await next(() => api.streams > 3);
    expect(told.map(({ link }) => link)).not.toContain('silent');
  });

  it('are not asked for any more once the token is refused', async () => {
    const api = new Api();
    let refused = 0;
    const no = () => {
      refused += 1;
      return Promise.reject(new Refused(401, { error: 'unauthorized', problems: ['no such token'] }));
    };
    api.onStream = no;
    api.onGet = no;
    const { told } = follow(api);
    // The next question would be asked at once.
    await new Promise(setImmediate);
    expect({ refused, told }).toEqual({ refused: 1, told: [] });
  });
});
