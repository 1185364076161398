import { afterEach, describe, expect, it } from 'vitest';
import { type Bed, startBed } from './admin.fixture.js';

const beds: Bed[] = [];
afterEach(async () => {
  for (const bed of beds.splice(0)) await bed.close();
});
const started = async (options?: Parameters<typeof startBed>[0]) => {
  const bed = await startBed(options);
  beds.push(bed);
  return bed;
};

describe('routes', () => {
  it('are shown, set, and listed in the history', async () => {
    const bed = await started();
    const before = await bed.ask('/api/routes');
    expect(before).toMatchObject({ status: 200, body: { version: 1 } });
    const made = await bed.ask('/api/routes/set', {
      body: { target: 'call-lifecycle', mode: 'canary', percent: 5, users: ['alice'], reason: 'first share' },
      headers: { 'x-sigfig-client': 'cli', 'x-sigfig-actor': 'olga' },
    });
    expect(made).toMatchObject({
      status: 200,
      body: {
        changed: true,
        version: { version: 2, actor: 'olga', via: 'cli', reason: 'first share' },
        unwritten: null,
      },
    });
    const now = await bed.ask('/api/routes');
    expect(now.body.namespaces['/']['call-lifecycle']).toMatchObject({ mode: 'canary', canary: { percent: 5 } });
    const history = await bed.ask('/api/routes/history?limit=1');
    expect(history.body).toMatchObject({
      versions: [{ version: 2, differences: [{ group: 'call-lifecycle' }] }],
      more: true,
    });
    expect((await bed.ask('/api/status')).body).toMatchObject({ ready: true, routes: { version: 2 } });
  });
});
