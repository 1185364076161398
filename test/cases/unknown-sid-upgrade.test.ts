import { afterAll, beforeAll, expect, test } from 'vitest';
import { bothWays, connections, type Stage, stage, upgradeRequest } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
});
afterAll(() => at.close());

test.each([
  ['an unknown sid', '/socket.io/?EIO=4&transport=websocket&sid=nope'],
  ['no such transport', '/socket.io/?EIO=4&transport=carrier-pigeon'],
  ['an old revision', '/socket.io/?EIO=3&transport=websocket'],
])('unknown-sid-upgrade: %s is refused as direct and both sockets are closed', async (_name, path) => {
  const { direct, proxied } = await bothWays(at, upgradeRequest(path));
  expect(proxied).toBe(direct);
  await expect.poll(() => connections(at.legacy)).toBe(0);
});
