import { once } from 'node:events';
import { expect, test } from 'vitest';
import { dial } from '../bed/proxy-bed.js';
import { stage, upgradeRequest } from '../bed/socket-io.js';

test('first-request-is-ws: a fresh proxy answers an upgrade with 101', async () => {
  const at = await stage();
  const browser = await dial(at.bed.port);
  browser.write(upgradeRequest('/socket.io/?EIO=4&transport=websocket'));
  const [answer] = (await once(browser, 'data')) as [Buffer];
  expect(answer.toString('latin1')).toMatch(/^HTTP\/1.1 101 Switching Protocols\r\n/);
  browser.destroy();
  await at.close();
});
