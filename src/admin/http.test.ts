import { afterEach, describe, expect, test } from 'vitest';
import { CannotStart } from '../base/cannot-start.js';
import { type Bed, startBed, tokensText } from './admin.fixture.js';
import type { Readiness } from './http.js';

const open: Bed[] = [];
afterEach(async () => {
  for (const bed of open.splice(0)) await bed.close();
});
const errors: unknown[] = [];
const started = async (isReady: () => Readiness, more: Parameters<typeof startBed>[0] = {}) => {
  const admin = await startBed({ isReady, onError: (error) => errors.push(error), ...more });
  open.push(admin);
  return admin;
};
const ready = () => ({ ready: true, reasons: [] });

describe('health and readiness', () => {
  test('ready, then draining, then still alive', async () => {
    let readiness: Readiness = { ready: true, reasons: [] };
    const admin = await started(() => readiness);
    expect(await admin.ask('/readyz')).toMatchObject({ status: 200, body: { ready: true, reasons: [] } });
    readiness = { ready: false, reasons: ['draining', 'no legacy is reachable'] };
    expect(await admin.ask('/readyz?verbose')).toMatchObject({ status: 503, body: readiness });
    expect(await admin.ask('/healthz')).toMatchObject({ status: 200, body: { alive: true } });
  });

  test('a probe of something that breaks is told "not ready" and does no harm', async () => {
    const broken = new Error('broken');
    const admin = await started(() => {
      throw broken;
    });
    expect(await admin.ask('/readyz')).toMatchObject({
      status: 503,
      body: { ready: false, reasons: ['internal error'] },
    });
    expect(errors).toContain(broken);
    expect((await admin.ask('/healthz')).status).toBe(200);
  });

  test('ask for no token, whatever name they are asked by', async () => {
    const admin = await started(ready, { tokensText });
    for (const path of ['/healthz', '/readyz']) {
      expect((await admin.ask(path, { headers: { host: 'sigfig.example' } })).status).toBe(200);
    }
  });

  test('other methods are answered in JSON', async () => {
    const admin = await started(ready);
    expect((await admin.ask('/healthz', { method: 'POST', body: 'x' })).status).toBe(405);
    expect((await fetch(`${admin.url}/healthz`, { method: 'HEAD' })).status).toBe(200);
  });

  test('closing does not wait for a probe that keeps its connection', async () => {
    const admin = await started(ready);
    await admin.ask('/healthz');
    await admin.close();
    open.splice(0);
    await expect(fetch(`${admin.url}/healthz`)).rejects.toThrow();
  });
});

describe('where it listens', () => {
  for (const host of ['0.0.0.0', '::']) {
    test(`threat: ${host} without tokens would let everybody operate`, async () => {
      const starting = started(ready, { listen: { host, port: 0 } });
      await expect(starting).rejects.toThrow(CannotStart);
      await expect(starting).rejects.toThrow(/--admin-tokens FILE.*or listen on 127\.0\.0\.1/);
    });
  }

  for (const host of ['localhost', '127.0.0.2']) {
    test(`${host} needs none`, async () => {
      const admin = await started(ready, { listen: { host, port: 0 } });
      expect((await admin.ask('/api/status')).status).toBe(200);
    });
  }

  test('elsewhere it starts with tokens', async () => {
    const admin = await started(ready, { listen: { host: '0.0.0.0', port: 0 }, tokensText });
    const local = `http://127.0.0.1:${admin.port}`;
    expect((await fetch(`${local}/healthz`)).status).toBe(200);
    expect((await fetch(`${local}/api/status`)).status).toBe(401);
  });

  test('a name that nobody knows is told as one', async () => {
    await expect(started(ready, { listen: { host: 'no-such-host.invalid', port: 0 } })).rejects.toMatchObject({
      syscall: 'getaddrinfo',
      hostname: 'no-such-host.invalid',
    });
  });
});

describe('a stream', () => {
  test('outlives the time limits of the listener', async () => {
    const admin = await started(ready);
    const response = await fetch(`${admin.url}/api/live/stream`);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    const since = performance.now();
    let text = '';
    while (text.split('event: live').length <= 6) {
      const { value, done } = await reader.read();
      if (done) throw new Error('the stream ended');
      text += value;
    }
    // Requests, heads and idle connections have 3 s.
    expect(performance.now() - since).toBeGreaterThan(4_000);
    await reader.cancel();
  });
});
