import net from 'node:net';
import { describe, expect, it } from 'vitest';
import { raw, tokens, tokensText, useBeds } from './admin.fixture.js';

const { started } = useBeds();
const toNew = { target: 'calls', mode: 'new', reason: 'all of it' };

describe('who may do what', () => {
  const operating = ['set', 'apply', 'rollback', 'legacy'].map((name) => `/api/routes/${name}`);

  it('read looks, operate changes, and its name is the actor whatever the header says', async () => {
    const bed = await started({ tokensText });
    for (const path of ['/api/status', '/api/routes', '/api/routes/history', '/api/calls', '/api/live']) {
      expect((await bed.ask(path)).status, path).toBe(401);
      for (const token of [tokens.read, tokens.operate]) expect((await bed.ask(path, { token })).status).toBe(200);
    }
    const told = async (token: string) => (await bed.ask('/api/status', { token })).body.you;
    expect(await told(tokens.read)).toEqual({ actor: 'looker', kind: 'read' });
    expect(await told(tokens.operate)).toEqual({ actor: 'olga', kind: 'operate' });
    const looked = await bed.ask('/api/routes/diff', { token: tokens.read, body: { yaml: 'namespaces: {}' } });
    expect(looked.status).toBe(200);
    for (const path of [...operating, '/api/calls/x/end']) {
      const told = await bed.ask(path, { token: tokens.read, body: {} });
      expect(told, path).toMatchObject({ status: 403, body: { error: 'forbidden' } });
    }
    const made = await bed.ask('/api/routes/set', {
      token: tokens.operate,
      body: toNew,
      headers: { 'x-sigfig-actor': 'somebody else', 'x-sigfig-client': 'dashboard' },
    });
    expect(made.body.version).toMatchObject({ actor: 'olga', via: 'dashboard' });
  });

  it('where no token is asked for, whoever asks may operate, under the name they give', async () => {
    const bed = await started();
    expect((await bed.ask('/api/status')).body.you).toEqual({ actor: 'local', kind: 'operate' });
    const named = await bed.ask('/api/status', { headers: { 'x-sigfig-actor': 'olga' } });
    expect(named.body.you).toEqual({ actor: 'olga', kind: 'operate' });
  });

  it.each(['guard', 'file', 'start', 'sigfig', 'GUARD'])('nobody may pass for %s in the history', async (actor) => {
    const bed = await started();
    const told = await bed.ask('/api/routes/set', { body: toNew, headers: { 'x-sigfig-actor': actor } });
    expect(told).toMatchObject({ status: 400, body: { problems: [expect.stringContaining("sigfig's own name")] } });
    expect(bed.routes.current.version).toBe(1);
  });

  it('401 says how, and shows no token', async () => {
    const bed = await started({ tokensText });
    for (const authorization of ['', 'Bearer', `Basic ${tokens.operate}`, `Bearer ${tokens.operate}x`, 'Bearer a b']) {
      const told = await bed.ask('/api/status', { headers: { authorization } });
      expect(told).toMatchObject({ status: 401, body: { error: 'unauthorized' } });
      expect(told.headers.get('www-authenticate')).toBe('Bearer realm="sigfig"');
      expect(JSON.stringify([told.body, bed.signals.events])).not.toContain(tokens.operate);
    }
  });

  it('threat: guessing. Ten tries at once are answered, then one a second; the right token gets in all the same', async () => {
    const bed = await started({ tokensText });
    const guesses = await Promise.all(
      Array.from({ length: 40 }, (_, i) => bed.ask('/api/status', { token: `guess-number-${i}-of-many` })),
    );
    const refused = guesses.filter(({ status }) => status === 401).length;
    expect(refused).toBeGreaterThanOrEqual(10);
    expect(refused).toBeLessThan(15);
    expect(guesses.filter(({ status }) => status === 429)).toHaveLength(40 - refused);
    expect((await bed.ask('/api/status', { token: tokens.read })).status).toBe(200);
  });

  it('what is not there is told to those only who may ask', async () => {
    const bed = await started({ tokensText });
    expect((await bed.ask('/api/none')).status).toBe(401);
    expect((await bed.ask('/api/none', { token: tokens.read })).body.error).toBe('not-found');
    for (const [path, method, allow] of [
      ['/api/status', 'POST', 'GET'],
      ['/api/status', 'HEAD', 'GET'],
      ['/api/live/stream', 'HEAD', 'GET'],
      ['/api/routes/set', 'GET', 'POST'],
      ['/api/routes/set', 'OPTIONS', 'POST'],
      ['/api/calls/x', 'DELETE', 'GET'],
    ] as const) {
      const told = await bed.ask(path, { method, token: tokens.operate });
      expect([told.status, told.headers.get('allow')], `${method} ${path}`).toEqual([405, allow]);
    }
  });
});

describe('threat: a page of another site', () => {
  const json = { 'content-type': 'application/json' };
  const body = '{"reason":"x"}';

  it('whose name was made to point here (DNS rebinding) reads or changes something', async () => {
    const bed = await started();
    for (const host of [
      'evil.example',
      `evil.example:${bed.port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '10.0.0.1',
    ]) {
      expect(await raw(bed, '/api/status', { host }), host).toBe(403);
      expect(await raw(bed, '/', { host }), host).toBe(403);
      expect(await raw(bed, '/api/routes/legacy', { host, ...json }, 'POST', body), host).toBe(403);
    }
    for (const host of [`127.0.0.1:${bed.port}`, 'localhost', 'LOCALHOST:9900', '[::1]:9900', '127.1.2.3']) {
      expect(await raw(bed, '/api/status', { host }), host).toBe(200);
    }
  });

  it('sends a form or a fetch without asking first', async () => {
    const bed = await started();
    const host = `127.0.0.1:${bed.port}`;
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data',
      'application/jsonp',
      '',
    ]) {
      expect(await raw(bed, '/api/routes/legacy', { host, 'content-type': type }, 'POST', body), type).toBe(415);
    }
    for (const origin of ['https://evil.example', 'null', `http://localhost:${bed.port}`, 'http://127.0.0.1:1']) {
      expect(await raw(bed, '/api/routes/legacy', { host, ...json, origin }, 'POST', body), origin).toBe(403);
    }
    for (const site of ['cross-site', 'same-site']) {
      expect(await raw(bed, '/api/live/stream', { host, 'sec-fetch-site': site }), site).toBe(403);
    }
    const own = { host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' };
    expect(await raw(bed, '/api/routes/legacy', { ...own, ...json }, 'POST', body)).toBe(200);
  });

  it('with tokens any name may be used, as behind an ingress, but the page must be its own', async () => {
    const bed = await started({ tokensText });
    const host = 'sigfig.internal.example';
    const authorization = `Bearer ${tokens.read}`;
    expect(await raw(bed, '/api/status', { host, authorization })).toBe(200);
    expect(await raw(bed, '/api/status', { host, authorization, origin: `https://${host}` })).toBe(200);
    expect(await raw(bed, '/api/status', { host, authorization, origin: 'https://evil.example' })).toBe(403);
  });

  it('gets no CORS header', async () => {
    const bed = await started();
    const told = await bed.ask('/api/status', {
      method: 'OPTIONS',
      headers: { 'access-control-request-method': 'POST' },
    });
    expect([...told.headers.keys()].filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('threat: one connection', () => {
  it('asks without waiting for answers', async () => {
    const bed = await started();
    const socket = net.connect(bed.port, '127.0.0.1');
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
    socket.on('error', () => socket.destroy());
    socket.resume();
    socket.write('GET /api/status HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n'.repeat(500));
    await closed;
    expect((await bed.ask('/api/status')).status).toBe(200);
  });

  it('is asked for probes over and over: they are right, and late', async () => {
    const bed = await started();
    const since = performance.now();
    const answers = await Promise.all(Array.from({ length: 110 }, () => bed.ask('/healthz')));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    expect(performance.now() - since).toBeGreaterThan(200);
  });
});
