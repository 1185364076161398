import { afterAll, beforeAll, expect, test } from 'vitest';
import { dial, raw } from '../bed/proxy-bed.js';
import { connections, type Stage, stage } from '../bed/socket-io.js';

let at: Stage;
beforeAll(async () => {
  at = await stage();
});
afterAll(() => at.close());

const H2C =
  'GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n';

test('h2c: refused, never tunnelled, and a reset right after harms nobody', async () => {
  expect(await raw(at.bed.port, H2C)).toMatch(/^HTTP\/1.1 400 .*\{"error":"h2c is not offered"\}$/s);
  for (let i = 0; i < 20; i++) {
    const browser = await dial(at.bed.port);
    browser.write(H2C);
    browser.resetAndDestroy();
  }
  expect(await raw(at.bed.port, 'GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')).toMatch(/^HTTP\/1.1 404 /);
  expect(await connections(at.legacy)).toBeLessThanOrEqual(1);
});
