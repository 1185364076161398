// bare-binary, forged-connect-error, binary-ack, namespace-ack: the same bytes on both ways, the same outcome.
import { once } from 'node:events';
import { io as connect } from 'socket.io-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import WebSocket from 'ws';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
  for (const ns of ['/', '/chat']) {
    at.io.of(ns).on('connection', (socket) => {
      socket.on('echo', (...args) => args.pop()(...args));
      socket.on('ask', async (answer) => answer(await socket.emitWithAck('bytes', Buffer.from([1, 2, 3]))));
    });
  }
});
afterAll(() => at.close());

test.each([
  ['bare-binary', [Buffer.from([1])]],
  ['forged-connect-error: 44', ['44{"message":"no"}']],
  ['forged-connect-error: 442', ['442["x"]']],
  ['no such packet', ['4x']],
  ['text between header and attachment', ['451-["x",{"_placeholder":true,"num":0}]', '450-["x"]']],
  ['eleven attachments', ['4511-["serve-x"]']],
  ['an empty message', ['']],
  ['an unknown type', ['9']],
] as const)('%s: as direct, and the process lives', async (_name, frames) => {
  const outcome = async (port: number) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/socket.io/?EIO=4&transport=websocket`);
    socket.on('error', () => socket.terminate());
    const got: string[] = [];
    socket.on('message', (data, isBinary) => got.push(isBinary ? 'binary' : data.toString().slice(0, 2)));
    const closed = new Promise((resolve) => socket.once('close', (code) => resolve(code)));
    await once(socket, 'open');
    socket.send('40');
    await expect.poll(() => got.length).toBe(2);
    for (const frame of frames) socket.send(frame);
    socket.send('427["echo","still here"]');
    const end = await Promise.race([
      closed,
      expect
        .poll(() => got.length)
        .toBe(3)
        .then(
          () => 'lives',
          () => 'mute',
        ),
    ]);
    socket.terminate();
    return [end, got];
  };
  expect(await outcome(at.bed.port)).toEqual(await outcome(at.legacyPort));
});

test.each(['polling', 'websocket'])(
  'binary-ack: buffers in acknowledgements, both ways, over %s',
  async (transport) => {
    const client = connect(at.bed.url, { transports: [transport], reconnection: false, forceNew: true });
    client.on('bytes', (bytes: Buffer, answer: (value: unknown) => void) =>
      answer(Buffer.concat([bytes, Buffer.from([4])])),
    );
    expect(await client.emitWithAck('ask')).toEqual(Buffer.from([1, 2, 3, 4]));
    expect(await client.emitWithAck('echo', Buffer.from([9]))).toEqual(Buffer.from([9]));
    client.close();
  },
);

test.each(['polling', 'websocket'])(
  'namespace-ack: of the legacy and of a served event, over %s',
  async (transport) => {
    const client = connect(`${at.bed.url}/chat`, { transports: [transport], reconnection: false, forceNew: true });
    expect(await client.emitWithAck('echo', 'x')).toBe('x');
    expect(await client.emitWithAck('serve-x', {})).toBe('served');
    expect(await client.emitWithAck('echo', 'y')).toBe('y');
    client.close();
  },
);
