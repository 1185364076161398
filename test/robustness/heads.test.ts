// Threat: one request or one answer whose head Node's parser takes and Node's writer refuses. Thrown in an event handler,
// that would end the process and every call with it.
import { text } from 'node:stream/consumers';
import { afterEach, describe, expect, test } from 'vitest';
import { httpLegacy, proxyBed, raw, rawLegacy } from '../bed/proxy-bed.js';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Port of a proxy before a legacy that gives every request this answer and hangs up. */
async function proxyOf(answer: string): Promise<number> {
  const legacy = await rawLegacy((socket) => socket.once('data', () => socket.end(Buffer.from(answer, 'latin1'))));
  cleanups.push(legacy.close);
  const bed = await proxyBed([legacy.url]);
  cleanups.push(() => bed.close());
  return bed.port;
}

const close = 'Host: a\r\nConnection: close\r\n';
const upgrade = 'Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n';
const requests = {
  plain: `GET /x HTTP/1.1\r\n${close}`,
  'plain, no body': `HEAD /x HTTP/1.1\r\n${close}`,
  'plain, HTTP/1.0': 'GET /x HTTP/1.0\r\nHost: a\r\n',
  engine: `GET /socket.io/?EIO=3&transport=polling HTTP/1.1\r\n${close}`,
  'polling handshake': `GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\n${close}`,
  websocket: `GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\n${upgrade}`,
  'another upgrade': `GET /other HTTP/1.1\r\n${upgrade}`,
};

describe.each(Object.entries(requests))('%s', (name, head) => {
  test('a Trailer header without a chunked body', async () => {
    const port = await proxyOf('HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
    expect(await raw(port, `${head}Trailer: X-Sum\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  });

  const chunks = name === 'plain, no body' ? '' : '2\r\nok\r\n0\r\nX: 1\r\n\r\n';
  test.each([
    ['trailers after a known length', '200 OK\r\nContent-Length: 0\r\nTrailer: X-Sum\r\n\r\n', 200],
    ['trailers announced', `200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n${chunks}`, 200],
    ['trailers and no body', '204 No Content\r\nTrailer: X-Sum\r\n\r\n', 204],
    ['a control character in the reason', '200 O\x01K\r\nContent-Length: 2\r\n\r\nok', 502],
    ['a status below 100', '099 X\r\nContent-Length: 2\r\n\r\nok', 502],
  ])('an answer with %s', async (_what, answer, status) => {
    const port = await proxyOf(`HTTP/1.1 ${answer}`);
    expect(await raw(port, `${head}\r\n`)).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  });

  if (head.includes('Upgrade')) return;
  test(`a 101 that nobody asked for ends ${name}`, async () => {
    const port = await proxyOf('HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\n');
    expect(await raw(port, `${head}\r\n`)).toMatch(/^HTTP\/1.1 502 /);
  });
});

test('a polling session that sent a chunked body with a Trailer header can still be ended by us', async () => {
  const open = '0{"sid":"a","upgrades":[],"pingInterval":25000,"pingTimeout":20000,"maxPayload":10000}';
  const posted: string[] = [];
  const legacy = await httpLegacy(async (request, response) => {
    const body = await text(request);
    if (request.method === 'POST') posted.push(body);
    response.end(request.method === 'POST' ? 'ok' : open);
  });
  const bed = await proxyBed([legacy.url]);
  cleanups.push(
    () => legacy.server.close(),
    () => bed.close(),
  );
  await raw(bed.port, `GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\n${close}\r\n`);
  const post =
    'POST /socket.io/?EIO=4&transport=polling&sid=a HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n';
  expect(await raw(bed.port, `${post}${close}\r\n2\r\n40\r\n0\r\n\r\n`)).toMatch(/^HTTP\/1.1 200 /);
  for (const session of bed.polling.live()) session.end(1001, 'going away');
  await expect.poll(() => posted).toEqual(['40', '1']);
});
