import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Bed, dial, proxyBed, rawLegacy } from '../bed/proxy-bed.js';
import { upgradeRequest } from '../bed/socket-io.js';

let bed: Bed;
let legacy: Awaited<ReturnType<typeof rawLegacy>>;
let closed = 0;
beforeAll(async () => {
  legacy = await rawLegacy((socket) => {
    socket.once('end', () => socket.destroy());
    socket.once('close', () => closed++);
    socket.once('data', () => socket.write('HTTP/1.1 403 Forbidden\r\nContent-Length: 100000\r\n\r\nno'));
  });
  bed = await proxyBed([legacy.url]);
});
afterAll(async () => {
  await bed.close();
  legacy.close();
});

test('refused-upgrade-reset: a browser that resets while its upgrade is refused harms nobody', async () => {
  for (const path of ['/socket.io/?EIO=4&transport=websocket', '/elsewhere']) {
    for (let i = 0; i < 25; i++) {
      const browser = await dial(bed.port);
      browser.write(upgradeRequest(path));
      if (i % 2) await new Promise((resolve) => browser.once('data', resolve));
      browser.resetAndDestroy();
    }
  }
  await expect.poll(() => closed).toBeGreaterThanOrEqual(24);
  expect(bed.signals.events.filter(({ what }) => what === 'internalError')).toEqual([]);
});
