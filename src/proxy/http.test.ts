import { once } from 'node:events';
import http from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { type Bed, dial, httpLegacy, proxyBed, raw, rawLegacy, untilEnd } from '../../test/bed/proxy-bed.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function legacyOf(handler: http.RequestListener): Promise<Bed> {
  const legacy = await httpLegacy(handler);
  const bed = await proxyBed([legacy.url]);
  cleanups.push(
    () => legacy.server.close(),
    () => legacy.server.closeAllConnections(),
    () => bed.close(),
  );
  return bed;
}

/** By http-proxy, and on the Socket.IO path by ourselves. */
const ways = ['/', '/socket.io/'] as const;

describe.each(ways)('what reaches the legacy, %s', (way) => {
  const at = (request: string) => request.replace(/^(\w+) \//, `$1 ${way}`);

  test('order, case and duplicates of headers, without hop-by-hop ones and those Connection names', async () => {
    const seen: string[][] = [];
    const bed = await legacyOf((request, response) => {
      seen.push([request.method ?? '', request.url ?? '', ...request.rawHeaders]);
      response.end();
    });
    await raw(
      bed.port,
      at(
        'GET /a%20b?x=1&x=2 HTTP/1.1\r\nHOST: shop.test\r\nx-B: 1\r\nX-b: 2\r\nCookie: a=\xe4\r\nTE: trailers\r\n' +
          'X-Hop: 1\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\nOrigin: https://shop.test\r\n' +
          'Connection: close, X-Hop, Cookie\r\nKeep-Alive: 3\r\n\r\n',
      ),
    );
    expect(seen[0]).toEqual([
      ...[
        'GET',
        `${way}a%20b?x=1&x=2`,
        'HOST',
        'shop.test',
        'x-B',
        '1',
        way === '/' ? 'x-B' : 'X-b',
        '2',
        'Cookie',
        'a=\xe4',
      ],
      ...['X-Forwarded-For', '10.1.1.1, 127.0.0.1', 'X-Forwarded-Proto', 'https', 'Origin', 'https://shop.test'],
      ...['X-Forwarded-Host', 'shop.test', 'Connection', 'keep-alive'],
    ]);
  });

  test('an untrusted peer does not say which scheme and host it used', async () => {
    const seen: http.IncomingHttpHeaders[] = [];
    const legacy = await httpLegacy((request, response) => {
      seen.push(request.headers);
      response.end();
    });
    const bed = await proxyBed([legacy.url], { trust: () => false });
    cleanups.push(
      () => legacy.server.close(),
      () => bed.close(),
    );
    await raw(
      bed.port,
      at(
        'GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\nX-Forwarded-For: 1.2.3.4\r\nConnection: close\r\n\r\n',
      ),
    );
    expect(seen[0]).toMatchObject({
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'a',
      'x-forwarded-for': '1.2.3.4, 127.0.0.1',
    });
  });

  test('a body as it is sent, chunked or counted, with trailers', async () => {
    const seen: { body: string; trailers: NodeJS.Dict<string>; length: string | undefined }[] = [];
    const bed = await legacyOf(async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      seen.push({ body, trailers: request.trailers, length: request.headers['content-length'] });
      response.end('ok');
    });
    await raw(bed.port, at('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello'));
    await raw(
      bed.port,
      at(
        'DELETE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n',
      ),
    );
    await raw(bed.port, at('POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'));
    expect(seen).toEqual([
      { body: 'hello', trailers: {}, length: '5' },
      { body: 'hello', trailers: { 'x-sum': '7' }, length: undefined },
      { body: '', trailers: {}, length: '0' },
    ]);
  });

  test('a browser that gives up, while it waits or while it sends', async () => {
    for (const request of [
      'GET / HTTP/1.1\r\nHost: a\r\n\r\n',
      'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc',
    ]) {
      let arrived: (value: http.IncomingMessage) => void = () => undefined;
      const asked = new Promise<http.IncomingMessage>((resolve) => {
        arrived = resolve;
      });
      const bed = await legacyOf((incoming) => arrived(incoming));
      const browser = await dial(bed.port);
      browser.write(at(request));
      const incoming = await asked;
      const closed = new Promise((resolve) => incoming.socket.once('close', resolve));
      browser.resetAndDestroy();
      await closed;
    }
  });
});

describe.each(ways)('what reaches the browser, %s', (way) => {
  const at = (request: string) => request.replace(/^(\w+) \//, `$1 ${way}`);

  test('status, reason, headers with duplicates, and the body; nothing added but what the connection needs', async () => {
    const bed = await legacyOf((_request, response) => {
      response.sendDate = false;
      response.writeHead(299, 'Odd \xe4', [
        'x-A',
        '1',
        'Set-Cookie',
        'a=1',
        'Set-Cookie',
        'b=2',
        'Content-Length',
        '3',
      ]);
      response.end(Buffer.from('abc'));
    });
    expect(await raw(bed.port, at('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'))).toBe(
      'HTTP/1.1 299 Odd \xe4\r\nx-A: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc',
    );
  });

  test('HEAD and 304 without a body, 204 without a length', async () => {
    const bed = await legacyOf((request, response) => {
      if (request.url === `${way}304`) response.writeHead(304, { ETag: '"x"' }).end();
      else if (request.url === `${way}204`) response.writeHead(204).end();
      else response.writeHead(200, { 'Content-Length': 1234 }).end();
    });
    const ask = (line: string) => raw(bed.port, at(`${line} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`));
    expect(await ask('HEAD /')).toMatch(/^HTTP\/1.1 200 OK\r\nContent-Length: 1234\r\n.*\r\n\r\n$/s);
    expect(await ask('GET /304')).toMatch(/^HTTP\/1.1 304 Not Modified\r\nETag: "x"\r\n.*\r\n\r\n$/s);
    expect(await ask('GET /204')).not.toMatch(/content-length|transfer-encoding/i);
  });

  test('each part of a stream as soon as it comes, and trailers', async () => {
    let next: () => void = () => undefined;
    const bed = await legacyOf((_request, response) => {
      response.writeHead(200, { Trailer: 'X-Sum' });
      response.flushHeaders();
      next = () => {
        response.write('one');
        next = () => {
          response.addTrailers({ 'X-Sum': '7' });
          response.end('two');
        };
      };
    });
    const request = http.get(`${bed.url}${way}`);
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    const parts: string[] = [];
    answer.on('data', (part: Buffer) => parts.push(part.toString()));
    next();
    await expect.poll(() => parts).toEqual(['one']);
    next();
    await once(answer, 'end');
    expect(parts).toEqual(['one', 'two']);
    expect(answer.trailers).toEqual({ 'x-sum': '7' });
  });

  test('100 Continue comes from the legacy, and 103 passes', async () => {
    const legacy = http.createServer((_request, response) => response.end('late'));
    legacy.on('checkContinue', (request: http.IncomingMessage, response: http.ServerResponse) => {
      if (request.url === `${way}no`) {
        response.writeHead(417).end();
        return;
      }
      response.writeEarlyHints({ link: '</a.css>; rel=preload' });
      response.writeContinue();
      request.resume();
      request.on('end', () => response.end('done'));
    });
    legacy.listen(0, '127.0.0.1');
    await once(legacy, 'listening');
    const bed = await proxyBed([`http://127.0.0.1:${(legacy.address() as { port: number }).port}`]);
    cleanups.push(
      () => legacy.close(),
      () => bed.close(),
    );
    const browser = await dial(bed.port);
    const answer = untilEnd(browser);
    browser.write(
      at('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n'),
    );
    await expect.poll(() => browser.bytesRead).toBeGreaterThan(60);
    browser.write('hi');
    expect(await answer).toMatch(
      /^HTTP\/1.1 103 Early Hints\r\nLink: <\/a.css>; rel=preload\r\n\r\nHTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK.*done/s,
    );
    const no = await raw(
      bed.port,
      at('POST /no HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n'),
    );
    expect(no).toMatch(/^HTTP\/1.1 417 /);
  });

  test('a legacy that dies within its answer breaks the answer off', async () => {
    const bed = await legacyOf((_request, response) => {
      response.write('half', () => response.socket?.resetAndDestroy());
    });
    const request = http.get(`${bed.url}${way}`);
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    answer.resume();
    const [error] = (await once(answer, 'error')) as [NodeJS.ErrnoException];
    expect(error.code).toBe('ECONNRESET');
  });

  test('413 before the body is whole reaches a browser that still sends, and the connection lives on', async () => {
    const bed = await legacyOf((request, response) => {
      if (request.method === 'GET') response.end('next');
      else response.writeHead(413, { 'Content-Length': 8 }).end('too much');
    });
    const browser = await dial(bed.port);
    const answer = untilEnd(browser);
    browser.write(at(`POST / HTTP/1.1\r\nHost: a\r\nContent-Length: ${20 * 65_536}\r\n\r\n`));
    for (let i = 0; i < 20; i++) browser.write(Buffer.alloc(65_536));
    browser.write(at('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'));
    expect(await answer).toMatch(/^HTTP\/1.1 413 .*too muchHTTP\/1.1 200 .*next/s);
  });

  test('502 where the legacy is away or hangs up, 504 where it is late, each with a short reason', async () => {
    const away = await httpLegacy(() => undefined);
    away.server.close();
    const rude = await rawLegacy((socket) => socket.once('data', () => socket.resetAndDestroy()));
    const late = await rawLegacy((socket) => socket.resume());
    cleanups.push(rude.close, late.close);
    for (const [url, status, error] of [
      [away.url, 502, 'legacy is not reachable'],
      [rude.url, 502, 'legacy is not reachable'],
      [late.url, 504, 'legacy did not answer in time'],
    ] as const) {
      // On the Socket.IO path the heartbeat says how late an answer may be.
      if (status === 504 && way !== '/') continue;
      const bed = await proxyBed([url], { legacyTimeoutMs: 100 });
      cleanups.push(() => bed.close());
      const answer = await fetch(`${bed.url}${way}x`);
      expect([answer.status, await answer.json()]).toEqual([status, { error }]);
    }
  });
});

describe('smuggling: a request that two parsers read in two ways is refused and never forwarded', () => {
  const threats: Record<string, string> = {
    'both lengths': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'two lengths': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
    'the same length twice': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na',
    'a list of lengths': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\na',
    'a signed length': 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\na',
    'a bad chunk size': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc\r\n0\r\n\r\n',
    'an unknown coding': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n',
    'a coding before chunked': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'chunked twice':
      'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'a space before the colon': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    'a folded header': 'GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n Content-Length: 5\r\n\r\n',
    'a folded coding': 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n',
    'a bare LF': 'GET / HTTP/1.1\nHost: a\n\n',
    'a bare CR': 'GET / HTTP/1.1\r\nHost: a\r\nX-A: 1\rX-B: 2\r\n\r\n',
    'no host': 'GET / HTTP/1.1\r\n\r\n',
    'a body with an upgrade':
      'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 3\r\n\r\nabc',
  };
  test.each(Object.entries(threats))('%s', async (_name, request) => {
    let reached = 0;
    const bed = await legacyOf((_request, response) => {
      reached++;
      response.end('reached');
    });
    const answer = await raw(bed.port, request);
    expect(answer).toMatch(/^HTTP\/1.1 400 /);
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
    expect(reached).toBe(0);
  });

  test('a head over 16 KiB is answered with 431', async () => {
    const bed = await legacyOf((_request, response) => response.end());
    const answer = await raw(bed.port, `GET / HTTP/1.1\r\nHost: a\r\nX-A: ${'x'.repeat(20_000)}\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1.1 431 /);
  });
});
