import { afterEach, describe, expect, test } from 'vitest';
import type { Listening } from '../telemetry/listen.js';
import { type Readiness, startAdmin } from './http.js';

const open: Listening[] = [];
afterEach(async () => {
  for (const listening of open.splice(0)) await listening.close();
});
const errors: unknown[] = [];
const started = async (isReady: () => Readiness) => {
  const admin = await startAdmin({
    listen: { host: '127.0.0.1', port: 0 },
    isReady,
    onError: (error) => errors.push(error),
  });
  open.push(admin);
  return admin;
};
const get = async (admin: Listening, path: string, init?: RequestInit) => {
  const response = await fetch(admin.url + path, init);
  return { status: response.status, body: await response.json() };
};

describe('health and readiness', () => {
  test('ready, then draining, then still alive', async () => {
    let readiness: Readiness = { ready: true, reasons: [] };
    const admin = await started(() => readiness);
    expect(await get(admin, '/readyz')).toEqual({ status: 200, body: { ready: true, reasons: [] } });
    readiness = { ready: false, reasons: ['draining', 'no legacy is reachable'] };
    expect(await get(admin, '/readyz?verbose')).toEqual({ status: 503, body: readiness });
    expect(await get(admin, '/healthz')).toEqual({ status: 200, body: { alive: true } });
  });

  test('a probe of something that breaks is told "not ready" and does no harm', async () => {
    const broken = new Error('broken');
    const admin = await started(() => {
      throw broken;
    });
    expect(await get(admin, '/readyz')).toEqual({ status: 503, body: { ready: false, reasons: ['internal error'] } });
    expect(errors).toContain(broken);
    expect((await get(admin, '/healthz')).status).toBe(200);
  });

  test('other paths and methods are answered in JSON', async () => {
    const admin = await started(() => ({ ready: true, reasons: [] }));
    expect(await get(admin, '/')).toEqual({
      status: 404,
      body: { error: 'not found', paths: ['/healthz', '/readyz'] },
    });
    expect((await get(admin, '/healthz', { method: 'POST', body: 'x' })).status).toBe(405);
    expect((await fetch(`${admin.url}/healthz`, { method: 'HEAD' })).status).toBe(200);
  });

  test('closing does not wait for a probe that keeps its connection', async () => {
    const admin = await started(() => ({ ready: true, reasons: [] }));
    await get(admin, '/healthz');
    await admin.close();
    await expect(fetch(`${admin.url}/healthz`)).rejects.toThrow();
  });
});
