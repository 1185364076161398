// Threat: a browser that upgrades and closes in one breath leaves a session behind that nobody ends.
import { once } from 'node:events';
import net from 'node:net';
import { expect, it } from 'vitest';
import { frame, Opcode } from '../../src/protocol/frame.js';
import { startStack, until } from '../harness.js';

it('a close frame in the same piece as the `5` ends the session', async () => {
  const stack = await startStack();
  const path = '/socket.io/?EIO=4&transport=';
  const handshake = await (await fetch(`${stack.proxy.url}${path}polling`)).text();
  const { sid } = JSON.parse(handshake.slice(1)) as { sid: string };
  const socket = net.connect(Number(new URL(stack.proxy.url).port), '127.0.0.1');
  await once(socket, 'connect');
  let got = '';
  socket.on('data', (chunk: Buffer) => {
    got += chunk.toString('latin1');
  });
  socket.write(
    `GET ${path}websocket&sid=${sid} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );
  await until(() => got.includes('101 '), 'the upgrade is made');
  socket.write(frame(Opcode.TEXT, '2probe', true));
  await until(() => got.includes('3probe'), 'the probe is answered');
  socket.write(Buffer.concat([frame(Opcode.TEXT, '5', true), frame(Opcode.CLOSE, Buffer.from([3, 232]), true)]));
  await until(async () => (await stack.proxy.metric('sigfig_connections')) === 0, 'no connection is left');
  expect(await stack.proxy.metric('sigfig_held', { what: 'connections' })).toBe(0);
  socket.destroy();
  await stack.close();
});
