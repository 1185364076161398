import { once } from 'node:events';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { systemClock } from '../base/clock.js';
import { PollingPosts, type PostSession } from './polling-post.js';
import type { Upstream } from './upstreams.js';

const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

async function server(take: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const listening = http.createServer(take).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  closing.push(() => {
    listening.close();
    listening.closeAllConnections();
  });
  return `http://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

/** A browser's side, and a legacy that keeps its answers until it is told to give them. */
async function stage() {
  const bodies: string[] = [];
  const answers: (() => void)[] = [];
  let told = (): void => undefined;
  const legacy = await server(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    bodies.push(body);
    answers.push(() => response.end('ok'));
    told();
  });
  const session: PostSession = {
    upstream: { request: (options: http.RequestOptions) => http.request(legacy, options) } as unknown as Upstream,
    clock: systemClock,
    maxPayload: 1_000,
    swallows: false,
    headers: () => ['Host', 'legacy'],
    pass: () => expect.unreachable(),
    filter: (body) => ({ rest: body, serve: [] }),
    incomplete: () => undefined,
    broken: () => expect.unreachable(),
    posted: () => undefined,
    fault: (error) => expect.unreachable(String(error)),
  };
  const posts = new PollingPosts(session, { path: '/', headers: [] }, []);
  let taken = 0;
  const proxy = await server((request, response) => {
    posts.take(request, response);
    request.on('end', () => {
      taken += 1;
      told();
    });
  });
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await new Promise<void>((resolve) => (told = resolve));
  };
  return {
    posts,
    bodies,
    /** Sends a POST; resolves once its body is in. */
    async post(body: string): Promise<{ readonly answered: Promise<string> }> {
      const before = taken;
      const answered = fetch(proxy, { method: 'POST', body, headers: { 'content-type': 'text/plain' } }).then((r) =>
        r.text(),
      );
      await until(() => taken > before);
      return { answered };
    },
    /** Waits until the legacy has so many bodies. */
    reached: (count: number) => until(() => bodies.length >= count),
    answer: () => answers.shift()?.(),
  };
}

describe('the order of a polling session’s POSTs', () => {
  it('gives what was taken and is the legacy’s after all to it before what the browser posted later', async () => {
    const { posts, bodies, post, reached, answer } = await stage();
    const first = await post('42["first"]');
    await reached(1);
    const second = await post('42["second"]');
    posts.forward({ text: '42["call-offer"]', attachments: [] });
    posts.forward({ text: '42["ice-candidate"]', attachments: [] });
    for (const count of [2, 3, 4]) {
      answer();
      await reached(count);
    }
    answer();
    expect(await first.answered).toBe('ok');
    expect(await second.answered).toBe('ok');
    expect(bodies).toEqual(['42["first"]', '42["call-offer"]', '42["ice-candidate"]', '42["second"]']);
    await posts.idle;
    expect(posts.idle).toBeUndefined();
  });

  it('is idle only once what came meanwhile is through as well', async () => {
    const { posts, bodies, post, reached, answer } = await stage();
    const { answered } = await post('42["first"]');
    await reached(1);
    const idle = posts.idle?.then(() => [...bodies]);
    posts.forward({ text: '42["call-end"]', attachments: [] });
    answer();
    await reached(2);
    answer();
    await answered;
    expect(await idle).toEqual(['42["first"]', '42["call-end"]']);
  });
});
