import { io as connect } from 'socket.io-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
  at.io.on('connection', (socket) => socket.on('echo', (value, answer) => answer(value)));
});
afterAll(() => at.close());

test('plain-get-as-websocket: refused, and the session lives on', async () => {
  const client = connect(at.bed.url, { transports: ['polling'], reconnection: false });
  expect(await client.emitWithAck('echo', 1)).toBe(1);
  const answer = await fetch(`${at.bed.url}/socket.io/?EIO=4&transport=websocket&sid=${client.io.engine.id}`);
  expect([answer.status, await answer.json()]).toEqual([400, { code: 3, message: 'Bad request' }]);
  expect(await client.emitWithAck('echo', 2)).toBe(2);
  client.close();
});
