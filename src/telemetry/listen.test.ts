import { once } from 'node:events';
import http from 'node:http';
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
