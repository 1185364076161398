// The admin API as a whole, by HTTP: calls, the history, the stream, and the page that it serves.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { call, fakeCalls, raw, tokens, tokensText, useBeds } from './admin.fixture.js';
import { dashboardPages } from './pages.js';

const { closing, started } = useBeds();
const toNew = { target: 'calls', mode: 'new', reason: 'all of it' };

describe('calls', () => {
  it('are listed, shown and ended', async () => {
    const bed = await started({
      calls: fakeCalls([call('a', 'new'), call('b', 'legacy'), call('c', 'new', '/calls')]),
    });
    expect((await bed.ask('/api/calls?path=new&namespace=/calls')).body).toMatchObject({
      total: 1,
      calls: [{ id: 'c' }],
    });
    expect((await bed.ask('/api/calls?limit=1')).body).toMatchObject({ total: 3, calls: [{ id: 'a' }] });
    expect((await bed.ask('/api/calls/a')).body).toMatchObject({ namespace: '/', timeline: [{ event: 'call-offer' }] });
    expect((await bed.ask('/api/calls/a/end', { body: { reason: 'stuck' } })).body).toEqual({ id: 'a', ended: true });
    expect((await bed.ask('/api/calls/a/end', { body: {} })).status).toBe(404);
    expect((await bed.ask('/api/calls/b/end', { body: {} })).body.error).toBe('legacy-call');
    expect(bed.signals.events.filter(({ what }) => what === 'operated').map(({ args }) => args[0])).toEqual([
      { actor: 'local', via: 'api', did: 'end call a', reason: 'stuck' },
    ]);
  });

  it('are known by how their id begins, from 4 characters on and where no other begins so', async () => {
    const ids = ['8c1f-1', '8c1f-2', '8c1e-1', '77', '7777'];
    const bed = await started({ calls: fakeCalls(ids.map((id) => call(id, 'new'))) });
    expect((await bed.ask('/api/calls/8c1e')).body).toMatchObject({ id: '8c1e-1', namespace: '/' });
    // An exact one is no beginning.
    expect((await bed.ask('/api/calls/77')).body).toMatchObject({ id: '77' });
    expect((await bed.ask('/api/calls/777')).status).toBe(404);
    for (const told of [await bed.ask('/api/calls/8c1f'), await bed.ask('/api/calls/8c1f/end', { body: {} })]) {
      expect(told.status).toBe(404);
      expect(told.body.problems).toEqual([
        'the ids of 2 calls begin with "8c1f"; write more of it, as "sigfig calls list" shows it',
      ]);
    }
    expect(bed.calls.all).toHaveLength(ids.length);
    expect((await bed.ask('/api/calls/8c1f-2/end', { body: {} })).body).toEqual({ id: '8c1f-2', ended: true });
    expect((await bed.ask('/api/calls/8c1f/end', { body: {} })).body).toEqual({ id: '8c1f-1', ended: true });
    expect((await bed.ask('/api/calls/8c1f')).body.problems).toEqual([
      'no call "8c1f" is known; "sigfig calls list" shows the live ones',
    ]);
  });
});

describe('the history', () => {
  it('of large tables comes in pages of a bounded size', async () => {
    const bed = await started();
    const users = Array.from({ length: 1_000 }, (_, i) => `user-${i}-${'x'.repeat(80)}`);
    for (let i = 1; i <= 12; i++) {
      await bed.routes.change(
        { kind: 'set', ns: '/', target: 'call-lifecycle', route: { mode: 'canary', canary: { percent: i, users } } },
        { actor: 'x', via: 'api', reason: 'x' },
      );
    }
    const first = await bed.ask('/api/routes/history?limit=200');
    expect(first.body.more).toBe(true);
    expect(first.body.versions.length).toBeLessThan(10);
    const all: number[] = [];
    for (let before = 1_000; before > 1; ) {
      const { versions } = (await bed.ask(`/api/routes/history?limit=200&before=${before}`)).body;
      all.push(...versions.map(({ version }: { version: number }) => version));
      before = versions.at(-1).version;
    }
    expect(all).toEqual([13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
  });
});

describe('the stream', () => {
  it('shows a flip at once, and ends with its token', async () => {
    const bed = await started({ tokensText });
    const response = await fetch(`${bed.url}/api/live/stream`, { headers: { authorization: `Bearer ${tokens.read}` } });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    const until = async (what: RegExp) => {
      while (!what.test(text)) {
        const { value, done } = await reader.read();
        if (done) throw new Error(`ended before ${what}`);
        text += value;
      }
    };
    await until(/"version":1/);
    await bed.ask('/api/routes/set', { token: tokens.operate, body: toNew });
    await until(/"version":2/);
    await writeFile(bed.tokensFile!, `operate olga ${tokens.operate}\n`);
    await expect(until(/never/)).rejects.toThrow();
  });
});

describe('the dashboard', () => {
  it('is served from memory with a strict policy, and tells where it is not built', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'sigfig-pages-'));
    closing.push(() => rm(folder, { recursive: true }));
    const at = join(folder, 'dashboard');
    const bed = await started({ tokensText, pages: dashboardPages(at) });
    const missing = await bed.ask('/');
    expect(missing.status).toBe(503);
    expect(missing.body).toContain('npm run build');
    await mkdir(join(at, 'assets'), { recursive: true });
    await writeFile(join(folder, 'secret.js'), 'outside');
    await writeFile(join(at, 'index.html'), '<!doctype html>page');
    await writeFile(join(at, 'assets', 'index-1.js'), 'code()');
    const page = await bed.ask('/');
    expect(page).toMatchObject({ status: 200, body: '<!doctype html>page' });
    expect(page.headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; script-src 'self';.*frame-ancestors 'none'$/,
    );
    expect(page.headers.get('x-content-type-options')).toBe('nosniff');
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    expect(page.headers.get('cache-control')).toBe('no-cache');
    const script = await bed.ask('/assets/index-1.js');
    expect([script.status, script.headers.get('content-type')]).toEqual([200, 'text/javascript; charset=utf-8']);
    expect(script.headers.get('cache-control')).toContain('immutable');
    expect((await fetch(bed.url, { method: 'HEAD' })).status).toBe(200);
    for (const path of [
      '/index.html/',
      '/assets/',
      '/assets/none.js',
      '/secret.js',
      '/assets/../../secret.js',
      '/assets/%2e%2e/%2e%2e/secret.js',
      '/..%2fsecret.js',
    ]) {
      expect(await raw(bed, path, {}), path).toBe(404);
    }
    expect((await bed.ask('/', { method: 'POST', body: {} })).status).toBe(405);
  });
});
