import { once } from 'node:events';
import net from 'node:net';
import { describe, expect, it } from 'vitest';
import { call, fakeCalls, useBeds } from './admin.fixture.js';
import { described } from './described.fixture.js';
import { callStates } from './requests.js';

const { started } = useBeds();

describe('input', () => {
  it('that is not known is refused, each thing in a line', async () => {
    const bed = await started();
    const told = await bed.ask('/api/routes/set', {
      body: '{"target":"calls","mode":"shadow","percent":"5","users":["a",7],"colour":1,"__proto__":{"dryRun":true},"guard":{"x":1}}',
    });
    expect(told.status).toBe(400);
    expect(told.body.problems).toEqual([
      'mode shadow is planned; this version knows legacy, new and canary',
      'percent must be a number from 0 to 100',
      'each of users must be a text',
      'unknown field "guard.x"; see /api/openapi.json',
      expect.stringMatching(/^unknown field "colour"; known are reason, ifVersion/),
      expect.stringMatching(/^unknown field "__proto__"/),
    ]);
    expect(bed.routes.current.version).toBe(1);
  });

  it.each([
    ['percent', 101, 'percent is over 100'],
    ['percent', 0.125, 'percent has over two decimals'],
    ['percent', -1, 'percent is below 0'],
    ['namespace', 'calls', 'namespace must begin with /'],
    ['ifVersion', 1.5, 'ifVersion must be a whole number'],
    ['ifVersion', 0, 'ifVersion must be 1 or more'],
    ['dryRun', 'yes', 'dryRun must be true or false'],
    ['fallback', 'none', 'fallback must be legacy or refuse'],
    ['guard', 7, 'guard must be off, or an object of limits'],
    ['guard', { maxErrors: 2 }, 'guard.maxErrors is over 1'],
    ['users', 'alice', 'users must be a list of texts'],
    ['target', '', 'target is empty'],
  ])('%s %j', async (field, value, line) => {
    const bed = await started();
    const told = await bed.ask('/api/routes/set', {
      body: { target: 'calls', mode: 'canary', reason: 'x', [field]: value },
    });
    expect(told).toMatchObject({ status: 400, body: { problems: [expect.stringContaining(line)] } });
  });

  it.each(['', '{', '[]', '"x"', 'null', '7', '\u0000'])('body %j is refused', async (body) => {
    const bed = await started();
    expect((await bed.ask('/api/routes/legacy', { method: 'POST', body })).status).toBe(400);
    expect(bed.routes.current.version).toBe(1);
  });

  it.each([
    'limit=0',
    'limit=501',
    'limit=x',
    'limit=1&limit=2',
    'path=both',
    'state=a%20b',
    'colour=red',
    'namespace=x',
  ])('calls?%s is refused', async (query) => {
    const bed = await started();
    expect((await bed.ask(`/api/calls?${query}`)).status).toBe(400);
  });

  it('a state that there is none of is told with those that there are', async () => {
    const bed = await started();
    for (const state of ['RINGING', 'ENDED', 'connected', '']) {
      const told = await bed.ask(`/api/calls?state=${state}`);
      expect(told).toMatchObject({ status: 400, body: { error: 'invalid' } });
      expect(told.body.problems).toEqual([
        'state must be one of OFFERING, CONNECTED, RENEGOTIATING, AWAITING_REJOIN, UNKNOWN',
      ]);
    }
    for (const state of callStates) expect((await bed.ask(`/api/calls?state=${state}`)).status).toBe(200);
    const [, schema] = described.paths['/api/calls']?.get?.parameters?.map(({ schema }) => schema) ?? [];
    expect(schema).toEqual({ enum: [...callStates] });
  });

  it('of any size is answered, and never kept whole', async () => {
    const bed = await started();
    for (const kilobytes of [257, 1_000, 3_000]) {
      const told = await bed.ask('/api/routes/legacy', { body: { reason: 'x'.repeat(kilobytes * 1024) } });
      expect(told, `${kilobytes}`).toMatchObject({ status: 413, body: { error: 'too-large' } });
    }
  });

  it('that ends early is no fault of ours', async () => {
    const bed = await started();
    const socket = net.connect(bed.port, '127.0.0.1');
    const head = 'POST /api/routes/legacy HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n';
    await once(socket, 'connect');
    await new Promise((written) => socket.write(`${head}Content-Length: 100\r\n\r\n{"rea`, written));
    const refused = () => bed.signals.events.filter(({ what }) => what === 'operatorRefused').length;
    socket.destroy();
    await expect.poll(refused, { timeout: 10_000 }).toBe(1);
    expect(bed.signals.events.map(({ what }) => what)).not.toContain('internalError');
  });

  it('an id may hold anything', async () => {
    const bed = await started({ calls: fakeCalls([call('a/b ü', 'new')]) });
    expect((await bed.ask(`/api/calls/${encodeURIComponent('a/b ü')}`)).body.id).toBe('a/b ü');
    for (const id of ['..', '%2e%2e', '%00', '%ff', "<script>'"]) {
      const { status } = await bed.ask(`/api/calls/${id}`);
      expect([404, 400], id).toContain(status);
    }
  });
});
