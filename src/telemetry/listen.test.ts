import { once } from 'node:events';
import http, { type ServerResponse } from 'node:http';
import net from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { type Listening, listenForOperators } from './listen.js';

let listening: Listening | undefined;
afterEach(() => listening?.close());

it('threat: connections that ask nothing keep probes out', async () => {
  listening = await listenForOperators(
    { host: '127.0.0.1', port: 0 },
    (_request, response) => response.end('alive'),
    (error) => expect.unreachable(error.message),
  );
  const port = Number(new URL(listening.url).port);
  const idle = await Promise.all(
    Array.from({ length: 300 }, async () => {
      const socket = net.connect(port, '127.0.0.1');
      socket.on('error', () => socket.destroy());
      await once(socket, 'connect');
      return socket;
    }),
  );
  const probe = () =>
    fetch(`${listening?.url}/healthz`).then(
      (answer) => answer.text(),
      () => 'kept out',
    );
  await expect.poll(probe, { timeout: 6_000, interval: 100 }).toBe('alive');
  for (const socket of idle) socket.destroy();
}, 10_000);

it('threat: one machine opens connections without end, and the probes of others find no place', async () => {
  listening = await listenForOperators(
    { host: '0.0.0.0', port: 0 },
    (_request, response) => response.end('alive'),
    (error) => expect.unreachable(error.message),
  );
  const port = Number(new URL(listening.url).port);
  const many = Array.from({ length: 600 }, () => {
    const socket = net.connect(port, '127.0.0.1');
    socket.on('error', () => socket.destroy());
    return socket;
  });
  await Promise.all(many.map((socket) => once(socket, 'connect').catch(() => undefined)));
  const status = await new Promise((resolve, reject) => {
    http
      .get({ host: '127.0.0.1', port, localAddress: '127.0.0.2' }, ({ statusCode }) => resolve(statusCode))
      .on('error', reject);
  });
  expect(status).toBe(200);
  for (const socket of many) socket.destroy();
});

/** Listens and tells which requests have come; `/wait` is answered by `answer`, `/stream` begins its answer and goes on. */
async function served() {
  const waiting: ServerResponse[] = [];
  let streams = 0;
  listening = await listenForOperators(
    { host: '127.0.0.1', port: 0 },
    (request, response) => {
      if (request.url === '/wait') waiting.push(response);
      else if (request.url === '/stream') response.write(`${++streams}`);
      else response.end('alive');
    },
    (error) => expect.unreachable(error.message),
  );
  const port = Number(new URL(listening.url).port);
  const opened: net.Socket[] = [];
  const open = async (path?: string): Promise<net.Socket> => {
    const socket = net.connect(port, '127.0.0.1');
    opened.push(socket);
    socket.on('error', () => socket.destroy());
    if (path === undefined) {
      await once(socket, 'connect');
      socket.resume();
    } else {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
      if (path === '/stream') await once(socket, 'data');
    }
    return socket;
  };
  const ask = () => fetch(`${listening?.url}/`).then((answer) => answer.text());
  return { waiting, open, ask, leave: () => void opened.map((socket) => socket.destroy()) };
}

it('threat: behind one address everybody is one; whoever comes last is let in, and who waits for an answer gets it', async () => {
  const { waiting, open, ask, leave } = await served();
  const asker = await open('/wait');
  await expect.poll(() => waiting.length, { timeout: 5_000 }).toBe(1);
  const told = once(asker, 'data');
  const idle: net.Socket[] = [];
  for (let i = 0; i < 400; i++) idle.push(await open());
  expect(await ask()).toBe('alive');
  waiting[0]?.end('at last');
  expect(String((await told)[0])).toContain('at last');
  // Those that asked nothing went, the oldest first.
  await expect.poll(() => idle.filter(({ destroyed }) => destroyed).length, { timeout: 5_000 }).toBeGreaterThan(250);
  expect(idle[0]?.destroyed).toBe(true);
  leave();
});

it('threat: streams take all the places of one address', async () => {
  const { waiting, open, ask, leave } = await served();
  const streams: net.Socket[] = [];
  for (let i = 0; i < 128; i++) streams.push(await open('/stream'));
  expect(await ask()).toBe('alive');
  await expect.poll(() => streams.findIndex(({ destroyed }) => destroyed), { timeout: 5_000 }).toBe(0);
  // Two that come at once don't drive each other out before they could ask.
  expect(await Promise.all([ask(), ask(), ask()])).toEqual(['alive', 'alive', 'alive']);
  // Even where all wait for their answers.
  for (let i = 1; i <= 200; i++) {
    await open('/wait');
    await expect.poll(() => waiting.length, { timeout: 5_000, interval: 1 }).toBe(i);
  }
  expect(await ask()).toBe('alive');
  leave();
});
