// The admin listener of the built command: what keeps it from starting, and that nothing asked there holds up a call.
import { writeFile } from 'node:fs/promises';
import http from 'node:http';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../harness.js';
import { type Processes, processes, start } from '../processes.js';

let all: Processes;
let legacy: Awaited<ReturnType<Processes['legacy']>>;
const tokens = { read: 'a-token-that-reads-0123456789', operate: 'a-token-that-operates-0123456789' };
let tokensFile: string;
beforeAll(async () => {
  all = await processes();
  legacy = await all.legacy();
  tokensFile = join(all.folder, 'tokens');
  await writeFile(tokensFile, `read looker ${tokens.read}\noperate olga ${tokens.operate}\n`);
});
afterAll(() => all.close());

const noRoutes = 'namespaces: {}\n';

/** The longest of many rounds of a browser's own event through the proxy while `work` goes on; milliseconds. */
async function slowest(url: string, work: Promise<unknown>): Promise<{ longest: number; median: number }> {
  const client = await connect(url, 'patient', { transports: ['websocket'] });
  let going = true;
  void work.finally(() => {
    going = false;
  });
  const rounds: number[] = [];
  while (going) {
    const since = performance.now();
    await client.ask('whoami');
    rounds.push(performance.now() - since);
  }
  client.close();
  rounds.sort((a, b) => a - b);
  return { longest: rounds.at(-1) ?? 0, median: rounds[Math.floor(rounds.length / 2)] ?? 0 };
}

describe('starting', () => {
  it.each(['0.0.0.0:0', '[::]:0'])('threat: on %s without tokens everybody would operate', async (at) => {
    const args = ['--legacy', legacy.url, '--jwt-secret-file', all.secretFile, '--admin', at];
    const starting = start('src/cli/sigfig.js', [
      'start',
      '--listen',
      '127.0.0.1:0',
      '--metrics',
      '127.0.0.1:0',
      ...args,
    ]);
    await expect(starting).rejects.toThrow(/ended \(2\).*nobody needs a token there; give --admin-tokens FILE/s);
  });

  it('with tokens it listens anywhere, and no token gets into its log', async () => {
    const proxy = await all.proxy(legacy.url, noRoutes, [
      '--admin',
      '0.0.0.0:0',
      '--admin-tokens',
      tokensFile,
      '--log-level',
      'trace',
    ]);
    const admin = `http://127.0.0.1:${new URL(proxy.admin).port}`;
    expect((await fetch(`${admin}/readyz`)).status).toBe(200);
    const ask = (token: string, path: string, body?: object) =>
      fetch(admin + path, {
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
      });
    expect((await ask('a-wrong-token-0123456789', '/api/status')).status).toBe(401);
    const status = await ask(tokens.read, '/api/status');
    expect(status.status).toBe(200);
    // Alone: nothing is shared, so there is no lease.
    expect(await status.json()).toMatchObject({ redis: null, instances: [{ self: true, leaseAgeMs: null }] });
    expect((await ask(tokens.read, '/api/routes/legacy', {})).status).toBe(403);
    const body = { target: 'ice-candidate', mode: 'new', reason: 'a test' };
    expect((await ask(tokens.operate, '/api/routes/set', body)).status).toBe(200);
    expect(proxy.stderr()).toMatch(/"actor":"olga".*"did":"set → version 2"/);
    for (const token of [...Object.values(tokens), 'a-wrong-token-0123456789'])
      expect(proxy.stderr()).not.toContain(token);
    await proxy.kill();
  });
});

describe('threat: what is asked at the admin port holds up calls', () => {
  it('a routes file made to be slow to read', async () => {
    const proxy = await all.proxy(legacy.url, noRoutes);
    const diff = async (yaml: string) => {
      const response = await fetch(`${proxy.admin}/api/routes/diff`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ yaml }),
      });
      return response.status;
    };
    const since = performance.now();
    let took = 0;
    const work = diff('[a,'.repeat(80_000)).finally(() => {
      took = performance.now() - since;
    });
    const { longest } = await slowest(proxy.url, work);
    expect(await work).toBe(422);
    // Read on the event loop, it would be one long round.
    expect(longest).toBeLessThan(took / 2);
    await proxy.kill();
  });

  it('a flood of guesses', async () => {
    const proxy = await all.proxy(legacy.url, noRoutes, ['--admin-tokens', tokensFile]);
    const { hostname, port } = new URL(proxy.admin);
    const connections = 100;
    const agent = new http.Agent({ keepAlive: true, maxSockets: connections });
    let answered = 0;
    const guess = () =>
      new Promise<void>((resolve) => {
        const headers = { authorization: `Bearer guess-number-${answered}-0123456789` };
        const request = http.get({ hostname, port, path: '/api/status', agent, headers }, (response) => {
          answered++;
          response.resume();
          response.once('end', resolve);
        });
        request.once('error', () => resolve());
      });
    const until = performance.now() + 2_000;
    const attacker = async () => {
      while (performance.now() < until) await guess();
    };
    const since = performance.now();
    const work = Promise.all(Array.from({ length: connections }, attacker));
    const { median } = await slowest(proxy.url, work);
    const seconds = (performance.now() - since) / 1_000;
    // Each waits a quarter of a second for its refusal.
    expect(answered / seconds).toBeLessThan(connections * 4 + 20);
    expect(median).toBeLessThan(250);
    const right = await fetch(`${proxy.admin}/api/status`, { headers: { authorization: `Bearer ${tokens.read}` } });
    expect(right.status).toBe(200);
    agent.destroy();
    await proxy.kill();
  });
});
