import { expect, it } from 'vitest';
import { measureLag } from './lag.js';

it('shows how long a busy turn kept everybody waiting, and next to nothing where none did', async () => {
  const lag = measureLag();
  const turns = (n: number) => new Promise<void>((done) => setTimeout(done, n));
  await turns(100);
  const calm = lag.p99Ms();
  const until = performance.now() + 400;
  while (performance.now() < until);
  await turns(100);
  expect(lag.p99Ms()).toBeGreaterThan(300);
  expect(calm).toBeLessThan(lag.p99Ms());
  lag.close();
});
